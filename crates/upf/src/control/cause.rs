//! Why a request is refused.

use crate::codec::Flaw;
use crate::message::{Element, Value, ie};
use crate::rules::{Refusal, RuleKind, Session, UeAddress};
use std::net::IpAddr;

/// Causes (TS 29.244 table 8.2.1-1).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub enum Cause {
    /// It is done.
    Accepted = 1,
    /// For no reason of this list.
    Rejected = 64,
    /// There is no such session.
    NoSession = 65,
    /// An element that must be there is not.
    MandatoryMissing = 66,
    /// An element that must be there in this case is not.
    ConditionalMissing = 67,
    /// An element is shorter than it must be.
    InvalidLength = 68,
    /// An element says what it must not.
    MandatoryIncorrect = 69,
    /// A way of forwarding that there is not.
    ForwardingPolicy = 70,
    /// A tunnel that cannot be allocated so.
    TunnelOption = 71,
    /// The peer is not associated.
    NoAssociation = 72,
    /// A rule cannot be kept.
    RuleFailure = 73,
    /// A table is full.
    NoResources = 75,
    /// What is asked for is not done here.
    NotSupported = 76,
}

/// A request that is refused; nothing of it was done.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Refused {
    /// Why.
    pub cause: Cause,
    /// The type of the element that is at fault.
    pub offending: Option<u16>,
    /// The rule that is at fault: kind and number as in [`Value::FailedRule`].
    pub rule: Option<(u8, u32)>,
    /// In words, for the log.
    pub why: String,
}

/// What a cause is called (TS 29.244 table 8.2.1-1), by its number.
fn name(number: u64) -> Option<&'static str> {
    Some(match number {
        1 => "request accepted",
        64 => "request rejected",
        65 => "session context not found",
        66 => "mandatory IE missing",
        67 => "conditional IE missing",
        68 => "invalid length",
        69 => "mandatory IE incorrect",
        70 => "invalid forwarding policy",
        71 => "invalid F-TEID allocation option",
        72 => "no established PFCP association",
        73 => "rule creation or modification failure",
        74 => "PFCP entity in congestion",
        75 => "no resources available",
        76 => "service not supported",
        77 => "system failure",
        _ => return None,
    })
}

/// The number of a cause with its name, for people.
pub fn shown(number: u64) -> String {
    name(number).map_or(format!("cause {number}"), |name| format!("cause {number}, {name}"))
}

impl std::fmt::Display for Cause {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&shown(*self as u64))
    }
}

impl Refused {
    /// A refusal for a cause.
    pub fn new(cause: Cause, why: impl Into<String>) -> Refused {
        Refused { cause, offending: None, rule: None, why: why.into() }
    }

    /// A refusal for an element.
    pub fn element(cause: Cause, id: u16, why: impl Into<String>) -> Refused {
        Refused { offending: Some(id), ..Refused::new(cause, why) }
    }

    /// The same, as the fault of a rule. What is wrong with the form of an element stays a fault of form.
    pub fn of_rule(mut self, kind: u8, id: u32) -> Refused {
        if matches!(self.cause, Cause::NotSupported | Cause::RuleFailure | Cause::Rejected) {
            self.cause = Cause::RuleFailure;
            self.rule.get_or_insert((kind, id));
        }
        self
    }

    /// What the answer says of it.
    pub fn elements(&self) -> Vec<Element> {
        let mut elements = vec![Element::number(ie::CAUSE, self.cause as u8)];
        elements.extend(self.offending.map(|id| Element::number(ie::OFFENDING_IE, id)));
        let failed = |(kind, id)| Element::new(ie::FAILED_RULE_ID, Value::FailedRule { kind, id });
        elements.extend(self.rule.map(failed));
        elements
    }
}

/// The number of a kind of rule on the wire.
pub fn rule_number(kind: RuleKind) -> u8 {
    match kind {
        RuleKind::Pdr => 0,
        RuleKind::Far => 1,
        RuleKind::Qer => 2,
        RuleKind::Urr => 3,
    }
}

impl From<Refusal> for Refused {
    fn from(refusal: Refusal) -> Refused {
        let why = refusal.to_string();
        match refusal {
            Refusal::NoResources(_) => Refused::new(Cause::NoResources, why),
            Refusal::TunnelTaken(_) => Refused::element(Cause::RuleFailure, ie::F_TEID, why),
            Refusal::AddressTaken(_) => Refused::element(Cause::RuleFailure, ie::UE_IP_ADDRESS, why),
            Refusal::NoSession(_) => Refused::new(Cause::NoSession, why),
            Refusal::Rule { kind, id, .. } => {
                Refused::new(Cause::RuleFailure, why).of_rule(rule_number(kind), id)
            }
        }
    }
}

impl Refused {
    /// What a plane refuses of a session: what another session has is the fault of the rule that asks for it.
    pub fn by_plane(refusal: Refusal, session: &Session) -> Refused {
        let has_address = |ue: &UeAddress, address: IpAddr| match address {
            IpAddr::V4(v4) => ue.v4 == Some(v4),
            IpAddr::V6(v6) => ue.v6.is_some_and(|prefix| prefix.covers(v6)),
        };
        let at_fault = session.pdrs.iter().find(|pdr| match refusal {
            Refusal::TunnelTaken(teid) => pdr.tunnel.is_some_and(|tunnel| tunnel.teid == teid),
            Refusal::AddressTaken(address) => pdr.ue.is_some_and(|ue| has_address(&ue, address)),
            _ => false,
        });
        let refused = Refused::from(refusal);
        match at_fault {
            Some(pdr) => refused.of_rule(rule_number(RuleKind::Pdr), u32::from(pdr.id)),
            None => refused,
        }
    }
}

impl From<Flaw> for Refused {
    fn from(flaw: Flaw) -> Refused {
        match flaw {
            Flaw::Length => Refused::new(Cause::InvalidLength, format!("a message {flaw}")),
            Flaw::Element(id) => {
                let why = format!("{} is longer than what it is in, or not filled", ie::shown(id));
                Refused::element(Cause::InvalidLength, id, why)
            }
            Flaw::TooMuch => Refused::new(Cause::NoResources, format!("a message {flaw}")),
        }
    }
}
