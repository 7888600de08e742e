//! What is measured of sessions and when it is reported (URR, TS 29.244 section 5.2.2): a book for each rule.
//!
//! The plane counts packets and bytes by meter and says when bounds are reached; what that means is decided
//! here. Times are this function's, in whole seconds where they are reported.

mod read;
mod turn;

pub use read::{create_urr, query_urr, update_urr};
pub use turn::reports;

use crate::kept_times::{instant, instants, nanos};
use crate::message::{Element, Value, Volume, ie};
use crate::rules::{Amounts, Bounds, Measured, PerDirection};
use serde::{Deserialize, Serialize};
use weir_units::{Duration, Time};

/// Reporting Triggers (section 8.2.19).
pub mod wants {
    pub const PERIODIC: u64 = 1;
    pub const VOLUME_THRESHOLD: u64 = 1 << 1;
    pub const TIME_THRESHOLD: u64 = 1 << 2;
    pub const START: u64 = 1 << 4;
    pub const VOLUME_QUOTA: u64 = 1 << 8;
    pub const TIME_QUOTA: u64 = 1 << 9;
    /// Those that are done here.
    pub const KNOWN: u64 = PERIODIC | VOLUME_THRESHOLD | TIME_THRESHOLD | START | VOLUME_QUOTA | TIME_QUOTA;
}

/// Usage Report Trigger (section 8.2.41); those not here are as in [`wants`].
pub const ASKED: u64 = 1 << 7;
/// The rule ends.
pub const ENDS: u64 = 1 << 11;

/// Usage reporting rule.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct Urr {
    /// Its number in the session.
    pub id: u32,
    /// Whether bytes are measured.
    pub volume: bool,
    /// Whether packets are told with them.
    pub packets: bool,
    /// Whether time is measured.
    pub duration: bool,
    /// Whether time counts from the beginning, and not from the first packet on.
    pub immediate: bool,
    /// When it reports, see [`wants`].
    pub triggers: u64,
    /// How often.
    #[serde(with = "nanos")]
    pub period: Option<Duration>,
    /// After which usage since the last report.
    pub threshold: Limits,
    /// After which usage since it was given nothing passes.
    pub quota: Limits,
}

/// Limits of usage.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct Limits {
    /// In bytes.
    pub volume: Amounts,
    /// In time.
    #[serde(with = "nanos")]
    pub time: Option<Duration>,
}

/// A rule with what it has measured.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct UsageRecord {
    /// The rule.
    pub urr: Urr,
    /// Place of its meter.
    pub place: u8,
    /// Which quotas were given with this request.
    pub fresh: u64,
    /// Number of the next report.
    next: u32,
    /// Since when what is reported next is measured, and what was counted by then.
    #[serde(with = "instant")]
    began: Time,
    counted: Measured,
    /// Since when time counts of what is reported next, and of the quota.
    #[serde(with = "instants")]
    clock: Option<Time>,
    #[serde(with = "instants")]
    quota_clock: Option<Time>,
    /// What was counted before the plane began anew: it comes on top of what the plane has counted since.
    carried: Measured,
    /// What was counted when the quota was given.
    quota_counted: PerDirection<u64>,
    /// Quotas that are used up.
    out: u64,
    is_started: bool,
    #[serde(with = "instants")]
    period_due: Option<Time>,
}

fn less(now: PerDirection<u64>, then: PerDirection<u64>) -> PerDirection<u64> {
    PerDirection { up: now.up - then.up, down: now.down - then.down }
}

fn sum(of: PerDirection<u64>) -> u64 {
    of.up + of.down
}

impl UsageRecord {
    /// A rule that begins now.
    pub fn new(urr: Urr, place: u8, now: Time) -> UsageRecord {
        let clock = urr.immediate.then_some(now);
        UsageRecord {
            fresh: 0,
            next: 0,
            began: now,
            counted: Measured::default(),
            carried: Measured::default(),
            clock,
            quota_clock: clock,
            quota_counted: PerDirection::default(),
            out: 0,
            is_started: false,
            period_due: urr.period.filter(|_| urr.triggers & wants::PERIODIC != 0).map(|period| now + period),
            urr,
            place,
        }
    }

    /// A quota that was just given counts from here on.
    pub fn renew(&mut self, now: Time, measured: &Measured) {
        if self.fresh & wants::VOLUME_QUOTA != 0 {
            self.quota_counted = measured.bytes;
        }
        if self.fresh & wants::TIME_QUOTA != 0 {
            self.quota_clock = self.clock.map(|_| now);
        }
        self.out &= !self.fresh;
        self.fresh = 0;
        if self.urr.triggers & wants::PERIODIC != 0 {
            // A period that is another counts from now on.
            let kept = self.period_due.filter(|due| self.urr.period.is_some_and(|p| *due <= now + p));
            self.period_due = kept.or(self.urr.period.map(|period| now + period));
        } else {
            self.period_due = None;
        }
    }

    /// What was counted in all, of what the meters of the plane say.
    pub fn total(&self, measured: &[Measured]) -> Measured {
        let sum = |a: PerDirection<u64>, b: PerDirection<u64>| PerDirection {
            up: a.up + b.up,
            down: a.down + b.down,
        };
        let counted = measured.get(usize::from(self.place)).copied().unwrap_or_default();
        Measured {
            place: self.place,
            packets: sum(counted.packets, self.carried.packets),
            bytes: sum(counted.bytes, self.carried.bytes),
        }
    }

    /// As it is for a plane that begins anew, of what the meters of this one say.
    pub fn carried_on(&self, measured: &[Measured]) -> UsageRecord {
        UsageRecord { carried: self.total(measured), ..self.clone() }
    }

    fn has(&self, trigger: u64) -> bool {
        self.urr.triggers & trigger != 0
    }

    /// What there is to report by now, see [`wants`].
    pub fn look(&mut self, now: Time, measured: &Measured) -> u64 {
        let has_begun = sum(measured.packets) > 0;
        if self.clock.is_none() && has_begun {
            (self.clock, self.quota_clock) = (Some(now), Some(now));
        }
        let mut why = 0;
        if self.has(wants::START) && has_begun && !self.is_started {
            self.is_started = true;
            why |= wants::START;
        }
        let is_over = |since: Option<Time>, most: Option<Duration>| {
            since.zip(most).is_some_and(|(since, most)| now.since(since) >= most)
        };
        let used = less(measured.bytes, self.counted.bytes);
        if self.has(wants::VOLUME_THRESHOLD) && self.urr.threshold.volume.are_reached(used) {
            why |= wants::VOLUME_THRESHOLD;
        }
        if self.has(wants::TIME_THRESHOLD) && is_over(self.clock, self.urr.threshold.time) {
            why |= wants::TIME_THRESHOLD;
        }
        if self.period_due.is_some_and(|due| due <= now) {
            self.period_due = self.urr.period.map(|period| now + period);
            why |= wants::PERIODIC;
        }
        let of_quota = less(measured.bytes, self.quota_counted);
        let mut out = 0;
        if self.urr.quota.volume.are_reached(of_quota) {
            out |= wants::VOLUME_QUOTA;
        }
        if is_over(self.quota_clock, self.urr.quota.time) {
            out |= wants::TIME_QUOTA;
        }
        why |= out & !self.out & self.urr.triggers;
        self.out |= out;
        why
    }

    /// Reports what was measured, and begins anew.
    pub fn report(&mut self, now: Time, measured: &Measured, why: u64, start: u32) -> Vec<Element> {
        let ntp = |at: Time| start.wrapping_add((at.as_nanos() / weir_units::NANOS_PER_SEC) as u32);
        let mut elements = self.head(why);
        elements.push(Element::number(ie::START_TIME, ntp(self.began)));
        elements.push(Element::number(ie::END_TIME, ntp(now)));
        if self.urr.volume {
            let of = |used: PerDirection<u64>| Amounts {
                total: Some(sum(used)),
                up: Some(used.up),
                down: Some(used.down),
            };
            let packets = of(less(measured.packets, self.counted.packets));
            let packets = if self.urr.packets { packets } else { Amounts::default() };
            let bytes = of(less(measured.bytes, self.counted.bytes));
            let volume = Value::Volume(Box::new(Volume { bytes, packets }));
            elements.push(Element::new(ie::VOLUME_MEASUREMENT, volume));
        }
        if self.urr.duration {
            let seconds =
                self.clock.map_or(0, |since| now.since(since).as_nanos() / weir_units::NANOS_PER_SEC);
            elements.push(Element::number(ie::DURATION_MEASUREMENT, seconds));
            // What a report leaves out of a second counts for the next.
            self.clock = self.clock.map(|since| since + Duration::from_secs(seconds));
        } else {
            self.clock = self.clock.map(|_| now);
        }
        (self.began, self.counted) = (now, *measured);
        elements
    }

    /// Reports that traffic began; what is measured goes on.
    pub fn started(&mut self) -> Vec<Element> {
        self.head(wants::START)
    }

    fn head(&mut self, why: u64) -> Vec<Element> {
        let number = self.next;
        self.next = self.next.wrapping_add(1);
        vec![
            Element::number(ie::URR_ID, self.urr.id),
            Element::number(ie::UR_SEQN, number),
            Element::number(ie::USAGE_REPORT_TRIGGER, why),
        ]
    }

    /// When the plane is to tell, and when it is to let nothing pass.
    pub fn bounds(&self) -> Bounds {
        let (mut tell, mut stop) = (Amounts::default(), Amounts::default());
        if self.has(wants::VOLUME_THRESHOLD) {
            tell = self.urr.threshold.volume.beyond(self.counted.bytes);
        }
        if self.out != 0 {
            stop.total = Some(0);
        } else if !self.urr.quota.volume.is_empty() {
            stop = self.urr.quota.volume.beyond(self.quota_counted);
            tell = tell.least(&stop);
        }
        let times = self.urr.duration && self.clock.is_none();
        let [tell, stop] = [tell, stop].map(|amounts| amounts.without(self.carried.bytes));
        Bounds { tell, stop, first: times || (self.has(wants::START) && !self.is_started) }
    }

    /// When it is to be looked at without anything that the plane tells.
    pub fn due(&self) -> Option<Time> {
        let threshold = self.urr.threshold.time.filter(|_| self.has(wants::TIME_THRESHOLD));
        let quota = self.urr.quota.time.filter(|_| self.out & wants::TIME_QUOTA == 0);
        let at = |since: Option<Time>, wait: Option<Duration>| Some(since? + wait?);
        let times = [self.period_due, at(self.clock, threshold), at(self.quota_clock, quota)];
        times.into_iter().flatten().min()
    }
}
