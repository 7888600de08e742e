//! When alarms of a run are raised.

use crate::schema::{Check, absent, or, within};
use weir_aqm::Share;
use weir_units::Duration;

const LEAST: Duration = Duration::from_secs(1);
const MOST: Duration = Duration::from_secs(86_400);

section! {
    /// When alarms are raised. Each has a time, which runs up while its condition holds and down while it
    /// does not; at what is said here the alarm is raised, and at zero it is cleared.
    pub struct AlarmsConfig {
        /// Time of a utilization more than 5 % of the rate below `policy.utilization_low`, with the set
        /// point at `policy.target_max` (alarm `policy_missed`).
        policy_missed_after: Duration = or(Duration::from_secs(600), within(LEAST, MOST));
        /// Mean queueing delay of a second above which packets wait too long (alarm `delay_above_policy`).
        delay: Option<Duration> = absent(
            "twice `policy.target_max`; without a policy there is no such alarm",
            within(Duration::from_micros(1), Duration::from_secs(60))
        );
        /// Time of that.
        delay_after: Duration = or(Duration::from_secs(300), within(LEAST, MOST));
        /// Share of a second's packets that are discarded, for whatever reason, above which there are too
        /// many (alarm `drops`).
        drops: Share = or(Share(0.1), within(Share(0.0), Share(1.0)));
        /// Time of that.
        drops_after: Duration = or(Duration::from_secs(300), within(LEAST, MOST));
        /// Time of a port that is down or has no carrier (alarm `port_down`).
        port_down_after: Duration = or(Duration::from_secs(10), within(LEAST, MOST));
        /// Time of a gateway that answers no probe, so that sensing fell back (alarm `gateway_silent`).
        gateway_silent_after: Duration = or(Duration::from_secs(60), within(LEAST, MOST));
        /// Share of a second in which the packet loop does not turn above which it is late (alarm
        /// `loop_late`).
        loop_late: Share = or(Share(0.05), within(Share(0.0), Share(1.0)));
        /// Time of that.
        loop_late_after: Duration = or(Duration::from_secs(300), within(LEAST, MOST));
        /// Time of a packet loop that tells nothing for more than 3 s (alarm `loop_silent`).
        loop_silent_after: Duration = or(Duration::from_secs(10), within(LEAST, MOST));
    }
}

impl Check for AlarmsConfig {}
