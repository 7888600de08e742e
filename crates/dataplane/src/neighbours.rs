//! Who else uses an interface: a bridge or bond above it, and the host with its addresses.

use crate::Error;
use crate::interface::Interface;
use std::ffi::CStr;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};

/// Length of a netlink message's header, and of what describes an interface behind it (rtnetlink(7)).
const HEADER: usize = 16;
const LINK: usize = 16;
/// Attribute with the number of the interface above (`if_link.h`).
const IFLA_MASTER: u16 = 10;

/// Refuses a port that belongs to another interface: that one would not get its frames any more, and would
/// send among those that are forwarded.
pub fn refuse_member(port: &Interface) -> Result<(), Error> {
    let (Some(_), Some(name)) = (master(port.index)?, master_of(port)) else { return Ok(()) };
    Err(Error::Refused(format!(
        "{}: it belongs to `{name}` (a bridge, a bond or the like), which would not get its frames any more. Remedy: \
         `ip link set dev {} nomaster`, or another port",
        port.name, port.name
    )))
}

/// The interface that this one is a part of, by its name, if it is one's and the kernel tells.
pub fn master_of(port: &Interface) -> Option<String> {
    let index = master(port.index).ok()??;
    let master = Interface { name: format!("interface {index}"), index };
    Some(master.name_now().map_or(master.name.clone(), |name| name.to_string_lossy().into_owned()))
}

/// What to say of a port that carries addresses.
pub fn warn_of_addresses(port: &Interface) -> Option<String> {
    let addresses = addresses(port);
    (!addresses.is_empty()).then(|| {
        format!(
            "{}: it carries {}, and this host does not see what arrives at a port while it is forwarded: connections \
             to and from these addresses break. Remedy: give them to another interface",
            port.name,
            addresses.iter().map(IpAddr::to_string).collect::<Vec<_>>().join(", ")
        )
    })
}

/// Number of the interface that this one is a part of.
fn master(index: u32) -> Result<Option<u32>, Error> {
    let failed = || Error::os("cannot ask the kernel about interfaces");
    // SAFETY: no pointers are involved.
    let raw =
        unsafe { libc::socket(libc::AF_NETLINK, libc::SOCK_RAW | libc::SOCK_CLOEXEC, libc::NETLINK_ROUTE) };
    if raw < 0 {
        return Err(failed());
    }
    // SAFETY: the descriptor was just opened and is owned by nobody else.
    let fd = unsafe { OwnedFd::from_raw_fd(raw) };
    let question = question(index);
    let mut answer = vec![0u8; 64 << 10];
    // SAFETY: the pointers and lengths describe both buffers.
    let len = unsafe {
        if libc::send(fd.as_raw_fd(), question.as_ptr().cast(), question.len(), 0) < 0 {
            return Err(failed());
        }
        libc::recv(fd.as_raw_fd(), answer.as_mut_ptr().cast(), answer.len(), 0)
    };
    if len < 0 {
        return Err(failed());
    }
    Ok(attribute(&answer[..len as usize], IFLA_MASTER))
}

/// Asks for all about one interface.
fn question(index: u32) -> [u8; HEADER + LINK] {
    let mut message = [0; HEADER + LINK];
    message[0..4].copy_from_slice(&((HEADER + LINK) as u32).to_ne_bytes());
    message[4..6].copy_from_slice(&libc::RTM_GETLINK.to_ne_bytes());
    message[6..8].copy_from_slice(&(libc::NLM_F_REQUEST as u16).to_ne_bytes());
    message[HEADER + 4..HEADER + 8].copy_from_slice(&index.to_ne_bytes());
    message
}

/// A number among the attributes of an answer: each has its length, its kind and its value, filled up to four
/// bytes.
fn attribute(answer: &[u8], wanted: u16) -> Option<u32> {
    let half = |at: &[u8]| Some(u16::from_ne_bytes(at.get(..2)?.try_into().ok()?));
    if half(answer.get(4..)?)? != libc::RTM_NEWLINK {
        return None;
    }
    let mut rest = answer.get(HEADER + LINK..)?;
    loop {
        let (len, kind) = (usize::from(half(rest)?), half(rest.get(2..)?)?);
        if kind == wanted {
            return Some(u32::from_ne_bytes(rest.get(4..8)?.try_into().ok()?));
        }
        // A length below that of its own header would never end.
        rest = rest.get(len.max(4).next_multiple_of(4)..)?;
    }
}

/// Addresses of an interface, but for those that every interface gives itself (link-local IPv6).
pub fn addresses(interface: &Interface) -> Vec<IpAddr> {
    let Some(name) = interface.name_now() else { return Vec::new() };
    let (mut all, mut found) = (std::ptr::null_mut(), Vec::new());
    // SAFETY: the list is read up to its end and freed once; an address has the type that its family says.
    unsafe {
        if libc::getifaddrs(&mut all) != 0 {
            return Vec::new();
        }
        let mut at: *const libc::ifaddrs = all;
        while let Some(entry) = at.as_ref() {
            if !entry.ifa_addr.is_null() && CStr::from_ptr(entry.ifa_name) == name.as_c_str() {
                found.extend(address(entry.ifa_addr));
            }
            at = entry.ifa_next;
        }
        libc::freeifaddrs(all);
    }
    found
}

/// An IP address.
///
/// # Safety
/// The pointer must be to a socket address of the type that its family says.
unsafe fn address(pointer: *const libc::sockaddr) -> Option<IpAddr> {
    // SAFETY: as the caller promises.
    unsafe {
        match i32::from((*pointer).sa_family) {
            libc::AF_INET => {
                let ip = (*pointer.cast::<libc::sockaddr_in>()).sin_addr.s_addr;
                Some(Ipv4Addr::from(u32::from_be(ip)).into())
            }
            libc::AF_INET6 => {
                let ip = Ipv6Addr::from((*pointer.cast::<libc::sockaddr_in6>()).sin6_addr.s6_addr);
                (!ip.is_unicast_link_local()).then_some(ip.into())
            }
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_attribute_is_found_behind_others_and_broken_answers_end() {
        let mut answer = question(7).to_vec();
        answer[4..6].copy_from_slice(&libc::RTM_NEWLINK.to_ne_bytes());
        // A name of three bytes, filled up, then the number.
        for half in [7u16, 3] {
            answer.extend(half.to_ne_bytes());
        }
        answer.extend(*b"ab\0\0");
        for half in [8u16, IFLA_MASTER] {
            answer.extend(half.to_ne_bytes());
        }
        answer.extend(42u32.to_ne_bytes());
        assert_eq!(attribute(&answer, IFLA_MASTER), Some(42));
        assert_eq!(attribute(&answer, 99), None);
        for len in 0..answer.len() {
            assert_eq!(attribute(&answer[..len], IFLA_MASTER), None, "cut to {len}");
        }
        answer[HEADER + LINK] = 0;
        assert_eq!(attribute(&answer, 99), None, "an attribute without length");
    }
}
