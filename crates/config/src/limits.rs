//! Limits that several files keep.

use weir_units::{Duration, Rate};

/// Deepest nesting of tables and lists that is read. The TOML parser limits brackets and dots in a key each
/// for itself; their product would exhaust the stack.
pub const MAX_NESTING: usize = 32;

/// Most links of a scenario.
pub const MAX_LINKS: usize = 20_000;

/// Most flows of a scenario, over all its `[[flows]]` tables.
pub const MAX_FLOWS: u32 = 10_000;

/// Longest run.
pub const MAX_DURATION: Duration = Duration::from_secs(24 * 3600);

/// Lowest rate of a link.
pub(crate) const SLOWEST: Rate = Rate::from_bps(1_000);

/// Highest rate of a link.
pub(crate) const FASTEST: Rate = Rate::from_bps(1_000_000_000_000);

/// Usual time between two looks at counters of a queue that is polled.
pub(crate) const PERIOD: Duration = Duration::from_millis(10);
/// The shortest and the longest one.
pub(crate) const PERIODS: (Duration, Duration) = (Duration::from_millis(1), Duration::from_millis(500));
/// Usual least time between two changes of a queue that is polled.
pub(crate) const SETTLE: Duration = Duration::from_millis(100);
/// The shortest and the longest one.
pub(crate) const SETTLES: (Duration, Duration) = (Duration::from_millis(1), Duration::from_secs(60));
