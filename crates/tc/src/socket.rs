//! Asking the kernel, and listening to what it tells.

use crate::attribute::{Value, split};
use crate::message::{Action, DecodeError, HEADER, Message, Subject};
use netlink_packet_core::{
    NLM_F_ACK, NLM_F_CREATE, NLM_F_DUMP, NLM_F_DUMP_INTR, NLM_F_EXCL, NLM_F_REPLACE, NLM_F_REQUEST,
    NetlinkBuffer,
};
use netlink_sys::protocols::NETLINK_ROUTE;
use netlink_sys::{Socket, SocketAddr};
use std::io;

/// Groups of notifications: interfaces, and disciplines with their classes (`RTNLGRP_LINK`, `RTNLGRP_TC`).
const GROUPS: [u32; 2] = [1, 4];
const ERROR: u16 = 2;
const DONE: u16 = 3;
const NEW_LINK: u16 = 16;
const DELETE_LINK: u16 = 17;
const GET_LINK: u16 = 18;
const NEW_FILTER: u16 = 44;
const GET_FILTER: u16 = 46;
/// What filters of both directions of clsact hang on (`TC_H_MIN_INGRESS`, `TC_H_MIN_EGRESS`).
const HOOKS: [u32; 2] = [0xffff_fff2, 0xffff_fff3];
/// What the kernel appends to an answer is told by this flag (`NLM_F_ACK_TLVS`).
const APPENDED: u16 = 0x200;
/// `NLMSGERR_ATTR_MSG`.
const ERROR_TEXT: u16 = 1;
/// Length of `struct ifinfomsg`.
const IFINFO: usize = 16;
/// Length of `struct tcmsg`.
const TCMSG: usize = 20;
/// `ARPHRD_ETHER`.
const ETHERNET: u16 = 1;
const IFLA_NAME: u16 = 3;
const IFLA_MTU: u16 = 4;
/// `IFF_UP`, and `IFF_LOWER_UP`: there is a carrier.
const UP: u32 = 1 | 1 << 16;
/// Room for one datagram: the kernel sends at most 32 KiB of a dump at once.
const DATAGRAM: usize = 1 << 16;
/// Room for notifications that were not fetched yet, in bytes.
const NOTIFICATIONS: usize = 1 << 20;
/// How often a dump is asked for again when the kernel says that what it dumps changed meanwhile.
const DUMPS: u32 = 8;

/// Why the kernel was not asked, or what it refused.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The socket does not work.
    #[error("netlink: {0}")]
    Socket(#[from] io::Error),
    /// The kernel refused, with its reason if it gives one.
    #[error("the kernel refused: {source}{}", .text.as_ref().map(|t| format!(" ({t})")).unwrap_or_default())]
    Refused {
        /// The error number.
        source: io::Error,
        /// What the kernel says beside it.
        text: Option<String>,
    },
    /// What came is no message of the expected form.
    #[error("netlink: {0}")]
    Decode(#[from] DecodeError),
    /// What was asked for changed all the time.
    #[error("what was asked for changed during each of {DUMPS} dumps; try again when it rests")]
    Restless,
}

/// An interface.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Interface {
    /// Its number.
    pub index: i32,
    /// Its name.
    pub name: String,
    /// Largest packet, in bytes.
    pub mtu: u32,
    /// Whether it is up and has a carrier.
    pub is_up: bool,
    /// Whether what it sends are Ethernet frames; those of tunnels begin with their IP header.
    pub is_ethernet: bool,
}

/// Asks the kernel, one question after the other. The network namespace is that of the thread that opened it.
pub struct Link {
    socket: Socket,
    sequence: u32,
    buffer: Vec<u8>,
    request: Vec<u8>,
}

impl Link {
    /// Opens a socket.
    pub fn open() -> Result<Link, Error> {
        let mut socket = Socket::new(NETLINK_ROUTE)?;
        socket.bind_auto()?;
        // Older kernels say less; then so do errors.
        let _ = socket.set_ext_ack(true);
        let _ = socket.set_cap_ack(true);
        Ok(Link { socket, sequence: 0, buffer: Vec::with_capacity(DATAGRAM), request: Vec::new() })
    }

    /// Sends the request that was written to `self.request`, and hands out each answer until the last.
    fn ask(
        &mut self,
        flags: u16,
        mut answer: impl FnMut(u16, &[u8]) -> Result<(), Error>,
    ) -> Result<(), Error> {
        self.sequence = self.sequence.wrapping_add(1);
        self.request[6..8].copy_from_slice(&flags.to_ne_bytes());
        self.request[8..12].copy_from_slice(&self.sequence.to_ne_bytes());
        self.socket.send_to(&self.request, &SocketAddr::new(0, 0), 0)?;
        let mut interrupted = false;
        // Answers to earlier questions are read to their end, too.
        let mut failure = None;
        loop {
            self.buffer.clear();
            self.socket.recv(&mut self.buffer, 0)?;
            let mut left = self.buffer.as_slice();
            while let Ok(message) = NetlinkBuffer::new_checked(left) {
                let (length, kind) = (message.length() as usize, message.message_type());
                let whole = &left[..length];
                left = left.get(length.next_multiple_of(4)..).unwrap_or_default();
                if message.sequence_number() != self.sequence {
                    continue;
                }
                interrupted |= message.flags() & NLM_F_DUMP_INTR != 0;
                match kind {
                    ERROR => return refused(whole, message.flags()),
                    DONE if interrupted => return Err(Error::Restless),
                    DONE => return failure.map_or(Ok(()), Err),
                    _ => failure = failure.or(answer(kind, whole).err()),
                }
            }
        }
    }

    /// Asks until nothing changed meanwhile.
    fn at_rest<T>(&mut self, mut once: impl FnMut(&mut Link) -> Result<T, Error>) -> Result<T, Error> {
        for _ in 1..DUMPS {
            match once(self) {
                Err(Error::Restless) => {}
                done => return done,
            }
        }
        once(self)
    }

    fn dump(&mut self, request: &Message) -> Result<Vec<Message>, Error> {
        self.at_rest(|link| {
            link.request.clear();
            request.encode(&mut link.request);
            let mut all = Vec::new();
            link.ask(NLM_F_REQUEST | NLM_F_DUMP, |_, whole| {
                let message = Message::decode(whole)?;
                // The kernel tells the disciplines of all interfaces.
                if request.interface == 0 || message.interface == request.interface {
                    all.push(message);
                }
                Ok(())
            })?;
            Ok(all)
        })
    }

    /// The disciplines of an interface, or of all with 0.
    pub fn disciplines(&mut self, interface: i32) -> Result<Vec<Message>, Error> {
        self.dump(&Message::new(Subject::Discipline, Action::Get, interface))
    }

    /// The classes of an interface.
    pub fn classes(&mut self, interface: i32) -> Result<Vec<Message>, Error> {
        self.dump(&Message::new(Subject::Class, Action::Get, interface))
    }

    /// Changes what is there as the message says, and waits for the answer. Adds nothing.
    pub fn change(&mut self, message: &Message) -> Result<(), Error> {
        self.request.clear();
        message.encode(&mut self.request);
        self.ask(NLM_F_REQUEST | NLM_F_ACK, |_, _| Ok(()))
    }

    /// Makes what the message says, in the place of what is there, also where that is of the same kind, and
    /// waits for the answer.
    pub fn make(&mut self, message: &Message) -> Result<(), Error> {
        self.request.clear();
        message.encode(&mut self.request);
        // Without the last flag one of the same kind would be changed instead (`tc_modify_qdisc`).
        let flags = NLM_F_CREATE | NLM_F_REPLACE | NLM_F_EXCL;
        self.ask(NLM_F_REQUEST | NLM_F_ACK | flags, |_, _| Ok(()))
    }

    /// Whether filters of anybody hang on the clsact discipline of an interface.
    pub fn has_filters(&mut self, interface: i32) -> Result<bool, Error> {
        self.at_rest(|link| {
            let mut has = false;
            for hook in HOOKS {
                link.request.clear();
                link.request.extend_from_slice(&((HEADER + TCMSG) as u32).to_ne_bytes());
                link.request.extend_from_slice(&GET_FILTER.to_ne_bytes());
                link.request.resize(HEADER + TCMSG, 0);
                link.request[HEADER + 4..HEADER + 8].copy_from_slice(&interface.to_ne_bytes());
                link.request[HEADER + 12..HEADER + 16].copy_from_slice(&hook.to_ne_bytes());
                link.ask(NLM_F_REQUEST | NLM_F_DUMP, |kind, _| {
                    has |= kind == NEW_FILTER;
                    Ok(())
                })?;
            }
            Ok(has)
        })
    }

    /// The interfaces.
    pub fn interfaces(&mut self) -> Result<Vec<Interface>, Error> {
        self.at_rest(|link| {
            link.request.clear();
            link.request.extend_from_slice(&((HEADER + IFINFO) as u32).to_ne_bytes());
            link.request.extend_from_slice(&GET_LINK.to_ne_bytes());
            link.request.resize(HEADER + IFINFO, 0);
            let mut all = Vec::new();
            link.ask(NLM_F_REQUEST | NLM_F_DUMP, |_, whole| {
                all.extend(interface(whole));
                Ok(())
            })?;
            Ok(all)
        })
    }
}

fn interface(message: &[u8]) -> Option<Interface> {
    let info = message.get(HEADER..HEADER + IFINFO)?;
    let word = |at: usize| u32::from_ne_bytes([info[at], info[at + 1], info[at + 2], info[at + 3]]);
    let attributes = split(message.get(HEADER + IFINFO..)?)?;
    let find = |kind: u16| attributes.iter().find(|a| a.0 == kind).map(|a| a.1);
    Some(Interface {
        index: word(4) as i32,
        name: String::read(0, find(IFLA_NAME)?)?,
        mtu: find(IFLA_MTU).and_then(|mtu| u32::read(0, mtu)).unwrap_or(0),
        is_up: word(8) & UP == UP,
        is_ethernet: word(0).to_ne_bytes()[2..] == ETHERNET.to_ne_bytes(),
    })
}

/// What an answer of this type means: nothing wrong with error number 0.
fn refused(message: &[u8], flags: u16) -> Result<(), Error> {
    let number = message.get(HEADER..HEADER + 4).map_or(0, |n| i32::from_ne_bytes([n[0], n[1], n[2], n[3]]));
    if number == 0 {
        return Ok(());
    }
    // Behind the number is the header of what was asked.
    let appended = if flags & APPENDED != 0 { message.get(HEADER + 4 + HEADER..) } else { None };
    let attributes = appended.and_then(split).unwrap_or_default();
    let text = attributes.iter().find(|a| a.0 == ERROR_TEXT).and_then(|a| String::read(0, a.1));
    Err(Error::Refused { source: io::Error::from_raw_os_error(number.wrapping_neg()), text })
}

/// What the kernel tells by itself.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Told {
    /// A discipline or class was made, changed or removed, by whomever.
    Queue(Box<Message>),
    /// An interface is there, changed.
    Interface(Interface),
    /// An interface is gone.
    Gone(i32),
    /// Some notifications were lost, because nobody fetched them: everything must be looked at again.
    Lost,
}

/// Listens to notifications.
pub struct Watch {
    socket: Socket,
    buffer: Vec<u8>,
}

impl Watch {
    /// Opens a socket that hears of interfaces, disciplines and classes of this network namespace from now
    /// on.
    pub fn open() -> Result<Watch, Error> {
        let mut socket = Socket::new(NETLINK_ROUTE)?;
        socket.bind_auto()?;
        for group in GROUPS {
            socket.add_membership(group)?;
        }
        let _ = socket.set_rx_buf_sz(NOTIFICATIONS as u32);
        socket.set_non_blocking(true)?;
        Ok(Watch { socket, buffer: Vec::with_capacity(DATAGRAM) })
    }

    /// Everything that was told since the last call; does not wait.
    pub fn told(&mut self) -> Result<Vec<Told>, Error> {
        let mut all = Vec::new();
        loop {
            self.buffer.clear();
            match self.socket.recv(&mut self.buffer, 0) {
                Ok(_) => {}
                Err(e) if e.kind() == io::ErrorKind::WouldBlock => return Ok(all),
                Err(e) if e.kind() == io::ErrorKind::Interrupted => continue,
                Err(e) if e.raw_os_error() == Some(libc::ENOBUFS) => {
                    all.push(Told::Lost);
                    continue;
                }
                Err(e) => return Err(e.into()),
            }
            let mut left = self.buffer.as_slice();
            while let Ok(message) = NetlinkBuffer::new_checked(left) {
                let (length, kind) = (message.length() as usize, message.message_type());
                let whole = &left[..length];
                left = left.get(length.next_multiple_of(4)..).unwrap_or_default();
                match kind {
                    NEW_LINK => all.extend(interface(whole).map(Told::Interface)),
                    DELETE_LINK => all.extend(interface(whole).map(|i| Told::Gone(i.index))),
                    // Filters and actions are told in the same group.
                    _ => all.extend(Message::decode(whole).ok().map(|m| Told::Queue(Box::new(m)))),
                }
            }
        }
    }
}
