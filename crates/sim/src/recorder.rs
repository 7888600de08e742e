//! A tap that writes down what `[record]` of a scenario asks for: decisions, and packets as a capture.

use crate::packet::{Body, Item};
use crate::pcapng::{self, Capture, FlowHeaders};
use crate::tap::{LinkContext, Tap, TappedPacket};
use std::fmt::Write as _;
use std::io::{self, Write};
use weir_aqm::{Cause, Packet};
use weir_config::{IpVersion, Protocol, Record, Scenario};
use weir_sense::probe::{Addresses, IPV4_LEN, Probe, Stamp};
use weir_units::{Duration, Ecn, Time};

/// One decision of an algorithm against a packet, with what it was made from.
#[derive(Clone, PartialEq, Debug)]
pub struct DecisionRow {
    /// Seconds after the start of the run.
    pub t_s: f64,
    /// Number of the link.
    pub link: u32,
    /// Number of the flow.
    pub flow: u32,
    /// Number of the segment, or what is acknowledged.
    pub seq: u64,
    /// What was decided.
    pub verdict: PacketOutcome,
    /// How long the packet had waited, in ms.
    pub waited_ms: f64,
    /// Bytes that waited behind it.
    pub backlog_bytes: u64,
    /// Inner variables of the algorithm afterwards, by name.
    pub gauges: Vec<(&'static str, f64)>,
}

/// What was decided against a packet.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum PacketOutcome {
    /// CE was set.
    Marked,
    /// It was discarded.
    Dropped(Cause),
    /// It passed as it was.
    Forwarded,
}

impl PacketOutcome {
    /// A name for tables and comments.
    pub fn name(self) -> &'static str {
        match self {
            PacketOutcome::Marked => "marked",
            PacketOutcome::Forwarded => "forwarded",
            PacketOutcome::Dropped(Cause::Overflow) => "dropped: no room",
            PacketOutcome::Dropped(Cause::SetPoint) => "dropped: above the set point",
            PacketOutcome::Dropped(Cause::Chance) => "dropped: by chance",
        }
    }
}

/// Writes down what happens at some links for some time.
pub struct Recorder<W: Write> {
    from: Time,
    to: Option<Time>,
    links: Vec<bool>,
    looks: Vec<FlowHeaders>,
    decisions: Option<Vec<DecisionRow>>,
    /// Whether packets that pass as they were are decisions, too.
    forwarded: bool,
    capture: Option<Capture<W>>,
    /// The first failure; nothing is written after it.
    failure: Option<io::Error>,
    /// Most bytes of the capture, and of memory for decisions.
    most: u64,
    /// Memory for decisions so far.
    decided: u64,
    /// When there was no room any more; nothing is written after it.
    full_at: Option<Time>,
    comment: String,
}

impl<W: Write> Recorder<W> {
    /// For a scenario, as `record` says. Packets go to `out`, where the scenario wants a capture.
    pub fn new(scenario: &Scenario, record: &Record, out: Option<W>) -> io::Result<Recorder<W>> {
        let network = scenario.network();
        let names: Vec<&str> = network.links.iter().map(|l| l.name.as_str()).collect();
        let chosen = |name: &&str| record.links.is_empty() || record.links.iter().any(|l| l == name);
        let capture = out.map(|out| Capture::new(out, &names)).transpose()?;
        Ok(Recorder {
            from: Time::ZERO + record.from,
            to: record.to.map(|to| Time::ZERO + to),
            links: names.iter().map(chosen).collect(),
            looks: looks(scenario),
            decisions: (record.decisions || record.forwarded).then(Vec::new),
            forwarded: record.forwarded,
            capture,
            failure: None,
            most: record.size_max.get(),
            decided: 0,
            full_at: None,
            comment: String::new(),
        })
    }

    /// The decisions, and the writer of the capture once everything is written.
    pub fn finish(mut self) -> io::Result<(Vec<DecisionRow>, Option<W>)> {
        if let Some(failure) = self.failure.take() {
            return Err(failure);
        }
        let out = self.capture.map(Capture::finish).transpose()?;
        Ok((self.decisions.unwrap_or_default(), out))
    }

    /// When `record.size_max` was reached, if it was: what happened from then on is not written down.
    pub fn full_at(&self) -> Option<Time> {
        self.full_at
    }

    fn wants(&self, at: &LinkContext<'_>) -> bool {
        self.full_at.is_none()
            && self.links[at.link]
            && self.from <= at.now
            && self.to.is_none_or(|to| at.now < to)
    }

    fn decide(&mut self, at: &LinkContext<'_>, seen: TappedPacket<'_>, verdict: PacketOutcome) {
        let Some(rows) = &mut self.decisions else { return };
        let mut gauges = Vec::new();
        at.queue.gauges(&mut |name, value| gauges.push((name, value)));
        self.decided += (size_of::<DecisionRow>() + size_of_val(gauges.as_slice())) as u64;
        if self.decided > self.most {
            self.full_at = Some(at.now);
            return;
        }
        rows.push(DecisionRow {
            t_s: at.now.as_secs_f64(),
            link: at.link as u32,
            flow: seen.flow,
            seq: seen.acks.seq(&seen.item.body),
            verdict,
            waited_ms: at.now.since(seen.packet.arrived).as_millis_f64(),
            backlog_bytes: at.queue.backlog().get(),
            gauges,
        });
    }

    /// Remembers that the capture took no packet, and why.
    fn note(&mut self, written: io::Result<bool>, now: Time) {
        match written {
            Ok(true) => {}
            Ok(false) => self.full_at = Some(now),
            Err(e) => self.failure = Some(e),
        }
    }

    fn capture(&mut self, at: &LinkContext<'_>, seen: TappedPacket<'_>, what: &str, ce: bool) {
        let Some(capture) = self.capture.as_mut().filter(|_| self.failure.is_none()) else { return };
        let look = FlowHeaders { connection: connection(seen.item), ..self.looks[seen.flow as usize] };
        let (bytes, length) = match &seen.item.body {
            Body::Data(segment) => look.data(segment, ce),
            Body::Ack(kept) => look.ack(&seen.acks.look(*kept), at.now),
            Body::Opening(opening) => look.opening(opening, at.now),
            Body::Probe(_) => return,
        };
        let comment = &mut self.comment;
        comment.clear();
        let waited = at.now.since(seen.packet.arrived);
        let backlog = at.queue.backlog().get();
        let _ = write!(comment, "{what}; flow {}; waited {waited}; backlog {backlog} B", seen.flow);
        at.queue.gauges(&mut |name, value| {
            let _ = write!(comment, "; {name} {value}");
        });
        let packet = pcapng::Packet { link: at.link as u32, at: at.now, bytes: &bytes, length, comment };
        let written = capture.packet(&packet, self.most);
        self.note(written, at.now);
    }
}

impl<W: Write> Tap for Recorder<W> {
    fn on_drop(&mut self, at: &LinkContext<'_>, seen: TappedPacket<'_>, cause: Cause) {
        if self.wants(at) {
            let verdict = PacketOutcome::Dropped(cause);
            self.decide(at, seen, verdict);
            self.capture(at, seen, verdict.name(), seen.packet.ecn == Ecn::Ce);
        }
    }

    fn on_mark(&mut self, at: &LinkContext<'_>, seen: TappedPacket<'_>) {
        if self.wants(at) {
            self.decide(at, seen, PacketOutcome::Marked);
        }
    }

    fn on_depart(&mut self, at: &LinkContext<'_>, seen: TappedPacket<'_>, _sojourn: Duration, marked: bool) {
        if self.wants(at) {
            if self.forwarded && !marked {
                self.decide(at, seen, PacketOutcome::Forwarded);
            }
            let what = if marked { PacketOutcome::Marked } else { PacketOutcome::Forwarded }.name();
            self.capture(at, seen, what, marked || seen.packet.ecn == Ecn::Ce);
        }
    }

    fn on_probe(&mut self, at: &LinkContext<'_>, packet: &Packet, stamp: &Stamp) {
        let wanted = self.wants(at) && self.failure.is_none();
        let Some(capture) = self.capture.as_mut().filter(|_| wanted) else { return };
        let mut bytes = [0; IPV4_LEN];
        let written = Probe::new(PROBE_ADDRESSES, *stamp).write(&mut bytes);
        debug_assert_eq!(written, Ok(IPV4_LEN));
        let waited = at.now.since(packet.arrived);
        let comment = &format!("probe; waited {waited}; backlog {} B", at.queue.backlog().get());
        let length = IPV4_LEN as u32;
        let packet = pcapng::Packet { link: at.link as u32, at: at.now, bytes: &bytes, length, comment };
        let written = capture.packet(&packet, self.most);
        self.note(written, at.now);
    }
}

/// Probes go to the address that they come from, so that a gateway returns them.
const PROBE_ADDRESSES: Addresses = Addresses::V4 { source: [10, 253, 0, 2], destination: [10, 253, 0, 2] };

/// Tells the connections of a flow apart. Numbers are given again once a connection is closed, and its
/// sequence numbers under the same port would look like retransmissions; the prime spreads what comes after
/// each other over the ports.
fn connection(item: &Item) -> u32 {
    item.connection.wrapping_add(u32::from(item.generation) * 7919)
}

/// How each flow looks on the wire.
fn looks(scenario: &Scenario) -> Vec<FlowHeaders> {
    let mut looks = Vec::new();
    for group in &scenario.flows {
        let datagrams = !group.traffic().is_transported();
        let (v6, udp) = (group.ip == IpVersion::V6, datagrams || group.protocol == Protocol::Quic);
        let payload = scenario.mtu(group) - crate::scenario::headers(group).data;
        for _ in 0..scenario.flows_of(group) {
            looks.push(FlowHeaders { flow: looks.len() as u32, connection: 0, v6, udp, payload });
        }
    }
    looks
}
