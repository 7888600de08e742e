//! Flows that do not respond: all together are held to a rate that does not fill the bottleneck.

use super::flights::{Bin, Flights};
use super::hashes::Hashes;
use core::num::NonZeroU32;
use weir_units::{Bytes, Duration, Rate, Time};

/// What may pass at once beyond the rate, in time, where nobody can hold packets back: what a radio link
/// delivers in a burst.
const DEPTH: Duration = Duration::from_millis(20);
/// When they send less than four fifths of what they may for this long, all are released.
const RELEASE: Duration = Duration::from_secs(10);
/// What is known of the bottleneck's rate counts for this long.
const KNOWN: Duration = Duration::from_secs(10);
/// They are not held to less, in bytes a second: a segment in a tenth of a second.
const LEAST: u64 = 15_000;

/// What all that are held may send.
#[derive(Clone, Copy, Debug)]
struct RateLimit {
    /// In bytes a second.
    rate: NonZeroU32,
    /// Bytes that may pass now, and when that was so, where nobody can hold packets back.
    credit: u32,
    at: Time,
    /// When the rate is looked at again.
    next: Time,
    /// When they last sent four fifths of what they may.
    busy: Time,
}

/// What passed, in bytes a second, and when. Never nothing, so that it takes little room.
#[derive(Clone, Copy, Debug)]
struct Passed {
    rate: NonZeroU32,
    at: Time,
}

fn rate_of(bytes: u64) -> NonZeroU32 {
    NonZeroU32::new(u32::try_from(bytes).unwrap_or(u32::MAX)).unwrap_or(NonZeroU32::MIN)
}

/// Flows that do not respond.
#[derive(Clone, Debug, Default)]
pub(super) struct UnresponsiveFlows {
    /// What they may send, while there are any.
    limit: Option<RateLimit>,
    /// The most that passed while nothing queued, in bytes a second, and when.
    calm: Option<Passed>,
    /// What passed until then, of which it is not known yet whether it filled the bottleneck.
    unconfirmed: Option<Passed>,
    /// Whether all are held that show nothing.
    silent: bool,
    /// Packets of theirs that were discarded here.
    discarded: u32,
    /// What they send.
    sent: Bin,
    /// Those that were judged one by one.
    singled: Hashes<2>,
}

impl UnresponsiveFlows {
    /// A round trip of `rtt` found no queue: what had passed when its packet left did not fill the
    /// bottleneck. Of what passes now the next ones will tell.
    pub fn calm(&mut self, now: Time, rtt: Duration, rate: u64) {
        let passes = Passed { rate: rate_of(rate), at: now };
        let Some(passed) = self.unconfirmed else {
            self.unconfirmed = Some(passes);
            return;
        };
        if now.since(passed.at) < rtt {
            return;
        }
        if self.calm.is_none_or(|most| passed.rate >= most.rate || now.since(most.at) > KNOWN) {
            self.calm = Some(Passed { at: now, ..passed });
        }
        self.unconfirmed = Some(passes);
    }

    /// A round trip found a queue, which somebody made who passed since the last one without.
    pub fn queued(&mut self) {
        self.unconfirmed = None;
    }

    /// The most that is known not to fill the bottleneck.
    pub fn room(&self) -> Option<u64> {
        self.calm.map(|passed| u64::from(passed.rate.get()))
    }

    /// Whether a flow is held, by the flows that show something.
    #[inline]
    pub fn holds(&self, flow: u32, flights: &Flights) -> bool {
        self.limit.is_some() && self.is_meant(flow, flights)
    }

    /// Whether a flow is one of those that are held while there is a limit.
    #[inline]
    fn is_meant(&self, flow: u32, flights: &Flights) -> bool {
        self.singled.contains(flow) || (self.silent && !flights.is_heard(flow))
    }

    /// What those that are held may send, if there are any.
    #[inline]
    pub fn rate(&self) -> Option<Rate> {
        self.limit.map(|limit| Rate::from_bps(8 * u64::from(limit.rate.get())))
    }

    /// Packets of flows that were held that were discarded, as nobody could hold them back.
    pub fn discarded(&self) -> u32 {
        self.discarded
    }

    /// Holds a flow, or all that show nothing.
    pub fn begin(&mut self, flow: Option<u32>, now: Time, flights: &Flights) {
        match flow {
            Some(flow) => self.singled.insert(flow),
            None => self.silent = true,
        }
        if self.limit.is_none() {
            let rate = self.share(flights, now);
            self.limit = Some(RateLimit { rate, credit: 0, at: now, next: now, busy: now });
        }
    }

    /// What one flow more beside those that are free would get of what once did not fill the bottleneck, or
    /// of what passes now: however many are held, they do not get more.
    fn share(&self, flights: &Flights, now: Time) -> NonZeroU32 {
        let whole = self.room().unwrap_or(flights.rate());
        let free = flights.active(now, |flow| self.is_meant(flow, flights));
        rate_of((whole / (free + 1)).max(LEAST))
    }

    /// A packet comes of a flow that is held.
    pub fn came(&mut self, len: Bytes, now: Time) {
        self.sent.add(now, len);
    }

    /// Whether a packet of a flow that is held may pass, where nobody can hold it back.
    pub fn passes(&mut self, len: Bytes, now: Time) -> bool {
        let Some(limit) = &mut self.limit else { return true };
        let earned = u128::from(limit.rate.get()) * u128::from(now.since(limit.at).as_nanos()) / 1_000_000_000;
        let depth = (u64::from(limit.rate.get()) * DEPTH.as_nanos() / 1_000_000_000).max(2 * len.get());
        let credit = (u64::from(limit.credit) + earned.min(u128::from(depth)) as u64).min(depth);
        // What earns less than a byte goes on earning.
        limit.at = if earned > 0 { now } else { limit.at };
        let passes = credit >= len.get();
        limit.credit = (credit - if passes { len.get() } else { 0 }) as u32;
        self.discarded = self.discarded.wrapping_add(u32::from(!passes));
        passes
    }

    /// Looks at the rate anew, once in `round`: a tenth less while there is a queue to which those that are
    /// held contribute more than any other flow, a little more while there is none, up to their share.
    /// Releases them when they send less than they may.
    pub fn look(&mut self, now: Time, flights: &Flights, round: Duration, rtt: Duration, queued: bool) {
        let Some(mut limit) = self.limit.filter(|limit| now >= limit.next) else { return };
        limit.next = now + round;
        // What they send here is not what passes: their part of the queue is what they may send.
        let rate = limit.rate.get();
        let part = u128::from(rate) * u128::from(rtt.as_nanos()) / 1_000_000_000;
        let contribute = part >= u128::from(flights.largest(now, rtt, |flow| self.holds(flow, flights)));
        limit.rate = match (queued, contribute) {
            (true, true) => rate_of(u64::from(rate - rate / 10).max(LEAST)),
            (true, false) => limit.rate,
            (false, _) => {
                limit.rate.saturating_add(rate / 64).min(self.share(flights, now).max(limit.rate))
            }
        };
        if self.sent.rate(now) * 5 >= u64::from(limit.rate.get()) * 4 {
            limit.busy = now;
        }
        self.limit = Some(limit);
        if now.since(limit.busy) > RELEASE {
            (self.limit, self.silent, self.singled) = (None, false, Hashes::default());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const RTT: Duration = Duration::from_millis(100);

    fn ms(ms: u64) -> Time {
        Time::ZERO + Duration::from_millis(ms)
    }

    /// What passes in a second of a flow that sends `bytes` each millisecond.
    fn passed(held: &mut UnresponsiveFlows, flights: &mut Flights, from: u64, bytes: u64, queued: bool) -> u64 {
        let mut passed = 0;
        for n in from..from + 1000 {
            held.came(Bytes::new(bytes), ms(n));
            held.look(ms(n), flights, Duration::from_millis(200), RTT, queued);
            passed += if held.passes(Bytes::new(bytes), ms(n)) { bytes } else { 0 };
        }
        passed
    }

    #[test]
    fn a_flow_is_held_to_its_share_then_to_less_and_released_when_it_is_modest() {
        let (mut held, mut flights) = (UnresponsiveFlows::default(), Flights::default());
        [0, 100].into_iter().for_each(|at| held.calm(ms(at), RTT, 2_000_000));
        flights.note(2, Bytes::new(1000), ms(0), RTT);
        for n in 0..1000 {
            flights.sent(1, Bytes::new(5000), ms(n), RTT);
            flights.passed(Bytes::new(5000), ms(n));
            flights.note(2, Bytes::new(1000), ms(n), RTT);
        }
        held.begin(Some(1), ms(1000), &flights);
        assert!(held.holds(1, &flights) && !held.holds(2, &flights));
        // A share of one million, a tenth less five times in a second.
        let first = passed(&mut held, &mut flights, 1000, 5000, true);
        assert!((650_000..900_000).contains(&first), "{first}");
        let second = passed(&mut held, &mut flights, 2000, 5000, true);
        assert!(second < first * 7 / 10, "{second}");
        let calm = passed(&mut held, &mut flights, 3000, 5000, false);
        assert!(calm > second * 8 / 10 && held.discarded() > 1000, "{calm}");
        for s in 4..16 {
            passed(&mut held, &mut flights, s * 1000, 20, false);
        }
        assert!(held.rate().is_none() && !held.holds(1, &flights));
    }

    #[test]
    fn however_many_are_held_their_rate_is_that_of_one_flow() {
        let (mut held, mut flights) = (UnresponsiveFlows::default(), Flights::default());
        [0, 100].into_iter().for_each(|at| held.calm(ms(at), RTT, 3_000_000));
        (0..2).for_each(|flow| flights.note(flow, Bytes::new(1000), ms(1000), RTT));
        held.begin(None, ms(1000), &flights);
        (100..1000).for_each(|flow| held.begin(Some(flow), ms(1000), &flights));
        assert_eq!(held.rate(), Some(Rate::from_bps(8_000_000)));
        assert!((100..9000).all(|flow| held.holds(flow, &flights)));
        assert!((0..2).all(|flow| flights.is_heard(flow)));
    }

    #[test]
    fn what_fills_the_bottleneck_is_not_taken_for_its_room() {
        let mut held = UnresponsiveFlows::default();
        for at in (0..1000).step_by(10) {
            held.calm(ms(at), RTT, 1_000_000);
        }
        // A flood begins: for a round trip those that come back still tell of the time before.
        for at in (1000..1100).step_by(10) {
            held.calm(ms(at), RTT, 9_000_000);
        }
        held.queued();
        assert_eq!(held.room(), Some(1_000_000));
        // With no queue after a round trip, the bottleneck takes it.
        for at in (1200..1400).step_by(10) {
            held.calm(ms(at), RTT, 9_000_000);
        }
        assert_eq!(held.room(), Some(9_000_000));
    }
}
