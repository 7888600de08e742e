// SPDX-License-Identifier: (GPL-2.0 OR BSD-2-Clause)
//
// The state of a queue that GSP manages behind a shaper, which two programs share: admission.bpf.c decides
// about packets that come, qdisc.bpf.c holds them and sends them. Here is what is counted when a packet enters
// and leaves, and when it may leave: as crates/queue/src/shaper.rs has it, in link time.

#include "gsp.h"

// Whole of a byte's time on the link: 24 bits of it are fraction.
#define COST_FRACTION 24

struct queue_control {
	struct control of;
	u64 cost;        // nanoseconds of a byte on the link, with COST_FRACTION bits of fraction
	u64 limit;       // bytes that may wait
	u64 catch_up_ns; // lost time that is made up for
	u64 arrived_ns;  // in tests: when the packet came that leaves; 0 for one that enters
};

// `of.filling` is how long the packet waited that left last, and 0 when none waits.
struct queue_state {
	struct state of;
	u64 packets; // that wait
	u64 bytes;
	u64 free_ns; // when the link has sent what left last
	u64 fraction;
	u64 overflows; // packets that found no room
	u64 since_ns;  // since when nothing waits
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, struct queue_control);
} control SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, struct queue_state);
} state SEC(".maps");

// Whether there is room. An empty queue takes what is larger than its limit, as an offloaded packet may be: it
// would never pass otherwise.
INLINE u32 fits_in(const struct queue_state *q, const struct queue_control *c, u64 len)
{
	return !q->packets || q->bytes + len <= c->limit;
}

// A packet begins to wait.
INLINE void enter(struct queue_state *q, u64 now, u64 len)
{
	if (!q->packets && now > q->since_ns)
		q->of.empty_ns += now - q->since_ns;
	q->packets++;
	q->bytes += len;
}

// When the head may leave that came at `arrived`: when the link has sent the one before, or when it came.
// Lost time beyond `catch_up` is given up.
INLINE u64 departure(struct queue_state *q, const struct queue_control *c, u64 now, u64 arrived)
{
	u64 earliest = now > c->catch_up_ns ? now - c->catch_up_ns : 0;

	if (q->free_ns < earliest)
		q->free_ns = earliest;
	return q->free_ns > arrived ? q->free_ns : arrived;
}

// The head left at `at`, having come at `arrived`.
INLINE void leave(struct queue_state *q, const struct queue_control *c, u64 at, u64 arrived, u64 len)
{
	u64 took = len * c->cost + q->fraction;

	q->free_ns = at + (took >> COST_FRACTION);
	q->fraction = took & ((1 << COST_FRACTION) - 1);
	q->of.filling = at > arrived ? at - arrived : 0;
	if (q->of.filling < q->of.now.least)
		q->of.now.least = q->of.filling;
	q->of.accepted_bytes += len;
	q->bytes = q->bytes > len ? q->bytes - len : 0;
	if (q->packets)
		q->packets--;
	if (q->packets)
		return;
	q->bytes = 0;
	q->since_ns = at;
	q->of.filling = 0;
	q->of.now.least = 0;
	q->of.now.empty = 1;
}

// A packet found no room.
INLINE void overflow(struct queue_state *q, const struct queue_control *c, u64 now, u64 len)
{
	struct state *s = &q->of;

	update(s, &c->of, now, s->filling >= c->of.above, !q->packets, 1);
	s->now.dropped += len;
	s->drops++;
	q->overflows++;
}
