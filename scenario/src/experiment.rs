//! A scenario: link, path, algorithm, policy, traffic and run of one experiment.

use crate::document::{Document, Node};
use crate::errors::{Errors, Form, Problems};
use crate::link::{Channel, LinkConfig};
use crate::run_config::RunConfig;
use crate::schema::{
    Check, Here, Key, OneTable, OptionalTable, Printer, Range, Rule, Scalar, Section, TableDoc, Tables,
    absent, or, reference, required, such, tables_of, within,
};
use crate::settings::{AqmConfig, PolicyConfig};
use crate::sweep::{Point, Sweep, SweepTable, points};
use weir_units::{Bytes, Duration, Rate};

/// Most flows of a scenario, over all its `[[flows]]` tables.
pub const MAX_FLOWS: u32 = 10_000;

/// Longest run.
pub const MAX_DURATION: Duration = Duration::from_secs(24 * 3600);

/// Most rows of a sample table: duration of the run divided by the sampling period.
pub const MAX_SAMPLES: u64 = 1_000_000;

const MILLISECOND: Duration = Duration::from_millis(1);
const HOUR: Duration = Duration::from_secs(3600);

section! {
    /// An experiment.
    pub struct Scenario {
        /// What the experiment shows, in a line.
        title: String = required(such("a text with something in it, at most 200 bytes", |t: &String| title_allowed(t)));
        /// The bottleneck.
        link: LinkConfig = Bottleneck;
        /// The way between the hosts, besides the bottleneck's queue.
        path: Path = OneTable;
        /// The algorithm at the bottleneck and its parameters.
        aqm: AqmConfig = OneTable;
        /// The policy: how much delay may be traded for throughput. The presence of this table turns steering on.
        policy: Option<PolicyConfig> = OptionalTable;
        /// Flows that are alike. Flows are numbered over all these tables from 0.
        flows: Vec<FlowGroup> = Tables;
        /// How long, how often, what is measured.
        run: Run = OneTable;
        /// Variations of this file.
        sweep: Sweep = SweepTable;
    }
}

fn title_allowed(title: &str) -> bool {
    !title.trim().is_empty() && title.len() <= 200
}

/// The table of a link that needs a rate: between real ports it may be absent, in an experiment not.
struct Bottleneck;

impl Rule<LinkConfig> for Bottleneck {
    fn read(&self, key: &Key, here: &Here, p: &mut Problems) -> Option<LinkConfig> {
        let shaped = match here.table.get(key.name).map(|e| &e.item.node) {
            Some(Node::Table(table)) => table.has("rate"),
            // What is no table is told as that.
            Some(_) => true,
            None => false,
        };
        if !shaped {
            here.wrong(p, "link.rate", "is missing", format!("add it, {}", Rate::kind()));
        }
        OneTable.read(key, here, p)
    }
    fn print_tables(&self, key: &Key, value: &LinkConfig, out: &mut Printer) {
        OneTable.print_tables(key, value, out);
    }
    fn describe(&self, key: &Key, at: usize, tables: &mut Vec<TableDoc>) {
        Rule::<LinkConfig>::describe(&OneTable, key, at, tables);
        let rows = tables.iter_mut().flat_map(|t| &mut t.rows);
        rows.filter(|row| row.name == "rate").for_each(|row| row.default = "required".to_string());
    }
}

section! {
    /// The way between the hosts.
    pub struct Path {
        /// Round-trip time without any queue; each direction has half of it.
        rtt: Duration = required(within(Duration::ZERO, Duration::from_secs(10)));
        /// Delay from a to b, if it is not half the round-trip time; the other direction has the rest.
        delay_ab: Option<Duration> = absent("half of rtt", within(Duration::ZERO, Duration::from_secs(10)));
        /// Delay from b to a, if it is not half the round-trip time; the other direction has the rest.
        delay_ba: Option<Duration> = absent("the rest of rtt", within(Duration::ZERO, Duration::from_secs(10)));
        /// Largest IP packet.
        mtu: u32 = or(1500, within(576, 9000));
    }
}

impl Check for Path {
    fn check(&mut self, here: &Here, p: &mut Problems) {
        let remedy = "both directions together take `rtt`: change one, or leave one out";
        match (self.delay_ab, self.delay_ba) {
            (Some(ab), Some(ba)) if ab + ba != self.rtt => {
                let problem = format!("{ba} and `delay_ab`, {ab}, are not {} together", self.rtt);
                here.wrong(p, "delay_ba", problem, remedy);
            }
            (Some(ab), None) if ab > self.rtt => {
                here.wrong(p, "delay_ab", format!("{ab} is more than `rtt`, {}", self.rtt), remedy);
            }
            (None, Some(ba)) if ba > self.rtt => {
                here.wrong(p, "delay_ba", format!("{ba} is more than `rtt`, {}", self.rtt), remedy);
            }
            _ => {}
        }
    }
}

impl Path {
    /// Delay from a to b.
    pub fn forward_delay(&self) -> Duration {
        match (self.delay_ab, self.delay_ba) {
            (Some(ab), _) => ab,
            (None, Some(ba)) => self.rtt - ba,
            (None, None) => Duration::from_nanos(self.rtt.as_nanos() / 2),
        }
    }

    /// Delay from b to a.
    pub fn reverse_delay(&self) -> Duration {
        self.rtt - self.forward_delay()
    }
}

choices! {
    /// Version of the Internet protocol.
    pub enum IpVersion {
        /// IPv4.
        V4 = "4",
        /// IPv6.
        V6 = "6",
    }
}

choices! {
    /// Which way the data of a flow goes.
    pub enum Direction {
        /// From a to b, through the managed queue.
        Forward = "forward",
        /// From b to a, so that the managed queue sees the acknowledgements.
        Reverse = "reverse",
    }
}

/// What a flow sends.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Traffic {
    /// As much as TCP can, from start to stop.
    Bulk,
    /// That many bytes over TCP, once or again and again.
    Transfers {
        /// Size of one transfer.
        size: Bytes,
        /// Time from the start of one to the start of the next; `None` for a single transfer.
        every: Option<Duration>,
    },
    /// Datagrams at that rate, whatever happens to them.
    Unresponsive(Rate),
}

/// The congestion control of flows that have none.
const NO_CONGESTION: &str = "none";
const DEFAULT_CONGESTION: &str = "cubic";

section! {
    /// Flows that are alike.
    pub struct FlowGroup {
        /// How many.
        count: u32 = or(1, within(1, MAX_FLOWS));
        /// Congestion control, by its name in the kernel, such as "cubic", "reno" or "bbr"; "none" with
        /// `udp_rate`.
        congestion: String = or(DEFAULT_CONGESTION.to_string(), such(WORD, |t: &String| word(t)));
        /// Whether the flows use ECN.
        ecn: bool = or(false, Range::Any);
        /// When they start, after the start of the run.
        start: Duration = or(Duration::ZERO, within(Duration::ZERO, MAX_DURATION));
        /// When they stop, after the start of the run.
        stop: Option<Duration> = absent("end of the run", within(Duration::ZERO, MAX_DURATION));
        /// Size of a transfer; without it, flows send as much as they can.
        transfer: Option<Bytes> = absent("no end", within(Bytes::new(1), Bytes::new(1_000_000_000_000)));
        /// A new transfer starts each time this has passed; needs `transfer`.
        every: Option<Duration> = absent("a single transfer", within(MILLISECOND, MAX_DURATION));
        /// Version of IP.
        ip: IpVersion = or(IpVersion::V4, Range::Any);
        /// Which way the data goes: "forward" from a to b through the managed queue, or "reverse".
        direction: Direction = or(Direction::Forward, Range::Any);
        /// Rate of datagrams that are sent whatever happens, instead of TCP.
        udp_rate: Option<Rate> = absent("TCP", within(Rate::from_bps(1_000), Rate::from_bps(1_000_000_000_000)));
    }
}

const WORD: &str = "a word of at most 15 letters, digits, `_` or `-`";

/// Names of congestion controls in Linux have at most 15 bytes (`TCP_CA_NAME_MAX`).
fn word(text: &str) -> bool {
    let plain = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
    (1..=15).contains(&text.len()) && text.chars().all(plain)
}

impl Check for FlowGroup {
    fn check(&mut self, here: &Here, p: &mut Problems) {
        if let Some(stop) = self.stop.filter(|stop| *stop <= self.start) {
            let problem = format!("{stop} is not after `start`, {}", self.start);
            here.wrong(p, "stop", problem, "stop later, or start earlier");
        }
        if self.every.is_some() && self.transfer.is_none() {
            here.wrong(p, "every", "repeats nothing", "give the size of a `transfer` too, such as \"64MB\"");
        }
        if self.udp_rate.is_some() {
            self.check_unresponsive(here, p);
        } else if self.congestion == NO_CONGESTION {
            let remedy = "name one, such as \"cubic\", or give an `udp_rate`";
            here.wrong(p, "congestion", "cannot be \"none\" for TCP", remedy);
        }
    }
}

impl FlowGroup {
    fn check_unresponsive(&mut self, here: &Here, p: &mut Problems) {
        if !here.table.has("congestion") {
            self.congestion = NO_CONGESTION.to_string();
        }
        if self.congestion != NO_CONGESTION {
            let remedy = "remove one of the two: datagrams have no congestion control";
            here.wrong(p, "udp_rate", "does not go with `congestion`", remedy);
        }
        if self.transfer.is_some() {
            let remedy = "remove one of the two, and say with `stop` when it ends";
            here.wrong(p, "udp_rate", "does not go with `transfer`", remedy);
        }
    }

    /// What these flows send.
    pub fn traffic(&self) -> Traffic {
        match (self.udp_rate, self.transfer) {
            (Some(rate), _) => Traffic::Unresponsive(rate),
            (None, Some(size)) => Traffic::Transfers { size, every: self.every },
            (None, None) => Traffic::Bulk,
        }
    }
}

section! {
    /// How long, how often, what is measured.
    pub struct Run {
        /// Length of a run.
        duration: Duration = required(within(MILLISECOND, MAX_DURATION));
        /// Beginning of the run that is not measured.
        warmup: Duration = or(Duration::ZERO, within(Duration::ZERO, MAX_DURATION));
        /// Number of runs, each with other random numbers.
        seeds: u32 = or(1, within(1, 10_000));
        /// Sampling period of the tables.
        sample: Duration = or(Duration::from_millis(100), within(MILLISECOND, HOUR));
    }
}

impl Check for Run {
    fn check(&mut self, here: &Here, p: &mut Problems) {
        if self.warmup >= self.duration {
            let problem = format!("{} leaves nothing of `duration`, {}", self.warmup, self.duration);
            here.wrong(p, "warmup", problem, "run longer, or warm up shorter");
        }
        check_sample(self.sample, self.duration, here, p);
    }
}

/// Tells sampling periods that give no row, or too many.
pub(crate) fn check_sample(sample: Duration, duration: Duration, here: &Here, p: &mut Problems) {
    if sample > duration {
        let problem = format!("{sample} is longer than `duration`, {duration}");
        here.wrong(p, "sample", problem, "sample more often");
    }
    if duration.as_nanos() / sample.as_nanos().max(1) > MAX_SAMPLES {
        let problem = format!("{sample} makes more than {MAX_SAMPLES} rows in {duration}");
        here.wrong(p, "sample", problem, "sample less often");
    }
}

impl Check for Scenario {
    fn check(&mut self, here: &Here, p: &mut Problems) {
        self.link.check_room(self.path.mtu, "link.", here, p);
        if let Some(policy) = &self.policy {
            policy.check_with(&self.aqm, here, p);
        }
        self.check_flows(here, p);
    }
}

impl Scenario {
    fn check_flows(&self, here: &Here, p: &mut Problems) {
        if self.flow_count() > u64::from(MAX_FLOWS) {
            let problem = format!("are {} flows together", self.flow_count());
            here.wrong(p, "flows", problem, format!("give at most {MAX_FLOWS}"));
        }
        if self.flows.iter().all(|f| f.start >= self.run.duration) {
            let problem = format!("start only after the end of the run, {}", self.run.duration);
            here.wrong(p, "flows", problem, "run longer, or start earlier");
        }
        for (i, _) in self.flows.iter().enumerate().filter(|(_, f)| f.ip == IpVersion::V6) {
            if self.path.mtu < 1280 {
                let problem =
                    format!("needs packets of 1280 bytes for IPv6, and `path.mtu` is {}", self.path.mtu);
                here.wrong(p, &format!("flows.{i}.ip"), problem, "raise `path.mtu`, or use IPv4");
            }
        }
    }

    /// Reads a file.
    pub fn load(path: impl AsRef<std::path::Path>) -> Result<Scenario, Errors> {
        Document::load(path)?.scenario()
    }

    /// Reads a text; `file_name` is the name in messages.
    pub fn parse(file_name: &str, text: &str) -> Result<Scenario, Errors> {
        Document::parse(file_name, text)?.scenario()
    }

    /// The number of flows.
    pub fn flow_count(&self) -> u64 {
        self.flows.iter().map(|f| u64::from(f.count)).sum()
    }

    /// The rate of the bottleneck.
    pub fn rate(&self) -> Rate {
        self.link.rate.expect("a scenario without a rate is refused when it is read")
    }

    /// The managed direction, from a to b, as a direction between ports.
    pub fn forward(&self) -> Channel {
        let mut channel = Channel::unshaped();
        channel.link = self.link.clone();
        channel.delay = self.path.forward_delay();
        channel.aqm = Some(self.aqm.clone());
        channel.policy = self.policy.clone();
        channel
    }

    /// All points of the sweep; the scenario itself where there is no sweep.
    pub fn expand(&self) -> Vec<Point> {
        if self.sweep.axes.is_empty() {
            return vec![Point { settings: Vec::new(), scenario: self.clone() }];
        }
        self.sweep.points.clone()
    }

    /// What is allowed but may not be what was meant.
    pub fn warnings(&self) -> Vec<String> {
        let mut warnings = Vec::new();
        for (i, flows) in self.flows.iter().enumerate() {
            if flows.start >= self.run.duration {
                warnings.push(format!("flows.{i} starts only after the end of the run"));
            } else if flows.stop.is_some_and(|stop| stop > self.run.duration) {
                warnings.push(format!("flows.{i} would stop only after the end of the run"));
            }
        }
        warnings.extend(self.policy.as_ref().and_then(|policy| policy.unused_setpoint(&self.aqm)));
        warnings
    }

    /// The scenario in canonical form: every key with its value, its meaning and its range.
    pub fn to_toml(&self) -> String {
        let mut out = Printer::new(self.sweep.axes.iter().map(|a| a.key.clone()).collect());
        self.print_values(&mut out);
        self.print_tables(&mut out);
        out.into_text()
    }

    /// All keys with type, default, range and meaning, as Markdown.
    pub fn reference() -> String {
        reference::<Scenario>("Scenario files", INTRO)
    }
}

const INTRO: &str = "A scenario file says link, path, algorithm, policy, traffic and run of an experiment. It is TOML; \
keys may\nstand in any order. Quantities are written with their unit: `\"2.5ms\"`, `\"1Gbit/s\"`, `\"64MB\"`, \
`\"99%\"`.\n`--set key=value` sets a key over the file; elements of lists have their number in the key, from 0:\n\
`--set flows.0.count=9`.\n\nThis page is generated from the declarations of the keys.";

/// Where keys of scenarios, and keys written into one by mistake, belong.
const FORMS: &[Form] =
    &[("the file", tables_of::<Scenario>), ("a configuration of `weir run`", tables_of::<RunConfig>)];

impl Document {
    /// Checks the document as a scenario.
    pub fn scenario(&self) -> Result<Scenario, Errors> {
        let mut p = Problems::knowing(&self.file, FORMS);
        let here = Here { table: &self.root, path: String::new() };
        let mut scenario = Scenario::read(&here, &mut p);
        if let Some(scenario) = scenario.as_mut().filter(|_| p.is_empty()) {
            scenario.sweep.points = points(self, &mut p);
        }

        p.finish(scenario)
    }
}
