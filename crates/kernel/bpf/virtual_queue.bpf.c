// SPDX-License-Identifier: (GPL-2.0 OR BSD-2-Clause)
//
// GSP over a virtual queue, on the egress of an interface: what `weir run --in-kernel` attaches.
//
// The virtual queue is the backlog that the packets which leave would cause at a slower link (AQM Steering,
// section IV). GSP looks at that queue, and marks or drops. Nothing waits here, no queue is changed. The
// process steers target and rate through the map `control` and reads what came of it from the map `state`;
// once its heartbeat is stale, every packet passes, unless it said that it may be gone.
//
// Arithmetic is in whole numbers, as in crates/steer/src/virtual_queue.rs: what waits is in bytes with 32 bits
// of fraction.

#include "gsp.h"

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

#define SIZE_MAX (1ULL << 62)

// Serves the queue until `now`.
INLINE void drain(struct state *s, u64 rate, u64 now)
{
	u64 elapsed = now - s->last_ns, waits = s->filling / rate;

	if (elapsed > waits) {
		s->empty_ns += elapsed - waits;
		s->filling = 0;
	} else {
		s->filling -= elapsed * rate;
	}
	s->last_ns = now;
}

// Notes for the law what a packet found.
INLINE void note(struct state *s, u64 len)
{
	s->now.arrived += len;
	if (s->filling < s->now.least)
		s->now.least = s->filling;
	if (!s->filling)
		s->now.empty = 1;
}

// What is too much is let go uncounted.
INLINE void add(struct state *s, u64 len)
{
	if (s->filling + (len << 32) <= SIZE_MAX)
		s->filling += len << 32;
}

SEC("tc")
int virtual_queue(struct __sk_buff *skb)
{
	u32 key = 0, segments, signal;
	struct control *c = bpf_map_lookup_elem(&control, &key);
	struct state *s = bpf_map_lookup_elem(&state, &key);
	u64 now, len;

	if (!c || !s)
		return TC_ACT_UNSPEC;
	now = present(c);
	if (!now)
		return TC_ACT_UNSPEC;
	segments = segments_of(skb);
	// A tag that the interface is to put in is not in the frame yet.
	len = taken(c, skb->wire_len, skb->vlan_present, segments);

	bpf_spin_lock(&s->lock);
	// Another processor may have read its clock later and come first.
	if (now < s->last_ns)
		now = s->last_ns;
	drain(s, c->rate, now);
	note(s, len);
	signal = signals(s, c, now, !s->filling);
	s->accepted_bytes += len;
	s->accepted_packets += segments;
	if (!signal)
		add(s, len);
	bpf_spin_unlock(&s->lock);
	if (!signal)
		return TC_ACT_UNSPEC;

	// Helpers may not be called with the lock held. What is not ECN-capable is dropped, and enters no
	// queue.
	signal = c->ecn && mark(skb);
	bpf_spin_lock(&s->lock);
	if (signal) {
		add(s, len);
	} else {
		s->accepted_bytes -= len;
		s->accepted_packets -= segments;
		s->drops++;
		s->now.dropped += len;
	}
	end_epoch(s, c, now);
	bpf_spin_unlock(&s->lock);
	return signal ? TC_ACT_UNSPEC : TC_ACT_SHOT;
}

char LICENSE[] SEC("license") = "Dual BSD/GPL";
