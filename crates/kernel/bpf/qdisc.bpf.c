// SPDX-License-Identifier: (GPL-2.0 OR BSD-2-Clause)
//
// A queueing discipline (struct_ops `Qdisc_ops`, Linux 6.16 and newer): a FIFO behind a shaper. What enters it
// is decided by admission.bpf.c, with which it shares its state. Once nobody looks after it, everything leaves
// at once, unless the process said that it may be gone.
//
// The kernel calls all of it under the lock of the queue.

#include "queue.h"

#define KFUNC __attribute__((section(".ksyms"))) extern
#define KERNEL __attribute__((preserve_access_index))

// What of the kernel's structures is used; the loader finds where each field is.
struct gnet_stats_queue {
	u32 qlen;
	u32 backlog;
	u32 drops;
	u32 requeues;
	u32 overlimits;
} KERNEL;

struct qdisc_skb_head {
	u32 qlen;
} KERNEL;

struct Qdisc {
	u32 limit;
	struct qdisc_skb_head q;
	struct gnet_stats_queue qstats;
} KERNEL;

struct sk_buff {
	u32 len;
	u32 end;
	u8 *head;
	char cb[48];
} KERNEL;

struct qdisc_skb_cb {
	u32 pkt_len;
} KERNEL;

struct skb_shared_info {
	u16 gso_size;
	u16 gso_segs;
} KERNEL;

struct bpf_sk_buff_ptr {
	struct sk_buff *skb;
};

struct bpf_list_head {
	u64 : 64;
	u64 : 64;
} __attribute__((aligned(8)));

struct bpf_list_node {
	u64 : 64;
	u64 : 64;
	u64 : 64;
} __attribute__((aligned(8)));

static void *(*const bpf_kptr_xchg)(void *at, void *to) = (void *)194;
static long (*const bpf_probe_read_kernel)(void *to, u32 len, const void *from) = (void *)113;
static long (*const bpf_loop)(u32 count, void *callback, void *context, u64 flags) = (void *)181;

KFUNC void *bpf_obj_new_impl(u64 type, void *meta);
KFUNC void bpf_obj_drop_impl(void *object, void *meta);
KFUNC int bpf_list_push_back_impl(struct bpf_list_head *head, struct bpf_list_node *node, void *meta, u64 off);
KFUNC struct bpf_list_node *bpf_list_pop_front(struct bpf_list_head *head);
KFUNC void bpf_kfree_skb(struct sk_buff *skb);
KFUNC void bpf_qdisc_skb_drop(struct sk_buff *skb, struct bpf_sk_buff_ptr *to_free);
KFUNC void bpf_qdisc_watchdog_schedule(struct Qdisc *sch, u64 expire, u64 slack);
KFUNC void bpf_qdisc_bstats_update(struct Qdisc *sch, const struct sk_buff *skb);

// clang 14 keeps the tag below of a name only.
typedef struct sk_buff packet;

// A packet that waits.
struct waiting {
	struct bpf_list_node node;
	packet __attribute__((btf_type_tag("kptr"))) * skb;
	u64 arrived_ns;
	u64 len;
	u32 pkt_len;
	u32 segments;
};

#define PRIVATE __attribute__((section(".data.fifo"), visibility("hidden"), aligned(8)))
PRIVATE struct bpf_spin_lock fifo_lock;
PRIVATE struct bpf_list_head fifo __attribute__((btf_decl_tag("contains:waiting:node")));

enum { NET_XMIT_SUCCESS = 0, NET_XMIT_DROP = 1 };

static u32 wire_len(const struct sk_buff *skb)
{
	return ((struct qdisc_skb_cb *)skb->cb)->pkt_len;
}

// The packets that the interface will make of this one.
static u32 segments_in(const struct sk_buff *skb)
{
	struct skb_shared_info *shared = (void *)(skb->head + skb->end);
	u16 segs = 0, size = 0;

	bpf_probe_read_kernel(&segs, sizeof(segs), &shared->gso_segs);
	if (segs)
		return segs;
	bpf_probe_read_kernel(&size, sizeof(size), &shared->gso_size);
	return size ? (skb->len + size - 1) / size : 1;
}

// What was dropped before the queue is the queue's, too; marks are what RED tells in `overlimits`.
static void tell(struct Qdisc *sch, const struct state *s)
{
	sch->qstats.drops = s->drops;
	sch->qstats.overlimits = s->signals;
}

SEC("struct_ops/enqueue")
int enqueue(u64 *ctx)
{
	struct sk_buff *skb = (void *)ctx[0], *before;
	struct Qdisc *sch = (void *)ctx[1];
	struct bpf_sk_buff_ptr *to_free = (void *)ctx[2];
	u32 key = 0, fits, len_on_wire, segments;
	struct queue_control *c = bpf_map_lookup_elem(&control, &key);
	struct queue_state *q = bpf_map_lookup_elem(&state, &key);
	struct waiting *waits = 0;
	u64 now, len;

	if (!c || !q)
		goto drop;
	now = bpf_ktime_get_ns();
	len_on_wire = wire_len(skb);
	segments = segments_in(skb);
	len = taken(&c->of, len_on_wire, 0, segments);
	waits = bpf_obj_new_impl(__builtin_btf_type_id(*(struct waiting *)0, 0), 0);

	bpf_spin_lock(&q->of.lock);
	// Another processor may have read its clock later and come first.
	if (now < q->of.last_ns)
		now = q->of.last_ns;
	// Admission looked before; several processors may have come in between.
	fits = waits && fits_in(q, c, len);
	if (fits)
		enter(q, now, len);
	else
		overflow(q, c, now, len);
	bpf_spin_unlock(&q->of.lock);
	tell(sch, &q->of);
	if (!waits)
		goto drop;
	if (!fits) {
		bpf_obj_drop_impl(waits, 0);
		goto drop;
	}
	sch->q.qlen++;
	sch->qstats.backlog += len_on_wire;
	waits->arrived_ns = now;
	waits->len = len;
	waits->pkt_len = len_on_wire;
	waits->segments = segments;
	before = bpf_kptr_xchg(&waits->skb, skb);
	if (before)
		bpf_qdisc_skb_drop(before, to_free);
	bpf_spin_lock(&fifo_lock);
	bpf_list_push_back_impl(&fifo, &waits->node, 0, 0);
	bpf_spin_unlock(&fifo_lock);
	return NET_XMIT_SUCCESS;
drop:
	bpf_qdisc_skb_drop(skb, to_free);
	return NET_XMIT_DROP;
}

SEC("struct_ops/dequeue")
struct sk_buff *dequeue(u64 *ctx)
{
	struct Qdisc *sch = (void *)ctx[0];
	u32 key = 0, shaped, segments, pkt_len;
	struct queue_control *c = bpf_map_lookup_elem(&control, &key);
	struct queue_state *q = bpf_map_lookup_elem(&state, &key);
	struct bpf_list_node *node;
	struct waiting *waits;
	struct sk_buff *skb;
	u64 now, at, arrived, len;

	if (!c || !q || !sch->q.qlen)
		return 0;
	now = present(&c->of);
	shaped = now != 0;
	// Whatever waits came before now: it may leave when the link is free.
	if (shaped && q->free_ns > now) {
		bpf_qdisc_watchdog_schedule(sch, q->free_ns, 0);
		return 0;
	}
	bpf_spin_lock(&fifo_lock);
	node = bpf_list_pop_front(&fifo);
	bpf_spin_unlock(&fifo_lock);
	if (!node)
		return 0;
	waits = (struct waiting *)((void *)node - __builtin_offsetof(struct waiting, node));
	arrived = waits->arrived_ns;
	len = waits->len;
	pkt_len = waits->pkt_len;
	segments = waits->segments;
	skb = bpf_kptr_xchg(&waits->skb, 0);
	bpf_obj_drop_impl(waits, 0);

	bpf_spin_lock(&q->of.lock);
	at = arrived;
	if (shaped)
		at = departure(q, c, now, arrived);
	leave(q, c, at, arrived, len);
	q->of.accepted_packets += segments;
	if (!shaped)
		q->free_ns = at;
	bpf_spin_unlock(&q->of.lock);
	tell(sch, &q->of);
	sch->q.qlen--;
	sch->qstats.backlog -= pkt_len;
	if (!skb)
		return 0;
	bpf_qdisc_bstats_update(sch, skb);
	return skb;
}

SEC("struct_ops/init")
int init(u64 *ctx)
{
	return 0;
}

static long drop_one(u32 index, void *context)
{
	struct bpf_list_node *node;
	struct waiting *waits;
	struct sk_buff *skb;

	bpf_spin_lock(&fifo_lock);
	node = bpf_list_pop_front(&fifo);
	bpf_spin_unlock(&fifo_lock);
	if (!node)
		return 1;
	waits = (struct waiting *)((void *)node - __builtin_offsetof(struct waiting, node));
	skb = bpf_kptr_xchg(&waits->skb, 0);
	if (skb)
		bpf_kfree_skb(skb);
	bpf_obj_drop_impl(waits, 0);
	return 0;
}

SEC("struct_ops/reset")
void reset(u64 *ctx)
{
	struct Qdisc *sch = (void *)ctx[0];
	u32 key = 0;
	struct queue_state *q = bpf_map_lookup_elem(&state, &key);
	u64 now = bpf_ktime_get_ns();

	bpf_loop(1 << 23, drop_one, 0, 0);
	sch->q.qlen = 0;
	sch->qstats.backlog = 0;
	if (!q)
		return;
	bpf_spin_lock(&q->of.lock);
	q->packets = 0;
	q->bytes = 0;
	q->of.filling = 0;
	q->since_ns = now;
	bpf_spin_unlock(&q->of.lock);
}

SEC("struct_ops/destroy")
void destroy(u64 *ctx)
{
}

// The loader finds the kernel's members by these names; it puts a name of its own into `id`.
struct Qdisc_ops {
	char id[16];
	int (*enqueue)(u64 *);
	struct sk_buff *(*dequeue)(u64 *);
	int (*init)(u64 *);
	void (*reset)(u64 *);
	void (*destroy)(u64 *);
};

SEC(".struct_ops.link")
struct Qdisc_ops weir_gsp = {
	.id = "weir_gsp",
	.enqueue = enqueue,
	.dequeue = dequeue,
	.init = init,
	.reset = reset,
	.destroy = destroy,
};

char LICENSE[] SEC("license") = "Dual BSD/GPL";
