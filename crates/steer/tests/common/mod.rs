//! A toy network for tests: sources that back off, a FIFO, a link. No burstiness, no slow start, no
//! losses but the ones under test; just enough to close the loop.
#![allow(dead_code)]

use std::collections::VecDeque;
use weir_aqm::{Aqm, Ecn, Moment, Packet, Verdict, View};
use weir_units::{Bytes, Duration, Rate, Time};

/// Random numbers that are the same everywhere (SplitMix64).
pub struct Dice(pub u64);

impl Dice {
    pub fn roll(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    pub fn below(&mut self, n: u64) -> u64 {
        self.roll() % n
    }

    pub fn share(&mut self) -> f64 {
        (self.roll() >> 11) as f64 / (1u64 << 53) as f64
    }
}

/// What happened to an arrival.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Fate {
    Stored,
    Signalled(Verdict),
    NoRoom,
}

/// A FIFO in front of a link, under `aqm`.
pub struct Fifo<A> {
    pub aqm: A,
    pub rate: Rate,
    pub limit: Bytes,
    pub served: u64,
    pub signals_at_head: u64,
    /// Flows whose packets were signalled when they left.
    pub signalled_flows: Vec<u32>,
    queue: VecDeque<Packet>,
    backlog: Bytes,
    delay: Duration,
    free_at: Time,
    sequence: u64,
    dice: Dice,
}

impl<A: Aqm> Fifo<A> {
    pub fn new(aqm: A, rate: Rate, limit: Bytes) -> Self {
        Fifo {
            aqm,
            rate,
            limit,
            served: 0,
            signals_at_head: 0,
            signalled_flows: Vec::new(),
            queue: VecDeque::new(),
            backlog: Bytes::ZERO,
            delay: Duration::ZERO,
            free_at: Time::ZERO,
            sequence: 0,
            dice: Dice(7),
        }
    }

    pub fn backlog(&self) -> Bytes {
        self.backlog
    }

    pub fn delay(&self) -> Duration {
        self.delay
    }

    fn moment(&mut self, now: Time) -> Moment {
        let packets = self.queue.len() as u32;
        let queue = View { backlog: self.backlog, packets, delay: self.delay, rate: self.rate };
        Moment::new(now, queue, self.dice.roll())
    }

    pub fn arrive(&mut self, now: Time, len: u64, flow: u32, ecn: Ecn) -> Fate {
        self.serve_until(now);
        let p = Packet { arrived: now, len: Bytes::new(len), seq: self.sequence, flow, ecn };
        self.sequence += 1;
        let m = self.moment(now);
        if self.backlog + p.len > self.limit {
            self.aqm.on_overflow(&m, &p);
            return Fate::NoRoom;
        }
        let verdict = self.aqm.on_enqueue(&m, &p);
        if !matches!(verdict, Verdict::Drop(_)) {
            if self.queue.is_empty() {
                self.free_at = self.free_at.max(now);
            }
            self.backlog += p.len;
            self.queue.push_back(p);
        }
        if verdict == Verdict::Forward { Fate::Stored } else { Fate::Signalled(verdict) }
    }

    /// Sends what the link can start to send before `until`.
    pub fn serve_until(&mut self, until: Time) {
        while self.free_at < until {
            let now = self.free_at;
            let Some(p) = self.queue.pop_front() else { return };
            self.backlog -= p.len;
            let m = self.moment(now);
            self.delay = now.since(p.arrived);
            let verdict = self.aqm.on_dequeue(&m, &p);
            if verdict != Verdict::Forward {
                self.signals_at_head += 1;
                self.signalled_flows.push(p.flow);
            }
            if !matches!(verdict, Verdict::Drop(_)) {
                self.served += p.len.get();
                self.free_at += self.rate.time_for(p.len);
            }
            if self.queue.is_empty() {
                self.delay = Duration::ZERO;
                self.aqm.on_empty(now);
            }
        }
    }
}

/// Sources that add a packet per round trip and back off by `beta` a round trip after a signal.
pub struct Sources {
    pub rtt: Duration,
    pub beta: f64,
    pub packet: u64,
    pub ecn: Ecn,
    pub signals: u64,
    pub overflows: u64,
    pub now: Time,
    flows: Vec<Flow>,
    dice: Dice,
}

struct Flow {
    window: f64,
    credit: f64,
    /// When the signal arrives at the source.
    signal_due: Option<Time>,
    /// Signals are ignored until then: one back-off per round trip.
    deaf_until: Time,
    silent: bool,
}

const TICK: Duration = Duration::from_micros(200);

impl Sources {
    /// `n` flows that share a link of `rate` unequally at first.
    pub fn new(n: usize, rtt: Duration, rate: Rate, packet: u64, seed: u64) -> Self {
        let mut dice = Dice(seed);
        let share = rate.as_bps_f64() * rtt.as_secs_f64() / 8.0 / packet as f64 / n as f64;
        let flows = (0..n)
            .map(|_| Flow {
                window: share * (0.5 + dice.share()),
                credit: dice.share(),
                signal_due: None,
                deaf_until: Time::ZERO,
                silent: false,
            })
            .collect();
        Sources {
            rtt,
            beta: 0.5,
            packet,
            ecn: Ecn::NotEct,
            signals: 0,
            overflows: 0,
            now: Time::ZERO,
            flows,
            dice,
        }
    }

    /// Silences or wakes each flow with this probability.
    pub fn toggle(&mut self, probability: f64) {
        for flow in &mut self.flows {
            if self.dice.share() < probability {
                flow.silent = !flow.silent;
            }
        }
    }

    pub fn run<A: Aqm>(&mut self, fifo: &mut Fifo<A>, span: Duration) {
        let end = self.now + span;
        while self.now < end {
            self.tick(fifo);
        }
    }

    fn tick<A: Aqm>(&mut self, fifo: &mut Fifo<A>) {
        // Each tick has its packets in random order and at random times, sorted.
        let turn = (self.rtt + fifo.delay()).as_secs_f64();
        let mut burst = Vec::new();
        for (number, flow) in self.flows.iter_mut().enumerate() {
            flow.hear(self.now, self.beta, self.rtt + fifo.delay());
            if flow.silent {
                continue;
            }
            flow.window += TICK.as_secs_f64() / turn;
            flow.credit += flow.window * TICK.as_secs_f64() / turn;
            while flow.credit >= 1.0 {
                flow.credit -= 1.0;
                burst.push((self.dice.below(TICK.as_nanos()), number));
            }
        }
        burst.sort_unstable();
        for (offset, number) in burst {
            let now = self.now + Duration::from_nanos(offset);
            let fate = fifo.arrive(now, self.packet, number as u32, self.ecn);
            self.signals += u64::from(matches!(fate, Fate::Signalled(_)));
            self.overflows += u64::from(fate == Fate::NoRoom);
            if fate != Fate::Stored {
                self.flows[number].signal(now + self.rtt);
            }
        }
        self.now += TICK;
        fifo.serve_until(self.now);
        self.signals += fifo.signalled_flows.len() as u64;
        for number in std::mem::take(&mut fifo.signalled_flows) {
            self.flows[number as usize].signal(self.now + self.rtt);
        }
    }
}

impl Flow {
    fn signal(&mut self, due: Time) {
        self.signal_due.get_or_insert(due);
    }

    fn hear(&mut self, now: Time, beta: f64, deaf: Duration) {
        if self.signal_due.is_some_and(|due| due <= now) {
            self.signal_due = None;
            if now >= self.deaf_until {
                self.window = (self.window * beta).max(1.0);
                self.deaf_until = now + deaf;
            }
        }
    }
}
