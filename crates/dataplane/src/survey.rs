//! What ports there are, and what a run would do with them, without touching any.

use crate::interface::{self, Interface, LinkLayer, LinkState, OFFLOADS};
use crate::{Error, QUEUES_MAX, guard, neighbours};
use serde::Serialize;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};

/// What the driver of an interface can do with XDP programs, as the kernel tells it (`linux/netdev.h`, Linux
/// 6.3 and later).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
pub struct DriverXdp {
    /// It runs programs, and hands frames to sockets.
    pub native: bool,
    /// Without copying them.
    pub zero_copy: bool,
}

/// An interface as a port.
#[derive(Clone, Debug, Serialize)]
pub struct PortSurvey {
    /// Its name.
    pub name: String,
    /// Its driver, as ethtool tells it.
    pub driver: Option<String>,
    /// Largest network packet in bytes.
    pub mtu: u32,
    /// Whether it is up and has a carrier.
    pub link: bool,
    /// Receive queues in use, and as many as the driver can have.
    pub queues: u32,
    /// See `queues`.
    pub queues_most: u32,
    /// Offloads that are on and would be switched off.
    pub offloads: Vec<&'static str>,
    /// What the driver can do with XDP; `None` where the kernel does not tell.
    pub xdp: Option<DriverXdp>,
    /// The mode that a run would take, or that it would try first; `None` if it refuses the port.
    pub mode: Option<String>,
    /// What a run would do, or why it would refuse, in words.
    pub plan: String,
}

/// The interfaces of this network namespace.
pub fn survey() -> Vec<PortSurvey> {
    interface::list().iter().filter_map(|name| Interface::find(name).ok()).map(|port| look(&port)).collect()
}

fn look(port: &Interface) -> PortSurvey {
    let offloads = OFFLOADS.iter().filter(|offload| port.feature(offload).unwrap_or(false));
    let offloads: Vec<&'static str> = offloads.map(|offload| offload.name).collect();
    let queues = port.receive_queues();
    let xdp = driver_xdp(port.index);
    let layer = port.link_layer();
    let layer = layer.and_then(|layer| neighbours::refuse_member(port).map(|()| layer));
    let layer = layer.and_then(|layer| guard::refuse_taken(port).map(|()| layer));
    let (mode, plan) = match layer {
        Err(error) => (None, format!("refuse it: {error}")),
        Ok(layer) => {
            let (mode, how) = match layer {
                LinkLayer::Bare(_) => {
                    ("AF_PACKET", "copies through a ring (AF_PACKET), as it has no Ethernet headers")
                }
                LinkLayer::Ethernet => way(xdp, queues),
            };
            (Some(mode.to_string()), plan(how, queues, &offloads))
        }
    };
    PortSurvey {
        name: port.name.clone(),
        driver: port.driver(),
        mtu: port.mtu().unwrap_or(0),
        link: port.link_state().is_ok_and(|state| state == LinkState::Up),
        queues,
        queues_most: port.most_receive_queues(),
        offloads,
        xdp,
        mode,
        plan,
    }
}

/// The mode that is taken or tried first, and how frames come then.
fn way(xdp: Option<DriverXdp>, queues: u32) -> (&'static str, &'static str) {
    match xdp {
        _ if queues > QUEUES_MAX => {
            ("AF_PACKET", "copies through a ring (AF_PACKET), as it has too many queues for AF_XDP")
        }
        Some(DriverXdp { zero_copy: true, .. }) => {
            ("AF_XDP, native", "frames without copies (AF_XDP, native, zero-copy)")
        }
        Some(DriverXdp { native: true, .. }) => ("AF_XDP, native", "frames with one copy (AF_XDP, native)"),
        Some(_) => ("AF_XDP, generic", "frames behind the driver (AF_XDP, generic)"),
        None => ("AF_XDP, native", "the first of AF_XDP native, AF_XDP generic and AF_PACKET that works"),
    }
}

fn plan(how: &str, queues: u32, offloads: &[&str]) -> String {
    let off = match offloads {
        [] => "no offload to switch off".to_string(),
        some => format!("switch off {}", some.join(", ")),
    };
    let sockets =
        if queues == 1 { "its receive queue".to_string() } else { format!("its {queues} receive queues") };
    format!("take {how} from {sockets}; {off}")
}

const HEADER: usize = 16;
const GENERIC: usize = 4;
const GENL_ID_CTRL: u16 = 0x10;
const CTRL_CMD_GETFAMILY: u8 = 3;
const CTRL_ATTR_FAMILY_ID: u16 = 1;
const CTRL_ATTR_FAMILY_NAME: u16 = 2;
const NETDEV_CMD_DEV_GET: u8 = 1;
const NETDEV_A_DEV_IFINDEX: u16 = 1;
const NETDEV_A_DEV_XDP_FEATURES: u16 = 3;
/// `NETDEV_XDP_ACT_BASIC`, `..._REDIRECT`, `..._XSK_ZEROCOPY`.
const ACT_NATIVE: u64 = 1 | 2;
const ACT_ZERO_COPY: u64 = 8;

/// Asks the kernel's family `netdev`.
fn driver_xdp(index: u32) -> Option<DriverXdp> {
    let family = ask(GENL_ID_CTRL, CTRL_CMD_GETFAMILY, CTRL_ATTR_FAMILY_NAME, b"netdev\0").ok()?;
    let family =
        attribute(&family, CTRL_ATTR_FAMILY_ID)?.get(..2)?.try_into().ok().map(u16::from_ne_bytes)?;
    let told = ask(family, NETDEV_CMD_DEV_GET, NETDEV_A_DEV_IFINDEX, &index.to_ne_bytes()).ok()?;
    let features =
        attribute(&told, NETDEV_A_DEV_XDP_FEATURES)?.get(..8)?.try_into().ok().map(u64::from_ne_bytes)?;
    Some(DriverXdp { native: features & ACT_NATIVE == ACT_NATIVE, zero_copy: features & ACT_ZERO_COPY != 0 })
}

/// Asks a family of generic netlink, with one attribute; the answer's attributes.
fn ask(family: u16, command: u8, kind: u16, value: &[u8]) -> Result<Vec<u8>, Error> {
    let failed = || Error::os("cannot ask the kernel about interfaces");
    // SAFETY: no pointers are involved.
    let raw =
        unsafe { libc::socket(libc::AF_NETLINK, libc::SOCK_RAW | libc::SOCK_CLOEXEC, libc::NETLINK_GENERIC) };
    if raw < 0 {
        return Err(failed());
    }
    // SAFETY: the descriptor was just opened and is owned by nobody else.
    let fd = unsafe { OwnedFd::from_raw_fd(raw) };
    let mut message = vec![0u8; HEADER];
    message.extend([command, 1, 0, 0]);
    message.extend((4 + value.len() as u16).to_ne_bytes());
    message.extend(kind.to_ne_bytes());
    message.extend(value);
    message.resize(message.len().next_multiple_of(4), 0);
    let len = message.len() as u32;
    message[0..4].copy_from_slice(&len.to_ne_bytes());
    message[4..6].copy_from_slice(&family.to_ne_bytes());
    message[6..8].copy_from_slice(&(libc::NLM_F_REQUEST as u16).to_ne_bytes());
    let mut answer = vec![0u8; 32 << 10];
    // SAFETY: the pointers and lengths describe both buffers.
    let len = unsafe {
        if libc::send(fd.as_raw_fd(), message.as_ptr().cast(), message.len(), 0) < 0 {
            return Err(failed());
        }
        libc::recv(fd.as_raw_fd(), answer.as_mut_ptr().cast(), answer.len(), 0)
    };
    answer.truncate(len.max(0) as usize);
    let is_error = answer.get(4..6) == Some(&(libc::NLMSG_ERROR as u16).to_ne_bytes());
    if is_error || answer.len() < HEADER + GENERIC {
        return Err(Error::Refused("the kernel does not tell".into()));
    }
    Ok(answer.split_off(HEADER + GENERIC))
}

/// The value of an attribute, of those that have their length, their kind and their value, filled up to four
/// bytes.
fn attribute(mut rest: &[u8], wanted: u16) -> Option<&[u8]> {
    loop {
        let half = |at: usize| Some(u16::from_ne_bytes(rest.get(at..at + 2)?.try_into().ok()?));
        let (len, kind) = (usize::from(half(0)?), half(2)?);
        if kind == wanted {
            return rest.get(4..len);
        }
        // A length below that of its own header would never end.
        rest = rest.get(len.max(4).next_multiple_of(4)..)?;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_said_what_would_be_done_with_a_port() {
        let xdp = |native, zero_copy| Some(DriverXdp { native, zero_copy });
        assert_eq!(way(xdp(true, true), 8).0, "AF_XDP, native");
        assert!(way(xdp(true, true), 8).1.contains("zero-copy"));
        assert!(way(xdp(true, false), 8).1.contains("one copy"));
        assert_eq!(way(xdp(false, false), 8).0, "AF_XDP, generic");
        assert_eq!(way(xdp(true, true), 129).0, "AF_PACKET");
        assert!(way(None, 1).1.contains("that works"));
        let told = plan("frames", 4, &["rx-vlan-offload"]);
        assert_eq!(told, "take frames from its 4 receive queues; switch off rx-vlan-offload");
    }

    #[test]
    fn attributes_that_are_cut_or_have_no_length_are_not_read() {
        let all = [8, 0, 1, 0, 7, 7, 7, 7, 6, 0, 3, 0, 9, 9, 0, 0];
        assert_eq!(attribute(&all, 3), Some(&[9, 9][..]));
        (0..14).for_each(|len| assert_eq!(attribute(&all[..len], 3), None, "cut to {len}"));
        assert_eq!(attribute(&[0; 12], 3), None);
    }
}
