/*
 * The per-packet cost of DPDK's hierarchical scheduler (librte_sched), with the
 * EAL in plain memory and without any device.
 *
 *     rte_sched <pipes> <packets> <waiting>
 *
 * One subport, every user a pipe, everything best effort in its first queue,
 * tail drop. `waiting` packets wait at any time; each round puts a burst in, at
 * pipes drawn at random, and takes a burst out. Rates are so high that nothing
 * waits for credits. It prints the nanoseconds of a packet, in and out, and
 * the packets that were dropped.
 */
#include "peer.h"
#include "scheduler.h"

#include <inttypes.h>
#include <stdio.h>

#include <rte_eal.h>
#include <rte_mbuf.h>

#define BURST 32
#define LENGTH 1000

static void die(const char *what)
{
	fprintf(stderr, "rte_sched: %s\n", what);
	exit(1);
}

static uint32_t draw(uint64_t *state, uint32_t below)
{
	*state = *state * 6364136223846793005ull + 1442695040888963407ull;
	return (uint32_t)((*state >> 32) * below >> 32);
}

static void scatter(struct rte_sched_port *port, struct rte_mbuf **packets, uint32_t count, uint32_t pipes,
		    uint64_t *state)
{
	for (uint32_t n = 0; n < count; n++) {
		packets[n]->pkt_len = packets[n]->data_len = LENGTH;
		aim(port, packets[n], draw(state, pipes));
	}
}

int main(int argc, char **argv)
{
	char *eal[] = {"rte_sched", "--no-huge", "--no-pci", "--no-shconf", "--no-telemetry",
		       "-m", "1024", "--log-level", "error"};
	struct rte_mbuf *burst[BURST];
	uint64_t pipes, packets, waiting, dropped = 0, out = 0, state = 1, start;

	if (argc != 4 || !number(argv[1], &pipes) || !number(argv[2], &packets) || !number(argv[3], &waiting) ||
	    pipes == 0 || pipes > UINT32_MAX || packets == 0)
		die("usage: rte_sched <pipes> <packets> <waiting>");
	if (rte_eal_init(sizeof(eal) / sizeof(eal[0]), eal) < 0)
		die("the EAL does not start");
	struct rte_mempool *pool =
		rte_pktmbuf_pool_create("packets", 65535, 256, 0, RTE_MBUF_DEFAULT_BUF_SIZE, 0);
	struct rte_sched_port *port = scheduler(pipes);

	if (pool == NULL)
		die("there is no memory for packets");
	if (port == NULL)
		die("the library refused its configuration");
	for (uint64_t n = 0; n < waiting; n += BURST) {
		if (rte_pktmbuf_alloc_bulk(pool, burst, BURST) != 0)
			die("there is no memory for packets");
		scatter(port, burst, BURST, pipes, &state);
		rte_sched_port_enqueue(port, burst, BURST);
	}
	start = nanoseconds();
	for (uint64_t n = 0; n < packets; n += BURST) {
		if (rte_pktmbuf_alloc_bulk(pool, burst, BURST) != 0)
			die("packets are not taken out as fast as they are put in");
		scatter(port, burst, BURST, pipes, &state);
		dropped += BURST - rte_sched_port_enqueue(port, burst, BURST);
		int taken = rte_sched_port_dequeue(port, burst, BURST);
		rte_pktmbuf_free_bulk(burst, taken);
		out += taken;
	}
	printf("%.1f %" PRIu64 "\n", (double)(nanoseconds() - start) / out, dropped);
	return 0;
}
