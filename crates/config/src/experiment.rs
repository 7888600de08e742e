//! A scenario: link, path, algorithm, policy, traffic and run of one experiment.

mod sweep;

pub(crate) use sweep::points;
pub use sweep::{Axis, MAX_POINT_VALUES, MAX_POINTS, Point, Sweep};

use crate::aqm_config::AqmConfig;
use crate::flows::FlowGroup;
use crate::limits::MAX_DURATION;
use crate::link::{Bottleneck, Channel};
use crate::measure::Measure;
use crate::network_shape::NetworkShape;
use crate::objective::Objective;
use crate::policy_config::PolicyConfig;
use crate::problems::Problems;
use crate::queue_config::{Algorithm, QueueConfig};
use crate::record::Record;
use crate::schema::{
    Arm, Check, Given, Here, Key, OPTIONAL_TABLES, OneTable, OptionalTable, Printer, Rule, Section, TABLES,
    absent, list, or, reference, required, such, within,
};
use crate::steering::Steering;
use crate::table_doc::TableDoc;
use crate::topology::Link;
use crate::variation::Variation;
use sweep::SweepTable;
use weir_units::{Duration, Rate};

/// Most rows of a sample table: duration of the run divided by the sampling period.
pub const MAX_SAMPLES: u64 = 1_000_000;

/// Most objectives.
const MAX_OBJECTIVES: usize = 100;

const MILLISECOND: Duration = Duration::from_millis(1);
const HOUR: Duration = Duration::from_secs(3600);

section! {
    /// An experiment.
    ///
    /// Files have one of three forms, and [`Scenario::network`] is the same view of all. With `[[links]]` the
    /// fields `link`, `queue`, `aqm` and `policy` are those of the first of them, for displays, and `path` is
    /// empty. With `[network]` `links` are those that it describes, and the fields before it what they have
    /// in common.
    pub struct Scenario {
        /// What the experiment shows, in a line.
        title: String = required(such("a text with something in it, at most 200 bytes", |t: &String| title_allowed(t)));
        /// The bottleneck. A file has this table, `[path]` and `[aqm]`; or this one, `[network]` and `[aqm]`,
        /// for many links that are like it; or `[[links]]`.
        link: Bottleneck = OneLink(OneTable, no_link, &[LINKS]);
        /// The way between the hosts, besides the bottleneck's queue.
        path: Path = OneLink(OneTable, no_path, &[LINKS, NETWORK]);
        /// How packets wait at the bottleneck.
        queue: QueueConfig = OneLink(OneTable, QueueConfig::default, &[LINKS]);
        /// The algorithm at the bottleneck and its parameters.
        aqm: AqmConfig = OneLink(Algorithm, AqmConfig::fifo, &[LINKS]);
        /// The policy: how much delay may be traded for throughput. The presence of this table turns steering
        /// on.
        policy: Option<PolicyConfig> = OneLink(OptionalTable, || None, &[LINKS]);
        /// A network of many links from a description of one line. Its managed links are like `[link]`, with
        /// the queue of `[queue]`, `[aqm]` and `[policy]`.
        network: Option<NetworkShape> = OneLink(OptionalTable, || None, &[LINKS]) => [Simulator];
        /// Links between named nodes, each in one direction. Flows then go from node to node. For the
        /// simulator.
        links: Vec<Link> = OPTIONAL_TABLES;
        /// Flows that are alike. Flows are numbered over all these tables from 0.
        flows: Vec<FlowGroup> = TABLES;
        /// How long, how often, what is measured.
        run: Run = OneTable;
        /// What the simulator writes down beyond summaries and samples.
        record: Option<Record> = OptionalTable => [Simulator];
        /// What the simulator measures beyond summaries and samples.
        measure: Option<Measure> = OptionalTable => [Simulator];
        /// Variations of this file.
        sweep: Sweep = SweepTable;
    }
}

fn title_allowed(title: &str) -> bool {
    !title.trim().is_empty() && title.len() <= 200
}

/// Tables of the form with one link; with `[[links]]` they are refused.
const ONE_LINK: &[&str] = &["link", "path", "queue", "aqm", "policy"];

/// What is printed of a file with `[network]` is what was written: neither a path nor the links.
const DESCRIBED: &[&str] = &["path", "links"];

/// A table of another form, and why its keys do not go with it.
type Form = (&'static str, &'static str, &'static str);
const LINKS: Form = ("links", "[[links]]", "remove one of the two: each of the `[[links]]` has its own keys");
const NETWORK: Form = (
    "network",
    "[network]",
    "remove one of the two: delays are those of `[network]`, and flows have `rtt` and `mtu`",
);

/// A table that does not go with some forms, and what takes its place there.
struct OneLink<R, T>(R, fn() -> T, &'static [Form]);

impl<T, R: Rule<T>> Rule<T> for OneLink<R, T> {
    fn read(&self, key: &Key, here: &Here, p: &mut Problems) -> Option<T> {
        let Some((_, form, remedy)) = self.2.iter().find(|(table, ..)| here.table.has(table)) else {
            return self.0.read(key, here, p);
        };
        if here.table.has(key.name) {
            here.wrong(p, key.name, format!("does not go with `{form}`"), *remedy);
        }
        Some((self.1)())
    }
    fn print_tables(&self, key: &Key, value: &T, out: &mut Printer) {
        self.0.print_tables(key, value, out);
    }
    fn collect_given(&self, key: &Key, value: &T, given: &mut Given) {
        self.0.collect_given(key, value, given);
    }
    fn describe(&self, key: &Key, at: usize, tables: &mut Vec<TableDoc>) {
        self.0.describe(key, at, tables);
    }
}

/// Stands in `link` until the first of the `[[links]]` is known.
fn no_link() -> Bottleneck {
    let (link, variation) = (Channel::unshaped().link, Variation::default());
    Bottleneck { shape: link, variation, steering: Steering::default() }
}

fn no_path() -> Path {
    Path { rtt: Duration::ZERO, delay_ab: None, delay_ba: None, mtu: USUAL_MTU }
}

const USUAL_MTU: u32 = 1500;

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
        mtu: u32 = or(USUAL_MTU, within(576, 9000));
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
        /// Named expressions over the columns of a sweep, which become columns themselves: such as
        /// "power = goodput_bps / delay_p95_ms" or "value = utilization - 0.01 * delay_p95_ms". Numbers,
        /// columns, + - * / ( ), min(a, b), max(a, b), log(a), and earlier objectives; a column with other
        /// characters than letters, digits, `_` and `.` stands between apostrophes. There is no value where a
        /// column has none.
        objectives: Vec<Objective> = list("none", MAX_OBJECTIVES, such("", |_: &Objective| true));
    }
}

impl Check for Run {
    fn check(&mut self, here: &Here, p: &mut Problems) {
        for (i, objective) in self.objectives.iter().enumerate() {
            if self.objectives[..i].iter().any(|other| other.name == objective.name) {
                let problem = format!("has the name `{}`, as another one has", objective.name);
                here.wrong(p, &format!("objectives.{i}"), problem, "give each objective a name of its own");
            }
        }
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

impl Scenario {
    /// The keys that were given and that this arm does not play.
    pub fn unplayed(&self, arm: Arm) -> Vec<String> {
        Given::of(self, &|key| !key.arms.contains(&arm))
    }

    /// The number of flows of a `[[flows]]` table, over all its pairs.
    pub fn flows_of(&self, flows: &FlowGroup) -> u64 {
        let pairs =
            self.network.as_ref().zip(flows.pairs).map_or(1, |(shape, pairs)| shape.pair_count(pairs));
        pairs.saturating_mul(flows.count.into())
    }

    /// The number of flows.
    pub fn flow_count(&self) -> u64 {
        self.flows.iter().fold(0, |sum, flows| sum.saturating_add(self.flows_of(flows)))
    }

    /// The largest IP packet of flows.
    pub fn mtu(&self, flows: &FlowGroup) -> u32 {
        flows.mtu.unwrap_or(self.path.mtu)
    }

    /// The rate of the bottleneck; the average of its trace, if it follows one. With `[[links]]` that of the
    /// first of them.
    pub fn rate(&self) -> Rate {
        let rate = self.link.shape.rate_with(&self.link.variation);
        rate.expect("a scenario with neither rate nor trace is refused when it is read")
    }

    /// The managed direction, from a to b, as a direction between ports.
    pub fn forward(&self) -> Channel {
        let mut channel = Channel::unshaped();
        channel.link = self.link.shape.clone();
        channel.delay = self.path.forward_delay();
        channel.queue = self.queue.clone();
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

    /// The scenario in canonical form: every key with its value, its meaning and its range. Of tables that
    /// are alike only the first has the meanings. Paths stay as they were written, so that they start at
    /// the same folder.
    pub fn to_toml(&self) -> String {
        let omitted = match (&self.network, self.links.is_empty()) {
            (Some(_), _) => DESCRIBED,
            (None, true) => &[],
            (None, false) => ONE_LINK,
        };
        self.print_file(Printer::new(self.sweep.axes.iter().flat_map(|a| a.keys.clone()).collect(), omitted))
    }

    /// All keys with type, default, range and meaning, as Markdown.
    pub fn reference() -> String {
        reference::<Scenario>("Scenario files", INTRO)
    }
}

const INTRO: &str = "A scenario file says link, path, algorithm, policy, traffic and run of an experiment. It is TOML; \
keys may\nstand in any order. Quantities are written with their unit: `\"2.5ms\"`, `\"1Gbit/s\"`, `\"64MB\"`, \
`\"99%\"`.\n`--set key=value` sets a key over the file; elements of lists have their number in the key, from 0, or their name:\n\
`--set flows.0.count=9`, `--set links.radio.rate=5Mbit/s`.\n\nThe same file is for the lab (`weir lab`, real TCP) and for the simulator. \
Of `[[links]]` the lab plays those that\nstand in a row (all flows take one way, and come back by one) and access \
 networks with modems (`data/scenarios/asqm_upload.toml`),\nwhose homes are nodes, with further machines behind wires, and whose \
 datagrams come back. Some\nkeys only the simulator knows: `[record]`, and what goes \
 beyond bulk flows, transfers and constant datagrams. The lab names all such\nkeys of a file and refuses it.\n\nThis page is generated from the declarations of the keys.";
