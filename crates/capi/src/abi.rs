//! What C calls. cbindgen makes `include/weir.h` from this file and `types.rs`, so that their texts are the
//! header's.
#![allow(non_camel_case_types)]

use crate::handle::{Body, Handle, Options, Refusal, caught, clock, put, text, usable};
use crate::queue::{AnyQueue, Pace, Pending, build, verdict};
pub use crate::types::*;
use ::weir_aqm::{AnyAqm, Aqm, Ecn, Moment, Packet, Parameters, Params, Sample, View};
use ::weir_queue::Hosts;
use std::ffi::c_char;
use std::mem::{MaybeUninit, size_of};
use weir_config::{AqmConfig, Embedded, PolicyConfig};
use weir_units::{Bytes, Duration, Rate, Time};

/// A queue with its discipline, its algorithm and its policy. One thread at a time may use it.
#[allow(dead_code, reason = "it is reached through pointers to what is in it")]
pub struct weir_queue(Handle<Queue>);

struct Queue {
    inner: Box<dyn AnyQueue + Send>,
    pace: Pace,
    pending: Pending,
    /// Raises of a policy go at least to it.
    floor: Option<Duration>,
}

/// An algorithm alone. One thread at a time may use it.
#[allow(dead_code, reason = "it is reached through pointers to what is in it")]
pub struct weir_aqm(Handle<Algorithm>);

struct Algorithm {
    inner: AnyAqm,
    last: Time,
}

impl Body for Queue {
    const LIVE: u64 = 0x7765_6972_2d71_7565;
}

impl Body for Algorithm {
    const LIVE: u64 = 0x7765_6972_2d61_716d;
}

/// Version of the library, such as "0.1.0".
#[unsafe(no_mangle)]
pub extern "C" fn weir_version() -> *const c_char {
    concat!(env!("CARGO_PKG_VERSION"), "\0").as_ptr().cast()
}

/// WEIR_ABI of the library.
#[unsafe(no_mangle)]
pub extern "C" fn weir_abi() -> u32 {
    WEIR_ABI
}

/// What a code means.
#[unsafe(no_mangle)]
pub extern "C" fn weir_strerror(code: i32) -> *const c_char {
    let text = match code {
        WEIR_E_NULL => "a pointer is null that must not be\0",
        WEIR_E_SIZE => "a struct has a size that this library does not know\0",
        WEIR_E_CONFIG => "the configuration is refused\0",
        WEIR_E_MEMORY => "the memory is too small\0",
        WEIR_E_HANDLE => "this is no live handle\0",
        WEIR_E_REFUSED => "the algorithm or the discipline cannot do that\0",
        WEIR_E_VALUE => "a number is out of its range, or an array is not aligned\0",
        WEIR_E_PENDING => "discarded packets wait to be taken out\0",
        WEIR_E_FAULT => "the library failed\0",
        code if code >= 0 => "done\0",
        _ => "there is no such code\0",
    };
    text.as_ptr().cast()
}

/// Puts the names of all algorithms into `names`, one a line, cut if they are longer; returns how many bytes
/// they take with the zero at the end.
///
/// # Safety
///
/// `names` is null or has `size` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn weir_algorithms(names: *mut c_char, size: usize) -> usize {
    // SAFETY: the caller's promise.
    unsafe { list(::weir_aqm::names(), names, size) }
}

/// The same for disciplines.
///
/// # Safety
///
/// As weir_algorithms.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn weir_disciplines(names: *mut c_char, size: usize) -> usize {
    // SAFETY: the caller's promise.
    unsafe { list(::weir_queue::names(), names, size) }
}

unsafe fn list(all: &[&str], names: *mut c_char, size: usize) -> usize {
    let text = all.join("\n");
    if !names.is_null() && size > 0 {
        // SAFETY: the caller's promise.
        unsafe { put(&text, names.cast(), size) };
    }
    text.len() + 1
}

/// How many bytes of the caller's memory a queue of these options takes, into `bytes`. The queue is made for
/// it and thrown away.
///
/// # Safety
///
/// The options are as this header says; `bytes` is null or can be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn weir_queue_size(options: *const weir_options, bytes: *mut usize) -> i32 {
    caught(|| {
        usable(bytes, 1)?;
        // SAFETY: the caller's promise.
        let options = unsafe { Options::read(options) }?;
        let config = queue_config(&options).map_err(|e| options.refused(e))?;
        let needed = Handle::bytes(|| queue_of(&options, &config)).map_err(|e| options.refused(e))?;
        // SAFETY: checked above.
        unsafe { bytes.write(needed) };
        Ok(WEIR_OK)
    })
}

/// Makes a queue, into `queue`. Memory is taken here and never again.
///
/// # Safety
///
/// The options are as this header says; `queue` is null or can be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn weir_queue_create(options: *const weir_options, queue: *mut *mut weir_queue) -> i32 {
    caught(|| {
        usable(queue, 1)?;
        // SAFETY: the caller's promise.
        let options = unsafe { Options::read(options) }?;
        let config = queue_config(&options).map_err(|e| options.refused(e))?;
        // SAFETY: the caller's promise.
        let made = unsafe { Handle::make(&options, || queue_of(&options, &config)) };
        let made = made.map_err(|e| options.refused(e))?;
        // SAFETY: checked above.
        unsafe { queue.write(made.cast()) };
        Ok(WEIR_OK)
    })
}

fn queue_config(options: &Options) -> Result<Embedded, Refusal> {
    Embedded::parse("config", &options.config).map_err(|e| Refusal::new(WEIR_E_CONFIG, e.to_string()))
}

fn queue_of(options: &Options, config: &Embedded) -> Result<Queue, Refusal> {
    let inner = build(config, options.start, options.seed).map_err(|e| Refusal::new(WEIR_E_REFUSED, e))?;
    let floor = config.aqm.as_ref().and_then(AqmConfig::raise_floor);
    let pending = Pending::new(config.packets);
    Ok(Queue { inner, pace: Pace::new(config, options.start), pending, floor })
}

/// Ends a queue and sets the variable to null. Packets that still wait are not handed back: see
/// weir_queue_drain.
///
/// # Safety
///
/// `queue` is null, or a variable with null, a queue, or a queue that has ended in memory that is still the
/// caller's.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn weir_queue_destroy(queue: *mut *mut weir_queue) -> i32 {
    // SAFETY: the caller's promise.
    unsafe { Handle::<Queue>::end(queue.cast()) }
}

unsafe fn queue_with(
    queue: *mut weir_queue,
    call: impl FnOnce(&mut Handle<Queue>) -> Result<i32, i32>,
) -> i32 {
    // SAFETY: the caller's promise.
    unsafe { Handle::<Queue>::with(queue.cast(), call) }
}

/// Offers packets, and writes a verdict for each: WEIR_FORWARD if it waits now, WEIR_DROP with a cause if it
/// is the caller's again. Returns how many were taken in, which is less than `count` only if discarded
/// packets must be taken out first, or a code below 0. If the length of one is 0 or more than
/// WEIR_LENGTH_MAX, that is WEIR_E_VALUE and none is taken in.
///
/// # Safety
///
/// The queue is live; `packets` and `verdicts` have `count` elements.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn weir_queue_enqueue(
    queue: *mut weir_queue,
    now_ns: u64,
    packets: *const weir_packet,
    count: u32,
    verdicts: *mut u8,
) -> i32 {
    // SAFETY: the caller's promise.
    unsafe {
        queue_with(queue, |handle| {
            let count = batch(count)?;
            usable(packets, count)?;
            usable(verdicts, count)?;
            let packets: &[weir_packet] =
                if count == 0 { &[] } else { std::slice::from_raw_parts(packets, count) };
            // Room is made in the flow with the most bytes, and there is none where packets have no bytes.
            // What a flow has, 4 GB and one packet at most, is counted in 32 bits.
            if packets.iter().any(|packet| packet.length == 0 || packet.length > WEIR_LENGTH_MAX) {
                return Err(WEIR_E_VALUE);
            }
            clock(&mut handle.body.pace.last, &mut handle.clamped, now_ns)?;
            if count == 0 {
                return Ok(0);
            }
            let verdicts = std::slice::from_raw_parts_mut(verdicts.cast::<MaybeUninit<u8>>(), count);
            let queue = &mut handle.body;
            let taken = queue.inner.enqueue(&mut queue.pace, packets, verdicts, &mut queue.pending);
            if taken == 0 { Err(WEIR_E_PENDING) } else { Ok(taken as i32) }
        })
    }
}

/// Asks for packets, and fills `out` with those to be sent, in order, and those that are discarded. A shaped
/// queue gives those that its link would have begun by `now_ns`. Returns how many elements were filled, or a
/// code below 0; where that is `count`, more may be there.
///
/// # Safety
///
/// The queue is live; `out` has `count` elements.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn weir_queue_dequeue(
    queue: *mut weir_queue,
    now_ns: u64,
    out: *mut weir_departure,
    count: u32,
) -> i32 {
    // SAFETY: the caller's promise.
    unsafe {
        queue_with(queue, |handle| {
            let count = batch(count)?;
            usable(out, count)?;
            clock(&mut handle.body.pace.last, &mut handle.clamped, now_ns)?;
            if count == 0 {
                return Ok(0);
            }
            let out = std::slice::from_raw_parts_mut(out.cast::<MaybeUninit<weir_departure>>(), count);
            let queue = &mut handle.body;
            Ok(queue.inner.dequeue(&mut queue.pace, out, &mut queue.pending) as i32)
        })
    }
}

/// As weir_queue_dequeue, whatever the rates, for the end of a queue: call it until it returns 0.
///
/// # Safety
///
/// As weir_queue_dequeue.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn weir_queue_drain(
    queue: *mut weir_queue,
    out: *mut weir_departure,
    count: u32,
) -> i32 {
    // SAFETY: the caller's promise.
    unsafe {
        queue_with(queue, |handle| {
            let count = batch(count)?;
            usable(out, count)?;
            if count == 0 {
                return Ok(0);
            }
            let out = std::slice::from_raw_parts_mut(out.cast::<MaybeUninit<weir_departure>>(), count);
            let queue = &mut handle.body;
            queue.pace.shaper = None;
            let mut filled = 0;
            while filled < count {
                if let Some(first) = queue.inner.head_arrived() {
                    queue.pace.last = queue.pace.last.max(first);
                }
                let more = queue.inner.dequeue(&mut queue.pace, &mut out[filled..], &mut queue.pending);
                filled += more;
                if more == 0 {
                    break;
                }
            }
            Ok(filled as i32)
        })
    }
}

fn batch(count: u32) -> Result<usize, i32> {
    if count > WEIR_BATCH_MAX { Err(WEIR_E_VALUE) } else { Ok(count as usize) }
}

/// When weir_queue_dequeue may have something, into `due_ns`; WEIR_NEVER while nothing waits. Discarded
/// packets are there at once.
///
/// # Safety
///
/// The queue is live; `due_ns` is null or can be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn weir_queue_due(queue: *mut weir_queue, due_ns: *mut u64) -> i32 {
    // SAFETY: the caller's promise.
    unsafe {
        queue_with(queue, |handle| {
            usable(due_ns, 1)?;
            let queue = &handle.body;
            let due =
                if queue.pending.len() > 0 { Some(queue.pace.last) } else { queue.inner.due(&queue.pace) };
            due_ns.write(due.map_or(WEIR_NEVER, Time::as_nanos));
            Ok(WEIR_OK)
        })
    }
}

/// What happened so far.
///
/// # Safety
///
/// The queue is live; `stats` is null or says its size.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn weir_queue_stats(queue: *mut weir_queue, stats: *mut weir_stats) -> i32 {
    // SAFETY: the caller's promise.
    unsafe {
        queue_with(queue, |handle| {
            usable(stats, 1)?;
            if (*stats).size as usize != size_of::<weir_stats>() {
                return Err(WEIR_E_SIZE);
            }
            let queue = &mut handle.body;
            let (backlog, packets) = queue.inner.stored();
            let setpoint = queue.inner.setpoint().map_or(0, Duration::as_nanos);
            let users = queue.inner.user_counters().unwrap_or_default();
            let all = queue.inner.counters();
            stats.write(weir_stats {
                size: size_of::<weir_stats>() as u32,
                reserved: 0,
                arrived: all.arrived,
                arrived_bytes: all.arrived_bytes,
                enqueued: all.enqueued,
                dropped_in: all.dropped_in,
                overflowed: all.overflowed,
                shed: all.shed,
                dequeued: all.dequeued,
                dequeued_bytes: all.dequeued_bytes,
                dropped_out: all.dropped_out,
                marked: all.marked,
                backlog_bytes: backlog.get(),
                packets: u64::from(packets),
                pending: queue.pending.len() as u64,
                setpoint_ns: setpoint,
                moves: queue.inner.moves(),
                clock_clamped: handle.clamped,
                users_placed: users.placed,
                users_displaced: users.displaced,
                users_shared: users.shared,
            });
            Ok(WEIR_OK)
        })
    }
}

/// The inner variables of the algorithm and of steering, at most `count`; returns how many there are.
///
/// # Safety
///
/// The queue is live; `gauges` has `count` elements.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn weir_queue_gauges(
    queue: *mut weir_queue,
    gauges: *mut weir_gauge,
    count: u32,
) -> i32 {
    // SAFETY: the caller's promise.
    unsafe {
        queue_with(queue, |handle| {
            let count = batch(count)?;
            usable(gauges, count)?;
            let mut there = 0;
            handle.body.inner.gauges(&mut |name, value| show(&mut there, gauges, count, name, value));
            Ok(there as i32)
        })
    }
}

unsafe fn show(there: &mut usize, gauges: *mut weir_gauge, count: usize, name: &str, value: f64) {
    if *there < count {
        // SAFETY: one of the caller's elements.
        unsafe {
            let gauge = gauges.add(*there);
            put(name, (&raw mut (*gauge).name).cast(), 32);
            (&raw mut (*gauge).value).write(value);
        }
    }
    *there += 1;
}

/// The rate of the link changed, in bit/s.
///
/// # Safety
///
/// The queue is live.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn weir_queue_set_rate(queue: *mut weir_queue, rate_bps: u64) -> i32 {
    // SAFETY: the caller's promise.
    unsafe {
        queue_with(queue, |handle| {
            let rate = rate_of(rate_bps)?;
            let queue = &mut handle.body;
            queue.inner.set_rate(rate);
            if let Some(shaper) = &mut queue.pace.shaper {
                shaper.set_rate(rate);
            }
            Ok(WEIR_OK)
        })
    }
}

fn rate_of(bps: u64) -> Result<Rate, i32> {
    if (1_000..=1_000_000_000_000).contains(&bps) { Ok(Rate::from_bps(bps)) } else { Err(WEIR_E_VALUE) }
}

/// The set point in force, in nanoseconds, into `setpoint_ns`; WEIR_E_REFUSED where there is none.
///
/// # Safety
///
/// The queue is live; `setpoint_ns` is null or can be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn weir_queue_setpoint(queue: *mut weir_queue, setpoint_ns: *mut u64) -> i32 {
    // SAFETY: the caller's promise.
    unsafe {
        queue_with(queue, |handle| {
            usable(setpoint_ns, 1)?;
            let setpoint = handle.body.inner.setpoint().ok_or(WEIR_E_REFUSED)?;
            setpoint_ns.write(setpoint.as_nanos());
            Ok(WEIR_OK)
        })
    }
}

/// Moves the set point of all algorithms of the queue, within the range of its parameter, and ends steering.
///
/// # Safety
///
/// The queue is live.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn weir_queue_set_setpoint(queue: *mut weir_queue, setpoint_ns: u64) -> i32 {
    // SAFETY: the caller's promise.
    unsafe {
        queue_with(queue, |handle| {
            let held = handle.body.inner.hold(Duration::from_nanos(setpoint_ns));
            held.map(|_| WEIR_OK).map_err(|_| WEIR_E_REFUSED)
        })
    }
}

/// Steers from now on by a policy, the keys of a `policy` table as TOML, or by another one than before. Null
/// ends steering and leaves the set point where it is. An error changes nothing; its text goes into
/// `message`, which may be null.
///
/// # Safety
///
/// The queue is live; `policy` is null or ends with a zero byte; `message` is null or has `message_size`
/// bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn weir_queue_set_policy(
    queue: *mut weir_queue,
    policy: *const c_char,
    message: *mut c_char,
    message_size: usize,
) -> i32 {
    // SAFETY: the caller's promise.
    unsafe {
        queue_with(queue, |handle| {
            let say = |code: i32, text: String| {
                if !message.is_null() && message_size > 0 {
                    put(&text, message.cast(), message_size);
                }
                code
            };
            let queue = &mut handle.body;
            if policy.is_null() {
                let held = queue.inner.setpoint().map(|at| queue.inner.hold(at));
                return match held {
                    Some(Ok(_)) => Ok(WEIR_OK),
                    _ => Err(say(WEIR_E_REFUSED, "this algorithm has no set point".to_string())),
                };
            }
            let policy = text(policy).map_err(|code| say(code, "`policy` is not UTF-8".to_string()))?;
            let policy =
                PolicyConfig::parse("policy", policy).map_err(|e| say(WEIR_E_CONFIG, e.to_string()))?;
            let policy = policy.with_floor(queue.floor).policy();
            let steered = queue.inner.steer(&policy, queue.pace.last);
            steered.map(|()| WEIR_OK).map_err(|e| say(WEIR_E_REFUSED, e.to_string()))
        })
    }
}

/// Tells the algorithms something that was measured elsewhere, such as a round trip through what lies behind.
///
/// # Safety
///
/// The queue is live; `sample` is null or says its size.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn weir_queue_sample(
    queue: *mut weir_queue,
    now_ns: u64,
    sample: *const weir_sample,
) -> i32 {
    // SAFETY: the caller's promise.
    unsafe {
        queue_with(queue, |handle| {
            usable(sample, 1)?;
            if (*sample).size as usize != size_of::<weir_sample>() {
                return Err(WEIR_E_SIZE);
            }
            let given = *sample;
            let told = match given.kind {
                WEIR_SAMPLE_RTT => Sample::Rtt(span_of(given.value)?),
                WEIR_SAMPLE_LINK_RATE => Sample::LinkRate(rate_of(given.value)?),
                WEIR_SAMPLE_INFLIGHT => {
                    if given.value > 1 << 48 {
                        return Err(WEIR_E_VALUE);
                    }
                    Sample::Inflight { flow: given.flow, bytes: Bytes::new(given.value) }
                }
                WEIR_SAMPLE_REACTION => Sample::Reaction(span_of(given.value)?),
                _ => return Err(WEIR_E_VALUE),
            };
            let now = clock(&mut handle.body.pace.last, &mut handle.clamped, now_ns)?;
            let hosts = Hosts { sender: given.sender, receiver: given.receiver };
            handle.body.inner.sample(now, (given.of_user != 0).then_some(hosts), told);
            Ok(WEIR_OK)
        })
    }
}

/// A time that was measured: up to an hour.
fn span_of(ns: u64) -> Result<Duration, i32> {
    if ns <= 3_600_000_000_000 { Ok(Duration::from_nanos(ns)) } else { Err(WEIR_E_VALUE) }
}

/// Holds the user among these hosts to a rate in bit/s from the next packet on, WEIR_NO_RATE for none. It
/// takes the key `user_rates`, a discipline with users, and a packet of that user before; else nothing
/// happens.
///
/// # Safety
///
/// The queue is live.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn weir_queue_set_user_rate(
    queue: *mut weir_queue,
    sender: u32,
    receiver: u32,
    rate_bps: u64,
) -> i32 {
    // SAFETY: the caller's promise.
    unsafe {
        queue_with(queue, |handle| {
            let rate = if rate_bps == WEIR_NO_RATE { None } else { Some(rate_of(rate_bps)?) };
            handle.body.inner.set_rate_of(Hosts { sender, receiver }, rate);
            Ok(WEIR_OK)
        })
    }
}

/// Packets that wait for the user among these hosts, into `packets`; all of them where users are not told
/// apart.
///
/// # Safety
///
/// The queue is live; `packets` is null or can be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn weir_queue_user_packets(
    queue: *mut weir_queue,
    sender: u32,
    receiver: u32,
    packets: *mut u32,
) -> i32 {
    // SAFETY: the caller's promise.
    unsafe {
        queue_with(queue, |handle| {
            usable(packets, 1)?;
            packets.write(handle.body.inner.packets_of(Hosts { sender, receiver }));
            Ok(WEIR_OK)
        })
    }
}

/// Makes an algorithm alone, into `aqm`; `config` has the keys of an `aqm` table. It lies in the caller's
/// memory if there is any: weir_aqm_size tells how much.
///
/// # Safety
///
/// The options are as this header says; `aqm` is null or can be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn weir_aqm_create(options: *const weir_options, aqm: *mut *mut weir_aqm) -> i32 {
    caught(|| {
        usable(aqm, 1)?;
        // SAFETY: the caller's promise.
        let options = unsafe { Options::read(options) }?;
        let config = AqmConfig::parse("config", &options.config)
            .map_err(|e| options.refused(Refusal::new(WEIR_E_CONFIG, e.to_string())))?;
        let inner = AnyAqm::new(&config.name, &Of(&config), options.start).ok_or(WEIR_E_CONFIG)?;
        // SAFETY: the caller's promise.
        let made = unsafe { Handle::make(&options, || Ok(Algorithm { inner, last: options.start })) };
        let made = made.map_err(|e| options.refused(e))?;
        // SAFETY: checked above.
        unsafe { aqm.write(made.cast()) };
        Ok(WEIR_OK)
    })
}

/// Parameters out of a configuration.
struct Of<'a>(&'a AqmConfig);

impl Parameters for Of<'_> {
    fn params<P: Params>(&self) -> P {
        self.0.params()
    }
}

/// How many bytes of the caller's memory any algorithm alone takes.
#[unsafe(no_mangle)]
pub extern "C" fn weir_aqm_size() -> usize {
    Handle::<Algorithm>::bytes_of_plain()
}

/// Ends an algorithm and sets the variable to null.
///
/// # Safety
///
/// As weir_queue_destroy.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn weir_aqm_destroy(aqm: *mut *mut weir_aqm) -> i32 {
    // SAFETY: the caller's promise.
    unsafe { Handle::<Algorithm>::end(aqm.cast()) }
}

unsafe fn aqm_with(aqm: *mut weir_aqm, call: impl FnOnce(&mut Handle<Algorithm>) -> Result<i32, i32>) -> i32 {
    // SAFETY: the caller's promise.
    unsafe { Handle::<Algorithm>::with(aqm.cast(), call) }
}

/// Asks questions in order, and writes what the algorithm says to each, WEIR_NO_VERDICT where it says
/// nothing. Returns how many were asked: less than `count` if the next one has a `call`, a time or a length
/// that does not exist, which changes nothing.
///
/// # Safety
///
/// The algorithm is live; `steps` and `verdicts` have `count` elements.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn weir_aqm_steps(
    aqm: *mut weir_aqm,
    steps: *const weir_step,
    count: u32,
    verdicts: *mut u8,
) -> i32 {
    // SAFETY: the caller's promise.
    unsafe {
        aqm_with(aqm, |handle| {
            let count = batch(count)?;
            usable(steps, count)?;
            usable(verdicts, count)?;
            for n in 0..count {
                match ask(handle, &*steps.add(n)) {
                    Ok(said) => verdicts.add(n).write(said),
                    Err(code) if n == 0 => return Err(code),
                    Err(_) => return Ok(n as i32),
                }
            }
            Ok(count as i32)
        })
    }
}

fn ask(handle: &mut Handle<Algorithm>, step: &weir_step) -> Result<u8, i32> {
    let is_call = (WEIR_CALL_ENQUEUE..=WEIR_CALL_RTT).contains(&step.call);
    if !is_call || step.delay_ns > 1 << 62 || step.length > WEIR_LENGTH_MAX {
        return Err(WEIR_E_VALUE);
    }
    // Before the clock of the algorithm goes on: what is refused changes nothing.
    let rtt = if step.call == WEIR_CALL_RTT { span_of(step.rtt_ns)? } else { Duration::ZERO };
    let now = clock(&mut handle.body.last, &mut handle.clamped, step.now_ns)?;
    let queue = View {
        backlog: Bytes::new(step.backlog),
        packets: step.packets,
        delay: Duration::from_nanos(step.delay_ns),
        rate: Rate::from_bps(step.rate_bps),
    };
    let m = Moment::new(now, queue, step.dice);
    let packet = Packet {
        // No packet comes from the future.
        arrived: Time::from_nanos(step.arrived_ns).min(now),
        len: Bytes::new(u64::from(step.length)),
        seq: step.seq,
        flow: step.flow,
        ecn: Ecn::from_bits(step.ecn),
    };
    let aqm = &mut handle.body.inner;
    match step.call {
        WEIR_CALL_ENQUEUE => return Ok(verdict(aqm.on_enqueue(&m, &packet))),
        WEIR_CALL_DEQUEUE => return Ok(verdict(aqm.on_dequeue(&m, &packet))),
        WEIR_CALL_OVERFLOW => aqm.on_overflow(&m, &packet),
        WEIR_CALL_EMPTY => aqm.on_empty(now),
        WEIR_CALL_WAKEUP => aqm.on_wakeup(&m),
        _ => aqm.on_sample(now, Sample::Rtt(rtt)),
    }
    Ok(WEIR_NO_VERDICT)
}

/// When the algorithm wants WEIR_CALL_WAKEUP next, into `due_ns`; WEIR_NEVER if it does not.
///
/// # Safety
///
/// The algorithm is live; `due_ns` is null or can be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn weir_aqm_wakeup(aqm: *mut weir_aqm, due_ns: *mut u64) -> i32 {
    // SAFETY: the caller's promise.
    unsafe {
        aqm_with(aqm, |handle| {
            usable(due_ns, 1)?;
            due_ns.write(handle.body.inner.next_wakeup().map_or(WEIR_NEVER, Time::as_nanos));
            Ok(WEIR_OK)
        })
    }
}

/// The set point in force, in nanoseconds, into `setpoint_ns`; WEIR_E_REFUSED where there is none.
///
/// # Safety
///
/// The algorithm is live; `setpoint_ns` is null or can be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn weir_aqm_setpoint(aqm: *mut weir_aqm, setpoint_ns: *mut u64) -> i32 {
    // SAFETY: the caller's promise.
    unsafe {
        aqm_with(aqm, |handle| {
            usable(setpoint_ns, 1)?;
            let setpoint = handle.body.inner.setpoint().ok_or(WEIR_E_REFUSED)?;
            setpoint_ns.write(setpoint.get().as_nanos());
            Ok(WEIR_OK)
        })
    }
}

/// Moves the set point, within the range of its parameter.
///
/// # Safety
///
/// The algorithm is live.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn weir_aqm_set_setpoint(aqm: *mut weir_aqm, setpoint_ns: u64) -> i32 {
    // SAFETY: the caller's promise.
    unsafe {
        aqm_with(aqm, |handle| {
            let setpoint = handle.body.inner.setpoint().ok_or(WEIR_E_REFUSED)?;
            setpoint.set(Duration::from_nanos(setpoint_ns));
            Ok(WEIR_OK)
        })
    }
}

/// The inner variables of the algorithm, at most `count`; returns how many there are.
///
/// # Safety
///
/// The algorithm is live; `gauges` has `count` elements.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn weir_aqm_gauges(aqm: *mut weir_aqm, gauges: *mut weir_gauge, count: u32) -> i32 {
    // SAFETY: the caller's promise.
    unsafe {
        aqm_with(aqm, |handle| {
            let count = batch(count)?;
            usable(gauges, count)?;
            let mut there = 0;
            handle.body.inner.gauges(&mut |name, value| show(&mut there, gauges, count, name, value));
            Ok(there as i32)
        })
    }
}
