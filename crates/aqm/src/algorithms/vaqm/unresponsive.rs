//! Flows that do not respond, each held to a rate that does not fill the bottleneck.

use super::flights::Flights;
use core::num::NonZeroU32;
use weir_units::{Bytes, Duration, Time};

/// Flows that are held at once. A user with more of them is not worth more memory.
const HELD: usize = 2;
/// What may pass at once beyond the rate, in time: what a radio link delivers in a burst.
const DEPTH: Duration = Duration::from_millis(20);
/// A flow that sends less than four fifths of what it may for this long is released.
const RELEASE: Duration = Duration::from_secs(10);
/// What is known of the bottleneck's rate counts for this long.
const KNOWN: Duration = Duration::from_secs(10);
/// No flow is held to less, in bytes a second: a segment in a tenth of a second.
const LEAST: u64 = 15_000;

/// A flow and what it may send, in bytes a second.
#[derive(Clone, Copy, Debug)]
struct RateLimit {
    flow: u32,
    rate: NonZeroU32,
    /// Bytes that may pass now, and when that was so.
    credit: u32,
    at: Time,
    /// When the rate is looked at again.
    next: Time,
    /// When it last sent four fifths of what it may.
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
    flows: [Option<RateLimit>; HELD],
    /// The most that passed while nothing queued, in bytes a second, and when.
    calm: Option<Passed>,
    /// What passed until then, of which it is not known yet whether it filled the bottleneck.
    unconfirmed: Option<Passed>,
    /// Packets of theirs that were discarded.
    discarded: u64,
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

    /// Whether a flow is held.
    pub fn holds(&self, flow: u32) -> bool {
        self.flows.iter().flatten().any(|hold| hold.flow == flow)
    }

    /// How many are held.
    pub fn count(&self) -> usize {
        self.flows.iter().flatten().count()
    }

    /// Packets of flows that were held and sent more than they might.
    pub fn discarded(&self) -> u64 {
        self.discarded
    }

    /// Begins to hold a flow: to its share of what the bottleneck once took, or of what is sent now.
    pub fn begin(&mut self, flow: u32, now: Time, flights: &Flights) {
        let rate = self.share(flights, now);
        let free = self.flows.iter_mut().find(|place| place.is_none());
        if let Some(place) = free {
            *place = Some(RateLimit { flow, rate, credit: 0, at: now, next: now, busy: now });
        }
    }

    /// An equal share of what once did not fill the bottleneck, or of what passes now.
    fn share(&self, flights: &Flights, now: Time) -> NonZeroU32 {
        let whole = self.room().unwrap_or(flights.rate());
        rate_of((whole / flights.active(now).max(1)).max(LEAST))
    }

    /// Whether a packet may pass.
    pub fn passes(&mut self, flow: u32, len: Bytes, now: Time) -> bool {
        let Some(hold) = self.flows.iter_mut().flatten().find(|hold| hold.flow == flow) else { return true };
        let earned = u128::from(hold.rate.get()) * u128::from(now.since(hold.at).as_nanos()) / 1_000_000_000;
        let depth = (u64::from(hold.rate.get()) * DEPTH.as_nanos() / 1_000_000_000).max(2 * len.get());
        let credit = (u64::from(hold.credit) + earned.min(u128::from(depth)) as u64).min(depth);
        // What earns less than a byte goes on earning.
        hold.at = if earned > 0 { now } else { hold.at };
        let passes = credit >= len.get();
        hold.credit = (credit - if passes { len.get() } else { 0 }) as u32;
        self.discarded += u64::from(!passes);
        passes
    }

    /// Looks at the rates anew, each once in `round`: a tenth less while there is a queue to which a held
    /// flow contributes the most, a little more while there is none, up to its share. Releases who sends less
    /// than he may.
    pub fn look(&mut self, now: Time, flights: &Flights, round: Duration, rtt: Duration, queued: bool) {
        let share = self.share(flights, now);
        for place in &mut self.flows {
            let Some(hold) = place else { continue };
            if now < hold.next {
                continue;
            }
            hold.next = now + round;
            // What it sends here is not what passes: its part of the queue is what it may send.
            let rate = hold.rate.get();
            let part = u128::from(rate) * u128::from(rtt.as_nanos()) / 1_000_000_000;
            let contributes = part >= u128::from(flights.largest_but(hold.flow, now, rtt));
            hold.rate = match (queued, contributes) {
                (true, true) => rate_of(u64::from(rate - rate / 10).max(LEAST)),
                (true, false) => hold.rate,
                (false, _) => hold.rate.saturating_add(rate / 64).min(share.max(hold.rate)),
            };
            if flights.rate_of(hold.flow) * 5 >= u64::from(hold.rate.get()) * 4 {
                hold.busy = now;
            }
            if now.since(hold.busy) > RELEASE {
                *place = None;
            }
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
            flights.sent(1, Bytes::new(bytes), ms(n), RTT);
            held.look(ms(n), flights, Duration::from_millis(200), RTT, queued);
            passed += if held.passes(1, Bytes::new(bytes), ms(n)) { bytes } else { 0 };
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
        held.begin(1, ms(1000), &flights);
        assert!(held.holds(1) && !held.holds(2) && held.count() == 1);
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
        assert_eq!(held.count(), 0);
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
