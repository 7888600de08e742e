/*
 * The loop of integrations/dpdk/switch.c with DPDK's scheduler (librte_sched) in the place of libweir, and
 * DPDK's RED or PIE at its entrance: Debian's librte_sched is built without its own (RTE_SCHED_CMAN).
 *
 *     rte_switch [EAL OPTIONS] -- <red|pie> <pipes> <seconds>
 *
 * Two ports, one core, bursts of 32, rings of 256. A packet goes to a pipe by its flow's hash. It prints the
 * packets that were sent in both directions.
 */
#include "peer.h"
#include "scheduler.h"

#include <inttypes.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>

#include <rte_cycles.h>
#include <rte_eal.h>
#include <rte_ethdev.h>
#include <rte_ether.h>
#include <rte_ip.h>
#include <rte_jhash.h>
#include <rte_malloc.h>
#include <rte_mbuf.h>
#include <rte_pie.h>
#include <rte_red.h>
#include <rte_ring.h>

#define BURST 32
#define RING 256
/* As the queues of the scheduler: with fewer than this waiting neither algorithm discards. */
#define QUEUE 64

struct queue {
	struct rte_red red;
	struct rte_pie pie;
	uint32_t length;
};

struct direction {
	uint16_t from, to;
	struct rte_ring *ring;
	struct rte_sched_port *port;
	struct queue *queues;
	uint64_t sent;
};

static struct rte_red_config red;
static struct rte_pie_config pie;
static int with_pie;
static uint32_t pipes;

static void
die(const char *what)
{
	fprintf(stderr, "rte_switch: %s\n", what);
	exit(1);
}

/* The flow's hash, as the switch computes it, of IPv4 without tags. */
static uint32_t
flow_of(struct rte_mbuf *m)
{
	const struct rte_ether_hdr *ether = rte_pktmbuf_mtod(m, struct rte_ether_hdr *);
	const struct rte_ipv4_hdr *v4 = (const void *)(ether + 1);
	uint32_t left = rte_pktmbuf_data_len(m) - sizeof(*ether), ports = 0, length;

	if (ether->ether_type != rte_cpu_to_be_16(RTE_ETHER_TYPE_IPV4) || left < sizeof(*v4))
		return 0;
	length = rte_ipv4_hdr_len(v4);
	if ((v4->next_proto_id == IPPROTO_UDP || v4->next_proto_id == IPPROTO_TCP) && left >= length + 4)
		memcpy(&ports, (const char *)v4 + length, 4);
	return rte_jhash_3words(rte_jhash_1word(v4->src_addr, 0), rte_jhash_1word(v4->dst_addr, 0), ports,
		v4->next_proto_id);
}

static void
receive(struct direction *d)
{
	struct rte_mbuf *burst[BURST];
	uint16_t count = rte_eth_rx_burst(d->from, 0, burst, BURST);
	unsigned int stored = rte_ring_sp_enqueue_burst(d->ring, (void **)burst, count, NULL);

	rte_pktmbuf_free_bulk(burst + stored, count - stored);
}

static void
serve(struct direction *d)
{
	struct rte_mbuf *burst[BURST], *taken[BURST];
	uint64_t now = rte_rdtsc();
	int out = rte_sched_port_dequeue(d->port, burst, BURST);
	uint16_t sent, in, kept = 0;

	for (int n = 0; n < out; n++) {
		struct queue *q = &d->queues[rte_mbuf_sched_queue_get(burst[n]) / RTE_SCHED_QUEUES_PER_PIPE];

		q->length--;
		if (with_pie) {
			q->pie.qlen--;
			q->pie.qlen_bytes -= rte_pktmbuf_pkt_len(burst[n]);
			rte_pie_dequeue(&q->pie, rte_pktmbuf_pkt_len(burst[n]), now);
		} else if (q->length == 0) {
			rte_red_mark_queue_empty(&q->red, now);
		}
	}
	sent = rte_eth_tx_burst(d->to, 0, burst, out);
	d->sent += sent;
	rte_pktmbuf_free_bulk(burst + sent, out - sent);

	in = rte_ring_sc_dequeue_burst(d->ring, (void **)burst, BURST, NULL);
	for (uint16_t n = 0; n < in; n++)
		rte_prefetch0(rte_pktmbuf_mtod(burst[n], void *));
	for (uint16_t n = 0; n < in; n++) {
		uint32_t pipe = flow_of(burst[n]) & (pipes - 1);
		struct queue *q = &d->queues[pipe];
		int discard = with_pie
			? rte_pie_enqueue(&pie, &q->pie, q->length, rte_pktmbuf_pkt_len(burst[n]), now)
			: rte_red_enqueue(&red, &q->red, q->length, now);

		if (discard || q->length >= QUEUE) {
			rte_pktmbuf_free(burst[n]);
			continue;
		}
		q->length++;
		aim(d->port, burst[n], pipe);
		taken[kept++] = burst[n];
	}
	/* What would not fit was discarded above, so that lengths stay those of the scheduler. */
	if (rte_sched_port_enqueue(d->port, taken, kept) != kept)
		die("the scheduler's queues are shorter than they were asked to be");
}

static void
start(uint16_t port, struct rte_mempool *pool)
{
	struct rte_eth_conf plain = {0};

	if (rte_eth_dev_configure(port, 1, 1, &plain) ||
	    rte_eth_rx_queue_setup(port, 0, 1024, SOCKET_ID_ANY, NULL, pool) ||
	    rte_eth_tx_queue_setup(port, 0, 1024, SOCKET_ID_ANY, NULL) || rte_eth_dev_start(port))
		die("a port does not start");
}

int
main(int argc, char **argv)
{
	struct direction directions[2] = {0};
	struct rte_mempool *pool;
	uint64_t wanted, seconds, until;
	int taken = rte_eal_init(argc, argv);

	if (taken < 0)
		die("the EAL does not start");
	argc -= taken, argv += taken;
	if (argc != 4 || (strcmp(argv[1], "red") && strcmp(argv[1], "pie")) || !number(argv[2], &wanted) ||
	    !wanted || wanted > 4096 || (wanted & (wanted - 1)) || !number(argv[3], &seconds))
		die("usage: rte_switch [EAL OPTIONS] -- <red|pie> <pipes, a power of 2> <seconds>");
	with_pie = !strcmp(argv[1], "pie");
	pipes = wanted;
	/* Thresholds of RED at a half and three quarters of a queue; PIE as RFC 8033 has it. */
	if (rte_red_config_init(&red, 9, QUEUE / 2, QUEUE * 3 / 4, 10) ||
	    rte_pie_config_init(&pie, 15, 15, 150, QUEUE))
		die("the library refused its configuration");
	pool = rte_pktmbuf_pool_create("packets", 40959, 256, 0, RTE_MBUF_DEFAULT_BUF_SIZE, SOCKET_ID_ANY);
	if (pool == NULL || rte_eth_dev_count_avail() != 2)
		die("there is no memory for packets, or there are not two ports");
	for (uint16_t n = 0; n < 2; n++)
		start(n, pool);
	for (uint16_t n = 0; n < 2; n++) {
		struct direction *d = &directions[n];

		d->from = n, d->to = !n;
		d->ring = rte_ring_create(n ? "b" : "a", RING, SOCKET_ID_ANY, RING_F_SP_ENQ | RING_F_SC_DEQ);
		d->port = scheduler(pipes);
		d->queues = rte_zmalloc("queues", pipes * sizeof(*d->queues), 64);
		if (!d->ring || !d->port || !d->queues)
			die("there is no memory for a queue");
		for (uint32_t pipe = 0; pipe < pipes; pipe++)
			if (rte_red_rt_data_init(&d->queues[pipe].red) || rte_pie_rt_data_init(&d->queues[pipe].pie))
				die("the library refused its state");
	}
	until = nanoseconds() + seconds * 1000000000u;
	for (unsigned int turn = 0; turn % 1024 || nanoseconds() < until; turn++)
		for (int n = 0; n < 2; n++) {
			receive(&directions[n]);
			serve(&directions[n]);
		}
	printf("%" PRIu64 "\n", directions[0].sent + directions[1].sent);
	return 0;
}
