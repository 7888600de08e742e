//! Packets for an algorithm without a network: deterministic, so that instructions can be counted.
//!
//! Packets of 1500 bytes arrive back to back at 1 Gbit/s, half of them ECN-capable, at a queue whose length
//! goes up and down in a triangle, from empty to a multiple of the set point and back. Each packet is one
//! arrival and, as the length is given, about one departure.

use serde::Serialize;
use std::hint::black_box;
use weir_aqm::{Algorithm, Aqm, Cause, Ecn, Moment, Packet, Sample, Verdict, View, Visitor};
use weir_queue::{
    Arrival, Counters, Departure, Discipline, FlowQueue, Hosts, Limits, Outbox, Setup, Single, flow_queue,
};
use weir_steer::{Policy, Steered};
use weir_units::{Bytes, Duration, Rate, Time};

/// Time of one packet on the link.
const GAP_NS: u64 = 12_000;
/// An hour.
const HOUR_NS: u64 = 3_600_000_000_000;
const LENGTH: Bytes = Bytes::new(1500);
/// Packets in one triangle: 1.6 s, long enough above the set point for laws that wait 0.1 s and then hasten.
pub const PERIOD: u64 = 1 << 17;
/// Set point of algorithms that have none.
const NO_SETPOINT: Duration = Duration::from_millis(10);

/// What an algorithm is put into.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Form {
    /// The algorithm alone: both decisions, no storage.
    Plain,
    /// The algorithm steered with the default policy: both decisions, no storage.
    Steered,
    /// The algorithm in a FIFO: one packet stored and taken.
    Fifo,
    /// The algorithm in a FlowQueue with [`FLOWS`] flows: one packet stored and taken.
    Flow,
}

/// All forms.
pub const FORMS: [Form; 4] = [Form::Plain, Form::Steered, Form::Fifo, Form::Flow];

/// Flows that send in turn; a power of two.
pub const FLOWS: u32 = 1024;
/// Packets that each of them has waiting at the most: all are served in turn then.
const PACKETS_PER_FLOW: u64 = 4;

impl Form {
    /// Its name on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Form::Plain => "plain",
            Form::Steered => "steered",
            Form::Fifo => "fifo",
            Form::Flow => "flow",
        }
    }
}

/// How long the queue gets.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Region {
    /// Up to twice the set point: signals happen.
    Working,
    /// Up to half of the set point.
    Below,
    /// Up to twice the set point, and an hour passes between two packets: work that grows with the time since
    /// the last call shows. Only of the algorithm alone.
    Hourly,
}

/// All regions.
pub const REGIONS: [Region; 3] = [Region::Working, Region::Below, Region::Hourly];

impl Region {
    /// Its name on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Region::Working => "working",
            Region::Below => "below",
            Region::Hourly => "hourly",
        }
    }

    /// Time from one packet to the next.
    fn gap(self) -> u64 {
        match self {
            Region::Working | Region::Below => GAP_NS,
            Region::Hourly => HOUR_NS,
        }
    }

    fn has(self, form: Form) -> bool {
        self != Region::Hourly || matches!(form, Form::Plain | Form::Steered)
    }

    fn longest(self, form: Form, setpoint: Duration) -> Duration {
        match (self, form) {
            (Region::Working, Form::Flow) => {
                Duration::from_nanos(GAP_NS * u64::from(FLOWS) * PACKETS_PER_FLOW)
                    .max(setpoint.saturating_mul(2))
            }
            (Region::Working | Region::Hourly, _) => setpoint.saturating_mul(2),
            (Region::Below, _) => Duration::from_nanos(setpoint.as_nanos() / 2),
        }
    }
}

/// What came of a run.
#[derive(Clone, Copy, Debug, Default, Serialize)]
pub struct Outcome {
    /// Packets marked or discarded by the algorithm.
    pub signals: u64,
    /// Time of the loop.
    pub ns: u64,
}

/// The name that stands for the loop without an algorithm.
pub const NOTHING: &str = "nothing";

/// One run: packets through an algorithm.
#[derive(Clone, Copy, Debug)]
pub struct Run {
    /// What the algorithm is put into.
    pub form: Form,
    /// How long the queue gets.
    pub region: Region,
    /// Packets.
    pub packets: u64,
}

impl Run {
    /// Runs with an algorithm by its name; `None` if there is no such algorithm or it has no such form.
    pub fn with(self, algorithm: &str) -> Option<Outcome> {
        if algorithm == NOTHING { Some(self.empty()) } else { weir_aqm::visit(algorithm, self)? }
    }

    /// The loop without an algorithm and without storage.
    fn empty(self) -> Outcome {
        let longest = self.region.longest(self.form, NO_SETPOINT);
        match self.form {
            Form::Plain | Form::Steered => decisions(&mut Nothing, longest, self),
            Form::Fifo => through(&mut Count::default(), longest, self.packets, 1),
            Form::Flow => through(&mut Count::default(), longest, self.packets, FLOWS),
        }
    }
}

impl Visitor for Run {
    type Output = Option<Outcome>;

    fn visit<A: Algorithm>(self) -> Option<Outcome> {
        if !self.region.has(self.form) {
            return None;
        }
        let mut aqm = A::new(&A::Params::default(), Time::ZERO);
        let setpoint = aqm.setpoint().map_or(NO_SETPOINT, |s| s.get());
        let longest = self.region.longest(self.form, setpoint);
        match self.form {
            Form::Plain => Some(decisions(&mut aqm, longest, self)),
            Form::Steered => {
                let mut steered = Steered::new(aqm, &Policy::default(), Time::ZERO, ()).ok()?;
                let longest = self.region.longest(self.form, steered.setpoint_now());
                Some(decisions(&mut steered, longest, self))
            }
            Form::Fifo => {
                let mut queue = Single::guided(aqm, (), &setup(longest));
                Some(through(&mut queue, longest, self.packets, 1))
            }
            Form::Flow => {
                let mut queue = FlowQueue::new(&flow_queue::Params::default(), aqm, &setup(longest));
                Some(through(&mut queue, longest, self.packets, FLOWS))
            }
        }
    }
}

/// A queue with room for twice the longest there will be.
fn setup(longest: Duration) -> Setup {
    let packets = (longest.as_nanos() / GAP_NS) as u32 * 2 + 64;
    let limits = Limits { bytes: Bytes::new(u64::from(packets) * 1500), packets };
    Setup { limits, rate: Rate::from_mbps(1000), seed: 1, grows: false }
}

/// Packets in the queue at the given packet: a triangle from empty to `longest`.
#[inline]
fn level(seq: u64, longest: u64) -> u64 {
    let at = seq & (PERIOD - 1);
    let up = at.min(PERIOD - at);
    up * longest * 2 / PERIOD
}

fn ecn(seq: u64) -> Ecn {
    if seq & 1 == 0 { Ecn::Ect0 } else { Ecn::NotEct }
}

/// A step of SplitMix64's sequence without its mixing: enough to be different each time, and cheap.
fn dice(seq: u64) -> u64 {
    (seq + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15)
}

/// Asks for both decisions of each packet.
#[inline(never)]
fn decisions(aqm: &mut impl Aqm, longest: Duration, run: Run) -> Outcome {
    let gap = run.region.gap();
    let longest = longest.as_nanos() / GAP_NS;
    let mut signals = 0;
    let begin = std::time::Instant::now();
    for seq in 0..run.packets {
        let now = Time::from_nanos(gap * (seq + PERIOD));
        let waiting = level(seq, longest);
        let delay = Duration::from_nanos(waiting * GAP_NS);
        let queue = View {
            backlog: Bytes::new(waiting * 1500),
            packets: waiting as u32,
            delay,
            rate: Rate::from_mbps(1000),
        };
        let m = Moment::new(now, queue, dice(seq));
        // As a queue does: it wakes its algorithm when it is used.
        if aqm.next_wakeup().is_some_and(|due| due <= now) {
            aqm.on_wakeup(&m);
        }
        let p = Packet { arrived: now, len: LENGTH, seq, flow: 1, ecn: ecn(seq) };
        let entered = black_box(aqm.on_enqueue(black_box(&m), black_box(&p)));
        let head = Packet { arrived: now - delay, ..p };
        let left = black_box(aqm.on_dequeue(black_box(&m), black_box(&head)));
        signals += u64::from(entered != Verdict::Forward) + u64::from(left != Verdict::Forward);
        if waiting == 0 {
            aqm.on_empty(now);
        }
    }
    Outcome { signals, ns: begin.elapsed().as_nanos() as u64 }
}

/// Lets each packet in, and as many out as are above the level.
#[inline(never)]
fn through(queue: &mut impl Discipline<u32>, longest: Duration, packets: u64, flows: u32) -> Outcome {
    let longest = longest.as_nanos() / GAP_NS;
    let mut free = |_: &Packet, item: u32, _: Cause| {
        black_box(item);
    };
    let begin = std::time::Instant::now();
    for seq in 0..packets {
        let now = Time::from_nanos(GAP_NS * (seq + PERIOD));
        let arrival = Arrival {
            len: LENGTH,
            flow: seq as u32 & (flows - 1),
            hosts: Hosts::UNKNOWN,
            ecn: ecn(seq),
            nqb: false,
        };
        queue.enqueue(now, black_box(arrival), seq as u32, &mut free);
        let level = level(seq, longest) as u32;
        while queue.packets() > level {
            // Looked at where it lies, as its users do: a copy would be counted as the queue's.
            black_box(&queue.dequeue(now, &mut free));
        }
    }
    let ns = begin.elapsed().as_nanos() as u64;
    Outcome { signals: queue.counters().drops() + queue.counters().marked, ns }
}

/// An algorithm that does nothing.
struct Nothing;

impl Aqm for Nothing {}

/// A queue that stores nothing: what the loop around a queue costs.
#[derive(Default)]
struct Count {
    packets: u32,
    counters: Counters,
}

impl Discipline<u32> for Count {
    fn enqueue(&mut self, _: Time, _: Arrival, _: u32, _: &mut impl Outbox<u32>) {
        self.packets += 1;
    }
    fn dequeue(&mut self, _: Time, _: &mut impl Outbox<u32>) -> Option<Departure<u32>> {
        self.packets -= 1;
        None
    }
    fn head_arrived(&self) -> Option<Time> {
        None
    }
    fn backlog(&self) -> Bytes {
        Bytes::ZERO
    }
    fn packets(&self) -> u32 {
        self.packets
    }
    fn counters(&self) -> &Counters {
        &self.counters
    }
    fn set_rate(&mut self, _: Rate) {}
    fn sample(&mut self, _: Time, _: Sample) {}
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_working_region_has_signals_and_the_one_below_has_none() {
        for form in FORMS {
            for algorithm in ["codel", "gsp"] {
                let of = |region| Run { form, region, packets: 2 * PERIOD }.with(algorithm).unwrap().signals;
                assert!(of(Region::Working) >= 10, "{form:?} {algorithm}");
                // When newcomers alone fill the link, those among them that share a FIFO wait long.
                assert!(form == Form::Flow || of(Region::Below) == 0, "{form:?} {algorithm}");
            }
        }
    }

    #[test]
    fn an_unknown_algorithm_has_no_form() {
        let run = Run { form: Form::Steered, region: Region::Below, packets: 10 };
        assert!(run.with("no_such_algorithm").is_none());
    }
}
