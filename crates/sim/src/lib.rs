//! A packet-level network simulator in virtual time.
//!
//! [`run`] takes a scenario and a seed and returns what `weir lab` would measure, computed instead: the same
//! queues and algorithms, links of exact rates, end hosts that behave like Linux. The same scenario and seed
//! give the same bits on every machine, in debug and release builds; [`Outcome::trace_hash`] proves it.
//!
//! [`Simulation`] is the network itself, for tests and recorders; a [`tap`] sees every packet and decision.
//! `docs/simulator.md` says what is modelled and what is not.
//!
//! ```
//! use std::ops::ControlFlow;
//! use weir_config::Scenario;
//!
//! let text = "title = \"two\"\n[link]\nrate = \"10Mbit/s\"\nbuffer = \"100ms\"\n[path]\nrtt = \"20ms\"\n\
//!     [aqm]\nname = \"codel\"\n[[flows]]\ncount = 2\n[run]\nduration = \"3s\"\nwarmup = \"1s\"\n";
//! let scenario = Scenario::parse("two_flows.toml", text).expect("it is valid");
//! let outcome = weir_sim::run(&scenario, 1, &mut |_| ControlFlow::Continue(())).expect("it runs");
//! assert!(outcome.recording.summary.links[0].utilization > 0.9);
//! ```
#![deny(clippy::disallowed_methods)]
#![cfg_attr(not(test), deny(clippy::unwrap_used))]

mod alarm;
mod application;
pub mod batch;
mod dice;
mod discipline;
mod disorder;
mod endpoints;
mod error;
mod event;
mod flow;
mod forwarding;
mod grants;
mod hash;
mod host;
mod lifecycle;
mod link;
mod medium;
mod meter;
mod network;
mod observer;
mod observing;
mod packet;
pub mod pcapng;
mod probing;
mod radio;
mod recorder;
mod run;
mod scenario;
mod sensing;
mod service;
pub mod tap;
mod time_tree;
mod turning;
mod turns;
mod watcher;
mod wheel;

pub use discipline::{LinkQueue, queue_of};
pub use error::Error;
pub use flow::{Flow, FlowKind, FlowStats, Headers, Shows};
pub use lifecycle::MAX_OPEN;
pub use link::Link;
pub use meter::{LinkMeter, Totals};
pub use network::{Counts, NetworkSetup, Simulation};
pub use observer::Observer;
pub use packet::{AckStore, Body, Item, Opening, StoreIndex};
pub use recorder::{DecisionRow, PacketOutcome, Recorder};
pub use run::{Outcome, run, run_prepared, run_with};
pub use scenario::{HOST_JITTER, START_SPREAD, UNHINDERED_WINDOW, build};
pub use sensing::Prober;
pub use watcher::Watcher;
pub use weir_measure::result::Progress;
