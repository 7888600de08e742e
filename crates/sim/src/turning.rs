//! What happens when it is the turn of a link that had to wait for it.

use crate::grants::{Grants, Step};
use crate::network::Simulation;
use crate::radio::Radio;
use crate::tap::Tap;
use crate::turns::Turns;

impl<T: Tap> Simulation<T> {
    /// Something arrived at a link of a medium with turns, or a turn is over: when the next one is.
    #[cold]
    pub(crate) fn plan(&mut self, leader: usize) {
        // While a turn is taken, its end plans.
        let Some(turns) = &self.links[leader].turns else { return };
        let waits = |link: usize| (self.links[link].waiting(), self.links[link].backlog());
        self.soonest.set(leader, turns.next(self.now, waits));
    }

    /// The turn of somebody on the medium that a link leads.
    #[cold]
    pub(crate) fn take_turns(&mut self, leader: usize) {
        let Some(mut turns) = self.links[leader].turns.take() else { return };
        match &mut *turns {
            Turns::Radio(radio) => self.contend(radio),
            Turns::Grants(grants) => self.granted(grants),
        }
        self.links[leader].turns = Some(turns);
        self.plan(leader);
    }

    fn contend(&mut self, radio: &mut Radio) {
        let now = self.now;
        let mut who = std::mem::take(&mut radio.chosen);
        who.clear();
        for station in 0..radio.stations().len() {
            if !radio.may_send(station, now, |link| self.links[link].waiting() > 0) {
                continue;
            }
            let station_now = &mut radio.stations()[station];
            if let Some(link) = station_now.choose(now, |link| self.links[link].waiting() > 0) {
                while station_now.takes_more() {
                    let Some(departure) = self.links[link].dequeue(now, &mut self.discarded) else { break };
                    let ip = self.links[link].ip_bytes(departure.packet.len.get());
                    station_now.take(departure, ip);
                }
                self.tell_discarded(link);
            }
            // The algorithm may have discarded all that waited.
            if station_now.holds() {
                who.push(station);
            }
        }
        let outcome = radio.transmit(now, &who);
        let first = who.first().copied();
        radio.chosen = who;
        let (Some((sent, true)), Some(sender)) = (outcome, first) else { return };
        let station = &mut radio.stations()[sender];
        let (link, taken, mut packets) = station.release();
        for mut departure in packets.drain(..) {
            departure.sojourn += now.since(taken);
            let packet = departure.packet;
            self.links[link].meter.departed(now, packet.len, packet.ecn, departure.sojourn);
            self.transmit_rarely(link, departure, sent);
        }
        station.reuse(packets);
    }

    fn granted(&mut self, grants: &mut Grants) {
        let now = self.now;
        let Step::Send(link) = grants.step(now, |link| self.links[link].backlog()) else { return };
        if !grants.continues() {
            let departure = self.links[link].dequeue(now, &mut self.discarded);
            self.tell_discarded(link);
            if let Some(departure) = departure {
                let packet = departure.packet;
                self.links[link].meter.departed(now, packet.len, packet.ecn, departure.sojourn);
                grants.begin(departure);
            }
        }
        if let Some((departure, sent)) = grants.send(now) {
            self.transmit_rarely(link, departure, sent);
        }
    }
}
