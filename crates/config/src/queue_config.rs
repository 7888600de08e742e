//! The table that says how packets wait: the discipline and its parameters.

use crate::aqm_config::AqmConfig;
use crate::errors::Wrong;
use crate::near::each_flow_of;
use crate::problems::Problems;
use crate::schema::{
    ALL_ARMS, Here, Key, OneTable, OptionalTable, Printer, Range, Rule, Scalar, Section, or,
};
use crate::settings::{
    Check, Declared, Settings, check_pairs, check_with, params_from, print_settings, read_settings, row, set,
};
use crate::table_doc::{Row, TableDoc, markdown_rows};
use crate::tree::Node;
use weir_aqm::{ParamError, ParamInfo, Params, Value};
use weir_queue::{Entry, OfItsOwn, OverAny, USUAL, UserKey, Visitor};

/// A queue discipline with its parameters.
///
/// Equal are two that do the same, whether a value was written or is a default.
#[derive(Clone, Debug)]
pub struct QueueConfig {
    /// The name in the list of disciplines.
    pub discipline: String,
    /// Every parameter with its value, in the order of the declarations.
    pub settings: Settings,
    /// The parameters that were written; the others have their defaults.
    pub given: Vec<&'static str>,
}

impl PartialEq for QueueConfig {
    fn eq(&self, other: &QueueConfig) -> bool {
        self.discipline == other.discipline && self.settings == other.settings
    }
}

impl Default for QueueConfig {
    fn default() -> QueueConfig {
        QueueConfig::new(USUAL).expect("the list has a plain queue")
    }
}

impl QueueConfig {
    /// A discipline with its defaults; `None` if there is none of that name.
    pub fn new(name: &str) -> Option<QueueConfig> {
        let about = about(name)?;
        let settings = about.info.iter().map(|i| (i.name, i.default)).collect();
        Some(QueueConfig { discipline: name.to_string(), settings, given: Vec::new() })
    }

    /// Sets a parameter, or says why not and changes nothing.
    pub fn set(&mut self, parameter: &str, value: Value) -> Result<(), ParamError> {
        let check = about(&self.discipline).map(|about| about.check);
        set(&mut self.settings, &mut self.given, check, parameter, value)
    }

    /// The parameters as the discipline takes them; `P` is `D::Params` of the discipline of this name.
    pub fn params<P: Params>(&self) -> P {
        params_from(&self.discipline, &self.settings)
    }

    /// What a user is, if each has a queue.
    pub fn user_key(&self) -> Option<UserKey> {
        struct Ask<'a>(&'a QueueConfig);
        impl Visitor for Ask<'_> {
            type Output = Option<UserKey>;
            fn over_any<D: OverAny>(self) -> Self::Output {
                D::user_key(&self.0.params())
            }
            fn of_its_own<D: OfItsOwn>(self) -> Self::Output {
                D::user_key(&self.0.params())
            }
        }
        weir_queue::visit(&self.discipline, Ask(self)).flatten()
    }

    /// Whether it keeps a lane beside the queue of each user for those who build none.
    pub(crate) fn keeps_lanes(&self) -> bool {
        self.settings.contains(&("nqb", Value::Flag(true)))
    }

    /// Discipline and algorithm in a few words, such as `flow codel`; the algorithm alone under a plain
    /// queue.
    pub fn label(&self, algorithm: &str) -> String {
        match self.discipline.as_str() {
            USUAL => algorithm.to_string(),
            own if own == algorithm => own.to_string(),
            over_any => format!("{over_any} {algorithm}"),
        }
    }

    /// The algorithm, where the discipline brings it: it has the discipline's name and parameters.
    pub(crate) fn own_aqm(&self) -> Option<AqmConfig> {
        let about = about(&self.discipline).filter(|about| about.brings_algorithm)?;
        debug_assert_eq!(about.info.len(), self.settings.len());
        let (settings, given) = (self.settings.clone(), self.given.clone());
        Some(AqmConfig { name: self.discipline.clone(), settings, given })
    }
}

/// What must be known of a discipline to read its table.
struct About {
    info: &'static [ParamInfo],
    summary: &'static str,
    source: &'static str,
    setpoint: Option<&'static str>,
    brings_algorithm: bool,
    check: Check,
}

impl About {
    fn of<D: Entry>(setpoint: Option<&'static str>, brings_algorithm: bool) -> About {
        About {
            info: D::Params::INFO,
            summary: D::SUMMARY,
            source: D::SOURCE,
            setpoint,
            brings_algorithm,
            check: check_with::<D::Params>,
        }
    }
}

fn about(name: &str) -> Option<About> {
    struct Ask;
    impl Visitor for Ask {
        type Output = About;
        fn over_any<D: OverAny>(self) -> About {
            About::of::<D>(None, false)
        }
        fn of_its_own<D: OfItsOwn>(self) -> About {
            About::of::<D>(Some(D::SETPOINT), true)
        }
    }
    weir_queue::visit(name, Ask)
}

/// The name of an algorithm where that of a discipline is wanted.
fn over_one_queue(algorithm: &str, mut wrong: Wrong) -> Wrong {
    wrong.remedy =
        format!("write `discipline = \"{USUAL}\"` and, beside `queue`, `aqm = {{ name = \"{algorithm}\" }}`");
    wrong
}

/// Whether a parameter has another value than its default, which says nothing where it was written, as in a
/// printed file.
fn differs(info: &[ParamInfo], (name, value): &(&str, Value)) -> bool {
    info.iter().any(|one| one.name == *name && one.default != *value)
}

/// Tells of a prefix where users are VLANs: addresses do not matter then.
fn check_users(info: &[ParamInfo], settings: &Settings, here: &Here, p: &mut Problems) {
    if !settings.contains(&("vlan", Value::Flag(true))) {
        return;
    }
    let prefixes = settings.iter().filter(|(name, _)| name.starts_with("prefix"));
    for (name, value) in prefixes.filter(|one| differs(info, one)) {
        let problem = format!("{value} does not go with `vlan`, by which a user is a VLAN and no address");
        here.wrong(p, name, problem, "remove one of the two");
    }
}

/// Tells of queue protection where nothing waits that is protected, and of the room of lanes that are not
/// there: the low-latency queue of DualPI2 is always there, lanes are not.
fn check_lanes(info: &[ParamInfo], settings: &Settings, here: &Here, p: &mut Problems) {
    let is = |name, on| settings.contains(&(name, Value::Flag(on)));
    let has_lanes = settings.iter().any(|(name, _)| *name == "l4s_threshold");
    let room = settings.iter().find(|(name, _)| *name == "nqb_buffer");
    if is("nqb", false) && room.is_some_and(|room| differs(info, room)) {
        let problem = "is the room for packets of NQB, and without `nqb` there is none";
        here.wrong(p, "nqb_buffer", problem, "write `nqb = true` as well, or remove it");
    }
    if has_lanes && is("protection", true) && is("nqb", false) {
        let problem = "protects the lanes beside the FIFOs, and without `nqb` there are none";
        here.wrong(p, "protection", problem, "write `nqb = true` as well, or remove it");
    }
}

/// Parameters and set point of a discipline.
pub(crate) fn declared(name: &str) -> Option<Declared> {
    about(name).map(|about| (about.info, about.setpoint))
}

/// Whether a discipline brings its algorithm, so that there is no `aqm` table beside it.
pub fn brings_algorithm(discipline: &str) -> bool {
    about(discipline).is_some_and(|about| about.brings_algorithm)
}

const DISCIPLINE: Key = Key {
    name: "discipline",
    doc: "How packets wait and which goes next; its parameters are keys of the same table.",
    arms: ALL_ARMS,
};

fn name_rule() -> impl Rule<String> {
    or(USUAL.to_string(), Range::Any)
}

impl Section for QueueConfig {
    fn names() -> Vec<&'static str> {
        vec![DISCIPLINE.name]
    }

    fn read_fields(here: &Here, p: &mut Problems) -> Option<Self> {
        let name: String = name_rule().read(&DISCIPLINE, here, p)?;
        let Some(about) = about(&name) else {
            let wrong = match each_flow_of(&name) {
                Some(aqm) => Wrong::flow_queue(&name, aqm),
                None => {
                    let wrong = Wrong::no_such("discipline", &name, weir_queue::names());
                    if weir_aqm::names().contains(&name.as_str()) {
                        over_one_queue(&name, wrong)
                    } else {
                        wrong
                    }
                }
            };
            p.add(&here.table.place_of(DISCIPLINE.name), &here.key(DISCIPLINE.name), wrong);
            return None;
        };
        let (settings, given) = read_settings(about.info, &[DISCIPLINE.name], about.check, here, p)?;
        check_pairs(&settings, &given, here, p);
        check_users(about.info, &settings, here, p);
        check_lanes(about.info, &settings, here, p);
        Some(QueueConfig { discipline: name, settings, given })
    }

    fn read(here: &Here, p: &mut Problems) -> Option<Self> {
        // Which keys are known depends on the name, so that reading the fields looks at all keys.
        Self::read_fields(here, p)
    }

    fn print_values(&self, out: &mut Printer) {
        let Some(about) = about(&self.discipline) else { return };
        out.note(about.summary);
        out.line(&format!("discipline = {}", self.discipline.literal()));
        print_settings(about.info, &self.settings, &self.given, out);
    }

    fn describe(at: usize, tables: &mut Vec<TableDoc>) {
        name_rule().describe(&DISCIPLINE, at, tables);
        for name in weir_queue::names() {
            let Some(about) = about(name) else { continue };
            let source =
                if about.source == "none" { String::new() } else { format!(" From {}.", about.source) };
            let setpoint = about.setpoint.map(|s| format!(" Steering moves `{s}`.")).unwrap_or_default();
            let own = if about.brings_algorithm {
                " It brings its algorithm with it: there is no `aqm` table beside it."
            } else {
                ""
            };
            let rows: Vec<Row> = about.info.iter().map(row).collect();
            tables[at].after.push_str(&format!(
                "\n### `discipline = \"{name}\"`\n\n{}{source}{setpoint}{own}\n",
                about.summary
            ));
            if !rows.is_empty() {
                tables[at].after.push_str(&format!("\n{}", markdown_rows(&rows)));
            }
        }
    }
}

/// The table of the algorithm, which must not be there where the discipline of the `queue` table beside it
/// brings one.
pub(crate) struct Algorithm;

impl Algorithm {
    /// The discipline that brings its algorithm, if it is one.
    fn own<'a>(here: &Here<'a>) -> Option<&'a str> {
        let Node::Table(queue) = &here.table.get("queue")?.item.node else { return None };
        let Node::Text(name) = &queue.get(DISCIPLINE.name)?.item.node else { return None };
        about(name)?.brings_algorithm.then_some(name)
    }

    /// The algorithm of the discipline; its parameters are read with the queue.
    fn brought(key: &Key, here: &Here, p: &mut Problems) -> Option<AqmConfig> {
        let name = Algorithm::own(here)?;
        if here.table.has(key.name) {
            let problem = format!("does not go with the discipline {name}, which brings its own algorithm");
            here.wrong(p, key.name, problem, "remove this table, or choose another discipline");
        }
        AqmConfig::new(name)
    }

    fn is_listed(aqm: &AqmConfig) -> bool {
        weir_aqm::names().contains(&aqm.name.as_str())
    }
}

impl Rule<AqmConfig> for Algorithm {
    fn read(&self, key: &Key, here: &Here, p: &mut Problems) -> Option<AqmConfig> {
        Algorithm::brought(key, here, p).or_else(|| OneTable.read(key, here, p))
    }
    fn print_tables(&self, key: &Key, value: &AqmConfig, out: &mut Printer) {
        if Algorithm::is_listed(value) {
            OneTable.print_tables(key, value, out);
        }
    }
    fn describe(&self, key: &Key, at: usize, tables: &mut Vec<TableDoc>) {
        Rule::<AqmConfig>::describe(&OneTable, key, at, tables);
    }
}

impl Rule<Option<AqmConfig>> for Algorithm {
    fn read(&self, key: &Key, here: &Here, p: &mut Problems) -> Option<Option<AqmConfig>> {
        match Algorithm::brought(key, here, p) {
            Some(aqm) => Some(Some(aqm)),
            None => OptionalTable.read(key, here, p),
        }
    }
    fn print_tables(&self, key: &Key, value: &Option<AqmConfig>, out: &mut Printer) {
        if value.as_ref().is_none_or(Algorithm::is_listed) {
            OptionalTable.print_tables(key, value, out);
        }
    }
    fn describe(&self, key: &Key, at: usize, tables: &mut Vec<TableDoc>) {
        Rule::<Option<AqmConfig>>::describe(&OptionalTable, key, at, tables);
    }
}
