//! A queue of the kernel that is steered.

use serde::Serialize;
use weir_tc::{
    Action, CakeOption, Counters, FifoParms, Handle, Kind, Message, Options, Subject, TcAttribute,
};
use weir_units::{Bytes, Duration, Rate};

/// A queue that can be steered, as it was found.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Place {
    /// Number of the interface.
    pub interface: i32,
    /// Its name.
    pub name: String,
    /// The discipline.
    pub handle: Handle,
    /// Where it is attached.
    pub parent: Handle,
    /// Its kind.
    pub kind: Kind,
    /// Its options.
    pub options: Options,
    /// The shaper that serves it, if there is one.
    pub shaper: Option<Shaper>,
    /// The longest frame of the interface, in bytes.
    pub frame: u32,
    /// Whether it is one of the queues of a multi-queue interface, which share its rate.
    pub is_of_many: bool,
}

/// A shaper that serves a queue.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Shaper {
    /// Whether it is a class or a discipline.
    pub subject: Subject,
    /// Its handle.
    pub handle: Handle,
    /// Where it is attached.
    pub parent: Handle,
    /// Its kind.
    pub kind: Kind,
    /// Its options.
    pub options: Options,
    /// The rate at which it serves the queue: its own, or that of a slower one above it.
    pub rate: Rate,
    /// Whether classes are among what shapes the queue.
    pub needs_classes: bool,
    /// Whether it serves other queues, too.
    pub is_shared: bool,
}

/// Why a queue is left as it is.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Left {
    /// Its interface is gone.
    Gone,
    /// It is not there any more, or another one is in its place.
    Replaced,
    /// Somebody else changed it.
    Changed {
        /// What.
        what: String,
    },
    /// The kernel did not do what it was asked.
    Refused {
        /// What was asked, and what came.
        what: String,
    },
}

impl Left {
    /// In words.
    pub fn text(&self) -> String {
        match self {
            Left::Gone => "its interface is gone".into(),
            Left::Replaced => "somebody removed or replaced it".into(),
            Left::Changed { what } => format!("somebody else changed {what}"),
            Left::Refused { what } => what.clone(),
        }
    }
}

/// What became of a queue.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Report {
    /// Name of the interface.
    pub interface: String,
    /// Handle of the discipline.
    pub handle: String,
    /// Its kind.
    pub kind: String,
    /// Rate of the link, in bit/s.
    pub rate_bps: u64,
    /// The target as it was found, in milliseconds.
    pub target_found_ms: f64,
    /// The target in force.
    pub target_ms: f64,
    /// The smallest target that was set; the one in force where none was.
    pub target_min_ms: f64,
    /// The largest target that was set.
    pub target_max_ms: f64,
    /// Rate of the shaper in force, in bit/s, where there is one.
    pub shaper_bps: Option<u64>,
    /// How often something was changed.
    pub changes: u64,
    /// How often the counters were read.
    pub polls: u64,
    /// Marks and drops of the AQM.
    pub signals: u64,
    /// Share of the rate that was used while it was steered.
    pub utilization: Option<f64>,
    /// How long its packets waited, where that was read of each.
    pub delays: Option<DelaysTold>,
    /// Why it was left before the end, in words.
    pub left: Option<String>,
}

/// How long packets waited, read of each.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct DelaysTold {
    /// Packets that left.
    pub packets: u64,
    /// Packets that left of which it is not known when they came.
    pub unmatched: u64,
    /// Packets that came for which there was no room to note it.
    pub lost: u64,
    /// The mean, in milliseconds.
    pub mean_ms: f64,
    /// What 95 % of them waited at most: the bound of a bucket, up to a quarter above.
    pub p95_ms: f64,
}

/// The kernel rounds times: CoDel's to units of 1024 ns, and all to microseconds.
const ROUNDING: Duration = Duration::from_nanos(2_100);

/// Whether two targets are the same, after rounding.
pub(crate) fn same(a: Duration, b: Duration) -> bool {
    a.saturating_sub(b).max(b.saturating_sub(a)) <= ROUNDING
}

/// The number by which it is known whether a value is still the one that was set: the room of a FIFO in
/// bytes, of others the target in nanoseconds.
pub(crate) fn noted(options: &Options) -> Option<u64> {
    match options {
        Options::Bfifo(parms) => Some(u64::from(parms.limit)),
        _ => options.target().map(Duration::as_nanos),
    }
}

/// Whether the options still have the value that was noted.
pub(crate) fn is_noted(options: &Options, value: u64) -> bool {
    match options {
        Options::Bfifo(parms) => u64::from(parms.limit) == value,
        _ => options.target().is_some_and(|now| same(now, Duration::from_nanos(value))),
    }
}

/// Whether options of CAKE differ in nothing but its rate.
pub(crate) fn is_same_but_for_rate(now: &Options, before: &Options) -> bool {
    let is_no_rate = |option: &&CakeOption| !matches!(option, CakeOption::BaseRate(_));
    match (now, before) {
        (Options::Cake(now), Options::Cake(before)) | (Options::CakeMq(now), Options::CakeMq(before)) => {
            now.iter().filter(is_no_rate).eq(before.iter().filter(is_no_rate))
        }
        _ => false,
    }
}

/// CAKE derives an interval from the target, which must not lie above it.
fn interval_for(found: Option<Duration>, target: Duration) -> Option<Duration> {
    found.map(|interval| interval.max(target.saturating_mul(2)))
}

impl Place {
    /// Least room that a FIFO is given: into less than a packet none would be let, and while one is sent
    /// another one must have room.
    fn room_min(&self) -> Bytes {
        Bytes::new(2 * u64::from(self.frame))
    }

    /// A name for people.
    pub fn label(&self) -> String {
        format!("{} {} {}", self.name, self.kind, self.handle)
    }

    /// The target that options mean. The room of a FIFO means the time that it takes at the rate of its
    /// shaper.
    pub fn target(&self, options: &Options) -> Option<Duration> {
        match (options, &self.shaper) {
            (Options::Bfifo(parms), Some(shaper)) => {
                Some(shaper.rate.time_for(Bytes::new(u64::from(parms.limit))))
            }
            _ => options.target(),
        }
    }

    /// The target as the queue can have it.
    pub(crate) fn reachable(&self, target: Duration) -> Duration {
        match (&self.options, &self.shaper) {
            (Options::Bfifo(_), Some(shaper)) => target.max(shaper.rate.time_for(self.room_min())),
            _ => target,
        }
    }

    /// The message that sets the target, which stays below `most` after rounding, and with it what CAKE
    /// wants.
    pub(crate) fn set_target(&self, target: Duration, most: Duration) -> Option<Message> {
        let options = match (&self.options, &self.shaper) {
            (Options::Bfifo(_), Some(shaper)) => {
                let limit = shaper.rate.bytes_in(target).max(self.room_min()).get();
                Options::Bfifo(FifoParms {
                    limit: u32::try_from(limit).unwrap_or(u32::MAX),
                    rest: Vec::new(),
                })
            }
            _ => {
                let interval = interval_for(self.options.interval(), target);
                Options::with_target(&self.kind, self.kind.target_to_set(target).min(most), interval)?
            }
        };
        Some(change(Subject::Discipline, self.interface, self.handle, self.parent, &self.kind, options))
    }

    /// The message that puts target and interval back.
    pub(crate) fn restore_target(&self) -> Option<Message> {
        let options = match &self.options {
            options @ Options::Bfifo(_) => options.clone(),
            options => {
                let target = self.kind.target_to_set(options.target()?);
                Options::with_target(&self.kind, target, options.interval())?
            }
        };
        Some(change(Subject::Discipline, self.interface, self.handle, self.parent, &self.kind, options))
    }
}

impl Shaper {
    /// The message that sets the rate.
    pub(crate) fn set_rate(&self, interface: i32, rate: Rate) -> Option<Message> {
        let options = self.options.with_shaped_rate(rate.as_bps() / 8)?;
        Some(change(self.subject, interface, self.handle, self.parent, &self.kind, options))
    }

    /// Its own rate, as it was found.
    pub(crate) fn own(&self) -> Rate {
        Rate::from_bps(self.options.shaped_rate().unwrap_or(0).saturating_mul(8))
    }

    /// The message that puts it back as it was found.
    pub(crate) fn restore(&self, interface: i32) -> Option<Message> {
        let mut message = self.set_rate(interface, self.own())?;
        // As they were told: rates and bursts that were changed with the rate are back to the bit.
        if let (Options::Htb(_) | Options::Tbf(_), Some(TcAttribute::Options(options))) =
            (&self.options, message.attributes.get_mut(1))
        {
            *options = self.options.clone();
        }
        Some(message)
    }
}

fn change(
    subject: Subject,
    interface: i32,
    handle: Handle,
    parent: Handle,
    kind: &Kind,
    options: Options,
) -> Message {
    let mut message = Message::new(subject, Action::New, interface);
    (message.handle, message.parent) = (handle, parent);
    message.attributes = vec![TcAttribute::Kind(kind.clone()), TcAttribute::Options(options)];
    message
}

/// Counters that do not wrap, from those of the kernel that do after 2^32.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Sums {
    last: Option<Counters>,
    signals: u64,
    discarded: u64,
    marked: u64,
    shed: u64,
}

/// Counters that fell by more than they could wrap: a new queue of the same name.
const BACKWARDS: u32 = 1 << 31;

impl Sums {
    /// Takes counters; `None` if they began anew.
    pub fn take(&mut self, now: &Counters) -> Option<(u64, u64)> {
        if let Some(last) = self.last {
            let [drops, shed, marks] =
                [(now.drops, last.drops), (now.shed, last.shed), (now.marks, last.marks)]
                    .map(|(now, last)| now.wrapping_sub(last));
            if now.bytes < last.bytes || now.packets < last.packets || drops >= BACKWARDS {
                self.last = Some(*now);
                return None;
            }
            // DualPI2 clears what it counts itself when the link goes down, and stays the same queue.
            let since = |grown, now| if grown >= BACKWARDS { now } else { grown };
            let [drops, shed, marks] = [drops, since(shed, now.shed), since(marks, now.marks)].map(u64::from);
            self.discarded += drops;
            // What was dropped for lack of room is no signal of the AQM.
            self.signals += drops.saturating_sub(shed) + marks;
            self.marked += marks;
            self.shed += shed.min(drops);
        }
        self.last = Some(*now);
        Some((self.signals, self.discarded))
    }

    /// Packets marked.
    pub fn marked(&self) -> u64 {
        self.marked
    }

    /// Packets discarded for lack of room.
    pub fn shed(&self) -> u64 {
        self.shed
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counters_wrap_and_begin_anew() {
        let mut sums = Sums::default();
        let at = |bytes, drops, shed, marks| Counters { bytes, drops, shed, marks, ..Counters::default() };
        assert_eq!(sums.take(&at(100, u32::MAX - 1, 0, 7)), Some((0, 0)));
        assert_eq!(sums.take(&at(200, 3, 2, 8)), Some((4, 5)));
        assert_eq!(sums.take(&at(0, 0, 0, 0)), None, "a new queue");
        assert_eq!(sums.take(&at(10, 1, 0, 0)), Some((5, 6)));
        assert_eq!(sums.take(&at(20, 1, 0, 9)), Some((14, 6)));
        assert_eq!(sums.take(&at(30, 1, 0, 2)), Some((16, 6)), "only its marks begin anew");
    }

    #[test]
    fn targets_are_compared_after_rounding() {
        let ms = |ms: f64| Duration::from_secs_f64(ms / 1e3);
        assert!(same(ms(20.0), ms(19.999)) && same(ms(3.0), ms(2.998)));
        assert!(!same(ms(3.0), ms(2.9)));
    }
}
