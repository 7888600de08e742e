//! Probes: they follow the packets of a link, travel as packets, and come back to whoever sent them.

use crate::event::{Event, Rare};
use crate::host::Identity;
use crate::network::Simulation;
use crate::packet::{Body, Item};
use crate::sensing::PROBE_LEN;
use crate::tap::Tap;
use weir_aqm::Sample;
use weir_sense::probe::{Stamp, State};
use weir_units::{Bytes, Duration, Ecn, Time};

/// Probes of all links look alike to queues that tell flows apart, and unlike every flow.
const PROBES: Identity = Identity { tuple: 0x5eed_0b3e, host: u32::MAX };

impl<T: Tap> Simulation<T> {
    /// A data packet of `ip` bytes was stored in the queue of a link that probes.
    pub(crate) fn data_stored(&mut self, number: usize, ip: u32) {
        let Some(prober) = &mut self.links[number].prober else { return };
        let Some(stamp) = prober.sensor.on_data(self.now, Bytes::new(u64::from(ip)), 0) else { return };
        let links_left = prober.route.len() as u16;
        self.counts.sent += 1;
        let body = Body::Probe(stamp);
        let item = Item { body, connection: number as u32, generation: 0, links_left };
        self.enter_probe(item);
        self.arm_prober(number);
    }

    /// A probe arrives at the next link of its way, or back at the one that sent it.
    pub(crate) fn enter_probe(&mut self, item: Item) {
        let Body::Probe(stamp) = item.body else { return };
        let home = item.connection as usize;
        let next = self.links[home].prober.as_ref().and_then(|prober| prober.next_link(item.links_left));
        match next {
            Some(link) => self.enter(link, item, PROBE_LEN, PROBES, Ecn::NotEct),
            None => self.probe_is_back(home, &stamp),
        }
    }

    fn probe_is_back(&mut self, number: usize, stamp: &Stamp) {
        self.counts.delivered += 1;
        let Some(prober) = &mut self.links[number].prober else { return };
        if let Ok(rtt) = prober.sensor.on_return(self.now, stamp) {
            if let Some(shaping) = &mut prober.shaping {
                shaping.returned(self.now, stamp.sequence);
            }
            prober.note_state(self.now);
            if prober.sensor.state() == State::Sensing {
                self.tell(number, rtt);
            }
        }
        self.shape(number);
        self.arm_prober(number);
    }

    /// A packet leaves a link that probes, at the end of its transmission.
    #[cold]
    pub(crate) fn probe_leaves(&mut self, number: usize, item: &Item, sent: Time) {
        let Body::Probe(stamp) = &item.body else { return };
        let link = &mut self.links[number];
        let bytes = link.bytes_sent();
        if let Some(shaping) = link.prober.as_mut().and_then(|prober| prober.shaping.as_mut())
            && item.connection as usize == number
        {
            shaping.left(sent, stamp.sequence, bytes);
        }
    }

    /// Looks whether the probes of a link say that it is to send at another rate.
    fn shape(&mut self, number: usize) {
        let link = &mut self.links[number];
        let bytes = link.bytes_sent();
        let Some(prober) = &mut link.prober else { return };
        let state = prober.sensor.state();
        let Some(shaping) = &mut prober.shaping else { return };
        if let Some(rate) = shaping.look(self.now, state, bytes) {
            self.set_rate(number, rate);
        }
    }

    /// The timer of a link's sensor.
    pub(crate) fn ring_prober(&mut self, number: u32) {
        let number = number as usize;
        let Some(prober) = &mut self.links[number].prober else { return };
        if prober.armed.is_some_and(|armed| armed <= self.now) {
            prober.armed = None;
        }
        if prober.sensor.next_timer().is_some_and(|due| due <= self.now) {
            let sample = prober.sensor.on_timer(self.now);
            prober.note_state(self.now);
            if let Some(rtt) = sample {
                self.tell(number, rtt);
            }
        }
        self.shape(number);
        self.arm_prober(number);
    }

    /// Tells the algorithm of a link what was measured.
    fn tell(&mut self, number: usize, rtt: Duration) {
        self.links[number].queue.sample(self.now, Sample::Rtt(rtt));
    }

    /// Sees to it that an event comes in time for the sensor's timer. One that comes too early is put off
    /// then.
    fn arm_prober(&mut self, number: usize) {
        let Some(prober) = &mut self.links[number].prober else { return };
        let Some(due) = prober.next_timer().map(|due| due.max(self.now)) else { return };
        if prober.armed.is_none_or(|armed| due < armed) {
            prober.armed = Some(due);
            self.wheel.insert(due, Event::Rare(Rare::Probe(number as u32)));
        }
    }
}
