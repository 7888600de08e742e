//! Tables whose keys are declared elsewhere: the parameters of an algorithm, and the policy.
//!
//! The declarations are [`ParamInfo`] tables that `params!` makes where the algorithm or the law is written.

use crate::errors::{Wrong, quoted};
use crate::near::each_flow_of;
use crate::problems::Problems;
use crate::queue_config::QueueConfig;
use crate::schema::{ALL_ARMS, Here, Key, Printer, Rule, Scalar, Section, required, tidy};
use crate::table_doc::{Row, TableDoc, markdown_rows};
use crate::tree::{Entry, Node};
use weir_aqm::{Algorithm, Aqm, Needs, ParamError, ParamInfo, Params, Problem, Share, Value, Visitor};
use weir_queue::{Fifos, OfItsOwn, OverAny};
use weir_steer::{Helm, Observer, Policy, SteerError, SteeringLaw};
use weir_units::{Bytes, Duration, Rate, Time};

/// An algorithm with its parameters.
///
/// Equal are two that do the same, whether a value was written or is a default.
#[derive(Clone, Debug)]
pub struct AqmConfig {
    /// The name in the list of algorithms.
    pub name: String,
    /// Every parameter with its value, in the order of the declarations.
    pub settings: Vec<(&'static str, Value)>,
    /// The parameters that were written; the others have their defaults.
    pub given: Vec<&'static str>,
}

impl PartialEq for AqmConfig {
    fn eq(&self, other: &AqmConfig) -> bool {
        self.name == other.name && self.settings == other.settings
    }
}

impl AqmConfig {
    /// An algorithm with its defaults; `None` if there is none of that name.
    pub fn new(name: &str) -> Option<AqmConfig> {
        let about = about(name)?;
        let settings = about.info.iter().map(|i| (i.name, i.default)).collect();
        Some(AqmConfig { name: name.to_string(), settings, given: Vec::new() })
    }

    /// No management at all: packets are discarded when the buffer is full.
    pub fn fifo() -> AqmConfig {
        let mut fifo = AqmConfig::new(weir_aqm::UNMANAGED).expect("it is in the list");
        // The limit of the algorithm must not be reached before the buffer is full.
        fifo.set("limit", Value::Duration(Duration::from_secs(60))).expect("its longest limit is allowed");
        fifo
    }

    /// Sets a parameter, or says why not and changes nothing.
    pub fn set(&mut self, parameter: &str, value: Value) -> Result<(), ParamError> {
        let check = about(&self.name).map(|about| about.check);
        set(&mut self.settings, &mut self.given, check, parameter, value)
    }

    /// The value of a parameter.
    pub fn get(&self, parameter: &str) -> Option<Value> {
        self.settings.iter().find(|(name, _)| *name == parameter).map(|(_, value)| *value)
    }

    /// The parameters as the algorithm takes them; `P` is `A::Params` of the algorithm of this name.
    pub fn params<P: Params>(&self) -> P {
        params_from(&self.name, &self.settings)
    }

    /// What it must be told beside the packets of its queue.
    pub fn needs(&self) -> Needs {
        about(&self.name).map_or(Needs::Nothing, |about| about.needs)
    }

    /// Whether the delay at which the algorithm starts was written, and is not its default.
    pub fn has_own_setpoint(&self) -> bool {
        about(&self.name).and_then(|about| about.setpoint).is_some_and(|name| self.given.contains(&name))
    }

    /// The key and the value of a set point that was written and is a delay of the queue that it manages. What
    /// probes are sent for is the delay of a whole path.
    pub(crate) fn own_queue_setpoint(&self) -> Option<(String, Duration)> {
        let table = if weir_aqm::names().contains(&self.name.as_str()) { "aqm" } else { "queue" };
        let is_of_queue = self.needs() != Needs::Probes;
        let name = about(&self.name)?.setpoint.filter(|name| self.given.contains(name) && is_of_queue)?;
        Some((format!("{table}.{name}"), self.setpoint()?))
    }

    /// The delay at which the algorithm starts, if it has a set point.
    pub fn setpoint(&self) -> Option<Duration> {
        match self.get(about(&self.name)?.setpoint?)? {
            Value::Duration(delay) => Some(delay),
            _ => None,
        }
    }
}

/// The policy of steering.
///
/// Equal are two that do the same, whether a value was written or is a default.
#[derive(Clone, Debug)]
pub struct PolicyConfig {
    /// Every parameter with its value, in the order of the declarations.
    pub settings: Vec<(&'static str, Value)>,
    /// The parameters that were written; the others have their defaults.
    pub given: Vec<&'static str>,
}

impl Default for PolicyConfig {
    fn default() -> PolicyConfig {
        let settings = Policy::INFO.iter().map(|i| (i.name, i.default)).collect();
        PolicyConfig { settings, given: Vec::new() }
    }
}

impl PartialEq for PolicyConfig {
    fn eq(&self, other: &PolicyConfig) -> bool {
        self.settings == other.settings
    }
}

impl PolicyConfig {
    /// The value of a parameter.
    pub fn get(&self, parameter: &str) -> Option<Value> {
        self.settings.iter().find(|(name, _)| *name == parameter).map(|(_, value)| *value)
    }

    /// The parameters as the steering law takes them.
    pub fn params<P: Params>(&self) -> P {
        params_from("policy", &self.settings)
    }

    /// The policy that is in force.
    pub fn policy(&self) -> Policy {
        self.params()
    }

    /// What steers algorithms like `aqm`, which gets its first set point.
    pub fn helm<A: Aqm, O: Observer>(
        &self,
        aqm: &mut A,
        fifos: Fifos,
        start: Time,
        observer: O,
    ) -> Result<Helm<SteeringLaw, O>, SteerError> {
        match fifos {
            Fifos::One => Helm::new(aqm, &self.policy(), start, observer),
            Fifos::Many => Helm::of_many(aqm, &self.policy(), start, observer),
        }
    }

    /// Tells an algorithm that this policy cannot steer; the tables stand at the place of reading.
    pub(crate) fn check_with(&self, aqm: &AqmConfig, queue: &QueueConfig, here: &Here, p: &mut Problems) {
        let trial = Trial { aqm, queue, policy: self };
        if let Some(Err(error)) = weir_queue::visit(&queue.discipline, trial)
            && let Some(wrong) = cannot_steer(&aqm.name, &error)
        {
            p.add(&here.table.place_of("policy"), &here.key("policy"), wrong);
        }
    }

    /// Warns of a set point that was written and is not used, because steering starts with its own.
    pub(crate) fn unused_setpoint(&self, aqm: &AqmConfig) -> Option<String> {
        let (name, written) = (about(&aqm.name)?.setpoint?, aqm.setpoint()?);
        let policy = self.policy();
        let start = policy.target_min_up.clamp(policy.target_min, policy.target_max);
        (aqm.given.contains(&name) && written != start).then(|| {
            let table = if weir_aqm::names().contains(&aqm.name.as_str()) { "aqm" } else { "queue" };
            format!("steering starts at {start} (policy.target_min_up), not at {table}.{name}, {written}")
        })
    }

    /// Tells values that do not go together.
    fn check_values(&self, here: &Here, p: &mut Problems) {
        let Err(error) = self.policy().validate() else { return };
        // The line of a value that was written helps more than that of a default.
        let written = [error.small.0, error.large.0].into_iter().find(|name| self.given.contains(name));
        let told = error.to_string();
        let (problem, remedy) = told.split_once(": ").unwrap_or((&told, "change one of the two"));
        here.wrong(p, written.unwrap_or(error.small.0), problem, remedy);
    }
}

/// Steers an algorithm on trial, so that what is accepted here does not fail when it runs.
#[derive(Clone, Copy)]
struct Trial<'a> {
    aqm: &'a AqmConfig,
    queue: &'a QueueConfig,
    policy: &'a PolicyConfig,
}

impl Trial<'_> {
    fn steer(self, mut aqm: impl Aqm, fifos: Fifos) -> Result<(), SteerError> {
        self.policy.helm(&mut aqm, fifos, Time::ZERO, ()).map(|_| ())
    }
}

impl weir_queue::Visitor for Trial<'_> {
    type Output = Result<(), SteerError>;

    fn over_any<D: OverAny>(self) -> Self::Output {
        // An unknown algorithm is told when its table is read.
        weir_aqm::visit(&self.aqm.name, TrialOf(self, D::FIFOS)).unwrap_or(Ok(()))
    }

    fn of_its_own<D: OfItsOwn>(self) -> Self::Output {
        self.steer(D::aqm(&self.queue.params(), Time::ZERO), Fifos::Many)
    }
}

struct TrialOf<'a>(Trial<'a>, Fifos);

impl Visitor for TrialOf<'_> {
    type Output = Result<(), SteerError>;

    fn visit<A: Algorithm>(self) -> Self::Output {
        self.0.steer(A::new(&self.0.aqm.params::<A::Params>(), Time::ZERO), self.1)
    }
}

/// What to say of an algorithm that cannot be steered; nothing where the policy's own values are the reason,
/// which are told when it is read.
fn cannot_steer(name: &str, error: &SteerError) -> Option<Wrong> {
    match error {
        SteerError::Policy(_) => None,
        SteerError::NoSetpoint => {
            let problem = format!("cannot steer {name}, which has no set point");
            Some(Wrong::new(problem, "remove this table, or choose another algorithm"))
        }
        other => {
            let told = other.to_string();
            let (problem, remedy) = told.split_once(": ").unwrap_or((&told, "choose another algorithm"));
            Some(Wrong::new(format!("cannot steer {name}, {problem}"), remedy))
        }
    }
}

/// Builds parameters from settings that were checked when they were made.
pub(crate) fn params_from<P: Params>(owner: &str, settings: &[(&'static str, Value)]) -> P {
    let mut params = P::default();
    for (name, value) in settings {
        let set = params.set(name, *value);
        assert!(set.is_ok(), "parameter {name} = {value} of {owner} was checked before: {set:?}");
    }
    params
}

/// The parameters of an algorithm or a discipline, and which of them is its set point.
pub(crate) type Declared = (&'static [ParamInfo], Option<&'static str>);

/// What must be known of an algorithm to read its table.
struct About {
    info: &'static [ParamInfo],
    setpoint: Option<&'static str>,
    summary: &'static str,
    source: &'static str,
    needs: Needs,
    check: Check,
}

pub(crate) fn check_with<P: Params>(name: &str, value: Value) -> Result<(), ParamError> {
    P::default().set(name, value)
}

/// Of an algorithm in the list, or of one that a discipline brings.
fn about(name: &str) -> Option<About> {
    #[derive(Clone, Copy)]
    struct Ask;
    impl Visitor for Ask {
        type Output = About;
        fn visit<A: Algorithm>(self) -> About {
            About {
                info: A::Params::INFO,
                setpoint: A::SETPOINT,
                summary: A::SUMMARY,
                source: A::SOURCE,
                needs: A::NEEDS,
                check: check_with::<A::Params>,
            }
        }
    }
    impl weir_queue::Visitor for Ask {
        type Output = Option<About>;
        fn over_any<D: OverAny>(self) -> Option<About> {
            None
        }
        fn of_its_own<D: OfItsOwn>(self) -> Option<About> {
            Some(About {
                info: D::Params::INFO,
                setpoint: Some(D::SETPOINT),
                summary: D::SUMMARY,
                source: D::SOURCE,
                needs: D::Aqm::NEEDS,
                check: check_with::<D::Params>,
            })
        }
    }
    weir_aqm::visit(name, Ask).or_else(|| weir_queue::visit(name, Ask).flatten())
}

/// Parameters and set point of an algorithm.
pub(crate) fn declared(name: &str) -> Option<Declared> {
    about(name).map(|about| (about.info, about.setpoint))
}

/// Reads a value of the kind of `like`.
fn value_like(like: &Value, node: &Node) -> Result<Value, Wrong> {
    Ok(match like {
        Value::Duration(_) => Value::Duration(Duration::read(node)?),
        Value::Bytes(_) => Value::Bytes(Bytes::read(node)?),
        Value::Rate(_) => Value::Rate(Rate::read(node)?),
        Value::Share(_) => Value::Share(Share::read(node)?),
        Value::Number(_) => Value::Number(f64::read(node)?),
        Value::Count(_) => Value::Count(u32::read(node)?),
        Value::Flag(_) => Value::Flag(bool::read(node)?),
    })
}

fn literal(value: &Value) -> String {
    match value {
        Value::Duration(v) => v.literal(),
        Value::Bytes(v) => v.literal(),
        Value::Rate(v) => v.literal(),
        Value::Share(v) => v.literal(),
        Value::Number(v) => v.literal(),
        Value::Count(v) => v.literal(),
        Value::Flag(v) => v.literal(),
    }
}

/// Every parameter with its value, in the order of the declarations.
pub(crate) type Settings = Vec<(&'static str, Value)>;

/// Says whether a parameter may have a value.
pub(crate) type Check = fn(&str, Value) -> Result<(), ParamError>;

/// Sets a parameter, or says why not and changes nothing. Without `check` there is no such parameter.
pub(crate) fn set(
    settings: &mut Settings,
    given: &mut Vec<&'static str>,
    check: Option<Check>,
    parameter: &str,
    value: Value,
) -> Result<(), ParamError> {
    let unknown = ParamError { problem: Problem::Unknown };
    check.ok_or(unknown)?(parameter, value)?;
    let slot = settings.iter_mut().find(|(name, _)| *name == parameter).ok_or(unknown)?;
    slot.1 = value;
    if !given.contains(&slot.0) {
        given.push(slot.0);
    }
    Ok(())
}

/// Reads all parameters of `info` from a table; `own` are the keys that are no parameters.
pub(crate) fn read_settings(
    info: &'static [ParamInfo],
    own: &[&'static str],
    check: Check,
    here: &Here,
    p: &mut Problems,
) -> Option<(Settings, Vec<&'static str>)> {
    let names: Vec<&'static str> = own.iter().copied().chain(info.iter().map(|i| i.name)).collect();
    here.refuse_unknown(p, &names);
    let mut settings = Some(Vec::new());
    let mut given = Vec::new();
    for info in info {
        let value = match here.table.get(info.name) {
            Some(entry) => {
                given.push(info.name);
                read_setting(info, entry, check)
                    .map_err(|w| p.add(&entry.place, &here.key(info.name), w))
                    .ok()
            }
            None => Some(info.default),
        };
        // One wrong value spoils the table, but the others are still looked at.
        settings = settings.zip(value).map(|(mut list, value)| {
            list.push((info.name, value));
            list
        });
    }
    settings.map(|list| (list, given))
}

/// Tells a least value that is larger than the largest: of parameters whose names end in `_min` and `_max`.
pub(crate) fn check_pairs(settings: &Settings, given: &[&'static str], here: &Here, p: &mut Problems) {
    for (small, least) in settings {
        let large = small.strip_suffix("_min").map(|of| format!("{of}_max"));
        let most = settings.iter().find(|(name, _)| large.as_deref() == Some(*name));
        let Some((large, most)) = most.filter(|(_, most)| !least.within(least, most)) else { continue };
        // The line of a value that was written helps more than that of a default.
        let (key, relation, other, value, remedy) = if given.contains(small) {
            (small, "more", large, most, "lower it, or raise")
        } else {
            (large, "less", small, least, "raise it, or lower")
        };
        let own = if key == small { least } else { most };
        let problem = format!("{own} is {relation} than `{other}`, {value}");
        here.wrong(p, key, problem, format!("{remedy} `{other}`"));
    }
}

pub(crate) fn read_setting(info: &ParamInfo, entry: &Entry, check: Check) -> Result<Value, Wrong> {
    let node = &entry.item.node;
    let value = value_like(&info.default, node)
        .map_err(|wrong| wrong.within(&format!("{} .. {}", info.min, info.max)))?;
    match check(info.name, value) {
        Ok(()) => Ok(value),
        Err(ParamError { problem: Problem::Range { min, max } }) => {
            let problem = format!("{} is out of range", node.shown());
            Err(Wrong::new(problem, format!("give a value in {min} .. {max}")))
        }
        Err(other) => Err(Wrong::new(format!("cannot be {}", node.what()), format!("it {other}"))),
    }
}

pub(crate) fn row(info: &ParamInfo) -> Row {
    let flag = matches!(info.default, Value::Flag(_));
    let range = if flag { String::new() } else { format!("{} .. {}", info.min, info.max) };
    let kind = info.default.kind().to_string();
    Row { name: info.name.to_string(), kind, default: literal(&info.default), range, doc: tidy(info.doc) }
}

pub(crate) fn print_settings(
    info: &'static [ParamInfo],
    settings: &[(&'static str, Value)],
    given: &[&'static str],
    out: &mut Printer,
) {
    for (name, value) in settings {
        let Some(info) = info.iter().find(|i| i.name == *name) else { continue };
        print_setting(info, value, given.contains(name), out);
    }
}

/// Where points of a sweep have other algorithms, a default of this one could be unknown to them: it stays a
/// comment.
pub(crate) fn print_setting(info: &ParamInfo, value: &Value, is_given: bool, out: &mut Printer) {
    if out.in_sweep() && !is_given {
        out.comment(&row(info), &literal(value));
    } else {
        out.value(&row(info), &literal(value));
    }
}

const NAME: Key =
    Key { name: "name", doc: "The algorithm; its parameters are keys of the same table.", arms: ALL_ARMS };

impl Section for AqmConfig {
    fn names() -> Vec<&'static str> {
        vec![NAME.name]
    }

    fn read_fields(here: &Here, p: &mut Problems) -> Option<Self> {
        let any = crate::schema::Range::Any;
        let names = weir_aqm::names();
        let Some(entry) = here.table.get(NAME.name) else {
            here.wrong(p, NAME.name, "is missing", format!("name one of {}", names.join(", ")));
            return None;
        };
        let name: String = required(any).read(&NAME, here, p)?;
        if weir_queue::names().contains(&name.as_str()) {
            let problem = format!("cannot be {}, which is a discipline", quoted(&name));
            let wrong = Wrong::new(problem, format!("write it as `queue.discipline = {}`", quoted(&name)));
            p.add(&entry.place, &here.key(NAME.name), wrong);
            return None;
        }
        let Some(about) = about(&name) else {
            let wrong = match each_flow_of(&name) {
                Some(aqm) => Wrong::flow_queue(&name, aqm),
                None => Wrong::no_such("algorithm", &name, names),
            };
            p.add(&entry.place, &here.key(NAME.name), wrong);
            return None;
        };
        let (settings, given) = read_settings(about.info, &[NAME.name], about.check, here, p)?;
        check_pairs(&settings, &given, here, p);
        Some(AqmConfig { name, settings, given })
    }

    fn read(here: &Here, p: &mut Problems) -> Option<Self> {
        // Which keys are known depends on the name, so that reading the fields looks at all keys.
        Self::read_fields(here, p)
    }

    fn print_values(&self, out: &mut Printer) {
        let Some(about) = about(&self.name) else { return };
        out.note(about.summary);
        out.line(&format!("name = {}", self.name.literal()));
        print_settings(about.info, &self.settings, &self.given, out);
    }

    fn describe(at: usize, tables: &mut Vec<TableDoc>) {
        let any = crate::schema::Range::<String>::Any;
        required(any).describe(&NAME, at, tables);
        for name in weir_aqm::names() {
            let Some(about) = about(name) else { continue };
            // What stands in no paper is there for tests and not for users.
            if about.source == "none" {
                continue;
            }
            let rows: Vec<Row> = about.info.iter().map(row).collect();
            let setpoint = about.setpoint.map(|s| format!(" Steering moves `{s}`.")).unwrap_or_default();
            tables[at].after.push_str(&format!(
                "\n### `name = \"{name}\"`\n\n{} From {}.{setpoint}\n\n{}",
                about.summary,
                about.source,
                markdown_rows(&rows)
            ));
        }
    }
}

impl Section for PolicyConfig {
    fn names() -> Vec<&'static str> {
        Policy::INFO.iter().map(|i| i.name).collect()
    }

    fn read_fields(here: &Here, p: &mut Problems) -> Option<Self> {
        let check = check_with::<Policy>;
        let (settings, given) = read_settings(Policy::INFO, &[], check, here, p)?;
        let policy = PolicyConfig { settings, given };
        policy.check_values(here, p);
        Some(policy)
    }

    fn read(here: &Here, p: &mut Problems) -> Option<Self> {
        Self::read_fields(here, p)
    }

    fn print_values(&self, out: &mut Printer) {
        print_settings(Policy::INFO, &self.settings, &self.given, out);
    }

    fn describe(at: usize, tables: &mut Vec<TableDoc>) {
        tables[at].rows.extend(Policy::INFO.iter().map(row));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_algorithm_without_a_set_point_is_not_steered() {
        let wrong = cannot_steer("red", &SteerError::NoSetpoint).unwrap();
        assert_eq!(wrong.problem, "cannot steer red, which has no set point");
        let (wanted, got) = (Duration::from_secs(20), Duration::from_secs(10));
        assert!(cannot_steer("red", &SteerError::OutOfReach { wanted, got }).is_some());
    }

    #[test]
    fn settings_made_in_code_are_checked_like_those_of_a_file() {
        for name in weir_aqm::names() {
            let mut aqm = AqmConfig::new(name).unwrap();
            assert!(aqm.set("no_such_parameter", Value::Count(1)).is_err());
            struct Build(AqmConfig);
            impl Visitor for Build {
                type Output = ();
                fn visit<A: Algorithm>(self) {
                    let _: A::Params = self.0.params();
                }
            }
            weir_aqm::visit(name, Build(aqm)).unwrap();
        }
        assert!(AqmConfig::new("no_such_algorithm").is_none());
    }
}
