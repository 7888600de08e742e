//! A configuration of `weir steer`: queues of the kernel that are held to a policy.

use crate::limits::{FASTEST, MAX_DURATION, PERIOD, PERIODS, SETTLE, SETTLES, SLOWEST};
use crate::policy_config::PolicyConfig;
use crate::problems::Problems;
use crate::run_config::{ADDRESS, INTERFACE, LOOPBACK, LogLevel, address, interface, loopback};
use crate::schema::{
    Check, Here, OneTable, OptionalTable, Printer, Range, Section, TABLES, absent, or, reference, required,
    such, within,
};
use weir_steer::Policy;
use weir_units::{Duration, Rate};

section! {
    /// Queues of the kernel and the policy that they are held to.
    pub struct SteerConfig {
        /// The queues.
        queues: Vec<SteeredQueue> = TABLES;
        /// The policy of all queues that have none of their own; without it the defaults hold.
        policy: Option<PolicyConfig> = OptionalTable;
        /// How it is done.
        steer: SteerOptions = OneTable;
    }
}

section! {
    /// The queues of an interface, or one of them.
    pub struct SteeredQueue {
        /// Name of the interface that packets leave by.
        interface: String = required(such(INTERFACE, |t: &String| interface(t)));
        /// Handle of the queueing discipline, as `tc qdisc show` writes it.
        handle: Option<String> = absent(
            "every AQM of the interface",
            such("a handle such as \"10:\"", |t: &String| handle(t).is_some())
        );
        /// Rate of the link, with the same bytes as the kernel counts: with Ethernet headers, without
        /// preamble and gap.
        rate: Option<Rate> = absent("that of the shaper above the queue, or else of the driver", within(SLOWEST, FASTEST));
        /// The policy of this queue.
        policy: Option<PolicyConfig> = OptionalTable;
    }
}

section! {
    /// How it is done.
    pub struct SteerOptions {
        /// Time between two looks at the counters. It becomes longer where a look takes more than a tenth of
        /// it.
        period: Duration = or(PERIOD, within(PERIODS.0, PERIODS.1));
        /// Least time between two changes of one queue.
        settle: Duration = or(SETTLE, within(SETTLES.0, SETTLES.1));
        /// Whether delays are read of each packet, by BPF programs on the kernel's tracepoints, instead of
        /// being estimated. Needs a kernel that describes its types (BTF), and queues that share neither
        /// interface nor transmit queue with others.
        probe: bool = or(false, Range::Any);
        /// Whether queues stay as they are at the end, instead of being put back as they were found.
        keep: bool = or(false, Range::Any);
        /// How long to run.
        duration: Option<Duration> =
            absent("until it is stopped", within(Duration::from_millis(1), MAX_DURATION));
        /// From which level on the log is told: "error", "warn", "info", "debug", as records on standard
        /// error. "auto" tells the journal from "info" on where standard error is one of its streams, and
        /// elsewhere all to whoever watches, in words. `--log` comes before it.
        log: LogLevel = or(LogLevel::Auto, Range::Any);
        /// Address and port at which Prometheus may ask for metrics (`/metrics`), and others for `/health`
        /// and `/ready`. It is on the loopback.
        metrics: Option<String> = absent("only at the control socket", such(LOOPBACK, |t: &String| loopback(t)));
        /// Address and port of the page, on which queues are looked at and the policy changed with a browser;
        /// `weir ctl page` prints how. Changes take a token. At an address that others reach, looking takes
        /// it, too.
        page: Option<String> = absent("no page but at the control socket", such(ADDRESS, |t: &String| address(t)));
    }
}

impl Check for SteerOptions {}
impl Check for SteeredQueue {}

impl Check for SteerConfig {
    fn check(&mut self, here: &Here, p: &mut Problems) {
        for (at, queue) in self.queues.iter().enumerate() {
            let same = |other: &&SteeredQueue| {
                other.interface == queue.interface
                    && (other.handle.is_none() || queue.handle.is_none() || other.handle == queue.handle)
            };
            if self.queues[..at].iter().any(|other| same(&other)) {
                let problem = format!("{} is there already", queue.interface);
                here.wrong(
                    p,
                    &format!("queues.{at}.interface"),
                    problem,
                    "name each queue once, by its `handle`",
                );
            }
        }
        let policies =
            self.queues.iter().enumerate().map(|(at, q)| (format!("queues.{at}.policy"), &q.policy));
        for (key, policy) in policies.chain([("policy".to_string(), &self.policy)]) {
            if let Some(Err(wrong)) = policy.as_ref().map(|policy| policy.policy().validate()) {
                here.wrong(p, &key, "contradicts itself", wrong.to_string());
            }
        }
    }
}

/// The major number of a handle such as `10:`.
fn handle(text: &str) -> Option<u16> {
    u16::from_str_radix(text.strip_suffix(':')?, 16).ok().filter(|major| *major > 0)
}

impl SteeredQueue {
    /// The major number of the handle, if one is named.
    pub fn major(&self) -> Option<u16> {
        self.handle.as_deref().and_then(handle)
    }
}

impl SteerConfig {
    /// The policy of a queue, whose raises go at least to `floor` where nothing else is written.
    pub fn policy_of(&self, queue: &SteeredQueue, floor: Option<Duration>) -> Policy {
        let written = queue.policy.as_ref().or(self.policy.as_ref()).cloned().unwrap_or_default();
        written.with_floor(floor).policy()
    }

    /// The configuration in canonical form: every key with its value, its meaning and its range.
    pub fn to_toml(&self) -> String {
        self.print_file(Printer::new(Vec::new(), &[]))
    }

    /// All keys with type, default, range and meaning, as Markdown.
    pub fn reference() -> String {
        reference::<SteerConfig>("Configuration of `weir steer`", INTRO)
    }
}

const INTRO: &str = "A configuration of `weir steer` says which queues of the kernel are held to which policy. It is TOML; \
keys may stand in any\norder. Quantities are written with their unit: `\"2.5ms\"`, `\"100Mbit/s\"`, `\"99%\"`. `--set key=value` \
sets a key over the file.\nWhat is done with the queues is told in [kernel-queues.md](kernel-queues.md).\n\nThis page is generated \
from the declarations of the keys.";
