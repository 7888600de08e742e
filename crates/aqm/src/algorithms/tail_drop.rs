//! Tail drop: the queue without management, with its size given as a delay.
//!
//! A packet is discarded when the backlog with it would take longer than `limit` to serve, unless the queue
//! is empty: one packet always fits, or a small limit on a slow link would let nothing pass, for ever. There
//! is no marking: a full queue cannot wait for a sender to read a mark.

use crate::{Algorithm, Aqm, Cause, Moment, Packet, Setpoint, Verdict};
use weir_units::{Duration, Time};

const LIMIT_MIN: Duration = Duration::from_micros(1);
const LIMIT_MAX: Duration = Duration::from_secs(60);

crate::params! {
    /// Parameters of tail drop.
    pub struct Params {
        /// Size of the queue as the time its bytes take at the link's rate.
        limit: Duration = Duration::from_millis(100), LIMIT_MIN => LIMIT_MAX;
    }
}

/// See the [module documentation](self).
#[derive(Clone, Debug)]
pub struct TailDrop {
    params: Params,
}

impl Algorithm for TailDrop {
    const NAME: &'static str = "tail_drop";
    const SUMMARY: &'static str = "Discards arrivals when the queue is full: no queue management at all.";
    const SOURCE: &'static str = "the default of every FIFO; RFC 7567 section 2.1 on why it is not enough";
    const SETPOINT: Option<&'static str> = Some("limit");
    const PER_FLOW_ELSEWHERE: &'static [&'static str] = &["fq", "sfq"];
    type Params = Params;

    fn new(params: &Params, _start: Time) -> Self {
        TailDrop { params: params.clone() }
    }

    /// The small buffer of AQM Steering, section V: its own default is a large one, which no policy means.
    fn raise_floor(_params: &Params) -> Option<Duration> {
        Some(Duration::from_micros(2500))
    }
}

impl Aqm for TailDrop {
    const IGNORES_PASSING: bool = true;

    fn on_enqueue(&mut self, m: &Moment, p: &Packet) -> Verdict {
        // An unshaped link has no rate that turns the limit into bytes; the host's buffer limits it then.
        let (queue, limit) = (&m.queue, self.params.limit);
        let is_full = queue.packets > 0 && queue.backlog + p.len > queue.rate.bytes_in(limit);
        if queue.rate.as_bps() == 0 || !is_full { Verdict::Forward } else { Verdict::Drop(Cause::Overflow) }
    }

    fn setpoint(&mut self) -> Option<&mut dyn Setpoint> {
        Some(self)
    }
}

impl Setpoint for TailDrop {
    fn get(&self) -> Duration {
        self.params.limit
    }

    fn set(&mut self, to: Duration) -> Duration {
        self.params.limit = to.clamp(LIMIT_MIN, LIMIT_MAX);
        self.params.limit
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Ecn, View};
    use weir_units::{Bytes, Rate};

    #[test]
    fn the_limit_is_a_delay_at_the_rate_of_the_link() {
        // 2.5 ms at 10 Gbit/s are 3.125 MB.
        let mut aqm = TailDrop::new(&Params { limit: Duration::from_micros(2500) }, Time::ZERO);
        let p = Packet { arrived: Time::ZERO, len: Bytes::new(1000), seq: 0, flow: 0, ecn: Ecn::Ect0 };
        let at = |backlog| {
            Moment::new(
                Time::ZERO,
                View {
                    backlog: Bytes::new(backlog),
                    packets: 1,
                    delay: Duration::ZERO,
                    rate: Rate::from_mbps(10_000),
                },
                0,
            )
        };
        assert_eq!(aqm.on_enqueue(&at(3_124_000), &p), Verdict::Forward);
        assert_eq!(aqm.on_enqueue(&at(3_124_001), &p), Verdict::Drop(Cause::Overflow));
    }

    #[test]
    fn an_empty_queue_takes_any_packet() {
        let mut aqm = TailDrop::new(&Params { limit: Duration::from_millis(2) }, Time::ZERO);
        let p = Packet { arrived: Time::ZERO, len: Bytes::new(1538), seq: 0, flow: 0, ecn: Ecn::NotEct };
        let rate = Rate::from_mbps(4);
        let at = |backlog, packets| {
            Moment::new(
                Time::ZERO,
                View { backlog: Bytes::new(backlog), packets, delay: Duration::ZERO, rate },
                0,
            )
        };
        assert_eq!(aqm.on_enqueue(&at(0, 0), &p), Verdict::Forward);
        assert_eq!(aqm.on_enqueue(&at(64, 1), &p), Verdict::Drop(Cause::Overflow));
    }
}
