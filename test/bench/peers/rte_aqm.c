/*
 * The per-packet cost of DPDK's own RED and PIE (librte_sched), measured
 * outside any scheduler and without starting the EAL.
 *
 *     rte_aqm <none|red|pie> <iterations> [marking|below|idle] [warm-up]
 *
 * One iteration is one offered packet: the enqueue decision and, when the
 * packet was let in, the notice that one packet left. The FIFO is a length and
 * nothing else. It is closed-loop: whatever is let in above the level of the
 * mode leaves at once, so that the algorithm sees the same length at every
 * decision and its state settles at a known point:
 *
 *   marking  RED between its thresholds (probability 5 % at the average it
 *            settles at); PIE active with its probability at 5 %
 *   below    RED under its minimum threshold; PIE under the tenth of the tail
 *            drop threshold at which it becomes active
 *   idle     every packet finds the queue empty
 *
 * `none` runs the same loop without an algorithm, so that the loop can be
 * subtracted. Time is counted, not read: a clock reading belongs to the
 * program that holds the queue, which takes one for many packets.
 *
 * Everything is deterministic, so the difference in instructions between N and
 * 2N iterations, divided by N, is the cost of one packet.
 */
#include "peer.h"

#define ALLOW_EXPERIMENTAL_API 1

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include <rte_pie.h>
#include <rte_random.h>
#include <rte_red.h>

#define PKT_LEN 1500u
#define TAILQ 1024u
#define LEVEL_MARKING 256u
#define LEVEL_BELOW 32u

/*
 * The clock PIE is driven by. Its length is chosen so that 1250 packets take
 * one update interval of exactly 2^32 ticks (15 ms for 1500-byte packets at
 * 1 Gbit/s): the burst allowance of this PIE is kept in 32 bits and is lowered
 * without a floor, so with any other interval it wraps to a large value and
 * the drops it decides on are not carried out.
 */
#define PIE_INTERVAL (UINT64_C(1) << 32)
#define PIE_TICK (PIE_INTERVAL / 1250)
#define PIE_PROBABILITY 0.05


struct queue {
	uint64_t now;
	uint32_t len;
	uint32_t level;
};

struct red_state {
	struct rte_red_config config;
	struct rte_red red;
};

struct pie_state {
	struct rte_pie_config config;
	struct rte_pie pie;
};

static __attribute__((noinline)) uint64_t
run_none(struct queue *q, uint64_t n)
{
	uint64_t drops = 0;

	for (uint64_t i = 0; i < n; i++) {
		SETTLE();
		q->len++;
		while (q->len > q->level) {
			q->len--;
			q->now += PIE_TICK;
		}
	}
	return drops;
}

static __attribute__((noinline)) uint64_t
run_red(struct queue *q, struct red_state *s, uint64_t n)
{
	uint64_t drops = 0;

	for (uint64_t i = 0; i < n; i++) {
		SETTLE();
		if (rte_red_enqueue(&s->config, &s->red, q->len, q->now) != 0) {
			drops++;
			continue;
		}
		q->len++;
		while (q->len > q->level) {
			q->len--;
			q->now += PIE_TICK;
			/* The only thing RED wants to know of a departure. */
			if (q->len == 0)
				rte_red_mark_queue_empty(&s->red, q->now);
		}
	}
	return drops;
}

static __attribute__((noinline)) uint64_t
run_pie(struct queue *q, struct pie_state *s, uint64_t n)
{
	uint64_t drops = 0;

	for (uint64_t i = 0; i < n; i++) {
		SETTLE();
		if (rte_pie_enqueue(&s->config, &s->pie, q->len, PKT_LEN, q->now) != 0) {
			drops++;
			/*
			 * Not done by the library on one of its paths, which
			 * then drops every packet until the queue is empty.
			 */
			s->pie.accu_prob = 0;
			continue;
		}
		q->len++;
		while (q->len > q->level) {
			q->len--;
			q->now += PIE_TICK;
			/* The length is the caller's to lower, as in rte_sched. */
			s->pie.qlen--;
			s->pie.qlen_bytes -= PKT_LEN;
			rte_pie_dequeue(&s->pie, PKT_LEN, q->now);
		}
	}
	return drops;
}

static int
usage(void)
{
	fprintf(stderr,
		"usage: rte_aqm <none|red|pie> <iterations> [marking|below|idle] [warm-up]\n");
	return 2;
}

int
main(int argc, char **argv)
{
	/* Long enough for RED's average (weight 1/512) and for several of PIE's intervals. */
	uint64_t iterations, warm = 20000, drops = 0, begin, end;
	const char *algorithm, *mode = argc > 3 ? argv[3] : "marking";
	struct queue q = { 0 };
	struct red_state red = { 0 };
	struct pie_state pie = { 0 };
	enum { NONE, RED, PIE } which;
	double probability = 0.0;

	if (argc < 3 || argc > 5)
		return usage();
	algorithm = argv[1];
	if (strcmp(algorithm, "none") == 0)
		which = NONE;
	else if (strcmp(algorithm, "red") == 0)
		which = RED;
	else if (strcmp(algorithm, "pie") == 0)
		which = PIE;
	else
		return usage();
	if (!number(argv[2], &iterations) || iterations == 0)
		return usage();
	if (argc > 4 && !number(argv[4], &warm))
		return usage();
	if (strcmp(mode, "marking") == 0)
		q.level = LEVEL_MARKING;
	else if (strcmp(mode, "below") == 0)
		q.level = LEVEL_BELOW;
	else if (strcmp(mode, "idle") == 0)
		q.level = 0;
	else
		return usage();

	/* Thresholds 128 and 384, at most 10 %: half of it at a length of 256. */
	if (rte_red_rt_data_init(&red.red) != 0 ||
	    rte_red_config_init(&red.config, 9, 128, 384, 10) != 0 ||
	    rte_pie_rt_data_init(&pie.pie) != 0) {
		fprintf(stderr, "rte_aqm: the library refused its configuration\n");
		return 1;
	}
	/*
	 * rte_pie_config_init turns milliseconds into the ticks of a clock that
	 * only a started EAL has measured, so the (public) fields are set here.
	 * The reference is the delay PIE computes at LEVEL_MARKING: its estimate
	 * is the length times the ticks of one byte, and it takes eleven packets
	 * to pass the 16384 bytes it measures over. At the reference the
	 * controller adds nothing, so the probability stays where it is put.
	 */
	pie.config.qdelay_ref = LEVEL_MARKING * ((11 * PIE_TICK) >> 14);
	pie.config.dp_update_interval = PIE_INTERVAL;
	pie.config.max_burst = 0;
	pie.config.tailq_th = TAILQ;
	rte_srand(1);

	switch (which) {
	case NONE:
		run_none(&q, warm);
		break;
	case RED:
		run_red(&q, &red, warm);
		break;
	case PIE:
		/* Two steps: fill and let the rate settle, then fix the probability. */
		run_pie(&q, &pie, q.level + 2500);
		if (q.level == LEVEL_MARKING) {
			q.len = q.level;
			pie.pie.qlen = q.level;
			pie.pie.qlen_bytes = (uint64_t)q.level * PKT_LEN;
			pie.pie.qdelay_old = pie.config.qdelay_ref;
			pie.pie.drop_prob = PIE_PROBABILITY;
			pie.pie.accu_prob = 0;
		}
		run_pie(&q, &pie, warm);
		break;
	}

	begin = nanoseconds();
	switch (which) {
	case NONE:
		drops = run_none(&q, iterations);
		break;
	case RED:
		drops = run_red(&q, &red, iterations);
		break;
	case PIE:
		drops = run_pie(&q, &pie, iterations);
		probability = pie.pie.drop_prob;
		break;
	}
	end = nanoseconds();

	printf("{\"algorithm\": \"%s\", \"mode\": \"%s\", \"iterations\": %" PRIu64
	       ", \"drops\": %" PRIu64 ", \"length\": %" PRIu32
	       ", \"red_average\": %.3f, \"pie_probability\": %.6f"
	       ", \"ns_per_packet\": %.3f}\n",
	       algorithm, mode, iterations, drops, q.len,
	       which == RED ? (double)red.red.avg / (double)(1u << (RTE_RED_SCALING + 9)) : 0.0,
	       probability, (double)(end - begin) / (double)iterations);
	return 0;
}
