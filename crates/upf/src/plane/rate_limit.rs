//! A bound of how often something is done that costs others, such as answers and questions.

use weir_units::{Duration, Time};

/// At most one in a time, and some at once (the generic cell rate algorithm, ITU-T I.371).
pub struct RateLimit {
    every: Duration,
    burst: Duration,
    /// Until when what was done is paid for.
    until: Time,
}

impl RateLimit {
    /// One in `every`, and at once what `burst` allows and one more; nothing is allowed ahead of `until` but
    /// that.
    pub fn new(every: Duration, burst: Duration, until: Time) -> RateLimit {
        RateLimit { every, burst, until }
    }

    /// Whether one more is within the bound, and counts it.
    pub fn allows(&mut self, now: Time) -> bool {
        self.until = self.until.max(now);
        let allows = self.until <= now + self.burst;
        if allows {
            self.until += self.every;
        }
        allows
    }
}
