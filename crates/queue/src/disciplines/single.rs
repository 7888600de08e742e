//! One FIFO under one algorithm, and a shaper beside it where the algorithm has flows shaped.

use crate::disciplines::{Entry, Fifos, Limits, Managed, OverAny, Setup, Visitor};
use crate::management::Management;
use crate::pool::Pool;
use crate::shaped::{PACKETS_MAX, Shaped};
use crate::{Arrival, Counters, Departure, Discipline, Outbox};
use std::collections::VecDeque;
use weir_aqm::{Aqm, Guide, NoParams, Packet, Sample};
use weir_units::{Bytes, Duration, Rate, Time};

struct Slot<T> {
    packet: Packet,
    marked: bool,
    item: T,
}

/// A FIFO with limits, managed by `A` under the guide `G`, that stores items of type `T`.
pub struct Single<A, T, G = ()> {
    management: Management<A, G>,
    fifo: VecDeque<Slot<T>>,
    limits: Limits,
    /// Flows that its algorithm wants shaped, if it has any.
    shaped: Option<Box<(Shaped, Pool<T>)>>,
}

impl<A: Aqm, T: Copy> Single<A, T> {
    /// An empty queue. `rate` is what algorithms are told about the link; zero if it is unshaped.
    pub fn new(aqm: A, limits: Limits, rate: Rate, seed: u64) -> Self {
        Self::guided(aqm, (), &Setup { limits, rate, seed, grows: false })
    }

    /// The same, with memory for as many packets as the queue has held so far: a short queue with large
    /// limits stays in the cache. For hosts that may allocate while packets pass.
    pub fn growing(aqm: A, limits: Limits, rate: Rate, seed: u64) -> Self {
        Self::guided(aqm, (), &Setup { limits, rate, seed, grows: true })
    }
}

impl<A: Aqm, T: Copy, G: Guide<A>> Single<A, T, G> {
    /// The same with a guide.
    pub fn guided(aqm: A, guide: G, setup: &Setup) -> Self {
        let Setup { limits, rate, seed, grows } = *setup;
        let room = if grows { 0 } else { limits.packets as usize };
        Single {
            management: Management::new(aqm, guide, rate, seed),
            fifo: VecDeque::with_capacity(room),
            limits,
            shaped: A::SHAPES.then(|| {
                let room = if grows { 0 } else { limits.packets.min(PACKETS_MAX) as usize };
                Box::new((Shaped::new(seed), Pool::with_capacity(room)))
            }),
        }
    }

    /// The same queue, with what waits in it, under another guide.
    pub fn under<H: Guide<A>>(self, guide: H) -> Single<A, T, H> {
        let Single { management, fifo, limits, shaped } = self;
        Single { management: management.under(guide), fifo, limits, shaped }
    }

    /// The algorithm.
    pub fn aqm(&self) -> &A {
        &self.management.aqm
    }

    /// The algorithm, to change it.
    pub fn aqm_mut(&mut self) -> &mut A {
        &mut self.management.aqm
    }

    fn fits(&self, len: Bytes) -> bool {
        self.packets() < self.limits.packets && self.backlog() + len <= self.limits.bytes
    }

    /// The shaper; known to be none where the algorithm has nobody shaped.
    #[inline]
    fn beside(&self) -> Option<&Shaped> {
        self.shaped.as_deref().filter(|_| A::SHAPES).map(|(shaped, _)| shaped)
    }

    /// Stores a packet in the shaper, if its algorithm wants it there.
    #[inline]
    fn shape(
        &mut self,
        now: Time,
        packet: Packet,
        fits: bool,
        item: T,
        out: &mut impl Outbox<T>,
    ) -> Option<T> {
        let Some((shaped, pool)) = self.shaped.as_deref_mut().filter(|_| A::SHAPES) else {
            return Some(item);
        };
        let Management { aqm, guide, counters, .. } = &mut self.management;
        let Some(rate) = aqm.shaped(&packet) else { return Some(item) };
        aqm.on_shaped(now, &packet);
        guide.on_beside(now, &packet);
        shaped.offer(pool, (packet, item), rate, fits, counters, out);
        None
    }

    /// The next packet of the shaper, if one may leave by now.
    #[inline]
    fn take_shaped(&mut self, now: Time, out: &mut impl Outbox<T>) -> Option<Departure<T>> {
        let (shaped, pool) = self.shaped.as_deref_mut().filter(|_| A::SHAPES)?;
        let departure = shaped.take(pool, now, &mut self.management.counters, out)?;
        self.management.aqm.on_shaped_sent(now, &departure.packet);
        if self.packets() == 0 {
            self.management.guide.on_idle();
        }
        Some(departure)
    }
}

impl<A: Aqm, T: Copy, G: Guide<A>> Discipline<T> for Single<A, T, G> {
    fn enqueue(&mut self, now: Time, arrival: Arrival, item: T, out: &mut impl Outbox<T>) {
        let (packets, fits) = (self.fifo.len() as u32, self.fits(arrival.len));
        self.management.wake(now, packets);
        let packet = self.management.arrive(now, &arrival);
        let Some(item) = self.shape(now, packet, fits, item, out) else {
            return debug_assert!(self.counters().is_conserved(self.packets()));
        };
        match self.management.admit(now, &packet, packets, fits) {
            Ok(marked) => self.fifo.push_back(Slot { packet, marked, item }),
            Err(cause) => out.discarded(&packet, item, cause),
        }
        debug_assert!(self.counters().is_conserved(self.packets()));
    }

    fn dequeue(&mut self, now: Time, out: &mut impl Outbox<T>) -> Option<Departure<T>> {
        self.management.wake(now, self.fifo.len() as u32);
        if let Some(departure) = self.take_shaped(now, out) {
            debug_assert!(self.counters().is_conserved(self.packets()));
            return Some(departure);
        }
        let mut drops = 0;
        let departure = loop {
            // The head stays in the FIFO until the verdict is known, so that what the host stored is moved
            // once.
            let Some(&Slot { packet, marked, .. }) = self.fifo.front() else { break None };
            let behind = self.fifo.len() as u32 - 1;
            let verdict = self.management.release(now, &packet, marked, behind, &mut drops);
            let Slot { item, .. } = self.fifo.pop_front().expect("its head was just looked at");
            match verdict {
                Ok(marked) => {
                    break Some(Departure { packet, item, marked, sojourn: self.management.last_delay });
                }
                Err(cause) => out.discarded(&packet, item, cause),
            }
        };
        if self.fifo.is_empty() && (departure.is_some() || drops > 0) {
            self.management.emptied(now);
        }
        debug_assert!(self.counters().is_conserved(self.packets()));
        departure
    }

    fn head_arrived(&self) -> Option<Time> {
        let head = self.fifo.front().map(|slot| slot.packet.arrived);
        match self.beside() {
            Some(shaped) => shaped.due().into_iter().chain(head).min(),
            None => head,
        }
    }

    fn backlog(&self) -> Bytes {
        let shaped = self.beside().map_or(Bytes::ZERO, Shaped::backlog);
        self.management.backlog + shaped
    }

    fn packets(&self) -> u32 {
        self.fifo.len() as u32 + self.beside().map_or(0, Shaped::packets)
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

impl<A: Aqm, T: Copy, G: Guide<A>> Managed<T> for Single<A, T, G> {
    type Aqm = A;
    type Guide = G;

    fn set_aqm(&mut self, aqm: A) {
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
        self.fifo.front().map(|slot| &slot.item)
    }

    fn let_go(&mut self) {
        self.shaped.iter_mut().for_each(|beside| beside.0.let_go());
    }

    fn gauges(&self, plot: &mut dyn FnMut(&'static str, f64)) {
        self.management.aqm.gauges(plot);
        self.management.guide.gauges(plot);
    }
}

/// The single FIFO in the list of disciplines.
pub struct OneFifo;

impl Entry for OneFifo {
    const NAME: &'static str = "single";
    const SUMMARY: &'static str = "One FIFO for all packets, under one algorithm.";
    const SOURCE: &'static str = "none";
    type Params = NoParams;

    fn accept<V: Visitor>(visitor: V) -> V::Output {
        visitor.over_any::<Self>()
    }
}

impl OverAny for OneFifo {
    const FIFOS: Fifos = Fifos::One;
    type Queue<A, G, T>
        = Single<A, T, G>
    where
        A: Aqm + Clone + Send + 'static,
        G: Guide<A> + Send + 'static,
        T: Copy + Send + 'static;

    fn build<A, G, T>(_params: &NoParams, aqm: A, guide: G, setup: &Setup) -> Self::Queue<A, G, T>
    where
        A: Aqm + Clone + Send + 'static,
        G: Guide<A> + Send + 'static,
        T: Copy + Send + 'static,
    {
        Single::guided(aqm, guide, setup)
    }

    fn under<A, G, H, T>(queue: Self::Queue<A, G, T>, guide: H) -> Self::Queue<A, H, T>
    where
        A: Aqm + Clone + Send + 'static,
        G: Guide<A> + Send + 'static,
        H: Guide<A> + Send + 'static,
        T: Copy + Send + 'static,
    {
        queue.under(guide)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::shaped::tests::Odd;
    use crate::{DROPS_PER_DEQUEUE_MAX, Hosts};
    use weir_aqm::Ecn;
    use weir_aqm::algorithms::{codel, gsp, tail_drop};
    use weir_aqm::{Algorithm, Cause};

    const ARRIVAL: Arrival =
        Arrival { len: Bytes::new(1500), flow: 0, hosts: Hosts::UNKNOWN, ecn: Ecn::NotEct, nqb: false };

    fn limits(packets: u32) -> Limits {
        Limits { bytes: Bytes::new(u64::from(packets) * 1500), packets }
    }

    fn queue<A: Algorithm>(params: &A::Params, packets: u32) -> Single<A, u32> {
        Single::new(A::new(params, Time::ZERO), limits(packets), Rate::from_mbps(100), 1)
    }

    #[test]
    fn what_does_not_fit_comes_back() {
        let mut q = queue::<gsp::Gsp>(&gsp::Params::default(), 3);
        let mut back = Vec::new();
        for n in 0..5 {
            q.enqueue(Time::ZERO, ARRIVAL, n, &mut |_: &Packet, item, cause| back.push((item, cause)));
        }
        assert_eq!(back, [(3, Cause::Overflow), (4, Cause::Overflow)]);
        let mut none = |_: &Packet, _, _| panic!("nothing is discarded here");
        let order: Vec<u32> =
            std::iter::from_fn(|| q.dequeue(Time::from_nanos(9), &mut none).map(|d| d.item)).collect();
        assert_eq!(order, [0, 1, 2]);
        assert_eq!((q.backlog(), q.packets()), (Bytes::ZERO, 0));
        assert_eq!(q.counters().overflowed, 2);
    }

    #[test]
    fn flows_that_are_shaped_wait_for_their_rate_beside_the_others() {
        let mut q: Single<Odd, u32> = Single::new(Odd, limits(5), Rate::from_mbps(1000), 1);
        let mut lost = Vec::new();
        for (item, flow) in [2, 1, 3, 1, 2, 5].into_iter().enumerate() {
            let arrival = Arrival { flow, ..ARRIVAL };
            q.enqueue(Time::ZERO, arrival, item as u32, &mut |_: &Packet, item, cause| lost.push((item, cause)));
        }
        assert_eq!(lost, [(5, Cause::Overflow)], "both have the room of the queue");
        let ms = |ms| Time::ZERO + Duration::from_millis(ms);
        let left = |q: &mut Single<Odd, u32>, now| {
            let mut none = |_: &Packet, _, _| panic!("nothing is discarded here");
            std::iter::from_fn(|| q.dequeue(now, &mut none).map(|d| d.item)).collect::<Vec<u32>>()
        };
        assert_eq!(left(&mut q, ms(0)), [1, 0, 4]);
        assert_eq!((q.head_arrived(), q.packets(), q.backlog()), (Some(ms(1)), 2, Bytes::new(3000)));
        assert_eq!(left(&mut q, ms(1)), [3], "38 bytes of its quantum are left");
        q.let_go();
        assert_eq!((left(&mut q, ms(1)), q.packets(), q.head_arrived()), (vec![2], 0, None));
    }

    #[test]
    fn the_delay_in_view_is_that_of_the_last_departure_and_zero_when_empty() {
        let mut q = queue::<tail_drop::TailDrop>(&tail_drop::Params::default(), 10);
        let mut none = |_: &Packet, _, _| panic!("nothing is discarded here");
        q.enqueue(Time::ZERO, ARRIVAL, 0, &mut none);
        q.enqueue(Time::ZERO, ARRIVAL, 1, &mut none);
        let later = Time::from_nanos(5_000_000);
        assert_eq!(q.dequeue(later, &mut none).unwrap().sojourn, Duration::from_millis(5));
        assert_eq!(q.management.moment(later, 1).queue.delay, Duration::from_millis(5));
        let _ = q.dequeue(later, &mut none);
        assert_eq!(q.management.moment(later, 0).queue.delay, Duration::ZERO);
    }

    #[test]
    fn drops_in_one_dequeue_are_limited() {
        // With an interval of 10 us CoDel wants every stale packet at once.
        let params = codel::Params {
            interval: Duration::from_micros(10),
            target: Duration::from_micros(1),
            ..codel::Params::default()
        };
        let mut q = queue::<codel::CoDel>(&params, 2000);
        let mut drops = 0;
        let mut count = |_: &Packet, _, _| drops += 1;
        for n in 0..2000 {
            q.enqueue(Time::ZERO, ARRIVAL, n, &mut count);
        }
        let hours = Time::ZERO + Duration::from_secs(7200);
        for second in 0..3 {
            let _ = q.dequeue(hours + Duration::from_secs(second), &mut count);
        }
        assert_eq!(drops, DROPS_PER_DEQUEUE_MAX + 1);
    }
}
