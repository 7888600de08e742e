//! A bump in the wire between two Linux interfaces.
//!
//! Frames that come in at one port go out at the other, through a queue with any algorithm of the list, a
//! shaper and a delay line for each direction. Ports are AF_XDP sockets (native where the driver has it,
//! generic otherwise) or AF_PACKET rings. When the packet loop dies or hangs, the kernel forwards.
//!
//! This crate alone knows rings. The packet path allocates nothing and locks nothing.
//!
//! ```
//! // The ports that a configuration may name.
//! for name in weir_dataplane::interfaces() {
//!     println!("{name}");
//! }
//! ```
#![cfg_attr(not(test), deny(clippy::unwrap_used))]

mod assemble;
mod change;
mod checksums;
mod clock;
mod customers;
mod engine;
mod frames;
mod guard;
mod heart;
mod impairments;
mod interface;
mod journal;
mod link_clock;
mod lock;
mod losses;
mod mailbox;
mod meter;
mod mtu;
pub mod namespace;
mod neighbours;
mod opening;
mod packet_ring;
mod pipe;
mod port;
mod ports;
pub mod privileges;
mod processor;
mod reflector;
mod ring;
mod sensing;
mod service;
mod shared_loop;
mod steering;
mod survey;
mod sync;
mod together;
mod upkeep;
mod upstream;
mod watch;
mod xsk;

pub use assemble::DirectionSetup;
pub use change::{Change, NeedsRestart};
pub use clock::clock;
pub use customers::{DirectionPlans, Impossible, PlanBook};
pub use engine::{Handle, Loop, LoopNow, Outcome, Setup};
pub use frames::{Arena, Frame};
pub use impairments::Impairments;
pub use interface::{Interface, LinkState, list as interfaces};
#[doc(hidden)]
pub use journal::rewritten as rewritten_journal;
pub use journal::{
    JOURNALS, PutBack, Starting, make_folder as make_journals, restore_everywhere, stale_journals, user_of,
};
pub use link_clock::RunClock;
pub use lock::LockFile;
pub use meter::Faults;
pub use opening::Progress;
pub use pipe::DirectionNow;
pub use upkeep::{Chores, LOOK as UPKEEP_PERIOD};
pub use upstream::{RttSample, UpstreamNow};
pub use watch::Links;

pub use ports::{FAIL_AFTER, HEADROOM_MIN, MtuChange, PortNews, Ports, PortsSetup};
pub use reflector::{ReflectMode, Reflected, Reflector, ReflectorSetup};
pub use sensing::{Rehearsal, SensingNow};
pub use shared_loop::{Ended, SharedLoop};
pub use survey::{DriverXdp, PortSurvey, survey};
pub use together::problems as problems_of_ports;

use serde::{Deserialize, Serialize};
use weir_config::{Accounting, Counting};
use weir_units::{Bytes, Time};

/// Most receive queues of a port in AF_XDP; `port.bpf.c` has as many places for sockets.
pub const QUEUES_MAX: u32 = 128;

/// Why the dataplane cannot start or go on. Each names the thing and the remedy.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The system refused something.
    #[error("{what}: {error}{remedy}", remedy = remedy(error))]
    Os {
        /// What was tried.
        what: String,
        /// What the system said.
        error: std::io::Error,
    },
    /// There is no such interface.
    #[error("there is no interface `{name}` here. Remedy: name one of: {known}")]
    NoInterface {
        /// The name.
        name: String,
        /// What there is.
        known: String,
    },
    /// Something stands against it.
    #[error("{0}")]
    Refused(String),
    /// Whoever opened the ports gave it up before they were open.
    #[error("ended before the ports were open; they are as they were")]
    GivenUp,
    /// Something unexpected ended the loop; the kernel forwards.
    #[error(
        "{0}. The kernel forwards between the ports from now on, past the queues. Remedy: start again, which takes over; \
         `weir doctor --clean` ends it and puts the ports back"
    )]
    LeftToKernel(String),
    /// An interface vanished while the loop was running.
    #[error(
        "interface `{0}` vanished while running: it was removed, or moved to another network namespace. Everything \
         else was put back{left}", left = .1.iter().map(|line| format!("; {line}")).collect::<String>()
    )]
    PortGone(String, Vec<String>),
}

fn remedy(error: &std::io::Error) -> &'static str {
    match error.raw_os_error() {
        Some(libc::EPERM | libc::EACCES) => ". Remedy: run as root (CAP_NET_ADMIN, CAP_NET_RAW and CAP_BPF)",
        Some(libc::ENOMEM) => ". Remedy: smaller buffers and delays, fewer queues, or more memory",
        Some(libc::EMFILE) => {
            ". Remedy: allow the process more open files (`ulimit -n`; LimitNOFILE= in a unit)"
        }
        Some(libc::ENFILE) => ". Remedy: allow the system more open files (`sysctl fs.file-max`)",
        _ => "",
    }
}

impl Error {
    /// The last error of the operating system.
    fn os(what: impl Into<String>) -> Error {
        Error::Os { what: what.into(), error: std::io::Error::last_os_error() }
    }

    fn io(what: impl Into<String>, error: std::io::Error) -> Error {
        Error::Os { what: what.into(), error }
    }
}

/// A frame that came in, with the time at which the kernel received it.
#[derive(Clone, Copy, Debug)]
pub struct Received {
    /// The frame.
    pub frame: Frame,
    /// The time.
    pub arrived: Time,
}

/// How frames come in and go out.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Mode {
    /// AF_XDP with the program in the driver.
    XdpNative,
    /// AF_XDP with the program in the kernel's general receive path.
    XdpGeneric,
    /// AF_PACKET rings.
    AfPacket,
}

impl std::fmt::Display for Mode {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Mode::XdpNative => "AF_XDP, native",
            Mode::XdpGeneric => "AF_XDP, generic",
            Mode::AfPacket => "AF_PACKET",
        })
    }
}

/// Smallest frame on the wire, without the frame check sequence (IEEE 802.3 section 3.2.8).
const FRAME_MIN: u64 = 60;
/// Frame check sequence 4, preamble and start delimiter 8, interpacket gap 12.
const WIRE_OVERHEAD: u64 = 24;

/// Size as the link counts it of a frame of `len` bytes whose network header starts at `network`. For the
/// overhead of a link behind, what is no IP is taken for a packet behind the header of Ethernet.
fn charge(counting: Counting, len: u32, network: u16) -> Bytes {
    let packet = len.saturating_sub(u32::from(network));
    let len = u64::from(len);
    Bytes::new(match counting {
        Counting::Frame(Accounting::Line) => len.max(FRAME_MIN) + WIRE_OVERHEAD,
        Counting::Frame(Accounting::Frame) => len,
        Counting::Frame(Accounting::Ip) => packet.into(),
        Counting::Link(overhead) => return overhead.size(packet),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_full_frame_counts_1538_1514_or_1500_bytes() {
        let frame = Counting::Frame;
        let sizes =
            [Accounting::Line, Accounting::Frame, Accounting::Ip].map(|a| charge(frame(a), 1514, 14).get());
        assert_eq!(sizes, [1538, 1514, 1500]);
        assert_eq!(charge(frame(Accounting::Line), 42, 14).get(), 84, "short frames are padded on the wire");
    }

    #[test]
    fn the_overhead_of_a_link_is_counted_from_the_ip_header() {
        let link = |overhead: &str| {
            let text =
                format!("ports = {{ a = \"x\", b = \"y\" }}\na_to_b = {{ overhead = \"{overhead}\" }}\n");
            weir_config::RunConfig::parse("x", &text).unwrap().a_to_b.link.counting()
        };
        // With a VLAN tag here, which the modem takes off.
        for (network, len) in [(14, 1514), (18, 1518)] {
            assert_eq!(charge(link("pppoe-llcsnap"), len, network).get(), 1749);
            assert_eq!(charge(link("docsis"), len, network).get(), 1518);
            assert_eq!(charge(link("pppoe-ptm ether-vlan"), len, network).get(), 1558);
        }
        assert_eq!(charge(link("docsis"), 42, 14).get(), 64);
    }
}
