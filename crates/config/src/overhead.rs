//! What a link adds to IP packets, in the words of tc-cake(8), so that what is known of a line for CAKE can
//! be written here as it is.

use crate::errors::{Wrong, quoted};
use crate::near::nearest;
use crate::schema::{Scalar, wrong_type};
use crate::tree::Node;
use std::fmt;
use weir_units::Bytes;

/// How a link cuts what it sends.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Framing {
    /// Not at all.
    None,
    /// Into ATM cells of 53 bytes that carry 48 each (ADSL).
    Atm,
    /// PTM adds a byte to 64 (VDSL2; IEEE 802.3 section 61.3, 64b/65b).
    Ptm,
}

impl Framing {
    fn word(self) -> &'static str {
        match self {
            Framing::None => "noatm",
            Framing::Atm => "atm",
            Framing::Ptm => "ptm",
        }
    }
}

/// What counts for an IP packet on a link.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Overhead {
    /// Bytes that are added to the IP packet; negative if the link leaves some out.
    bytes: i32,
    /// The least that a packet counts, overhead included.
    mpu: u32,
    framing: Framing,
}

/// Range of the added bytes, and of the smallest packet, as CAKE has it.
const BYTES: std::ops::RangeInclusive<i32> = -64..=256;
const MPU: std::ops::RangeInclusive<i32> = 0..=256;

/// A technology in a word: what it adds, the smallest packet, framing.
const TECHNOLOGIES: [(&str, Overhead); 13] = {
    const fn of(bytes: i32, mpu: u32, framing: Framing) -> Overhead {
        Overhead { bytes, mpu, framing }
    }
    [
        ("conservative", of(48, 0, Framing::Atm)),
        ("ethernet", of(38, 84, Framing::None)),
        ("docsis", of(18, 64, Framing::None)),
        ("pppoe-ptm", of(30, 0, Framing::Ptm)),
        ("bridged-ptm", of(22, 0, Framing::Ptm)),
        ("pppoa-vcmux", of(10, 0, Framing::Atm)),
        ("pppoa-llc", of(14, 0, Framing::Atm)),
        ("pppoe-vcmux", of(32, 0, Framing::Atm)),
        ("pppoe-llcsnap", of(40, 0, Framing::Atm)),
        ("bridged-vcmux", of(24, 0, Framing::Atm)),
        ("bridged-llcsnap", of(32, 0, Framing::Atm)),
        ("ipoa-vcmux", of(8, 0, Framing::Atm)),
        ("ipoa-llcsnap", of(16, 0, Framing::Atm)),
    ]
};
/// Words that change what the others say.
const CHANGES: [&str; 6] = ["overhead", "mpu", "atm", "ptm", "noatm", "ether-vlan"];
/// A VLAN tag.
const TAG: i32 = 4;

impl Overhead {
    /// What an IP packet of so many bytes counts.
    #[inline]
    pub fn size(self, ip: u32) -> Bytes {
        let with = (i64::from(ip) + i64::from(self.bytes)).max(i64::from(self.mpu)).max(1) as u64;
        Bytes::new(match self.framing {
            Framing::None => with,
            Framing::Atm => with.div_ceil(48) * 53,
            Framing::Ptm => with + with.div_ceil(64),
        })
    }

    fn parse(text: &str) -> Result<Overhead, Wrong> {
        let mut found = Overhead { bytes: 0, mpu: 0, framing: Framing::None };
        let mut technology: Option<&str> = None;
        let mut words = text.split_whitespace();
        let mut any = false;
        while let Some(word) = words.next() {
            any = true;
            if let Some((name, of)) = TECHNOLOGIES.iter().find(|(name, _)| *name == word) {
                if let Some(first) = technology {
                    let problem = format!("names two technologies, {first} and {name}");
                    return Err(Wrong::new(problem, "keep the one that the link has"));
                }
                technology = Some(name);
                found.bytes += of.bytes;
                found.mpu = if of.mpu > 0 { of.mpu } else { found.mpu };
                found.framing = of.framing;
                continue;
            }
            match word {
                "overhead" => found.bytes = number(word, words.next(), BYTES)?,
                "mpu" => found.mpu = number(word, words.next(), MPU)? as u32,
                "atm" => found.framing = Framing::Atm,
                "ptm" => found.framing = Framing::Ptm,
                "noatm" => found.framing = Framing::None,
                "ether-vlan" => found.bytes += TAG,
                "raw" => {
                    let problem = "\"raw\" counts what the interface tells and nothing else";
                    return Err(Wrong::new(problem, "leave `overhead` out and say accounting = \"frame\""));
                }
                _ => return Err(unknown(word)),
            }
        }
        if !any {
            return Err(Wrong::new("is empty", format!("write {}", Self::kind())));
        }
        if !BYTES.contains(&found.bytes) {
            let problem = format!("{} comes to {} bytes", quoted(text), found.bytes);
            return Err(Wrong::new(problem, format!("stay in {} .. {}", BYTES.start(), BYTES.end())));
        }
        Ok(found)
    }
}

fn number(word: &str, text: Option<&str>, range: std::ops::RangeInclusive<i32>) -> Result<i32, Wrong> {
    let (least, most) = (range.start(), range.end());
    let remedy = format!("write a number in {least} .. {most} behind it, such as \"{word} 40\"");
    let Some(text) = text else { return Err(Wrong::new(format!("`{word}` has no number"), remedy)) };
    match text.parse::<i32>() {
        Ok(number) if range.contains(&number) => Ok(number),
        Ok(_) => Err(Wrong::new(format!("`{word} {text}` is out of range"), remedy)),
        Err(_) => Err(Wrong::new(format!("`{word}` has {} for a number", quoted(text)), remedy)),
    }
}

fn unknown(word: &str) -> Wrong {
    let words = || TECHNOLOGIES.iter().map(|(name, _)| *name).chain(CHANGES);
    let problem = format!("{} is none of the words of tc-cake(8) for overheads", quoted(word));
    let remedy = match nearest(word, words()) {
        Some(name) => format!("did you mean {name}?"),
        None => format!("they are {}", words().collect::<Vec<_>>().join(", ")),
    };
    Wrong::new(problem, remedy)
}

impl fmt::Display for Overhead {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "overhead {}", self.bytes)?;
        if self.mpu > 0 {
            write!(f, " mpu {}", self.mpu)?;
        }
        write!(f, " {}", self.framing.word())
    }
}

impl Scalar for Overhead {
    fn kind() -> String {
        "the words of tc-cake(8), such as \"pppoe-ptm ether-vlan\" or \"overhead 44 mpu 84 atm\"".to_string()
    }
    fn read(node: &Node) -> Result<Self, Wrong> {
        match node {
            Node::Text(text) => Overhead::parse(text),
            // A number alone can mean but one thing.
            Node::Int(bytes) => Overhead::parse(&format!("overhead {bytes}")),
            _ => Err(wrong_type::<Self>(node)),
        }
    }
    fn show(&self) -> String {
        self.to_string()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sizes(text: &str, packets: [u32; 4]) -> [u64; 4] {
        let overhead = Overhead::parse(text).unwrap();
        assert_eq!(Overhead::parse(&overhead.to_string()).unwrap(), overhead, "{text} reads back");
        packets.map(|ip| overhead.size(ip).get())
    }

    #[test]
    fn packets_count_as_cake_counts_them() {
        // tc-cake(8), "Overhead compensation parameters", and cake_calc_overhead of the kernel: the overhead,
        // then the least, then the framing.
        let packets = [40, 52, 576, 1500];
        assert_eq!(sizes("conservative", packets), [106, 159, 689, 1749], "48 bytes in cells of 48");
        assert_eq!(sizes("pppoe-llcsnap", packets), [106, 106, 689, 1749]);
        assert_eq!(sizes("ethernet", packets), [84, 90, 614, 1538]);
        assert_eq!(sizes("ethernet ether-vlan", packets), [84, 94, 618, 1542]);
        assert_eq!(sizes("docsis", packets), [64, 70, 594, 1518]);
        assert_eq!(sizes("pppoe-ptm", packets), [72, 84, 616, 1554]);
        assert_eq!(sizes("bridged-ptm ether-vlan", packets), [68, 80, 612, 1550]);
        assert_eq!(sizes("overhead 44 mpu 84 atm", packets), [106, 106, 689, 1749]);
        assert_eq!(sizes("overhead -20", packets), [20, 32, 556, 1480]);
        assert_eq!(sizes("docsis overhead 0 mpu 0", packets), [40, 52, 576, 1500]);
        assert_eq!(sizes("conservative noatm", packets), [88, 100, 624, 1548]);
        assert_eq!(sizes("mpu 84 overhead 4 pppoe-llcsnap", packets), [106, 106, 689, 1749]);
        assert_eq!(sizes("ptm", [63, 64, 65, 128]), [64, 65, 67, 130]);
        assert_eq!(sizes("overhead -64", [20, 21, 64, 65]), [1, 1, 1, 1], "no packet counts nothing");
    }

    #[test]
    fn what_is_no_overhead_is_told_with_a_remedy() {
        for (text, problem, remedy) in [
            ("", "is empty", "write the words of tc-cake(8)"),
            ("pppoe-ptn", "\"pppoe-ptn\" is none of the words", "did you mean pppoe-ptm?"),
            ("wireless", "none of the words", "they are conservative, ethernet, docsis"),
            ("docsis pppoe-ptm", "names two technologies, docsis and pppoe-ptm", "keep the one"),
            ("overhead", "`overhead` has no number", "-64 .. 256"),
            ("overhead x", "`overhead` has \"x\" for a number", "such as \"overhead 40\""),
            ("overhead 257", "`overhead 257` is out of range", "-64 .. 256"),
            ("mpu -1", "`mpu -1` is out of range", "0 .. 256"),
            ("overhead 256 ether-vlan", "comes to 260 bytes", "stay in -64 .. 256"),
            ("raw", "counts what the interface tells", "accounting = \"frame\""),
        ] {
            let wrong = Overhead::parse(text).unwrap_err();
            assert!(wrong.problem.contains(problem), "{text}: {}", wrong.problem);
            assert!(wrong.remedy.contains(remedy), "{text}: {}", wrong.remedy);
        }
    }
}
