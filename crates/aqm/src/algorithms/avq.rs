//! AVQ: the adaptive virtual queue (Kunniyur and Srikant, "Analysis and design of an adaptive virtual queue
//! algorithm for active queue management", SIGCOMM 2001).
//!
//! A virtual queue with the arrivals and the buffer of the real one is served at a virtual capacity. When it
//! overflows, the arriving packet is signalled. The capacity is adapted until the arrival rate is what is
//! wanted: it grows with time and shrinks with each packet, so that it stands still at `utilization`.
//!
//! ```text
//! arrival of a packet that takes s on the link, after a gap g:
//!     queue    = max(0, queue - capacity * g)              in time on the link
//!     if queue + s > buffer: signal                        and it is not added
//!     else: queue = queue + s
//!     capacity = min(1, capacity + alpha * utilization * g) - alpha * s, not below 0
//! ```
//!
//! This is the token bucket of the paper with its rates divided by the link's. Packets that are discarded are
//! no load on the link: for virtual queue and capacity they have never arrived (experiment 5 of the paper).
//! Packets that are or would be marked count, also where the real queue has no room for them.

use crate::{Algorithm, Aqm, Cause, Moment, Packet, Share, Verdict};
use weir_units::{Duration, Rate, Time};

crate::params! {
    /// Parameters of AVQ.
    pub struct Params {
        /// Utilization of the link that is aimed at: gamma of the paper, 98 % in its experiments where
        /// packets are marked, 98 % and 100 % where they are dropped.
        utilization: Share = Share(0.98), Share(0.01) => Share(1.0);
        /// How fast the virtual capacity is adapted, in 1/s: alpha of the paper, 0.15 in its experiments. The
        /// largest value that is stable falls with the number of flows and the round-trip time (section 3).
        alpha: f64 = 0.15, 0.0001 => 100.0;
        /// Buffer of the virtual queue as the time its bytes take at the link's rate. In the paper it is that
        /// of the real queue, 100 packets of 1000 bytes at 10 Mbit/s: 80 ms.
        buffer: Duration = Duration::from_millis(100), Duration::from_micros(10) => Duration::from_secs(60);
        /// Virtual capacity at the start, as a share of the link's.
        initial: Share = Share(1.0), Share(0.0) => Share(1.0);
        /// Whether ECN-capable packets are marked instead of dropped.
        ecn: bool = true, false => true;
    }
}

/// See the [module documentation](self).
#[derive(Clone, Debug)]
pub struct Avq {
    utilization: f64,
    alpha: f64,
    /// In seconds on the link, as the queue.
    buffer: f64,
    ecn: bool,
    queue: f64,
    /// Virtual capacity as a share of the link's.
    capacity: f64,
    last: Time,
}

impl Algorithm for Avq {
    const NAME: &'static str = "avq";
    const SUMMARY: &'static str =
        "Signals overflows of a virtual queue whose capacity adapts until the link has the utilization wanted.";
    const SOURCE: &'static str = "Kunniyur and Srikant, SIGCOMM 2001";
    const SETPOINT: Option<&'static str> = None;
    type Params = Params;

    fn new(params: &Params, start: Time) -> Self {
        Avq {
            utilization: params.utilization.0,
            alpha: params.alpha,
            buffer: params.buffer.as_secs_f64(),
            ecn: params.ecn,
            queue: 0.0,
            capacity: params.initial.0,
            last: start,
        }
    }
}

impl Aqm for Avq {
    fn on_enqueue(&mut self, m: &Moment, p: &Packet) -> Verdict {
        // A link of unknown rate has no share of it that could serve the virtual queue.
        if m.queue.rate == Rate::ZERO {
            return Verdict::Forward;
        }
        let service = p.len.get() as f64 * 8.0 / m.queue.rate.as_bps_f64();
        let gap = m.now.since(self.last).as_secs_f64();
        let mut queue = (self.queue - self.capacity * gap).max(0.0);
        // An empty queue takes any packet, or one packet would be too much for a slow link's buffer.
        let mut verdict = Verdict::Forward;
        if queue > 0.0 && queue + service > self.buffer {
            verdict = Verdict::signal(p, self.ecn, Cause::SetPoint);
            if matches!(verdict, Verdict::Drop(_)) {
                return verdict;
            }
        } else {
            queue += service;
        }
        self.queue = queue;
        let grown = (self.capacity + self.alpha * self.utilization * gap).min(1.0);
        self.capacity = (grown - self.alpha * service).max(0.0);
        self.last = m.now;
        verdict
    }

    fn on_overflow(&mut self, m: &Moment, p: &Packet) {
        if self.ecn && p.ecn.is_capable() {
            let _ = self.on_enqueue(m, p);
        }
    }

    fn gauges(&self, plot: &mut dyn FnMut(&'static str, f64)) {
        plot("virtual_queue_ms", self.queue * 1e3);
        plot("virtual_capacity", self.capacity);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Ecn, View};
    use weir_units::Bytes;

    /// 1250 packets of 1000 bytes in a second.
    const LINK: Rate = Rate::from_mbps(10);
    const PACKETS: f64 = 1250.0;

    fn moment(now: Time) -> Moment {
        let queue = View { backlog: Bytes::new(1000), packets: 1, delay: Duration::ZERO, rate: LINK };
        Moment::new(now, queue, 0)
    }

    fn packet(ecn: Ecn) -> Packet {
        Packet { arrived: Time::ZERO, len: Bytes::new(1000), seq: 0, flow: 0, ecn }
    }

    /// A virtual buffer of five packets.
    fn small(ecn: bool) -> Avq {
        Avq::new(&Params { buffer: Duration::from_millis(4), ecn, ..Params::default() }, Time::ZERO)
    }

    #[test]
    fn a_trace_computed_by_hand() {
        // Arrivals every 0.5 ms: virtual queue in packets, virtual capacity in packets per second, signalled.
        let rows = [
            (0, 1.0, 1249.85, false),
            (1, 1.375_075, 1_249.791_875, false),
            (2, 1.750_179, 1_249.733_75, false),
            (10, 4.752_058, 1_249.268_75, false),
            (11, 4.127_423, 1_249.210_625, true),
            (12, 4.502_818, 1_249.152_5, false),
        ];
        let mut avq = small(true);
        for n in 0..13u64 {
            let verdict = avq.on_enqueue(&moment(Time::from_nanos(n * 500_000)), &packet(Ecn::Ect0));
            let Some((_, queue, capacity, signalled)) = rows.iter().find(|row| row.0 == n) else { continue };
            assert!((avq.queue * PACKETS - queue).abs() < 1e-6, "queue {} at {n}", avq.queue * PACKETS);
            assert!((avq.capacity * PACKETS - capacity).abs() < 1e-6, "{} at {n}", avq.capacity * PACKETS);
            assert_eq!(verdict == Verdict::Mark(Cause::SetPoint), *signalled, "at {n}");
        }
    }

    #[test]
    fn the_capacity_stands_still_at_the_wanted_utilization() {
        // Change per packet at a rate: alpha * (gamma * C / rate - 1).
        for (rate, change) in [(1225.0, 0.0), (2000.0, -0.058_125), (1000.0, 0.033_75)] {
            let mut avq = Avq::new(&Params { initial: Share(0.5), ..Params::default() }, Time::ZERO);
            let gap = 1e9 / rate;
            for n in 1..1000 {
                let before = avq.capacity;
                let now = Time::from_nanos((f64::from(n) * gap).round() as u64);
                let _ = avq.on_enqueue(&moment(now), &packet(Ecn::Ect0));
                let moved = (avq.capacity - before) * PACKETS;
                // Whole nanoseconds are 1.8e-7 packets per second at this gain.
                assert!((moved - change).abs() < 2e-7, "{moved} at {rate}");
            }
        }
    }

    #[test]
    fn a_discarded_packet_has_never_arrived() {
        let (mut with, mut without) = (small(false), small(false));
        let mut drops = 0;
        for n in 0..1000u64 {
            let m = moment(Time::from_nanos(n * 500_000));
            match with.on_enqueue(&m, &packet(Ecn::Ect0)) {
                Verdict::Drop(_) => drops += 1,
                _ => assert_eq!(without.on_enqueue(&m, &packet(Ecn::Ect0)), Verdict::Forward),
            }
            // The real queue has no room either: not a load.
            with.on_overflow(&m, &packet(Ecn::Ect0));
        }
        assert!(drops > 300, "{drops}");
        assert_eq!((with.queue, with.capacity, with.last), (without.queue, without.capacity, without.last));
        // Marked ones count, with and without room.
        let (mut room, mut full) = (small(true), small(true));
        for n in 0..1000u64 {
            let m = moment(Time::from_nanos(n * 500_000));
            let _ = room.on_enqueue(&m, &packet(Ecn::Ect0));
            full.on_overflow(&m, &packet(Ecn::Ect0));
        }
        assert_eq!((room.queue, room.capacity), (full.queue, full.capacity));
        let later = moment(Time::from_nanos(3_600_000_000_000));
        full.on_overflow(&later, &packet(Ecn::NotEct));
        assert_eq!((room.queue, room.capacity, room.last), (full.queue, full.capacity, full.last));
    }

    /// The paper's token bucket in bytes and bytes per second. The division by the link's rate changes
    /// results by less than 1e-9 of the link after a hundred thousand packets.
    #[test]
    fn the_twin_in_bytes_agrees() {
        let (c, gamma, alpha, b) = (1.25e6, 0.98, 0.15, 1e5);
        let params = Params { buffer: Duration::from_millis(80), ..Params::default() };
        let mut avq = Avq::new(&params, Time::ZERO);
        let (mut queue, mut capacity, mut last, mut dice, mut marks) = (0.0f64, c, 0u64, 7u64, 0);
        for n in 0..100_000 {
            dice = dice.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            let now = last + (dice >> 33) % 1_500_000;
            let verdict = avq.on_enqueue(&moment(Time::from_nanos(now)), &packet(Ecn::Ect0));
            let gap = (now - last) as f64 / 1e9;
            queue = (queue - capacity * gap).max(0.0);
            let full = queue + 1000.0 > b;
            queue += if full { 0.0 } else { 1000.0 };
            capacity = ((capacity + alpha * gamma * c * gap).min(c) - alpha * 1000.0).max(0.0);
            last = now;
            marks += u32::from(full);
            assert_eq!(verdict != Verdict::Forward, full, "at packet {n}");
            assert!((avq.queue * c - queue).abs() < 1e-9 * c, "{} {queue}", avq.queue * c);
            assert!((avq.capacity * c - capacity).abs() < 1e-9 * c, "{} {capacity}", avq.capacity * c);
        }
        assert!(marks > 1000, "{marks}");
    }

    #[test]
    fn an_hour_without_packets_fills_nothing_and_a_slow_link_takes_a_packet() {
        let mut avq = small(false);
        let hour = Time::from_nanos(3_600_000_000_000);
        let _ = avq.on_enqueue(&moment(hour), &packet(Ecn::NotEct));
        assert!(avq.capacity <= 1.0 && avq.queue <= 0.0008);
        // 1000 bytes take 0.8 s at 10 kbit/s, two hundred times the buffer.
        for second in 1..100 {
            let mut m = moment(hour + Duration::from_secs(second));
            m.queue.rate = Rate::from_bps(10_000);
            assert_eq!(small(false).on_enqueue(&m, &packet(Ecn::NotEct)), Verdict::Forward);
        }
    }
}
