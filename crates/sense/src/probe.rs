//! Probes: small packets that travel with the data, come back, and so measure a queue below IP.
//!
//! A probe is an IP header and eight bytes ([`Probe`]). It goes into the same queue as the data, through
//! whatever lies below, to a gateway or reflector, and back. A [`Sensor`] decides when a probe is due,
//! recognizes its own when they return, and says what to believe when none do.

mod autorate;
mod budget;
mod counters;
mod outstanding;
mod sensor;
mod shaping;
mod state;
mod trust;
mod wire;

pub use autorate::{Autorate, AutorateConfig, Interval};
pub use counters::Counters;
pub use outstanding::WINDOW;
pub use sensor::{Rejected, Sensor, Settings};
pub use shaping::{Shaped, Shaping, ShapingSettings};
pub use state::State;
pub use weir_wire::TooShort;
pub use wire::{Addresses, HOPS, IPV4_LEN, IPV6_LEN, NotAProbe, PROTOCOL, Probe, Stamp, TIMESTAMP_BITS};
