//! What an algorithm decides about the packets of one FIFO, and the books of it, wherever the packets lie.

use crate::settle::{Decision, random_bits};
use crate::{Arrival, Counters};
use rand_xoshiro::SplitMix64;
use rand_xoshiro::rand_core::SeedableRng;
use weir_aqm::{Aqm, Cause, Guide, Moment, Packet, View};
use weir_units::{Bytes, Duration, Rate, Time};

/// An algorithm `A` under the guide `G`, with what it is told of its FIFO. Whoever holds the packets says
/// with each call how many there are, stores what is admitted, and takes out what is released.
pub(crate) struct Management<A, G> {
    pub aqm: A,
    pub guide: G,
    /// What the algorithm is told about the link.
    pub rate: Rate,
    pub backlog: Bytes,
    /// How long the packet waited that was last at the head.
    pub last_delay: Duration,
    pub counters: Counters,
    dice: SplitMix64,
}

impl<A: Aqm, G: Guide<A>> Management<A, G> {
    /// Of an empty FIFO.
    pub fn new(aqm: A, guide: G, rate: Rate, seed: u64) -> Self {
        Management {
            aqm,
            guide,
            rate,
            backlog: Bytes::ZERO,
            last_delay: Duration::ZERO,
            counters: Counters::default(),
            dice: SplitMix64::seed_from_u64(seed),
        }
    }

    /// The same under another guide.
    pub fn under<H>(self, guide: H) -> Management<A, H> {
        let Management { aqm, guide: _, rate, backlog, last_delay, counters, dice } = self;
        Management { aqm, guide, rate, backlog, last_delay, counters, dice }
    }

    #[inline]
    pub fn moment(&mut self, now: Time, packets: u32) -> Moment {
        let queue = View { backlog: self.backlog, packets, delay: self.last_delay, rate: self.rate };
        Moment::new(now, queue, random_bits::<A>(&mut self.dice))
    }

    /// Runs the wakeups that are due. Only few algorithms have any.
    #[inline]
    pub fn wake(&mut self, now: Time, packets: u32) {
        if self.aqm.next_wakeup().is_some_and(|due| due <= now) {
            let m = self.moment(now, packets);
            self.guide.on_wakeup(&mut self.aqm, &m);
        }
    }

    /// Numbers an arrival.
    #[inline]
    pub fn arrive(&mut self, now: Time, arrival: &Arrival) -> Packet {
        self.counters.arrive(now, arrival)
    }

    /// Decides about an arrival that finds so many packets: it is to be stored, with a mark or without, or
    /// discarded.
    #[inline]
    pub fn admit(&mut self, now: Time, packet: &Packet, packets: u32, fits: bool) -> Result<bool, Cause> {
        let m = self.moment(now, packets);
        let outcome = self.decision().admit(fits, || m.queue, &m, packet);
        if outcome.is_ok() {
            self.backlog += packet.len;
        }
        outcome
    }

    /// Decides about the head, which counts as taken out already: it leaves, with a mark or without, or is
    /// discarded. So many packets stay behind it. `drops` counts the heads that were discarded in the
    /// same dequeue.
    #[inline]
    pub fn release(
        &mut self,
        now: Time,
        packet: &Packet,
        was_marked: bool,
        behind: u32,
        drops: &mut u32,
    ) -> Result<bool, Cause> {
        self.backlog -= packet.len;
        let m = self.moment(now, behind);
        let delay = now.since(packet.arrived);
        self.last_delay = delay;
        let whole = || View { delay, ..m.queue };
        self.decision().release(drops, whole, &m, packet, was_marked)
    }

    #[inline]
    fn decision(&mut self) -> Decision<'_, A, G> {
        Decision { aqm: &mut self.aqm, guide: &mut self.guide, counters: &mut self.counters }
    }

    /// A dequeue took packets out and left none.
    #[inline]
    pub fn emptied(&mut self, now: Time) {
        self.last_delay = Duration::ZERO;
        self.guide.on_empty(&mut self.aqm, true, now);
    }

    /// The algorithm discarded a packet from within the queue; so many packets stay.
    pub fn discard_stored(&mut self, now: Time, packet: &Packet, stay: u32) {
        self.backlog -= packet.len;
        self.counters.dropped_out += 1;
        let m = self.moment(now, stay);
        self.guide.on_shed(&mut self.aqm, &m, packet);
    }

    /// A stored packet was discarded for lack of room.
    pub fn shed(&mut self, packet: &Packet) {
        self.backlog -= packet.len;
        self.counters.shed += 1;
    }

    /// The set point in force, where there is one.
    pub fn setpoint(&mut self) -> Option<Duration> {
        self.aqm.setpoint().map(|s| s.get())
    }
}
