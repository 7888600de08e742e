//! Whether the other end of a port leaves checksums to hardware that is not there.
//!
//! The sender at the other end of a veth pair may leave them open, as no wire follows. A frame that the
//! packet loop passes on is taken for one from a wire, and its receiver discards it: nothing works, and
//! nobody says why.

use weir_wire::frame::is_unfinished;

/// TCP and UDP packets that are looked at.
const LOOKS: u32 = 64;
/// So many without a checksum are no accident, as one right one in 65536 looks like that: a SYN and its first
/// repetition a second later.
const ENOUGH: u32 = 2;

/// Looks at the first packets of a port.
#[derive(Clone, Copy, Debug)]
pub struct ChecksumWatch {
    left: u32,
    unfinished: u32,
}

impl Default for ChecksumWatch {
    fn default() -> ChecksumWatch {
        ChecksumWatch { left: LOOKS, unfinished: 0 }
    }
}

impl ChecksumWatch {
    /// Whether it wants to see more.
    pub fn is_looking(&self) -> bool {
        self.left > 0
    }

    /// Looks at a frame. Returns whether enough have been seen without a checksum, once.
    pub fn look(&mut self, frame: &[u8]) -> bool {
        let Some(unfinished) = is_unfinished(frame).filter(|_| self.is_looking()) else {
            return false;
        };
        self.left -= 1;
        self.unfinished += u32::from(unfinished);
        let is_enough = self.unfinished >= ENOUGH;
        if is_enough {
            self.left = 0;
        }
        is_enough
    }
}

/// What to say of a port whose other end leaves checksums open.
pub fn warning(port: &str) -> String {
    format!(
        "{port}: packets arrive with unfinished checksums, and their receivers will discard them. Remedy: switch \
         checksum offload off at the other end, `ethtool -K DEV tx off` in its network namespace, or set \
         `ports.mode = \"af_packet\"`, which completes them"
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use etherparse::PacketBuilder;

    #[test]
    fn open_checksums_are_told_once_and_right_ones_never() {
        let mut right = Vec::new();
        let ethernet = PacketBuilder::ethernet2([1; 6], [2; 6]);
        ethernet.ipv4([10, 0, 0, 1], [10, 0, 0, 2], 64).udp(5000, 443).write(&mut right, b"abc").unwrap();
        let mut watch = ChecksumWatch::default();
        assert!(!(0..1000).any(|_| watch.look(&right)) && !watch.is_looking());
        let mut open = right.clone();
        // Addresses, protocol and length, as Linux leaves it.
        let sum: u32 = [0x0a00u32, 1, 0x0a00, 2, 17, 11].iter().sum();
        open[40..42].copy_from_slice(&(sum as u16).to_be_bytes());
        let mut watch = ChecksumWatch::default();
        let told: Vec<usize> = (0..1000).filter(|_| watch.look(&open)).collect();
        assert_eq!(told, [ENOUGH as usize - 1]);
        let mut watch = ChecksumWatch::default();
        assert!(!(0..1000).any(|_| watch.look(&[0; 60])) && watch.is_looking());
    }
}
