//! The AQM contract and the algorithms.
//!
//! An AQM is a pure step machine: a plain value that is asked one question per packet and answers with a
//! [`Verdict`]. Time, the state of the queue and dice are arguments ([`Moment`]). Whoever asks is a *host*
//! (dataplane, simulator, test): hosts own packets, loops and limits.
//!
//! Deliberately absent: clocks, random sources, allocation, I/O, logging.
//!
//! What a host does, in order:
//!
//! 1. A packet arrives. No room for it: [`Aqm::on_overflow`], and the packet is discarded. Room:
//!    [`Aqm::on_enqueue`]; on [`Verdict::Drop`] the packet is discarded, otherwise it is stored.
//! 2. The link is free. The head leaves the FIFO and [`Aqm::on_dequeue`] is asked; on [`Verdict::Drop`] the
//!    packet is discarded and the next head is asked at the same time.
//! 3. The FIFO ran empty: [`Aqm::on_empty`].
//! 4. Where the algorithm has flows shaped ([`Aqm::SHAPES`]), a host that can hold packets back asks
//!    [`Aqm::shaped`] of an arrival first.
//! 5. [`Aqm::next_wakeup`] says when [`Aqm::on_wakeup`] is due. The host may be late, never early.
//!
//! ```
//! use weir_aqm::algorithms::gsp::{Gsp, Params};
//! use weir_aqm::{Algorithm, Aqm, Ecn, Moment, Packet, Verdict, View};
//! use weir_units::{Bytes, Duration, Rate, Time};
//!
//! let mut gsp = Gsp::new(&Params::default(), Time::ZERO);
//! let packet = Packet { arrived: Time::ZERO, len: Bytes::new(1500), seq: 0, flow: 0, ecn: Ecn::NotEct };
//! let rate = Rate::from_mbps(100);
//! let empty = View { backlog: Bytes::ZERO, packets: 0, delay: Duration::ZERO, rate };
//! assert_eq!(gsp.on_enqueue(&Moment::new(Time::ZERO, empty, 0), &packet), Verdict::Forward);
//! assert!(gsp.setpoint().is_some(), "steering can move it");
//! ```
#![no_std]
#![forbid(unsafe_code)]
#![deny(clippy::disallowed_methods)]
#![cfg_attr(not(test), deny(clippy::unwrap_used))]

#[cfg(test)]
extern crate std;

mod chance;
mod guide;
mod moment;
mod packets;
mod periodic;
mod pi;
mod sampling;

pub mod algorithms;

pub use algorithms::{
    AnyAqm, Parameters, UNMANAGED, USUAL, Visitor, ignores_passing, names, names_needing, per_flow_elsewhere,
    shapes, visit, visit_all,
};
pub use chance::Chance;
pub use guide::Guide;
pub use moment::Moment;
pub use periodic::Periodic;
pub use pi::{PiController, PiGains};

pub use weir_params::{NoParams, ParamError, ParamInfo, ParamType, Params, Problem, Share, Value, params};
pub use weir_units::Ecn;
use weir_units::{Bytes, Duration, Rate, Time};

/// What an algorithm may know about a packet.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Packet {
    /// When the host received it.
    pub arrived: Time,
    /// Its size by the link's byte accounting.
    pub len: Bytes,
    /// Number of the packet in order of arrival at this queue.
    pub seq: u64,
    /// Hash of the flow it belongs to.
    pub flow: u32,
    /// Its ECN field.
    pub ecn: Ecn,
}

/// What an algorithm may know about the queue.
///
/// At enqueue the packet in question is not counted; at dequeue it has been taken out already.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct View {
    /// Bytes stored.
    pub backlog: Bytes,
    /// Packets stored.
    pub packets: u32,
    /// Sojourn time of the packet that left last; zero while the queue is empty.
    pub delay: Duration,
    /// Rate at which the queue is served.
    pub rate: Rate,
}

/// Why a packet was signalled.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Cause {
    /// There was no room, or an algorithm's own size limit was reached.
    Overflow,
    /// The delay or backlog stood above the set point.
    SetPoint,
    /// The dice of a random early discard.
    Chance,
}

/// The answer to one question.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[must_use]
pub enum Verdict {
    /// The packet goes on.
    Forward,
    /// The packet goes on with CE set. Only for ECN-capable packets.
    Mark(Cause),
    /// The packet is discarded.
    Drop(Cause),
}

impl Verdict {
    /// A congestion signal for `p`: a mark where both sides can, else a drop.
    pub fn signal(p: &Packet, ecn: bool, cause: Cause) -> Verdict {
        if ecn && p.ecn.is_capable() { Verdict::Mark(cause) } else { Verdict::Drop(cause) }
    }
}

/// Something the host learned that is neither an arrival nor a departure.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum Sample {
    /// A round-trip time.
    Rtt(Duration),
    /// The rate the link delivers now.
    LinkRate(Rate),
    /// Bytes that a flow has in flight between here and its receiver.
    Inflight {
        /// Which flow, as in [`Packet::flow`].
        flow: u32,
        /// How much.
        bytes: Bytes,
    },
    /// How long senders take to answer a signal, by what was measured of their paths.
    Reaction(Duration),
}

/// What an algorithm must be told, beside the packets of its queue, to do what it is made for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Needs {
    /// Nothing.
    Nothing,
    /// Round-trip times of probes through the path below the queue ([`Sample::Rtt`]).
    Probes,
    /// What is measured of the packets that pass, of each user apart: every kind of [`Sample`].
    PassingPackets,
}

/// The delay set point of an algorithm: what steering moves.
pub trait Setpoint {
    /// The set point in force.
    fn get(&self) -> Duration;
    /// Moves the set point, clamped to the declared range of its parameter; returns what is in force then.
    fn set(&mut self, to: Duration) -> Duration;
}

/// An active queue management algorithm. See the [crate documentation](crate) for who calls what when.
pub trait Aqm {
    /// Whether the algorithm reads [`Moment::random_bits`]; hosts do not roll for those that don't, and one
    /// that reads them without saying so here does not compile.
    const USES_RANDOM: bool = false;

    /// Whether a packet that finds the queue empty and leaves at the time at which it came is always
    /// forwarded without a mark, and leaves the algorithm as it was. Hosts need not ask of such packets,
    /// then.
    const IGNORES_PASSING: bool = false;

    /// What hosts must tell it by [`Aqm::on_sample`].
    const NEEDS: Needs = Needs::Nothing;

    /// Whether the algorithm may want flows shaped ([`Aqm::shaped`]).
    const SHAPES: bool = false;

    /// A packet wants in.
    fn on_enqueue(&mut self, m: &Moment, p: &Packet) -> Verdict {
        let _ = (m, p);
        Verdict::Forward
    }

    /// A packet left the FIFO and is about to be sent.
    fn on_dequeue(&mut self, m: &Moment, p: &Packet) -> Verdict {
        let _ = (m, p);
        Verdict::Forward
    }

    /// The queue ran empty.
    fn on_empty(&mut self, now: Time) {
        let _ = now;
    }

    /// The host discarded an arriving packet for lack of room.
    fn on_overflow(&mut self, m: &Moment, p: &Packet) {
        let _ = (m, p);
    }

    /// When the algorithm wants [`Aqm::on_wakeup`] next. After a wakeup at some time, later than that time,
    /// however late the wakeup was.
    fn next_wakeup(&self) -> Option<Time> {
        None
    }

    /// The wakeup asked for; possibly late.
    fn on_wakeup(&mut self, m: &Moment) {
        let _ = m;
    }

    /// The host learned something from outside.
    fn on_sample(&mut self, now: Time, s: Sample) {
        let _ = (now, s);
    }

    /// The rate at which this packet is to leave together with all others of which a rate is told: they wait
    /// beside the FIFO, until the rate lets them go. `None`: it goes into the FIFO. Hosts that can hold
    /// packets back ask before [`Aqm::on_enqueue`], and of a packet for which they were told a rate, they
    /// ask nothing else. The algorithm does what else it can where packets come to it all the same.
    fn shaped(&self, p: &Packet) -> Option<Rate> {
        let _ = p;
        None
    }

    /// A packet that is to be shaped arrived, whether it is stored or discarded.
    fn on_shaped(&mut self, now: Time, p: &Packet) {
        let _ = (now, p);
    }

    /// A packet that was shaped leaves.
    fn on_shaped_sent(&mut self, now: Time, p: &Packet) {
        let _ = (now, p);
    }

    /// What steering may move.
    fn setpoint(&mut self) -> Option<&mut dyn Setpoint> {
        None
    }

    /// Shows inner variables by name, for traces and displays.
    fn gauges(&self, plot: &mut dyn FnMut(&'static str, f64)) {
        let _ = plot;
    }
}

/// An entry of THE LIST: an [`Aqm`] with a name, checked parameters and its papers.
pub trait Algorithm: Aqm + Clone + Send + 'static {
    /// The name in configurations; also the stem of its files.
    const NAME: &'static str;
    /// What it does, in one sentence.
    const SUMMARY: &'static str;
    /// The paper or RFC it is written from.
    const SOURCE: &'static str;
    /// The parameter that is its delay set point, where it has one.
    const SETPOINT: Option<&'static str>;
    /// What others call a queue for each flow under this algorithm, beside `fq_` and its name.
    const PER_FLOW_ELSEWHERE: &'static [&'static str] = &[];
    /// Its parameters.
    type Params: Params;

    /// A fresh instance that starts at `start`.
    fn new(params: &Self::Params, start: Time) -> Self;

    /// The set point at which steering begins and that a raise goes at least to (thresh_min,up of AQM
    /// Steering, section III): the default of its own. `None` if it has no set point.
    fn raise_floor(params: &Self::Params) -> Option<Duration> {
        let _ = params;
        default_setpoint(Self::Params::INFO, Self::SETPOINT?)
    }
}

/// The default of a parameter that is a set point.
pub fn default_setpoint(info: &[ParamInfo], name: &str) -> Option<Duration> {
    match info.iter().find(|parameter| parameter.name == name)?.default {
        Value::Duration(delay) => Some(delay),
        _ => None,
    }
}
