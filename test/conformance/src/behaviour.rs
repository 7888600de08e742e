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
        ensure!(counters.is_conserved(queued), "{counters:?} with {queued} packets queued");
        let gone = drive.out.len() as u64;
        let left = u64::from(drive.sent) - gone.min(u64::from(drive.sent));
        ensure!(left == u64::from(queued), "{left} packets did not come out, {queued} are queued");
    }
    drive.drain(script.rate);
    ensure!(drive.queue.packets() == 0, "{} packets stay for ever", drive.queue.packets());
    ensure!(drive.queue.backlog() == Bytes::ZERO, "{} stay for ever", drive.queue.backlog());
    drive.out.sort_unstable();
    ensure!(drive.out.iter().copied().eq(0..drive.sent), "a packet came out twice or never");
    Ok(())
}

/// The same questions get the same answers, also from a copy that is made on the way.
pub fn determinism<A: Aqm + Clone>(make: &dyn Fn() -> A) -> Finding {
    let script = Script { packets: 20_000, ..Script::default() };
    let trace = |copied: bool| {
        let mut drive = Drive::new(single(make(), &script), &script);
        for n in 0..script.packets {
            if copied && n == script.packets / 2 {
                let copy = drive.queue.aqm().clone();
                *drive.queue.aqm_mut() = copy;
            }
            drive.step(&script);
        }
        drive.queue.aqm().hash
    };
    let first = trace(false);
    ensure!(trace(false) == first, "two runs of one seed differ");
    ensure!(trace(true) == first, "a copy behaves differently from the original");
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
    let mut now = drive.now + Duration::from_secs(7200);
    let arrival =
        Arrival { len: Bytes::new(1000), flow: 0, hosts: Hosts::UNKNOWN, ecn: Ecn::NotEct, nqb: false };
    let mut discarded = 0;
    let mut count = |_: &Packet, _, _| discarded += 1;
    for n in 0..100 {
        drive.queue.enqueue(now, arrival, n, &mut count);
        let _ = drive.queue.dequeue(now + Duration::from_micros(80), &mut count);
        now += Duration::from_millis(10);
    }
    ensure!(discarded == 0, "{discarded} of 100 packets discarded though each found an empty queue");
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
        ensure!(drops <= u64::from(DROPS_PER_DEQUEUE_MAX), "{drops} drops in one dequeue");
        dequeues += 1;
        ensure!(dequeues <= packets, "the queue does not become shorter");
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
        drive.queue.aqm().hash
    };
    let (acts, says) = (answers(true) != answers(false), A::NEEDS != Needs::Nothing);
    ensure!(says || !acts, "it acts on round trips without `const NEEDS`");
    ensure!(acts || !says, "it declares {:?} and does not act on round trips", A::NEEDS);
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
            if !value.is_finite() || names.contains(&name) {
                wrong = Some(format!("gauge {name} = {value}, after {names:?}"));
            }
            names.push(name);
        });
        if let Some(wrong) = wrong {
            return Err(wrong);
        }
    }
    Ok(())
}
