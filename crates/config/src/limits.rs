//! Limits that several files keep.

use weir_units::{Duration, Rate};

/// Deepest nesting of tables and lists that is read. The TOML parser limits brackets and dots in a key each
/// for itself; their product would exhaust the stack.
pub const MAX_NESTING: usize = 32;

/// Most links of a scenario.
pub const MAX_LINKS: usize = 1000;

/// Most flows of a scenario, over all its `[[flows]]` tables.
pub const MAX_FLOWS: u32 = 10_000;

/// Longest run.
pub const MAX_DURATION: Duration = Duration::from_secs(24 * 3600);

/// Lowest rate of a link.
pub(crate) const SLOWEST: Rate = Rate::from_bps(1_000);

/// Highest rate of a link.
pub(crate) const FASTEST: Rate = Rate::from_bps(1_000_000_000_000);
