//! What users of a scenario's link are entitled to: the plans of `weir run`, tried in the simulator.

use crate::limits::{FASTEST, MAX_FLOWS, SLOWEST};
use crate::names::{NAME, name_allowed};
use crate::schema::{Check, Range, absent, or, required, such, within};
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
        /// What may pass at once after it used less than its rate. The rate sends it within `queue.idle`.
        burst: Bytes = or(Bytes::ZERO, within(Bytes::ZERO, Bytes::new(1_000_000_000)));
        /// The delay set point of its algorithm, where no `policy` moves that.
        target: Option<Duration> = absent(
            "that of all",
            within(Duration::from_nanos(10_000), Duration::from_secs(10))
        );
        /// Whether its packets pass the algorithm by.
        exempt: bool = or(false, Range::Any);
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
