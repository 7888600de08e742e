// SPDX-License-Identifier: (GPL-2.0 OR BSD-2-Clause)
//
// Turns probes around in the driver: what was sent to one of our addresses by a peer goes back to it, with the
// addresses exchanged and a hop less. Everything else passes. The form of a probe is that of `weir_sense::probe`.
//
// The few helpers and context fields used are declared here and in bpf.h, so that no kernel or libbpf headers are needed.

#include "bpf.h"

enum { PROBE = 253, V4_LEN = 28, V6_PAYLOAD = 8, TAGS_MAX = 2, PEERS_MAX = 1024 };
enum { REFLECTED = 0, REFUSED = 1 };

struct address {
	u32 word[4]; // in network byte order; IPv4 in the first, the others zero
};

// What is at an address: ours, or a peer's.
enum { OURS = 1, PEER = 2 };

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, PEERS_MAX);
	__type(key, struct address);
	__type(value, u32);
} addresses SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 2);
	__type(key, u32);
	__type(value, u64);
} counts SEC(".maps");

static void count(u32 which)
{
	u64 *n = bpf_map_lookup_elem(&counts, &which);

	if (n)
		__sync_fetch_and_add(n, 1);
}

static int is(const struct address *a, u32 what)
{
	u32 *found = bpf_map_lookup_elem(&addresses, a);

	return found && (*found & what);
}

// Whether a probe that was sent to us comes from a peer; -1 if it was not sent to us.
static int is_welcome(const struct address *from, const struct address *to)
{
	if (!is(to, OURS))
		return -1;
	if (is(from, PEER))
		return 1;
	count(REFUSED);
	return 0;
}

static void exchange_cards(u16 *mac)
{
	for (int i = 0; i < 3; i++) {
		u16 word = mac[i];

		mac[i] = mac[i + 3];
		mac[i + 3] = word;
	}
}

static u16 swab16(u16 v)
{
	return (u16)(v << 8 | v >> 8);
}

struct ipv4 {
	u8 version_ihl, tos;
	u16 len, id, fragment;
	u8 ttl, protocol;
	u16 checksum;
	u32 from, to;
	u8 payload[8];
};

static int reflect_ipv4(u8 *ip, u8 *end, u16 *mac)
{
	struct ipv4 *h = (void *)ip;

	if ((u8 *)(h + 1) > end || h->version_ihl != 0x45 || h->protocol != PROBE)
		return XDP_PASS;
	if (h->len != swab16(V4_LEN) || (h->fragment & swab16(0x3fff)) || h->ttl < 2)
		return XDP_PASS;
	struct address from = {{h->from}}, to = {{h->to}};
	int welcome = is_welcome(&from, &to);

	if (welcome <= 0)
		return welcome < 0 ? XDP_PASS : XDP_DROP;
	h->from = to.word[0];
	h->to = from.word[0];
	// RFC 1141: a hop less makes the sum 0x0100 less, so its complement that much more.
	u32 sum = (u32)swab16(h->checksum) + 0x0100;
	h->checksum = swab16((u16)(sum + (sum >> 16)));
	h->ttl--;
	exchange_cards(mac);
	count(REFLECTED);
	return XDP_TX;
}

struct ipv6 {
	u32 first;
	u16 len;
	u8 next, hops;
	struct address from, to;
	u8 payload[8];
} __attribute__((packed));

static int reflect_ipv6(u8 *ip, u8 *end, u16 *mac)
{
	struct ipv6 *h = (void *)ip;

	if ((u8 *)(h + 1) > end || h->next != PROBE || h->len != swab16(V6_PAYLOAD) || h->hops < 2)
		return XDP_PASS;
	struct address from = h->from, to = h->to;
	int welcome = is_welcome(&from, &to);

	if (welcome <= 0)
		return welcome < 0 ? XDP_PASS : XDP_DROP;
	h->from = to;
	h->to = from;
	h->hops--;
	exchange_cards(mac);
	count(REFLECTED);
	return XDP_TX;
}

SEC("xdp")
int reflect(struct xdp_md *ctx)
{
	u8 *data = (void *)(unsigned long)ctx->data, *end = (void *)(unsigned long)ctx->data_end;
	u8 *type = data + 12;

	if (data + 14 > end)
		return XDP_PASS;
	for (int i = 0; i < TAGS_MAX; i++) {
		u16 tag = *(u16 *)type;

		if (tag != swab16(0x8100) && tag != swab16(0x88a8))
			break;
		type += 4;
		if (type + 2 > end)
			return XDP_PASS;
	}
	u16 ethertype = *(u16 *)type;

	if (ethertype == swab16(0x0800))
		return reflect_ipv4(type + 2, end, (void *)data);
	if (ethertype == swab16(0x86dd))
		return reflect_ipv6(type + 2, end, (void *)data);
	return XDP_PASS;
}

char LICENSE[] SEC("license") = "Dual BSD/GPL";
