//! HULL's phantom queue: bandwidth for latency (Alizadeh et al., Less is More, NSDI 2012).
//!
//! Acts at dequeue, by marks only. A counter goes up with each packet that is sent and down at a little less
//! than the link's rate: the backlog of a link that is slower than the real one. Packets that find it above a
//! threshold are marked. Senders that heed this keep below the link's rate, and the real queue stays empty.
//!
//! ```text
//! phantom = max(phantom - drain * rate * (time since the last packet), 0)
//! mark if phantom > threshold
//! phantom = phantom + size
//! ```
//!
//! It is meant for DCTCP and paced senders. Packets that are not ECN-capable are never signalled, so that
//! other traffic only knows the limits of the real queue. Without a rate of the link there is no phantom.
//!
//! The counter is exact, in bits times nanoseconds over a second; only the drain rate is rounded, to 1 bit/s.

use crate::{Algorithm, Aqm, Cause, Moment, Packet, Share, Verdict};
use weir_units::{Bytes, NANOS_PER_SEC, Rate, Time};

crate::params! {
    /// Parameters of HULL's phantom queue.
    pub struct Params {
        /// Rate of the phantom queue, as a share of the link's: gamma (HULL, on phantom queues).
        drain: Share = Share(0.95), Share(0.01) => Share(1.0);
        /// Backlog of the phantom queue above which packets are marked; the paper has 1 kB at 1 Gbit/s
        /// (HULL, on the testbed).
        threshold: Bytes = Bytes::new(1000), Bytes::ZERO => Bytes::new(100_000_000);
    }
}

/// Units of the counter in a byte: at a rate in bit/s it falls by the rate each nanosecond.
const BYTE: u64 = 8 * NANOS_PER_SEC;

/// See the [module documentation](self).
#[derive(Clone, Debug)]
pub struct Hull {
    drain: f64,
    threshold: u64,
    phantom: u64,
    last: Time,
    /// The link's rate, and the phantom's that follows from it.
    link: Rate,
    rate: u64,
}

impl Algorithm for Hull {
    const NAME: &'static str = "hull";
    const SUMMARY: &'static str =
        "Marks while a phantom queue, drained a little slower than the link, is above a threshold; never drops.";
    const SOURCE: &'static str =
        "Alizadeh et al., Less Is More: Trading a Little Bandwidth for Ultra-Low Latency, NSDI 2012";
    const SETPOINT: Option<&'static str> = None;
    type Params = Params;

    fn new(params: &Params, start: Time) -> Self {
        let (drain, threshold) = (params.drain.0, params.threshold.get() * BYTE);
        Hull { drain, threshold, phantom: 0, last: start, link: Rate::ZERO, rate: 0 }
    }
}

impl Hull {
    #[cold]
    fn follow(&mut self, link: Rate) {
        self.link = link;
        self.rate = Rate::from_bps_f64(link.as_bps_f64() * self.drain).as_bps();
    }
}

impl Aqm for Hull {
    fn on_dequeue(&mut self, m: &Moment, p: &Packet) -> Verdict {
        if m.queue.rate != self.link {
            self.follow(m.queue.rate);
        }
        let gone = self.rate.saturating_mul(m.now.since(self.last).as_nanos());
        let phantom = self.phantom.saturating_sub(gone);
        self.last = m.now;
        if self.rate == 0 {
            return Verdict::Forward;
        }
        self.phantom = phantom.saturating_add(p.len.get().saturating_mul(BYTE));
        if phantom > self.threshold && p.ecn.is_capable() {
            Verdict::Mark(Cause::SetPoint)
        } else {
            Verdict::Forward
        }
    }

    fn gauges(&self, plot: &mut dyn FnMut(&'static str, f64)) {
        plot("phantom_backlog_bytes", self.phantom as f64 / BYTE as f64);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Ecn, View};
    use weir_units::Duration;

    fn sent(hull: &mut Hull, now_ns: u64, link: Rate, ecn: Ecn) -> Verdict {
        let now = Time::from_nanos(now_ns);
        let queue = View { backlog: Bytes::ZERO, packets: 0, delay: Duration::ZERO, rate: link };
        let p = Packet { arrived: now, len: Bytes::new(1500), seq: 0, flow: 0, ecn };
        hull.on_dequeue(&Moment::new(now, queue, 0), &p)
    }

    /// The first marked packet of a row that is sent at a rate, and how many of a thousand are marked.
    fn marked(packet_ns: u64, link: Rate, ecn: Ecn) -> (Option<u64>, usize) {
        let mut hull = Hull::new(&Params::default(), Time::ZERO);
        let marks: std::vec::Vec<u64> =
            (0..1000).filter(|n| sent(&mut hull, n * packet_ns, link, ecn) != Verdict::Forward).collect();
        (marks.first().copied(), marks.len())
    }

    #[test]
    fn a_row_at_line_rate_is_marked_once_it_is_ahead_by_the_threshold() {
        let gigabit = Rate::from_mbps(1000);
        // 12 us a packet, in which the phantom sends 1425 bytes: each packet adds 75 bytes to what the next
        // one finds, so that number 14 is the first to find more than 1000.
        assert_eq!(marked(12_000, gigabit, Ecn::Ect0), (Some(14), 986));
        // At 95 % or less of the rate nothing is marked.
        assert_eq!(marked(12_632, gigabit, Ecn::Ect0), (None, 0));
        assert_eq!(marked(12_000, gigabit, Ecn::NotEct), (None, 0));
        assert_eq!(marked(12_000, Rate::ZERO, Ecn::Ect0), (None, 0));
    }

    #[test]
    fn the_counter_is_exact() {
        let mut hull = Hull::new(&Params::default(), Time::ZERO);
        let link = Rate::from_bps(1_000_003);
        let (mut now, mut exact) = (0u64, 0u128);
        for n in 0..10_000u64 {
            let gap = n * 7919 % 12_000_000;
            now += gap;
            let _ = sent(&mut hull, now, link, Ecn::NotEct);
            // 95 % of 1000003 bit/s is 950002.85, rounded.
            exact = exact.saturating_sub(950_003 * u128::from(gap)) + 12_000 * 1_000_000_000;
            assert_eq!(u128::from(hull.phantom), exact, "packet {n}");
        }
    }

    #[test]
    fn years_of_silence_empty_it() {
        let mut hull = Hull::new(&Params::default(), Time::ZERO);
        let link = Rate::from_mbps(100_000);
        (0..100).for_each(|_| assert!(matches!(sent(&mut hull, 0, link, Ecn::NotEct), Verdict::Forward)));
        let _ = sent(&mut hull, u64::MAX, link, Ecn::Ect0);
        assert_eq!(hull.phantom, 1500 * BYTE);
    }
}
