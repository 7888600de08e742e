//! How a running program is looked at and changed: a control socket that speaks HTTP and JSON, and metrics.
//!
//! Whoever runs something publishes a [`Status`] on a [`Board`] and takes [`Order`]s, one after the other,
//! from the server's thread; nothing here touches the packet path. [`api`] has every request that is
//! answered, [`client`] asks. The socket is its owner's alone; on a TCP address there are metrics and health,
//! and nothing that changes anything.
//!
//! ```
//! use weir_operate::{Board, Status, metrics};
//!
//! let board = Board::default();
//! board.publish(Status { title: "eth1 <-> eth2".into(), ..Status::default() });
//! let text = metrics::openmetrics(&[board.status()], false);
//! assert!(text.ends_with("# EOF\n") && text.contains("weir_uptime_seconds"));
//! ```
#![cfg_attr(not(test), deny(clippy::unwrap_used))]

mod alarms;
mod answers;
pub mod api;
mod board;
pub mod client;
mod customers;
mod files;
pub mod metrics;
mod model;
pub mod page;
mod server;
mod socket;
mod what_if;

pub use alarms::{Limits as AlarmLimits, NAMES as ALARMS};
pub use board::Board;
pub use customers::{CustomerNetwork, Customers, EachPlan, EachUser, columns};
pub use model::{
    AlarmStatus, Applied, Configuration, ConfigurationChange, CustomerStatus, CustomersFound, Delays,
    DirectionStatus, Forecast, ForecastPoint, Health, Move, Packets, PlanFound, PolicyStatus, PortStatus,
    Problem, Refusal, Refused, SensingStatus, Status, UserPlaneStatus, UserStatus, UsersStatus, Valued,
    WhatIf,
};
pub use page::VIEWERS_MAX;
pub use server::{
    BODY_MAX, CONNECTIONS_MAX, Command, HEADERS_MAX, Order, PAGE_CONNECTIONS_MAX, PATIENCE, Server, Sockets,
    Who,
};
pub use socket::{ControlSocket, FOLDER, running};
pub use what_if::Simulate;
