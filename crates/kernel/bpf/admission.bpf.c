// SPDX-License-Identifier: (GPL-2.0 OR BSD-2-Clause)
//
// GSP over the queue of qdisc.bpf.c, on the egress in front of it: which packets are marked, dropped, or go on
// into the queue. It stands there and not in the queue because the kernel lets no queue in BPF write into a
// packet: `bpf_dynptr_from_skb` gives it memory to read only.

#include "queue.h"

SEC("tc")
int admission(struct __sk_buff *skb)
{
	u32 key = 0, empty, signal;
	struct queue_control *c = bpf_map_lookup_elem(&control, &key);
	struct queue_state *q = bpf_map_lookup_elem(&state, &key);
	struct state *s;
	u64 now, len;

	if (!c || !q)
		return TC_ACT_UNSPEC;
	now = present(&c->of);
	if (!now)
		return TC_ACT_UNSPEC;
	s = &q->of;
	len = taken(&c->of, skb->wire_len, skb->vlan_present, segments_of(skb));

	bpf_spin_lock(&s->lock);
	// Another processor may have read its clock later and come first.
	if (now < s->last_ns)
		now = s->last_ns;
	s->last_ns = now;
	s->now.arrived += len;
	if (!fits_in(q, c, len)) {
		overflow(q, c, now, len);
		bpf_spin_unlock(&s->lock);
		return TC_ACT_SHOT;
	}
	empty = !q->packets;
	signal = signals(s, &c->of, now, empty);
	bpf_spin_unlock(&s->lock);
	if (!signal)
		return TC_ACT_UNSPEC;

	// Helpers may not be called with the lock held.
	signal = c->of.ecn && mark(skb);
	bpf_spin_lock(&s->lock);
	if (!signal) {
		s->drops++;
		s->now.dropped += len;
	}
	end_epoch(s, &c->of, now);
	// Nothing will be said of a queue that is empty already.
	if (s->now.start_ns == now && !q->packets) {
		s->now.least = 0;
		s->now.empty = 1;
	}
	bpf_spin_unlock(&s->lock);
	return signal ? TC_ACT_UNSPEC : TC_ACT_SHOT;
}

// For tests: a packet enters the queue, or leaves it, as in qdisc.bpf.c; 0 if it may not leave yet.
SEC("tc")
int step(struct __sk_buff *skb)
{
	u32 key = 0;
	struct queue_control *c = bpf_map_lookup_elem(&control, &key);
	struct queue_state *q = bpf_map_lookup_elem(&state, &key);
	u64 at, len;

	if (!c || !q)
		return 0;
	len = taken(&c->of, skb->wire_len, 0, 1);
	bpf_spin_lock(&q->of.lock);
	if (!c->arrived_ns) {
		enter(q, c->of.clock_ns, len);
		at = 0;
	} else {
		at = departure(q, c, c->of.clock_ns, c->arrived_ns);
		if (at <= c->of.clock_ns)
			leave(q, c, at, c->arrived_ns, len);
	}
	bpf_spin_unlock(&q->of.lock);
	return at <= c->of.clock_ns;
}

char LICENSE[] SEC("license") = "Dual BSD/GPL";
