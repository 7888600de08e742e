//! Traffic for suites: random but the same each time, through a real queue.

use weir_aqm::{Aqm, Ecn, Moment, Needs, Packet, Sample, Setpoint, Verdict};
use weir_queue::{Arrival, Discipline, Hosts, Limits, Setup, Single};
use weir_units::{Bytes, Duration, Rate, Time};

/// Random numbers that are the same everywhere (SplitMix64).
#[derive(Clone)]
pub struct Dice(pub u64);

impl Dice {
    /// 64 random bits.
    pub fn roll(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// A number below `n`.
    pub fn below(&mut self, n: u64) -> u64 {
        self.roll() % n
    }
}

/// Random traffic: phases of under- and overload, packets of all sizes, all ECN fields.
#[derive(Clone)]
pub struct Script {
    /// What the dice start from.
    pub seed: u64,
    /// Arrivals.
    pub packets: u32,
    /// Rate of the link.
    pub rate: Rate,
    /// Most the queue holds.
    pub limits: Limits,
    /// How far the clock jumps at the end of a phase.
    pub jump: Duration,
    /// Whether packets wait in the queue while it jumps.
    pub jump_with_backlog: bool,
}

impl Default for Script {
    fn default() -> Self {
        Script {
            seed: 1,
            packets: 30_000,
            rate: Rate::from_mbps(100),
            limits: Limits { bytes: Bytes::new(2_000_000), packets: 2_000 },
            jump: Duration::ZERO,
            jump_with_backlog: false,
        }
    }
}

impl Script {
    /// What a queue for this script is built with.
    pub fn setup(&self) -> Setup {
        Setup { limits: self.limits, rate: self.rate, seed: self.seed, grows: false }
    }
}

/// An AQM under observation: hashes what it says and notes what it must not do.
#[derive(Clone)]
pub struct Watched<A> {
    /// The AQM.
    pub aqm: A,
    /// FNV-1a over all questions and answers.
    pub hash: u64,
    /// Drops and marks.
    pub signals: u64,
    /// What it must not have done; the first of it.
    pub violation: Option<String>,
}

impl<A: Aqm> Watched<A> {
    /// Nothing has been seen yet.
    pub fn new(aqm: A) -> Self {
        Watched { aqm, hash: 0xcbf2_9ce4_8422_2325, signals: 0, violation: None }
    }

    fn note(&mut self, number: u64) {
        for byte in number.to_le_bytes() {
            self.hash = (self.hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
        }
    }

    fn violate(&mut self, what: String) {
        self.violation.get_or_insert(what);
    }

    fn judge(&mut self, m: &Moment, p: &Packet, verdict: Verdict) -> Verdict {
        self.note(m.now.as_nanos());
        self.note(p.seq);
        self.note(match verdict {
            Verdict::Forward => 0,
            Verdict::Mark(cause) => 16 + cause as u64,
            Verdict::Drop(cause) => 32 + cause as u64,
        });
        self.signals += u64::from(verdict != Verdict::Forward);
        if matches!(verdict, Verdict::Mark(_)) && !p.ecn.is_capable() {
            self.violate(format!(
                "marked packet {}, which is not ECN-capable: its sender would not see the mark. Remedy: return \
                 `Verdict::signal(packet, ecn, cause)`, which drops what cannot be marked",
                p.seq
            ));
            return Verdict::Forward;
        }
        verdict
    }
}

impl<A: Aqm> Aqm for Watched<A> {
    const USES_RANDOM: bool = A::USES_RANDOM;
    const NEEDS: Needs = A::NEEDS;

    fn on_enqueue(&mut self, m: &Moment, p: &Packet) -> Verdict {
        let verdict = self.aqm.on_enqueue(m, p);
        self.judge(m, p, verdict)
    }

    fn on_dequeue(&mut self, m: &Moment, p: &Packet) -> Verdict {
        let verdict = self.aqm.on_dequeue(m, p);
        self.judge(m, p, verdict)
    }

    fn on_empty(&mut self, now: Time) {
        self.aqm.on_empty(now);
    }

    fn on_overflow(&mut self, m: &Moment, p: &Packet) {
        self.aqm.on_overflow(m, p);
    }

    fn next_wakeup(&self) -> Option<Time> {
        self.aqm.next_wakeup()
    }

    fn on_wakeup(&mut self, m: &Moment) {
        self.aqm.on_wakeup(m);
        self.note(m.now.as_nanos());
        // Or the host would never get to do anything else.
        if let Some(due) = self.aqm.next_wakeup().filter(|due| *due <= m.now) {
            self.violate(format!(
                "after a wakeup at {} it wants one at {} again, which is not later, so that the host would do nothing else. \
                 Remedy: let `on_wakeup` set the next time from `Moment::now`, as wakeups may come late",
                m.now.since(Time::ZERO),
                due.since(Time::ZERO)
            ));
        }
    }

    fn on_sample(&mut self, now: Time, s: Sample) {
        self.aqm.on_sample(now, s);
    }

    fn setpoint(&mut self) -> Option<&mut dyn Setpoint> {
        self.aqm.setpoint()
    }

    fn gauges(&self, plot: &mut dyn FnMut(&'static str, f64)) {
        self.aqm.gauges(plot);
    }
}

/// A queue with a link, driven by a [`Script`].
pub struct Drive<D> {
    /// The queue.
    pub queue: D,
    /// The time.
    pub now: Time,
    /// The serial numbers of packets that came out, one way or the other.
    pub out: Vec<u32>,
    /// Packets that went in.
    pub sent: u32,
    dice: Dice,
    free_at: Time,
    /// Arrivals per packet time, in percent.
    load: u64,
    phase_ends: Time,
}

/// A managed queue as the suites use it.
pub fn single<A: Aqm>(aqm: A, script: &Script) -> Single<Watched<A>, u32> {
    Single::new(Watched::new(aqm), script.limits, script.rate, script.seed)
}

impl<D: Discipline<u32>> Drive<D> {
    /// Nothing was sent yet.
    pub fn new(queue: D, script: &Script) -> Self {
        let dice = Dice(script.seed);
        let (now, out) = (Time::ZERO, Vec::new());
        Drive { queue, now, out, sent: 0, dice, free_at: now, load: 100, phase_ends: now }
    }

    /// Runs the whole script.
    pub fn run(&mut self, script: &Script) {
        for _ in 0..script.packets {
            self.step(script);
        }
    }

    /// One arrival, and before it whatever leaves until then.
    pub fn step(&mut self, script: &Script) {
        if self.now >= self.phase_ends {
            self.next_phase(script);
        }
        let len = 40 + self.dice.below(1474);
        let mean = script.rate.time_for(Bytes::new(777)).as_nanos() * 100 / self.load;
        let next = self.now + Duration::from_nanos(self.dice.below(2 * mean + 1));
        self.serve(next, script.rate);
        self.now = next;
        let ecn = Ecn::from_bits(self.dice.roll() as u8);
        let arrival = Arrival {
            len: Bytes::new(len),
            flow: self.dice.below(8) as u32,
            hosts: Hosts::UNKNOWN,
            ecn,
            nqb: false,
        };
        let (out, serial) = (&mut self.out, self.sent);
        self.sent += 1;
        self.queue.enqueue(next, arrival, serial, &mut |_: &Packet, item, _| out.push(item));
    }

    fn next_phase(&mut self, script: &Script) {
        self.load = [30, 90, 110, 150, 300][self.dice.below(5) as usize];
        if script.jump > Duration::ZERO {
            if !script.jump_with_backlog {
                self.serve(self.now + Duration::from_secs(60), script.rate);
            }
            self.now = self.now.max(self.free_at) + script.jump;
        }
        self.phase_ends = self.now + Duration::from_millis(100 + self.dice.below(400));
    }

    fn serve(&mut self, until: Time, rate: Rate) {
        while self.queue.packets() > 0 {
            let start = self.free_at.max(self.now);
            if start >= until {
                break;
            }
            let out = &mut self.out;
            let departure = self.queue.dequeue(start, &mut |_: &Packet, item, _| out.push(item));
            if let Some(departure) = departure {
                self.out.push(departure.item);
                self.free_at = start + rate.time_for(departure.packet.len);
            }
        }
    }

    /// Lets everything out.
    pub fn drain(&mut self, rate: Rate) {
        self.serve(self.now + Duration::from_secs(3600), rate);
    }
}
