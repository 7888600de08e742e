//! Requests and grants, as the upstream of DOCSIS (CM-SP-MULPIv3.1, 7.2): who has packets asks for bytes, and
//! sends when these are granted.

use crate::dice::Dice;
use crate::packet::Item;
use crate::service::{NEVER, Serializer};
use std::collections::VecDeque;
use weir_queue::Departure;
use weir_units::{NANOS_PER_SEC, Rate, Time};

/// The window of requests doubles so many times at most.
const MOST_DOUBLINGS: u32 = 6;

/// The modems of an upstream, and who decides when they send.
pub struct Grants {
    setup: weir_config::Grants,
    rate: Rate,
    serializer: Serializer,
    /// What of a byte the intervals so far left over, in billionths of a bit.
    carried: u128,
    modems: Vec<Modem>,
    /// The first interval whose beginning has not been seen.
    interval: u64,
    /// Grants of the interval under way, in order: position of the modem, and bytes that are left.
    granted: VecDeque<(usize, u64)>,
    /// Whether the first of them has been begun.
    begun: bool,
    busy_until: Time,
    /// Position of the modem that is granted first.
    turn: usize,
    /// Memory for those that ask or are granted at once.
    chosen: Vec<(u64, usize)>,
}

/// A modem and what it asked for.
struct Modem {
    link: usize,
    /// Requests: the interval from which on they are granted, and their bytes.
    asked: VecDeque<(u64, u64)>,
    /// Bytes asked for or granted that have not been sent.
    covered: u64,
    /// The packet in transmission, and the bytes of it that are to be sent.
    held: Option<(Departure<Item>, u64)>,
    /// Before that interval it does not ask again after a collision.
    not_before: u64,
    collisions: u32,
    dice: Dice,
}

/// What is to be done at a moment.
pub enum Step {
    /// Nothing more.
    Nothing,
    /// The modem of this link sends up to so many bytes; ask [`Grants::continues`] or give a packet.
    Send(usize),
}

impl Grants {
    /// An upstream on which nobody has asked yet.
    pub fn new(setup: weir_config::Grants, rate: Rate, modems: Vec<(usize, Dice)>) -> Grants {
        let modem = |(link, dice)| Modem {
            link,
            asked: VecDeque::new(),
            covered: 0,
            held: None,
            not_before: 0,
            collisions: 0,
            dice,
        };
        Grants {
            setup,
            rate,
            serializer: Serializer::new(rate),
            carried: 0,
            modems: modems.into_iter().map(modem).collect(),
            interval: 0,
            granted: VecDeque::new(),
            begun: false,
            busy_until: Time::ZERO,
            turn: 0,
            chosen: Vec::new(),
        }
    }

    /// Packets that were taken from queues and not sent yet.
    pub fn held(&self) -> u64 {
        self.modems.iter().filter(|modem| modem.held.is_some()).count() as u64
    }

    /// When something happens next, from `now` on; `backlog` tells the bytes that wait at a link.
    pub fn next(&self, now: Time, backlog: impl Fn(usize) -> u64) -> Time {
        if !self.granted.is_empty() {
            return self.busy_until.max(now);
        }
        let idle = |m: &Modem| m.asked.is_empty() && m.held.is_none() && backlog(m.link) == 0;
        if self.modems.iter().all(idle) { NEVER } else { self.begins(self.interval.max(self.number(now))) }
    }

    /// The first interval that begins at `now` or later.
    fn number(&self, now: Time) -> u64 {
        now.as_nanos().div_ceil(self.setup.interval.as_nanos().max(1))
    }

    fn begins(&self, interval: u64) -> Time {
        Time::ZERO + self.setup.interval.saturating_mul(interval)
    }

    /// What happens at `now`.
    pub fn step(&mut self, now: Time, backlog: impl Fn(usize) -> u64) -> Step {
        if self.granted.is_empty() && now >= self.begins(self.interval) {
            // No interval begins between this one and the last one that anybody needed.
            self.interval = self.number(now);
            self.contend(&backlog);
            self.grant();
            self.interval += 1;
            (self.begun, self.busy_until) = (false, now);
        }
        let Some((position, _)) = self.granted.front().copied() else { return Step::Nothing };
        if !self.begun {
            self.begun = true;
            let asked_in = self.interval - 1;
            let modem = &mut self.modems[position];
            modem.ask(asked_in + u64::from(self.setup.lead), backlog(modem.link));
        }
        Step::Send(self.modems[position].link)
    }

    /// Who has nothing asked for or granted asks where all may; requests in one opportunity are lost.
    fn contend(&mut self, backlog: impl Fn(usize) -> u64) {
        let (now, opportunities) = (self.interval, u64::from(self.setup.opportunities));
        let mut chosen = std::mem::take(&mut self.chosen);
        chosen.clear();
        for (position, modem) in self.modems.iter_mut().enumerate() {
            if modem.covered == 0 && now >= modem.not_before && modem.needs(backlog(modem.link)) > 0 {
                // Of a window that is longer than an interval some opportunities lie in later ones.
                let window = opportunities << modem.collisions.min(MOST_DOUBLINGS);
                let draw = ((u128::from(modem.dice.bits()) * u128::from(window)) >> 64) as u64;
                match draw / opportunities {
                    0 => chosen.push((draw, position)),
                    later => modem.not_before = now + later,
                }
            }
        }
        for (opportunity, position) in &chosen {
            let alone = chosen.iter().filter(|(other, _)| other == opportunity).count() == 1;
            let modem = &mut self.modems[*position];
            if alone {
                modem.collisions = 0;
                modem.ask(now + u64::from(self.setup.lead), backlog(modem.link));
            } else {
                // The map that would hold the grant tells that the request was lost.
                modem.collisions += 1;
                modem.not_before = now + u64::from(self.setup.lead);
            }
        }
        self.chosen = chosen;
    }

    /// Divides the interval among the requests that are due: equal parts, and what one does not need is the
    /// others'.
    fn grant(&mut self) {
        let now = self.interval;
        let bits_ns =
            u128::from(self.rate.as_bps()) * u128::from(self.setup.interval.as_nanos()) + self.carried;
        let byte = 8 * u128::from(NANOS_PER_SEC);
        self.carried = bits_ns % byte;
        let mut room = u64::try_from(bits_ns / byte).unwrap_or(u64::MAX);
        let mut due = std::mem::take(&mut self.chosen);
        due.clear();
        for i in 0..self.modems.len() {
            let position = (self.turn + i) % self.modems.len();
            let asked = self.modems[position].asked.iter().take_while(|(from, _)| *from <= now);
            due.push((asked.map(|(_, bytes)| bytes).sum(), position));
        }
        due.retain(|(bytes, _)| *bytes > 0);
        due.sort_by_key(|(bytes, _)| *bytes);
        self.turn = (self.turn + 1) % self.modems.len().max(1);
        let count = due.len() as u64;
        for (i, (bytes, position)) in (0..).zip(due.drain(..)) {
            let part = bytes.min(room / (count - i).max(1));
            if part > 0 {
                room -= part;
                self.modems[position].granted(part);
                self.granted.push_back((position, part));
            }
        }
        self.chosen = due;
    }

    /// Takes a packet that begins to be sent.
    pub fn begin(&mut self, departure: Departure<Item>) {
        if let Some((position, _)) = self.granted.front() {
            let bytes = departure.packet.len.get();
            self.modems[*position].held = Some((departure, bytes));
        }
    }

    /// Whether the modem whose turn it is has a packet in transmission.
    pub fn continues(&self) -> bool {
        self.granted.front().is_some_and(|(position, _)| self.modems[*position].held.is_some())
    }

    /// Sends of the packet in transmission what the grant holds, from `now` on; returns the packet and the
    /// time of its last byte if that was it. Without a packet the rest of the grant is lost.
    pub fn send(&mut self, now: Time) -> Option<(Departure<Item>, Time)> {
        let (position, left) = self.granted.front_mut()?;
        let modem = &mut self.modems[*position];
        let bytes = modem.held.as_ref().map_or(*left, |(_, rest)| (*rest).min(*left));
        *left -= bytes;
        modem.covered -= bytes;
        if *left == 0 {
            self.granted.pop_front();
            self.begun = false;
        }
        self.busy_until = now + self.serializer.time_for(bytes);
        let (_, rest) = modem.held.as_mut()?;
        *rest -= bytes;
        if *rest > 0 {
            return None;
        }
        modem.held.take().map(|(departure, _)| (departure, self.busy_until))
    }
}

impl Modem {
    /// The bytes that are neither asked for nor granted.
    fn needs(&self, backlog: u64) -> u64 {
        let rest = self.held.as_ref().map_or(0, |(_, rest)| *rest);
        (backlog + rest).saturating_sub(self.covered)
    }

    fn ask(&mut self, from: u64, backlog: u64) {
        let bytes = self.needs(backlog);
        if bytes > 0 {
            self.asked.push_back((from, bytes));
            self.covered += bytes;
        }
    }

    /// So many of the bytes asked for are granted.
    fn granted(&mut self, mut bytes: u64) {
        while let Some((_, asked)) = self.asked.front_mut() {
            if *asked > bytes {
                *asked -= bytes;
                break;
            }
            bytes -= *asked;
            self.asked.pop_front();
        }
    }
}
