//! What a link does to the DSCP of packets.

use crate::errors::{Wrong, shown_key};
use crate::near::nearest;
use crate::problems::Problems;
use crate::schema::{Check, Here, Range, Scalar, list, or, such, wrong_type};
use crate::tree::{Node, Table};
use weir_wire::dscp::{COUNT, Dscp, Remarks};

section! {
    /// What a link does to the DSCP of packets.
    pub struct Remarking {
        /// What becomes of the DSCP of packets as they are sent: "keep"; "wash" sets it to 0, so that
        /// networks behind treat all packets alike; or a code point that all get, as a number or a name:
        /// default, cs0 to cs7, af11 to af43, ef, va, le, nqb. The ECN field stays. What the link itself does
        /// by the DSCP of a packet it does by the one that the packet came with.
        dscp: DscpRule = or(DscpRule::Keep, Range::Any) => [Simulator, Row];
        /// Single code points that are changed otherwise than `dscp` says, such as
        /// `[{ from = "nqb", to = "nqb" }]` beside "wash": networks behind can then still tell apart what
        /// builds no queues (RFC 9956).
        remark: Vec<Remark> = list("none", COUNT, such(REMARK, |_: &Remark| true)) => [Simulator, Row];
    }
}

/// What a remark is read with, for the reference.
const REMARK: &str = "code points by name or number";

impl Check for Remarking {
    fn check(&mut self, here: &Here, p: &mut Problems) {
        for (n, remark) in self.remark.iter().enumerate() {
            if self.remark[..n].iter().any(|earlier| earlier.from == remark.from) {
                let problem = format!("has two entries from {}", remark.from);
                here.wrong(p, "remark", problem, "a code point becomes one other: remove one of the two");
                return;
            }
        }
    }
}

impl Default for Remarking {
    fn default() -> Remarking {
        Remarking { dscp: DscpRule::Keep, remark: Vec::new() }
    }
}

impl Remarking {
    /// What becomes of each code point.
    pub fn remarks(&self) -> Remarks {
        let all = match self.dscp {
            DscpRule::Keep => Remarks::keeping(),
            DscpRule::Wash => Remarks::to(Dscp::DEFAULT),
            DscpRule::Set(dscp) => Remarks::to(dscp),
        };
        self.remark.iter().fold(all, |table, remark| table.with(remark.from, remark.to))
    }
}

/// What becomes of the DSCP of packets.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Debug)]
pub enum DscpRule {
    /// It stays.
    Keep,
    /// It becomes that of default forwarding.
    Wash,
    /// It becomes this one.
    Set(Dscp),
}

const KEEP: &str = "keep";
const WASH: &str = "wash";

impl Scalar for DscpRule {
    fn kind() -> String {
        format!("\"{KEEP}\", \"{WASH}\" or a code point such as \"cs1\" or 8")
    }
    fn read(node: &Node) -> Result<Self, Wrong> {
        match node {
            Node::Text(text) if text == KEEP => Ok(DscpRule::Keep),
            Node::Text(text) if text == WASH => Ok(DscpRule::Wash),
            Node::Text(_) | Node::Int(_) => code_point(node, &[KEEP, WASH]).map(DscpRule::Set),
            _ => Err(wrong_type::<Self>(node)),
        }
    }
    fn show(&self) -> String {
        match self {
            DscpRule::Keep => KEEP.into(),
            DscpRule::Wash => WASH.into(),
            DscpRule::Set(dscp) => dscp.to_string(),
        }
    }
    fn literal(&self) -> String {
        match self {
            DscpRule::Set(dscp) => literal(*dscp),
            _ => format!("\"{}\"", self.show()),
        }
    }
}

/// A code point as TOML has it: by its name, or by its number where it has none.
fn literal(dscp: Dscp) -> String {
    match dscp.name() {
        Some(name) => format!("\"{name}\""),
        None => dscp.number().to_string(),
    }
}

/// A code point by name or number; `words` may stand there as well.
fn code_point(node: &Node, words: &'static [&'static str]) -> Result<Dscp, Wrong> {
    match node {
        Node::Text(text) => text.parse().map_err(|_| {
            let known = || words.iter().copied().chain(Dscp::names());
            let hint = nearest(text, known()).map(|meant| format!("did you mean \"{meant}\"? "));
            let known = known().collect::<Vec<_>>().join(", ");
            let problem = format!("is no code point: {}", crate::errors::quoted(text));
            Wrong::new(problem, format!("{}give a number in 0 .. 63, or {known}", hint.unwrap_or_default()))
        }),
        Node::Int(number) => {
            let dscp = u8::try_from(*number).ok().and_then(Dscp::from_number);
            dscp.ok_or_else(|| Wrong::out_of_range(&node.shown(), "give a value in 0 .. 63"))
        }
        _ => Err(wrong_type::<DscpRule>(node)),
    }
}

/// What becomes of one code point.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Debug)]
pub struct Remark {
    /// The one that a packet comes with.
    pub from: Dscp,
    /// The one that it goes on with.
    pub to: Dscp,
}

impl Scalar for Remark {
    fn kind() -> String {
        "a remark such as { from = \"ef\", to = \"af41\" }".to_string()
    }
    fn read(node: &Node) -> Result<Self, Wrong> {
        let Node::Table(table) = node else { return Err(wrong_type::<Self>(node)) };
        if let Some(other) = table.entries.iter().find(|e| !["from", "to"].contains(&e.key.as_str())) {
            let problem = format!("has the unknown key {}", shown_key(&other.key));
            return Err(Wrong::new(problem, format!("write {}", Self::kind())));
        }
        Ok(Remark { from: part(table, "from")?, to: part(table, "to")? })
    }
    fn show(&self) -> String {
        format!("{{ from = {}, to = {} }}", literal(self.from), literal(self.to))
    }
    fn literal(&self) -> String {
        self.show()
    }
}

/// One of the two code points of a remark.
fn part(table: &Table, key: &str) -> Result<Dscp, Wrong> {
    let Some(entry) = table.get(key) else {
        return Err(Wrong::new(format!("has no `{key}`"), format!("write {}", Remark::kind())));
    };
    code_point(&entry.item.node, &[])
        .map_err(|wrong| Wrong::new(format!("`{key}` {}", wrong.problem), wrong.remedy))
}
