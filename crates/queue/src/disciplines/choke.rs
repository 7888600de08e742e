//! CHOKe: "choose and keep for responsive flows, choose and kill for unresponsive flows" (Pan, Prabhakar and
//! Psounis, INFOCOM 2000).
//!
//! An arriving packet is compared with packets drawn at random from the queue. Where one is of the same flow,
//! both are dropped; a flow that takes more than its share of the queue meets itself more often. Packets that
//! met none of their flow are left to RED. Nothing is remembered of flows.
//!
//! ```text
//! avg < min                       stored
//! a drawn packet is of its flow   it is dropped, and the drawn ones of its flow
//! else                            as RED decides
//! ```
//!
//! It is a discipline and not an algorithm, since an algorithm sees no packet but the one it is asked about.

mod line;

use crate::disciplines::{Entry, Managed, OfItsOwn, Setup, Visitor};
use crate::management::Management;
use crate::{Arrival, Counters, Departure, Discipline, Limits, Outbox};
use line::Line;
use rand_xoshiro::SplitMix64;
use rand_xoshiro::rand_core::{RngCore, SeedableRng};
use weir_aqm::algorithms::red::{self, Red};
use weir_aqm::{Algorithm, Aqm, Cause, Guide, Moment, Packet, Sample, Setpoint, Share, Verdict};
use weir_units::{Bytes, Duration, Rate, Time};

const TARGET_MIN: Duration = Duration::from_micros(1);
const TARGET_MAX: Duration = Duration::from_secs(10);

/// Most packets that are drawn for an arrival.
const DRAWS_MAX: u32 = 16;

weir_aqm::params! {
    /// Parameters of CHOKe: those of RED, and how many packets are drawn.
    pub struct Params {
        /// Delay in the middle between both thresholds.
        target: Duration = Duration::from_millis(15), TARGET_MIN => TARGET_MAX;
        /// The upper threshold as a multiple of the lower one: two in the paper.
        ratio: f64 = 2.0, 1.05 => 39.0;
        /// The lower threshold is at least so many mean packets, and the upper one grows by the same
        /// factor. The paper's is 100 packets.
        min_packets: u32 = 5, 0 => 1000;
        /// Probability of RED's signal at the upper threshold.
        max_p: Share = Share(0.1), Share(0.001) => Share(1.0);
        /// Time constant of RED's average.
        memory: Duration = Duration::from_secs(1), Duration::from_millis(1) => Duration::from_secs(1000);
        /// Whether RED's probability rises to 1 between the upper threshold and twice that, instead of
        /// jumping, as it does in the paper.
        gentle: bool = true, false => true;
        /// Packets drawn for an arrival. The paper has one, and shows more for several unresponsive flows.
        draws: u32 = 1, 1 => DRAWS_MAX;
        /// Size of a mean packet.
        mean_packet: Bytes = Bytes::new(1538), Bytes::new(64) => Bytes::new(65_536);
        /// Whether RED marks ECN-capable packets instead of dropping them. Those that met one of their flow
        /// are dropped.
        ecn: bool = true, false => true;
    }
}

/// RED that is told of each arrival whether it met a packet of its flow.
#[derive(Clone, Debug)]
pub struct Paired {
    red: Red,
    /// Whether a packet drawn for the arrival in question is of its flow.
    met: bool,
    /// Whether that arrival was dropped for it.
    both: bool,
    /// How often that was so.
    pairs: u64,
}

impl Paired {
    fn new(params: &Params, start: Time) -> Paired {
        let red = red::Params {
            target: params.target,
            spread: Share((params.ratio - 1.0) / (params.ratio + 1.0)),
            min_packets: params.min_packets,
            max_p: params.max_p,
            memory: params.memory,
            gentle: params.gentle,
            adaptive: false,
            mean_packet: params.mean_packet,
            ecn: params.ecn,
            ..red::Params::default()
        };
        Paired { red: Red::new(&red, start), met: false, both: false, pairs: 0 }
    }
}

impl Aqm for Paired {
    const USES_RANDOM: bool = true;

    fn on_enqueue(&mut self, m: &Moment, p: &Packet) -> Verdict {
        let above = self.red.arrival(m);
        self.both = above && self.met;
        self.pairs += u64::from(self.both);
        match (above, self.both) {
            (_, true) => Verdict::Drop(Cause::Chance),
            (true, false) => self.red.decide(m, p),
            (false, false) => Verdict::Forward,
        }
    }

    fn on_empty(&mut self, now: Time) {
        self.red.on_empty(now);
    }

    /// A drawn packet that is dropped with an arrival is no arrival of its own.
    fn on_overflow(&mut self, m: &Moment, p: &Packet) {
        if !self.both {
            self.red.on_overflow(m, p);
        }
    }

    fn setpoint(&mut self) -> Option<&mut dyn Setpoint> {
        self.red.setpoint()
    }

    fn gauges(&self, plot: &mut dyn FnMut(&'static str, f64)) {
        self.red.gauges(plot);
        plot("pairs", self.pairs as f64);
    }
}

/// Different numbers without an order of their own: those of the packets that were drawn, the highest first.
#[derive(Clone, Copy)]
struct Drawn {
    numbers: [u32; DRAWS_MAX as usize],
    count: usize,
}

impl Drawn {
    fn add(&mut self, number: u32) {
        let place = self.numbers[..self.count].partition_point(|n| *n > number);
        if self.numbers[..self.count].get(place) != Some(&number) {
            self.numbers.copy_within(place..self.count, place + 1);
            self.numbers[place] = number;
            self.count += 1;
        }
    }

    fn highest_first(&self) -> &[u32] {
        &self.numbers[..self.count]
    }
}

/// See the [module documentation](self).
pub struct Choke<T, G = ()> {
    management: Management<Paired, G>,
    line: Line<T>,
    limits: Limits,
    draws: u32,
    /// Draws packets; the algorithm has dice of its own.
    dice: SplitMix64,
}

impl<T> Choke<T> {
    /// An empty queue.
    pub fn new(params: &Params, setup: &Setup, start: Time) -> Self {
        Self::guided(params, Paired::new(params, start), (), setup)
    }
}

impl<T, G: Guide<Paired>> Choke<T, G> {
    /// The same with a guide.
    pub fn guided(params: &Params, aqm: Paired, guide: G, setup: &Setup) -> Self {
        let Setup { limits, rate, seed, grows } = *setup;
        let room = if grows { 0 } else { limits.packets as usize };
        Choke {
            management: Management::new(aqm, guide, rate, seed),
            line: Line::with_capacity(room),
            limits,
            draws: params.draws,
            dice: SplitMix64::seed_from_u64(!seed),
        }
    }

    /// The same queue, with what waits in it, under another guide.
    pub fn under<H: Guide<Paired>>(self, guide: H) -> Choke<T, H> {
        let Choke { management, line, limits, draws, dice } = self;
        Choke { management: management.under(guide), line, limits, draws, dice }
    }

    fn fits(&self, len: Bytes) -> bool {
        self.line.len() < self.limits.packets && self.management.backlog + len <= self.limits.bytes
    }

    /// Draws packets, and keeps those of this flow.
    fn draw(&mut self, flow: u32) -> Drawn {
        let mut drawn = Drawn { numbers: [0; DRAWS_MAX as usize], count: 0 };
        let stored = u64::from(self.line.len());
        for _ in 0..if stored == 0 { 0 } else { self.draws } {
            // A share of the count, by the upper half of the random bits: below one in 2^32 from even.
            let number = (((self.dice.next_u64() >> 32) * stored) >> 32) as u32;
            if self.line.slot(number).packet.flow == flow {
                drawn.add(number);
            }
        }
        drawn
    }
}

impl<T, G: Guide<Paired>> Discipline<T> for Choke<T, G> {
    fn enqueue(&mut self, now: Time, arrival: Arrival, item: T, out: &mut impl Outbox<T>) {
        let (packets, fits) = (self.line.len(), self.fits(arrival.len));
        let packet = self.management.arrive(now, &arrival);
        let drawn = self.draw(packet.flow);
        self.management.aqm.met = drawn.count > 0;
        self.management.aqm.both = false;
        match self.management.admit(now, &packet, packets, fits) {
            Ok(marked) => self.line.push(packet, marked, item),
            Err(cause) => {
                out.discarded(&packet, item, cause);
                if self.management.aqm.both {
                    for number in drawn.highest_first() {
                        let met = self.line.take(*number);
                        self.management.discard_stored(now, &met.packet, self.line.len());
                        out.discarded(&met.packet, met.item, cause);
                    }
                    if self.line.len() == 0 {
                        self.management.emptied(now);
                    }
                }
            }
        }
        debug_assert!(self.counters().is_conserved(self.packets()));
    }

    fn dequeue(&mut self, now: Time, out: &mut impl Outbox<T>) -> Option<Departure<T>> {
        let mut drops = 0;
        let departure = loop {
            let Some(head) = self.line.head() else { break None };
            let slot = self.line.take(head);
            let behind = self.line.len();
            match self.management.release(now, &slot.packet, slot.marked, behind, &mut drops) {
                Ok(marked) => {
                    let sojourn = self.management.last_delay;
                    break Some(Departure { packet: slot.packet, item: slot.item, marked, sojourn });
                }
                Err(cause) => out.discarded(&slot.packet, slot.item, cause),
            }
        };
        if self.line.len() == 0 && (departure.is_some() || drops > 0) {
            self.management.emptied(now);
        }
        debug_assert!(self.counters().is_conserved(self.packets()));
        departure
    }

    fn head_arrived(&self) -> Option<Time> {
        self.line.head().map(|head| self.line.slot(head).packet.arrived)
    }

    fn backlog(&self) -> Bytes {
        self.management.backlog
    }

    fn packets(&self) -> u32 {
        self.line.len()
    }

    fn counters(&self) -> &Counters {
        &self.management.counters
    }

    fn set_rate(&mut self, rate: Rate) {
        self.management.rate = rate;
    }

    fn sample(&mut self, now: Time, sample: Sample) {
        self.management.aqm.on_sample(now, sample);
    }
}

impl<T, G: Guide<Paired>> Managed<T> for Choke<T, G> {
    type Aqm = Paired;
    type Guide = G;

    fn set_aqm(&mut self, aqm: Paired) {
        self.management.aqm = aqm;
    }

    fn guide(&self) -> &G {
        &self.management.guide
    }

    fn guide_mut(&mut self) -> &mut G {
        &mut self.management.guide
    }

    fn setpoint(&mut self) -> Option<Duration> {
        self.management.setpoint()
    }

    fn head(&self) -> Option<&T> {
        self.line.head().map(|head| &self.line.slot(head).item)
    }

    fn gauges(&self, plot: &mut dyn FnMut(&'static str, f64)) {
        self.management.aqm.gauges(plot);
        self.management.guide.gauges(plot);
    }
}

/// CHOKe in the list of disciplines.
pub struct Choose;

impl Entry for Choose {
    const NAME: &'static str = "choke";
    const SUMMARY: &'static str =
        "Compares each arrival with a packet drawn from the queue and drops both if they are of one flow; else RED decides.";
    const SOURCE: &'static str = "Pan, Prabhakar and Psounis, INFOCOM 2000";
    type Params = Params;

    fn accept<V: Visitor>(visitor: V) -> V::Output {
        visitor.of_its_own::<Self>()
    }
}

impl OfItsOwn for Choose {
    const SETPOINT: &'static str = "target";
    type Aqm = Paired;
    type Queue<G, T>
        = Choke<T, G>
    where
        G: Guide<Paired> + Send + 'static,
        T: Copy + Send + 'static;

    fn aqm(params: &Params, start: Time) -> Paired {
        Paired::new(params, start)
    }

    fn build<G, T>(params: &Params, aqm: Paired, guide: G, setup: &Setup) -> Self::Queue<G, T>
    where
        G: Guide<Paired> + Send + 'static,
        T: Copy + Send + 'static,
    {
        Choke::guided(params, aqm, guide, setup)
    }

    fn under<G, H, T>(queue: Self::Queue<G, T>, guide: H) -> Self::Queue<H, T>
    where
        G: Guide<Paired> + Send + 'static,
        H: Guide<Paired> + Send + 'static,
        T: Copy + Send + 'static,
    {
        queue.under(guide)
    }
}
