//! Steering by counters that are polled, for a queue that somebody else works.

use crate::law::{Epoch, Law, Observer, SteeringLaw};
use crate::policy::{Policy, PolicyError};
use weir_units::{Bytes, Duration, Rate, Time};

/// Time that a link may seem idle although it is not: the packet that is being sent at either end of what is
/// looked at.
const IDLE_PACKETS: f64 = 2.0;
/// Largest error of a link's rate that is not taken for idle time, as a share.
const RATE_ERROR: f64 = 5e-4;
/// Length of a packet before any was counted.
const PACKET: f64 = 1500.0;

/// What the counters of a queue say at an instant. Sums count from any start.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Counters {
    /// When they were read.
    pub now: Time,
    /// Bytes that left.
    pub sent: Bytes,
    /// Packets that left.
    pub sent_packets: u64,
    /// Packets that were marked or dropped by the AQM.
    pub signals: u64,
    /// Packets that were dropped, by whatever.
    pub discarded: u64,
    /// Bytes that wait.
    pub waiting: Bytes,
    /// The delay of some packet that left lately, if it is told.
    pub delay: Option<Duration>,
    /// What was seen of each packet since the counters were read last, if somebody looked.
    pub seen: Option<Seen>,
}

/// What was seen of each packet that left between two polls.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Seen {
    /// The smallest delay; `None` if no packet left.
    pub least: Option<Duration>,
    /// Whether one left nothing behind it.
    pub ran_empty: bool,
}

/// Feeds a law with polled counters.
///
/// Counters tell neither when a signal was given, nor the smallest delay since, nor whether the queue ran
/// empty in between. Each is estimated:
///
/// * all signals of a period are one, at its end;
/// * the queue ran empty if nothing waited at some poll, or if the link was idle: it carried less since the
///   last signal than its rate allows (a link does not rest while packets wait);
/// * the smallest delay is zero if the queue ran empty, and otherwise the smallest `waiting / rate` at a
///   poll, or the smallest delay that was told. It is too large by what the queue fell and rose between two polls.
///
/// Where somebody looked at each packet ([`Seen`]), the smallest delay and whether the queue ran empty are as
/// he saw them. Which of the packets left before the signal of a period, and which behind it, is still not
/// known.
///
/// A signal that was counted cannot be withheld any more: where the law raises, the set point moves up and
/// the epoch goes on, as it does where the signal is deferred.
#[derive(Clone, Debug)]
pub struct Polled<L = SteeringLaw> {
    law: L,
    /// At the last signal, or at the start.
    start: Option<Counters>,
    last: Option<Counters>,
    delay_min: Option<Duration>,
    ran_empty: bool,
}

/// What a poll brought.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Polling {
    /// Signals since the last poll.
    pub signals: u64,
    /// Whether the counters began anew, as those of another queue: then nothing was judged.
    pub restarted: bool,
}

/// A target is changed from a difference of this share on.
const TARGET_STEP: f64 = 0.005;
/// A rate of a shaper is changed from a difference of this share of the link's rate on.
const RATE_STEP: f64 = 0.001;
/// Slowest rate that a shaper is given: a policy cannot close a link.
const RATE_MIN: Rate = Rate::from_bps(8_000);

/// When and how far what the law found is put into force, for a queue that is changed by messages.
///
/// Nothing is changed before the AQM has signalled, as the queue may be no bottleneck; then at most once in
/// `settle`, and the last decision of the law counts.
#[derive(Clone, Copy, Debug)]
pub struct Pace {
    settle: Duration,
    signals: u64,
    changed: Option<Time>,
}

impl Pace {
    /// Nothing seen and nothing changed yet.
    pub fn new(settle: Duration) -> Pace {
        Pace { settle, signals: 0, changed: None }
    }

    /// Another least time between two changes.
    pub fn set_settle(&mut self, settle: Duration) {
        self.settle = settle;
    }

    /// Takes what a poll brought.
    pub fn note(&mut self, polling: &Polling) {
        self.signals += polling.signals;
    }

    /// Signals so far.
    pub fn signals(&self) -> u64 {
        self.signals
    }

    /// Whether something may be changed now.
    pub fn is_due(&self, now: Time) -> bool {
        self.signals > 0 && self.changed.is_none_or(|last| now.since(last) >= self.settle)
    }

    /// Something was changed.
    pub fn changed(&mut self, now: Time) {
        self.changed = Some(now);
    }

    /// Whether a target differs enough from the one in force to be set.
    pub fn is_step(in_force: Duration, wanted: Duration) -> bool {
        let by = wanted.saturating_sub(in_force).max(in_force.saturating_sub(wanted));
        by > Duration::ZERO && by >= in_force.mul_f64(TARGET_STEP)
    }

    /// Whether a rate of the shaper differs enough from the one in force to be set. The rate that it was
    /// found with is always reached again.
    pub fn is_rate_step(in_force: Rate, wanted: Rate, found: Rate, link: Rate) -> bool {
        let by = wanted.as_bps().abs_diff(in_force.as_bps()) as f64;
        by >= link.as_bps_f64() * RATE_STEP || (wanted == found && in_force != found)
    }
}

impl Polled<SteeringLaw> {
    /// The target that the queue is to have, within the policy.
    pub fn wanted_target(&self) -> Duration {
        self.law.bounded_setpoint()
    }

    /// The rate that the shaper above the queue is to have, in whole bytes a second: that of the virtual
    /// queue, for which it stands, and never more than it was found with.
    pub fn wanted_rate(&self, link: Rate, found: Rate) -> Rate {
        let least = link.as_bps_f64() * self.law.policy().utilization_target.0;
        let most = link.min(found);
        let wanted = self.law.virtual_rate().map_or(most, |rate| rate.min(most));
        // What the user says of the link may be more than the shaper was found with.
        let least = (least as u64).min(most.as_bps());
        Rate::from_bps(wanted.as_bps().max(least).max(RATE_MIN.as_bps()) / 8 * 8)
    }
}

impl<L: Law> Polled<L> {
    /// Nothing seen yet.
    pub fn new(law: L) -> Polled<L> {
        Polled { law, start: None, last: None, delay_min: None, ran_empty: false }
    }

    /// The law.
    pub fn law(&self) -> &L {
        &self.law
    }

    /// The law, to change its policy.
    pub fn law_mut(&mut self) -> &mut L {
        &mut self.law
    }

    /// What was seen since the last signal; `None` before the second poll.
    pub fn epoch(&self, link: Rate) -> Option<Epoch> {
        let (start, last) = (self.start?, self.last?);
        (last.now > start.now).then(|| self.between(&start, &last, link))
    }

    /// Takes what the counters say now; `link` is the rate that utilization is measured against, zero if it
    /// is not known.
    ///
    /// The rate at which the queue is served is that of the law's virtual queue while it has one, as a shaper
    /// then has it.
    pub fn poll(&mut self, now: &Counters, link: Rate, observer: &mut dyn Observer) -> Polling {
        self.law.follow_link(link);
        let Some((start, last)) = self.start.zip(self.last) else {
            self.begin(now);
            return Polling::default();
        };
        let is_back = now.sent < last.sent || now.signals < last.signals || now.discarded < last.discarded;
        if is_back {
            self.begin(now);
            return Polling { signals: 0, restarted: true };
        }
        if now.now <= last.now {
            return Polling::default();
        }
        self.last = Some(*now);
        let served = self.law.virtual_rate().unwrap_or(link);
        if served > Rate::ZERO {
            self.notice(&start, now, served);
        }
        let signals = now.signals - last.signals;
        if signals > 0 && link > Rate::ZERO {
            let seen = self.between(&start, now, link);
            let raised = seen.ran_empty && self.law.may_raise(link) && self.law.raise(&seen, observer);
            if !raised {
                self.law.signalled(&seen, observer);
                self.begin(now);
            }
        }
        Polling { signals, restarted: false }
    }

    fn begin(&mut self, now: &Counters) {
        (self.start, self.last) = (Some(*now), Some(*now));
        // Nothing is said of a queue that is empty already.
        self.ran_empty = now.waiting == Bytes::ZERO;
        self.delay_min = self.ran_empty.then_some(Duration::ZERO);
    }

    /// Updates the smallest delay, and whether the queue ran empty.
    fn notice(&mut self, start: &Counters, now: &Counters, served: Rate) {
        let sent = (now.sent - start.sent).get() as f64;
        let could = served.as_bps_f64() / 8.0 * now.now.since(start.now).as_secs_f64();
        let packets = now.sent_packets.saturating_sub(start.sent_packets);
        let packet = if packets == 0 { PACKET } else { sent / packets as f64 };
        let idle = could - sent > IDLE_PACKETS * packet + RATE_ERROR * could;
        self.ran_empty |= now.waiting == Bytes::ZERO;
        if let Some(Seen { least: Some(least), ran_empty }) = now.seen {
            self.ran_empty |= ran_empty;
            let least = if self.ran_empty { Duration::ZERO } else { least };
            self.delay_min = Some(self.delay_min.map_or(least, |before| before.min(least)));
            return;
        }
        self.ran_empty |= idle;
        let waits = if self.ran_empty { Duration::ZERO } else { served.time_for(now.waiting) };
        let least = now.delay.map_or(waits, |told| told.min(waits));
        self.delay_min = Some(self.delay_min.map_or(least, |before| before.min(least)));
    }

    fn between(&self, start: &Counters, now: &Counters, link: Rate) -> Epoch {
        let sent = now.sent - start.sent;
        let mut arrived = (sent + now.waiting).get().saturating_sub(start.waiting.get());
        if self.law.counts_discarded() {
            let packets = now.sent_packets.saturating_sub(start.sent_packets).max(1);
            arrived += (now.discarded - start.discarded) * (sent.get() / packets);
        }
        Epoch {
            start: start.now,
            now: now.now,
            arrived: Bytes::new(arrived),
            delay_min: self.delay_min,
            ran_empty: self.ran_empty,
            link,
        }
    }
}

/// Feeds a law with what was seen exactly between signals, and is told of later.
///
/// Whoever works the queue notes each epoch; the law learns of it at the next look. As with [`Polled`], a
/// signal cannot be withheld any more: where the law raises, the epoch goes on to the next signal.
#[derive(Clone, Debug)]
pub struct Told<L = SteeringLaw> {
    law: L,
    /// What the law answered with a raise.
    goes_on: Option<Epoch>,
}

impl Told<SteeringLaw> {
    /// Holds to another policy; an error changes nothing.
    pub fn set_policy(&mut self, policy: &Policy) -> Result<(), PolicyError> {
        self.law.set_policy(policy)
    }
}

impl<L: Law> Told<L> {
    /// The rate of the link is this from now on.
    pub fn follow_link(&mut self, link: Rate) {
        self.law.follow_link(link);
    }

    /// Nothing told yet.
    pub fn new(law: L) -> Told<L> {
        Told { law, goes_on: None }
    }

    /// The law.
    pub fn law(&self) -> &L {
        &self.law
    }

    /// Takes an epoch that a signal ended. Epochs come in their order.
    pub fn signalled(&mut self, seen: &Epoch, observer: &mut dyn Observer) {
        let seen = match self.goes_on.take() {
            Some(before) => Epoch {
                start: before.start,
                arrived: before.arrived + seen.arrived,
                delay_min: [before.delay_min, seen.delay_min].into_iter().flatten().min(),
                ran_empty: before.ran_empty || seen.ran_empty,
                ..*seen
            },
            None => *seen,
        };
        if seen.ran_empty && self.law.may_raise(seen.link) && self.law.raise(&seen, observer) {
            self.goes_on = Some(seen);
        } else {
            self.law.signalled(&seen, observer);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::law::{Move, Rule};
    use crate::policy::Policy;
    use std::vec::Vec;

    const LINK: Rate = Rate::from_mbps(8);

    #[derive(Default)]
    struct Rules(Vec<Rule>);

    impl Observer for Rules {
        fn moved(&mut self, m: &Move) {
            self.0.push(m.rule);
        }
    }

    fn polled(policy: &Policy) -> Polled {
        Polled::new(SteeringLaw::new(policy).unwrap())
    }

    /// Counters after `ms`, when `bytes` left in packets of 1000, with `signals` and `waiting` bytes.
    fn at(ms: u64, bytes: u64, signals: u64, waiting: u64) -> Counters {
        Counters {
            now: Time::from_nanos(ms * 1_000_000),
            sent: Bytes::new(bytes),
            sent_packets: bytes / 1000,
            signals,
            discarded: signals,
            waiting: Bytes::new(waiting),
            delay: None,
            seen: None,
        }
    }

    #[test]
    fn what_was_seen_of_each_packet_takes_the_place_of_estimates() {
        let ms = Duration::from_millis;
        for (least, ran_empty, bytes) in
            [(ms(2), false, 97_000), (ms(2), true, 100_000), (ms(9), false, 100_000)]
        {
            let mut polled = polled(&Policy::default());
            polled.poll(&at(0, 0, 0, 5000), LINK, &mut ());
            let seen = Some(Seen { least: Some(least), ran_empty });
            polled.poll(&Counters { seen, ..at(100, bytes, 0, 5000) }, LINK, &mut ());
            let epoch = polled.epoch(LINK).unwrap();
            // By the estimate the first was idle, and the last had 5 ms at least.
            assert_eq!(epoch.ran_empty, ran_empty, "{bytes}");
            assert_eq!(epoch.delay_min, Some(if ran_empty { Duration::ZERO } else { least }));
        }
        // Where no packet was seen, as where they are split on the way, it is estimated.
        let mut polled = polled(&Policy::default());
        polled.poll(&at(0, 0, 0, 5000), LINK, &mut ());
        polled.poll(&Counters { seen: Some(Seen::default()), ..at(100, 97_000, 0, 5000) }, LINK, &mut ());
        assert!(polled.epoch(LINK).unwrap().ran_empty);
    }

    #[test]
    fn a_queue_without_signals_is_left_alone() {
        let mut polled = polled(&Policy::default());
        let mut rules = Rules::default();
        for n in 0..1000 {
            // Half of the link's rate.
            polled.poll(&at(n * 10, n * 5000, 0, 0), LINK, &mut rules);
        }
        assert_eq!((rules.0.len(), polled.law().setpoint()), (0, Duration::from_micros(2500)));
    }

    #[test]
    fn an_idle_link_is_a_queue_that_ran_empty_though_no_poll_saw_it() {
        for (bytes, empty) in [(100_000, false), (98_500, false), (97_000, true)] {
            let mut polled = polled(&Policy::default());
            polled.poll(&at(0, 0, 0, 5000), LINK, &mut ());
            polled.poll(&at(100, bytes, 0, 5000), LINK, &mut ());
            let epoch = polled.epoch(LINK).unwrap();
            assert_eq!((epoch.ran_empty, epoch.arrived), (empty, Bytes::new(bytes)), "{bytes}");
            let least = if empty { Duration::ZERO } else { Duration::from_millis(5) };
            assert_eq!(epoch.delay_min, Some(least));
        }
    }

    #[test]
    fn a_link_that_is_not_used_well_gets_a_longer_queue_up_to_the_bound_of_the_policy() {
        let policy = Policy { target_max: Duration::from_millis(12), ..Policy::default() };
        let mut polled = polled(&policy);
        let mut rules = Rules::default();
        let mut most = Duration::ZERO;
        for n in 0..200 {
            // 90 %, with a signal in each period.
            polled.poll(&at(n * 100, n * 90_000, n, 2000), LINK, &mut rules);
            most = most.max(polled.law().setpoint());
        }
        assert!(rules.0.contains(&Rule::Raise), "{:?}", rules.0);
        assert_eq!(most, Duration::from_millis(12));
    }

    #[test]
    fn standing_delay_is_taken_away() {
        let mut polled = polled(&Policy { target_min_up: Duration::from_millis(20), ..Policy::default() });
        let mut rules = Rules::default();
        for n in 0..100 {
            // The link is busy, and the queue never below 15 ms.
            polled.poll(&at(n * 100, n * 100_000, n, 15_000 + n % 3 * 1000), LINK, &mut rules);
        }
        assert!(rules.0.iter().all(|r| *r == Rule::Lower) && !rules.0.is_empty(), "{:?}", rules.0);
        assert!(polled.law().setpoint() < Duration::from_millis(10), "{:?}", polled.law().setpoint());
    }

    #[test]
    fn the_rate_of_the_shaper_is_what_is_full_while_there_is_a_virtual_queue() {
        let policy = Policy {
            utilization_low: weir_aqm::Share(0.90),
            utilization_target: weir_aqm::Share(0.95),
            virtual_gain: 1.0,
            ..Policy::default()
        };
        let mut polled = polled(&policy);
        let mut rules = Rules::default();
        let mut sent = 0;
        for n in 0..400 {
            polled.poll(&at(n * 100, sent, n, 10_000), LINK, &mut rules);
            let rate = polled.law().virtual_rate().unwrap_or(LINK);
            sent += rate.bytes_in(Duration::from_millis(100)).get();
        }
        assert!(rules.0.contains(&Rule::VirtualOn), "{:?}", rules.0);
        let rate = polled.law().virtual_rate().unwrap();
        assert!(rate >= Rate::from_bps(7_600_000) && rate < Rate::from_bps(7_700_000), "{rate:?}");
    }

    /// The law itself, asked at once, beside the law that is told later.
    #[test]
    fn a_law_that_is_told_later_moves_as_one_that_is_asked_at_once() {
        let policy = Policy {
            utilization_low: weir_aqm::Share(0.90),
            utilization_target: weir_aqm::Share(0.95),
            ..Policy::default()
        };
        let mut told = Told::new(SteeringLaw::new(&policy).unwrap());
        let mut asked = SteeringLaw::new(&policy).unwrap();
        let (mut of_told, mut of_asked) = (Rules::default(), Rules::default());
        let mut open: Option<(Time, Bytes)> = None;
        for n in 0..400u64 {
            // In a fifth of the time the link is used to 60 %.
            let (arrived, ran_empty) = if n % 200 < 40 { (60_000, true) } else { (100_000, false) };
            let delay_min = Some(if ran_empty { Duration::ZERO } else { Duration::from_millis(1) });
            let [start, now] = [n, n + 1].map(|n| Time::from_nanos(n * 100_000_000));
            let seen = Epoch { start, now, arrived: Bytes::new(arrived), delay_min, ran_empty, link: LINK };
            told.signalled(&seen, &mut of_told);
            let before = open.take().unwrap_or((start, Bytes::ZERO));
            let whole = Epoch { start: before.0, arrived: before.1 + seen.arrived, ..seen };
            // What went on before ran empty too, as all of it does for 40 epochs.
            let whole = Epoch { ran_empty: ran_empty || before.0 < start, ..whole };
            let least = if whole.ran_empty { Some(Duration::ZERO) } else { delay_min };
            let whole = Epoch { delay_min: least, ..whole };
            if asked.raise(&whole, &mut of_asked) {
                open = Some((whole.start, whole.arrived));
            } else {
                asked.signalled(&whole, &mut of_asked);
            }
        }
        assert_eq!(of_told.0, of_asked.0);
        assert_eq!(
            (told.law().setpoint(), told.law().virtual_rate()),
            (asked.setpoint(), asked.virtual_rate())
        );
        for rule in [Rule::Raise, Rule::VirtualOn] {
            assert!(of_told.0.contains(&rule), "{:?}", of_told.0);
        }
    }

    #[test]
    fn counters_that_begin_anew_are_judged_anew() {
        let mut polled = polled(&Policy::default());
        polled.poll(&at(0, 500_000, 10, 0), LINK, &mut ());
        assert!(polled.poll(&at(100, 1000, 0, 0), LINK, &mut ()).restarted);
        assert_eq!(polled.poll(&at(200, 2000, 1, 0), LINK, &mut ()).signals, 1);
        // A clock that stands still, or goes back, is no time.
        assert_eq!(polled.poll(&at(200, 3000, 2, 0), LINK, &mut ()), Polling::default());
    }

    #[test]
    fn without_a_rate_nothing_is_moved() {
        let mut polled = polled(&Policy::default());
        let mut rules = Rules::default();
        for n in 0..100 {
            polled.poll(&at(n * 100, n * 10_000, n, 0), Rate::ZERO, &mut rules);
        }
        assert!(rules.0.is_empty());
    }
}
