//! What the user wants, and the constants of the law.

use core::fmt;
use weir_aqm::{Algorithm, Share, Value};
use weir_units::Duration;

weir_aqm::params! {
    /// The policy of steering: the first three parameters. The others are constants of the law, which
    /// need no change on an ordinary link.
    pub struct Policy {
        /// Utilization of the link below which the set point is raised (u_low of AQM Steering, section
        /// III). Measured by the same byte accounting as the link's rate.
        utilization_low: Share = Share(0.99), Share(0.0) => Share(1.0);
        /// Largest set point, so the most queueing delay that throughput may cost (thresh_max of AQM
        /// Steering, Table II).
        target_max: Duration = Duration::from_millis(30), Duration::from_micros(1) => Duration::from_secs(10);
        /// Utilization of the link that is aimed at; below 100 % a virtual queue keeps the real one empty
        /// (u_target of AQM Steering, section III).
        utilization_target: Share = Share(1.0), Share(0.01) => Share(1.0);
        /// Smallest set point (thresh_min of AQM Steering, Table II).
        target_min: Duration = Duration::from_micros(200), Duration::from_micros(1) => Duration::from_secs(10);
        /// The set point is lowered by whole multiples of this (thresh_down_min of AQM Steering, Table II).
        step_min: Duration = Duration::from_micros(200), Duration::from_nanos(1) => Duration::from_secs(1);
        /// A raise goes at least to this set point, which is also the one at the start. AQM Steering, section
        /// III: 0.025 times GSP's initial timeout, 2.5 ms for 100 ms; of another algorithm its own default,
        /// such as 5 ms of CoDel and 15 ms of PIE.
        target_min_up: Duration = Duration::from_micros(2500), Duration::from_micros(1) => Duration::from_secs(10);
        /// A raise multiplies the set point by this (alpha of AQM Steering, Algorithm 2).
        raise_factor: f64 = 2.0, 1.01 => 16.0;
        /// Margin that is kept when lowering, in standard deviations of the depth of the dips (gamma of AQM
        /// Steering, Algorithm 1).
        margin: f64 = 1.5, 0.0 => 10.0;
        /// Signals with a measured dip that must be seen before the first lowering.
        samples_min: u32 = 5, 1 => 1000;
        /// Whether one lowering takes at most half of the set point.
        cap_step: bool = false, false => true;
        /// Memory of the average depth of the dips: the age at which a sample has lost 63 % of its weight
        /// (UTEMA of Menth and Hauser, section 3.2.4).
        memory_depth: Duration = Duration::from_secs(10), Duration::from_millis(1) => Duration::from_secs(3600);
        /// Memory of the average arrival rate (TDRM-UTEMA-CPA of Menth and Hauser, section 6.1.6). Nothing is
        /// lowered before the average has forgotten an idle phase, so it must be shorter than the traffic's
        /// changes.
        memory_rate: Duration = Duration::from_secs(4), Duration::from_millis(1) => Duration::from_secs(3600);
        /// Whether the variance of the depth is the estimate for a sample (n - 1) and not that of a
        /// population (n). The margin absorbs the difference.
        unbiased_variance: bool = false, false => true;
        /// Whether the average rate forgets the first epoch's extra weight; the published form keeps it for
        /// a few memories.
        unbiased_rate: bool = false, false => true;
        /// Whether discarded packets count into the measured rate. The paper counts every arrival; without
        /// the discarded ones the utilization is that of the link. It makes a difference where few packets
        /// pass between two signals.
        count_discarded: bool = false, false => true;
        /// Factor by which the set point falls on the way to the virtual queue (AQM Steering, Algorithm 3).
        virtual_step: f64 = 0.75, 0.1 => 0.99;
        /// Set point of the virtual queue (thresh_vq of AQM Steering, Algorithm 3).
        virtual_target: Duration = Duration::from_micros(200), Duration::from_micros(1) => Duration::from_secs(10);
        /// Share of the difference between aimed and measured rate by which the rate of the virtual queue
        /// moves (alpha of AQM Steering, Algorithms 3 and 4, where it is 2): by time as much of it as the
        /// average rate forgets between two signals, else all of it at each signal, which wants 0.1.
        virtual_gain: f64 = 1.0, 0.01 => 10.0;
        /// Whether a step of that rate counts by the time since the last signal, so that signals in quick
        /// succession move it no further than one. The paper has no time in it.
        virtual_by_time: bool = true, false => true;
        /// Memory of the average arrival rate while the virtual queue is in use, in place of memory_rate.
        virtual_memory: Duration = Duration::from_secs(4), Duration::from_millis(1) => Duration::from_secs(3600);
        /// So many signals that average remembers at least, for up to ten times virtual_memory. A few large
        /// flows need ten seconds and more to grow back from a loss, and signal seldom; an average that
        /// remembers less is that of their peaks.
        virtual_signals: u32 = 3, 0 => 1000;
        /// Whether the real queue is looked at again while its delay lies above target_max, though the
        /// virtual queue is in use. It matters only if the link is slower than its rate says.
        virtual_guard: bool = true, false => true;
        /// Without a signal for this long the queue counts as persistently below the set point (state 1 of
        /// AQM Steering, Table I). For displays only.
        silence: Duration = Duration::from_secs(30), Duration::from_millis(1) => Duration::from_secs(3600);
    }
}

impl Policy {
    /// The default policy with the raise floor of an algorithm with these parameters; that of
    /// `Policy::default()` is GSP's.
    pub fn of<A: Algorithm>(params: &A::Params) -> Policy {
        let default = Policy::default();
        Policy { target_min_up: A::raise_floor(params).unwrap_or(default.target_min_up), ..default }
    }

    /// Whether a virtual queue may come into use.
    pub fn uses_virtual_queue(&self) -> bool {
        self.utilization_target.0 < 1.0
    }

    /// Checks what the ranges of single parameters cannot say: whether the values go together.
    pub fn validate(&self) -> Result<(), PolicyError> {
        let low = ("utilization_low", Value::Share(self.utilization_low));
        let aim = ("utilization_target", Value::Share(self.utilization_target));
        let min = ("target_min", Value::Duration(self.target_min));
        let max = ("target_max", Value::Duration(self.target_max));
        let virt = ("virtual_target", Value::Duration(self.virtual_target));
        let virtual_queue = self.uses_virtual_queue();
        // Written so that a NaN, which compares false, is refused as well.
        ordered(
            self.utilization_low <= self.utilization_target,
            low,
            aim,
            "the rate would be raised for ever",
        )?;
        ordered(self.target_min <= self.target_max, min, max, "no set point lies between them")?;
        // Below the smallest set point the virtual queue would never be reached, above the largest the
        // policy would be broken by using it.
        ordered(!virtual_queue || self.target_min <= self.virtual_target, min, virt, "it is out of reach")?;
        ordered(!virtual_queue || self.virtual_target <= self.target_max, virt, max, "it breaks the policy")
    }
}

type Named = (&'static str, Value);

fn ordered(holds: bool, small: Named, large: Named, reason: &'static str) -> Result<(), PolicyError> {
    if holds { Ok(()) } else { Err(PolicyError { small, large, reason }) }
}

/// Two parameters that do not go together; names both and the remedy.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct PolicyError {
    /// The parameter that is too large, and its value.
    pub small: (&'static str, Value),
    /// The parameter that it must not exceed, and its value.
    pub large: (&'static str, Value),
    reason: &'static str,
}

impl fmt::Display for PolicyError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ((small, s), (large, l)) = (self.small, self.large);
        write!(f, "{small} = {s} lies above {large} = {l}, {}: lower {small} or raise {large}", self.reason)
    }
}

impl core::error::Error for PolicyError {}

#[cfg(test)]
mod tests {
    use super::*;
    use std::string::ToString;
    use weir_aqm::Params;

    #[test]
    fn the_defaults_go_together_and_lie_in_their_ranges() {
        let policy = Policy::default();
        assert_eq!(policy.validate(), Ok(()));
        for info in Policy::INFO {
            let mut copy = policy.clone();
            for value in [info.default, info.min, info.max] {
                assert_eq!(copy.set(info.name, value), Ok(()), "{}", info.name);
            }
        }
    }

    #[test]
    fn what_does_not_go_together_is_refused_with_a_remedy() {
        let default = Policy::default();
        let low = Policy { utilization_target: Share(0.95), ..default.clone() };
        assert_eq!(
            low.validate().unwrap_err().to_string(),
            "utilization_low = 99% lies above utilization_target = 95%, the rate would be raised for ever: \
             lower utilization_low or raise utilization_target"
        );
        let nan = Policy { utilization_low: Share(f64::NAN), ..default.clone() };
        assert!(nan.validate().is_err());
        let tight = Policy { target_max: Duration::from_micros(100), ..default.clone() };
        assert_eq!(tight.validate().unwrap_err().small.0, "target_min");
        let under = Policy { utilization_low: Share(0.94), utilization_target: Share(0.95), ..default };
        assert_eq!(under.validate(), Ok(()));
        let virtual_low = Policy { virtual_target: Duration::from_micros(199), ..under.clone() };
        assert_eq!(virtual_low.validate().unwrap_err().large.0, "virtual_target");
        let virtual_high = Policy { virtual_target: Duration::from_millis(31), ..under.clone() };
        assert_eq!(virtual_high.validate().unwrap_err().small.0, "virtual_target");
        // Out of use, the set point of the virtual queue does not matter.
        let unused = Policy { utilization_target: Share(1.0), ..virtual_low };
        assert_eq!(unused.validate(), Ok(()));
    }
}
