// SPDX-License-Identifier: (GPL-2.0 OR BSD-2-Clause)
//
// How long packets wait in queues of the kernel: what `weir steer --probe` attaches to the tracepoints of enqueueing
// and dequeueing. It changes nothing, and ends with its process.
//
// The tracepoints tell of the discipline that an interface, or a transmit queue of it, is served by, not of those
// below. A packet is known by the address of its buffer. The maps' layouts are those of probe.rs. The few fields of the
// kernel that are used are declared here; the loader finds where this kernel has them (BTF).

#include "bpf.h"

#pragma clang attribute push(__attribute__((preserve_access_index)), apply_to = record)
struct ns_common {
	u32 inum;
};
struct net {
	struct ns_common ns;
};
typedef struct {
	struct net *net;
} possible_net_t;
struct net_device {
	int ifindex;
	possible_net_t nd_net;
};
struct netdev_queue {
	struct net_device *dev;
};
struct qdisc_skb_head {
	u32 qlen;
};
struct Qdisc {
	u32 handle;
	struct netdev_queue *dev_queue;
	struct qdisc_skb_head q;
};
struct sk_buff {
	struct sk_buff *next;
};
#pragma clang attribute pop

enum { BPF_ANY = 0, WAITING_MAX = 65536, QUEUES_MAX = 4096, BUCKETS = 64, BURST_MAX = 64 };

static long (*const bpf_map_update_elem)(void *map, const void *key, const void *value, u64 flags) = (void *)2;
static long (*const bpf_map_delete_elem)(void *map, const void *key) = (void *)3;

// A discipline: numbers of interfaces are those of their network namespace.
struct key {
	u32 netns;
	u32 ifindex;
	u32 handle;
	u32 unused;
};

// What was seen between two looks of the process.
struct window {
	u64 number;
	u64 least_ns; // the largest number if no packet left
	u64 most_ns;
	u64 packets;
	u64 empty; // whether a packet that left was the last
};

struct queue {
	struct window windows[2]; // the one that goes on and the one before, by their numbers' last bit
	u64 packets;
	u64 sum_ns;
	u64 strange; // packets that left of which it is not known when they came
	u64 lost;    // packets that came for which the map had no room
	u64 buckets[BUCKETS];
};

// The queues that are looked at. The process makes the entries, the programs count in them.
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, QUEUES_MAX);
	__type(key, struct key);
	__type(value, struct queue);
} queues SEC(".maps");

// When packets came. One that is dropped stays here until its place is needed, or its address.
struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, WAITING_MAX);
	__type(key, u64);
	__type(value, u64);
} waiting SEC(".maps");

// The number of the window that goes on, which the process counts up at each look.
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, u64);
} control SEC(".maps");

static struct queue *queue_of(struct Qdisc *qdisc)
{
	struct net_device *dev = qdisc->dev_queue->dev;
	struct key key = {
		.netns = dev->nd_net.net->ns.inum,
		.ifindex = dev->ifindex,
		.handle = qdisc->handle,
	};

	return bpf_map_lookup_elem(&queues, &key);
}

// Four buckets for each doubling, from 16.384 us on; the last has what is longer than 1.9 s.
static u32 bucket_of(u64 ns)
{
	u64 units = ns >> 14;
	u32 shift = 0, bucket;

	if (units < 4)
		return units;
	if (units >= 1ull << 17)
		return BUCKETS - 1;
	for (int i = 0; i < 15; i++) {
		if ((units >> shift) < 8)
			break;
		shift++;
	}
	bucket = 4 * (shift + 1) + ((units >> shift) & 3);
	return bucket < BUCKETS ? bucket : BUCKETS - 1;
}

SEC("tp_btf/qdisc_enqueue")
int enqueued(u64 *context)
{
	struct queue *queue = queue_of((struct Qdisc *)context[0]);
	u64 packet = context[2];
	u64 now;

	if (!queue)
		return 0;
	now = bpf_ktime_get_ns();
	if (bpf_map_update_elem(&waiting, &packet, &now, BPF_ANY))
		__sync_fetch_and_add(&queue->lost, 1);
	return 0;
}

// A discipline is served by one processor at a time, so that its counts need no more care than this.
static void note(struct queue *queue, struct window *window, u64 ns)
{
	u32 bucket = bucket_of(ns);

	if (ns < window->least_ns)
		window->least_ns = ns;
	if (ns > window->most_ns)
		window->most_ns = ns;
	window->packets++;
	queue->packets++;
	queue->sum_ns += ns;
	if (bucket < BUCKETS)
		queue->buckets[bucket]++;
}

SEC("tp_btf/qdisc_dequeue")
int dequeued(u64 *context)
{
	struct Qdisc *qdisc = (struct Qdisc *)context[0];
	int packets = context[2];
	struct sk_buff *skb = (struct sk_buff *)context[3];
	struct queue *queue;
	struct window *window;
	u64 *number, now;
	u32 zero = 0;

	// Asked for a packet when there was none to be sent.
	if (!skb)
		return 0;
	queue = queue_of(qdisc);
	number = bpf_map_lookup_elem(&control, &zero);
	if (!queue || !number)
		return 0;
	now = bpf_ktime_get_ns();
	window = &queue->windows[*number & 1];
	if (window->number != *number) {
		window->number = *number;
		window->least_ns = ~0ull;
		window->most_ns = 0;
		window->packets = 0;
		window->empty = 0;
	}
	// Several that leave together hang on the first.
	for (int i = 0; i < BURST_MAX; i++) {
		u64 packet = (u64)skb;
		u64 *came = bpf_map_lookup_elem(&waiting, &packet);

		if (came) {
			note(queue, window, now - *came);
			bpf_map_delete_elem(&waiting, &packet);
		} else {
			queue->strange++;
		}
		if (i + 1 >= packets)
			break;
		skb = skb->next;
		if (!skb)
			break;
	}
	if (!qdisc->q.qlen)
		window->empty = 1;
	return 0;
}

char LICENSE[] SEC("license") = "Dual BSD/GPL";
