//! A packet-level network simulator in virtual time.
//!
//! [`run`] takes a scenario and a seed and returns what `weir lab` would measure, computed instead: the same
//! queues and algorithms, links of exact rates, end hosts that behave like Linux. The same scenario and seed
//! give the same bits on every machine, in debug and release builds; [`Outcome::trace_hash`] proves it.
//!
//! [`Simulation`] is the network itself, for tests and recorders; a [`tap`] sees every packet and decision.
//! `docs/simulator.md` says what is modelled and what is not.

mod alarm;
mod application;
pub mod batch;
mod dice;
mod discipline;
mod endpoints;
mod error;
mod event;
mod flow;
mod forwarding;
mod hash;
mod host;
mod lifecycle;
mod link;
mod medium;
mod meter;
mod network;
mod observer;
mod packet;
pub mod pcapng;
mod recorder;
mod run;
mod scenario;
mod sensing;
mod service;
mod soonest;
pub mod tap;
mod wheel;

pub use discipline::LinkQueue;
pub use error::Error;
pub use flow::{Flow, FlowKind, FlowStats, Headers, Shows};
pub use lifecycle::MAX_OPEN;
pub use link::Link;
pub use meter::{Meter, Totals};
pub use network::{Counts, Setup, Simulation};
pub use observer::Observer;
pub use packet::{AckStore, Body, Item, Kept};
pub use recorder::{DecisionRow, Recorder, Verdict};
pub use run::{Outcome, run, run_with};
pub use scenario::{HOST_JITTER, START_SPREAD, UNHINDERED_WINDOW, build};
pub use sensing::Prober;
pub use weir_scenario::result::Progress;
