//! Messages of PFCP as a tree of elements, free of their encoding.
//!
//! A [`Codec`](crate::codec::Codec) turns datagrams into these and back. Every element of a message is in the
//! tree, known or not, so that whoever acts on a message can tell what was not understood.

mod numbers;

pub use numbers::{ie, kind};

use crate::rules::Amounts;
use serde::{Deserialize, Serialize};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// A message.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Message {
    /// What it is (TS 29.244 table 7.3-1).
    pub kind: u8,
    /// The session at the receiver, in messages that have one.
    pub seid: Option<u64>,
    /// By which an answer is known as that to its request; 24 bits.
    pub sequence: u32,
    /// What it bears.
    pub elements: Vec<Element>,
}

/// An information element.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Element {
    /// Its type (TS 29.244 table 8.1.2-1); vendors' own have the highest bit set.
    pub id: u16,
    /// What it says.
    pub value: Value,
}

/// What an element says.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Value {
    /// Elements within.
    Group(Vec<Element>),
    /// A number of one, two, four or eight octets, or flags.
    Number(u64),
    /// A number for each direction, in kbit/s.
    Rates {
        /// From the user equipment.
        up: u64,
        /// To the user equipment.
        down: u64,
    },
    /// Who a node is.
    Node(NodeId),
    /// A session at one of the two ends.
    Session {
        /// Its number there.
        seid: u64,
        /// Where messages about it go.
        v4: Option<Ipv4Addr>,
        /// Where messages about it go.
        v6: Option<Ipv6Addr>,
    },
    /// Our end of a tunnel.
    Tunnel(Tunnel),
    /// An address of the user equipment.
    UserAddress(UserAddress),
    /// A tunnel that packets enter.
    OuterHeader {
        /// Its number.
        teid: u32,
        /// Its other end.
        address: IpAddr,
    },
    /// Amounts of packets and bytes: thresholds, quotas, and what was measured.
    Volume(Box<Volume>),
    /// A name: network instance, application.
    Text(String),
    /// A filter for flows.
    Flow(FlowFilter),
    /// A rule that could not be kept.
    FailedRule {
        /// Kind: 0 PDR, 1 FAR, 2 QER, 3 URR.
        kind: u8,
        /// Its number.
        id: u32,
    },
    /// Octets of an element that is known and read by nobody, or not known.
    Octets(Vec<u8>),
    /// An element that is known and does not say what such an element says.
    Incorrect(Fault),
}

/// What is wrong with an element.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Fault {
    /// It is too short or too long.
    Length,
    /// It says what is not allowed.
    Content,
    /// It says what is allowed and not done here.
    Unsupported,
}

/// Amounts of packets and bytes.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Volume {
    /// Bytes.
    pub bytes: Amounts,
    /// Packets.
    pub packets: Amounts,
}

/// Who a node is.
#[derive(Clone, PartialEq, Eq, Hash, Debug, Serialize, Deserialize)]
pub enum NodeId {
    /// By address.
    Address(IpAddr),
    /// By name.
    Name(String),
}

/// Our end of a tunnel, as session management asks for it or is told it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Tunnel {
    /// It is named.
    Given {
        /// Its number.
        teid: u32,
        /// Address for IPv4.
        v4: Option<Ipv4Addr>,
        /// Address for IPv6.
        v6: Option<Ipv6Addr>,
    },
    /// We choose it.
    Choose {
        /// With an address for IPv4.
        v4: bool,
        /// With an address for IPv6.
        v6: bool,
        /// All with this number in a request get the same.
        id: Option<u8>,
    },
}

/// An address of the user equipment.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct UserAddress {
    /// IPv4.
    pub v4: Option<Ipv4Addr>,
    /// IPv6 prefix.
    pub v6: Option<(Ipv6Addr, u8)>,
    /// Packets bear it as destination, not as source.
    pub is_destination: bool,
    /// We are asked to choose it.
    pub is_chosen: bool,
}

/// A filter for flows (SDF filter).
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct FlowFilter {
    /// The flow in words, an IPFilterRule.
    pub description: Option<String>,
    /// Type of service: value and mask.
    pub tos: Option<(u8, u8)>,
    /// Security parameter index.
    pub spi: Option<u32>,
    /// Flow label of IPv6.
    pub flow_label: Option<u32>,
    /// Its number.
    pub id: Option<u32>,
}

impl Element {
    /// An element.
    pub fn new(id: u16, value: Value) -> Element {
        Element { id, value }
    }

    /// A number.
    pub fn number(id: u16, number: impl Into<u64>) -> Element {
        Element { id, value: Value::Number(number.into()) }
    }
}
