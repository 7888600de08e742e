//! Why a request is refused.

use crate::message::{Element, Value, ie};
use crate::rules::{Refusal, RuleKind};

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
            Refusal::NoSession(_) => Refused::new(Cause::NoSession, why),
            Refusal::Rule { kind, id, .. } => {
                Refused::new(Cause::RuleFailure, why).of_rule(rule_number(kind), id)
            }
        }
    }
}
