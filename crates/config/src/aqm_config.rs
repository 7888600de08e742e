//! The table of an algorithm: its name and its parameters.

use crate::errors::{Wrong, quoted};
use crate::near::each_flow_of;
use crate::problems::Problems;
use crate::schema::{ALL_ARMS, Here, Key, Printer, Range, Rule, Scalar, Section, required};
use crate::settings::{
    Check, Declared, check_pairs, check_with, params_from, print_settings, read_settings, row, set,
};
use crate::table_doc::{Row, TableDoc, markdown_rows};
use weir_aqm::{Algorithm, Aqm, Needs, ParamError, ParamInfo, Params, Value, Visitor};
use weir_queue::{OfItsOwn, OverAny};
use weir_units::Duration;

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

    /// The key of the delay at which the algorithm starts, if it has a set point.
    pub fn setpoint_key(&self) -> Option<&'static str> {
        about(&self.name)?.setpoint
    }

    /// Whether the delay at which the algorithm starts was written, and is not its default.
    pub fn has_own_setpoint(&self) -> bool {
        about(&self.name).and_then(|about| about.setpoint).is_some_and(|name| self.given.contains(&name))
    }

    /// The key and the value of a set point that was written and is a delay of the queue that it manages.
    /// What probes are sent for is the delay of a whole path.
    pub(crate) fn own_queue_setpoint(&self) -> Option<(String, Duration)> {
        let table = if weir_aqm::names().contains(&self.name.as_str()) { "aqm" } else { "queue" };
        let is_of_queue = self.needs() != Needs::Probes;
        let name = about(&self.name)?.setpoint.filter(|name| self.given.contains(name) && is_of_queue)?;
        Some((format!("{table}.{name}"), self.setpoint()?))
    }

    /// The set point that a raise of steering goes at least to, if it has one.
    pub fn raise_floor(&self) -> Option<Duration> {
        struct Ask<'a>(&'a AqmConfig);
        impl Visitor for Ask<'_> {
            type Output = Option<Duration>;
            fn visit<A: Algorithm>(self) -> Self::Output {
                A::raise_floor(&self.0.params())
            }
        }
        let about = || {
            let about = about(&self.name)?;
            weir_aqm::default_setpoint(about.info, about.setpoint?)
        };
        weir_aqm::visit(&self.name, Ask(self)).unwrap_or_else(about)
    }

    /// The delay at which the algorithm starts, if it has a set point.
    pub fn setpoint(&self) -> Option<Duration> {
        match self.get(about(&self.name)?.setpoint?)? {
            Value::Duration(delay) => Some(delay),
            _ => None,
        }
    }
}

/// What must be known of an algorithm to read its table.
struct About {
    info: &'static [ParamInfo],
    setpoint: Option<&'static str>,
    summary: &'static str,
    source: &'static str,
    needs: Needs,
    check: Check,
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

const NAME: Key =
    Key { name: "name", doc: "The algorithm; its parameters are keys of the same table.", arms: ALL_ARMS };

impl Section for AqmConfig {
    fn names() -> Vec<&'static str> {
        vec![NAME.name]
    }

    fn read_fields(here: &Here, p: &mut Problems) -> Option<Self> {
        let any = Range::Any;
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
        let any = Range::<String>::Any;
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

#[cfg(test)]
mod tests {
    use super::*;

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
