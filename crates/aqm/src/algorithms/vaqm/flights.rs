//! The flows with the most in flight, and which of them do not answer.

use super::hashes::Hashes;
use core::num::NonZeroU32;
use weir_units::{Bytes, Duration, Time};

/// Flows that are remembered. Those beyond are smaller than these, and none of the largest.
const FLOWS: usize = 8;
/// A flow that was not heard of for so long is over.
const FORGOTTEN: Duration = Duration::from_secs(2);
/// What a flow sends is counted over this time.
const BIN: Duration = Duration::from_millis(100);
/// After a signal a flow has no more than this share of what it had before, in tenths.
const ANSWER_TENTHS: u64 = 9;
/// A flow with less than this part of the bytes is not judged.
const SMALL_PART: u64 = 20;
/// A flow that did not answer so many signals more than it answered does not respond.
const STRIKES: u8 = 3;
/// A flow that showed something is known to for this long, and for at most twice as long.
const HEARD: Duration = Duration::from_secs(5);

/// A flow that has half as much again as ever before, within a round trip, is in slow start: in halves of
/// what it had.
const STARTS_HALVES: u64 = 3;

/// Bytes in flight by flow.
#[derive(Clone, Debug, Default)]
#[repr(C)]
pub(super) struct Flights {
    /// Whose the places are or were: beside each other, so that the search for a flow reads one line of
    /// memory.
    hashes: [u32; FLOWS],
    all: Bin,
    /// What those pass that show nothing, all together.
    silent: Bin,
    crowd: Crowd,
    /// A flow that is not remembered, with how much more of it passed than of others: a large one finds a
    /// place.
    candidate: Option<(u32, NonZeroU32)>,
    trial: Option<Trial>,
    /// Since when what flows have is compared with what they had before.
    round: Time,
    flows: [Option<Flight>; FLOWS],
    /// When the last signals of the flows in these places will show, in milliseconds of a clock that turns
    /// over: users are many.
    shows: [u32; FLOWS],
    /// Flows that showed what they have in flight, lately and before; since when it is lately.
    heard: [Hashes<4>; 2],
    turned: Time,
}

/// The flows that show nothing, judged as one: there may be too many to judge each.
#[derive(Clone, Copy, Debug, Default)]
struct Crowd {
    /// Until when it may answer, and what it sent when one of its flows was signalled.
    until: Time,
    rate: u32,
    is_on_trial: bool,
    strikes: u8,
}

fn millis(time: Time) -> u32 {
    (time.as_nanos() / 1_000_000) as u32
}

#[derive(Clone, Copy, Debug)]
struct Flight {
    at: Time,
    sent: Bin,
    /// What it has in flight, where somebody knows.
    told: u32,
    is_told: bool,
    /// The most that it had at the end of a round trip, in KiB.
    most: u16,
    strikes: u8,
}

impl Flight {
    fn new(told: Option<u32>, at: Time, sent: Bin) -> Flight {
        Flight { at, sent, told: told.unwrap_or(0), is_told: told.is_some(), most: 0, strikes: 0 }
    }
}

/// What passes in a time.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Bin {
    from: Time,
    bytes: u32,
    /// Bytes in a second, over the last whole bin.
    rate: u32,
}

/// A flow that was signalled and has some time to answer.
#[derive(Clone, Copy, Debug)]
struct Trial {
    flow: u32,
    until: Time,
    flight: u32,
    /// Never nothing, so that it takes little room.
    rate: NonZeroU32,
}

impl Bin {
    pub fn add(&mut self, now: Time, len: Bytes) {
        let passed = now.since(self.from);
        if passed >= BIN {
            let rate = u64::from(self.bytes) * 1_000_000 / (passed.as_nanos() / 1_000).max(1);
            *self = Bin { from: now, bytes: 0, rate: u32::try_from(rate).unwrap_or(u32::MAX) };
        }
        self.bytes = self.bytes.saturating_add(len.get() as u32);
    }

    /// Bytes in a second lately.
    pub fn rate(&self, now: Time) -> u64 {
        if now.since(self.from) < FORGOTTEN { u64::from(self.rate) } else { 0 }
    }
}

impl Flight {
    fn is_current(&self, now: Time) -> bool {
        now.since(self.at) < FORGOTTEN
    }

    /// What it has in flight: what was told, or what it sends in a round trip (Little's law).
    fn size(&self, rtt: Duration) -> u64 {
        if self.is_told {
            return u64::from(self.told);
        }
        (u128::from(self.sent.rate) * u128::from(rtt.as_nanos()) / 1_000_000_000) as u64
    }
}

impl Flights {
    /// A flow has so much in flight.
    pub fn note(&mut self, flow: u32, bytes: Bytes, now: Time, rtt: Duration) {
        if now.since(self.turned) >= HEARD {
            let lately = if now.since(self.turned) < HEARD + HEARD { self.heard[0] } else { Hashes::default() };
            (self.heard, self.turned) = ([Hashes::default(), lately], now);
        }
        self.heard[0].insert(flow);
        let told = u32::try_from(bytes.get()).unwrap_or(u32::MAX);
        if let Some(known) = self.find(flow) {
            (known.told, known.is_told, known.at) = (told, true, now);
            // Whoever is in slow start has twice as much when the signal arrives: what it takes back from
            // there is its answer.
            if let Some(trial) = self.trial.as_mut().filter(|trial| trial.flow == flow) {
                trial.flight = trial.flight.max(told);
            }
            return;
        }
        self.enter(flow, Flight::new(Some(told), now, Bin { from: now, ..Bin::default() }), rtt);
    }

    /// A packet goes on to the bottleneck.
    pub fn passed(&mut self, len: Bytes, now: Time) {
        self.all.add(now, len);
    }

    /// Whether a flow showed lately what it has in flight.
    pub fn is_heard(&self, flow: u32) -> bool {
        self.heard.iter().any(|heard| heard.contains(flow))
    }

    /// A packet of a flow comes, whether it goes on or not.
    pub fn sent(&mut self, flow: u32, len: Bytes, now: Time, rtt: Duration) {
        let place = self.place(flow);
        let is_told = place.and_then(|at| self.flows[at]).is_some_and(|known| known.is_told);
        if !is_told && !self.is_heard(flow) {
            self.silent.add(now, len);
        }
        if let Some(at) = place {
            // What has shown stays so when the clock turns over.
            if !self.is_awaited(at, now) {
                self.shows[at] = millis(now);
            }
            self.flows[at].iter_mut().for_each(|known| {
                known.at = now;
                known.sent.add(now, len);
            });
            return;
        }
        let bytes = len.get() as u32;
        let count = match self.candidate {
            Some((same, count)) if same == flow => count.get().saturating_add(bytes),
            Some((other, count)) if count.get() > bytes => {
                self.candidate = NonZeroU32::new(count.get() - bytes).map(|left| (other, left));
                return;
            }
            _ => bytes,
        };
        self.candidate = NonZeroU32::new(count).map(|count| (flow, count));
        // Until more is known it has in flight what was counted.
        let guess = u128::from(count) * 1_000_000_000 / u128::from(rtt.as_nanos().max(1));
        let sent = Bin { from: now, bytes, rate: u32::try_from(guess).unwrap_or(u32::MAX) };
        if self.enter(flow, Flight::new(None, now, sent), rtt) {
            self.candidate = None;
        }
    }

    /// The place of a flow that has one.
    fn place(&self, flow: u32) -> Option<usize> {
        (0..FLOWS).find(|at| self.hashes[*at] == flow && self.flows[*at].is_some())
    }

    fn find(&mut self, flow: u32) -> Option<&mut Flight> {
        let at = self.place(flow)?;
        self.flows[at].as_mut()
    }

    /// Whether the flow in a place was signalled so lately that it cannot show yet.
    fn is_awaited(&self, at: usize, now: Time) -> bool {
        (self.shows[at].wrapping_sub(millis(now)) as i32) > 0
    }

    /// The smallest makes room; one that is over, and a free place, is smaller than any. Whether it found a
    /// place.
    fn enter(&mut self, flow: u32, new: Flight, rtt: Duration) -> bool {
        let size = |f: &Option<Flight>| f.filter(|f| f.is_current(new.at)).map(|f| f.size(rtt));
        let at = (0..FLOWS).min_by_key(|at| size(&self.flows[*at]));
        let Some(at) = at.filter(|at| size(&self.flows[*at]) < Some(new.size(rtt))) else {
            return false;
        };
        (self.flows[at], self.hashes[at], self.shows[at]) = (Some(new), flow, millis(new.at));
        true
    }

    /// Flows that send now, apart from those that are `held` anyhow, with their places.
    fn free(&self, now: Time, held: impl Fn(u32) -> bool) -> impl Iterator<Item = (usize, &Flight)> {
        let places = self.flows.iter().enumerate().filter_map(|(at, place)| Some((at, place.as_ref()?)));
        places.filter(move |(at, f)| f.is_current(now) && !held(self.hashes[*at]))
    }

    /// How many flows have more in flight than this one, apart from those that were signalled lately or are
    /// `held`; one that is not known has nothing.
    pub fn larger_than(&self, flow: u32, now: Time, rtt: Duration, held: impl Fn(u32) -> bool) -> usize {
        let own = self.size_of(flow, now, rtt);
        let larger =
            self.free(now, held).filter(|(at, f)| self.hashes[*at] != flow && f.size(rtt) > own);
        larger.filter(|(at, _)| !self.is_awaited(*at, now)).count()
    }

    /// Whether a flow's last signal has shown, so that another one makes sense. While a larger flow is about
    /// to make room, only those with two thirds of the mean in flight pay as well: a small one would pay for
    /// the queue of the large one. Where there are more flows than can be remembered, those beyond pay once
    /// all of these were told.
    pub fn may_pay(&self, flow: u32, now: Time, rtt: Duration, held: impl Fn(u32) -> bool) -> bool {
        if self.place(flow).is_some_and(|at| self.is_awaited(at, now)) {
            return false;
        }
        let own = self.size_of(flow, now, rtt);
        let (mut count, mut told, mut total, mut makes_room) = (0, 0, 0, false);
        for (at, other) in self.free(now, held) {
            let (size, is_told) = (other.size(rtt), self.is_awaited(at, now));
            (count, told, total) = (count + 1, told + u64::from(is_told), total + size);
            makes_room |= is_told && size > own;
        }
        // All that are remembered were told, and a queue stands: those beyond make it, each by the packets
        // that it sends.
        let is_beyond = own == 0 && told == FLOWS as u64;
        !makes_room || 3 * own * count >= 2 * total || is_beyond
    }

    /// What a flow has in flight; nothing, where it is not known.
    pub fn size_of(&self, flow: u32, now: Time, rtt: Duration) -> u64 {
        let known = self.place(flow).and_then(|at| self.flows[at]).filter(|f| f.is_current(now));
        known.map_or(0, |f| f.size(rtt))
    }

    /// The most that a flow has in flight, apart from those that are `held`.
    pub fn largest(&self, now: Time, rtt: Duration, held: impl Fn(u32) -> bool) -> u64 {
        self.free(now, held).map(|(_, f)| f.size(rtt)).max().unwrap_or(0)
    }

    /// What all have in flight.
    pub fn total(&self, now: Time, rtt: Duration) -> u64 {
        self.flows.iter().flatten().filter(|f| f.is_current(now)).map(|f| f.size(rtt)).sum()
    }

    /// Whether the flow with the most in flight is in slow start: after a round trip it has half as much
    /// again as it ever had. Who comes back from a loss, or from a pause, had as much before; who was
    /// signalled lately knows. `None` within a round trip.
    pub fn starts(&mut self, now: Time, rtt: Duration) -> Option<bool> {
        if now.since(self.round) < rtt {
            return None;
        }
        self.round = now;
        let mut largest = (0, false);
        for at in 0..FLOWS {
            let is_told = self.is_awaited(at, now);
            let Some(flow) = self.flows[at].as_mut().filter(|f| f.is_current(now)) else { continue };
            let (size, most) = (flow.size(rtt), u64::from(flow.most) << 10);
            largest = largest.max((size, most > 0 && size * 2 >= most * STARTS_HALVES && !is_told));
            flow.most = flow.most.max(u16::try_from(size >> 10).unwrap_or(u16::MAX));
        }
        Some(largest.1)
    }

    /// Flows that send now, apart from those that are `held`.
    pub fn active(&self, now: Time, held: impl Fn(u32) -> bool) -> u64 {
        self.free(now, held).count() as u64
    }

    /// Whether there may be no other flows: what leaves one that is remembered may come to one that is not.
    pub fn has_all(&self, now: Time) -> bool {
        self.active(now, |_| false) < FLOWS as u64
    }

    /// Bytes in a second that went on lately.
    pub fn rate(&self) -> u64 {
        u64::from(self.all.rate)
    }

    /// A flow was signalled: that will show after a time, and one at a time is judged after `patience`.
    pub fn signalled(&mut self, flow: u32, now: Time, shows: Duration, patience: Duration, rtt: Duration) {
        let (all, on_trial) = (self.rate(), self.trial.is_some());
        if !self.crowd.is_on_trial && !self.is_heard(flow) {
            let (until, rate) = (now + patience, self.silent.rate);
            self.crowd = Crowd { until, rate, is_on_trial: true, ..self.crowd };
        }
        let Some(at) = self.place(flow) else { return };
        self.shows[at] = millis(now + shows);
        let Some(known) = self.flows[at] else { return };
        if !on_trial && u64::from(known.sent.rate) * SMALL_PART >= all {
            let flight = u32::try_from(known.size(rtt)).unwrap_or(u32::MAX);
            let rate = NonZeroU32::new(known.sent.rate).unwrap_or(NonZeroU32::MIN);
            self.trial = Some(Trial { flow, until: now + patience, flight, rate });
        }
    }

    /// Judges the flow whose time is over; returns one that does not respond. `room` is what is known not to
    /// fill the bottleneck: who shows nothing, sends more than that and more than all others is believed not
    /// to respond at once.
    pub fn judge(&mut self, now: Time, rtt: Duration, room: Option<u64>) -> Option<u32> {
        let trial = self.trial.filter(|trial| now >= trial.until)?;
        let all = self.rate();
        self.trial = None;
        let known = self.find(trial.flow).filter(|f| f.is_current(now))?;
        let less = |now: u64, then: u64| now * 10 <= then * ANSWER_TENTHS;
        let rate = u64::from(known.sent.rate);
        if less(known.size(rtt), u64::from(trial.flight)) || less(rate, u64::from(trial.rate.get())) {
            known.strikes = known.strikes.saturating_sub(1);
            return None;
        }
        let floods = !known.is_told && 2 * rate > all && room.is_some_and(|room| rate > room);
        known.strikes = if floods { STRIKES } else { known.strikes + 1 };
        if known.strikes < STRIKES {
            return None;
        }
        known.strikes = 0;
        Some(trial.flow)
    }

    /// Judges those that show nothing as one, when one of them was signalled and its time is over. Whether
    /// they do not respond: three times they did not send less, while they sent more than what is known not
    /// to fill the bottleneck, and more than all others together.
    pub fn judge_crowd(&mut self, now: Time, room: Option<u64>) -> bool {
        if !self.crowd.is_on_trial || now < self.crowd.until {
            return false;
        }
        self.crowd.is_on_trial = false;
        let rate = self.silent.rate(now);
        let fills = 2 * rate > self.rate() && room.is_some_and(|room| rate > room);
        if !fills || rate * 10 <= u64::from(self.crowd.rate) * ANSWER_TENTHS {
            self.crowd.strikes = self.crowd.strikes.saturating_sub(1);
            return false;
        }
        self.crowd.strikes += 1;
        let responds_not = self.crowd.strikes >= STRIKES;
        self.crowd.strikes %= STRIKES;
        responds_not
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::vec::Vec;

    const RTT: Duration = Duration::from_millis(100);

    fn ms(ms: u64) -> Time {
        Time::ZERO + Duration::from_millis(ms)
    }

    fn larger(flights: &Flights, flow: u32, s: u64) -> usize {
        flights.larger_than(flow, ms(1000 * s), RTT, |_| false)
    }

    #[test]
    fn flows_are_ranked_and_those_that_are_over_leave() {
        let mut flights = Flights::default();
        assert_eq!(larger(&flights, 1, 0), 0);
        for flow in 0..100u32 {
            flights.note(flow, Bytes::new(u64::from(flow * 37 % 100) * 1000), ms(0), RTT);
        }
        // 37 * 27 = 999 and 37 * 54 = 1998: the two largest of the hundred.
        assert_eq!((larger(&flights, 27, 0), larger(&flights, 54, 0)), (0, 1));
        assert_eq!(larger(&flights, 0, 0), FLOWS);
        assert_eq!(flights.larger_than(0, ms(0), RTT, |flow| flow == 27), FLOWS - 1);
        flights.note(54, Bytes::new(1_000_000), ms(1000), RTT);
        assert_eq!((larger(&flights, 27, 1), larger(&flights, 54, 1)), (1, 0));
        assert_eq!((larger(&flights, 27, 2), larger(&flights, 3, 3)), (1, 0));
    }

    #[test]
    fn what_shows_nothing_is_ranked_by_what_it_sends_in_a_round_trip() {
        let mut flights = Flights::default();
        for flow in 0..20 {
            flights.note(flow, Bytes::new(50_000), ms(0), RTT);
        }
        for n in 0..1000 {
            // 10 Mbit/s among mice: 125 kB in 100 ms.
            flights.sent(99, Bytes::new(1250), ms(n), RTT);
            flights.sent(1000 + n as u32, Bytes::new(100), ms(n), RTT);
        }
        assert!(flights.size_of(99, ms(1000), RTT).abs_diff(125_000) < 5_000, "{flights:?}");
        assert_eq!(larger(&flights, 99, 1), 0);
        assert_eq!(flights.size_of(1500, ms(1000), RTT), 0);
    }

    #[test]
    fn whoever_sends_on_after_three_signals_does_not_respond() {
        let mut flights = Flights::default();
        let (mut found, mut answering) = (Vec::new(), 100_000);
        for n in 0..4000 {
            flights.sent(1, Bytes::new(1250), ms(n), RTT);
            flights.sent(2, Bytes::new(1250), ms(n), RTT);
            flights.note(2, Bytes::new(answering), ms(n), RTT);
            flights.sent(3, Bytes::new(20), ms(n), RTT);
            flights.passed(Bytes::new(2520), ms(n));
            if n % 500 == 200 {
                let flow = 1 + (n / 500 % 3) as u32;
                flights.signalled(flow, ms(n), RTT, Duration::from_millis(400), RTT);
                answering = if flow == 2 { answering * 7 / 10 } else { answering };
            }
            found.extend(flights.judge(ms(n), RTT, None).map(|flow| (flow, n)));
        }
        // Flow 1 was signalled at 0.2, 1.7 and 3.2 s; flow 2 answers, and flow 3 is too small to be judged.
        assert_eq!(found, [(1, 3600)]);
    }

    #[test]
    fn a_flood_is_known_at_the_first_signal_and_whoever_shows_something_is_not_a_flood() {
        let judged = |shows: bool, room: u64| {
            let mut flights = Flights::default();
            for n in 0..1000 {
                flights.sent(1, Bytes::new(2500), ms(n), RTT);
                flights.sent(2, Bytes::new(500), ms(n), RTT);
                flights.passed(Bytes::new(3000), ms(n));
                if shows {
                    flights.note(1, Bytes::new(250_000), ms(n), RTT);
                }
            }
            flights.signalled(1, ms(1000), RTT, Duration::from_millis(400), RTT);
            for n in 1000..1500 {
                flights.sent(1, Bytes::new(2500), ms(n), RTT);
            }
            flights.judge(ms(1500), RTT, Some(room))
        };
        assert_eq!(judged(false, 1_250_000), Some(1), "twice of what the bottleneck takes");
        assert_eq!(judged(false, 2_600_000), None, "the bottleneck may take that");
        assert_eq!(judged(true, 1_250_000), None, "a flow that shows acknowledgements gets two more signals");
    }
}
