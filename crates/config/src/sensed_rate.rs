//! What probes may do to the rate of the shaper whose packets they follow.

use crate::limits::{FASTEST, SLOWEST};
use crate::problems::Problems;
use crate::schema::{Check, Here, OptionalTable, absent, or, required, within};
use weir_sense::probe::{AutorateConfig, ShapingSettings};
use weir_units::{Duration, Rate};

section! {
    /// The rate of the shaper moves, so that the queue stays with it although the link below is slower, or
    /// faster, than its configured rate. It rises while it is used and nothing waits below, falls below what
    /// the link delivers while packets wait there, and goes back to the configured rate without load.
    pub struct Autorate {
        /// Least rate; the configured one must not be less.
        min: Rate = required(within(SLOWEST, FASTEST));
        /// Largest rate; the configured one must not be more.
        max: Rate = required(within(SLOWEST, FASTEST));
        /// Delay of the probes below the shaper at which the rate is lowered, above the least of the last
        /// 10 s.
        delay: Duration = or(Duration::from_millis(30), within(Duration::from_millis(2), Duration::from_secs(1)));
    }
}

impl Check for Autorate {
    fn check(&mut self, here: &Here, p: &mut Problems) {
        if self.max <= self.min {
            let problem = format!("{} is not more than `min`, {}", self.max, self.min);
            here.wrong(p, "max", problem, "raise it, or lower `min`");
        }
    }
}

section! {
    /// What probes do to the rate of the shaper.
    pub struct SensedRate {
        /// Rate of the shaper while probes do not come back (the state "fallen back"), if it is less than the
        /// one in force: one that the link below always has keeps the queue with the shaper, where its
        /// algorithm holds it short, while nothing can be told of the queue below.
        fall_back_rate: Option<Rate> = absent("the rate stays; a moved one at most the configured", within(SLOWEST, FASTEST));
        /// Bounds within which the rate moves by what probes say.
        autorate: Option<Autorate> = OptionalTable;
    }
}

impl Check for SensedRate {}

impl SensedRate {
    /// What a shaper of this rate does; `None` where probes have nothing to do with it.
    pub fn settings(&self, rate: Rate) -> Option<ShapingSettings> {
        let config = |a: &Autorate| AutorateConfig { min: a.min, max: a.max, delay: a.delay };
        let settings = ShapingSettings {
            rate,
            fall_back: self.fall_back_rate,
            autorate: self.autorate.as_ref().map(config),
        };
        settings.is_moved().then_some(settings)
    }

    /// Tells what does not go with the rate of the shaper, `None` where there is none; `key` is the path of
    /// the table, and `fixed` a key by which the rate cannot move.
    pub(crate) fn check_with(
        &self,
        rate: Option<Rate>,
        fixed: Option<&str>,
        key: &str,
        here: &Here,
        p: &mut Problems,
    ) {
        let set = [("fall_back_rate", self.fall_back_rate.is_some()), ("autorate", self.autorate.is_some())];
        let Some((own, _)) = set.into_iter().find(|(_, is_set)| *is_set) else { return };
        let mut wrong = |own: &str, problem: String, remedy: String| {
            here.wrong(p, &format!("{key}.{own}"), problem, remedy);
        };
        if let Some(fixed) = fixed {
            let problem = format!("moves the rate of the link and does not go with its `{fixed}`");
            return wrong(own, problem, format!("remove it, or `{fixed}`"));
        }
        let Some(rate) = rate else {
            let problem = "moves the rate of the shaper, and there is none".to_string();
            return wrong(own, problem, "give the direction that is sensed a `rate`".to_string());
        };
        if let Some(least) = self.fall_back_rate.filter(|least| *least > rate) {
            let problem = format!("{least} is more than the configured rate, {rate}");
            wrong("fall_back_rate", problem, "lower it: it is for a link that may be slower".to_string());
        }
        if let Some(autorate) = &self.autorate
            && !(autorate.min..=autorate.max).contains(&rate)
        {
            let problem = format!("does not hold the configured rate, {rate}");
            wrong("autorate", problem, "choose `min` and `max` around it, or change `rate`".to_string());
        }
    }
}
