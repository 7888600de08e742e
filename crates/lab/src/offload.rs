//! Offloads of an interface, set with the `ethtool` ioctls.

use crate::error::{Error, Result};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};

/// `struct ethtool_value` of linux/ethtool.h.
#[repr(C)]
struct EthtoolValue {
    cmd: u32,
    data: u32,
}

/// `struct ifreq` with its union as the pointer that SIOCETHTOOL takes, padded to the size of the union.
#[repr(C)]
struct EthtoolRequest {
    name: [u8; libc::IFNAMSIZ],
    data: *mut EthtoolValue,
    pad: [u8; 16],
}

const SIOCETHTOOL: libc::Ioctl = 0x8946;
// Without checksums and scatter-gather the kernel also drops what depends on them, such as segmentation of
// UDP. Segmentation of rare kinds (tunnels, SCTP, AccECN) keeps its flag, but has nothing to work on.

/// Linux calls these "legacy" commands and keeps them: each switches all features of its kind.
const SET_RX_CHECKSUM: u32 = 0x15;
const SET_TX_CHECKSUM: u32 = 0x17;
const SET_SCATTER_GATHER: u32 = 0x19;
const SET_TSO: u32 = 0x1f;
const SET_GSO: u32 = 0x24;
const GET_FLAGS: u32 = 0x25;
const SET_FLAGS: u32 = 0x26;
const SET_GRO: u32 = 0x2c;
const FLAG_LRO: u32 = 1 << 15;

/// Switches checksum and segmentation offloads of an interface of the current namespace off; with
/// `keep_gro`, received packets may still be merged.
pub(crate) fn disable(interface: &str, keep_gro: bool) -> Result<()> {
    let socket = control_socket()?;
    // Segmentation depends on checksums and scatter-gather: what depends goes first.
    for cmd in [SET_TSO, SET_GSO, SET_SCATTER_GATHER, SET_TX_CHECKSUM, SET_RX_CHECKSUM] {
        call(&socket, interface, cmd, 0)?;
    }
    call(&socket, interface, SET_GRO, u32::from(keep_gro))?;
    let flags = call(&socket, interface, GET_FLAGS, 0)?;
    if flags & FLAG_LRO != 0 {
        call(&socket, interface, SET_FLAGS, flags & !FLAG_LRO)?;
    }
    Ok(())
}

fn control_socket() -> Result<OwnedFd> {
    // SAFETY: plain integer arguments; the result is checked before use.
    let fd = unsafe { libc::socket(libc::AF_INET, libc::SOCK_DGRAM | libc::SOCK_CLOEXEC, 0) };
    if fd < 0 {
        return Err(Error::last("open a socket for ethtool"));
    }
    // SAFETY: `fd` was just opened and has no other owner.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

fn call(socket: &OwnedFd, interface: &str, cmd: u32, data: u32) -> Result<u32> {
    let mut value = EthtoolValue { cmd, data };
    let mut request = EthtoolRequest { name: [0; libc::IFNAMSIZ], data: &raw mut value, pad: [0; 16] };
    if interface.len() >= libc::IFNAMSIZ {
        return Err(Error::invalid(
            format!("interface name `{interface}` is too long"),
            "use at most 15 bytes",
        ));
    }
    request.name[..interface.len()].copy_from_slice(interface.as_bytes());
    // SAFETY: `request` is laid out as `struct ifreq` (name, then a union of 24 bytes that begins with the
    // pointer), and `value` lives longer than the call.
    let result = unsafe { libc::ioctl(socket.as_raw_fd(), SIOCETHTOOL, &raw mut request) };
    if result < 0 {
        return Err(Error::last(format!("set offload {cmd:#x} of `{interface}`")));
    }
    Ok(value.data)
}
