//! When links observe: packets that they forward, and acknowledgements that pass their node.

use crate::link::Link;
use crate::network::Simulation;
use crate::observer::{Follows, Shown};
use crate::packet::{Body, Item, StoreIndex};
use crate::tap::Tap;
use weir_aqm::{Packet, Sample};
use weir_queue::Hosts;
use weir_sense::{PacketInfo, Way};
use weir_units::Time;

impl<T: Tap> Simulation<T> {
    /// A packet leaves a link that observes; its transmission ends at `sent`.
    #[cold]
    pub(crate) fn observe_forwarded(&mut self, number: usize, item: &Item, packet: &Packet, sent: Time) {
        let Body::Data(segment) = &item.body else { return };
        let flow = self.hosts.inbound[item.connection as usize].flow;
        let host = self.flows[flow as usize].kind;
        let kind = &self.kinds[host as usize];
        let shown = Shown { shows: kind.shows, mss: kind.sender.mss_payload };
        let transport = shown.data(segment);
        let info = PacketInfo { flow: packet.flow, len: packet.len, transport: &transport };
        observe(&mut self.links[number], sent, Way::ToUser, host, &info);
    }

    /// An acknowledgement that passes the node of a link that observes.
    #[cold]
    pub(crate) fn observe_acknowledged(&mut self, number: usize, item: &Item, kept: StoreIndex, ip: u32) {
        let side = &self.hosts.outbound[item.connection as usize];
        if side.generation != item.generation {
            return;
        }
        let kind = &self.kinds[self.flows[side.flow as usize].kind as usize];
        let shown = Shown { shows: kind.shows, mss: kind.sender.mss_payload };
        let transport = shown.ack(&self.acks.look(kept));
        let link = &mut self.links[number];
        let info = PacketInfo { flow: side.identity.tuple, len: link.counted(ip), transport: &transport };
        observe(link, self.now, Way::FromUser, side.identity.host, &info);
    }
}

/// Learns from a packet, and passes it on: to the algorithm, and to the rate if it follows.
fn observe(link: &mut Link, now: Time, way: Way, host: u32, info: &PacketInfo<'_>) {
    let Some(observer) = &mut link.observer else { return };
    let hosts = Hosts { sender: host, receiver: host };
    let expedited = link.expedited.as_ref().map_or(0, |lane| lane.packets());
    let waiting = match observer.follows_users() {
        true => link.queue.packets_of(hosts),
        false => link.queue.packets() + expedited,
    };
    let (learned, follows) = observer.observe(now, way, hosts, info, waiting > 0);
    let in_flight = learned.in_flight.map(|bytes| Sample::Inflight { flow: info.flow, bytes });
    let samples = [in_flight, learned.rtt.map(Sample::Rtt), learned.reaction.map(Sample::Reaction)];
    samples.into_iter().flatten().for_each(|sample| link.queue.sample_for(now, hosts, sample));
    match follows {
        Some(Follows::Link(rate)) if rate != link.service.rate() => {
            link.service.set_rate(rate);
            link.queue.set_rate(rate);
        }
        Some(Follows::User(rate)) => link.queue.set_rate_of(hosts, rate),
        _ => {}
    }
}
