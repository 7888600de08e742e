//! Why an AQM cannot be steered.

use crate::policy::PolicyError;
use core::fmt;
use weir_units::Duration;

/// Why an AQM cannot be steered.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum SteerError {
    /// It has nothing that could be moved.
    NoSetpoint,
    /// The policy contradicts itself.
    Policy(PolicyError),
    /// The algorithm does not take a set point that the policy allows.
    OutOfReach {
        /// What the policy allows.
        wanted: Duration,
        /// What the algorithm made of it.
        got: Duration,
    },
    /// The policy asks for a virtual queue, and there are several real ones that it would have to stand for.
    ManyFifos,
}

impl fmt::Display for SteerError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            SteerError::NoSetpoint => {
                write!(f, "this algorithm has no set point: remove the policy or choose another algorithm")
            }
            SteerError::Policy(e) => e.fmt(f),
            SteerError::ManyFifos => {
                write!(f, "several FIFOs have no virtual queue in common: set utilization_target to 100%")
            }
            SteerError::OutOfReach { wanted, got } if got > wanted => {
                write!(f, "this algorithm takes no set point below {got}: raise target_min from {wanted}")
            }
            SteerError::OutOfReach { wanted, got } => {
                write!(f, "this algorithm takes no set point above {got}: lower target_max from {wanted}")
            }
        }
    }
}

impl core::error::Error for SteerError {}

impl From<PolicyError> for SteerError {
    fn from(e: PolicyError) -> Self {
        SteerError::Policy(e)
    }
}
