// SPDX-License-Identifier: (GPL-2.0 OR BSD-2-Clause)
//
// GSP over a virtual queue, on the egress of an interface: what `weir run --in-kernel` attaches.
//
// The virtual queue is the backlog that the packets which leave would cause at a slower link (AQM Steering, section IV). GSP
// (draft-lauten-aqm-gsp-03, adaptive and delay-based, as in crates/aqm/src/algorithms/gsp.rs) looks at that queue, and marks or
// drops. Nothing waits here, no queue is changed. The process steers target and rate through the map `control` and reads what
// came of it from the map `state`; once its heartbeat is stale, every packet passes, unless it said that it may be gone.
//
// Arithmetic is in whole numbers: bytes with 32 bits of fraction, times in nanoseconds. The maps' layouts are those of `Control`
// and `State` in in_kernel.rs. The few helpers and fields used are declared here, so that no kernel headers are needed.

typedef unsigned char u8;
typedef unsigned short u16;
typedef unsigned int u32;
typedef unsigned long long u64;

#define SEC(name) __attribute__((section(name), used))
#define __uint(name, val) int (*name)[val]
#define __type(name, val) typeof(val) *name

enum { BPF_MAP_TYPE_ARRAY = 2 };
// As if this program were not there: the next filter decides.
enum { TC_ACT_UNSPEC = -1, TC_ACT_SHOT = 2 };

struct bpf_spin_lock {
	u32 val;
};

struct __sk_buff {
	u32 len;
	u32 unused[39];
	u32 wire_len; // with the headers of each segment
	u32 gso_segs;
};

static void *(*const bpf_map_lookup_elem)(void *map, const void *key) = (void *)1;
static u64 (*const bpf_ktime_get_ns)(void) = (void *)5;
static long (*const bpf_spin_lock)(struct bpf_spin_lock *lock) = (void *)93;
static long (*const bpf_spin_unlock)(struct bpf_spin_lock *lock) = (void *)94;
static long (*const bpf_skb_ecn_set_ce)(struct __sk_buff *skb) = (void *)97;

struct control {
	u64 rate;        // of the virtual queue, in bytes per nanosecond with 32 bits of fraction; 0 lets everything pass
	u64 target_ns;   // GSP's threshold
	u64 interval_ns; // its timeout
	u64 tau_ns;      // its product with interval_ns fits 64 bits
	u64 max_cum_ns;
	u64 beat_ns;  // CLOCK_MONOTONIC of the process's last look
	u64 after_ns; // age at which it is stale; the largest number for never
	u64 clock_ns; // the time, in tests; 0 for the clock
	u32 alpha;    // with 16 bits of fraction
	u32 burst_rule;
	u32 ecn;
	int overhead; // bytes that a packet takes beside its frame
};

struct state {
	struct bpf_spin_lock lock;
	u32 was_above;
	u64 size; // bytes with 32 bits of fraction
	u64 last_ns;
	u64 last_update_ns;
	u64 expiry_ns;
	u64 cum_ns;
	u64 accepted_bytes;
	u64 accepted_packets; // segments
	u64 signals;          // marks and drops, by packets as they were handed over
	u64 drops;
	u64 empty_ns; // how long nothing waited
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, struct control);
} control SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, struct state);
} state SEC(".maps");

#define SIZE_MAX_BYTES (1ULL << 30)
// A gap that counts at most: with alpha it must fit 64 bits.
#define GAP_MAX (1ULL << 40)

// initial / (1 + cum / tau), to the nearest nanosecond.
static __attribute__((always_inline)) u64 interval(const struct control *c, u64 cum)
{
	u64 sum = c->tau_ns + cum;

	return cum && sum ? (c->interval_ns * c->tau_ns + sum / 2) / sum : c->interval_ns;
}

// Serves the queue until `now`.
static __attribute__((always_inline)) void drain(struct state *s, u64 rate, u64 now)
{
	u64 elapsed = now > s->last_ns ? now - s->last_ns : 0;
	u64 waits = s->size / rate;

	if (elapsed > waits) {
		s->empty_ns += elapsed - waits;
		s->size = 0;
	} else {
		s->size -= elapsed * rate;
	}
	if (now > s->last_ns)
		s->last_ns = now;
}

// Time above the threshold against time below it. A virtual queue never overflows, so that GSP's guard is not needed.
static __attribute__((always_inline)) void adapt(struct state *s, const struct control *c, u64 now, u32 above)
{
	u64 gap = now > s->last_update_ns ? now - s->last_update_ns : 0;

	if (gap > GAP_MAX)
		gap = GAP_MAX;
	if (above && s->was_above) {
		s->cum_ns += (gap * c->alpha + (1 << 15)) >> 16;
		if (s->cum_ns > c->max_cum_ns)
			s->cum_ns = c->max_cum_ns;
	} else if (!above && !s->was_above) {
		s->cum_ns = s->cum_ns > gap ? s->cum_ns - gap : 0;
	}
	s->was_above = above;
	s->last_update_ns = now;
}

SEC("tc")
int virtual_queue(struct __sk_buff *skb)
{
	u32 key = 0, segments = skb->gso_segs ? skb->gso_segs : 1, above, signal = 0;
	struct control *c = bpf_map_lookup_elem(&control, &key);
	struct state *s = bpf_map_lookup_elem(&state, &key);
	long long bytes;
	u64 now, rate, delay, len;

	if (!c || !s)
		return TC_ACT_UNSPEC;
	now = c->clock_ns ? c->clock_ns : bpf_ktime_get_ns();
	rate = c->rate;
	// The beat may be a little ahead: it was read on another processor.
	if (!rate || (long long)(now - c->beat_ns) >= (long long)c->after_ns)
		return TC_ACT_UNSPEC;
	bytes = (long long)skb->wire_len + (long long)c->overhead * segments;
	len = bytes > 0 ? (u64)bytes << 32 : 0;

	bpf_spin_lock(&s->lock);
	drain(s, rate, now);
	delay = (s->size + rate / 2) / rate;
	above = delay > c->target_ns;
	adapt(s, c, now, above);
	if (c->burst_rule && !s->size)
		s->expiry_ns = now + interval(c, s->cum_ns);
	if (above && now > s->expiry_ns) {
		s->expiry_ns = now + interval(c, s->cum_ns);
		s->signals++;
		signal = 1;
	}
	if (s->size + len > SIZE_MAX_BYTES << 32)
		len = 0;
	s->size += len;
	s->accepted_bytes += len >> 32;
	s->accepted_packets += segments;
	bpf_spin_unlock(&s->lock);

	// Helpers may not be called with the lock held. What is not ECN-capable is dropped, and enters no queue.
	if (!signal || (c->ecn && bpf_skb_ecn_set_ce(skb) == 1))
		return TC_ACT_UNSPEC;
	bpf_spin_lock(&s->lock);
	s->size = s->size > len ? s->size - len : 0;
	s->accepted_bytes -= len >> 32;
	s->accepted_packets -= segments;
	s->drops++;
	bpf_spin_unlock(&s->lock);
	return TC_ACT_SHOT;
}

char LICENSE[] SEC("license") = "Dual BSD/GPL";
