//! What the simulator writes down beyond summaries and samples.

use crate::errors::Problems;
use crate::experiment::MAX_DURATION;
use crate::schema::{Check, Here, Range, absent, list, or, such, within};
use crate::topology::{MAX_LINKS, NAME, name_allowed};
use weir_units::Duration;

section! {
    /// What the simulator writes down beyond summaries and samples.
    pub struct Record {
        /// Whether each decision of the algorithms is written down, with what it was made from.
        decisions: bool = or(false, Range::Any);
        /// Whether packets are written down, as a capture in the format pcapng.
        pcapng: bool = or(false, Range::Any);
        /// Start of what is written down, after the start of the run.
        from: Duration = or(Duration::ZERO, within(Duration::ZERO, MAX_DURATION));
        /// End of what is written down, after the start of the run.
        to: Option<Duration> = absent("end of the run", within(Duration::ZERO, MAX_DURATION));
        /// Names of the links where it is written down; a link that stands in `[link]` is named "bottleneck".
        links: Vec<String> = list("all", MAX_LINKS, such(NAME, |t: &String| name_allowed(t)));
    }
}

impl Check for Record {
    fn check(&mut self, here: &Here, p: &mut Problems) {
        if let Some(to) = self.to.filter(|to| *to <= self.from) {
            let problem = format!("{to} is not after `from`, {}", self.from);
            here.wrong(p, "to", problem, "end later, or start earlier");
        }
    }
}
