//! How a link differs from one of constant rate that loses nothing.

use crate::disorder::{HeldBack, LossBursts, Losses, Reorder};
use crate::errors::{Wrong, shown_key};
use crate::from_file::{FileContent, FromFile};
use crate::library::Library;
use crate::limits::{FASTEST, MAX_DURATION, SLOWEST};
use crate::media::{Grants, Wifi};
use crate::problems::Problems;
use crate::schema::{
    Check, Given, Here, OptionalTable, Range, Scalar, absent, list, or, such, within, wrong_type,
};
use crate::trace::Trace;
use crate::tree::{Node, Table};
use weir_aqm::Share;
use weir_units::{Duration, Rate};

/// Bits of a packet of 1500 bytes.
const FULL_PACKET: f64 = 12_000.0;

/// Most changes of a link's rate.
pub const MAX_STEPS: usize = 10_000;

section! {
    /// How a link differs from one of constant rate that loses nothing.
    pub struct Variation {
        /// Changes of the rate: from `at` on, after the start of the run, it is `rate`. Room given as a time
        /// still refers to the `rate` of the link; utilization refers to the rates in force.
        steps: Vec<Step> = list("constant rate", MAX_STEPS, such(STEP, |_: &Step| true));
        /// A file that says when the link may send: on each line a whole number of milliseconds, never less
        /// than on the line above, at which 1500 bytes may be sent, by the link's accounting. It repeats with
        /// the last number as its period (the format of Mahimahi). The path starts at the folder of this
        /// file. It takes the place of `rate`, which is then the average of the trace.
        trace: Option<TraceFile> = FromFile;
        /// Each packet is delayed by a random time up to this in addition, uniformly distributed. The order
        /// is kept.
        jitter: Duration = or(Duration::ZERO, within(Duration::ZERO, Duration::from_secs(10)));
        /// Share of the packets that is lost at random behind the queue.
        loss: Share = or(Share(0.0), within(Share(0.0), Share(0.9)));
        /// Losses in bursts, besides those of `loss`, by a chain of two states (Gilbert, 1960; Elliott,
        /// 1963), with the parameters of `gemodel` in tc-netem(8). A burst lasts 1/r packets on average, and
        /// p/(p+r) of the packets meet the bad state. The chain begins in the good state.
        loss_bursts: Option<LossBursts> = OptionalTable;
        /// Each packet whose number is a multiple of this is lost; packets are counted from 1 where they
        /// leave the queue.
        loss_every: Option<u32> = absent("none", within(2, 1_000_000_000));
        /// Numbers of packets that are lost, in rising order, counted like those of `loss_every`.
        loss_packets: Vec<u32> = list("none", MAX_STEPS, within(1, u32::MAX));
        /// Packets that are held back behind the queue, so that what follows overtakes them: either a share
        /// of them, at random, or every n-th.
        reorder: Option<Reorder> = OptionalTable;
        /// Share of the packets that arrive twice, the copy right behind the packet.
        duplicate: Share = or(Share(0.0), within(Share(0.0), Share(0.9))) => [Simulator];
        /// Radio as in IEEE 802.11: contention, packets sent many at once.
        wifi: Option<Wifi> = OptionalTable => [Simulator];
        /// Requests and grants, as the upstream of DOCSIS.
        grants: Option<Grants> = OptionalTable => [Simulator];
    }
}

impl Check for Variation {
    fn check(&mut self, here: &Here, p: &mut Problems) {
        if self.trace.is_some() && !self.steps.is_empty() {
            here.wrong(p, "steps", "does not go with `trace`", "remove one of the two");
        }
        if let Some(own) = self.turns() {
            let others = [
                ("grants", self.grants.is_some() && own != "grants"),
                ("trace", self.trace.is_some()),
                ("steps", !self.steps.is_empty()),
            ];
            for (other, _) in others.iter().filter(|(_, given)| *given) {
                here.wrong(p, other, format!("does not go with `{own}`"), "remove one of the two");
            }
        }
        for (i, pair) in self.loss_packets.windows(2).enumerate().filter(|(_, pair)| pair[1] <= pair[0]) {
            let problem = format!("is {}, not above the number before, {}", pair[1], pair[0]);
            here.wrong(p, &format!("loss_packets.{}", i + 1), problem, "put the numbers in rising order");
        }
        for (i, pair) in self.steps.windows(2).enumerate().filter(|(_, pair)| pair[1].at <= pair[0].at) {
            let problem = format!("comes at {}, not after the step before, {}", pair[1].at, pair[0].at);
            here.wrong(p, &format!("steps.{}", i + 1), problem, "put the steps in the order of their time");
        }
    }
}

impl Default for Variation {
    fn default() -> Variation {
        Variation {
            steps: Vec::new(),
            trace: None,
            jitter: Duration::ZERO,
            loss: Share(0.0),
            loss_bursts: None,
            loss_every: None,
            loss_packets: Vec::new(),
            reorder: None,
            duplicate: Share(0.0),
            wifi: None,
            grants: None,
        }
    }
}

impl Variation {
    /// The trace, if the link follows one.
    pub fn trace(&self) -> Option<&Trace> {
        self.trace.as_ref().map(|file| &file.trace)
    }

    /// Which of its packets are lost, if any are.
    pub fn losses(&self) -> Option<Losses> {
        Losses::new(self.loss, self.loss_bursts.as_ref(), self.loss_every, &self.loss_packets)
    }

    /// Which of its packets are held back, if any are.
    pub fn held_back(&self) -> Option<HeldBack> {
        self.reorder.as_ref().map(HeldBack::new)
    }

    /// The key by which the link has to wait for its turn, if it has to.
    pub(crate) fn turns(&self) -> Option<&'static str> {
        let of = [("wifi", self.wifi.is_some()), ("grants", self.grants.is_some())];
        of.into_iter().find(|(_, given)| *given).map(|(key, _)| key)
    }

    /// Tells of a step to a rate so low that a packet outlasts it: what is in transmission when the rate
    /// changes keeps the time that it began with.
    pub(crate) fn stuck(&self) -> Option<String> {
        let pair = self.steps.windows(2).find(|pair| {
            let bits = pair[0].rate.as_bps_f64() * (pair[1].at - pair[0].at).as_secs_f64();
            pair[0].rate > Rate::ZERO && bits < FULL_PACKET
        })?;
        let (rate, time) = (pair[0].rate, (pair[1].at - pair[0].at));
        let least = Rate::from_bps_f64((FULL_PACKET / time.as_secs_f64()).ceil()).max(SLOWEST);
        let remedy = match least <= FASTEST {
            true => format!("write `rate = {}` or more there", least.literal()),
            false => "leave the step out".into(),
        };
        Some(format!(
            "{rate} for {time} is less than a packet of 1500 bytes, which blocks the link until it is sent at that rate: \
             {remedy}, or describe an outage by a `trace`, which has no line while nothing can be sent"
        ))
    }

    /// Whether the link has a constant rate, a constant delay and loses nothing.
    pub fn is_none(&self) -> bool {
        self.changed().is_empty()
    }

    /// The keys that were given another value than their default.
    pub fn changed(&self) -> Vec<String> {
        Given::of(self, &|_| true)
    }
}

/// A change of a link's rate.
#[derive(Clone, Copy, PartialEq, PartialOrd, Debug)]
pub struct Step {
    /// When, after the start of the run.
    pub at: Duration,
    /// The rate from then on.
    pub rate: Rate,
}

/// The ranges that a step is read with, for the reference.
const STEP: &str = "times in 0ns .. 86400s and rates in 1kbit/s .. 1Tbit/s";

impl Scalar for Step {
    fn kind() -> String {
        "a step such as { at = \"10s\", rate = \"50Mbit/s\" }".to_string()
    }
    fn read(node: &Node) -> Result<Self, Wrong> {
        let Node::Table(table) = node else { return Err(wrong_type::<Self>(node)) };
        if let Some(other) = table.entries.iter().find(|e| !["at", "rate"].contains(&e.key.as_str())) {
            let problem = format!("has the unknown key {}", shown_key(&other.key));
            return Err(Wrong::new(problem, format!("write {}", Self::kind())));
        }
        let at = part(table, "at", within(Duration::ZERO, MAX_DURATION))?;
        Ok(Step { at, rate: part(table, "rate", within(SLOWEST, FASTEST))? })
    }
    fn show(&self) -> String {
        format!("{{ at = {}, rate = {} }}", self.at.literal(), self.rate.literal())
    }
    fn literal(&self) -> String {
        self.show()
    }
}

/// A key of a table that stands for one value.
fn part<T: Scalar>(table: &Table, key: &str, range: Range<T>) -> Result<T, Wrong> {
    let Some(entry) = table.get(key) else {
        return Err(Wrong::new(format!("has no `{key}`"), format!("add it, {}", T::kind())));
    };
    let node = &entry.item.node;
    T::read(node).and_then(|value| range.check(&value, node).map(|()| value)).map_err(|wrong| {
        // A problem is a verb with what follows, or begins with the value.
        let verb = if wrong.problem.starts_with("cannot") { "" } else { " =" };
        Wrong::new(format!("`{key}`{verb} {}", wrong.problem), wrong.remedy)
    })
}

/// A trace and the file it came from.
#[derive(Clone, PartialEq, Debug)]
pub struct TraceFile {
    /// The path as it was written, which starts at the folder of the scenario.
    pub path: String,
    /// Its content.
    pub trace: Trace,
}

impl FileContent for TraceFile {
    const NONE: &str = "constant rate";

    fn read(path: String, library: &Library) -> Result<TraceFile, Wrong> {
        library.trace(&path).map(|trace| TraceFile { path, trace })
    }
    fn path(&self) -> &str {
        &self.path
    }
}

#[cfg(test)]
mod tests {
    use crate::Scenario;

    /// What the warning says to write is written, and neither refused nor warned of again.
    #[test]
    fn the_advice_about_a_step_that_blocks_the_link_is_one_that_is_taken() {
        let told = |rate: &str, until: &str| {
            let text = format!(
                "title = \"x\"\n[link]\nrate = \"50Mbit/s\"\n\
                 steps = [{{ at = \"10s\", rate = {rate} }}, {{ at = \"{until}\", rate = \"50Mbit/s\" }}]\n\
                 [path]\nrtt = \"20ms\"\n[aqm]\nname = \"codel\"\n[[flows]]\n[run]\nduration = \"60s\"\n"
            );
            let scenario = Scenario::parse("x", &text).unwrap_or_else(|e| panic!("{e}"));
            scenario.warnings().into_iter().find(|line| line.contains("blocks the link"))
        };
        for (until, least) in
            [("12s", "\"6kbit/s\""), ("10700ms", "\"17.143kbit/s\""), ("17001ms", "\"1.715kbit/s\"")]
        {
            let warning = told("\"1kbit/s\"", until).expect("a packet outlasts the step");
            let advice = warning.split("`rate = ").nth(1).and_then(|rest| rest.split('`').next());
            assert_eq!(advice, Some(least), "{warning}");
            assert_eq!(told(least, until), None);
        }
        // Nothing that a link may have would do.
        let warning = told("\"1kbit/s\"", "10000000001ns").expect("a packet outlasts the step");
        assert!(warning.contains("leave the step out"), "{warning}");
    }
}
