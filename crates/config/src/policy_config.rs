//! The table of the policy, which steers an algorithm.

use crate::aqm_config::{AqmConfig, declared};
use crate::errors::Wrong;
use crate::problems::Problems;
use crate::queue_config::QueueConfig;
use crate::schema::{Here, Printer, Section};
use crate::settings::{check_with, literal, params_from, print_setting, read_settings, row};
use crate::table_doc::{Row, TableDoc};
use weir_aqm::{Algorithm, Aqm, Params, Value, Visitor};
use weir_queue::{Fifos, OfItsOwn, OverAny};
use weir_steer::{Helm, Observer, Policy, SteerError, SteeringLaw};
use weir_units::{Duration, Time};

/// The parameter whose default is that of the algorithm.
const FLOOR: &str = "target_min_up";

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

    /// The same with the defaults of parameters that are not in use: those of the virtual queue where the
    /// whole link is aimed at.
    #[must_use]
    pub fn in_use(mut self) -> PolicyConfig {
        if !self.policy().uses_virtual_queue() {
            let of_virtual_queue = self
                .settings
                .iter_mut()
                .zip(Policy::INFO)
                .filter(|(_, info)| info.name.starts_with("virtual_"));
            of_virtual_queue.for_each(|((_, value), info)| *value = info.default);
        }
        self
    }

    /// Raises go at least to `floor`, where the configuration does not say to what.
    pub fn take_floor(&mut self, floor: Option<Duration>) {
        let Some(floor) = floor.filter(|_| !self.given.contains(&FLOOR)) else { return };
        let slot = self.settings.iter_mut().find(|(name, _)| *name == FLOOR);
        if let Some((_, value)) = slot {
            *value = Value::Duration(floor);
        }
    }

    /// The same with that floor.
    pub fn with_floor(&self, floor: Option<Duration>) -> PolicyConfig {
        let mut policy = self.clone();
        policy.take_floor(floor);
        policy
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

    /// Takes the raise floor of the algorithm, and tells one that this policy cannot steer; the tables stand
    /// at the place of reading.
    pub(crate) fn check_with(&mut self, aqm: &AqmConfig, queue: &QueueConfig, here: &Here, p: &mut Problems) {
        self.take_floor(aqm.raise_floor());
        if let Some(wrong) = self.cannot_steer(aqm, queue) {
            p.add(&here.table.place_of("policy"), &here.key("policy"), wrong);
        }
    }

    /// Why it cannot steer that algorithm, if it cannot.
    pub(crate) fn cannot_steer(&self, aqm: &AqmConfig, queue: &QueueConfig) -> Option<Wrong> {
        let trial = Trial { aqm, queue, policy: self };
        let error = weir_queue::visit(&queue.discipline, trial)?.err()?;
        cannot_steer(&aqm.name, &error)
    }

    /// Why it cannot steer that algorithm in one FIFO, if it cannot.
    pub(crate) fn cannot_steer_one(&self, aqm: &AqmConfig) -> Option<Wrong> {
        let trial = Trial { aqm, queue: &QueueConfig::default(), policy: self };
        let error = weir_aqm::visit(&aqm.name, TrialOf(trial, Fifos::One))?.err()?;
        cannot_steer(&aqm.name, &error)
    }

    /// The same with another value for a parameter.
    pub(crate) fn with(mut self, parameter: &'static str, value: Value) -> PolicyConfig {
        let slot = self.settings.iter_mut().find(|(name, _)| *name == parameter);
        slot.into_iter().for_each(|(_, setting)| *setting = value);
        self
    }

    /// Warns of a set point that was written and is not used, because steering starts with its own.
    pub(crate) fn unused_setpoint(&self, aqm: &AqmConfig) -> Option<String> {
        let (name, written) = (declared(&aqm.name)?.1?, aqm.setpoint()?);
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
        for (info, (name, value)) in Policy::INFO.iter().zip(&self.settings) {
            // Written out it would no longer follow the algorithm.
            if *name == FLOOR && !self.given.contains(name) {
                out.comment(&row(info), &literal(value));
            } else {
                print_setting(info, value, self.given.contains(name), out);
            }
        }
    }

    fn describe(at: usize, tables: &mut Vec<TableDoc>) {
        let default = |mut row: Row| {
            if row.name == FLOOR {
                row.default = "(that of the algorithm)".to_string();
            }
            row
        };
        tables[at].rows.extend(Policy::INFO.iter().map(row).map(default));
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
}
