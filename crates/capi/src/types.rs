//! The structs and constants that C sees.
#![allow(non_camel_case_types)]

use std::ffi::{c_char, c_void};
use std::mem::size_of;
use std::ptr;

/// Version of the structs and functions of this header; it grows when one is added.
pub const WEIR_ABI: u32 = 1;

/// Done.
pub const WEIR_OK: i32 = 0;
/// A pointer is null that must not be.
pub const WEIR_E_NULL: i32 = -1;
/// The size that a struct says of itself is none that this library knows.
pub const WEIR_E_SIZE: i32 = -2;
/// The text of a configuration is refused; the message says where and what to do.
pub const WEIR_E_CONFIG: i32 = -3;
/// The memory is too small; the message says how much is needed.
pub const WEIR_E_MEMORY: i32 = -4;
/// This is no live handle.
pub const WEIR_E_HANDLE: i32 = -5;
/// The algorithm or the discipline cannot do that.
pub const WEIR_E_REFUSED: i32 = -6;
/// A number is out of its range, or an array is not aligned.
pub const WEIR_E_VALUE: i32 = -7;
/// Discarded packets wait to be taken out with weir_queue_dequeue before more are taken in.
pub const WEIR_E_PENDING: i32 = -8;
/// The library failed, which is a fault in it. The handle can only be destroyed.
pub const WEIR_E_FAULT: i32 = -9;

/// A verdict: the packet goes on.
pub const WEIR_FORWARD: u8 = 0x00;
/// A verdict: the packet goes on, and the caller must set CE in it. A cause may be added.
pub const WEIR_MARK: u8 = 0x10;
/// A verdict: the packet is discarded, and is the caller's again. A cause is added.
pub const WEIR_DROP: u8 = 0x20;
/// A question that has no verdict.
pub const WEIR_NO_VERDICT: u8 = 0xff;
/// A cause: there was no room.
pub const WEIR_CAUSE_OVERFLOW: u8 = 1;
/// A cause: delay or backlog stood above the set point.
pub const WEIR_CAUSE_SET_POINT: u8 = 2;
/// A cause: the dice of a random early discard.
pub const WEIR_CAUSE_CHANCE: u8 = 3;

/// Most packets of one call.
pub const WEIR_BATCH_MAX: u32 = 1 << 20;
/// Most bytes of one packet.
pub const WEIR_LENGTH_MAX: u32 = 1 << 20;
/// No time: nothing waits.
pub const WEIR_NEVER: u64 = u64::MAX;
/// No rate: a user is not held to any.
pub const WEIR_NO_RATE: u64 = u64::MAX;

/// What a queue or an algorithm is made with. Begin with WEIR_OPTIONS_INIT.
#[repr(C)]
pub struct weir_options {
    /// sizeof(struct weir_options).
    pub size: u32,
    /// sizeof(struct weir_packet).
    pub packet_size: u16,
    /// sizeof(struct weir_departure).
    pub departure_size: u16,
    /// What is made, as TOML in UTF-8 that ends with a zero byte; libweir(3) has the keys.
    pub config: *const c_char,
    /// Time of the first call at the earliest, in nanoseconds of the caller's clock.
    pub start_ns: u64,
    /// For dice and hashes: the same seed makes the same decisions. On a live link take a secret one.
    pub seed: u64,
    /// Memory for it, of at least as many bytes as weir_queue_size tells and of any alignment; null to have
    /// the library allocate. It must stay as it is until the handle is destroyed.
    pub memory: *mut c_void,
    /// Bytes of `memory`.
    pub memory_size: usize,
    /// Where to put a text that says why something was refused; may be null.
    pub message: *mut c_char,
    /// Bytes of `message`; longer texts are cut.
    pub message_size: usize,
}

impl weir_options {
    /// Those that the header's WEIR_OPTIONS_INIT has.
    #[must_use]
    pub const fn new() -> weir_options {
        weir_options {
            size: size_of::<weir_options>() as u32,
            packet_size: size_of::<weir_packet>() as u16,
            departure_size: size_of::<weir_departure>() as u16,
            config: ptr::null(),
            start_ns: 0,
            seed: 0,
            memory: ptr::null_mut(),
            memory_size: 0,
            message: ptr::null_mut(),
            message_size: 0,
        }
    }
}

impl Default for weir_options {
    fn default() -> weir_options {
        weir_options::new()
    }
}

/// A packet that wants in.
#[repr(C)]
#[derive(Clone, Copy, Default, Debug)]
pub struct weir_packet {
    /// What the caller knows it by; handed back as it is.
    pub cookie: u64,
    /// Bytes, by the accounting in which the link's rate is meant: 1 to WEIR_LENGTH_MAX.
    pub length: u32,
    /// Hash of its flow.
    pub flow: u32,
    /// Hash of its source address; 0 where nobody asks for hosts.
    pub sender: u32,
    /// Hash of its destination address; 0 where nobody asks for hosts.
    pub receiver: u32,
    /// Its ECN field in the two lowest bits, and above them its DSCP, which only `queue.nqb` looks at: the
    /// octet as it is in the packet.
    pub ecn: u8,
    /// Zero.
    pub reserved: [u8; 7],
}

/// A packet that a queue gives back.
#[repr(C)]
#[derive(Clone, Copy, Default, Debug)]
pub struct weir_departure {
    /// What the caller knows it by.
    pub cookie: u64,
    /// When it left: in a shaped queue the time at which the link began with it.
    pub at_ns: u64,
    /// How long it waited.
    pub sojourn_ns: u64,
    /// Its bytes.
    pub length: u32,
    /// WEIR_FORWARD or WEIR_MARK: to be sent. WEIR_DROP with a cause: discarded.
    pub verdict: u8,
    /// Zero.
    pub reserved: [u8; 3],
}

/// What happened to a queue so far. The caller sets `size`; packets unless it says otherwise.
#[repr(C)]
#[derive(Clone, Copy, Default, Debug)]
pub struct weir_stats {
    /// sizeof(struct weir_stats).
    pub size: u32,
    /// Zero.
    pub reserved: u32,
    /// Wanted in.
    pub arrived: u64,
    /// Bytes that wanted in.
    pub arrived_bytes: u64,
    /// Stored.
    pub enqueued: u64,
    /// Discarded by the algorithm when they came.
    pub dropped_in: u64,
    /// Discarded for lack of room when they came.
    pub overflowed: u64,
    /// Stored, and discarded for lack of room.
    pub shed: u64,
    /// Sent.
    pub dequeued: u64,
    /// Bytes sent.
    pub dequeued_bytes: u64,
    /// Discarded by the algorithm when it was their turn.
    pub dropped_out: u64,
    /// Marked CE.
    pub marked: u64,
    /// Bytes stored.
    pub backlog_bytes: u64,
    /// Stored now.
    pub packets: u64,
    /// Discarded, and not yet handed back.
    pub pending: u64,
    /// Set point in force, in nanoseconds; 0 where there is none.
    pub setpoint_ns: u64,
    /// Moves of the set point by steering.
    pub moves: u64,
    /// Calls with a time before that of the call before, which were taken for that time.
    pub clock_clamped: u64,
    /// Places given to users.
    pub users_placed: u64,
    /// Of these, taken from users who were silent.
    pub users_displaced: u64,
    /// Packets of users without a place.
    pub users_shared: u64,
}

/// An inner variable.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct weir_gauge {
    /// Its name, which ends with a zero byte.
    pub name: [c_char; 32],
    /// Its value, in the unit that the name ends with.
    pub value: f64,
}

/// A round-trip time in nanoseconds.
pub const WEIR_SAMPLE_RTT: u32 = 1;
/// The rate that the link delivers, in bit/s.
pub const WEIR_SAMPLE_LINK_RATE: u32 = 2;
/// Bytes that a flow has in flight.
pub const WEIR_SAMPLE_INFLIGHT: u32 = 3;
/// How long senders take to answer a signal, in nanoseconds.
pub const WEIR_SAMPLE_REACTION: u32 = 4;

/// Something that was measured elsewhere.
#[repr(C)]
#[derive(Clone, Copy, Default, Debug)]
pub struct weir_sample {
    /// sizeof(struct weir_sample).
    pub size: u32,
    /// WEIR_SAMPLE_RTT and so on.
    pub kind: u32,
    /// What was measured.
    pub value: u64,
    /// Hash of the flow, for WEIR_SAMPLE_INFLIGHT.
    pub flow: u32,
    /// 0: for the whole queue. 1: for the user among `sender` and `receiver`.
    pub of_user: u32,
    /// Hash of the source address.
    pub sender: u32,
    /// Hash of the destination address.
    pub receiver: u32,
}

/// A packet arrives and there is room.
pub const WEIR_CALL_ENQUEUE: u8 = 1;
/// A packet was taken from the head.
pub const WEIR_CALL_DEQUEUE: u8 = 2;
/// A packet arrives and there is no room.
pub const WEIR_CALL_OVERFLOW: u8 = 3;
/// The queue ran empty.
pub const WEIR_CALL_EMPTY: u8 = 4;
/// The time has come that weir_aqm_wakeup told.
pub const WEIR_CALL_WAKEUP: u8 = 5;
/// A round trip was measured.
pub const WEIR_CALL_RTT: u8 = 6;

/// A question to an algorithm alone; who asks keeps the queue.
#[repr(C)]
#[derive(Clone, Copy, Default, Debug)]
pub struct weir_step {
    /// Time of the question.
    pub now_ns: u64,
    /// When the packet arrived.
    pub arrived_ns: u64,
    /// Number of the packet in order of arrival.
    pub seq: u64,
    /// Bytes stored; at enqueue and dequeue without the packet in question.
    pub backlog: u64,
    /// How long the packet waited that left last; 0 while the queue is empty.
    pub delay_ns: u64,
    /// Rate of the link.
    pub rate_bps: u64,
    /// 64 random bits, fresh for each question.
    pub dice: u64,
    /// The round trip, for WEIR_CALL_RTT.
    pub rtt_ns: u64,
    /// Bytes of the packet: WEIR_LENGTH_MAX at most.
    pub length: u32,
    /// Hash of its flow.
    pub flow: u32,
    /// Packets stored; as `backlog`.
    pub packets: u32,
    /// WEIR_CALL_ENQUEUE and so on.
    pub call: u8,
    /// ECN field of the packet.
    pub ecn: u8,
    /// Zero.
    pub reserved: u16,
}
