//! One file for each verb.

pub mod characterize;
pub mod check;
#[cfg(feature = "live")]
pub mod compare;
#[cfg(feature = "live")]
pub mod ctl;
#[cfg(feature = "live")]
pub mod doctor;
pub mod explain;
#[cfg(feature = "live")]
pub mod lab;
pub mod list;
#[cfg(feature = "live")]
pub mod reflect;
pub mod reproduce;
#[cfg(feature = "live")]
pub mod run;
pub mod sim;
#[cfg(feature = "live")]
pub mod steer;
pub mod sweep;
pub mod tune;
#[cfg(feature = "live")]
pub mod upf;
