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
#define ALLOW_EXPERIMENTAL_API 1

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <rte_eal.h>
#include <rte_mbuf.h>
#include <rte_sched.h>

#define BURST 32
#define LENGTH 1000
/* 400 Gbit/s: far above what one core can schedule. */
#define RATE 50000000000ull

static void die(const char *what)
{
	fprintf(stderr, "rte_sched: %s\n", what);
	exit(1);
}

static struct rte_sched_port *scheduler(uint32_t pipes)
{
	static struct rte_sched_subport_profile_params subport_profile;
	static struct rte_sched_pipe_params pipe_profile;
	static struct rte_sched_subport_params subport;
	struct rte_sched_port_params port = {
		.name = "bench", .socket = 0, .rate = RATE, .mtu = 1522, .frame_overhead = 24,
		.n_subports_per_port = 1, .subport_profiles = &subport_profile, .n_subport_profiles = 1,
		.n_max_subport_profiles = 1, .n_pipes_per_subport = pipes,
	};
	struct rte_sched_port *made;

	subport_profile.tb_rate = RATE;
	subport_profile.tb_size = 1000000000;
	subport_profile.tc_period = 10;
	pipe_profile.tb_rate = RATE;
	pipe_profile.tb_size = 1000000;
	pipe_profile.tc_period = 40;
	pipe_profile.tc_ov_weight = 1;
	for (int tc = 0; tc < RTE_SCHED_TRAFFIC_CLASSES_PER_PIPE; tc++) {
		subport_profile.tc_rate[tc] = RATE;
		pipe_profile.tc_rate[tc] = RATE;
		subport.qsize[tc] = 64;
	}
	for (int queue = 0; queue < RTE_SCHED_BE_QUEUES_PER_PIPE; queue++)
		pipe_profile.wrr_weights[queue] = 1;
	subport.n_pipes_per_subport_enabled = pipes;
	subport.pipe_profiles = &pipe_profile;
	subport.n_pipe_profiles = 1;
	subport.n_max_pipe_profiles = 1;

	made = rte_sched_port_config(&port);
	if (made == NULL)
		die("the port cannot be configured");
	if (rte_sched_subport_config(made, 0, &subport, 0) != 0)
		die("the subport cannot be configured");
	for (uint32_t pipe = 0; pipe < pipes; pipe++)
		if (rte_sched_pipe_config(made, 0, pipe, 0) != 0)
			die("a pipe cannot be configured");
	return made;
}

static uint32_t draw(uint64_t *state, uint32_t below)
{
	*state = *state * 6364136223846793005ull + 1442695040888963407ull;
	return (uint32_t)((*state >> 32) * below >> 32);
}

static void aim(struct rte_sched_port *port, struct rte_mbuf **packets, uint32_t count, uint32_t pipes,
		uint64_t *state)
{
	for (uint32_t n = 0; n < count; n++) {
		packets[n]->pkt_len = packets[n]->data_len = LENGTH;
		rte_sched_port_pkt_write(port, packets[n], 0, draw(state, pipes), RTE_SCHED_TRAFFIC_CLASS_BE, 0,
					 RTE_COLOR_GREEN);
	}
}

static double seconds(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return now.tv_sec + now.tv_nsec * 1e-9;
}

int main(int argc, char **argv)
{
	char *eal[] = {"rte_sched", "--no-huge", "--no-pci", "--no-shconf", "--no-telemetry",
		       "-m", "1024", "--log-level", "error"};
	struct rte_mbuf *burst[BURST];
	uint64_t packets, dropped = 0, out = 0, state = 1;
	uint32_t pipes, waiting;
	double start;

	if (argc != 4)
		die("usage: rte_sched <pipes> <packets> <waiting>");
	pipes = strtoul(argv[1], NULL, 10);
	packets = strtoull(argv[2], NULL, 10);
	waiting = strtoul(argv[3], NULL, 10);
	if (rte_eal_init(sizeof(eal) / sizeof(eal[0]), eal) < 0)
		die("the EAL does not start");
	struct rte_mempool *pool =
		rte_pktmbuf_pool_create("packets", 65535, 256, 0, RTE_MBUF_DEFAULT_BUF_SIZE, 0);
	struct rte_sched_port *port = scheduler(pipes);

	if (pool == NULL)
		die("there is no memory for packets");
	for (uint32_t n = 0; n < waiting; n += BURST) {
		if (rte_pktmbuf_alloc_bulk(pool, burst, BURST) != 0)
			die("there is no memory for packets");
		aim(port, burst, BURST, pipes, &state);
		rte_sched_port_enqueue(port, burst, BURST);
	}
	start = seconds();
	for (uint64_t n = 0; n < packets; n += BURST) {
		if (rte_pktmbuf_alloc_bulk(pool, burst, BURST) != 0)
			die("packets are not taken out as fast as they are put in");
		aim(port, burst, BURST, pipes, &state);
		dropped += BURST - rte_sched_port_enqueue(port, burst, BURST);
		int taken = rte_sched_port_dequeue(port, burst, BURST);
		rte_pktmbuf_free_bulk(burst, taken);
		out += taken;
	}
	printf("%.1f %" PRIu64 "\n", (seconds() - start) * 1e9 / out, dropped);
	return 0;
}
