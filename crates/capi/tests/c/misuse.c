/* What goes wrong gets a code or is counted, and changes nothing. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <weir.h>

#define CHECK(holds)                                                          \
    do {                                                                      \
        if (!(holds)) {                                                       \
            fprintf(stderr, "line %d: not %s; %s\n", __LINE__, #holds, message); \
            exit(1);                                                          \
        }                                                                     \
    } while (0)

static char message[400];

static struct weir_options with(const char *config)
{
    struct weir_options options = WEIR_OPTIONS_INIT;
    options.config = config;
    options.message = message;
    options.message_size = sizeof message;
    return options;
}

static void refused(const char *config, int code, const char *says)
{
    struct weir_options options = with(config);
    struct weir_queue *queue = NULL;
    CHECK(weir_queue_create(&options, &queue) == code && queue == NULL && strstr(message, says));
    size_t size = 3;
    CHECK(weir_queue_size(&options, &size) == code && size == 3 && strstr(message, says));
}

static void making(void)
{
    struct weir_queue *queue = NULL;
    struct weir_options options = with("rate = '1Mbit/s'\naqm.name = 'pie'");
    CHECK(weir_queue_create(NULL, &queue) == WEIR_E_NULL);
    CHECK(weir_queue_create(&options, NULL) == WEIR_E_NULL);
    for (int by = -8; by <= 8; by += 16) {
        struct weir_options other = options;
        other.size += (uint32_t)by;
        CHECK(weir_queue_create(&other, &queue) == WEIR_E_SIZE);
        other = options;
        other.packet_size = (uint16_t)(other.packet_size + by);
        CHECK(weir_queue_create(&other, &queue) == WEIR_E_SIZE);
        other = options;
        other.departure_size = (uint16_t)(other.departure_size + by);
        CHECK(weir_queue_create(&other, &queue) == WEIR_E_SIZE);
    }
    refused(NULL, WEIR_E_NULL, "config");
    refused("\xff\xfe", WEIR_E_CONFIG, "UTF-8");
    refused("rate = ", WEIR_E_CONFIG, "config:1");
    refused("rate = '1Mbit/s'\naqm.name = 'codl'", WEIR_E_CONFIG, "did you mean \"codel\"");
    refused("rate = '1Mbit/s'\n\naqm.name = 'gsp'\naqm.targt = '1ms'", WEIR_E_CONFIG, "config:4");
    refused("rate = '1Mbit/s'\naqm = { name = 'codel', target = '9h' }", WEIR_E_CONFIG, "range");
    refused("rate = '1Mbit/s'\naqm.name = 'blue'\npolicy = {}", WEIR_E_CONFIG, "no set point");
    refused("aqm.name = 'codel'", WEIR_E_CONFIG, "buffer");
    refused("buffer = '1MB'\naqm.name = 'codel'\nshaped = true", WEIR_E_CONFIG, "rate");
    refused("rate = '1Mbit/s'\naqm.name = 'codel'\nuser_rates = true", WEIR_E_CONFIG, "user_rates");
    refused("rate = '1Mbit/s'\naqm.name = 'codel'\npackets = 0", WEIR_E_CONFIG, "packets");
    refused("rate = '1Mbit/s'", WEIR_E_CONFIG, "aqm.name");
    /* The message is cut where the buffer ends, and may be absent. */
    options = with("rate = ");
    options.message_size = 8;
    memset(message, 'x', sizeof message);
    CHECK(weir_queue_create(&options, &queue) == WEIR_E_CONFIG && strlen(message) == 7 && message[8] == 'x');
    options.message = NULL;
    CHECK(weir_queue_create(&options, &queue) == WEIR_E_CONFIG);
    /* Of what is refused before the text is read, too. */
    options = with("rate = '1Mbit/s'\naqm.name = 'pie'");
    options.start_ns = UINT64_MAX;
    strcpy(message, "of a call before");
    CHECK(weir_queue_create(&options, &queue) == WEIR_E_VALUE && strstr(message, "start_ns"));
    options.start_ns = 0;
    CHECK(weir_queue_create(&options, &queue) == WEIR_OK && !*message);
    CHECK(weir_queue_destroy(&queue) == WEIR_OK);
}

static void memory_of_the_caller(void)
{
    struct weir_options options = with("rate = '10Mbit/s'\npackets = 100\nqueue.discipline = 'flow'\naqm.name = 'gsp'");
    size_t size = 0;
    CHECK(weir_queue_size(&options, &size) == WEIR_OK && size > 1000);
    struct weir_queue *queue = NULL;
    for (size_t less = 0; less <= size; less = less ? less * 3 : 1) {
        options.memory = malloc(size - less ? size - less : 1);
        options.memory_size = size - less;
        int code = weir_queue_create(&options, &queue);
        if (less > 63)
            CHECK(code == WEIR_E_MEMORY && strstr(message, "too few"));
        if (less == 0)
            CHECK(code == WEIR_OK);
        if (code == WEIR_OK) {
            struct weir_queue *copy = queue;
            CHECK(weir_queue_destroy(&queue) == WEIR_OK && queue == NULL);
            /* The memory is still there, so that a second time is noticed. */
            CHECK(weir_queue_destroy(&copy) == WEIR_E_HANDLE);
            struct weir_departure out;
            CHECK(weir_queue_dequeue(copy, 0, &out, 1) == WEIR_E_HANDLE);
        }
        free(options.memory);
    }
}

static void using(void)
{
    struct weir_options options = with("rate = '8Mbit/s'\nbuffer = '5kB'\naqm.name = 'gsp'");
    struct weir_queue *queue;
    struct weir_packet in[4] = {{.cookie = 1, .length = 1000}, {.cookie = 2, .length = 1000}};
    struct weir_departure out[4];
    uint8_t said[4];
    uint64_t ns;
    CHECK(weir_queue_create(&options, &queue) == WEIR_OK);
    CHECK(weir_queue_enqueue(NULL, 0, in, 1, said) == WEIR_E_NULL);
    CHECK(weir_queue_enqueue((void *)((char *)queue + 1), 0, in, 1, said) == WEIR_E_HANDLE);
    uint64_t nothing[32] = {0};
    CHECK(weir_queue_enqueue((void *)nothing, 0, in, 1, said) == WEIR_E_HANDLE);
    CHECK(weir_queue_enqueue(queue, 0, NULL, 1, said) == WEIR_E_NULL);
    CHECK(weir_queue_enqueue(queue, 0, in, 1, NULL) == WEIR_E_NULL);
    CHECK(weir_queue_enqueue(queue, 0, (void *)((char *)in + 1), 1, said) == WEIR_E_VALUE);
    CHECK(weir_queue_enqueue(queue, 0, in, WEIR_BATCH_MAX + 1, said) == WEIR_E_VALUE);
    CHECK(weir_queue_enqueue(queue, UINT64_MAX, in, 1, said) == WEIR_E_VALUE);
    /* Packets of no length, or of one that none has, are refused with those beside them; the clock stays. */
    in[1].length = 0;
    CHECK(weir_queue_enqueue(queue, 9000000, in, 2, said) == WEIR_E_VALUE);
    in[1].length = WEIR_LENGTH_MAX + 1;
    CHECK(weir_queue_enqueue(queue, 9000000, in, 2, said) == WEIR_E_VALUE);
    in[1].length = 1000;
    CHECK(weir_queue_enqueue(queue, 0, NULL, 0, NULL) == 0);
    CHECK(weir_queue_dequeue(queue, 0, NULL, 1) == WEIR_E_NULL);
    CHECK(weir_queue_dequeue(queue, 0, NULL, 0) == 0);
    CHECK(weir_queue_due(queue, &ns) == WEIR_OK && ns == WEIR_NEVER);

    /* Time that runs backwards is taken for the latest, and counted. */
    CHECK(weir_queue_enqueue(queue, 5000000, in, 2, said) == 2);
    CHECK(weir_queue_dequeue(queue, 1000000, out, 1) == 1 && out[0].sojourn_ns == 0 && out[0].at_ns == 5000000);
    CHECK(weir_queue_dequeue(queue, 6000000, out, 4) == 1 && out[0].sojourn_ns == 1000000);
    struct weir_stats stats = {.size = sizeof stats};
    CHECK(weir_queue_stats(queue, &stats) == WEIR_OK && stats.clock_clamped == 1 && stats.dequeued == 2);
    stats.size = 8;
    CHECK(weir_queue_stats(queue, &stats) == WEIR_E_SIZE && weir_queue_stats(queue, NULL) == WEIR_E_NULL);

    /* No room: the packet is the caller's again. */
    for (int n = 0; n < 4; n++)
        in[n] = (struct weir_packet){.cookie = 10 + (uint64_t)n, .length = 2000};
    CHECK(weir_queue_enqueue(queue, 6000000, in, 4, said) == 4);
    CHECK(said[1] == WEIR_FORWARD && said[2] == (WEIR_DROP | WEIR_CAUSE_OVERFLOW) && WEIR_CAUSE(said[3]) == 1);
    in[0].length = WEIR_LENGTH_MAX;
    CHECK(weir_queue_enqueue(queue, 6000000, in, 1, said) == 1 && said[0] == (WEIR_DROP | WEIR_CAUSE_OVERFLOW));

    CHECK(weir_queue_set_rate(queue, 999) == WEIR_E_VALUE && weir_queue_set_rate(queue, 16000000) == WEIR_OK);
    CHECK(weir_queue_set_policy(queue, "target_max = '1'", message, sizeof message) == WEIR_E_CONFIG);
    CHECK(strstr(message, "target_max"));
    CHECK(weir_queue_set_policy(queue, "target_max = '1us'", message, sizeof message) == WEIR_E_CONFIG);
    CHECK(weir_queue_set_policy(queue, "\xff\xfe", message, sizeof message) == WEIR_E_CONFIG && strstr(message, "UTF-8"));
    CHECK(weir_queue_set_policy(queue, "target_max = '9ms'", NULL, 0) == WEIR_OK);
    CHECK(weir_queue_setpoint(queue, &ns) == WEIR_OK && ns == 2500000);
    CHECK(weir_queue_set_policy(queue, "target_max = '2ms'", NULL, 0) == WEIR_OK);
    CHECK(weir_queue_setpoint(queue, &ns) == WEIR_OK && ns == 2000000);
    CHECK(weir_queue_set_policy(queue, NULL, NULL, 0) == WEIR_OK);
    CHECK(weir_queue_set_setpoint(queue, 7000000) == WEIR_OK);
    CHECK(weir_queue_setpoint(queue, &ns) == WEIR_OK && ns == 7000000);

    struct weir_sample sample = {.size = sizeof sample, .kind = WEIR_SAMPLE_RTT, .value = 20000000};
    CHECK(weir_queue_sample(queue, 7000000, &sample) == WEIR_OK);
    sample.kind = 99;
    CHECK(weir_queue_sample(queue, 7000000, &sample) == WEIR_E_VALUE);
    sample.size = 1;
    CHECK(weir_queue_sample(queue, 7000000, &sample) == WEIR_E_SIZE);
    CHECK(weir_queue_set_user_rate(queue, 1, 2, 5) == WEIR_E_VALUE);
    CHECK(weir_queue_set_user_rate(queue, 1, 2, WEIR_NO_RATE) == WEIR_OK);
    CHECK(weir_queue_gauges(queue, NULL, 0) > 0 && weir_queue_gauges(queue, NULL, 3) == WEIR_E_NULL);
    CHECK(weir_queue_destroy(&queue) == WEIR_OK);
    CHECK(weir_queue_destroy(&queue) == WEIR_E_NULL && weir_queue_destroy(NULL) == WEIR_E_NULL);
}

static void pending(void)
{
    /* A queue that only sheds: what it discards must be taken out before it goes on. */
    struct weir_options options = with("rate = '8Mbit/s'\npackets = 100\nqueue.discipline = 'flow'\naqm.name = 'tail_drop'");
    struct weir_queue *queue;
    CHECK(weir_queue_create(&options, &queue) == WEIR_OK);
    uint64_t in = 0, back = 0;
    int code = 0;
    while (code >= 0) {
        struct weir_packet packet = {.cookie = in, .length = 100, .flow = (uint32_t)in % 3};
        uint8_t said;
        code = weir_queue_enqueue(queue, 0, &packet, 1, &said);
        in += code == 1;
        back += code == 1 && WEIR_IS_DROP(said);
        CHECK(in < 5000);
    }
    CHECK(code == WEIR_E_PENDING);
    struct weir_departure out[7];
    for (int given = 1; given > 0; back += (uint64_t)given)
        CHECK((given = weir_queue_dequeue(queue, 0, out, 7)) >= 0);
    CHECK(back == in && in > 400);
    /* Packets leave all the same while as many are shed as come, whatever room there is to say so. */
    for (uint32_t room = 1; room <= 7; room += 3) {
        int sent = 0;
        for (int turn = 0; turn < 3000; turn++) {
            struct weir_packet packets[16] = {{0}};
            uint8_t said[16];
            for (int n = 0; n < 16; n++)
                packets[n].length = 100;
            (void)weir_queue_enqueue(queue, 0, packets, 16, said);
            int given = weir_queue_dequeue(queue, 0, out, room);
            CHECK(given == (int)room);
            for (int n = 0; n < given; n++)
                sent += !WEIR_IS_DROP(out[n].verdict);
        }
        CHECK(sent > 20);
        struct weir_stats stats = {.size = sizeof stats};
        CHECK(weir_queue_stats(queue, &stats) == WEIR_OK && stats.pending <= 512);
    }
    CHECK(weir_queue_destroy(&queue) == WEIR_OK);
}

/* Of AddressSanitizer; null without it. */
size_t __sanitizer_get_current_allocated_bytes(void) __attribute__((weak));

static size_t allocated(void)
{
    return __sanitizer_get_current_allocated_bytes ? __sanitizer_get_current_allocated_bytes() : 0;
}

static void shed_at_once(void)
{
    /* A large packet displaces more than a thousand small ones in one call, which takes no memory. */
    struct weir_options options = with("rate = '40Mbit/s'\nqueue.discipline = 'flow'\naqm.name = 'codel'");
    struct weir_queue *queue;
    CHECK(weir_queue_size(&options, &options.memory_size) == WEIR_OK);
    options.memory = malloc(options.memory_size);
    CHECK(weir_queue_create(&options, &queue) == WEIR_OK);
    uint8_t said;
    size_t before = allocated();
    for (uint64_t n = 0; n < 8333; n++) {
        struct weir_packet small = {.cookie = n, .length = 60, .flow = 1};
        CHECK(weir_queue_enqueue(queue, 0, &small, 1, &said) == 1 && said == WEIR_FORWARD);
    }
    struct weir_packet large = {.cookie = 8333, .length = 65535, .flow = 2};
    CHECK(weir_queue_enqueue(queue, 0, &large, 1, &said) == 1 && said == WEIR_FORWARD);
    CHECK(allocated() == before);
    struct weir_stats stats = {.size = sizeof stats};
    CHECK(weir_queue_stats(queue, &stats) == WEIR_OK && stats.pending > 1024 && stats.pending == stats.shed);
    struct weir_departure out[64];
    uint64_t back = 0;
    for (int given = 1; given > 0; back += (uint64_t)given)
        CHECK((given = weir_queue_drain(queue, out, 64)) >= 0);
    CHECK(back == 8334 && allocated() == before);
    CHECK(weir_queue_destroy(&queue) == WEIR_OK);
    free(options.memory);
}

static void shaping(void)
{
    /* 1000 bytes at 8 Mbit/s take 1 ms, however rarely and in whatever order the program asks. */
    struct weir_options options = with("rate = '8Mbit/s'\nshaped = true\ncatch_up = '5ms'\nbuffer = '9MB'\n"
                                       "queue.discipline = 'flow'\naqm = { name = 'tail_drop', limit = '10s' }");
    struct weir_queue *queue;
    CHECK(weir_queue_create(&options, &queue) == WEIR_OK);
    int sent = 0;
    for (uint64_t now = 0; now < 1000000000; now += 300000) {
        struct weir_packet packet = {.length = 1000};
        struct weir_departure out[8];
        uint8_t said;
        CHECK(weir_queue_enqueue(queue, now, &packet, 1, &said) == 1 && said == WEIR_FORWARD);
        int given = weir_queue_dequeue(queue, now, out, 8);
        for (int n = 0; n < given; n++, sent++)
            CHECK(out[n].at_ns == 1000000ull * (uint64_t)sent && out[n].at_ns <= now);
    }
    CHECK(sent == 1000);
    uint64_t due;
    CHECK(weir_queue_due(queue, &due) == WEIR_OK && due == 1000000000);
    CHECK(weir_queue_destroy(&queue) == WEIR_OK);
}

static void users(void)
{
    struct weir_options options = with("rate = '80Mbit/s'\nbuffer = '1MB'\nuser_rates = true\ncatch_up = '0s'\n"
                                       "queue = { discipline = 'user', users = 8 }\naqm.name = 'tail_drop'");
    struct weir_queue *queue;
    CHECK(weir_queue_create(&options, &queue) == WEIR_OK);
    struct weir_packet in[20];
    struct weir_departure out[20];
    uint8_t said[20];
    for (int n = 0; n < 20; n++)
        in[n] = (struct weir_packet){.cookie = (uint64_t)n, .length = 1000, .receiver = (uint32_t)n % 2};
    CHECK(weir_queue_enqueue(queue, 0, in, 20, said) == 20);
    CHECK(weir_queue_set_user_rate(queue, 0, 1, 8000000) == WEIR_OK);
    uint32_t waiting = 0;
    CHECK(weir_queue_user_packets(queue, 0, 1, &waiting) == WEIR_OK && waiting == 10);
    int of_held = 0, given = weir_queue_dequeue(queue, 2500000, out, 20);
    for (int n = 0; n < given; n++)
        of_held += out[n].cookie % 2 == 1;
    CHECK(given - of_held == 10 && of_held < 10);
    CHECK(weir_queue_destroy(&queue) == WEIR_OK);
}

static void algorithms(void)
{
    struct weir_options options = with("name = 'codel'\ntarget = '5ms'");
    struct weir_aqm *aqm;
    uint8_t said = 0;
    uint64_t ns;
    struct weir_step step = {.call = 99};
    CHECK(weir_aqm_create(&options, &aqm) == WEIR_OK);
    CHECK(weir_aqm_steps(aqm, &step, 1, &said) == WEIR_E_VALUE);
    /* A step that is refused leaves the clock: CoDel sees an interval pass between two steps below. */
    step = (struct weir_step){.call = WEIR_CALL_RTT, .now_ns = 1ull << 62, .rtt_ns = UINT64_MAX};
    CHECK(weir_aqm_steps(aqm, &step, 1, &said) == WEIR_E_VALUE);
    step = (struct weir_step){.call = WEIR_CALL_ENQUEUE, .length = WEIR_LENGTH_MAX + 1};
    CHECK(weir_aqm_steps(aqm, &step, 1, &said) == WEIR_E_VALUE);
    step = (struct weir_step){.call = WEIR_CALL_ENQUEUE, .now_ns = 5, .arrived_ns = 9, .length = 1000};
    CHECK(weir_aqm_steps(aqm, &step, 1, &said) == 1 && said == WEIR_FORWARD);
    CHECK(weir_aqm_setpoint(aqm, &ns) == WEIR_OK && ns == 5000000);
    CHECK(weir_aqm_set_setpoint(aqm, 6000000) == WEIR_OK && weir_aqm_setpoint(aqm, &ns) == WEIR_OK && ns == 6000000);
    CHECK(weir_aqm_wakeup(aqm, &ns) == WEIR_OK && ns == WEIR_NEVER);
    step = (struct weir_step){.call = WEIR_CALL_DEQUEUE, .now_ns = 200000000, .arrived_ns = 150000000, .backlog = 100000};
    CHECK(weir_aqm_steps(aqm, &step, 1, &said) == 1 && said == WEIR_FORWARD);
    step.now_ns = 400000000, step.arrived_ns = 350000000;
    CHECK(weir_aqm_steps(aqm, &step, 1, &said) == 1 && said == (WEIR_DROP | WEIR_CAUSE_SET_POINT));
    /* Another kind of handle. */
    CHECK(weir_queue_due((void *)aqm, &ns) == WEIR_E_HANDLE);
    CHECK(weir_aqm_destroy(&aqm) == WEIR_OK && weir_aqm_destroy(&aqm) == WEIR_E_NULL);
    options = with("nme = 'codel'");
    CHECK(weir_aqm_create(&options, &aqm) == WEIR_E_CONFIG);
    options = with("name = 'blue'");
    CHECK(weir_aqm_create(&options, &aqm) == WEIR_OK && weir_aqm_setpoint(aqm, &ns) == WEIR_E_REFUSED);
    CHECK(weir_aqm_destroy(&aqm) == WEIR_OK);
}

int main(void)
{
    CHECK(weir_abi() == WEIR_ABI && strchr(weir_version(), '.'));
    for (int code = WEIR_E_FAULT; code <= 0; code++)
        CHECK(strlen(weir_strerror(code)) > 3 && !strstr(weir_strerror(code), "no such code"));
    making();
    memory_of_the_caller();
    using();
    pending();
    shed_at_once();
    shaping();
    users();
    algorithms();
    return 0;
}
