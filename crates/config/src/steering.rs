//! What steers the queue of a simulated link, and what it is told.

use crate::aqm_config::AqmConfig;
use crate::errors::Wrong;
use crate::limits::{PERIOD, PERIODS, SETTLE, SETTLES};
use crate::policy_config::PolicyConfig;
use crate::problems::Problems;
use crate::schema::{Check, Here, Range, or, within};
use crate::variation::Variation;
use weir_units::Duration;

choices! {
    /// Who steers the queue of a link.
    pub enum SteeredBy {
        /// The law is asked at each signal and told of each packet, as where Weir works the queue.
        Packet = "packet",
        /// The law is fed with counters that are read now and then, as `weir steer` does with queues of the
        /// kernel.
        Poll = "poll",
    }
}

choices! {
    /// What a queue tells of its delay when its counters are read.
    pub enum Estimator {
        /// Nothing: it is the bytes that wait, divided by the rate.
        Backlog = "backlog",
        /// That of the last packet that left, in addition.
        Delay = "delay",
        /// That of each packet, and whether one left nothing behind it.
        Probe = "probe",
    }
}

section! {
    /// What steers the queue of a link, and what it is told.
    pub struct Steering {
        /// How the policy is held: "packet" as where Weir works the queue, by a law that is told of each
        /// packet and asked before each signal; "poll" as `weir steer` holds it for a queue of the kernel, by
        /// the same law fed with counters that are read now and then. Its estimates are those of `weir
        /// steer`. The queue begins with its own set point then.
        steered_by: SteeredBy = or(SteeredBy::Packet, Range::Any) => [Simulator];
        /// With "poll": time between two looks at the counters.
        poll_period: Duration = or(PERIOD, within(PERIODS.0, PERIODS.1)) => [Simulator];
        /// With "poll": least time between two changes of the queue.
        poll_settle: Duration = or(SETTLE, within(SETTLES.0, SETTLES.1)) => [Simulator];
        /// With "poll": what is told of the delay. "backlog" is nothing, so that it is estimated as the bytes
        /// that wait divided by the rate, as for fq_codel, fq_pie, cake and FIFOs; "delay" is that of the
        /// last packet in addition, as codel, pie and dualpi2 tell it; "probe" is the smallest of all packets
        /// since the last look, as `weir steer --probe` reads it.
        poll_estimator: Estimator = or(Estimator::Backlog, Range::Any) => [Simulator];
    }
}

impl Check for Steering {
    fn check(&mut self, here: &Here, p: &mut Problems) {
        if self.steered_by == SteeredBy::Poll {
            return;
        }
        let usual = Steering::default();
        let changed = [
            ("poll_period", self.poll_period != usual.poll_period),
            ("poll_settle", self.poll_settle != usual.poll_settle),
            ("poll_estimator", self.poll_estimator != usual.poll_estimator),
        ];
        for (key, _) in changed.into_iter().filter(|(_, changed)| *changed) {
            let remedy = "add `steered_by = \"poll\"`, or remove it";
            here.wrong(p, key, "has no meaning without polls", remedy);
        }
    }
}

impl Default for Steering {
    fn default() -> Steering {
        Steering {
            steered_by: SteeredBy::Packet,
            poll_period: PERIOD,
            poll_settle: SETTLE,
            poll_estimator: Estimator::Backlog,
        }
    }
}

impl Steering {
    /// How counters are polled, where they are.
    pub fn polls(&self) -> Option<&Steering> {
        (self.steered_by == SteeredBy::Poll).then_some(self)
    }

    /// Tells polls that have nothing to steer, or whose way to lower the rate something else goes.
    pub(crate) fn wrong_with(
        &self,
        policy: Option<&PolicyConfig>,
        variation: &Variation,
        has_medium: bool,
    ) -> Option<Wrong> {
        self.polls()?;
        let Some(policy) = policy else {
            let remedy = "add the table `policy`, or remove it";
            return Some(Wrong::new("is \"poll\", and there is no policy to hold", remedy));
        };
        let other = match () {
            () if !policy.policy().uses_virtual_queue() => return None,
            () if has_medium => "medium",
            () if variation.trace.is_some() => "trace",
            () if !variation.steps.is_empty() => "steps",
            () => variation.turns()?,
        };
        // As for a queue of the kernel: what moves the rate of the shaper must be alone.
        let problem = format!(
            "is \"poll\", which lowers the link's rate for `utilization_target`, and so does `{other}`"
        );
        Some(Wrong::new(problem, format!("remove `{other}`, or leave `policy.utilization_target` at 100%")))
    }

    /// Warns of a set point that was written and is not used.
    pub(crate) fn unused_setpoint(&self, policy: Option<&PolicyConfig>, aqm: &AqmConfig) -> Option<String> {
        // Polls leave the queue as it is until it signals.
        policy.filter(|_| self.polls().is_none())?.unused_setpoint(aqm)
    }
}
