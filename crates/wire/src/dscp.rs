//! Differentiated services code points (RFC 2474): their names, and how a link changes them.

use core::fmt;
use core::str::FromStr;

/// A code point, 0 to 63: the upper six bits of the octet whose lower two are the ECN field.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Dscp(u8);

/// Number of code points.
pub const COUNT: usize = 64;

/// Code points with a name of their own. Where two are of one, the first is written.
const NAMES: &[(&str, u8)] = &[
    // Class selectors (RFC 2474 section 4.2.2). The first is the default behaviour (section 4.1).
    ("default", 0),
    ("cs0", 0),
    ("cs1", 8),
    ("cs2", 16),
    ("cs3", 24),
    ("cs4", 32),
    ("cs5", 40),
    ("cs6", 48),
    ("cs7", 56),
    // Assured forwarding (RFC 2597 section 6).
    ("af11", 10),
    ("af12", 12),
    ("af13", 14),
    ("af21", 18),
    ("af22", 20),
    ("af23", 22),
    ("af31", 26),
    ("af32", 28),
    ("af33", 30),
    ("af41", 34),
    ("af42", 36),
    ("af43", 38),
    // Expedited forwarding (RFC 3246 section 2.7), voice that was admitted (RFC 5865).
    ("ef", 46),
    ("va", 44),
    // Lower effort (RFC 8622 section 3), non-queue-building (RFC 9956).
    ("le", 1),
    ("nqb", 45),
];

impl Dscp {
    /// Default forwarding (RFC 2474 section 4.1).
    pub const DEFAULT: Dscp = Dscp(0);
    /// Expedited forwarding (RFC 3246).
    pub const EXPEDITED: Dscp = Dscp(46);
    /// Non-queue-building (RFC 9956).
    pub const NQB: Dscp = Dscp(45);

    /// That of an octet with DSCP and ECN.
    #[inline(always)]
    pub const fn of(traffic_class: u8) -> Dscp {
        Dscp(traffic_class >> 2)
    }

    /// A code point by its number; `None` above 63.
    pub const fn from_number(number: u8) -> Option<Dscp> {
        if (number as usize) < COUNT { Some(Dscp(number)) } else { None }
    }

    /// Its number.
    pub const fn number(self) -> u8 {
        self.0
    }

    /// Its name, where it has one.
    pub fn name(self) -> Option<&'static str> {
        NAMES.iter().find(|(_, number)| *number == self.0).map(|(name, _)| *name)
    }

    /// All names, in the order of their families.
    pub fn names() -> impl Iterator<Item = &'static str> {
        NAMES.iter().map(|(name, _)| *name)
    }
}

impl fmt::Display for Dscp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.name() {
            Some(name) => f.write_str(name),
            None => self.0.fmt(f),
        }
    }
}

impl FromStr for Dscp {
    type Err = NoDscp;

    fn from_str(name: &str) -> Result<Dscp, NoDscp> {
        NAMES.iter().find(|(known, _)| *known == name).map(|(_, number)| Dscp(*number)).ok_or(NoDscp)
    }
}

/// No code point has this name.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct NoDscp;

impl fmt::Display for NoDscp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("there is no code point of this name")
    }
}

impl core::error::Error for NoDscp {}

/// What becomes of each code point on a link.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Remarks([u8; COUNT]);

impl Remarks {
    /// All packets keep theirs.
    pub const fn keeping() -> Remarks {
        let mut table = [0; COUNT];
        let mut number = 0;
        while number < COUNT {
            table[number] = number as u8;
            number += 1;
        }
        Remarks(table)
    }

    /// All packets get this one.
    pub const fn to(dscp: Dscp) -> Remarks {
        Remarks([dscp.0; COUNT])
    }

    /// The same, but that packets with `from` get `to`.
    pub fn with(mut self, from: Dscp, to: Dscp) -> Remarks {
        self.0[usize::from(from.0)] = to.0;
        self
    }

    /// What a packet has behind the link.
    #[inline(always)]
    pub fn of(&self, dscp: Dscp) -> Dscp {
        // A code point has six bits.
        Dscp(self.0[usize::from(dscp.0) % COUNT])
    }

    /// Whether all packets keep theirs.
    pub fn keeps_all(&self) -> bool {
        *self == Remarks::keeping()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::string::ToString;

    #[test]
    fn names_and_numbers_are_one_to_one_but_for_the_default() {
        for (name, number) in NAMES {
            let dscp: Dscp = name.parse().unwrap();
            assert_eq!(dscp.number(), *number);
            assert!(dscp.to_string() == *name || *name == "cs0", "{name}");
        }
        assert_eq!("EF".parse::<Dscp>(), Err(NoDscp));
        assert_eq!((Dscp::from_number(63).unwrap().to_string(), Dscp::from_number(64)), ("63".into(), None));
        assert_eq!(Dscp::of(0xbb), Dscp::EXPEDITED);
    }

    #[test]
    fn remarks_are_of_single_code_points_before_all_others() {
        let [le, ef] = ["le", "ef"].map(|name| name.parse::<Dscp>().unwrap());
        let washed = Remarks::to(Dscp::DEFAULT).with(Dscp::NQB, Dscp::NQB).with(ef, le);
        let got = [Dscp::NQB, ef, le, Dscp::DEFAULT].map(|dscp| washed.of(dscp));
        assert_eq!(got, [Dscp::NQB, le, Dscp::DEFAULT, Dscp::DEFAULT]);
        assert!(Remarks::keeping().keeps_all() && !washed.keeps_all());
        assert!((0..64).all(|n| Remarks::keeping().of(Dscp(n)) == Dscp(n)));
    }
}
