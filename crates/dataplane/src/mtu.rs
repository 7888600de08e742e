//! Lengths of frames.

use crate::Error;
use crate::interface::Interface;

/// Header of Ethernet.
pub(crate) const ETHERNET: u32 = 14;
/// A VLAN tag.
pub(crate) const VLAN_TAG: u32 = 4;
/// Ethernet header, two VLAN tags.
pub(crate) const LINK_OVERHEAD: u32 = ETHERNET + 2 * VLAN_TAG;
/// Largest MTU of a port.
pub(crate) const MTU_MAX: u32 = 9000;

/// Room for very large frames would be gigabytes.
pub(crate) fn check_mtus(ports: &[&Interface], mtus: &[u32]) -> Result<(), Error> {
    if let Some((port, mtu)) = ports.iter().zip(mtus).find(|(_, mtu)| **mtu > MTU_MAX) {
        return Err(Error::Refused(format!(
            "{}: its MTU is {mtu}, and at most {MTU_MAX} can be forwarded. Remedy: `ip link set {} mtu {MTU_MAX}`",
            port.name, port.name
        )));
    }
    Ok(())
}
