//! A 5G user-plane function (3GPP TS 23.501) that queues where others police.
//!
//! A session management function says over PFCP what it wants for each PDU session; `control` turns that into
//! [`rules`], and a [`rules::Plane`] keeps them: packets leave tunnels and enter them, each QoS flow waits in
//! a queue of its own with the AQM it needs.
//!
//! ```
//! use weir_upf::filter::Filter;
//!
//! let filter: Result<Filter, _> = "permit out 17 from 198.51.100.0/24 53 to assigned".parse();
//! assert!(filter.is_ok());
//! ```
#![cfg_attr(not(test), deny(clippy::unwrap_used))]

pub mod client;
pub mod codec;
pub mod configured;
pub mod control;
pub mod filter;
mod kept_times;
pub mod ledger;
pub mod message;
pub mod plane;
pub mod rules;
pub mod server;
pub mod state;
