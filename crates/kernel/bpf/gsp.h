// SPDX-License-Identifier: (GPL-2.0 OR BSD-2-Clause)
//
// What the programs of this folder share: GSP (draft-lauten-aqm-gsp-03, adaptive and delay-based, as in
// crates/aqm/src/algorithms/gsp.rs), the epochs that the law is told of, the size of a packet on the wire, and
// its mark.
//
// Times are in nanoseconds. The layouts are those of `Control` and `State` in program.rs. The few helpers and
// fields used are declared here and in bpf.h, so that no kernel headers are needed.

#include "bpf.h"

#define INLINE static __attribute__((always_inline, unused))

// As if this program were not there: the next filter decides.
enum { TC_ACT_UNSPEC = -1, TC_ACT_SHOT = 2 };

// The context of a filter, as linux/bpf.h numbers its words.
struct __sk_buff {
	u32 len;
	u32 unused1[3];
	u32 protocol; // in network order
	u32 vlan_present;
	u32 unused2[34];
	u32 wire_len; // with the headers of each segment
	u32 gso_segs; // 0 where whoever made the packet did not count
	u64 unused3;
	u32 gso_size;
};

enum { BPF_HDR_START_NET = 1, BPF_F_RECOMPUTE_CSUM = 1 };

static long (*const bpf_skb_store_bytes)(struct __sk_buff *skb, u32 offset, const void *from, u32 len,
					 u64 flags) = (void *)9;
static long (*const bpf_l3_csum_replace)(struct __sk_buff *skb, u32 offset, u64 from, u64 to,
					 u64 size) = (void *)10;
static long (*const bpf_skb_load_bytes)(const struct __sk_buff *skb, u32 offset, void *to,
					u32 len) = (void *)26;
static long (*const bpf_skb_pull_data)(struct __sk_buff *skb, u32 len) = (void *)39;
static long (*const bpf_skb_load_bytes_relative)(const struct __sk_buff *skb, u32 offset, void *to, u32 len,
						 u32 from) = (void *)68;
static long (*const bpf_skb_ecn_set_ce)(struct __sk_buff *skb) = (void *)97;

struct control {
	u64 rate;        // of the queue, in bytes per nanosecond with 32 bits of fraction; 0 lets everything pass
	u64 interval_ns; // its timeout
	u64 tau_ns;      // its product with interval_ns fits 64 bits
	u64 max_cum_ns;
	u64 beat_ns;  // CLOCK_MONOTONIC of the process's last look
	u64 after_ns; // age at which it is stale; the largest number for never
	u64 clock_ns; // the time, in tests; 0 for the clock
	u64 above;    // the least `filling` whose delay is above the target
	u64 read;     // epochs that the process has read
	u32 alpha;    // with 16 bits of fraction
	u32 burst_rule;
	u32 ecn;
	int overhead; // bytes that a packet takes beside its frame
};

// What was seen between two signals: all that the law is told of it.
struct epoch {
	u64 start_ns;
	u64 end_ns;
	u64 arrived; // bytes, with those that were dropped
	u64 dropped; // bytes
	u64 least;   // the least `filling`; the largest number if there was none
	u64 empty;   // whether the queue ran empty
};

// Epochs that wait for the process to read them. While all are taken, the current one goes on.
#define EPOCHS 64

// Whether time below the threshold counts (section 4.3 of the draft).
enum { CLEAR, OVERFLOW, DRAIN };

struct state {
	struct bpf_spin_lock lock;
	u16 was_above;
	u16 guard;
	u64 filling; // what GSP compares: a size or a delay
	u64 last_ns;
	u64 last_update_ns;
	u64 expiry_ns;
	u64 cum_ns;
	u64 accepted_bytes;
	u64 accepted_packets; // segments
	u64 signals;          // marks and drops, by packets as they were handed over
	u64 drops;
	u64 empty_ns; // how long nothing waited
	struct epoch now;
	u64 epochs; // those that ended
	struct epoch ended[EPOCHS];
};

#if __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
#define NETWORK_ORDER(type) ((type) >> 8 | ((type) & 0xff) << 8)
#else
#define NETWORK_ORDER(type) (type)
#endif
// A gap that counts at most: with alpha it must fit 64 bits.
#define GAP_MAX (1ULL << 40)

// initial / (1 + cum / tau), to the nearest nanosecond.
INLINE u64 interval(const struct control *c, u64 cum)
{
	u64 sum = c->tau_ns + cum;

	return cum && sum ? (c->interval_ns * c->tau_ns + sum / 2) / sum : c->interval_ns;
}

// Time above the threshold against time below it, and the burst rule.
INLINE void update(struct state *s, const struct control *c, u64 now, u32 above, u32 empty, u32 overflow)
{
	u64 gap = now - s->last_update_ns;

	if (overflow)
		s->guard = OVERFLOW;
	if (s->guard == OVERFLOW && empty)
		s->guard = DRAIN;
	if (s->guard == DRAIN && above)
		s->guard = CLEAR;
	if (above && s->was_above) {
		gap = gap > GAP_MAX ? GAP_MAX : gap;
		s->cum_ns += (gap * c->alpha + (1 << 15)) >> 16;
	} else if (!above && !s->was_above && s->guard == CLEAR) {
		s->cum_ns = s->cum_ns > gap ? s->cum_ns - gap : 0;
	}
	// Also where the bound was lowered since the last packet.
	if (s->cum_ns > c->max_cum_ns)
		s->cum_ns = c->max_cum_ns;
	s->was_above = above;
	s->last_update_ns = now;
	if (c->burst_rule && empty)
		s->expiry_ns = now + interval(c, s->cum_ns);
}

// Whether GSP signals a packet that comes.
INLINE u32 signals(struct state *s, const struct control *c, u64 now, u32 empty)
{
	u32 above = s->filling >= c->above;

	update(s, c, now, above, empty, 0);
	if (!above || now <= s->expiry_ns)
		return 0;
	s->expiry_ns = now + interval(c, s->cum_ns);
	s->signals++;
	return 1;
}

// A signal ends the epoch, if there is room to keep it. One at the same instant belongs to the one before.
INLINE void end_epoch(struct state *s, const struct control *c, u64 now)
{
	if (s->epochs - c->read >= EPOCHS || now <= s->now.start_ns)
		return;
	s->now.end_ns = now;
	s->ended[s->epochs & (EPOCHS - 1)] = s->now;
	s->epochs++;
	s->now.start_ns = now;
	s->now.arrived = 0;
	s->now.dropped = 0;
	s->now.least = ~0ULL;
	s->now.empty = 0;
}

// The time, if somebody looks after this queue; 0 where every packet is to pass.
INLINE u64 present(const struct control *c)
{
	u64 now = c->clock_ns ? c->clock_ns : bpf_ktime_get_ns();

	// The beat may be a little ahead: it was read on another processor.
	return c->rate && (long long)(now - c->beat_ns) < (long long)c->after_ns ? now : 0;
}

// What so many segments take, with what counts beside their frames.
INLINE u64 taken(const struct control *c, u64 wire_len, u32 tagged, u32 segments)
{
	long long bytes = (long long)wire_len + (long long)(c->overhead + (tagged ? 4 : 0)) * segments;

	return bytes > 0 ? bytes : 0;
}

// Length of the IP header and the one behind it; 0 where there is none.
INLINE u32 headers_of(const struct __sk_buff *skb)
{
	u8 head[10], offset;
	u32 ip, protocol;

	if (bpf_skb_load_bytes_relative(skb, 0, head, sizeof(head), BPF_HDR_START_NET))
		return 0;
	ip = head[0] >> 4 == 4 ? (head[0] & 15) * 4 : 40;
	protocol = head[0] >> 4 == 4 ? head[9] : head[6];
	if (protocol != 6)
		return ip + 8;
	if (bpf_skb_load_bytes_relative(skb, ip + 12, &offset, 1, BPF_HDR_START_NET))
		return 0;
	return ip + (offset >> 4) * 4;
}

// The packets that the interface will make of this one. Those who make offloaded packets outside of this
// kernel, as virtual machines and TUN do, leave the count to it. It has added the headers of each segment but
// the first to the length on the wire.
INLINE u32 segments_of(const struct __sk_buff *skb)
{
	u32 size = skb->gso_size, len = skb->len, added, above, headers, more;

	if (skb->gso_segs)
		return skb->gso_segs;
	if (!size || skb->wire_len <= len)
		return 1;
	added = skb->wire_len - len;
	above = headers_of(skb);
	// Below them are Ethernet with up to two VLAN tags, or nothing.
	for (more = 14; above && more <= 26; more += 4) {
		headers = above + (more == 26 ? 0 : more);
		if (added % headers == 0 && (len - headers + size - 1) / size == added / headers + 1)
			return added / headers + 1;
	}
	return (len + size - 1) / size;
}

// Sets CE in IP behind VLAN tags that are still in the frame, where the kernel's helper would write into the
// tag. False where there is no IP, or it is not ECN-capable.
INLINE u32 mark_tagged(struct __sk_buff *skb)
{
	u32 at = 12, tags;
	u16 type, before, after;
	u8 head[2];

	for (tags = 0; tags < 3; tags++) {
		if (bpf_skb_load_bytes(skb, at, &type, 2))
			return 0;
		if (type != NETWORK_ORDER(0x8100) && type != NETWORK_ORDER(0x88a8))
			break;
		at += 4;
	}
	at += 2;
	if (bpf_skb_load_bytes(skb, at, head, 2))
		return 0;
	__builtin_memcpy(&before, head, 2);
	if (type == NETWORK_ORDER(0x0800) && head[0] >> 4 == 4 && head[1] & 3) {
		head[1] |= 3;
		__builtin_memcpy(&after, head, 2);
		if (bpf_l3_csum_replace(skb, at + 10, before, after, 2))
			return 0;
		return !bpf_skb_store_bytes(skb, at, head, 2, 0);
	}
	if (type == NETWORK_ORDER(0x86dd) && head[0] >> 4 == 6 && head[1] & 0x30) {
		head[1] |= 0x30;
		return !bpf_skb_store_bytes(skb, at, head, 2, BPF_F_RECOMPUTE_CSUM);
	}
	return 0;
}

// Sets CE; false where the packet is not ECN-capable.
INLINE u32 mark(struct __sk_buff *skb)
{
	u8 version;

	switch (skb->protocol) {
	case NETWORK_ORDER(0x8100):
	case NETWORK_ORDER(0x88a8):
		return mark_tagged(skb);
	case NETWORK_ORDER(0x0800):
	case NETWORK_ORDER(0x86dd):
		if (bpf_skb_load_bytes_relative(skb, 0, &version, 1, BPF_HDR_START_NET))
			return 0;
		if (version >> 4 != (skb->protocol == NETWORK_ORDER(0x0800) ? 4 : 6))
			return 0;
		if (bpf_skb_ecn_set_ce(skb) == 1)
			return 1;
		// It is not capable, or shares its headers with copies, which this ends.
		return !bpf_skb_pull_data(skb, 0) && bpf_skb_ecn_set_ce(skb) == 1;
	}
	return 0;
}
