//! Changes of a running loop: made and checked by others, put into force by the loop between two packets.
//!
//! What can change while packets wait is what leaves them where they are: rates, parameters of an algorithm,
//! the policy. Everything else is what the loop was built from, and takes a restart, which `--takeover` makes
//! without a gap.

use crate::customers::{DirectionPlans, Made};
use std::any::Any;
use std::collections::BTreeSet;
use weir_aqm::Algorithm;
use weir_config::{Changed, Channel, RunConfig};
use weir_queue::UserNow;
use weir_steer::{Helm, Observer, Policy, SteeringLaw};
use weir_units::{Duration, Rate, Time};
use weir_wire::dscp::Remarks;

/// What changes for one direction.
#[derive(Default)]
pub struct DirectionChange {
    /// The rate of its link.
    pub(crate) rate: Option<Rate>,
    policy: Option<Policy>,
    /// What becomes of the DSCP of packets.
    pub(crate) remarks: Option<Remarks>,
    /// Parameters of its algorithm, of the algorithm's own type.
    params: Option<Box<dyn Any + Send>>,
    /// Plans of customers, with the memory that they need; those before come back in their place.
    pub(crate) plans: Option<Made>,
}

impl DirectionChange {
    /// The parameters of the algorithm, if they change.
    pub(crate) fn params<P: 'static>(&self) -> Option<&P> {
        let params = self.params.as_ref()?.downcast_ref();
        debug_assert!(params.is_some(), "a change is for the algorithm that is there");
        params
    }

    /// Puts the policy into force, if it changes.
    pub(crate) fn steer<O: Observer>(&self, helm: &mut Helm<SteeringLaw, O>) {
        if let Some(policy) = &self.policy {
            let adopted = helm.adopt(policy);
            debug_assert!(adopted.is_ok(), "policies are checked with the configuration");
        }
    }

    fn is_empty(&self) -> bool {
        let Self { rate, policy, remarks, params, plans } = self;
        rate.is_none() && policy.is_none() && remarks.is_none() && params.is_none() && plans.is_none()
    }
}

/// A change of a running loop: all of it is put into force at once, between two packets.
#[derive(Default)]
pub struct Change {
    pub(crate) directions: [DirectionChange; 2],
    /// Whether the kernel is to go on forwarding after an end in order.
    pub(crate) keep_forwarding: Option<bool>,
    /// Somebody asks how users stand, and nothing changes.
    pub(crate) users: Option<UsersAsked>,
    /// When it was put into force.
    pub(crate) applied: Option<Time>,
    /// What is to be known of it.
    notes: Vec<String>,
}

/// Users that are asked for, from a place on; `rows` has room for as many as are wanted at once.
pub(crate) struct UsersAsked {
    pub direction: usize,
    pub from: usize,
    pub rows: Vec<UserNow>,
    pub told: usize,
}

/// A key whose change takes a restart.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct NeedsRestart {
    /// The key, as in the configuration.
    pub key: String,
    /// Why.
    pub why: &'static str,
}

impl std::fmt::Display for NeedsRestart {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(
            f,
            "key `{}` cannot change while it runs: {}. Remedy: change the file and start it with `weir run FILE --takeover`, \
             which takes over without a gap",
            self.key, self.why
        )
    }
}

const DIRECTIONS: [&str; 2] = ["a_to_b", "b_to_a"];

impl Change {
    /// What leads from one configuration to another, both of which were checked; `started` is the one that
    /// the loop was built from. Where any key takes a restart all those are told, and nothing may change.
    pub fn between(
        started: &RunConfig,
        from: &RunConfig,
        to: &RunConfig,
    ) -> Result<Change, Vec<NeedsRestart>> {
        let mut change = Change::default();
        let mut refused = Vec::new();
        let changed = from.changes(to);
        let channels = |config: &'_ RunConfig| [config.a_to_b.clone(), config.b_to_a.clone()];
        let all = channels(started).into_iter().zip(channels(from)).zip(channels(to));
        for (index, ((started, from), to)) in all.enumerate() {
            let key = |key: &str| format!("{}.{key}", DIRECTIONS[index]);
            let has_line = started.delay > Duration::ZERO;
            match (Step { key: &key, started, has_line, from, to }).change(&mut change.notes) {
                Ok(direction) => change.directions[index] = direction,
                Err(why) => refused.extend(why),
            }
        }
        if from.fail_open.keep_forwarding != to.fail_open.keep_forwarding {
            change.keep_forwarding = Some(to.fail_open.keep_forwarding);
        }
        refused.extend(built_from(&changed));
        if refused.is_empty() { Ok(change) } else { Err(refused) }
    }

    /// The same with what leads from one form of a direction to another, both of which were checked, as
    /// above; `key` says under which key of its file a host has a key of `weir run`'s directions, and
    /// `has_line` whether a delay line was built.
    pub fn with_direction(
        mut self,
        index: usize,
        key: &dyn Fn(&str) -> String,
        has_line: bool,
        [started, from, to]: [Channel; 3],
    ) -> Result<Change, Vec<NeedsRestart>> {
        self.directions[index] = Step { key, started, has_line, from, to }.change(&mut self.notes)?;
        Ok(self)
    }

    /// The same with these plans of customers.
    pub fn with_plans(mut self, plans: &[Option<DirectionPlans>; 2]) -> Change {
        for (direction, plans) in self.directions.iter_mut().zip(plans) {
            direction.plans = plans.as_ref().map(DirectionPlans::make);
        }
        self
    }

    /// After its end in order the kernel is to go on forwarding.
    pub fn keep_forwarding() -> Change {
        Change { keep_forwarding: Some(true), ..Change::default() }
    }

    /// Nothing changes: somebody asks how users stand.
    pub(crate) fn asking(users: UsersAsked) -> Change {
        Change { users: Some(users), ..Change::default() }
    }

    /// Whether nothing changes.
    pub fn is_empty(&self) -> bool {
        self.directions.iter().all(DirectionChange::is_empty) && self.keep_forwarding.is_none()
    }

    /// What is to be known of it, beside what changes.
    pub fn notes(&self) -> &[String] {
        &self.notes
    }
}

/// Keys beside those of the directions: the loop was built from them.
fn built_from(changed: &[Changed]) -> Vec<NeedsRestart> {
    let is_of_direction = |key: &str| DIRECTIONS.iter().any(|name| key.starts_with(&format!("{name}.")));
    let other = changed.iter().map(|changed| &changed.key);
    // By what customers' quality of outcome is measured is nothing to the packet loop.
    let is_free = |key: &str| key == "fail_open.keep_forwarding" || key.starts_with("users.outcome.");
    let other = other.filter(|key| !is_of_direction(key) && !is_free(key));
    let why = "the ports, the packet loop and its results are built with it";
    other.map(|key| NeedsRestart { key: key.clone(), why }).collect()
}

/// A direction as it was built, as it is, and as it is to be.
struct Step<'a> {
    /// What a key is called in the file.
    key: &'a dyn Fn(&str) -> String,
    started: Channel,
    has_line: bool,
    from: Channel,
    to: Channel,
}

impl Step<'_> {
    fn change(&self, notes: &mut Vec<String>) -> Result<DirectionChange, Vec<NeedsRestart>> {
        let Step { from, to, .. } = self;
        let refused: Vec<NeedsRestart> = self
            .refusals()
            .into_iter()
            .map(|(key, why)| NeedsRestart { key: (self.key)(key), why })
            .collect();
        if !refused.is_empty() {
            return Err(refused);
        }
        let mut change = DirectionChange::default();
        if from.link.rate != to.link.rate {
            change.rate = to.link.rate;
            let bytes = self.started.link.rate.map(|rate| self.started.link.buffer.bytes(rate));
            notes.extend(bytes.map(|bytes| {
                format!("{} stays at {bytes} until a restart, whatever the rate", (self.key)("buffer"))
            }));
        }
        if from.policy != to.policy {
            change.policy = to.policy.as_ref().map(|policy| policy.policy());
        }
        if from.remarking != to.remarking {
            change.remarks = Some(to.remarking.remarks());
        }
        if from.aqm != to.aqm {
            change.params = to.aqm.as_ref().and_then(|aqm| weir_aqm::visit(&aqm.name, ParamsOf(aqm)));
            notes.push(format!(
                "{} begins anew with these parameters; packets that wait stay where they are",
                (self.key)("aqm")
            ));
        }
        Ok(change)
    }

    /// Keys that the direction was built from, and why each cannot change.
    fn refusals(&self) -> BTreeSet<(&'static str, &'static str)> {
        let Step { started, has_line, from, to, .. } = self;
        let mut refused = BTreeSet::new();
        let mut refuse = |is_refused: bool, key, why| {
            if is_refused {
                refused.insert((key, why));
            }
        };
        let memory = "memory for packets is taken at the start";
        refuse(from.link.buffer != to.link.buffer, "buffer", memory);
        refuse(from.delay != to.delay, "delay", memory);
        refuse(from.queue != to.queue, "queue", "the queue is built with it, and packets wait in it");
        let counted = "packets that wait are counted by it already";
        refuse(from.link.accounting != to.link.accounting, "accounting", counted);
        refuse(from.link.overhead != to.link.overhead, "overhead", counted);
        refuse(from.catch_up != to.catch_up, "catch_up", "the shaper is built with it");
        refuse(from.upstream != to.upstream, "upstream", "what observes is built with it");
        let name = |channel: &Channel| channel.aqm.as_ref().map(|aqm| aqm.name.clone());
        let compiled = "the packet path is compiled for its algorithm, with steering or without";
        refuse(name(from) != name(to), "aqm.name", compiled);
        refuse(from.policy.is_some() != to.policy.is_some(), "policy", compiled);
        let (rate, shaped) =
            ((from.link.rate, to.link.rate), "the queue is built for a shaped link or for one that is not");
        refuse(rate.0.is_some() != rate.1.is_some(), "rate", shaped);
        if rate.0 != rate.1 && rate.1.is_some() {
            let follows = "the direction follows the rate of a bottleneck, and this is the rate without one";
            refuse(to.upstream.follows(), "rate", follows);
            let line = "its delay line was built for the rate at the start, and has no room for a higher one";
            refuse(*has_line && rate.1 > started.link.rate, "rate", line);
        }
        refused
    }
}

/// The parameters of an algorithm as its own type.
struct ParamsOf<'a>(&'a weir_config::AqmConfig);

impl weir_aqm::Visitor for ParamsOf<'_> {
    type Output = Box<dyn Any + Send>;

    fn visit<A: Algorithm>(self) -> Self::Output {
        Box::new(self.0.params::<A::Params>())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use weir_wire::dscp::Dscp;

    const FILE: &str = "ports = { a = \"x\", b = \"y\" }\n[a_to_b]\nrate = \"50Mbit/s\"\n\
                        aqm = { name = \"gsp\" }\npolicy = { target_max = \"30ms\" }\n";

    fn config(set: &[(&str, &str)]) -> RunConfig {
        let mut document = weir_config::Document::parse("f", FILE).unwrap();
        set.iter().for_each(|(key, value)| document.set(key, value).unwrap());
        document.run_config().unwrap()
    }

    fn between(set: &[(&str, &str)]) -> Result<Change, Vec<NeedsRestart>> {
        Change::between(&config(&[]), &config(&[]), &config(set))
    }

    #[test]
    fn rate_policy_and_parameters_change_and_all_at_once() {
        assert!(between(&[]).unwrap().is_empty());
        let all = [
            ("a_to_b.rate", "60Mbit/s"),
            ("a_to_b.aqm.interval", "50ms"),
            ("a_to_b.policy.target_max", "9ms"),
        ];
        let change = between(&all).unwrap();
        let [there, back] = &change.directions;
        assert_eq!(there.rate, Some(Rate::from_mbps(60)));
        assert_eq!(there.policy.as_ref().unwrap().target_max, Duration::from_millis(9));
        let params: &<weir_aqm::algorithms::gsp::Gsp as Algorithm>::Params = there.params().unwrap();
        assert_eq!(params.interval, Duration::from_millis(50));
        assert!(back.is_empty() && change.keep_forwarding.is_none());
        assert!(change.notes()[0].contains("625kB"), "{:?}", change.notes());
        let kept = between(&[("fail_open.keep_forwarding", "true")]).unwrap();
        assert_eq!(kept.keep_forwarding, Some(true));
    }

    #[test]
    fn what_becomes_of_code_points_changes_while_it_runs() {
        let nqb = Dscp::NQB;
        let of = |set: &[(&str, &str)]| between(set).unwrap().directions[1].remarks;
        let washed = of(&[("b_to_a.dscp", "wash"), ("b_to_a.remark", "[{ from = 45, to = \"nqb\" }]")]);
        assert_eq!(washed, Some(Remarks::to(Dscp::DEFAULT).with(nqb, nqb)));
        assert_eq!(of(&[("b_to_a.dscp", "keep")]), None);
        let before = config(&[("a_to_b.dscp", "8")]);
        let back = Change::between(&before, &before, &config(&[])).unwrap();
        assert_eq!(back.directions[0].remarks, Some(Remarks::keeping()));
    }

    #[test]
    fn one_key_that_takes_a_restart_refuses_all() {
        let refused = |set: &[(&str, &str)]| {
            let told = between(set).err().expect("refused");
            told.into_iter().map(|one| one.key).collect::<Vec<_>>()
        };
        for (key, value) in [
            ("a_to_b.buffer", "200ms"),
            ("a_to_b.delay", "1ms"),
            ("a_to_b.catch_up", "1ms"),
            ("a_to_b.accounting", "ip"),
            ("a_to_b.overhead", "docsis"),
            ("a_to_b.upstream", "inform"),
            ("ports.a", "z"),
            ("run.sample", "1s"),
            ("host.core", "0"),
            ("fail_open.after", "300ms"),
        ] {
            assert_eq!(refused(&[("a_to_b.rate", "60Mbit/s"), (key, value)]), [key]);
        }
        assert_eq!(refused(&[("a_to_b.aqm", "{ name = \"codel\" }")]), ["a_to_b.aqm.name"]);
        assert_eq!(refused(&[("a_to_b.queue.discipline", "flow")]), ["a_to_b.queue"]);
        assert_eq!(refused(&[("b_to_a.aqm", "{ name = \"codel\" }")]), ["b_to_a.aqm.name"]);
        let shaped = [("b_to_a.aqm", "{ name = \"codel\" }"), ("b_to_a.rate", "1Mbit/s")];
        assert_eq!(refused(&shaped), ["b_to_a.aqm.name", "b_to_a.rate"]);
    }

    #[test]
    fn a_delay_line_has_room_for_the_rate_at_the_start() {
        let delayed = |rate| config(&[("a_to_b.delay", "5ms"), ("a_to_b.rate", rate)]);
        let (start, slow, fast) = (delayed("50Mbit/s"), delayed("5Mbit/s"), delayed("51Mbit/s"));
        assert!(Change::between(&start, &start, &slow).is_ok());
        assert!(Change::between(&start, &slow, &start).is_ok());
        let refused = Change::between(&start, &slow, &fast).err().unwrap();
        assert!(refused[0].to_string().contains("delay line"), "{}", refused[0]);
    }
}
