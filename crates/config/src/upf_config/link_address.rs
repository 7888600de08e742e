//! An address with the prefix of its link.

use crate::errors::Wrong;
use crate::schema::Scalar;
use crate::sense_config::parsed;
use crate::tree::Node;
use std::net::{IpAddr, Ipv4Addr};

/// An address of ours with the prefix of the link that it is on.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct LinkAddress {
    /// The address.
    pub address: IpAddr,
    /// How many bits of it are those of the link.
    pub length: u8,
}

impl LinkAddress {
    /// Whether an address is on the same link.
    pub fn reaches(&self, other: IpAddr) -> bool {
        match (self.address, other) {
            (IpAddr::V4(own), IpAddr::V4(other)) => {
                (u32::from(own) ^ u32::from(other)) & !self.hosts_v4() == 0
            }
            (IpAddr::V6(own), IpAddr::V6(other)) => {
                (u128::from(own) ^ u128::from(other)) & !self.hosts_v6() == 0
            }
            _ => false,
        }
    }

    /// Whose an address of the link is, if it cannot be one host's. Links of two addresses have none of these
    /// (RFC 3021, RFC 6164).
    pub fn whose(&self, address: IpAddr) -> Option<&'static str> {
        match address {
            IpAddr::V4(address) if self.length < 31 => match u32::from(address) & self.hosts_v4() {
                0 => Some("the address of the network itself"),
                bits if bits == self.hosts_v4() => Some("the broadcast address of the link"),
                _ => None,
            },
            IpAddr::V6(address) if self.length < 127 && u128::from(address) & self.hosts_v6() == 0 => {
                Some("the anycast address of all routers on the link")
            }
            _ => None,
        }
    }

    /// The bits that tell hosts of the link apart.
    fn hosts_v4(&self) -> u32 {
        u32::from(Ipv4Addr::BROADCAST).checked_shr(u32::from(self.length)).unwrap_or(0)
    }

    /// See [`LinkAddress::hosts_v4`].
    fn hosts_v6(&self) -> u128 {
        u128::MAX.checked_shr(u32::from(self.length)).unwrap_or(0)
    }
}

impl std::str::FromStr for LinkAddress {
    type Err = ();

    fn from_str(text: &str) -> Result<LinkAddress, ()> {
        let (address, length) = text.split_once('/').ok_or(())?;
        let address: IpAddr = address.parse().map_err(drop)?;
        let most = if address.is_ipv4() { 32 } else { 128 };
        let length: u8 = length.parse().map_err(drop)?;
        if length <= most && !text.contains('+') { Ok(LinkAddress { address, length }) } else { Err(()) }
    }
}

impl std::fmt::Display for LinkAddress {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}/{}", self.address, self.length)
    }
}

impl Scalar for LinkAddress {
    fn kind() -> String {
        "an IP address with the prefix of its link such as \"192.0.2.1/24\"".to_string()
    }
    fn read(node: &Node) -> Result<Self, Wrong> {
        parsed(node, "IP address with a prefix")
    }
    fn show(&self) -> String {
        self.to_string()
    }
}
