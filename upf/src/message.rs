//! Messages of PFCP as a tree of elements, free of their encoding.
//!
//! A [`Codec`](crate::codec::Codec) turns datagrams into these and back. Every element of a message is in the tree, known
//! or not, so that whoever acts on a message can tell what was not understood.

use crate::rules::Amounts;
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

/// Kinds of messages.
#[allow(missing_docs)]
pub mod kind {
    pub const HEARTBEAT_REQUEST: u8 = 1;
    pub const HEARTBEAT_RESPONSE: u8 = 2;
    pub const PFD_MANAGEMENT_REQUEST: u8 = 3;
    pub const ASSOCIATION_SETUP_REQUEST: u8 = 5;
    pub const ASSOCIATION_SETUP_RESPONSE: u8 = 6;
    pub const ASSOCIATION_UPDATE_REQUEST: u8 = 7;
    pub const ASSOCIATION_UPDATE_RESPONSE: u8 = 8;
    pub const ASSOCIATION_RELEASE_REQUEST: u8 = 9;
    pub const ASSOCIATION_RELEASE_RESPONSE: u8 = 10;
    pub const VERSION_NOT_SUPPORTED: u8 = 11;
    pub const NODE_REPORT_REQUEST: u8 = 12;
    pub const SESSION_SET_DELETION_REQUEST: u8 = 14;
    pub const SESSION_SET_MODIFICATION_REQUEST: u8 = 16;
    pub const SESSION_ESTABLISHMENT_REQUEST: u8 = 50;
    pub const SESSION_ESTABLISHMENT_RESPONSE: u8 = 51;
    pub const SESSION_MODIFICATION_REQUEST: u8 = 52;
    pub const SESSION_MODIFICATION_RESPONSE: u8 = 53;
    pub const SESSION_DELETION_REQUEST: u8 = 54;
    pub const SESSION_DELETION_RESPONSE: u8 = 55;
    pub const SESSION_REPORT_REQUEST: u8 = 56;
    pub const SESSION_REPORT_RESPONSE: u8 = 57;
}

/// Types of information elements.
#[allow(missing_docs)]
pub mod ie {
    pub const CREATE_PDR: u16 = 1;
    pub const PDI: u16 = 2;
    pub const CREATE_FAR: u16 = 3;
    pub const FORWARDING_PARAMETERS: u16 = 4;
    pub const CREATE_URR: u16 = 6;
    pub const CREATE_QER: u16 = 7;
    pub const CREATED_PDR: u16 = 8;
    pub const UPDATE_PDR: u16 = 9;
    pub const UPDATE_FAR: u16 = 10;
    pub const UPDATE_FORWARDING_PARAMETERS: u16 = 11;
    pub const UPDATE_URR: u16 = 13;
    pub const UPDATE_QER: u16 = 14;
    pub const REMOVE_PDR: u16 = 15;
    pub const REMOVE_FAR: u16 = 16;
    pub const REMOVE_URR: u16 = 17;
    pub const REMOVE_QER: u16 = 18;
    pub const CAUSE: u16 = 19;
    pub const SOURCE_INTERFACE: u16 = 20;
    pub const F_TEID: u16 = 21;
    pub const NETWORK_INSTANCE: u16 = 22;
    pub const SDF_FILTER: u16 = 23;
    pub const GATE_STATUS: u16 = 25;
    pub const MBR: u16 = 26;
    pub const GBR: u16 = 27;
    pub const QER_CORRELATION_ID: u16 = 28;
    pub const PRECEDENCE: u16 = 29;
    pub const TRANSPORT_LEVEL_MARKING: u16 = 30;
    pub const VOLUME_THRESHOLD: u16 = 31;
    pub const TIME_THRESHOLD: u16 = 32;
    pub const REPORTING_TRIGGERS: u16 = 37;
    pub const REPORT_TYPE: u16 = 39;
    pub const OFFENDING_IE: u16 = 40;
    pub const FORWARDING_POLICY: u16 = 41;
    pub const DESTINATION_INTERFACE: u16 = 42;
    pub const UP_FUNCTION_FEATURES: u16 = 43;
    pub const APPLY_ACTION: u16 = 44;
    pub const PFCPSM_REQ_FLAGS: u16 = 49;
    pub const PDR_ID: u16 = 56;
    pub const F_SEID: u16 = 57;
    pub const NODE_ID: u16 = 60;
    pub const MEASUREMENT_METHOD: u16 = 62;
    pub const USAGE_REPORT_TRIGGER: u16 = 63;
    pub const MEASUREMENT_PERIOD: u16 = 64;
    pub const VOLUME_MEASUREMENT: u16 = 66;
    pub const DURATION_MEASUREMENT: u16 = 67;
    pub const VOLUME_QUOTA: u16 = 73;
    pub const TIME_QUOTA: u16 = 74;
    pub const START_TIME: u16 = 75;
    pub const END_TIME: u16 = 76;
    pub const QUERY_URR: u16 = 77;
    pub const MODIFICATION_USAGE_REPORT: u16 = 78;
    pub const DELETION_USAGE_REPORT: u16 = 79;
    pub const USAGE_REPORT: u16 = 80;
    pub const URR_ID: u16 = 81;
    pub const DOWNLINK_DATA_REPORT: u16 = 83;
    pub const OUTER_HEADER_CREATION: u16 = 84;
    pub const CP_FUNCTION_FEATURES: u16 = 89;
    pub const UE_IP_ADDRESS: u16 = 93;
    pub const OUTER_HEADER_REMOVAL: u16 = 95;
    pub const RECOVERY_TIME_STAMP: u16 = 96;
    pub const ERROR_INDICATION_REPORT: u16 = 99;
    pub const MEASUREMENT_INFORMATION: u16 = 100;
    pub const UR_SEQN: u16 = 104;
    pub const FAR_ID: u16 = 108;
    pub const QER_ID: u16 = 109;
    pub const ASSOCIATION_RELEASE_REQUEST: u16 = 111;
    pub const PDN_TYPE: u16 = 113;
    pub const FAILED_RULE_ID: u16 = 114;
    pub const INACTIVITY_TIMER: u16 = 117;
    pub const RQI: u16 = 123;
    pub const QFI: u16 = 124;
    pub const USER_ID: u16 = 141;
    pub const AVERAGING_WINDOW: u16 = 157;
    pub const APN_DNN: u16 = 159;
    pub const INTERFACE_TYPE: u16 = 160;
    pub const SESSION_RETENTION: u16 = 183;
    pub const PFCPAS_RSP_FLAGS: u16 = 184;
    pub const S_NSSAI: u16 = 257;
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
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
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
