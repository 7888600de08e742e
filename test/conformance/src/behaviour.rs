//! Suites about how an AQM behaves as a step machine.

use crate::script::{Drive, Script, single};
use crate::{Finding, ensure};
use weir_aqm::{Aqm, Ecn, Needs, Packet, Sample};
use weir_queue::{Arrival, DROPS_PER_DEQUEUE_MAX, Discipline, Hosts, Limits, Single};
use weir_units::{Bytes, Duration, Rate, Time};

/// Every packet that went into a queue came out of it once, sent or discarded, and was counted.
pub fn conservation<A: Aqm + Clone>(make: &dyn Fn() -> A) -> Finding {
    for seed in 1..4 {
        let script = Script { seed, ..Script::default() };
        conserves(single(make(), &script), &script)?;
    }
    Ok(())
}

/// The same for any queue discipline.
pub fn conserves<D: Discipline<u32>>(queue: D, script: &Script) -> Finding {
    let mut drive = Drive::new(queue, script);
    for _ in 0..script.packets {
        drive.step(script);
        let counters = *drive.queue.counters();
        let queued = drive.queue.packets();
        ensure!(
            counters.is_conserved(queued),
            "after {} arrivals the counters do not add up: {counters:?} with {queued} packets queued. Remedy: let \
             `Management` count arrivals and verdicts, and discard what it did not decide about by its `discard_stored`",
            drive.sent
        );
        let gone = drive.out.len() as u64;
        let left = u64::from(drive.sent) - gone.min(u64::from(drive.sent));
        ensure!(
            left == u64::from(queued),
            "of {} packets that went in {left} did not come out, and {queued} are queued. Remedy: hand each packet that is \
             taken out of the store to the caller or to the outbox, once",
            drive.sent
        );
    }
    drive.drain(script.rate);
    ensure!(
        drive.queue.packets() == 0,
        "{} packets stay for ever though `dequeue` is called for an hour without arrivals. Remedy: let `dequeue` return a \
         packet, or discard some, whenever packets wait",
        drive.queue.packets()
    );
    ensure!(
        drive.queue.backlog() == Bytes::ZERO,
        "an empty queue says that {} wait. Remedy: take off the backlog what was added for the packet, its length",
        drive.queue.backlog()
    );
    let mut times = vec![0; drive.sent as usize];
    drive.out.iter().for_each(|n| times[*n as usize] += 1);
    if let Some(n) = times.iter().position(|times| *times != 1) {
        return Err(format!(
            "packet {n} of {} came out {} times. Remedy: hand each packet that is taken out of the store to the caller or to \
             the outbox, once",
            drive.sent, times[n]
        ));
    }
    Ok(())
}

/// The same questions get the same answers, also from a copy that is made on the way.
pub fn determinism<A: Aqm + Clone>(make: &dyn Fn() -> A) -> Finding {
    let script = Script { packets: 20_000, ..Script::default() };
    let half = script.packets / 2;
    // After each arrival the time and a hash of all answers so far.
    let trace = |copied: bool| -> Vec<(Time, u64)> {
        let mut drive = Drive::new(single(make(), &script), &script);
        let step = |n| {
            if copied && n == half {
                let copy = drive.queue.aqm().clone();
                *drive.queue.aqm_mut() = copy;
            }
            drive.step(&script);
            (drive.now, drive.queue.aqm().hash)
        };
        (0..script.packets).map(step).collect()
    };
    let first = trace(false);
    let parts = |other: Vec<(Time, u64)>| (0u32..).zip(&first).zip(other).find(|((_, a), b)| **a != *b);
    if let Some(((n, (at, _)), _)) = parts(trace(false)) {
        return Err(format!(
            "two runs of one seed differ: from packet {n} on, {} after the start, the same questions get other answers, so \
             that no run could be repeated. Remedy: keep all that is remembered in the struct (no `static`, no hash map), \
             and take chance from `Moment::random_bits` and the time from `Moment::now`",
            at.since(Time::ZERO)
        ));
    }
    if let Some(((n, (at, _)), _)) = parts(trace(true)) {
        return Err(format!(
            "a copy behaves differently from the original: made before packet {half}, it answers otherwise from packet {n} \
             on, {} after the start. Remedy: derive `Clone`, or copy in it every field that decides",
            at.since(Time::ZERO)
        ));
    }
    Ok(())
}

/// Only packets that are ECN-capable are marked.
pub fn ecn<A: Aqm + Clone>(make: &dyn Fn() -> A) -> Finding {
    run_watched(make, &Script { packets: 60_000, ..Script::default() })
}

fn run_watched<A: Aqm>(make: &dyn Fn() -> A, script: &Script) -> Finding {
    let mut drive = Drive::new(single(make(), script), script);
    drive.run(script);
    drive.queue.aqm().violation.clone().map_or(Ok(()), Err)
}

/// The clock may jump by hours or years, with and without packets in the queue. After a long idle time the
/// past is forgotten: packets that find an empty queue are not signalled.
pub fn time_jumps<A: Aqm + Clone>(make: &dyn Fn() -> A) -> Finding {
    let hour = Duration::from_secs(3600);
    for jump in [hour, hour.saturating_mul(24 * 365), hour.saturating_mul(24 * 365 * 100)] {
        for jump_with_backlog in [false, true] {
            run_watched(make, &Script { packets: 10_000, jump, jump_with_backlog, ..Script::default() })?;
        }
    }
    after_an_idle_hour(make)
}

fn after_an_idle_hour<A: Aqm>(make: &dyn Fn() -> A) -> Finding {
    let script = Script::default();
    let mut drive = Drive::new(single(make(), &script), &script);
    drive.run(&script);
    drive.drain(script.rate);
    let idle = Duration::from_secs(7200);
    let mut now = drive.now + idle;
    let arrival =
        Arrival { len: Bytes::new(1000), flow: 0, hosts: Hosts::UNKNOWN, ecn: Ecn::NotEct, nqb: false };
    let mut discarded = 0;
    let mut count = |_: &Packet, _, _| discarded += 1;
    for n in 0..100 {
        drive.queue.enqueue(now, arrival, n, &mut count);
        let _ = drive.queue.dequeue(now + Duration::from_micros(80), &mut count);
        now += Duration::from_millis(10);
    }
    ensure!(
        discarded == 0,
        "{discarded} of 100 packets discarded though each found an empty queue, {idle} after the last traffic and 10 ms \
         apart: it acts on delays of the past. Remedy: forget them in `on_empty`, or let them decay by `Moment::now`, and \
         signal nothing while `View::packets` is 0"
    );
    Ok(())
}

/// The host may wake an AQM late, even by hours, and more than one wakeup late.
pub fn late_wakeups<A: Aqm + Clone>(make: &dyn Fn() -> A) -> Finding {
    // A queue wakes its AQM when it is used; thin traffic makes that late.
    let slow = Script { packets: 5_000, rate: Rate::from_bps(20_000), ..Script::default() };
    run_watched(make, &slow)?;
    let script = Script { packets: 2_000, ..Script::default() };
    let mut drive = Drive::new(single(make(), &script), &script);
    drive.run(&script);
    let Some(due) = drive.queue.aqm().next_wakeup() else { return Ok(()) };
    for late in [Duration::from_nanos(1), Duration::from_secs(1), Duration::from_secs(36_000)] {
        let now = drive.now.max(due) + late;
        drive.now = now;
        let _ = drive.queue.dequeue(now, &mut |_: &Packet, _, _| {});
    }
    drive.queue.aqm().violation.clone().map_or(Ok(()), Err)
}

/// A queue of stale packets, after a day without service, is worked off in bounded steps: each dequeue
/// discards at most what the host allows. Instructions of a call after a long time are counted by `weir-bench
/// ceilings`.
pub fn bounded_work<A: Aqm + Clone>(make: &dyn Fn() -> A) -> Finding {
    let packets = 10_000;
    let limits = Limits { bytes: Bytes::new(u64::from(packets) * 1500), packets };
    let mut queue = Single::new(make(), limits, Rate::from_mbps(10_000), 1);
    let mut now = Time::ZERO;
    let arrival =
        Arrival { len: Bytes::new(1000), flow: 0, hosts: Hosts::UNKNOWN, ecn: Ecn::NotEct, nqb: false };
    for n in 0..packets {
        now += Duration::from_nanos(500);
        queue.enqueue(now, arrival, n, &mut |_: &Packet, _, _| {});
    }
    now += Duration::from_secs(24 * 3600);
    let mut dequeues = 0;
    while queue.packets() > 0 {
        let before = queue.counters().dropped_out;
        let _ = queue.dequeue(now, &mut |_: &Packet, _, _| {});
        let drops = queue.counters().dropped_out - before;
        ensure!(
            drops <= u64::from(DROPS_PER_DEQUEUE_MAX),
            "{drops} drops in one dequeue, where a call may take the time of {DROPS_PER_DEQUEUE_MAX}. Remedy: end the loop of \
             the queue's `dequeue` there and forward the next packet"
        );
        dequeues += 1;
        ensure!(
            dequeues <= packets,
            "after {packets} dequeues without arrivals {} of {packets} packets still wait. Remedy: let each `dequeue` return \
             a packet or discard some",
            queue.packets()
        );
        now += Duration::from_micros(1);
    }
    Ok(())
}

/// An algorithm that acts on round trips it is told of says so, or hosts tell it none; and one that says so
/// acts on them.
pub fn needs<A: Aqm + Clone>(make: &dyn Fn() -> A) -> Finding {
    let script = Script { packets: 20_000, ..Script::default() };
    let answers = |told: bool| {
        let mut drive = Drive::new(single(make(), &script), &script);
        for n in 0..script.packets {
            drive.step(&script);
            // A path that becomes longer by a queue of half a second.
            let rtt = Duration::from_millis(if n < script.packets / 4 { 20 } else { 520 });
            if told && n % 10 == 0 {
                drive.queue.sample(drive.now, Sample::Rtt(rtt));
            }
        }
        (drive.queue.aqm().hash, drive.queue.aqm().signals)
    };
    let ((told, with), (alone, without)) = (answers(true), answers(false));
    let (acts, says) = (told != alone, A::NEEDS != Needs::Nothing);
    ensure!(
        says || !acts,
        "it acts on round trips without `const NEEDS`: {with} signals where it is told them, {without} where not, and no \
         host would tell it any. Remedy: declare `const NEEDS` in `impl Aqm`, `Needs::Probes`, or `Needs::PassingPackets` \
         for those of passing packets"
    );
    ensure!(
        acts || !says,
        "it declares {:?} and does not act on round trips: {with} signals where it is told 20 ms and then 520 ms, and the \
         same answers where it is told nothing. Remedy: use them in `on_sample`, or leave out `const NEEDS`",
        A::NEEDS
    );
    Ok(())
}

/// Gauges are numbers that can be drawn, and have one name each.
pub fn finite_gauges<A: Aqm + Clone>(make: &dyn Fn() -> A) -> Finding {
    let script = Script { packets: 3_000, ..Script::default() };
    let mut drive = Drive::new(single(make(), &script), &script);
    for _ in 0..script.packets {
        drive.step(&script);
        let mut names: Vec<&str> = Vec::new();
        let mut wrong = None;
        drive.queue.aqm().gauges(&mut |name, value| {
            if !value.is_finite() {
                wrong = Some(format!(
                    "gauge {name} = {value}, which is no number that can be drawn, after {} arrivals. Remedy: plot nothing, \
                     or 0, where it is not known yet, and look for a division by zero",
                    drive.sent
                ));
            } else if names.contains(&name) {
                wrong = Some(format!(
                    "gauge {name} = {value} is the second of that name, after {names:?}. Remedy: give each a name of its own"
                ));
            }
            names.push(name);
        });
        if let Some(wrong) = wrong {
            return Err(wrong);
        }
    }
    Ok(())
}
