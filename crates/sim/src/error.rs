//! Why a scenario cannot be simulated.

use thiserror::Error;

/// Why a scenario cannot be simulated; names the thing and the remedy.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum Error {
    /// THE LIST has no such algorithm.
    #[error("there is no algorithm `{name}`. Remedy: choose one of: {known}")]
    Algorithm {
        /// The name given.
        name: String,
        /// Those there are.
        known: String,
    },
    /// There is no such queue discipline.
    #[error("there is no queue discipline `{name}`. Remedy: choose one of: {known}")]
    Discipline {
        /// The name given.
        name: String,
        /// Those there are.
        known: String,
    },
    /// The policy does not go with the algorithm.
    #[error("`{algorithm}` cannot be steered: {reason}")]
    Steering {
        /// The algorithm.
        algorithm: &'static str,
        /// Why, and what to change.
        reason: String,
    },
    /// The transport models have no such congestion control.
    #[error("the simulator has no congestion control `{name}`. Remedy: choose one of: {known}")]
    Congestion {
        /// The name given.
        name: String,
        /// Those there are.
        known: String,
    },
    /// A file could not be written.
    #[error("cannot write the capture: {0}")]
    Capture(#[from] std::io::Error),
}
