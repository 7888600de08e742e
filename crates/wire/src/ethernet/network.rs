//! Where the network header of a frame is, behind VLAN tags.

use super::HEADER_LEN;
use crate::bytes::be16;
use crate::vlan;

/// Where the network header of a frame begins, and which type field stands before it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Network {
    /// Bytes in front of it: 14, and 4 for each VLAN tag.
    pub offset: usize,
    /// What it is by the last type field. That of a VLAN where there are more than [`vlan::TAGS_MAX`] tags.
    pub ethertype: u16,
}

/// Why a frame has no network header.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum NoNetwork {
    /// It is shorter than an Ethernet header.
    Runt,
    /// It ends within the VLAN tag that begins at this offset.
    CutTag(usize),
}

/// Finds the network header of a frame, behind up to [`vlan::TAGS_MAX`] VLAN tags.
///
/// # Errors
///
/// If the frame ends before.
#[inline(always)]
pub fn network(frame: &[u8]) -> Result<Network, NoNetwork> {
    let head: &[u8; HEADER_LEN] = frame.first_chunk().ok_or(NoNetwork::Runt)?;
    let mut network = Network { offset: HEADER_LEN, ethertype: u16::from_be_bytes([head[12], head[13]]) };
    for _ in 0..vlan::TAGS_MAX {
        if !vlan::is_tag(network.ethertype) {
            break;
        }
        let offset = network.offset + vlan::TAG_LEN;
        let ethertype = be16(frame, offset - 2).ok_or(NoNetwork::CutTag(network.offset))?;
        network = Network { offset, ethertype };
    }
    Ok(network)
}
