/* Asks an algorithm what a recording of golden steps asks, a call at a time or several, and compares the answers.
 *
 *   golden CONFIG BATCH < calls.jsonl
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <weir.h>

enum { BATCH_MAX = 64 };

static uint64_t number(const char *line, const char *key, int base)
{
    const char *at = strstr(line, key);
    return at ? strtoull(at + strlen(key) + (base == 16), NULL, base) : 0;
}

static uint8_t call_of(const char *line)
{
    static const char *const names[] = {"enqueue", "dequeue", "overflow", "empty", "wakeup", "sample"};
    char wanted[40];
    for (size_t n = 0; n < 6; n++) {
        snprintf(wanted, sizeof wanted, "\"call\":\"%s\"", names[n]);
        if (strstr(line, wanted))
            return (uint8_t)(WEIR_CALL_ENQUEUE + n);
    }
    return 0;
}

static uint8_t verdict_of(const char *line)
{
    const char *at = strstr(line, "\"verdict\":\"");
    if (!at)
        return WEIR_NO_VERDICT;
    at += strlen("\"verdict\":\"");
    if (!strncmp(at, "forward", 7))
        return WEIR_FORWARD;
    uint8_t what = strncmp(at, "mark", 4) ? WEIR_DROP : WEIR_MARK;
    return what | (strstr(at, "overflow") ? WEIR_CAUSE_OVERFLOW
                   : strstr(at, "chance") ? WEIR_CAUSE_CHANCE
                                          : WEIR_CAUSE_SET_POINT);
}

int main(int argc, char **argv)
{
    char message[400], line[1024];
    struct weir_options options = WEIR_OPTIONS_INIT;
    if (argc != 3)
        return 2;
    uint32_t batch = (uint32_t)atoi(argv[2]);
    options.config = argv[1];
    options.message = message;
    options.message_size = sizeof message;
    options.memory_size = weir_aqm_size();
    options.memory = malloc(options.memory_size);
    struct weir_aqm *aqm;
    if (weir_aqm_create(&options, &aqm) != WEIR_OK) {
        fprintf(stderr, "%s\n", message);
        return 1;
    }
    struct weir_step steps[BATCH_MAX];
    uint8_t wanted[BATCH_MAX], said[BATCH_MAX];
    uint32_t held = 0, total = 0, more = 1;
    while (more) {
        more = fgets(line, sizeof line, stdin) != NULL;
        if (more) {
            struct weir_step step = {0};
            step.now_ns = number(line, "\"now_ns\":", 10);
            step.arrived_ns = number(line, "\"arrived_ns\":", 10);
            step.seq = number(line, "\"seq\":", 10);
            step.backlog = number(line, "\"backlog\":", 10);
            step.delay_ns = number(line, "\"delay_ns\":", 10);
            step.rate_bps = number(line, "\"rate_bps\":", 10);
            step.dice = number(line, "\"dice\":", 16);
            step.rtt_ns = number(line, "\"rtt_ns\":", 10);
            step.length = (uint32_t)number(line, "\"len\":", 10);
            step.flow = (uint32_t)number(line, "\"flow\":", 10);
            step.packets = (uint32_t)number(line, "\"packets\":", 10);
            step.ecn = (uint8_t)number(line, "\"ecn\":", 10);
            step.call = call_of(line);
            wanted[held] = verdict_of(line);
            steps[held++] = step;
        }
        if (held < batch && more)
            continue;
        if (held && weir_aqm_steps(aqm, steps, held, said) != (int)held)
            return 1;
        for (uint32_t n = 0; n < held; n++)
            if (said[n] != wanted[n]) {
                fprintf(stderr, "step %" PRIu32 ": said %#x, not %#x\n", total + n, said[n], wanted[n]);
                return 1;
            }
        total += held;
        held = 0;
    }
    printf("%" PRIu32 "\n", total);
    int ended = weir_aqm_destroy(&aqm);
    free(options.memory);
    return ended == WEIR_OK ? 0 : 1;
}
