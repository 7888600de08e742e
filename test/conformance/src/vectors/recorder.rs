//! Asks an algorithm what a queue asks it, and writes it down.

use super::answer;
use super::plan::{Luck, Phase, Plan, SHORT_ROOM};
use crate::script::Dice;
use std::collections::VecDeque;
use weir_aqm::{AnyAqm, Aqm, Ecn, Moment, Packet, Sample, Verdict, View};
use weir_units::{Bytes, Duration, Time};

/// A queue, the link that serves it, and what it was asked so far.
pub(super) struct Recorder<A> {
    aqm: A,
    fifo: VecDeque<Packet>,
    backlog: Bytes,
    delay: Duration,
    free_at: Time,
    dice: Dice,
    /// Packets that arrived, and how many of them in this phase.
    sequence: u64,
    in_phase: u64,
    /// The phase and those after it.
    phases: &'static [Phase],
    sensed: bool,
    short_from: usize,
    most_lines: usize,
    lines: Vec<String>,
}

impl<A: Aqm> Recorder<A> {
    pub(super) fn new(aqm: A, plan: &Plan) -> Self {
        Recorder {
            aqm,
            fifo: VecDeque::new(),
            backlog: Bytes::ZERO,
            delay: Duration::ZERO,
            free_at: Time::ZERO,
            dice: Dice(42),
            sequence: 0,
            in_phase: 0,
            phases: plan.phases,
            sensed: plan.sensed,
            short_from: plan.short_from,
            most_lines: plan.lines,
            lines: Vec::new(),
        }
    }

    pub(super) fn run(mut self) -> Vec<String> {
        let mut next = Time::ZERO;
        while let Some(phase) = self.turn()
            && self.lines.len() < self.most_lines
        {
            let gap = phase.gap.as_nanos() / 1000;
            next += Duration::from_micros(gap + self.dice.below(gap));
            if self.in_phase.is_multiple_of(phase.packets) {
                next += phase.pause;
            }
            self.serve(next);
            if self.sensed && self.sequence.is_multiple_of(4) {
                self.sense(next);
            }
            self.arrive(next);
        }
        self.lines.truncate(self.most_lines);
        self.lines
    }

    /// The phase that it is, after those that are over.
    fn turn(&mut self) -> Option<Phase> {
        while let [phase, later @ ..] = self.phases {
            let packets = phase.trains.saturating_mul(phase.packets);
            if self.in_phase < packets {
                return Some(*phase);
            }
            self.phases = later;
            self.in_phase = 0;
        }
        None
    }

    /// The phase of the last turn.
    fn phase(&self) -> Phase {
        self.phases[0]
    }

    fn room(&self) -> usize {
        let room = self.phase().room;
        if self.lines.len() >= self.short_from { room.min(SHORT_ROOM) } else { room }
    }

    fn roll(&mut self) -> u64 {
        match self.phase().luck {
            _ if !A::USES_RANDOM => 0,
            Luck::Fair => self.dice.roll(),
            Luck::High => self.dice.roll() | 0xff << 56,
        }
    }

    fn moment(&mut self, now: Time) -> Moment {
        let packets = self.fifo.len() as u32;
        let rate = self.phase().rate;
        Moment::new(now, View { backlog: self.backlog, packets, delay: self.delay, rate }, self.roll())
    }

    /// Written by hand, so that the fields come in an order that a person can read.
    fn line(&mut self, call: &str, m: &Moment, p: Option<&Packet>, verdict: Option<Verdict>) {
        let View { backlog, packets, delay, rate } = m.queue;
        // As the list of all algorithms is asked, of which some read them.
        let bits = m.random_bits::<AnyAqm>();
        let (now, backlog, delay) = (m.now.as_nanos(), backlog.get(), delay.as_nanos());
        let mut line = format!(r#"{{"call":"{call}","now_ns":{now}"#);
        if let Some(Packet { arrived, len, seq, flow, ecn }) = p {
            let (arrived, len, ecn) = (arrived.as_nanos(), len.get(), *ecn as u8);
            line += &format!(r#","seq":{seq},"arrived_ns":{arrived},"len":{len},"flow":{flow},"ecn":{ecn}"#);
        }
        line += &format!(r#","backlog":{backlog},"packets":{packets},"delay_ns":{delay}"#);
        line += &format!(r#","rate_bps":{},"dice":"{:016x}""#, rate.as_bps(), bits);
        if let Some(verdict) = verdict {
            line += &format!(r#","verdict":"{}""#, answer(verdict));
        }
        line.push('}');
        self.lines.push(line);
    }

    /// As queues do it: when they are used, so that most wakeups are late.
    fn wake(&mut self, now: Time) {
        if self.aqm.next_wakeup().is_some_and(|due| due <= now) {
            let m = self.moment(now);
            self.aqm.on_wakeup(&m);
            self.line("wakeup", &m, None, None);
        }
    }

    /// A probe is back from a path whose queue is twice as long as the own one.
    fn sense(&mut self, now: Time) {
        let rtt = Duration::from_millis(20) + self.phase().rate.time_for(self.backlog).saturating_mul(2);
        self.aqm.on_sample(now, Sample::Rtt(rtt));
        let (now, rtt) = (now.as_nanos(), rtt.as_nanos());
        self.lines.push(format!(r#"{{"call":"sample","now_ns":{now},"rtt_ns":{rtt}}}"#));
    }

    fn arrive(&mut self, now: Time) {
        self.wake(now);
        let p = self.packet(now);
        let m = self.moment(now);
        if self.fifo.len() >= self.room() {
            self.aqm.on_overflow(&m, &p);
            return self.line("overflow", &m, Some(&p), None);
        }
        let verdict = self.aqm.on_enqueue(&m, &p);
        self.line("enqueue", &m, Some(&p), Some(verdict));
        if !matches!(verdict, Verdict::Drop(_)) {
            self.free_at = if self.fifo.is_empty() { self.free_at.max(now) } else { self.free_at };
            self.backlog += p.len;
            self.fifo.push_back(p);
        }
    }

    fn packet(&mut self, now: Time) -> Packet {
        let len = Bytes::new(if self.dice.below(4) == 0 { 300 } else { 1500 });
        let (seq, every) = (self.sequence, self.phase().ecn_every);
        let ecn =
            if seq.is_multiple_of(every) { Ecn::from_bits((seq / every % 4) as u8) } else { Ecn::NotEct };
        self.sequence += 1;
        self.in_phase += 1;
        Packet { arrived: now, len, seq, flow: (seq % 5) as u32, ecn }
    }

    fn serve(&mut self, until: Time) {
        while self.free_at < until {
            let now = self.free_at;
            self.wake(now);
            let Some(p) = self.fifo.pop_front() else { return };
            self.backlog -= p.len;
            let m = self.moment(now);
            self.delay = now.since(p.arrived);
            let verdict = self.aqm.on_dequeue(&m, &p);
            self.line("dequeue", &m, Some(&p), Some(verdict));
            if !matches!(verdict, Verdict::Drop(_)) {
                self.free_at += self.phase().rate.time_for(p.len);
            }
            if self.fifo.is_empty() {
                self.delay = Duration::ZERO;
                self.aqm.on_empty(now);
                let m = self.moment(now);
                self.line("empty", &m, None, None);
            }
        }
    }
}
