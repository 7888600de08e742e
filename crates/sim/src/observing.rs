//! When links observe: packets that they forward, and acknowledgements that pass their node.

use crate::link::Link;
use crate::network::Simulation;
use crate::observer::{Observer, Shown};
use crate::packet::{Body, Item, StoreIndex};
use crate::tap::Tap;
use weir_aqm::{Packet, Sample};
use weir_sense::{Learned, PacketInfo};
use weir_units::Time;

impl<T: Tap> Simulation<T> {
    /// A packet leaves a link that observes; its transmission ends at `sent`.
    #[cold]
    pub(crate) fn observe_forwarded(&mut self, number: usize, item: &Item, packet: &Packet, sent: Time) {
        let Body::Data(segment) = &item.body else { return };
        let flow = self.hosts.inbound[item.connection as usize].flow;
        let kind = &self.kinds[self.flows[flow as usize].kind as usize];
        let shown = Shown { shows: kind.shows, mss: kind.sender.mss_payload };
        let transport = shown.data(segment);
        let info = PacketInfo { flow: packet.flow, len: packet.len, transport: &transport };
        let link = &mut self.links[number];
        let waiting = link.waiting() > 0;
        let Some(observer) = &mut link.observer else { return };
        let learned = observer.sense().forwarded(sent, &info, waiting);
        apply(link, sent, packet.flow, &learned);
    }

    /// An acknowledgement that passes the node of a link that observes.
    #[cold]
    pub(crate) fn observe_acknowledged(&mut self, number: usize, item: &Item, kept: StoreIndex, ip: u32) {
        let side = &self.hosts.outbound[item.connection as usize];
        if side.generation != item.generation {
            return;
        }
        let kind = &self.kinds[self.flows[side.flow as usize].kind as usize];
        let (shown, flow) = (Shown { shows: kind.shows, mss: kind.sender.mss_payload }, side.identity.tuple);
        let transport = shown.ack(&self.acks.look(kept));
        let link = &mut self.links[number];
        let info = PacketInfo { flow, len: link.counted(ip), transport: &transport };
        let waiting = link.waiting() > 0;
        let Some(observer) = &mut link.observer else { return };
        let learned = observer.sense().answered(self.now, &info, waiting);
        apply(link, self.now, flow, &learned);
    }
}

/// Passes on what was learned: to the algorithm, and to the rate if it follows.
fn apply(link: &mut Link, now: Time, flow: u32, learned: &Learned) {
    let in_flight = learned.in_flight.map(|bytes| Sample::Inflight { flow, bytes });
    let samples = [in_flight, learned.rtt.map(Sample::Rtt), learned.reaction.map(Sample::Reaction)];
    samples.into_iter().flatten().for_each(|sample| link.queue.sample(now, sample));
    let Some(rate) = link.observer.as_deref().and_then(Observer::rate) else { return };
    if rate != link.service.rate() {
        link.service.set_rate(rate);
        link.queue.set_rate(rate);
    }
}
