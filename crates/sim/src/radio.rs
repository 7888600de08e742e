//! Radios that contend for a medium and send packets many at once, as in IEEE 802.11.
//!
//! Stations with packets wait until the medium was idle for `idle` and count slots down while it stays idle
//! (IEEE 802.11-2020, 10.3.3 and 10.23.2, EDCA with one access category). Who comes to zero first sends an
//! aggregate, for which one acknowledgement comes; who come to zero in the same slot collide and draw again
//! from a window twice as large.

use crate::dice::Dice;
use crate::packet::Item;
use crate::service::NEVER;
use weir_config::Wifi;
use weir_queue::Departure;
use weir_units::{Duration, Time};

/// The stations of a medium.
pub struct Radio {
    stations: Vec<Station>,
    /// End of the last transmission and its acknowledgement.
    free_from: Time,
    /// Memory for those that come to zero at once.
    pub chosen: Vec<usize>,
}

/// One radio with the links that it sends for.
pub struct Station {
    links: Vec<(usize, Wifi)>,
    /// Position of the link that is asked first.
    turn: usize,
    /// Slots that are still to be counted down.
    slots: u32,
    /// The window that the next ones are drawn from.
    window: u32,
    dice: Dice,
    /// Packets taken from the queue, with the position of their link and the bytes they take.
    held: Vec<Departure<Item>>,
    from: usize,
    bytes: u64,
    taken: Time,
}

impl Radio {
    /// A medium that is idle since the start. Links are given by the station that sends for them.
    pub fn new(stations: Vec<(Vec<(usize, Wifi)>, Dice)>) -> Radio {
        let stations = stations.into_iter().map(|(links, dice)| Station::new(links, dice)).collect();
        Radio { stations, free_from: Time::ZERO, chosen: Vec::new() }
    }

    /// Packets that were taken from queues and not sent yet.
    pub fn held(&self) -> u64 {
        self.stations.iter().map(|station| station.held.len() as u64).sum()
    }

    /// When the next station may send, from `now` on.
    pub fn next(&self, now: Time, waits: impl Fn(usize) -> bool) -> Time {
        let ready = self.stations.iter().filter(|station| station.has_packets(&waits));
        ready.map(|station| station.counted_at(self.free_from).max(now)).min().unwrap_or(NEVER)
    }

    /// The stations, by position.
    pub fn stations(&mut self) -> &mut [Station] {
        &mut self.stations
    }

    /// Whether a station may send at `now`.
    pub fn may_send(&self, station: usize, now: Time, waits: impl Fn(usize) -> bool) -> bool {
        let station = &self.stations[station];
        station.has_packets(&waits) && station.counted_at(self.free_from) <= now
    }

    /// Those of `who` begin to send at `now`. Returns the end of the packets, and whether they arrive;
    /// nothing where nobody sends.
    pub fn transmit(&mut self, now: Time, who: &[usize]) -> Option<(Time, bool)> {
        let airs = who.iter().map(|i| self.stations[*i].air_time());
        let (air, acknowledged) = airs.max()?;
        let arrives = who.len() == 1;
        let free_from = self.free_from;
        for (i, station) in self.stations.iter_mut().enumerate() {
            match who.contains(&i) {
                true if arrives => station.won(),
                true => station.collided(),
                false => station.hears(now, free_from),
            }
        }
        self.free_from = now + air + acknowledged;
        Some((now + air, arrives))
    }
}

impl Station {
    fn new(links: Vec<(usize, Wifi)>, dice: Dice) -> Station {
        let window = links[0].1.window;
        let mut station = Station {
            links,
            turn: 0,
            slots: 0,
            window,
            dice,
            held: Vec::new(),
            from: 0,
            bytes: 0,
            taken: Time::ZERO,
        };
        station.draw();
        station
    }

    fn usual(&self) -> &Wifi {
        &self.links[0].1
    }

    fn has_packets(&self, waits: impl Fn(usize) -> bool) -> bool {
        !self.held.is_empty() || self.links.iter().any(|(link, _)| waits(*link))
    }

    /// When the slots are counted down, if the medium stays idle.
    fn counted_at(&self, free_from: Time) -> Time {
        let usual = self.usual();
        free_from + usual.idle + usual.slot.saturating_mul(u64::from(self.slots))
    }

    fn draw(&mut self) {
        let choices = u128::from(self.window) + 1;
        self.slots = ((u128::from(self.dice.bits()) * choices) >> 64) as u32;
    }

    fn won(&mut self) {
        self.window = self.usual().window;
        self.draw();
    }

    /// The window doubles: CW becomes 2 CW + 1 (10.3.3).
    fn collided(&mut self) {
        self.window = (2 * self.window + 1).min(self.usual().window_max);
        self.draw();
    }

    /// Another one sends: slots that were counted stay counted. Who had counted all and had nothing to send
    /// draws anew, as whoever finds the medium busy.
    fn hears(&mut self, now: Time, free_from: Time) {
        let usual = self.usual();
        let counted = now.since(free_from + usual.idle).as_nanos() / usual.slot.as_nanos().max(1);
        match u64::from(self.slots) > counted {
            true => self.slots -= counted as u32,
            false => self.draw(),
        }
    }

    /// Time in the air of what is held, and that of the acknowledgement.
    fn air_time(&self) -> (Duration, Duration) {
        let wifi = &self.links[self.from].1;
        (wifi.air_time(self.bytes), wifi.acknowledged)
    }

    /// Chooses the link that sends next: the first from the turn on that has packets. Nothing is chosen
    /// where packets are held, which are sent again.
    pub fn choose(&mut self, now: Time, waits: impl Fn(usize) -> bool) -> Option<usize> {
        if !self.held.is_empty() {
            return None;
        }
        let count = self.links.len();
        let position = (0..count).map(|i| (self.turn + i) % count).find(|i| waits(self.links[*i].0))?;
        self.turn = (position + 1) % count;
        (self.from, self.bytes, self.taken) = (position, 0, now);
        Some(self.links[position].0)
    }

    /// Whether another packet fits into the aggregate.
    pub fn takes_more(&self) -> bool {
        self.held.is_empty() || self.links[self.from].1.takes_more(self.held.len() as u32, self.bytes)
    }

    /// Takes a packet of so many IP bytes into the aggregate.
    pub fn take(&mut self, departure: Departure<Item>, ip: u32) {
        self.bytes += self.links[self.from].1.bytes_of(ip);
        self.held.push(departure);
    }

    /// Whether an aggregate is held.
    pub fn holds(&self) -> bool {
        !self.held.is_empty()
    }

    /// The packets that are sent, the link they are of, and when they were taken from its queue.
    pub fn release(&mut self) -> (usize, Time, Vec<Departure<Item>>) {
        (self.links[self.from].0, self.taken, std::mem::take(&mut self.held))
    }

    /// Gives the memory of released packets back for the next ones.
    pub fn reuse(&mut self, emptied: Vec<Departure<Item>>) {
        self.held = emptied;
    }
}
