//! Network namespaces and real kernel TCP on this machine.
//!
//! A [`Testbed`] is three network namespaces in a row, or more: a sender, a bottleneck or several, and a
//! receiver. Whoever forwards packets between the two ports of a bottleneck decides what the end hosts' TCP
//! experiences. [`TrafficRun`] lets flows run through it, [`Sampler`] watches them in the sender's kernel,
//! and [`host`] tells how far this machine can be trusted with such measurements.
//!
//! Namespaces carry the process id and the start time of their owner in their names, so that
//! [`clean_stale`] can tell what a killed program left behind; processes started in them die with the
//! program that started them.
//!
//! ```no_run
//! use weir_lab::{Testbed, TestbedConfig};
//!
//! // Three network namespaces; they go when it is dropped. Needs root.
//! let testbed = Testbed::new(TestbedConfig::default())?;
//! println!("packets pass through {}", testbed.bottleneck());
//! testbed.close()?;
//! # Ok::<(), weir_lab::Error>(())
//! ```
#![cfg_attr(not(test), deny(clippy::unwrap_used))]

pub mod access;
mod awake;
pub mod cell;
mod chain;
mod command;
mod error;
mod exclusive;
pub mod experiment;
pub mod flent;
mod follow;
pub mod host;
mod loop_thread;
pub mod netns;
mod offload;
mod owner;
mod process;
pub mod quic;
mod responsiveness;
pub mod side;
mod sock_diag;
mod socket;
mod supported;
pub mod tcpinfo;
pub mod traffic;

pub use error::Error;
pub use exclusive::{Exclusive, SideBySide, beside_others, exclusive, waiting};
pub use experiment::{Wanted, directions, follow, run};
pub use follow::{Follow, Looking, Playing};
pub use netns::{Testbed, TestbedConfig, clean_stale, in_netns};
pub use process::{NsChild, SpawnOptions, set_affinity, set_nice, spawn_in};
pub use side::Side;
pub use supported::check;
pub use tcpinfo::{FlowTable, Sampler, SamplerConfig};
pub use traffic::{TrafficOptions, TrafficReport, TrafficRun};
