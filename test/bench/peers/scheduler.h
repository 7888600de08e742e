/*
 * DPDK's scheduler (librte_sched) with one subport and as many pipes as are
 * wanted, everything best effort in their last queue, tail drop. The rates are
 * so high that credits never hold a packet back.
 */
#ifndef SCHEDULER_H
#define SCHEDULER_H

#define ALLOW_EXPERIMENTAL_API 1

#include <stdint.h>

#include <rte_sched.h>

/* Bytes per second: more than a loop can pass. */
#define SCHED_RATE UINT64_C(100000000000)

/* NULL where the library refuses. */
static struct rte_sched_port *
scheduler(uint32_t pipes)
{
	const uint32_t be = RTE_SCHED_TRAFFIC_CLASS_BE;
	struct rte_sched_subport_profile_params profile = {
		.tb_rate = SCHED_RATE, .tb_size = 1000000, .tc_period = 10,
	};
	struct rte_sched_pipe_params pipe = {
		.tb_rate = SCHED_RATE, .tb_size = 1000000, .tc_period = 10,
		.tc_ov_weight = 1, .wrr_weights = { 1, 1, 1, 1 },
	};
	struct rte_sched_subport_params subport = {
		.n_pipes_per_subport_enabled = pipes,
		.pipe_profiles = &pipe, .n_pipe_profiles = 1, .n_max_pipe_profiles = 1,
	};
	struct rte_sched_port_params params = {
		.name = "peer", .socket = 0, .rate = SCHED_RATE, .mtu = 1522,
		.frame_overhead = RTE_SCHED_FRAME_OVERHEAD_DEFAULT,
		.n_subports_per_port = 1, .subport_profiles = &profile,
		.n_subport_profiles = 1, .n_max_subport_profiles = 1,
		.n_pipes_per_subport = pipes,
	};
	struct rte_sched_port *port;

	for (uint32_t tc = 0; tc <= be; tc++)
		profile.tc_rate[tc] = SCHED_RATE;
	pipe.tc_rate[be] = SCHED_RATE;
	subport.qsize[be] = 64;
	port = rte_sched_port_config(&params);
	if (port == NULL || rte_sched_subport_config(port, 0, &subport, 0) != 0)
		return NULL;
	for (uint32_t n = 0; n < pipes; n++)
		if (rte_sched_pipe_config(port, 0, n, 0) != 0)
			return NULL;
	return port;
}

/* Says where a packet goes. */
static inline void
aim(struct rte_sched_port *port, struct rte_mbuf *packet, uint32_t pipe)
{
	rte_sched_port_pkt_write(port, packet, 0, pipe,
		RTE_SCHED_TRAFFIC_CLASS_BE, 0, RTE_COLOR_GREEN);
}

#endif
