/* One port of DPDK to another through a queue of libweir, in bursts of 32, for a second.
 *
 *   cc dpdk.c $(pkg-config --cflags --libs libdpdk weir) -o dpdk
 *   ./dpdk -l 0 --no-huge -m 128 --no-pci --vdev net_null0,size=1000 --vdev net_null1
 */
#include <inttypes.h>
#include <stdio.h>
#include <rte_cycles.h>
#include <rte_ethdev.h>
#include <weir.h>
static uint64_t now_ns(void)
{
    return (double)rte_rdtsc() * 1e9 / rte_get_tsc_hz();
}
int main(int argc, char **argv)
{
    if (rte_eal_init(argc, argv) < 0 || rte_eth_dev_count_avail() != 2)
        return fprintf(stderr, "give two ports\n"), 1;
    struct rte_mempool *pool = rte_pktmbuf_pool_create("mbufs", 16383, 256, 0, RTE_MBUF_DEFAULT_BUF_SIZE, SOCKET_ID_ANY);
    struct rte_eth_conf plain = {0};
    for (uint16_t port = 0; port < 2; port++)
        if (!pool || rte_eth_dev_configure(port, 1, 1, &plain) || rte_eth_rx_queue_setup(port, 0, 256, SOCKET_ID_ANY, NULL, pool) ||
            rte_eth_tx_queue_setup(port, 0, 256, SOCKET_ID_ANY, NULL) || rte_eth_dev_start(port))
            return fprintf(stderr, "port %u does not start\n", port), 1;
    char message[400];
    struct weir_options options = WEIR_OPTIONS_INIT;
    options.message = message, options.message_size = sizeof message, options.start_ns = now_ns();
    options.config = "rate = '1Gbit/s'\nshaped = true\nbuffer = '20ms'\naqm = { name = 'gsp', target = '2ms' }\n";
    struct weir_queue *queue;
    if (weir_queue_create(&options, &queue) != WEIR_OK)
        return fprintf(stderr, "%s\n", message), 1;
    for (uint64_t now = now_ns(), end = now + 1000000000u; now < end; now = now_ns()) {
        struct rte_mbuf *burst[32];
        struct weir_packet in[32] = {0};
        struct weir_departure out[32];
        uint8_t verdicts[32];
        uint16_t count = rte_eth_rx_burst(0, 0, burst, 32), sending = 0;
        for (int n = 0; n < count; n++) /* the cookie is the packet; a switch would read its flow and ECN here */
            in[n].cookie = (uintptr_t)burst[n], in[n].length = rte_pktmbuf_pkt_len(burst[n]) + 24;
        int taken = weir_queue_enqueue(queue, now, in, count, verdicts);
        for (int n = 0; n < count; n++)
            if (n >= taken || WEIR_IS_DROP(verdicts[n]))
                rte_pktmbuf_free(burst[n]);
        int given = weir_queue_dequeue(queue, now, out, 32);
        for (int n = 0; n < given; n++) {
            burst[sending] = (struct rte_mbuf *)(uintptr_t)out[n].cookie;
            if (WEIR_IS_DROP(out[n].verdict))
                rte_pktmbuf_free(burst[sending]);
            else
                sending++;
        }
        uint16_t sent = rte_eth_tx_burst(1, 0, burst, sending);
        rte_pktmbuf_free_bulk(burst + sent, sending - sent);
    }
    struct weir_stats stats = {.size = sizeof stats};
    weir_queue_stats(queue, &stats);
    printf("%" PRIu64 " came, %" PRIu64 " went, %.0f Mbit/s\n", stats.arrived, stats.dequeued, stats.dequeued_bytes * 8e-6);
    return 0;
}
