//! What users of a scenario's link are entitled to: the plans of `weir run`, tried in the simulator.

use crate::aqm_config::AqmConfig;
use crate::limits::{FASTEST, MAX_FLOWS, SLOWEST};
use crate::names::{NAME, name_allowed};
use crate::policy_config::PolicyConfig;
use crate::problems::Problems;
use crate::queue_config::QueueConfig;
use crate::schema::{Check, Flat, Here, Range, absent, or, required, such, within};
use weir_aqm::{Share, Value};
use weir_queue::Plan;
use weir_steer::Policy;
use weir_units::{Bytes, Duration, Rate};

section! {
    /// What the flows of one `[[flows]]` table, which are those of one user, are entitled to on a link.
    pub struct Customer {
        /// Number of the `[[flows]]` table, from 0 on.
        group: u32 = required(within(0, MAX_FLOWS - 1));
        /// Its site.
        site: Option<String> = absent("it is held to no site's rate", such(NAME, |t: &String| name_allowed(t)));
        /// Most that passes the link for it.
        rate: Option<Rate> = absent("no limit of its own", within(SLOWEST, FASTEST));
        /// What it is entitled to besides.
        terms: Terms = Flat;
    }
}

section! {
    /// What a customer is entitled to beside its rates: of a scenario's link as of the plans of `weir run`.
    pub struct Terms {
        /// What may pass at once after it used less than its rate. The rate sends it within `queue.idle`.
        burst: Bytes = or(Bytes::ZERO, within(Bytes::ZERO, Bytes::new(1_000_000_000)));
        /// The delay set point of its algorithm, where no `policy` moves that.
        target: Option<Duration> = absent(
            "that of all",
            within(Duration::from_nanos(10_000), Duration::from_secs(10))
        );
        /// Its policy, where that is not the one of all.
        policy: OwnPolicy = Flat;
        /// Whether its packets pass the algorithm by: they are neither marked nor dropped but for lack of
        /// room. A set point or policy of its own does not go with it.
        exempt: bool = or(false, Range::Any);
    }
}

impl Terms {
    /// The plan of a customer with these terms, at its rate and at its site, in a direction with this policy,
    /// and its own policy there; `None` where it has none of its own.
    pub fn plan(
        &self,
        rate: Option<Rate>,
        site: Option<u32>,
        policy: Option<&PolicyConfig>,
    ) -> (Plan, Option<Policy>) {
        let own = policy.and_then(|policy| self.policy.over(policy)).map(|own| own.policy());
        let plan = Plan {
            rate,
            burst: self.burst,
            site,
            target: self.target,
            is_exempt: self.exempt,
            is_one_fifo: own.as_ref().is_some_and(Policy::uses_virtual_queue),
        };
        (plan, own)
    }
}

impl Check for Terms {
    fn check(&mut self, here: &Here, p: &mut Problems) {
        if !self.exempt {
            return;
        }
        let target = self.target.map(|_| "target");
        for key in target.into_iter().chain(self.policy.given().map(|(key, _)| key)) {
            let problem = "does not go with `exempt`, by which its packets pass the algorithm by";
            here.wrong(p, key, problem, "remove one of the two");
        }
    }
}

section! {
    /// How the policy of a customer differs from that of its direction.
    pub struct OwnPolicy {
        /// Utilization of its rate below which its set point is raised. With any key of its policy the
        /// customer has a steering law of its own, which looks at its queue alone; what it does not say is as
        /// in the `policy` of the direction, which must be there.
        utilization_low: Option<Share> = absent("that of `policy`", within(Share(0.0), Share(1.0)));
        /// Utilization of its rate that is aimed at. Below 100 % a virtual queue keeps its real one nearly
        /// empty; that stands for one FIFO, so that all flows of the customer have one queue.
        utilization_target: Option<Share> = absent("100%", within(Share(0.01), Share(1.0)));
        /// Its largest set point, so the most queueing delay that its throughput may cost.
        target_max: Option<Duration> = absent(
            "that of `policy`",
            within(Duration::from_micros(1), Duration::from_secs(10))
        );
    }
}

impl Check for OwnPolicy {}

/// A key that is wrong, the problem and the remedy.
pub type WrongKey = (&'static str, String, String);

impl OwnPolicy {
    /// The keys that are given, with their values.
    fn given(&self) -> impl Iterator<Item = (&'static str, Value)> {
        let low = self.utilization_low.map(|share| ("utilization_low", Value::Share(share)));
        let aim = self.utilization_target.map(|share| ("utilization_target", Value::Share(share)));
        let most = self.target_max.map(|delay| ("target_max", Value::Duration(delay)));
        low.into_iter().chain(aim).chain(most)
    }

    /// The policy of the customer where that of its direction is this; `None` where it has none of its own.
    pub fn over(&self, policy: &PolicyConfig) -> Option<PolicyConfig> {
        self.given().next()?;
        Some(self.given().fold(policy.clone(), |policy, (name, value)| policy.with(name, value)))
    }

    /// What is wrong with it in a direction that is like this; `rate` is what the customer is held to there,
    /// and the key that says so.
    pub fn wrong_in(
        &self,
        policy: Option<&PolicyConfig>,
        aqm: Option<&AqmConfig>,
        queue: &QueueConfig,
        (rate_key, rate): (&str, Option<Rate>),
    ) -> Option<WrongKey> {
        let (first, _) = self.given().next()?;
        let (Some(policy), Some(aqm)) = (policy, aqm) else {
            let remedy = "give the direction a `policy`, or the customer a `target` instead";
            return Some((first, "differs from a policy, and there is none".into(), remedy.into()));
        };
        if rate.is_none() {
            let remedy = format!("give `{rate_key}`, or leave it out");
            return Some((first, "needs a rate, of which its utilization is a share".into(), remedy));
        }
        let own = self.over(policy)?;
        if let Err(error) = own.policy().validate() {
            let is_given = |name: &&str| self.given().any(|(given, _)| given == *name);
            let key = [error.small.0, error.large.0].into_iter().find(is_given).unwrap_or(first);
            let told = error.to_string();
            let (problem, remedy) = told.split_once(": ").unwrap_or((&told, "change one of the two"));
            return Some((key, problem.into(), remedy.into()));
        }
        if own.policy().uses_virtual_queue() && queue.keeps_lanes() {
            let problem = "below 100% is held by a virtual queue, which stands for one FIFO, and `queue.nqb` gives each user two";
            return Some(("utilization_target", problem.into(), "leave out one of the two".into()));
        }
        let wrong = own.cannot_steer_one(aqm)?;
        Some((first, wrong.problem, wrong.remedy))
    }
}

section! {
    /// What the customers of a site are held to together.
    pub struct Site {
        /// Its name, which no other site of the link has.
        name: String = required(such(NAME, |t: &String| name_allowed(t)));
        /// Most that passes the link for its customers.
        rate: Option<Rate> = absent("no limit", within(SLOWEST, FASTEST));
    }
}

impl Check for Customer {}
impl Check for Site {}
