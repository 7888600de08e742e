//! Filters of service data flows: which packets of a session belong to a rule.

mod text;

pub use text::{DESCRIPTION_MAX, FilterError, PORTS_MAX};

use serde::{Deserialize, Serialize};
use std::net::IpAddr;

/// An SDF filter: all that is named must match.
///
/// It is written from the network's point of view and holds for both directions: a packet to the user
/// equipment comes from the remote end and goes to the local one, a packet from the user equipment the other
/// way round.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct Filter {
    /// IP protocol number; any without it.
    pub protocol: Option<u8>,
    /// The end in the network.
    pub remote: Endpoint,
    /// The user equipment. Without a prefix ("assigned", "any") that is any address of the session.
    pub local: Endpoint,
    /// Type of service or traffic class: value and mask.
    pub tos: Option<(u8, u8)>,
    /// Security parameter index of IPsec.
    pub spi: Option<u32>,
    /// Flow label of IPv6.
    pub flow_label: Option<u32>,
    /// It was written for packets from the user equipment alone ("permit in"); such a filter stands in rules
    /// for those only.
    pub is_in: bool,
    /// Its number, by which others of the session refer to it (SDF Filter ID).
    pub id: Option<u32>,
}

impl Filter {
    /// Whether its addresses are IPv6's; `None` if it has none.
    pub fn address_is_ipv6(&self) -> Option<bool> {
        self.remote.prefix.or(self.local.prefix).map(|prefix| prefix.address.is_ipv6())
    }

    /// Whether its packets are IPv6's; `None` if they may be of either version.
    pub fn is_ipv6(&self) -> Option<bool> {
        self.address_is_ipv6().or(self.flow_label.map(|_| true))
    }
}

/// One end of a flow.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct Endpoint {
    /// Its addresses; any without it.
    pub prefix: Option<Prefix>,
    /// Its ports, one of which must match; any if there are none. Packets without ports (fragments but the
    /// first, other protocols) match no port.
    pub ports: Box<[PortRange]>,
}

/// Addresses that begin alike.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Prefix {
    /// An address of it; bits that do not count are zero.
    pub address: IpAddr,
    /// How many bits count.
    pub length: u8,
}

impl Prefix {
    /// Whether an address begins so.
    pub fn contains(&self, address: IpAddr) -> bool {
        match (self.address, address) {
            (IpAddr::V4(own), IpAddr::V4(other)) => {
                let differ = u32::from(own) ^ u32::from(other);
                differ.checked_shr(32 - u32::from(self.length)).unwrap_or(0) == 0
            }
            (IpAddr::V6(own), IpAddr::V6(other)) => {
                let differ = u128::from(own) ^ u128::from(other);
                differ.checked_shr(128 - u32::from(self.length)).unwrap_or(0) == 0
            }
            _ => false,
        }
    }
}

/// Ports from the first to the last, both included.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct PortRange {
    /// The first.
    pub first: u16,
    /// The last.
    pub last: u16,
}

impl PortRange {
    /// Whether it has a port.
    pub fn contains(&self, port: u16) -> bool {
        (self.first..=self.last).contains(&port)
    }
}
