//! The user plane: packets of users, from tunnels and into them, each through the queue of its QoS flow.
//!
//! ```text
//! base stations                                                                      data network
//!   N3  GTP-U > tunnel > session > rule > gate > rate and AQM of the flow > next hop  > N6
//!   N3  GTP-U < QFI    < rate and AQM of the flow < gate < rule < session < address   < N6
//! ```
//!
//! **Queues, not policers.** A packet above its rate waits, under the AQM of its QoS flow, and no packet is
//! discarded because of a rate alone. Each GBR flow has an instance of its own; all other flows of a session
//! share one, which obeys the session's aggregate (AMBR), unless a flow has a rate or a profile of its own:
//! then it has an instance too, and obeys both. What comes from and goes to the port for local breakout has
//! another instance under the same aggregate. Tunnels to another user-plane function (N9) pass the port to
//! the base stations; what goes to it shares the queue of what goes to the data network. Rates count IP
//! packets of users, with their headers and without tunnel and link, as 3GPP does (TS 23.501 section 5.7.2).
//!
//! **What an instance is.** Any algorithm of the list with parameters and policy of its own ([`Profile`]).
//! Without any it is vAQM that adjusts the rate: round-trip times between here and the user equipment, read
//! from TCP and QUIC that pass, tell what the bottleneck behind the base station delivers; the queue is
//! served at that rate or at that of the rules, whichever is less, so that it stands here, under CoDel, and
//! not there. Beside CoDel there is a bound: 95 % of the packets wait less than 15 ms, whatever their senders
//! do, where a packet alone does not take longer.
//!
//! **Link time.** Departures are computed at the times at which the rates allow them, however late the packet
//! loop looks. Rates are exact, and sojourn times are what they would have been.
//!
//! **What is kept from whom.** Tables have a fixed size. Rules are made ready by control ([`PlaneHandle`]);
//! the packet path puts them in their place between two packets, so that packets of other sessions notice
//! nothing. A change that cannot be made changes nothing. The packet path allocates nothing but for answers
//! to odd packets, of which there are at most a thousand in a second.
//!
//! **Not here.** Fragments are neither made nor put together: a packet that does not fit is discarded, and
//! its sender told (fragmentation needed, packet too big), whether or not it may be fragmented.

mod alone;
pub mod classify;
mod control;
mod egress;
mod handle;
mod ingress;
mod io;
mod live;
pub mod memory;
mod neighbour;
mod path;
pub mod queueing;
mod rate_limit;
mod run;
mod setup;
mod status;

pub use alone::{Alone, alone};
pub use classify::layout::{ACCESS, CORE, LOCAL};
pub use control::{Answer, Command};
pub use handle::{ENDED_MAX, PlaneHandle, Reach};
pub use io::Io;
pub use path::{PlaneEvent, PortInterface, UserPlane};
pub use run::{Pace, PlaneLoop, Remote, open, open_while};
pub use setup::{DELAY_MAX, HeldTo, PlaneSetup, PortSetup, Profile, Sources};
pub use status::faults::{Cause, Faults};
