/* A switch of two ports for DPDK: what comes in at one goes out at the other, through a queue of libweir.
 *
 * Poll mode, bursts of 32, rings of 256. Each direction has two tasks: `receive` takes packets from a port, reads what
 * the queue asks for, and puts them into a ring; `serve` takes them from the ring into the queue, and what the queue
 * gives out to the other port. The tasks are spread over the cores that EAL is given: one core does all four, two do a
 * direction each, four a task each. A queue belongs to one core; who asks over telemetry leaves a note, which that core
 * answers between two bursts.
 */
#include <errno.h>
#include <getopt.h>
#include <inttypes.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <pthread.h>
#include <stdbool.h>

#include <rte_cycles.h>
#include <rte_eal.h>
#include <rte_ethdev.h>
#include <rte_ether.h>
#include <rte_ip.h>
#include <rte_jhash.h>
#include <rte_lcore.h>
#include <rte_malloc.h>
#include <rte_mbuf.h>
#include <rte_ring.h>
#include <rte_telemetry.h>
#include <weir.h>

enum {
    BURST = 32,
    RING = 256,
    TURNS = 4,
    DIRECTIONS = 2,
    TASKS = 2 * DIRECTIONS,
    TEXT = 1024,
    /* Two queues of the usual 16384 packets, and what ports and rings hold. */
    MBUFS = 2 * 16384 + 8192,
    /* On the line a frame takes preamble, start, checksum and gap beside what a port sees of it. */
    LINE_OVERHEAD = 24,
    FILE_MAX = 1 << 16,
};

static atomic_bool stopping;

/* What somebody asks of the core that has a queue. */
struct note {
    enum { NOTHING, STATS, GAUGES, POLICY, RATE } what;
    char text[TEXT];
    uint64_t rate;
    int code;
    struct weir_stats stats;
    struct weir_gauge gauges[64];
};

struct direction {
    uint16_t from, to;
    struct rte_ring *ring;
    struct weir_queue *queue;
    void *memory;
    /* Packets that the port did not take yet: the queue is not asked for more. */
    struct rte_mbuf *leaving[BURST];
    uint16_t leaving_first, leaving_count;
    /* Of the core of `serve`, as what stands above. */
    uint64_t sent, sent_bytes, discarded;
    /* Of the core of `receive`. */
    _Alignas(RTE_CACHE_LINE_SIZE) uint64_t received;
    uint64_t ring_full;
    /* Where a note is left; the core of `serve` sets it back to null. */
    _Alignas(RTE_CACHE_LINE_SIZE) struct note *_Atomic note;
};

static struct direction directions[DIRECTIONS];
static struct rte_mempool *mbufs;

static void fail(const char *what, const char *why)
{
    fprintf(stderr, "weir-switch: %s: %s\n", what, why);
    exit(1);
}

static uint64_t now_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

/* ---- What a queue asks of a packet ---- */

/* The IP header of a frame, behind VLAN tags, and which it is; null for all else and for frames that end too early. */
static void *ip_of(struct rte_mbuf *m, uint16_t *type, uint32_t *left)
{
    uint32_t at = sizeof(struct rte_ether_hdr), end = rte_pktmbuf_data_len(m);
    if (end < at)
        return NULL;
    *type = rte_pktmbuf_mtod(m, struct rte_ether_hdr *)->ether_type;
    for (int tags = 0; tags < 2; tags++) {
        if (*type != rte_cpu_to_be_16(RTE_ETHER_TYPE_VLAN) && *type != rte_cpu_to_be_16(RTE_ETHER_TYPE_QINQ))
            break;
        if (end < at + sizeof(struct rte_vlan_hdr))
            return NULL;
        *type = rte_pktmbuf_mtod_offset(m, struct rte_vlan_hdr *, at)->eth_proto;
        at += sizeof(struct rte_vlan_hdr);
    }
    *left = end - at;
    bool whole = (*type == rte_cpu_to_be_16(RTE_ETHER_TYPE_IPV4) && *left >= sizeof(struct rte_ipv4_hdr)) ||
                 (*type == rte_cpu_to_be_16(RTE_ETHER_TYPE_IPV6) && *left >= sizeof(struct rte_ipv6_hdr));
    return whole ? rte_pktmbuf_mtod_offset(m, void *, at) : NULL;
}

static bool has_ports(uint8_t protocol)
{
    return protocol == IPPROTO_TCP || protocol == IPPROTO_UDP || protocol == IPPROTO_SCTP;
}

/* What the queue is told. */
static void describe(struct rte_mbuf *m, struct weir_packet *p)
{
    uint16_t type;
    uint32_t left, ports = 0;
    void *ip = ip_of(m, &type, &left);
    *p = (struct weir_packet){.cookie = (uintptr_t)m, .length = rte_pktmbuf_pkt_len(m) + LINE_OVERHEAD};
    if (!ip)
        return;
    if (type == rte_cpu_to_be_16(RTE_ETHER_TYPE_IPV4)) {
        const struct rte_ipv4_hdr *v4 = ip;
        uint32_t length = rte_ipv4_hdr_len(v4);
        bool first = !(v4->fragment_offset & rte_cpu_to_be_16(RTE_IPV4_HDR_OFFSET_MASK | RTE_IPV4_HDR_MF_FLAG));
        if (first && has_ports(v4->next_proto_id) && left >= length + 4)
            memcpy(&ports, (const char *)ip + length, 4);
        p->ecn = v4->type_of_service;
        p->sender = rte_jhash_1word(v4->src_addr, 0);
        p->receiver = rte_jhash_1word(v4->dst_addr, 0);
        p->flow = rte_jhash_3words(p->sender, p->receiver, ports, v4->next_proto_id);
    } else {
        const struct rte_ipv6_hdr *v6 = ip;
        if (has_ports(v6->proto) && left >= sizeof *v6 + 4)
            memcpy(&ports, v6 + 1, 4);
        p->ecn = (uint8_t)(rte_be_to_cpu_32(v6->vtc_flow) >> 20);
        p->sender = rte_jhash(v6->src_addr, 16, 0);
        p->receiver = rte_jhash(v6->dst_addr, 16, 0);
        p->flow = rte_jhash_3words(p->sender, p->receiver, ports, v6->proto);
    }
}

/* Sets CE (RFC 3168 section 5), and in IPv4 mends the checksum (RFC 1624 section 3). */
static void mark(struct rte_mbuf *m)
{
    uint16_t type;
    uint32_t left;
    void *ip = ip_of(m, &type, &left);
    if (!ip)
        return;
    if (type == rte_cpu_to_be_16(RTE_ETHER_TYPE_IPV4)) {
        struct rte_ipv4_hdr *v4 = ip;
        uint16_t before, after;
        memcpy(&before, ip, 2);
        v4->type_of_service |= 3;
        memcpy(&after, ip, 2);
        uint32_t sum = (uint16_t)~v4->hdr_checksum + (uint16_t)~before + (uint32_t)after;
        sum = (sum & 0xffff) + (sum >> 16);
        v4->hdr_checksum = (uint16_t) ~((sum & 0xffff) + (sum >> 16));
    } else {
        struct rte_ipv6_hdr *v6 = ip;
        v6->vtc_flow |= rte_cpu_to_be_32(3u << 20);
    }
}

/* ---- The tasks ---- */

static void receive(struct direction *d)
{
    struct rte_mbuf *burst[BURST];
    uint16_t count = rte_eth_rx_burst(d->from, 0, burst, BURST);
    if (!count)
        return;
    d->received += count;
    unsigned stored = rte_ring_sp_enqueue_burst(d->ring, (void **)burst, count, NULL);
    /* A core that serves more slowly than packets come loses them here, where it is counted. */
    d->ring_full += count - stored;
    rte_pktmbuf_free_bulk(burst + stored, count - stored);
}

static void answer(struct direction *d, struct note *note)
{
    switch (note->what) {
    case STATS:
        note->stats.size = sizeof note->stats;
        note->code = weir_queue_stats(d->queue, &note->stats);
        break;
    case GAUGES:
        note->code = weir_queue_gauges(d->queue, note->gauges, RTE_DIM(note->gauges));
        break;
    case POLICY: {
        char policy[TEXT];
        snprintf(policy, sizeof policy, "%s", note->text);
        note->text[0] = 0;
        note->code = weir_queue_set_policy(d->queue, *policy ? policy : NULL, note->text, sizeof note->text);
        break;
    }
    case RATE:
        note->code = weir_queue_set_rate(d->queue, note->rate);
        break;
    case NOTHING:
        break;
    }
}

/* Gives the port what is leaving; whether all is gone. */
static bool send_on(struct direction *d)
{
    if (d->leaving_count) {
        uint16_t sent = rte_eth_tx_burst(d->to, 0, d->leaving + d->leaving_first, d->leaving_count);
        d->sent += sent;
        d->leaving_first += sent;
        d->leaving_count -= sent;
    }
    return d->leaving_count == 0;
}

/* Packets leave first, so that they leave by the time at which they could. */
static void dequeue(struct direction *d, uint64_t now)
{
    struct weir_departure out[BURST];
    /* Again while there may be more, as of packets that a full queue sheds; and not for ever. */
    for (int turn = 0; turn < TURNS && send_on(d); turn++) {
        int32_t count = weir_queue_dequeue(d->queue, now, out, BURST);
        d->leaving_first = 0;
        for (int32_t n = 0; n < count; n++) {
            struct rte_mbuf *m = (struct rte_mbuf *)(uintptr_t)out[n].cookie;
            if (WEIR_IS_DROP(out[n].verdict)) {
                d->discarded++;
                rte_pktmbuf_free(m);
                continue;
            }
            if (WEIR_IS_MARK(out[n].verdict))
                mark(m);
            d->sent_bytes += out[n].length;
            d->leaving[d->leaving_count++] = m;
        }
        if (count < BURST)
            turn = TURNS;
    }
    send_on(d);
}

static void enqueue(struct direction *d, uint64_t now)
{
    struct rte_mbuf *burst[BURST];
    struct weir_packet packets[BURST];
    uint8_t verdicts[BURST];
    unsigned count = rte_ring_sc_dequeue_burst(d->ring, (void **)burst, BURST, NULL);
    if (!count)
        return;
    for (unsigned n = 0; n < count; n++)
        rte_prefetch0(rte_pktmbuf_mtod(burst[n], void *));
    for (unsigned n = 0; n < count; n++)
        describe(burst[n], &packets[n]);
    int32_t taken = weir_queue_enqueue(d->queue, now, packets, count, verdicts);
    for (unsigned n = 0; n < count; n++)
        /* What the queue did not look at finds no room, either: it has too much to give back first. */
        if (taken < 0 || n >= (unsigned)taken || WEIR_IS_DROP(verdicts[n])) {
            d->discarded++;
            rte_pktmbuf_free(burst[n]);
        }
}

static void serve(struct direction *d)
{
    uint64_t now = now_ns();
    dequeue(d, now);
    enqueue(d, now);
    struct note *note = atomic_load_explicit(&d->note, memory_order_acquire);
    if (note) {
        answer(d, note);
        atomic_store_explicit(&d->note, NULL, memory_order_release);
    }
}

static void task(unsigned number)
{
    struct direction *d = &directions[number / 2];
    if (number % 2)
        serve(d);
    else
        receive(d);
}

static unsigned core_number[RTE_MAX_LCORE], cores;

/* What one core does: all tasks of its number. */
static int loop(void *unused)
{
    (void)unused;
    unsigned own = core_number[rte_lcore_id()], each = (TASKS + cores - 1) / cores;
    while (!atomic_load_explicit(&stopping, memory_order_relaxed))
        for (unsigned n = own * each; n < (own + 1) * each && n < TASKS; n++)
            task(n);
    return 0;
}

/* ---- Telemetry ---- */

/* One who asks at a time. */
static pthread_mutex_t asking = PTHREAD_MUTEX_INITIALIZER;

/* Leaves a note at the direction that `params` begins with; 0 if it was answered. */
static int ask(const char *params, struct note *note, const char **rest)
{
    char *end = NULL;
    unsigned long number = params ? strtoul(params, &end, 10) : DIRECTIONS;
    if (number >= DIRECTIONS || end == params)
        return -EINVAL;
    while (*end == ' ' || *end == ',')
        end++;
    *rest = end;
    if (note->what == POLICY && snprintf(note->text, TEXT, "%s", end) >= TEXT)
        return -E2BIG;
    if (note->what == RATE)
        note->rate = strtoull(end, NULL, 10);
    struct direction *d = &directions[number];
    pthread_mutex_lock(&asking);
    atomic_store_explicit(&d->note, note, memory_order_release);
    /* The loop answers between two bursts; at the end of the program nobody does. */
    while (atomic_load_explicit(&d->note, memory_order_acquire)) {
        struct note *mine = note;
        if (atomic_load(&stopping) && atomic_compare_exchange_strong(&d->note, &mine, NULL)) {
            pthread_mutex_unlock(&asking);
            return -ESHUTDOWN;
        }
        rte_delay_us_sleep(20);
    }
    pthread_mutex_unlock(&asking);
    return 0;
}

static int show_stats(const char *command, const char *params, struct rte_tel_data *data)
{
    struct note note = {.what = STATS};
    const char *rest;
    (void)command;
    int code = ask(params, &note, &rest);
    if (code || note.code)
        return code ? code : -EIO;
    rte_tel_data_start_dict(data);
    const struct direction *d = &directions[atoi(params)];
    const struct {
        const char *name;
        uint64_t value;
    } all[] = {
        {"received", d->received},
        {"ring_full", d->ring_full},
        {"sent", d->sent},
        {"arrived", note.stats.arrived},
        {"enqueued", note.stats.enqueued},
        {"dropped_in", note.stats.dropped_in},
        {"overflowed", note.stats.overflowed},
        {"shed", note.stats.shed},
        {"dequeued", note.stats.dequeued},
        {"dequeued_bytes", note.stats.dequeued_bytes},
        {"dropped_out", note.stats.dropped_out},
        {"marked", note.stats.marked},
        {"packets", note.stats.packets},
        {"backlog_bytes", note.stats.backlog_bytes},
        {"setpoint_ns", note.stats.setpoint_ns},
        {"moves", note.stats.moves},
    };
    for (size_t n = 0; n < RTE_DIM(all); n++)
        rte_tel_data_add_dict_u64(data, all[n].name, all[n].value);
    return 0;
}

static int show_gauges(const char *command, const char *params, struct rte_tel_data *data)
{
    struct note note = {.what = GAUGES};
    const char *rest;
    char value[32];
    (void)command;
    int code = ask(params, &note, &rest);
    if (code || note.code < 0)
        return code ? code : -EIO;
    rte_tel_data_start_dict(data);
    /* Telemetry has whole numbers and texts alone. */
    for (int n = 0; n < note.code && n < (int)RTE_DIM(note.gauges); n++) {
        snprintf(value, sizeof value, "%.6g", note.gauges[n].value);
        rte_tel_data_add_dict_string(data, note.gauges[n].name, value);
    }
    return 0;
}

static int said(struct rte_tel_data *data, const struct note *note)
{
    rte_tel_data_start_dict(data);
    rte_tel_data_add_dict_string(data, "result", note->code == WEIR_OK ? "ok" : "refused");
    if (note->code != WEIR_OK)
        rte_tel_data_add_dict_string(data, "reason", *note->text ? note->text : weir_strerror(note->code));
    return 0;
}

static int set_policy(const char *command, const char *params, struct rte_tel_data *data)
{
    struct note note = {.what = POLICY};
    const char *rest;
    (void)command;
    int code = ask(params, &note, &rest);
    return code ? code : said(data, &note);
}

static int set_rate(const char *command, const char *params, struct rte_tel_data *data)
{
    struct note note = {.what = RATE};
    const char *rest;
    (void)command;
    int code = ask(params, &note, &rest);
    return code ? code : said(data, &note);
}

/* ---- Beginning and end ---- */

static char *text_of(const char *path)
{
    FILE *file = fopen(path, "r");
    if (!file)
        fail(path, strerror(errno));
    char *text = calloc(1, FILE_MAX);
    if (!text || fread(text, 1, FILE_MAX, file) == FILE_MAX)
        fail(path, "is larger than a configuration can be");
    fclose(file);
    return text;
}

/* The memory of a queue is DPDK's, so that it lies in large pages on the socket of its port. */
static void make_queue(struct direction *d, const char *path, unsigned number)
{
    char message[TEXT], name[32], *text = text_of(path);
    struct weir_options options = WEIR_OPTIONS_INIT;
    options.config = text;
    options.start_ns = now_ns();
    options.seed = rte_rdtsc() ^ (uint64_t)(uintptr_t)d;
    options.message = message;
    options.message_size = sizeof message;
    if (weir_queue_size(&options, &options.memory_size) != WEIR_OK)
        fail(path, message);
    options.memory = d->memory = rte_malloc_socket("weir", options.memory_size, 64, rte_eth_dev_socket_id(d->to));
    if (!d->memory)
        fail(path, "DPDK has too little memory for the queue: give EAL more with -m, or the queue fewer `packets`");
    if (weir_queue_create(&options, &d->queue) != WEIR_OK)
        fail(path, message);
    free(text);
    snprintf(name, sizeof name, "weir_%u", number);
    d->ring = rte_ring_create(name, RING, rte_eth_dev_socket_id(d->to), RING_F_SP_ENQ | RING_F_SC_DEQ);
    if (!d->ring)
        fail(name, rte_strerror(rte_errno));
}

static void make_port(uint16_t port)
{
    struct rte_eth_conf conf = {0};
    char name[RTE_ETH_NAME_MAX_LEN];
    rte_eth_dev_get_name_by_port(port, name);
    uint16_t rx = 1024, tx = 1024;
    int code = rte_eth_dev_configure(port, 1, 1, &conf);
    code = code ? code : rte_eth_dev_adjust_nb_rx_tx_desc(port, &rx, &tx);
    code = code ? code : rte_eth_rx_queue_setup(port, 0, rx, rte_eth_dev_socket_id(port), NULL, mbufs);
    code = code ? code : rte_eth_tx_queue_setup(port, 0, tx, rte_eth_dev_socket_id(port), NULL);
    code = code ? code : rte_eth_dev_start(port);
    if (code)
        fail(name, rte_strerror(-code));
    /* A switch takes what is for others; virtual ports that hand on everything need not be told. */
    code = rte_eth_promiscuous_enable(port);
    if (code && code != -ENOTSUP)
        fail(name, rte_strerror(-code));
}

static void stop(int signal)
{
    (void)signal;
    atomic_store(&stopping, true);
}

/* Packets of a queue and of its ring are given back; the results, one line of JSON for each direction. */
static void end(struct direction *d, unsigned number)
{
    struct weir_departure out[BURST];
    struct rte_mbuf *m;
    uint64_t left = d->leaving_count;
    rte_pktmbuf_free_bulk(d->leaving + d->leaving_first, d->leaving_count);
    struct weir_stats stats = {.size = sizeof stats};
    weir_queue_stats(d->queue, &stats);
    while (rte_ring_sc_dequeue(d->ring, (void **)&m) == 0) {
        rte_pktmbuf_free(m);
        left++;
    }
    for (int32_t count; (count = weir_queue_drain(d->queue, out, BURST)) > 0; left += (uint64_t)count)
        for (int32_t n = 0; n < count; n++)
            rte_pktmbuf_free((struct rte_mbuf *)(uintptr_t)out[n].cookie);
    printf("{\"direction\": %u, \"received\": %" PRIu64 ", \"ring_full\": %" PRIu64 ", \"sent\": %" PRIu64
           ", \"sent_bytes\": %" PRIu64 ", \"discarded\": %" PRIu64 ", \"left\": %" PRIu64 ", \"marked\": %" PRIu64
           ", \"moves\": %" PRIu64 "}\n",
           number, d->received, d->ring_full, d->sent, d->sent_bytes, d->discarded, left, stats.marked, stats.moves);
    weir_queue_destroy(&d->queue);
    rte_free(d->memory);
    rte_ring_free(d->ring);
}

static const char USAGE[] =
    "usage: weir-switch [EAL OPTIONS] -- --config FILE [--back FILE] [--mbufs N] [--seconds N]\n"
    "\n"
    "Joins the two ports that EAL has, with a queue of libweir for each direction.\n"
    "\n"
    "  --config FILE   queue from port 0 to port 1, in TOML: rate, shaped, queue, aqm, policy (libweir(3))\n"
    "  --back FILE     queue from port 1 to port 0; the same without it\n"
    "  --mbufs N       packet buffers: as many as both queues hold (`packets`) and 8192; 40960 without it\n"
    "  --seconds N     end after so long; else on SIGINT or SIGTERM\n"
    "\n"
    "Over DPDK's telemetry (dpdk-telemetry.py), D being 0 or 1:\n"
    "\n"
    "  /weir/stats,D           counters and the set point\n"
    "  /weir/gauges,D          inner variables of the algorithm\n"
    "  /weir/policy,D TOML     steers by another policy from now on; without TOML steering ends\n"
    "  /weir/rate,D BIT/S      another rate of the link\n"
    "\n"
    "Example: weir-switch -l 0-1 --no-pci --vdev net_af_packet0,iface=eth1 --vdev net_af_packet1,iface=eth2 \\\n"
    "             -- --config queue.toml\n";

int main(int argc, char **argv)
{
    for (int n = 1; n < argc; n++)
        if (!strcmp(argv[n], "--help") || !strcmp(argv[n], "-h")) {
            fputs(USAGE, stdout);
            return 0;
        }
    int taken = rte_eal_init(argc, argv);
    if (taken < 0)
        fail("EAL", rte_strerror(rte_errno));
    argc -= taken;
    argv += taken;
    const char *files[DIRECTIONS] = {NULL, NULL};
    double seconds = 0;
    unsigned mbufs_wanted = MBUFS;
    static const struct option options[] = {{"config", required_argument, NULL, 'c'},
                                            {"back", required_argument, NULL, 'b'},
                                            {"mbufs", required_argument, NULL, 'm'},
                                            {"seconds", required_argument, NULL, 's'},
                                            {NULL, 0, NULL, 0}};
    for (int option; (option = getopt_long(argc, argv, "", options, NULL)) != -1;) {
        if (option == 'c')
            files[0] = optarg;
        else if (option == 'b')
            files[1] = optarg;
        else if (option == 'm')
            mbufs_wanted = (unsigned)strtoul(optarg, NULL, 10);
        else if (option == 's')
            seconds = atof(optarg);
        else
            fail("options", "see --help");
    }
    if (!files[0] || optind < argc)
        fail("options", "one --config is needed, and nothing beside options is taken; see --help");
    if (!files[1])
        files[1] = files[0];
    if (rte_eth_dev_count_avail() != 2)
        fail("ports", "exactly two are joined: give EAL two with --vdev or -a");
    cores = rte_lcore_count();
    if (cores > TASKS)
        fail("cores", "there is work for four at most: give EAL fewer with -l");

    uint16_t ports[2], count = 0, port;
    RTE_ETH_FOREACH_DEV(port) ports[count++] = port;
    mbufs = rte_pktmbuf_pool_create("weir", mbufs_wanted, 256, 0, RTE_MBUF_DEFAULT_BUF_SIZE, SOCKET_ID_ANY);
    if (!mbufs)
        fail("packet buffers", "DPDK has too little memory: give EAL more with -m");
    for (unsigned n = 0; n < 2; n++)
        make_port(ports[n]);
    for (unsigned n = 0; n < DIRECTIONS; n++) {
        directions[n].from = ports[n];
        directions[n].to = ports[!n];
        make_queue(&directions[n], files[n], n);
    }
    rte_telemetry_register_cmd("/weir/stats", show_stats, "Counters of a direction, 0 or 1");
    rte_telemetry_register_cmd("/weir/gauges", show_gauges, "Inner variables of a direction's algorithm");
    rte_telemetry_register_cmd("/weir/policy", set_policy, "D TOML: steers direction D by another policy");
    rte_telemetry_register_cmd("/weir/rate", set_rate, "D BIT/S: another rate of direction D");
    signal(SIGINT, stop);
    signal(SIGTERM, stop);

    unsigned lcore, number = 1;
    core_number[rte_get_main_lcore()] = 0;
    RTE_LCORE_FOREACH_WORKER(lcore) core_number[lcore] = number++;
    printf("weir-switch: %u cores, %s\n", cores, weir_version());
    fflush(stdout);
    uint64_t until = seconds > 0 ? now_ns() + (uint64_t)(seconds * 1e9) : UINT64_MAX;
    rte_eal_mp_remote_launch(loop, NULL, SKIP_MAIN);
    /* The main core works, too, and looks at the clock now and then. */
    unsigned each = (TASKS + cores - 1) / cores;
    for (unsigned turn = 0; !atomic_load_explicit(&stopping, memory_order_relaxed); turn++) {
        for (unsigned n = 0; n < each; n++)
            task(n);
        if (turn % 1024 == 0 && now_ns() >= until)
            stop(0);
    }
    rte_eal_mp_wait_lcore();
    for (unsigned n = 0; n < 2; n++) {
        rte_eth_dev_stop(ports[n]);
        end(&directions[n], n);
    }
    for (unsigned n = 0; n < 2; n++)
        rte_eth_dev_close(ports[n]);
    rte_eal_cleanup();
    return 0;
}
