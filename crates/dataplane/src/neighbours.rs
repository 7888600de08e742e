//! Who else uses an interface: a bridge or bond above it, and the host with its addresses.

use crate::Error;
use crate::interface::Interface;
use std::collections::BTreeSet;
use std::ffi::CStr;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};

/// Length of a netlink message's header, and of what describes an interface behind it (rtnetlink(7)).
const HEADER: usize = 16;
const LINK: usize = 16;
/// Attributes of an interface (`if_link.h`): the interface that it sends through or that is its other end,
/// the one above, what it is, and the namespace of the first if that is another.
const IFLA_LINK: u16 = 5;
const IFLA_MASTER: u16 = 10;
const IFLA_LINKINFO: u16 = 18;
const IFLA_CARRIER_CHANGES: u16 = 35;
const IFLA_LINK_NETNSID: u16 = 37;
/// The name of a kind of interfaces, within `IFLA_LINKINFO`.
const IFLA_INFO_KIND: u16 = 1;
/// Kinds of attributes without the marks for nested ones.
const KIND: u16 = 0x3fff;

/// Refuses a port that belongs to another interface: that one would not get its frames any more, and would
/// send among those that are forwarded.
pub fn refuse_member(port: &Interface) -> Result<(), Error> {
    let Some(name) = master_named(relations(port.index)?.master) else { return Ok(()) };
    Err(Error::Refused(format!(
        "{}: it belongs to `{name}` (a bridge, a bond or the like), which would not get its frames any more. Remedy: \
         `ip link set dev {} nomaster`, or another port",
        port.name, port.name
    )))
}

/// The interface of this number, by its name.
pub fn master_named(index: Option<u32>) -> Option<String> {
    let master = Interface { name: format!("interface {}", index?), index: index? };
    Some(master.name_now().map_or(master.name, |name| name.to_string_lossy().into_owned()))
}

/// What to say of a port in generic XDP whose frames lose VLAN tags where the other end leaves these to its
/// device, which for a veth is the kernel: the program does not see them.
pub fn warn_of_lost_tags(port: &Interface) -> Option<String> {
    let is_veth = relations(port.index).is_ok_and(|relations| relations.kind.as_deref() == Some("veth"));
    is_veth.then(|| {
        format!(
            "{}: generic AF_XDP does not see VLAN tags that the other end of this veth keeps beside its frames, and they are \
             lost. Remedy: `ethtool -K DEV tx-vlan-offload off tx-vlan-stag-hw-insert off` at the other end, or mode = \
             \"xdp-native\" or \"af_packet\"",
            port.name
        )
    })
}

/// What to say of a port that carries addresses.
pub fn warn_of_addresses(port: &Interface) -> Option<String> {
    let addresses = addresses(port);
    (!addresses.is_empty()).then(|| {
        let list = addresses.iter().map(IpAddr::to_string).collect::<Vec<_>>().join(", ");
        unreachable(&port.name, "carries", &list)
    })
}

fn unreachable(name: &str, how: &str, addresses: &str) -> String {
    format!(
        "{name}: it {how} {addresses}, and this host does not see what arrives at a port while it is forwarded: \
         connections to and from these addresses break. Remedy: give them to another interface"
    )
}

/// What an interface has to do with others of its namespace.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Relations {
    /// Number of the interface that this one is a part of.
    pub master: Option<u32>,
    /// Number of the interface that it sends through, or that is the other end of its cable (veth).
    pub link: Option<u32>,
    /// What it is, such as `veth` or `bond`; the kernel does not say it of hardware.
    pub kind: Option<String>,
    /// How often its carrier came or went.
    pub carrier_changes: Option<u32>,
}

impl Relations {
    fn of(answer: &[u8]) -> Relations {
        let number = |kind| Some(u32::from_ne_bytes(attribute(answer, kind)?.try_into().ok()?));
        let is_elsewhere = attribute(answer, IFLA_LINK_NETNSID).is_some();
        let kind = attribute(answer, IFLA_LINKINFO).and_then(|info| within(info, IFLA_INFO_KIND));
        let kind = kind.and_then(|text| CStr::from_bytes_until_nul(text).ok());
        Relations {
            master: number(IFLA_MASTER),
            link: number(IFLA_LINK).filter(|_| !is_elsewhere),
            kind: kind.map(|text| text.to_string_lossy().into_owned()),
            carrier_changes: number(IFLA_CARRIER_CHANGES),
        }
    }
}

/// Opens a socket to ask the kernel about interfaces; `groups` is what it tells unasked.
fn netlink(groups: u32) -> Option<OwnedFd> {
    let kind = libc::SOCK_RAW | libc::SOCK_CLOEXEC;
    // SAFETY: no pointers are involved.
    let raw = unsafe { libc::socket(libc::AF_NETLINK, kind, libc::NETLINK_ROUTE) };
    if raw < 0 {
        return None;
    }
    // SAFETY: the descriptor was just opened and is owned by nobody else.
    let fd = unsafe { OwnedFd::from_raw_fd(raw) };
    // SAFETY: all-zero is a valid value of this plain struct.
    let mut address: libc::sockaddr_nl = unsafe { std::mem::zeroed() };
    address.nl_family = libc::AF_NETLINK as u16;
    address.nl_groups = groups;
    // SAFETY: the pointer and length describe `address`.
    let code = unsafe {
        let pointer: *const libc::sockaddr_nl = &address;
        libc::bind(raw, pointer.cast(), size_of_val(&address) as libc::socklen_t)
    };
    (code == 0).then_some(fd)
}

/// What an interface has to do with others.
pub fn relations(index: u32) -> Result<Relations, Error> {
    let failed = || Error::os("cannot ask the kernel about interfaces");
    let fd = netlink(0).ok_or_else(failed)?;
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
    Ok(Relations::of(&answer[..len as usize]))
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

/// An attribute of an answer about an interface.
fn attribute(answer: &[u8], wanted: u16) -> Option<&[u8]> {
    let kind = u16::from_ne_bytes(answer.get(4..6)?.try_into().ok()?);
    if kind != libc::RTM_NEWLINK {
        return None;
    }
    within(answer.get(HEADER + LINK..)?, wanted)
}

/// One of several attributes: each has its length, its kind and its value, filled up to four bytes.
fn within(mut rest: &[u8], wanted: u16) -> Option<&[u8]> {
    let half = |at: &[u8]| Some(u16::from_ne_bytes(at.get(..2)?.try_into().ok()?));
    loop {
        let (len, kind) = (usize::from(half(rest)?), half(rest.get(2..)?)? & KIND);
        if kind == wanted {
            return rest.get(4..len);
        }
        // A length below that of its own header would never end.
        rest = rest.get(len.max(4).next_multiple_of(4)..)?;
    }
}

/// Length of what describes an address behind the header of a message (`struct ifaddrmsg`).
const ADDRESS: usize = 8;
/// Attributes of an address (`if_addr.h`): of the other end where there is one, and the own.
const IFA_ADDRESS: u16 = 1;
const IFA_LOCAL: u16 = 2;
/// What the kernel tells unasked: addresses that come and go (`RTMGRP_IPV4_IFADDR`, `RTMGRP_IPV6_IFADDR`).
const ADDRESS_GROUPS: u32 = 0x10 | 0x100;
/// Messages taken in one look: whoever changes thousands of addresses does not hold up packets.
const MESSAGES_MAX: usize = 16;

/// Addresses of ports that are remembered; what a host with more is given beyond them is told each time.
const KNOWN_MAX: usize = 1024;

/// Notices addresses that are given to ports while they are open. It costs one system call a look.
pub struct AddressWatch {
    kernel: Option<OwnedFd>,
    /// Those that were told or were there before: the kernel tells of one again when it has proved unique,
    /// and when its lifetime changes.
    known: BTreeSet<(u32, IpAddr)>,
}

impl AddressWatch {
    /// From now on. Where the kernel does not tell, nothing is noticed.
    pub fn new(ports: &[Interface]) -> AddressWatch {
        let kernel = netlink(ADDRESS_GROUPS);
        let of =
            |port: &Interface| addresses(port).into_iter().map(|one| (port.index, one)).collect::<Vec<_>>();
        AddressWatch { kernel, known: ports.iter().flat_map(of).collect() }
    }

    /// What to say of addresses that ports were given since the last look.
    pub fn look<'a>(&mut self, ports: impl Iterator<Item = &'a Interface> + Clone) -> Vec<String> {
        let Some(fd) = &self.kernel else { return Vec::new() };
        let mut said = Vec::new();
        let mut buffer = [0u8; 8192];
        for _ in 0..MESSAGES_MAX {
            // SAFETY: the pointer and length describe the buffer.
            let len = unsafe {
                let flags = libc::MSG_DONTWAIT;
                libc::recv(fd.as_raw_fd(), buffer.as_mut_ptr().cast(), buffer.len(), flags)
            };
            if len <= 0 {
                break;
            }
            for (is_new, index, address) in changes(&buffer[..len as usize]) {
                let Some(port) = ports.clone().find(|port| port.index == index) else { continue };
                let one = (index, address);
                if !is_new {
                    self.known.remove(&one);
                } else if !self.known.contains(&one) {
                    said.push(unreachable(&port.name, "was given", &address.to_string()));
                    if self.known.len() < KNOWN_MAX {
                        self.known.insert(one);
                    }
                }
            }
        }
        said
    }
}

/// Addresses that interfaces were given (true) or lost, of messages of the kernel; link-local IPv6, which
/// every interface gives itself, is left out.
fn changes(mut messages: &[u8]) -> Vec<(bool, u32, IpAddr)> {
    let mut found = Vec::new();
    while let Some(len) = messages.first_chunk().map(|len| u32::from_ne_bytes(*len) as usize) {
        let Some(message) = messages.get(..len).filter(|message| message.len() >= HEADER) else { break };
        found.extend(change(message));
        let Some(rest) = messages.get(len.next_multiple_of(4)..) else { break };
        messages = rest;
    }
    found
}

fn change(message: &[u8]) -> Option<(bool, u32, IpAddr)> {
    let is_new = match u16::from_ne_bytes(message.get(4..6)?.try_into().ok()?) {
        libc::RTM_NEWADDR => true,
        libc::RTM_DELADDR => false,
        _ => return None,
    };
    let index = u32::from_ne_bytes(message.get(HEADER + 4..HEADER + 8)?.try_into().ok()?);
    let attributes = message.get(HEADER + ADDRESS..)?;
    let bytes = within(attributes, IFA_LOCAL).or_else(|| within(attributes, IFA_ADDRESS))?;
    let address: IpAddr = match bytes.len() {
        4 => <[u8; 4]>::try_from(bytes).ok()?.into(),
        16 => <[u8; 16]>::try_from(bytes).ok()?.into(),
        _ => return None,
    };
    let is_own = matches!(address, IpAddr::V6(v6) if v6.is_unicast_link_local());
    (!is_own).then_some((is_new, index, address))
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

    /// An attribute as the kernel writes it.
    fn put(message: &mut Vec<u8>, kind: u16, value: &[u8]) {
        message.extend((4 + value.len() as u16).to_ne_bytes());
        message.extend(kind.to_ne_bytes());
        message.extend(value);
        message.resize(message.len().next_multiple_of(4), 0);
    }

    #[test]
    fn attributes_are_found_behind_others_and_broken_answers_end() {
        let mut answer = question(7).to_vec();
        answer[4..6].copy_from_slice(&libc::RTM_NEWLINK.to_ne_bytes());
        put(&mut answer, 3, b"ab\0");
        put(&mut answer, IFLA_LINK, &9u32.to_ne_bytes());
        let mut info = Vec::new();
        put(&mut info, 2, &[1; 5]);
        put(&mut info, IFLA_INFO_KIND, b"veth\0");
        // Nested ones may be marked as such.
        put(&mut answer, IFLA_LINKINFO | 0x8000, &info);
        let before = answer.len();
        put(&mut answer, IFLA_MASTER, &42u32.to_ne_bytes());
        let whole =
            Relations { master: Some(42), link: Some(9), kind: Some("veth".into()), carrier_changes: None };
        assert_eq!(Relations::of(&answer), whole);
        assert_eq!(Relations::of(&answer[..before]).master, None);
        for len in 0..answer.len() {
            assert_eq!(Relations::of(&answer[..len]).master, None, "cut to {len}");
        }
        put(&mut answer, IFLA_LINK_NETNSID, &0u32.to_ne_bytes());
        assert_eq!(Relations::of(&answer).link, None, "its other end is in another namespace");
        answer[HEADER + LINK] = 0;
        assert_eq!(attribute(&answer, 99), None, "an attribute without length");
    }

    #[test]
    fn addresses_are_read_from_what_the_kernel_tells() {
        let message = |kind: u16, index: u32, attributes: &[(u16, &[u8])]| {
            let mut message = vec![0; HEADER + ADDRESS];
            message[4..6].copy_from_slice(&kind.to_ne_bytes());
            message[HEADER + 4..HEADER + 8].copy_from_slice(&index.to_ne_bytes());
            attributes.iter().for_each(|(kind, value)| put(&mut message, *kind, value));
            let len = message.len() as u32;
            message[..4].copy_from_slice(&len.to_ne_bytes());
            message
        };
        let v6: [u8; 16] = Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 1).octets();
        let link_local = Ipv6Addr::new(0xfe80, 0, 0, 0, 0, 0, 0, 1).octets();
        let all = [
            message(libc::RTM_NEWADDR, 3, &[(IFA_ADDRESS, &[192, 0, 2, 9]), (IFA_LOCAL, &[192, 0, 2, 1])]),
            message(libc::RTM_DELADDR, 3, &[(IFA_LOCAL, &[192, 0, 2, 2])]),
            message(libc::RTM_NEWADDR, 4, &[(IFA_ADDRESS, &link_local)]),
            message(libc::RTM_NEWADDR, 4, &[(IFA_ADDRESS, &v6)]),
        ]
        .concat();
        let found = changes(&all);
        let address = |text: &str| text.parse::<IpAddr>().unwrap();
        let want = [(true, 3, "192.0.2.1"), (false, 3, "192.0.2.2"), (true, 4, "2001:db8::1")];
        assert_eq!(found, want.map(|(is_new, index, text)| (is_new, index, address(text))));
        (0..all.len()).for_each(|len| assert!(changes(&all[..len]).len() < 3));
        assert!(changes(&[0; 64]).is_empty(), "a message without length");
    }
}
