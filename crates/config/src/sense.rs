//! Probes that are sent with the data of a link, to measure the queues behind it.

use crate::names::{NAME, name_allowed};
use crate::problems::Problems;
use crate::schema::{Check, Flat, Here, or, required, such, within};
use crate::sensed_rate::SensedRate;
use weir_aqm::Share;
use weir_sense::probe::{IPV4_LEN, Settings};
use weir_units::Duration;

const MILLISECOND: Duration = Duration::from_millis(1);
const MINUTE: Duration = Duration::from_secs(60);

section! {
    /// Probes that follow the packets of a link through what lies behind it to a node and back. What they
    /// measure is told to the algorithm of the link.
    pub struct Sense {
        /// The node that sends the probes back, as a gateway does.
        at: String = required(such(NAME, |t: &String| name_allowed(t)));
        /// One probe is sent for so many data packets.
        every: u32 = or(4, within(1, 1000));
        /// Bytes of probes as a share of the bytes of data, at most; headers below IP are not counted.
        budget: Share = or(Share(0.005), within(Share(0.0001), Share(0.1)));
        /// Probes in a second, at most.
        rate_max: u32 = or(1000, within(1, 100_000));
        /// While no probe comes back, the age of the oldest is taken for a sample up to this; then the last
        /// good value is held.
        hold: Duration = or(Duration::from_secs(2), within(MILLISECOND, MINUTE));
        /// After this time without a probe the link is managed by what its own queue shows.
        fall_back: Duration = or(Duration::from_secs(5), within(MILLISECOND, MINUTE));
        /// What probes do to the rate of the link.
        rate: SensedRate = Flat;
    }
}

impl Check for Sense {
    fn check(&mut self, here: &Here, p: &mut Problems) {
        if self.fall_back < self.hold {
            let problem = format!("{} is less than `hold`, {}", self.fall_back, self.hold);
            here.wrong(p, "fall_back", problem, "raise it, or lower `hold`");
        }
    }
}

impl Sense {
    /// The settings of a sensor.
    pub fn settings(&self) -> Settings {
        Settings {
            every: self.every,
            budget_ppm: (self.budget.0 * 1e6 + 0.5) as u32,
            rate_max: self.rate_max,
            probe_len: IPV4_LEN,
            hold_after: self.hold,
            fall_back_after: self.fall_back,
        }
    }
}
