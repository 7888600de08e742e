//! A small link for tests: one flow, a FIFO of fixed rate, constant delay, and a judge over each segment.
#![allow(dead_code)]

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};
use weir_tcp::congestion::{Parameters, cubic};
use weir_tcp::{Ack, Congestion, Receiver, ReceiverConfig, Segment, Sender, SenderConfig};
use weir_units::{Duration, Ecn, Time};

/// What happens to a segment or ACK.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Fate {
    Pass,
    Drop,
    Mark,
    Twice,
    Late(Duration),
}

#[derive(Clone, Copy, Debug)]
enum Event {
    Segment(Segment),
    Ack(Ack),
}

type Judge<T> = Box<dyn FnMut(&T, u64) -> Fate>;
type Watch = Box<dyn FnMut(Time, &Sender)>;

pub struct Link {
    pub now: Time,
    pub sender: Sender,
    pub receiver: Receiver,
    pub sent: u64,
    pub acks: u64,
    pub dropped: u64,
    /// Transmission time of a segment.
    pub service: Duration,
    /// One way.
    pub delay: Duration,
    /// Segments that may wait.
    pub limit: u64,
    pub judge: Judge<Segment>,
    pub judge_ack: Judge<Ack>,
    /// Called after each event.
    pub watch: Watch,
    busy_until: Time,
    events: BinaryHeap<Reverse<(Time, u64)>>,
    bodies: BTreeMap<u64, Event>,
    order: u64,
}

pub fn ms(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

/// Parameters with which CUBIC uses HyStart or not.
pub fn with_hystart(hystart: bool) -> Parameters {
    Parameters { cubic: cubic::Params { hystart, ..cubic::Params::default() }, ..Parameters::default() }
}

pub fn at(d: Duration) -> Time {
    Time::ZERO + d
}

impl Link {
    pub fn new(name: &str, config: &SenderConfig, receiver: &ReceiverConfig) -> Link {
        let congestion = Congestion::by_name(name).expect("a name of the list");
        Link {
            now: Time::ZERO,
            sender: Sender::new(config, congestion, Time::ZERO),
            receiver: Receiver::new(receiver, Time::ZERO),
            sent: 0,
            acks: 0,
            dropped: 0,
            service: Duration::from_nanos(1),
            delay: ms(50),
            limit: u64::MAX,
            judge: Box::new(|_, _| Fate::Pass),
            judge_ack: Box::new(|_, _| Fate::Pass),
            watch: Box::new(|_, _| {}),
            busy_until: Time::ZERO,
            events: BinaryHeap::new(),
            bodies: BTreeMap::new(),
            order: 0,
        }
    }

    fn push(&mut self, time: Time, event: Event) {
        self.order += 1;
        self.events.push(Reverse((time, self.order)));
        self.bodies.insert(self.order, event);
    }

    fn transmit(&mut self) {
        while let Some(mut s) = self.sender.poll(self.now) {
            let index = self.sent;
            self.sent += 1;
            let fate = (self.judge)(&s, index);
            let backlog = self.busy_until.since(self.now).as_nanos() / self.service.as_nanos();
            if fate == Fate::Drop || backlog >= self.limit {
                self.dropped += 1;
                continue;
            }
            if fate == Fate::Mark && s.ecn.is_capable() {
                s.ecn = Ecn::Ce;
            }
            self.busy_until = self.busy_until.max(self.now) + self.service;
            let extra = if let Fate::Late(d) = fate { d } else { Duration::ZERO };
            let arrival = self.busy_until + self.delay + extra;
            self.push(arrival, Event::Segment(s));
            if fate == Fate::Twice {
                self.push(arrival, Event::Segment(s));
            }
        }
    }

    fn answer(&mut self, ack: Option<Ack>) {
        let Some(ack) = ack else { return };
        let index = self.acks;
        self.acks += 1;
        let fate = (self.judge_ack)(&ack, index);
        let extra = if let Fate::Late(d) = fate { d } else { Duration::ZERO };
        if fate != Fate::Drop {
            self.push(self.now + self.delay + extra, Event::Ack(ack));
        }
        if fate == Fate::Twice {
            self.push(self.now + self.delay, Event::Ack(ack));
        }
    }

    fn next(&self) -> Option<Time> {
        let event = self.events.peek().map(|Reverse((t, _))| *t);
        [event, self.sender.next_timeout(), self.receiver.next_timeout()].into_iter().flatten().min()
    }

    /// Handles everything up to `end`.
    pub fn run_until(&mut self, end: Time) {
        self.transmit();
        let mut without_progress = 0;
        while let Some(time) = self.next().filter(|t| *t <= end) {
            without_progress = if time > self.now { 0 } else { without_progress + 1 };
            assert!(without_progress < 1_000_000, "no progress at {:?}: {:?}", self.now, self.sender.info());
            self.now = self.now.max(time);
            self.step(time);
            self.transmit();
            (self.watch)(self.now, &self.sender);
        }
        self.now = self.now.max(end);
    }

    fn step(&mut self, time: Time) {
        match self.events.peek() {
            Some(Reverse((t, id))) if *t == time => {
                let event = self.bodies.remove(id).expect("each event has a body");
                self.events.pop();
                match event {
                    Event::Segment(s) => {
                        let ack = self.receiver.on_segment(self.now, &s);
                        self.answer(ack);
                    }
                    Event::Ack(a) => self.sender.on_ack(self.now, &a),
                }
            }
            _ => {
                if self.sender.next_timeout() == Some(time) {
                    self.sender.on_timeout(self.now);
                }
                if self.receiver.next_timeout() == Some(time) {
                    let ack = self.receiver.on_timeout(self.now);
                    self.answer(ack);
                }
            }
        }
    }

    /// Runs until the sender is done, for at most `limit`; returns when that was.
    pub fn run_to_the_end(&mut self, limit: Duration) -> Option<Time> {
        self.transmit();
        let end = self.now + limit;
        while !self.sender.is_done() {
            let time = self.next()?;
            if time > end {
                return None;
            }
            self.run_until(time);
        }
        Some(self.now)
    }
}

/// Loses each segment with probability `p`.
pub fn random_loss(p: f64, seed: u64) -> Judge<Segment> {
    use rand_xoshiro::Xoshiro256PlusPlus;
    use rand_xoshiro::rand_core::{RngCore, SeedableRng};
    let mut rng = Xoshiro256PlusPlus::seed_from_u64(seed);
    let limit = (p * 2f64.powi(64)) as u64;
    Box::new(move |_, _| if rng.next_u64() < limit { Fate::Drop } else { Fate::Pass })
}

/// Loses the transmissions with these numbers.
pub fn lose(indices: &[u64]) -> Judge<Segment> {
    let indices = indices.to_vec();
    Box::new(move |_, i| if indices.contains(&i) { Fate::Drop } else { Fate::Pass })
}
