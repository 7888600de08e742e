//! AQM Steering: moves the set point of an AQM so that a policy holds.
//!
//! The user says how much delay may be traded for how much throughput ([`Policy`]); the law looks at what
//! happened between two congestion signals ([`Epoch`]) and moves the set point ([`Law`], [`SteeringLaw`]).
//! [`Steered`] puts both around any [`Aqm`](weir_aqm::Aqm) with a set point and is an AQM again.
//!
//! ```text
//!  packet > Steered > Aqm > verdict        per packet: a sum, a minimum, two flags
//!              |  ^
//!        Epoch v  | set point              per signal: the law, in floating point
//!             Law(policy)
//! ```
//!
//! The law is that of the paper "Policy-oriented AQM Steering", cited below as "AQM Steering"; its
//! smoothing is that of Menth and Hauser, ICPE 2017. Where the paper leaves something open,
//! `docs/steering.md` says what was chosen and why.
//!
//! Deliberately absent: clocks, random sources, allocation, I/O, logging.
//!
//! ```
//! use weir_aqm::Algorithm;
//! use weir_aqm::algorithms::gsp::{Gsp, Params};
//! use weir_steer::{Policy, Steered};
//! use weir_units::{Duration, Time};
//!
//! let gsp = Gsp::new(&Params::default(), Time::ZERO);
//! let policy = Policy { target_max: Duration::from_millis(20), ..Policy::default() };
//! let gsp_as = Steered::new(gsp, &policy, Time::ZERO, ()).expect("GSP has a set point");
//! assert!(gsp_as.setpoint_now() <= Duration::from_millis(20));
//! ```
#![no_std]
#![forbid(unsafe_code)]
#![deny(clippy::disallowed_methods)]
#![cfg_attr(not(test), deny(clippy::unwrap_used))]

#[cfg(test)]
extern crate std;

mod by_hand;
mod error;
mod helm;
mod law;
mod policy;
pub mod polled;
pub mod smooth;
mod steered;
pub mod virtual_queue;

pub use by_hand::ByHand;
pub use error::SteerError;
pub use helm::Helm;
pub use law::{Assessment, Epoch, Law, Move, Observer, Rule, SteeringLaw, TableState};
pub use policy::{Policy, PolicyError};
pub use polled::{Pace, Polled, Told};
pub use steered::Steered;
pub use virtual_queue::VirtualQueue;
