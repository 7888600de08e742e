//! Files that users write: scenarios and configurations, in TOML.
//!
//! [`Scenario`] is an experiment on a link made for it; [`RunConfig`] is a link between two real ports,
//! [`UpfConfig`] a 5G user-plane function, [`Embedded`] a queue in somebody else's program. They are read
//! through a [`Document`], which keeps the line of every key, so that each problem names its place and its
//! remedy and all problems of a file are told at once ([`Errors`]).
//!
//! Every key is declared once, in the struct it belongs to (see `schema.rs`): reading, hints for unknown
//! keys, canonical printing and the reference documentation come from that declaration.
//!
//! ```
//! use weir_config::Scenario;
//!
//! let text = "[link]\nrate = \"10Mbit/s\"\nbufer = \"100ms\"\n";
//! let errors = Scenario::parse("mine.toml", text).unwrap_err().to_string();
//! assert!(errors.contains("mine.toml:3") && errors.contains("buffer"), "{errors}");
//! ```
#![forbid(unsafe_code)]
#![cfg_attr(not(test), deny(clippy::unwrap_used))]

#[macro_use]
mod schema;
mod alarms;
mod applications;
mod aqm_config;
mod axes;
mod capacity;
mod changes;
mod checks;
pub mod disorder;
mod document;
mod embedded;
mod end_host;
mod entitlements;
mod errors;
mod experiment;
mod file;
mod flows;
mod forms;
mod from_file;
mod library;
mod limits;
mod link;
mod measure;
mod media;
mod names;
mod near;
mod network;
mod network_shape;
mod objective;
mod overhead;
mod page_file;
pub mod pages;
mod plans;
mod policy_config;
mod problems;
mod queue_config;
mod record;
mod remarking;
mod run_config;
mod sense;
mod sense_config;
mod sensed_rate;
mod session_file;
mod settings;
mod spans;
mod steer_config;
mod steering;
mod table_doc;
mod topology;
pub mod trace;
mod traffic;
mod tree;
mod upf_config;
mod variation;

pub use alarms::AlarmsConfig;
pub use applications::{Codec, CodecFacts, Game, GameSide, Objects, Page, PageEntry, Realtime, Video, Voice};
pub use aqm_config::AqmConfig;
pub use capacity::{Capacity, CapacitySince};
pub use changes::{Changed, values};
pub use document::{Document, MAX_FILE_BYTES};
pub use embedded::Embedded;
pub use end_host::{EndHost, Pacing, Recovery};
pub use entitlements::{Customer, OwnPolicy, Site, WrongKey};
pub use errors::{Error, Errors, MAX_PROBLEMS};
pub use experiment::{Axis, MAX_POINT_VALUES, MAX_POINTS, MAX_SAMPLES, Path, Point, Run, Scenario, Sweep};
pub use flows::{Class, Direction, EcnUse, FlowGroup, IpVersion, Pairs, Protocol, Rtt};
pub use library::MAX_TRACES;
pub use limits::{MAX_DURATION, MAX_FLOWS, MAX_LINKS, MAX_NESTING};
pub use link::{Accounting, Bottleneck, Buffer, Channel, Counting, LinkConfig, Upstream};
pub use measure::Measure;
pub use media::{Grants, Wifi};
pub use near::{each_flow_of, nearest};
pub use network::{BOTTLENECK, ExtraDelay, Network, NetworkLink, Probing, Route};
pub use network_shape::NetworkShape;
pub use objective::Objective;
pub use overhead::{Framing, Overhead};
pub use page_file::{DescribedPage, PageFile, PageObject};
pub use plans::{CustomerPlan, IpNetwork, PlansFile, SitePlan};
pub use policy_config::PolicyConfig;
pub use queue_config::{QueueConfig, brings_algorithm};
pub use record::Record;
pub use remarking::{DscpRule, Remark, Remarking};
pub use run_config::{
    FailOpen, Host, LogLevel, OutcomeConfig, Poll, PortMode, Ports, RunConfig, RunOptions, UsersConfig,
};
pub use schema::Arm;
pub use sense::Sense;
pub use sense_config::{MacAddress, PortName, SenseConfig, SenseMode, is_routed, unicast};
pub use sensed_rate::{Autorate, SensedRate};
pub use session_file::{SessionConfig, SessionFile, SessionFlow};
pub use steer_config::{SteerConfig, SteerOptions, SteeredQueue};
pub use steering::{Estimator, SteeredBy, Steering};
pub use topology::Link;
pub use trace::Trace;
pub use traffic::{Datagrams, OBJECT_MEAN, OBJECT_SHAPE, OBJECT_SPREAD, Timing, Traffic, UdpPattern, Web};
pub use upf_config::{
    FlowConfig, FollowedBy, LinkAddress, N3, N4, N6, QosFlow, Sources, UpfConfig, UpfHost, UpfLimits, UpfRun,
};
pub use variation::{MAX_STEPS, Step, TraceFile, Variation};
