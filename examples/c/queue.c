/* A queue under FQ-CoDel, with steering: two packets in, two packets out.
 *
 *   cc queue.c $(pkg-config --cflags --libs weir) -o queue && ./queue
 */
#include <inttypes.h>
#include <stdio.h>
#include <weir.h>

int main(void)
{
    char message[400];
    struct weir_options options = WEIR_OPTIONS_INIT;
    options.message = message;
    options.message_size = sizeof message;
    options.seed = 1; /* on a live link a secret number */
    options.config = "rate = '100Mbit/s'\n"
                     "queue = { discipline = 'flow' }\n"
                     "aqm = { name = 'codel', target = '5ms' }\n"
                     "policy = { utilization_low = '99%', target_max = '30ms' }\n";

    struct weir_queue *queue;
    if (weir_queue_create(&options, &queue) != WEIR_OK) {
        fprintf(stderr, "%s\n", message);
        return 1;
    }

    /* The cookie is whatever the program knows a packet by: a pointer, or a number. */
    const struct weir_packet in[2] = {
        {.cookie = 11, .length = 1514, .flow = 0x1234, .ecn = 2},
        {.cookie = 22, .length = 64, .flow = 0x5678},
    };
    uint8_t verdicts[2];
    weir_queue_enqueue(queue, 1000000, in, 2, verdicts); /* at 1 ms of the program's clock */
    for (int n = 0; n < 2; n++)
        if (WEIR_IS_DROP(verdicts[n]))
            printf("packet %" PRIu64 " did not get in: free it\n", in[n].cookie);

    struct weir_departure out[32];
    int given = weir_queue_dequeue(queue, 3000000, out, 32); /* the link is free at 3 ms */
    for (int n = 0; n < given; n++)
        if (WEIR_IS_DROP(out[n].verdict))
            printf("packet %" PRIu64 " was discarded: free it\n", out[n].cookie);
        else
            printf("packet %" PRIu64 " goes on%s after %" PRIu64 " us\n", out[n].cookie,
                   WEIR_IS_MARK(out[n].verdict) ? ", with CE," : "", out[n].sojourn_ns / 1000);

    /* The policy may change while packets wait; what is refused changes nothing. */
    if (weir_queue_set_policy(queue, "target_max = '20ms'", message, sizeof message) != WEIR_OK)
        fprintf(stderr, "%s\n", message);

    struct weir_stats stats = {.size = sizeof stats};
    weir_queue_stats(queue, &stats);
    printf("%" PRIu64 " came, %" PRIu64 " went\n", stats.arrived, stats.dequeued);
    return weir_queue_destroy(&queue) == WEIR_OK ? 0 : 1;
}
