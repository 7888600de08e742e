//! GKVQ: the virtual queue of Gibbens and Kelly ("Resource pricing and the evolution of congestion control",
//! Automatica 35, 1999), in the form with which AVQ is compared (Kunniyur and Srikant, SIGCOMM 2001).
//!
//! Beside the real queue a virtual one is kept, with the same arrivals, but with a share of the capacity and
//! of the buffer. When it overflows, all packets that leave the real queue are marked until it is empty
//! again. So the link is told of congestion before it is congested, at the price of the rest of its capacity.
//!
//! ```text
//! arrival of a packet that takes s on the link, after a gap g:
//!     queue = max(0, queue - theta * g)                 queue in time on the real link
//!     if queue + s > theta * buffer: marking = true     and it is not added
//!     else: queue = queue + s
//! marking = false as soon as queue = 0
//! ```
//!
//! It only marks. Packets that are not ECN-capable pass: discarding everything until the virtual queue is
//! empty would starve the link.

use crate::{Algorithm, Aqm, Cause, Moment, Packet, Share, Verdict};
use weir_units::{Duration, Rate, Time};

crate::params! {
    /// Parameters of GKVQ.
    pub struct Params {
        /// Share of the link's rate that serves the virtual queue, and of the buffer that it has: theta of
        /// Kunniyur and Srikant, section 4, where it is 90 %.
        theta: Share = Share(0.9), Share(0.01) => Share(1.0);
        /// Buffer of the real queue, as the time its bytes take at the link's rate; the virtual one has its
        /// share of it. The paper compares at 80 ms: 100 packets of 1000 bytes at 10 Mbit/s.
        buffer: Duration = Duration::from_millis(100), Duration::from_micros(10) => Duration::from_secs(60);
    }
}

/// See the [module documentation](self).
#[derive(Clone, Debug)]
pub struct Gkvq {
    theta: f64,
    /// Size of the virtual buffer in seconds on the real link.
    buffer: f64,
    /// Virtual backlog in seconds on the real link.
    queue: f64,
    marking: bool,
    last: Time,
}

impl Algorithm for Gkvq {
    const NAME: &'static str = "gkvq";
    const SUMMARY: &'static str =
        "Marks everything from an overflow of a slower virtual queue until that queue is empty.";
    const SOURCE: &'static str =
        "Gibbens and Kelly, Automatica 35 (1999), as in Kunniyur and Srikant, SIGCOMM 2001";
    const SETPOINT: Option<&'static str> = None;
    type Params = Params;

    fn new(params: &Params, start: Time) -> Self {
        let theta = params.theta.0;
        let buffer = theta * params.buffer.as_secs_f64();
        Gkvq { theta, buffer, queue: 0.0, marking: false, last: start }
    }
}

impl Gkvq {
    /// Serves the virtual queue up to now.
    fn serve(&mut self, now: Time) {
        self.queue = (self.queue - self.theta * now.since(self.last).as_secs_f64()).max(0.0);
        self.last = now;
        self.marking &= self.queue > 0.0;
    }

    fn arrive(&mut self, m: &Moment, p: &Packet) {
        // A link of unknown rate has no share of it that could serve the virtual queue.
        if m.queue.rate == Rate::ZERO {
            return;
        }
        self.serve(m.now);
        let service = p.len.get() as f64 * 8.0 / m.queue.rate.as_bps_f64();
        // An empty queue takes any packet, or one packet would be too much for a slow link's buffer.
        if self.queue > 0.0 && self.queue + service > self.buffer {
            self.marking = true;
        } else {
            self.queue += service;
        }
    }
}

impl Aqm for Gkvq {
    fn on_enqueue(&mut self, m: &Moment, p: &Packet) -> Verdict {
        self.arrive(m, p);
        Verdict::Forward
    }

    fn on_dequeue(&mut self, m: &Moment, p: &Packet) -> Verdict {
        if !self.marking {
            return Verdict::Forward;
        }
        self.serve(m.now);
        if self.marking && p.ecn.is_capable() { Verdict::Mark(Cause::SetPoint) } else { Verdict::Forward }
    }

    /// What the real queue could not take arrives at the virtual one all the same.
    fn on_overflow(&mut self, m: &Moment, p: &Packet) {
        self.arrive(m, p);
    }

    fn gauges(&self, plot: &mut dyn FnMut(&'static str, f64)) {
        plot("virtual_queue_ms", self.queue * 1e3);
        plot("marking", f64::from(u8::from(self.marking)));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Ecn, View};
    use weir_units::Bytes;

    /// The link of the paper: 10 Mbit/s, so that 1000 bytes take 0.8 ms.
    fn moment(now: Time, rate: Rate) -> Moment {
        let queue = View { backlog: Bytes::new(1000), packets: 1, delay: Duration::ZERO, rate };
        Moment::new(now, queue, 0)
    }

    fn packet(ecn: Ecn) -> Packet {
        Packet { arrived: Time::ZERO, len: Bytes::new(1000), seq: 0, flow: 0, ecn }
    }

    fn paper() -> Gkvq {
        Gkvq::new(&Params { buffer: Duration::from_millis(80), ..Params::default() }, Time::ZERO)
    }

    const LINK: Rate = Rate::from_mbps(10);

    #[test]
    fn ninety_packets_fit_and_marks_last_until_the_virtual_queue_is_empty() {
        let mut gkvq = paper();
        let ect = packet(Ecn::Ect0);
        let at = |us: u64| moment(Time::from_nanos(us * 1000), LINK);
        for n in 0..90 {
            assert_eq!(gkvq.on_enqueue(&at(0), &ect), Verdict::Forward, "{n}");
            assert_eq!(gkvq.on_dequeue(&at(0), &ect), Verdict::Forward, "{n}");
        }
        // 0.9 * 80 ms are full: 90 packets of 0.8 ms. A virtual packet takes 0.8 / 0.9 ms to leave.
        assert_eq!(gkvq.on_enqueue(&at(800), &ect), Verdict::Forward);
        assert_eq!(gkvq.on_dequeue(&at(800), &ect), Verdict::Mark(Cause::SetPoint));
        assert_eq!(gkvq.on_dequeue(&at(800), &packet(Ecn::NotEct)), Verdict::Forward);
        assert_eq!(gkvq.on_dequeue(&at(79_999), &ect), Verdict::Mark(Cause::SetPoint));
        assert_eq!(gkvq.on_dequeue(&at(80_001), &ect), Verdict::Forward);
        assert!(!gkvq.marking);
    }

    #[test]
    fn arrivals_at_less_than_theta_are_never_marked() {
        let mut gkvq = paper();
        for n in 0..100_000u64 {
            // 0.9 of 1250 packets in a second is one in 888.9 us.
            let m = moment(Time::from_nanos(n * 888_900), LINK);
            let _ = gkvq.on_enqueue(&m, &packet(Ecn::Ect0));
            assert_eq!(gkvq.on_dequeue(&m, &packet(Ecn::Ect0)), Verdict::Forward);
        }
    }

    /// The same queue in whole numbers. Both differ by less than a
    /// thousandth of a bit after a hundred thousand packets, and decide alike unless they stand that close to
    /// the buffer.
    #[test]
    fn the_exact_twin_agrees_within_a_thousandth_of_a_bit() {
        let mut gkvq = paper();
        // In units of 1e-9 bit: at 0.9 * 10 Mbit/s a nanosecond serves 9e6 of them.
        const BIT: i128 = 1_000_000_000;
        let buffer = 8_000 * 90 * BIT;
        let (mut queue, mut marking, mut last) = (0i128, false, 0u64);
        let mut dice = 1u64;
        for n in 0..100_000u64 {
            dice = dice.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            let now = last + (dice >> 33) % 1_600_000;
            let _ = gkvq.on_enqueue(&moment(Time::from_nanos(now), LINK), &packet(Ecn::Ect0));
            queue = (queue - i128::from(now - last) * 9_000_000).max(0);
            last = now;
            marking &= queue > 0;
            let close = (queue + 8_000 * BIT - buffer).abs() < BIT / 1000;
            assert!(!close, "another seed is needed: packet {n} stands at the buffer");
            if queue + 8_000 * BIT > buffer {
                marking = true;
            } else {
                queue += 8_000 * BIT;
            }
            assert_eq!(gkvq.marking, marking, "at packet {n}");
            let bits = queue as f64 / BIT as f64;
            assert!((gkvq.queue * 1e7 - bits).abs() < 1e-3, "packet {n}: {} and {bits}", gkvq.queue * 1e7);
        }
    }

    #[test]
    fn an_unshaped_link_has_no_virtual_queue_and_a_slow_one_takes_a_packet() {
        let mut gkvq = paper();
        for n in 0..1000 {
            let m = moment(Time::from_nanos(n), Rate::ZERO);
            let _ = gkvq.on_enqueue(&m, &packet(Ecn::Ect0));
            assert_eq!(gkvq.on_dequeue(&m, &packet(Ecn::Ect0)), Verdict::Forward);
        }
        // 1000 bytes take 0.8 s at 10 kbit/s, ten times the buffer.
        for second in 1..100u64 {
            let m = moment(Time::from_nanos(second * 1_000_000_000), Rate::from_bps(10_000));
            let _ = gkvq.on_enqueue(&m, &packet(Ecn::Ect0));
            assert_eq!(gkvq.on_dequeue(&m, &packet(Ecn::Ect0)), Verdict::Forward);
        }
        // Overload is marked there too, because the packet that was taken has to leave first.
        let m = moment(Time::from_nanos(100_000_000_000), Rate::from_bps(10_000));
        let _ = gkvq.on_enqueue(&m, &packet(Ecn::Ect0));
        let _ = gkvq.on_enqueue(&m, &packet(Ecn::Ect0));
        assert_eq!(gkvq.on_dequeue(&m, &packet(Ecn::Ect0)), Verdict::Mark(Cause::SetPoint));
    }
}
