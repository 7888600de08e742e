//! Names of queueing disciplines and classes.

use std::fmt;

/// The name of a queueing discipline (`10:`) or class (`1:10`): two hexadecimal numbers of 16 bits.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Handle(pub u32);

impl Handle {
    /// None: the default of the kernel has this handle.
    pub const NONE: Handle = Handle(0);
    /// The parent of the root discipline (`TC_H_ROOT`).
    pub const ROOT: Handle = Handle(u32::MAX);
    /// The parent of ingress and clsact (`TC_H_INGRESS`, `TC_H_CLSACT`).
    pub const INGRESS: Handle = Handle(0xffff_fff1);

    /// `major:minor`.
    pub const fn new(major: u16, minor: u16) -> Handle {
        Handle((major as u32) << 16 | minor as u32)
    }

    /// The discipline.
    pub const fn major(self) -> u16 {
        (self.0 >> 16) as u16
    }

    /// The class of it; zero is the discipline itself.
    pub const fn minor(self) -> u16 {
        self.0 as u16
    }

    /// The discipline that a class belongs to.
    pub const fn discipline(self) -> Handle {
        Handle(self.0 & 0xffff_0000)
    }
}

impl fmt::Display for Handle {
    /// As `tc` writes it.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Handle::ROOT => f.write_str("root"),
            Handle::INGRESS => f.write_str("ingress"),
            _ if self.minor() == 0 => write!(f, "{:x}:", self.major()),
            _ if self.major() == 0 => write!(f, ":{:x}", self.minor()),
            _ => write!(f, "{:x}:{:x}", self.major(), self.minor()),
        }
    }
}

impl fmt::Debug for Handle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn handles_are_written_as_tc_does() {
        let all = [
            Handle::new(16, 0),
            Handle::new(1, 0x1a),
            Handle(3),
            Handle::ROOT,
            Handle::INGRESS,
            Handle::NONE,
        ];
        let words: Vec<String> = all.iter().map(Handle::to_string).collect();
        assert_eq!(words, ["10:", "1:1a", ":3", "root", "ingress", "0:"]);
        assert_eq!(Handle::new(1, 0x1a).discipline(), Handle::new(1, 0));
    }
}
