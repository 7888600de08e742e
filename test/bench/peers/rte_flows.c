/*
 * The per-packet cost of DPDK's scheduler (librte_sched) with 1024 flows, for
 * comparison with a FlowQueue of as many.
 *
 *     rte_flows <none|sched> <iterations> [flows] [warm-up]
 *
 * One iteration is one packet of 1500 bytes: classified (its flow is known and
 * is written into it), stored and sent. Packets go in and come out in bursts
 * of 32, as the library wants it. Each flow is the best-effort queue of a pipe
 * of its own and has two packets waiting, so that all of them are served in
 * turn. The rates are so high that credits never hold a packet back, no queue
 * manages its length, and nothing is dropped.
 *
 * `none` is the same loop without a scheduler, so that it can be subtracted.
 *
 * The scheduler keeps its tables in memory of the EAL and reads the processor's
 * clock once in a burst; both are part of it.
 */
#include "peer.h"
#include "scheduler.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include <rte_eal.h>
#include <rte_mbuf.h>

#define FLOWS 1024u
#define WAITING 2u
#define BURST 32u
#define PKT_LEN 1500u
struct store {
	struct rte_mbuf *free[FLOWS * WAITING + BURST];
	uint32_t n;
};

/* A burst of packets of the flows from `flow` on. */
static inline void
arrivals(struct store *s, struct rte_mbuf **burst, uint32_t flow)
{
	s->n -= BURST;
	for (uint32_t i = 0; i < BURST; i++) {
		burst[i] = s->free[s->n + i];
		burst[i]->pkt_len = PKT_LEN;
		burst[i]->hash.sched.queue_id = flow + i;
	}
	SETTLE();
}

static inline void
departures(struct store *s, struct rte_mbuf **burst, uint32_t n)
{
	for (uint32_t i = 0; i < n; i++)
		s->free[s->n++] = burst[i];
	SETTLE();
}

static __attribute__((noinline)) uint64_t
run_none(struct store *s, uint64_t n)
{
	struct rte_mbuf *burst[BURST];

	for (uint64_t i = 0; i < n; i += BURST) {
		arrivals(s, burst, i & (FLOWS - 1));
		departures(s, burst, BURST);
	}
	return n;
}

static inline void
enqueue(struct rte_sched_port *port, struct rte_mbuf **burst)
{
	for (uint32_t i = 0; i < BURST; i++)
		aim(port, burst[i], burst[i]->hash.sched.queue_id);
	rte_sched_port_enqueue(port, burst, BURST);
}

static __attribute__((noinline)) uint64_t
run_sched(struct rte_sched_port *port, struct store *s, uint64_t n)
{
	struct rte_mbuf *burst[BURST];
	uint64_t sent = 0;

	for (uint64_t i = 0; i < n; i += BURST) {
		arrivals(s, burst, i & (FLOWS - 1));
		enqueue(port, burst);
		for (uint32_t room = BURST; room > 0; ) {
			uint32_t got = rte_sched_port_dequeue(port, burst, room);

			departures(s, burst, got);
			sent += got;
			room -= got;
		}
	}
	return sent;
}

/* Lets two packets of each flow in, to stay. */
static void
fill(struct rte_sched_port *port, struct store *s)
{
	struct rte_mbuf *burst[BURST];

	for (uint32_t i = 0; i < FLOWS * WAITING; i += BURST) {
		arrivals(s, burst, i & (FLOWS - 1));
		enqueue(port, burst);
	}
}

int
main(int argc, char **argv)
{
	/* No huge pages, no devices, no files: memory for tables is all that is wanted. */
	char *eal[] = { argv[0], "--no-huge", "-m", "64", "--no-pci", "--no-shconf",
		"--no-telemetry", "--log-level", "error" };
	uint64_t iterations, warm = 20480, sent, begin, end;
	static struct store store;
	struct rte_sched_port *port = NULL;
	struct rte_mbuf *packets;

	if (argc < 3 || argc > 5 || !number(argv[2], &iterations) || iterations == 0 ||
	    (argc > 3 && strcmp(argv[3], "flows") != 0) ||
	    (argc > 4 && !number(argv[4], &warm)) ||
	    (strcmp(argv[1], "none") != 0 && strcmp(argv[1], "sched") != 0)) {
		fprintf(stderr, "usage: rte_flows <none|sched> <iterations> [flows] [warm-up]\n");
		return 2;
	}
	packets = calloc(FLOWS * WAITING + BURST, sizeof(*packets));
	if (packets == NULL || rte_eal_init(sizeof(eal) / sizeof(eal[0]), eal) < 0) {
		fprintf(stderr, "rte_flows: there is no memory, or the EAL does not start\n");
		return 1;
	}
	for (; store.n < FLOWS * WAITING + BURST; store.n++)
		store.free[store.n] = &packets[store.n];
	if (strcmp(argv[1], "sched") == 0) {
		port = scheduler(FLOWS);
		if (port == NULL) {
			fprintf(stderr, "rte_flows: the library refused its configuration\n");
			return 1;
		}
		fill(port, &store);
		run_sched(port, &store, warm);
	} else {
		run_none(&store, warm);
	}
	begin = nanoseconds();
	sent = port != NULL ? run_sched(port, &store, iterations) : run_none(&store, iterations);
	end = nanoseconds();
	printf("{\"algorithm\": \"%s\", \"mode\": \"flows\", \"iterations\": %" PRIu64
	       ", \"sent\": %" PRIu64 ", \"ns_per_packet\": %.3f}\n",
	       argv[1], iterations, sent, (double)(end - begin) / (double)iterations);
	rte_eal_cleanup();
	return 0;
}
