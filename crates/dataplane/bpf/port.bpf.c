// SPDX-License-Identifier: (GPL-2.0 OR BSD-2-Clause)
//
// What a port does with a frame before, during and after the life of the packet loop.
//
// While the loop's heartbeat is fresh, frames go to it: through AF_XDP (program `port_xdp`), or as copies
// through AF_PACKET: `port_copy` lets a copy through, and `port_tc`, which comes next on the same processor, discards
// the original then. Once the heartbeat is stale (the loop hangs or was stopped), or nobody takes copies any more (it was
// killed), `port_tc` sends every frame out of the peer port: the wire fails open, and no frame goes both ways.
//
// The few helpers and context fields used are declared here and in bpf.h, so that no kernel or libbpf headers are needed.

#include "bpf.h"

enum { BPF_F_MMAPABLE = 1 << 10 };
enum { TC_ACT_OK = 0, TC_ACT_SHOT = 2 };

static long (*const bpf_redirect)(u32 ifindex, u64 flags) = (void *)23;
static long (*const bpf_redirect_map)(void *map, u64 key, u64 flags) = (void *)51;
static long (*const bpf_xdp_adjust_meta)(void *ctx, int delta) = (void *)54;

// Shared with the packet loop, which maps it into its memory. The layout is that of `Control` in guard.rs.
struct control {
	u64 beat_ns;  // CLOCK_MONOTONIC of the loop's last turn
	u64 after_ns; // age at which the heartbeat is stale
	u64 bypassed; // frames sent past the loop
	u32 peer;     // ifindex of the other port; 0 for none
	u32 copied;   // the loop gets copies (AF_PACKET), so originals of these are discarded
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__uint(map_flags, BPF_F_MMAPABLE);
	__type(key, u32);
	__type(value, struct control);
} control SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_XSKMAP);
	__uint(max_entries, 128); // QUEUES_MAX in lib.rs
	__type(key, u32);
	__type(value, u32);
} sockets SEC(".maps");

// Whether the frame that this processor handles now was copied to the loop.
struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, u64);
} copied SEC(".maps");

// Arrival time, put in front of the frame. The layout is that of `Stamp` in xsk.rs.
struct stamp {
	u64 magic;
	u64 arrived_ns;
};

#define STAMP_MAGIC 0x5765697253746d70ULL

static int is_fresh(const struct control *c, u64 now)
{
	// The beat may be a little ahead: it was read on another processor.
	return (long long)(now - c->beat_ns) < (long long)c->after_ns;
}

// Whether the loop takes frames of this queue now.
static __attribute__((always_inline)) int is_loops(struct xdp_md *ctx, u64 now)
{
	u32 key = 0, queue = ctx->rx_queue_index;
	struct control *c = bpf_map_lookup_elem(&control, &key);

	return c && is_fresh(c, now) && bpf_map_lookup_elem(&sockets, &queue);
}

static __attribute__((always_inline)) int to_loop(struct xdp_md *ctx, u64 now)
{
	if (bpf_xdp_adjust_meta(ctx, -(int)sizeof(struct stamp)) == 0) {
		struct stamp *s = (void *)(unsigned long)ctx->data_meta;

		if ((void *)(s + 1) <= (void *)(unsigned long)ctx->data) {
			s->magic = STAMP_MAGIC;
			s->arrived_ns = now;
		}
	}
	return bpf_redirect_map(&sockets, ctx->rx_queue_index, XDP_PASS);
}

#ifdef TAGS
static long (*const bpf_xdp_adjust_head)(void *ctx, int delta) = (void *)44;

// As the kernel has it (net/core/xdp.c): the VLAN tag that is not in the frame, if there is one.
extern int bpf_xdp_metadata_rx_vlan_tag(const struct xdp_md *ctx, u16 *tpid, u16 *tci) __attribute__((section(".ksyms")));

struct tagged {
	u8 addresses[12];
	u16 tpid;
	u16 tci;
};

// The tag that the driver took off, or a veth's peer left beside the frame, is put back where it was on the wire.
// Whether the frame can go on.
static __attribute__((always_inline)) int put_tag_back(struct xdp_md *ctx)
{
	u16 tpid = 0, tci = 0;

	if (bpf_xdp_metadata_rx_vlan_tag(ctx, &tpid, &tci) || !tpid)
		return 1;
	if (bpf_xdp_adjust_head(ctx, -4))
		return 0;
	struct tagged *t = (void *)(unsigned long)ctx->data;

	if ((void *)(t + 1) > (void *)(unsigned long)ctx->data_end)
		return 0;
	for (int i = 0; i < 12; i += 2)
		*(u16 *)(t->addresses + i) = *(u16 *)((u8 *)t + 4 + i);
	t->tpid = tpid;
	t->tci = (u16)(tci << 8 | tci >> 8);
	return 1;
}
#else
static __attribute__((always_inline)) int put_tag_back(struct xdp_md *ctx)
{
	return 1;
}
#endif

SEC("xdp")
int port_xdp(struct xdp_md *ctx)
{
	u64 now = bpf_ktime_get_ns();

	// Without a socket for this queue the frame goes up the stack, where port_tc forwards it. What passes in the kernel keeps
	// its tag beside it.
	if (!is_loops(ctx, now))
		return XDP_PASS;
	return put_tag_back(ctx) ? to_loop(ctx, now) : XDP_DROP;
}

SEC("tc")
int port_tc(void *skb)
{
	u32 key = 0;
	struct control *c = bpf_map_lookup_elem(&control, &key);

	if (!c)
		return TC_ACT_OK;
	if (c->copied) {
		u64 *was_copied = bpf_map_lookup_elem(&copied, &key);

		// For this frame alone: where nobody takes copies any more, none is noted for the next.
		if (was_copied && *was_copied) {
			*was_copied = 0;
			return TC_ACT_SHOT;
		}
	}
	// A port of a network function has no peer: frames past it are the host's.
	if (!c->peer)
		return TC_ACT_OK;
	__sync_fetch_and_add(&c->bypassed, 1);
	return bpf_redirect(c->peer, 0);
}

// On the AF_PACKET socket. Frames that port_tc forwards must not wait there as copies, to be sent once more
// when the loop takes over again.
SEC("socket")
int port_copy(void *skb)
{
	u32 key = 0;
	struct control *c = bpf_map_lookup_elem(&control, &key);
	u64 *is_copied = bpf_map_lookup_elem(&copied, &key);

	if (!c || !is_copied)
		return 0;
	*is_copied = is_fresh(c, bpf_ktime_get_ns());
	return *is_copied ? -1 : 0;
}

char LICENSE[] SEC("license") = "Dual BSD/GPL";
