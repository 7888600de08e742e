//! Two queues, one for low latency and one for classic traffic, under coupled algorithms (DualPI2, RFC 9332).
//!
//! Senders that answer each mark a little (L4S: DCTCP, Prague) need a very short queue and many marks;
//! classic ones need a longer queue and few. Each kind gets a queue of its own, and the coupling of their
//! signals makes a low-latency flow take about as much of the link as a classic one. Packets with ECT(1) or
//! CE are the low-latency ones. They go first, but for a share that the classic queue always gets.

mod coupled;

pub use coupled::Coupled;

use crate::disciplines::{Entry, Managed, OfItsOwn, Setup, Visitor};
use crate::lanes::{NQB_BUFFER, NQB_BUFFER_MAX, NQB_BUFFER_MIN, room};
use crate::protection::{Protection, Ramp};
use crate::settle::Decision;
use crate::{Arrival, Counters, Departure, Discipline, Limits, Outbox};
use coupled::{TARGET_MAX, TARGET_MIN};
use std::collections::VecDeque;
use weir_aqm::{Aqm, Cause, Ecn, Guide, Moment, Packet, Sample, Share, View};
use weir_units::{Bytes, Duration, Rate, Time};

weir_aqm::params! {
    /// Parameters of DualPI2.
    pub struct Params {
        /// Delay of the classic queue that the controller aims at.
        target: Duration = Duration::from_millis(15), TARGET_MIN => TARGET_MAX;
        /// Longest round-trip time that is usual; it sets the gains of the controller.
        rtt_max: Duration = Duration::from_millis(100), Duration::from_micros(100) => Duration::from_secs(10);
        /// How many times as probable a mark on a low-latency packet is as the square root of that of a
        /// signal on a classic one.
        coupling: f64 = 2.0, 1.0 => 16.0;
        /// Delay of the low-latency queue from which on its packets are marked.
        ramp_min: Duration = Duration::from_micros(800), Duration::ZERO => Duration::from_secs(1);
        /// From the first mark to all packets marked; zero makes the ramp a step.
        ramp_range: Duration = Duration::from_micros(400), Duration::ZERO => Duration::from_secs(1);
        /// Share of the link that the classic queue gets at least, while it needs it.
        classic_share: Share = Share(0.0625), Share(0.0) => Share(1.0);
        /// Whether the queues are served in the order of arrival, with `time_shift` in favour of low latency,
        /// instead of by shares (RFC 9332 on the starvation of classic traffic).
        time_shifted: bool = false, false => true;
        /// How much later a low-latency packet may come than a classic one and still go first.
        time_shift: Duration = Duration::from_millis(50), Duration::ZERO => Duration::from_secs(10);
        /// Whether packets of NQB (DSCP 45, RFC 9956) wait in the low-latency queue. The
        /// algorithm neither marks nor drops them.
        nqb: bool = false, false => true;
        /// Bytes in the low-latency queue above which packets of NQB are discarded, as time at the link's
        /// rate, but two packets at least.
        nqb_buffer: Duration = NQB_BUFFER, NQB_BUFFER_MIN => NQB_BUFFER_MAX;
        /// Whether packets of flows that build the low-latency queue go to the classic one (queue protection,
        /// RFC 9957).
        protection: bool = false, false => true;
        /// Most packets stored, beside the room of the link.
        packets: u32 = 10_000, 1 => 1_000_000;
    }
}

struct Slot<T> {
    packet: Packet,
    marked: bool,
    item: T,
}

/// Base 2 logarithm of the number of buckets of queue protection (`BI_SIZE`, RFC 9957 section 4.1).
const BUCKET_BITS: u32 = 5;

/// One of the two FIFOs.
struct Lane<T> {
    fifo: VecDeque<Slot<T>>,
    backlog: Bytes,
    last_delay: Duration,
}

impl<T> Lane<T> {
    fn new(room: usize) -> Lane<T> {
        Lane { fifo: VecDeque::with_capacity(room), backlog: Bytes::ZERO, last_delay: Duration::ZERO }
    }

    fn head_delay(&self, now: Time) -> Option<Duration> {
        self.fifo.front().map(|slot| now.since(slot.packet.arrived))
    }

    fn view(&self, rate: Rate) -> View {
        View { backlog: self.backlog, packets: self.fifo.len() as u32, delay: self.last_delay, rate }
    }
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Which {
    Low,
    Classic,
}

/// Which queue sends next.
#[derive(Clone, Copy, Debug)]
enum Scheduler {
    /// Low latency, until the classic queue has saved up for a packet out of its share: bytes, times 2^16.
    Shares { classic: i64, credit: i64 },
    /// By arrival, with this much in favour of low latency.
    TimeShifted(Duration),
}

const WHOLE: i64 = 1 << 16;

impl Scheduler {
    fn of(params: &Params) -> Scheduler {
        if params.time_shifted {
            return Scheduler::TimeShifted(params.time_shift);
        }
        Scheduler::Shares { classic: (params.classic_share.0 * WHOLE as f64) as i64, credit: 0 }
    }

    /// Which of two queues with these heads.
    fn choose(&self, low: &Packet, classic: &Packet) -> Which {
        let low_first = match self {
            Scheduler::Shares { classic: share, credit } => {
                *credit < (WHOLE - share) * classic.len.get() as i64
            }
            Scheduler::TimeShifted(shift) => low.arrived <= classic.arrived + *shift,
        };
        if low_first { Which::Low } else { Which::Classic }
    }

    /// A packet was sent; `contended` if the other queue had one as well.
    fn sent(&mut self, which: Which, len: Bytes, contended: bool) {
        let Scheduler::Shares { classic, credit } = self else { return };
        let len = len.get() as i64;
        match which {
            _ if !contended => *credit = 0,
            Which::Low => *credit += *classic * len,
            Which::Classic => *credit -= (WHOLE - *classic) * len,
        }
    }
}

/// See the [module documentation](self).
pub struct DualPi2<T, G = ()> {
    aqm: Coupled,
    guide: G,
    low: Lane<T>,
    classic: Lane<T>,
    scheduler: Scheduler,
    limits: Limits,
    rate: Rate,
    latest: Time,
    counters: Counters,
    /// Room for NQB in the low-latency queue, where they go there.
    nqb: Option<Duration>,
    protection: Option<Protection>,
    /// How the low-latency queue marks by itself.
    ramp: Ramp,
}

impl<T> DualPi2<T> {
    /// An empty queue.
    pub fn new(params: &Params, setup: &Setup, start: Time) -> Self {
        Self::guided(params, Coupled::new(params, start), (), setup)
    }
}

impl<T, G: Guide<Coupled>> DualPi2<T, G> {
    /// The same with a guide, which sees the signals on classic packets: only they tell of a set point.
    pub fn guided(params: &Params, aqm: Coupled, guide: G, setup: &Setup) -> Self {
        let packets = setup.limits.packets.min(params.packets);
        let room = if setup.grows { 0 } else { packets as usize };
        DualPi2 {
            aqm,
            guide,
            low: Lane::new(room),
            classic: Lane::new(room),
            scheduler: Scheduler::of(params),
            limits: Limits { packets, ..setup.limits },
            rate: setup.rate,
            latest: Time::ZERO,
            counters: Counters::default(),
            nqb: params.nqb.then_some(params.nqb_buffer),
            protection: params.protection.then(|| Protection::new(BUCKET_BITS)),
            ramp: Ramp { min: params.ramp_min, range: params.ramp_range },
        }
    }

    /// The same queue, with what waits in it, under another guide.
    pub fn under<H: Guide<Coupled>>(self, guide: H) -> DualPi2<T, H> {
        let DualPi2 { aqm, guide: _, low, classic, scheduler, limits, rate, latest, counters, nqb, protection, ramp } = self;
        DualPi2 { aqm, guide, low, classic, scheduler, limits, rate, latest, counters, nqb, protection, ramp }
    }

    /// Its algorithm.
    pub fn aqm(&self) -> &Coupled {
        &self.aqm
    }

    fn lane(&mut self, which: Which) -> &mut Lane<T> {
        match which {
            Which::Low => &mut self.low,
            Which::Classic => &mut self.classic,
        }
    }

    /// Both queues together; the delay is that of the classic one, or of the other while it is empty.
    fn whole(&self, now: Time) -> View {
        let delay = self.classic.head_delay(now).or(self.low.head_delay(now)).unwrap_or(Duration::ZERO);
        let packets = (self.low.fifo.len() + self.classic.fifo.len()) as u32;
        View { backlog: self.low.backlog + self.classic.backlog, packets, delay, rate: self.rate }
    }

    fn wake(&mut self, now: Time) {
        if self.aqm.next_wakeup().is_some_and(|due| due <= now) {
            let m = Moment::new(now, self.whole(now), 0);
            self.guide.on_wakeup(&mut self.aqm, &m);
        }
    }

    fn fits(&self, whole: &View, len: Bytes) -> bool {
        whole.packets < self.limits.packets && whole.backlog + len <= self.limits.bytes
    }

    /// Where an arrival waits, and whether there is room in that queue apart from the limits of both.
    fn classify(&mut self, now: Time, packet: &Packet, is_nqb: bool) -> (Which, bool) {
        let nqb = self.nqb.filter(|_| is_nqb);
        if nqb.is_none() && !packet.ecn.is_low_latency() {
            return (Which::Classic, true);
        }
        let (rate, stored) = (self.rate, self.low.backlog);
        if rate == Rate::ZERO {
            return (Which::Low, true);
        }
        if let Some(protection) = &mut self.protection {
            let delay = rate.time_for(stored);
            if protection.sanctions(now, packet.flow, packet.len, delay, self.ramp.at_rate(rate)) {
                self.counters.sanctioned += 1;
                return (Which::Classic, true);
            }
        }
        (Which::Low, nqb.is_none_or(|buffer| stored + packet.len <= room(rate, buffer)))
    }

    fn store(&mut self, which: Which, packet: Packet, marked: bool, item: T) {
        self.latest = packet.arrived;
        let lane = self.lane(which);
        lane.backlog += packet.len;
        lane.fifo.push_back(Slot { packet, marked, item });
    }

    /// Which queue is next, and whether both want to be.
    fn choose(&self) -> Option<(Which, bool)> {
        match (self.low.fifo.front(), self.classic.fifo.front()) {
            (None, None) => None,
            (Some(_), None) => Some((Which::Low, false)),
            (None, Some(_)) => Some((Which::Classic, false)),
            (Some(low), Some(classic)) => Some((self.scheduler.choose(&low.packet, &classic.packet), true)),
        }
    }

    /// Decides about a head that was taken out. The guide sees classic packets alone.
    fn release(
        &mut self,
        now: Time,
        which: Which,
        drops: &mut u32,
        packet: &Packet,
        was_marked: bool,
    ) -> Result<bool, Cause> {
        let rate = self.rate;
        let lane = self.lane(which);
        let m = Moment::new(now, lane.view(rate), 0);
        lane.last_delay = now.since(packet.arrived);
        let whole = View { delay: lane.last_delay, ..self.whole(now) };
        let DualPi2 { aqm, guide, counters, .. } = self;
        match which {
            // Who builds no queue needs no signal; the room for these packets is bounded.
            Which::Low if !packet.ecn.is_low_latency() => {
                counters.departure(packet.len);
                Ok(was_marked)
            }
            Which::Low => {
                Decision { aqm, guide: &mut (), counters }.release(drops, || whole, &m, packet, was_marked)
            }
            Which::Classic => {
                // One of L4S that queue protection sent here is a classic one to the algorithm.
                let ecn = if packet.ecn.is_low_latency() { Ecn::Ect0 } else { packet.ecn };
                let packet = &Packet { ecn, ..*packet };
                Decision { aqm, guide, counters }.release(drops, || whole, &m, packet, was_marked)
            }
        }
    }

    fn note_if_empty(&mut self, now: Time) {
        for lane in [&mut self.low, &mut self.classic] {
            if lane.fifo.is_empty() {
                lane.last_delay = Duration::ZERO;
            }
        }
        if self.packets_stored() == 0 {
            self.guide.on_empty(&mut self.aqm, true, now);
        }
    }

    fn packets_stored(&self) -> u32 {
        (self.low.fifo.len() + self.classic.fifo.len()) as u32
    }
}

impl<T, G: Guide<Coupled>> Discipline<T> for DualPi2<T, G> {
    fn enqueue(&mut self, now: Time, arrival: Arrival, item: T, out: &mut impl Outbox<T>) {
        self.wake(now);
        let packet = self.counters.arrive(now, &arrival);
        let (which, has_room) = self.classify(now, &packet, arrival.nqb);
        let (whole, rate) = (self.whole(now), self.rate);
        let m = Moment::new(now, self.lane(which).view(rate), 0);
        let fits = has_room && self.fits(&whole, packet.len);
        let DualPi2 { aqm, guide, counters, .. } = self;
        match (Decision { aqm, guide, counters }).admit(fits, || whole, &m, &packet) {
            Ok(marked) => self.store(which, packet, marked, item),
            Err(cause) => out.discarded(&packet, item, cause),
        }
        debug_assert!(self.counters.is_conserved(self.packets_stored()));
    }

    fn reads_nqb(&self) -> bool {
        self.nqb.is_some()
    }

    fn dequeue(&mut self, now: Time, out: &mut impl Outbox<T>) -> Option<Departure<T>> {
        self.wake(now);
        let mut drops = 0;
        let departure = loop {
            let Some((which, contended)) = self.choose() else { break None };
            let lane = self.lane(which);
            let Slot { packet, marked, item } = lane.fifo.pop_front().expect("its head was just looked at");
            lane.backlog -= packet.len;
            match self.release(now, which, &mut drops, &packet, marked) {
                Ok(marked) => {
                    self.scheduler.sent(which, packet.len, contended);
                    break Some(Departure { packet, item, marked, sojourn: now.since(packet.arrived) });
                }
                Err(cause) => out.discarded(&packet, item, cause),
            }
        };
        if departure.is_some() || drops > 0 {
            self.note_if_empty(now);
        }
        debug_assert!(self.counters.is_conserved(self.packets_stored()));
        departure
    }

    /// That of the packet stored last: none leaves before it, as all that could have left by then did.
    fn head_arrived(&self) -> Option<Time> {
        (self.packets_stored() > 0).then_some(self.latest)
    }

    fn backlog(&self) -> Bytes {
        self.low.backlog + self.classic.backlog
    }

    fn packets(&self) -> u32 {
        self.packets_stored()
    }

    fn counters(&self) -> &Counters {
        &self.counters
    }

    fn set_rate(&mut self, rate: Rate) {
        self.rate = rate;
    }

    fn sample(&mut self, now: Time, sample: Sample) {
        self.aqm.on_sample(now, sample);
    }
}

impl<T, G: Guide<Coupled>> Managed<T> for DualPi2<T, G> {
    type Aqm = Coupled;
    type Guide = G;

    fn set_aqm(&mut self, aqm: Coupled) {
        self.aqm = aqm;
    }

    fn guide(&self) -> &G {
        &self.guide
    }

    fn guide_mut(&mut self) -> &mut G {
        &mut self.guide
    }

    fn setpoint(&mut self) -> Option<Duration> {
        self.aqm.setpoint().map(|s| s.get())
    }

    fn head(&self) -> Option<&T> {
        self.low.fifo.front().or(self.classic.fifo.front()).map(|slot| &slot.item)
    }

    fn gauges(&self, plot: &mut dyn FnMut(&'static str, f64)) {
        self.aqm.gauges(plot);
        self.guide.gauges(plot);
        plot("low_latency_bytes", self.low.backlog.get() as f64);
        plot("classic_bytes", self.classic.backlog.get() as f64);
    }
}

/// DualPI2 in the list of disciplines.
pub struct Dual;

impl Entry for Dual {
    const NAME: &'static str = "dualpi2";
    const SUMMARY: &'static str = "Two queues, for L4S and for classic traffic, whose signals are coupled so that both kinds share fairly.";
    const SOURCE: &'static str = "RFC 9332";
    type Params = Params;

    fn accept<V: Visitor>(visitor: V) -> V::Output {
        visitor.of_its_own::<Self>()
    }
}

impl OfItsOwn for Dual {
    const SETPOINT: &'static str = "target";
    type Aqm = Coupled;
    type Queue<G, T>
        = DualPi2<T, G>
    where
        G: Guide<Coupled> + Send + 'static,
        T: Copy + Send + 'static;

    fn aqm(params: &Params, start: Time) -> Coupled {
        Coupled::new(params, start)
    }

    fn build<G, T>(params: &Params, aqm: Coupled, guide: G, setup: &Setup) -> Self::Queue<G, T>
    where
        G: Guide<Coupled> + Send + 'static,
        T: Copy + Send + 'static,
    {
        DualPi2::guided(params, aqm, guide, setup)
    }

    fn under<G, H, T>(queue: Self::Queue<G, T>, guide: H) -> Self::Queue<H, T>
    where
        G: Guide<Coupled> + Send + 'static,
        H: Guide<Coupled> + Send + 'static,
        T: Copy + Send + 'static,
    {
        queue.under(guide)
    }
}
