/*
 * libweir: active queue management for programs in C. The manual is libweir(3).
 *
 * Made by cbindgen from crates/capi/src; change it there.
 * MIT or Apache-2.0, at your choice.
 */

#ifndef WEIR_H
#define WEIR_H

#include <stddef.h>
#include <stdint.h>

/*
 Version of the structs and functions of this header; it grows when one is added.
 */
#define WEIR_ABI 1

/*
 Done.
 */
#define WEIR_OK 0

/*
 A pointer is null that must not be.
 */
#define WEIR_E_NULL -1

/*
 The size that a struct says of itself is none that this library knows.
 */
#define WEIR_E_SIZE -2

/*
 The text of a configuration is refused; the message says where and what to do.
 */
#define WEIR_E_CONFIG -3

/*
 The memory is too small; the message says how much is needed.
 */
#define WEIR_E_MEMORY -4

/*
 This is no live handle.
 */
#define WEIR_E_HANDLE -5

/*
 The algorithm or the discipline cannot do that.
 */
#define WEIR_E_REFUSED -6

/*
 A number is out of its range, or an array is not aligned.
 */
#define WEIR_E_VALUE -7

/*
 Discarded packets wait to be taken out with weir_queue_dequeue before more are taken in.
 */
#define WEIR_E_PENDING -8

/*
 The library failed, which is a fault in it. The handle can only be destroyed.
 */
#define WEIR_E_FAULT -9

/*
 A verdict: the packet goes on.
 */
#define WEIR_FORWARD 0

/*
 A verdict: the packet goes on, and the caller must set CE in it. A cause may be added.
 */
#define WEIR_MARK 16

/*
 A verdict: the packet is discarded, and is the caller's again. A cause is added.
 */
#define WEIR_DROP 32

/*
 A question that has no verdict.
 */
#define WEIR_NO_VERDICT 255

/*
 A cause: there was no room.
 */
#define WEIR_CAUSE_OVERFLOW 1

/*
 A cause: delay or backlog stood above the set point.
 */
#define WEIR_CAUSE_SET_POINT 2

/*
 A cause: the dice of a random early discard.
 */
#define WEIR_CAUSE_CHANCE 3

/*
 Most packets of one call.
 */
#define WEIR_BATCH_MAX (1 << 20)

/*
 Most bytes of one packet.
 */
#define WEIR_LENGTH_MAX (1 << 20)

/*
 No time: nothing waits.
 */
#define WEIR_NEVER UINT64_MAX

/*
 No rate: a user is not held to any.
 */
#define WEIR_NO_RATE UINT64_MAX

/*
 A round-trip time in nanoseconds.
 */
#define WEIR_SAMPLE_RTT 1

/*
 The rate that the link delivers, in bit/s.
 */
#define WEIR_SAMPLE_LINK_RATE 2

/*
 Bytes that a flow has in flight.
 */
#define WEIR_SAMPLE_INFLIGHT 3

/*
 How long senders take to answer a signal, in nanoseconds.
 */
#define WEIR_SAMPLE_REACTION 4

/*
 A packet arrives and there is room.
 */
#define WEIR_CALL_ENQUEUE 1

/*
 A packet was taken from the head.
 */
#define WEIR_CALL_DEQUEUE 2

/*
 A packet arrives and there is no room.
 */
#define WEIR_CALL_OVERFLOW 3

/*
 The queue ran empty.
 */
#define WEIR_CALL_EMPTY 4

/*
 The time has come that weir_aqm_wakeup told.
 */
#define WEIR_CALL_WAKEUP 5

/*
 A round trip was measured.
 */
#define WEIR_CALL_RTT 6

/*
 An algorithm alone. One thread at a time may use it.
 */
typedef struct weir_aqm weir_aqm;

/*
 A queue with its discipline, its algorithm and its policy. One thread at a time may use it.
 */
typedef struct weir_queue weir_queue;

/*
 What a queue or an algorithm is made with. Begin with WEIR_OPTIONS_INIT.
 */
typedef struct weir_options {
    /*
     sizeof(struct weir_options).
     */
    uint32_t size;
    /*
     sizeof(struct weir_packet).
     */
    uint16_t packet_size;
    /*
     sizeof(struct weir_departure).
     */
    uint16_t departure_size;
    /*
     What is made, as TOML in UTF-8 that ends with a zero byte; libweir(3) has the keys.
     */
    const char *config;
    /*
     Time of the first call at the earliest, in nanoseconds of the caller's clock.
     */
    uint64_t start_ns;
    /*
     For dice and hashes: the same seed makes the same decisions. On a live link take a secret one.
     */
    uint64_t seed;
    /*
     Memory for it, of at least as many bytes as weir_queue_size tells and of any alignment; null to have
     the library allocate. It must stay as it is until the handle is destroyed.
     */
    void *memory;
    /*
     Bytes of `memory`.
     */
    size_t memory_size;
    /*
     Where to put a text that says why something was refused; may be null.
     */
    char *message;
    /*
     Bytes of `message`; longer texts are cut.
     */
    size_t message_size;
} weir_options;

/*
 A packet that wants in.
 */
typedef struct weir_packet {
    /*
     What the caller knows it by; handed back as it is.
     */
    uint64_t cookie;
    /*
     Bytes, by the accounting in which the link's rate is meant: 1 to WEIR_LENGTH_MAX.
     */
    uint32_t length;
    /*
     Hash of its flow.
     */
    uint32_t flow;
    /*
     Hash of its source address; 0 where nobody asks for hosts.
     */
    uint32_t sender;
    /*
     Hash of its destination address; 0 where nobody asks for hosts.
     */
    uint32_t receiver;
    /*
     Its ECN field in the two lowest bits, and above them its DSCP, which only `queue.nqb` looks at: the
     octet as it is in the packet.
     */
    uint8_t ecn;
    /*
     Zero.
     */
    uint8_t reserved[7];
} weir_packet;

/*
 A packet that a queue gives back.
 */
typedef struct weir_departure {
    /*
     What the caller knows it by.
     */
    uint64_t cookie;
    /*
     When it left: in a shaped queue the time at which the link began with it.
     */
    uint64_t at_ns;
    /*
     How long it waited.
     */
    uint64_t sojourn_ns;
    /*
     Its bytes.
     */
    uint32_t length;
    /*
     WEIR_FORWARD or WEIR_MARK: to be sent. WEIR_DROP with a cause: discarded.
     */
    uint8_t verdict;
    /*
     Zero.
     */
    uint8_t reserved[3];
} weir_departure;

/*
 What happened to a queue so far. The caller sets `size`; packets unless it says otherwise.
 */
typedef struct weir_stats {
    /*
     sizeof(struct weir_stats).
     */
    uint32_t size;
    /*
     Zero.
     */
    uint32_t reserved;
    /*
     Wanted in.
     */
    uint64_t arrived;
    /*
     Bytes that wanted in.
     */
    uint64_t arrived_bytes;
    /*
     Stored.
     */
    uint64_t enqueued;
    /*
     Discarded by the algorithm when they came.
     */
    uint64_t dropped_in;
    /*
     Discarded for lack of room when they came.
     */
    uint64_t overflowed;
    /*
     Stored, and discarded for lack of room.
     */
    uint64_t shed;
    /*
     Sent.
     */
    uint64_t dequeued;
    /*
     Bytes sent.
     */
    uint64_t dequeued_bytes;
    /*
     Discarded by the algorithm when it was their turn.
     */
    uint64_t dropped_out;
    /*
     Marked CE.
     */
    uint64_t marked;
    /*
     Bytes stored.
     */
    uint64_t backlog_bytes;
    /*
     Stored now.
     */
    uint64_t packets;
    /*
     Discarded, and not yet handed back.
     */
    uint64_t pending;
    /*
     Set point in force, in nanoseconds; 0 where there is none.
     */
    uint64_t setpoint_ns;
    /*
     Moves of the set point by steering.
     */
    uint64_t moves;
    /*
     Calls with a time before that of the call before, which were taken for that time.
     */
    uint64_t clock_clamped;
    /*
     Places given to users.
     */
    uint64_t users_placed;
    /*
     Of these, taken from users who were silent.
     */
    uint64_t users_displaced;
    /*
     Packets of users without a place.
     */
    uint64_t users_shared;
} weir_stats;

/*
 An inner variable.
 */
typedef struct weir_gauge {
    /*
     Its name, which ends with a zero byte.
     */
    char name[32];
    /*
     Its value, in the unit that the name ends with.
     */
    double value;
} weir_gauge;

/*
 Something that was measured elsewhere.
 */
typedef struct weir_sample {
    /*
     sizeof(struct weir_sample).
     */
    uint32_t size;
    /*
     WEIR_SAMPLE_RTT and so on.
     */
    uint32_t kind;
    /*
     What was measured.
     */
    uint64_t value;
    /*
     Hash of the flow, for WEIR_SAMPLE_INFLIGHT.
     */
    uint32_t flow;
    /*
     0: for the whole queue. 1: for the user among `sender` and `receiver`.
     */
    uint32_t of_user;
    /*
     Hash of the source address.
     */
    uint32_t sender;
    /*
     Hash of the destination address.
     */
    uint32_t receiver;
} weir_sample;

/*
 A question to an algorithm alone; who asks keeps the queue.
 */
typedef struct weir_step {
    /*
     Time of the question.
     */
    uint64_t now_ns;
    /*
     When the packet arrived.
     */
    uint64_t arrived_ns;
    /*
     Number of the packet in order of arrival.
     */
    uint64_t seq;
    /*
     Bytes stored; at enqueue and dequeue without the packet in question.
     */
    uint64_t backlog;
    /*
     How long the packet waited that left last; 0 while the queue is empty.
     */
    uint64_t delay_ns;
    /*
     Rate of the link.
     */
    uint64_t rate_bps;
    /*
     64 random bits, fresh for each question.
     */
    uint64_t dice;
    /*
     The round trip, for WEIR_CALL_RTT.
     */
    uint64_t rtt_ns;
    /*
     Bytes of the packet: WEIR_LENGTH_MAX at most.
     */
    uint32_t length;
    /*
     Hash of its flow.
     */
    uint32_t flow;
    /*
     Packets stored; as `backlog`.
     */
    uint32_t packets;
    /*
     WEIR_CALL_ENQUEUE and so on.
     */
    uint8_t call;
    /*
     ECN field of the packet.
     */
    uint8_t ecn;
    /*
     Zero.
     */
    uint16_t reserved;
} weir_step;

#ifdef __cplusplus
extern "C" {
#endif // __cplusplus

/*
 Version of the library, such as "0.1.0".
 */
const char *weir_version(void);

/*
 WEIR_ABI of the library.
 */
uint32_t weir_abi(void);

/*
 What a code means.
 */
const char *weir_strerror(int32_t code);

/*
 Puts the names of all algorithms into `names`, one a line, cut if they are longer; returns how many bytes
 they take with the zero at the end.

 The caller promises:

 `names` is null or has `size` bytes.
 */
size_t weir_algorithms(char *names, size_t size);

/*
 The same for disciplines.

 The caller promises:

 As weir_algorithms.
 */
size_t weir_disciplines(char *names, size_t size);

/*
 How many bytes of the caller's memory a queue of these options takes, into `bytes`. The queue is made for
 it and thrown away.

 The caller promises:

 The options are as this header says; `bytes` is null or can be written.
 */
int32_t weir_queue_size(const struct weir_options *options, size_t *bytes);

/*
 Makes a queue, into `queue`. Memory is taken here and never again.

 The caller promises:

 The options are as this header says; `queue` is null or can be written.
 */
int32_t weir_queue_create(const struct weir_options *options, struct weir_queue **queue);

/*
 Ends a queue and sets the variable to null. Packets that still wait are not handed back: see
 weir_queue_drain.

 The caller promises:

 `queue` is null, or a variable with null, a queue, or a queue that has ended in memory that is still the
 caller's.
 */
int32_t weir_queue_destroy(struct weir_queue **queue);

/*
 Offers packets, and writes a verdict for each: WEIR_FORWARD if it waits now, WEIR_DROP with a cause if it
 is the caller's again. Returns how many were taken in, which is less than `count` only if discarded
 packets must be taken out first, or a code below 0. If the length of one is 0 or more than
 WEIR_LENGTH_MAX, that is WEIR_E_VALUE and none is taken in.

 The caller promises:

 The queue is live; `packets` and `verdicts` have `count` elements.
 */
int32_t weir_queue_enqueue(struct weir_queue *queue,
                           uint64_t now_ns,
                           const struct weir_packet *packets,
                           uint32_t count,
                           uint8_t *verdicts);

/*
 Asks for packets, and fills `out` with those to be sent, in order, and those that are discarded. A shaped
 queue gives those that its link would have begun by `now_ns`. Returns how many elements were filled, or a
 code below 0; where that is `count`, more may be there.

 The caller promises:

 The queue is live; `out` has `count` elements.
 */
int32_t weir_queue_dequeue(struct weir_queue *queue,
                           uint64_t now_ns,
                           struct weir_departure *out,
                           uint32_t count);

/*
 As weir_queue_dequeue, whatever the rates, for the end of a queue: call it until it returns 0.

 The caller promises:

 As weir_queue_dequeue.
 */
int32_t weir_queue_drain(struct weir_queue *queue, struct weir_departure *out, uint32_t count);

/*
 When weir_queue_dequeue may have something, into `due_ns`; WEIR_NEVER while nothing waits. Discarded
 packets are there at once.

 The caller promises:

 The queue is live; `due_ns` is null or can be written.
 */
int32_t weir_queue_due(struct weir_queue *queue, uint64_t *due_ns);

/*
 What happened so far.

 The caller promises:

 The queue is live; `stats` is null or says its size.
 */
int32_t weir_queue_stats(struct weir_queue *queue, struct weir_stats *stats);

/*
 The inner variables of the algorithm and of steering, at most `count`; returns how many there are.

 The caller promises:

 The queue is live; `gauges` has `count` elements.
 */
int32_t weir_queue_gauges(struct weir_queue *queue, struct weir_gauge *gauges, uint32_t count);

/*
 The rate of the link changed, in bit/s.

 The caller promises:

 The queue is live.
 */
int32_t weir_queue_set_rate(struct weir_queue *queue, uint64_t rate_bps);

/*
 The set point in force, in nanoseconds, into `setpoint_ns`; WEIR_E_REFUSED where there is none.

 The caller promises:

 The queue is live; `setpoint_ns` is null or can be written.
 */
int32_t weir_queue_setpoint(struct weir_queue *queue, uint64_t *setpoint_ns);

/*
 Moves the set point of all algorithms of the queue, within the range of its parameter, and ends steering.

 The caller promises:

 The queue is live.
 */
int32_t weir_queue_set_setpoint(struct weir_queue *queue, uint64_t setpoint_ns);

/*
 Steers from now on by a policy, the keys of a `policy` table as TOML, or by another one than before. Null
 ends steering and leaves the set point where it is. An error changes nothing; its text goes into
 `message`, which may be null.

 The caller promises:

 The queue is live; `policy` is null or ends with a zero byte; `message` is null or has `message_size`
 bytes.
 */
int32_t weir_queue_set_policy(struct weir_queue *queue,
                              const char *policy,
                              char *message,
                              size_t message_size);

/*
 Tells the algorithms something that was measured elsewhere, such as a round trip through what lies behind.

 The caller promises:

 The queue is live; `sample` is null or says its size.
 */
int32_t weir_queue_sample(struct weir_queue *queue, uint64_t now_ns, const struct weir_sample *sample);

/*
 Holds the user among these hosts to a rate in bit/s from the next packet on, WEIR_NO_RATE for none. It
 takes the key `user_rates`, a discipline with users, and a packet of that user before; else nothing
 happens.

 The caller promises:

 The queue is live.
 */
int32_t weir_queue_set_user_rate(struct weir_queue *queue,
                                 uint32_t sender,
                                 uint32_t receiver,
                                 uint64_t rate_bps);

/*
 Packets that wait for the user among these hosts, into `packets`; all of them where users are not told
 apart.

 The caller promises:

 The queue is live; `packets` is null or can be written.
 */
int32_t weir_queue_user_packets(struct weir_queue *queue,
                                uint32_t sender,
                                uint32_t receiver,
                                uint32_t *packets);

/*
 Makes an algorithm alone, into `aqm`; `config` has the keys of an `aqm` table. It lies in the caller's
 memory if there is any: weir_aqm_size tells how much.

 The caller promises:

 The options are as this header says; `aqm` is null or can be written.
 */
int32_t weir_aqm_create(const struct weir_options *options, struct weir_aqm **aqm);

/*
 How many bytes of the caller's memory any algorithm alone takes.
 */
size_t weir_aqm_size(void);

/*
 Ends an algorithm and sets the variable to null.

 The caller promises:

 As weir_queue_destroy.
 */
int32_t weir_aqm_destroy(struct weir_aqm **aqm);

/*
 Asks questions in order, and writes what the algorithm says to each, WEIR_NO_VERDICT where it says
 nothing. Returns how many were asked: less than `count` if the next one has a `call`, a time or a length
 that does not exist, which changes nothing.

 The caller promises:

 The algorithm is live; `steps` and `verdicts` have `count` elements.
 */
int32_t weir_aqm_steps(struct weir_aqm *aqm,
                       const struct weir_step *steps,
                       uint32_t count,
                       uint8_t *verdicts);

/*
 When the algorithm wants WEIR_CALL_WAKEUP next, into `due_ns`; WEIR_NEVER if it does not.

 The caller promises:

 The algorithm is live; `due_ns` is null or can be written.
 */
int32_t weir_aqm_wakeup(struct weir_aqm *aqm, uint64_t *due_ns);

/*
 The set point in force, in nanoseconds, into `setpoint_ns`; WEIR_E_REFUSED where there is none.

 The caller promises:

 The algorithm is live; `setpoint_ns` is null or can be written.
 */
int32_t weir_aqm_setpoint(struct weir_aqm *aqm, uint64_t *setpoint_ns);

/*
 Moves the set point, within the range of its parameter.

 The caller promises:

 The algorithm is live.
 */
int32_t weir_aqm_set_setpoint(struct weir_aqm *aqm, uint64_t setpoint_ns);

/*
 The inner variables of the algorithm, at most `count`; returns how many there are.

 The caller promises:

 The algorithm is live; `gauges` has `count` elements.
 */
int32_t weir_aqm_gauges(struct weir_aqm *aqm, struct weir_gauge *gauges, uint32_t count);

#ifdef __cplusplus
} // extern "C"
#endif // __cplusplus

#endif /* WEIR_H */

/* Options with the sizes of this header, and everything else zero. */
#define WEIR_OPTIONS_INIT \
    {sizeof(struct weir_options), sizeof(struct weir_packet), sizeof(struct weir_departure), NULL, 0, 0, NULL, 0, NULL, 0}

/* What a verdict says, and why. */
#define WEIR_IS_DROP(verdict) (((verdict) & 0xf0) == WEIR_DROP)
#define WEIR_IS_MARK(verdict) (((verdict) & 0xf0) == WEIR_MARK)
#define WEIR_CAUSE(verdict) ((verdict) & 0x0f)
