/* Every algorithm in every discipline under overload, in the caller's memory and in the library's: every cookie comes
 * back once, counts agree, and both do the same. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <weir.h>

enum { MOST = 6000, BATCH = 32 };

#define CHECK(holds)                                                                        \
    do {                                                                                    \
        if (!(holds)) {                                                                     \
            fprintf(stderr, "line %d, %s: not %s; %s\n", __LINE__, config, #holds, message); \
            exit(1);                                                                        \
        }                                                                                   \
    } while (0)

static char config[400], message[400];
/* Fewer where a checker makes it slow: every [PACKETS]. */
static uint32_t packets = MOST;
static uint8_t back[MOST];
static uint64_t sum;

static void gave(const struct weir_departure *out, int count)
{
    for (int n = 0; n < count; n++) {
        CHECK(out[n].cookie < packets && !back[out[n].cookie]);
        back[out[n].cookie] = 1;
        sum = sum * 31 + out[n].cookie * 7 + out[n].verdict + out[n].sojourn_ns;
    }
}

static struct weir_stats run(void *memory, size_t size)
{
    struct weir_options options = WEIR_OPTIONS_INIT;
    options.config = config;
    options.seed = 7;
    options.memory = memory;
    options.memory_size = size;
    options.message = message;
    options.message_size = sizeof message;
    struct weir_queue *queue;
    CHECK(weir_queue_create(&options, &queue) == WEIR_OK);
    memset(back, 0, sizeof back);
    sum = 0;
    struct weir_packet in[BATCH];
    struct weir_departure out[BATCH];
    uint8_t verdicts[BATCH];
    uint64_t now = 0;
    for (int sent = 0; (uint32_t)sent < packets;) {
        int count = BATCH < (int)packets - sent ? BATCH : (int)packets - sent;
        for (int n = 0; n < count; n++) {
            uint32_t id = (uint32_t)(sent + n);
            in[n] = (struct weir_packet){.cookie = id, .length = 64 + id * 97 % 1450, .flow = id * 2654435761u % 50,
                                         .sender = id % 5, .receiver = id % 11, .ecn = (uint8_t)(id % 3)};
        }
        int taken = weir_queue_enqueue(queue, now, in, (uint32_t)count, verdicts);
        CHECK(taken > 0 || taken == WEIR_E_PENDING);
        for (int n = 0; n < taken; n++)
            if (WEIR_IS_DROP(verdicts[n])) {
                struct weir_departure gone = {.cookie = in[n].cookie, .verdict = verdicts[n]};
                gave(&gone, 1);
            }
        sent += taken > 0 ? taken : 0;
        /* About half of what comes, and rooms of other sizes than batches. */
        int given = weir_queue_dequeue(queue, now, out, (uint32_t)(1 + sent % 29));
        CHECK(given >= 0);
        gave(out, given);
        now += 3000000;
    }
    struct weir_gauge gauges[64];
    CHECK(weir_queue_gauges(queue, gauges, 64) >= 0);
    for (int given = 1; given > 0; gave(out, given))
        CHECK((given = weir_queue_drain(queue, out, BATCH)) >= 0);
    for (uint32_t n = 0; n < packets; n++)
        CHECK(back[n]);
    struct weir_stats stats = {.size = sizeof stats};
    CHECK(weir_queue_stats(queue, &stats) == WEIR_OK);
    CHECK(stats.arrived == packets && stats.packets == 0 && stats.pending == 0);
    CHECK(stats.arrived == stats.enqueued + stats.dropped_in + stats.overflowed);
    CHECK(stats.enqueued == stats.dequeued + stats.dropped_out + stats.shed);
    CHECK(weir_queue_destroy(&queue) == WEIR_OK && queue == NULL);
    return stats;
}

static void try(void)
{
    struct weir_options options = WEIR_OPTIONS_INIT;
    options.config = config;
    options.message = message;
    options.message_size = sizeof message;
    size_t size = 0;
    CHECK(weir_queue_size(&options, &size) == WEIR_OK);
    struct weir_stats one = run(NULL, 0);
    uint64_t first = sum;
    /* Of any alignment. */
    for (size_t skew = 0; skew < 64; skew += 21) {
        char *memory = malloc(size + skew);
        struct weir_stats other = run(memory + skew, size);
        CHECK(sum == first && !memcmp(&one, &other, sizeof one));
        free(memory);
    }
}

int main(int argc, char **argv)
{
    if (argc > 1)
        packets = (uint32_t)atoi(argv[1]);
    CHECK(packets <= MOST);
    char algorithms[400], disciplines[100], *rest, *name;
    CHECK(weir_algorithms(algorithms, sizeof algorithms) <= sizeof algorithms);
    CHECK(weir_disciplines(disciplines, sizeof disciplines) <= sizeof disciplines);
    static const char *const over_any[] = {"single", "flow", "user"};
    int tried = 0;
    for (name = strtok_r(algorithms, "\n", &rest); name; name = strtok_r(NULL, "\n", &rest))
        for (size_t n = 0; n < 3; n++, tried++) {
            CHECK(strstr(disciplines, over_any[n]));
            snprintf(config, sizeof config, "rate = '4Mbit/s'\nbuffer = '300kB'\npackets = 400\nqueue.discipline = '%s'\n%s"
                     "aqm.name = '%s'\n", over_any[n], n == 2 ? "queue.users = 16\nuser_rates = true\n" : "", name);
            try();
        }
    for (int shaped = 0; shaped < 2; shaped++, tried++) {
        snprintf(config, sizeof config, "rate = '4Mbit/s'\npackets = 400\nshaped = %s\nqueue.discipline = 'dualpi2'\n",
                 shaped ? "true" : "false");
        try();
    }
    snprintf(config, sizeof config, "rate = '4Mbit/s'\npackets = 400\nshaped = true\naqm.name = 'gsp'\n"
             "policy = { utilization_low = '94%%', utilization_target = '95%%' }\n");
    try();
    printf("%d\n", tried + 1);
    return 0;
}
