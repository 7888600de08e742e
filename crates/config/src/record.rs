//! What the simulator writes down beyond summaries and samples.

use crate::limits::{MAX_DURATION, MAX_LINKS};
use crate::names::{NAME, name_allowed};
use crate::problems::Problems;
use crate::schema::{Check, Here, Range, absent, list, or, such, within};
use weir_units::{Bytes, Duration};

/// Half a minute of packets at 1 Gbit/s; few disks are filled by it.
const SIZE_MAX: Bytes = Bytes::new(500_000_000);

section! {
    /// What the simulator writes down beyond summaries and samples.
    pub struct Record {
        /// Whether each decision of the algorithms is written down, with what it was made from.
        decisions: bool = or(false, Range::Any);
        /// Whether packets that were forwarded count as decisions, too. They are many: the table is then
        /// `decisions.parquet` and not CSV.
        forwarded: bool = or(false, Range::Any);
        /// Whether packets are written down, as a capture in the format pcapng.
        pcapng: bool = or(false, Range::Any);
        /// Start of what is written down, after the start of the run.
        from: Duration = or(Duration::ZERO, within(Duration::ZERO, MAX_DURATION));
        /// End of what is written down, after the start of the run.
        to: Option<Duration> = absent("end of the run", within(Duration::ZERO, MAX_DURATION));
        /// Most bytes of each capture, and of memory for decisions; the file ends there, which is told.
        size_max: Bytes = or(SIZE_MAX, within(Bytes::new(10_000), Bytes::new(1_000_000_000_000)));
        /// Names of the links where it is written down; a link that stands in `[link]` is named "bottleneck".
        links: Vec<String> = list("all", MAX_LINKS, such(NAME, |t: &String| name_allowed(t)));
    }
}

impl Default for Record {
    fn default() -> Record {
        let from = Duration::ZERO;
        Record {
            decisions: false,
            forwarded: false,
            pcapng: false,
            from,
            to: None,
            size_max: SIZE_MAX,
            links: Vec::new(),
        }
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
