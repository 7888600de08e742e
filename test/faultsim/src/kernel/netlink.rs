//! Questions over netlink: interfaces, the qdisc that holds filters, and the filter in it.

use super::Kernel;
use crate::faults::Kind;
use libc::c_int;

/// Address of the process's sockets.
pub const PORT: u32 = 1;
const HEADER: usize = 16;

fn half(bytes: &[u8], at: usize) -> u16 {
    bytes.get(at..at + 2).map_or(0, |b| u16::from_ne_bytes([b[0], b[1]]))
}

fn word(bytes: &[u8], at: usize) -> u32 {
    bytes.get(at..at + 4).map_or(0, |b| u32::from_ne_bytes([b[0], b[1], b[2], b[3]]))
}

/// The content of an attribute of this kind.
fn attribute(mut rest: &[u8], wanted: u16) -> Option<&[u8]> {
    while rest.len() >= 4 {
        let (len, kind) = (usize::from(half(rest, 0)), half(rest, 2) & 0x3fff);
        if kind == wanted {
            return rest.get(4..len);
        }
        rest = rest.get(len.max(4).next_multiple_of(4)..)?;
    }
    None
}

fn put_attribute(to: &mut Vec<u8>, kind: u16, content: &[u8]) {
    to.extend((4 + content.len() as u16).to_ne_bytes());
    to.extend(kind.to_ne_bytes());
    to.extend(content);
    to.resize(to.len().next_multiple_of(4), 0);
}

/// A message that answers another.
fn message(kind: u16, flags: u16, sequence: u32, content: &[u8]) -> Vec<u8> {
    let mut all = Vec::with_capacity(HEADER + content.len());
    all.extend(((HEADER + content.len()) as u32).to_ne_bytes());
    all.extend(kind.to_ne_bytes());
    all.extend(flags.to_ne_bytes());
    all.extend(sequence.to_ne_bytes());
    all.extend(PORT.to_ne_bytes());
    all.extend(content);
    all
}

impl Kernel {
    /// Answers a question.
    pub(super) fn ask_netlink(&mut self, asked: &[u8]) -> Vec<u8> {
        let (kind, flags, sequence) = (half(asked, 4), half(asked, 6), word(asked, 8));
        let verdict = |code: c_int| {
            let content = [&(-code).to_ne_bytes()[..], &asked[..HEADER.min(asked.len())]].concat();
            message(libc::NLMSG_ERROR as u16, 0, sequence, &content)
        };
        if let Some(number) = self.armed.netlink.take_one() {
            self.met.count(Kind::OpenErrno);
            return verdict(number);
        }
        // An interface by its index, where the message names one.
        let port = self.port_of(word(asked, HEADER + 4));
        match kind {
            libc::RTM_GETLINK if flags & libc::NLM_F_DUMP as u16 != 0 => {
                let mut all = Vec::new();
                for interface in self.interfaces.iter().filter(|i| i.is_present) {
                    let content = link(interface.index, interface.xdp.as_ref().map(|program| program.id()));
                    all.extend(message(libc::RTM_NEWLINK, libc::NLM_F_MULTI as u16, sequence, &content));
                }
                all.extend(message(libc::NLMSG_DONE as u16, libc::NLM_F_MULTI as u16, sequence, &[0; 4]));
                all
            }
            libc::RTM_GETLINK => match port {
                Some(port) => {
                    message(libc::RTM_NEWLINK, 0, sequence, &link(self.interfaces[port].index, None))
                }
                None => verdict(libc::ENODEV),
            },
            libc::RTM_NEWQDISC
            | libc::RTM_DELQDISC
            | libc::RTM_NEWTFILTER
            | libc::RTM_DELTFILTER
            | libc::RTM_GETTFILTER => {
                let Some(port) = port else { return verdict(libc::ENODEV) };
                self.change_filter(port, kind, asked).map_or_else(verdict, |content| match content {
                    Some(content) => message(libc::RTM_NEWTFILTER, 0, sequence, &content),
                    None => verdict(0),
                })
            }
            _ => verdict(libc::ENOENT),
        }
    }

    /// Something about the qdisc and the filter; what is told of the filter.
    fn change_filter(&mut self, port: usize, kind: u16, asked: &[u8]) -> Result<Option<Vec<u8>>, c_int> {
        /// `struct tcmsg`.
        const ABOUT: usize = 20;
        const TCA_KIND: u16 = 1;
        const TCA_OPTIONS: u16 = 2;
        const TCA_BPF_FD: u16 = 6;
        const TCA_BPF_ID: u16 = 11;
        let about = asked.get(HEADER..HEADER + ABOUT).unwrap_or(&[0; ABOUT]).to_vec();
        let described = |id: u32| {
            let mut content = about.clone();
            put_attribute(&mut content, TCA_KIND, b"bpf\0");
            let mut options = Vec::new();
            put_attribute(&mut options, TCA_BPF_ID, &id.to_ne_bytes());
            put_attribute(&mut content, TCA_OPTIONS, &options);
            Some(content)
        };
        let program = attribute(asked.get(HEADER + ABOUT..).unwrap_or(&[]), TCA_OPTIONS)
            .and_then(|options| attribute(options, TCA_BPF_FD))
            .and_then(|fd| self.program_of(word(fd, 0) as c_int));
        let interface = &mut self.interfaces[port];
        match kind {
            libc::RTM_NEWQDISC if interface.has_clsact => Err(libc::EEXIST),
            libc::RTM_NEWQDISC => {
                interface.has_clsact = true;
                Ok(None)
            }
            libc::RTM_DELQDISC if !interface.has_clsact => Err(libc::EINVAL),
            libc::RTM_DELQDISC => {
                (interface.has_clsact, interface.filter) = (false, None);
                Ok(None)
            }
            libc::RTM_NEWTFILTER if !interface.has_clsact => Err(libc::EINVAL),
            libc::RTM_NEWTFILTER => {
                let program = program.ok_or(libc::EBADF)?;
                let id = program.id();
                interface.filter = Some(program);
                Ok(described(id))
            }
            libc::RTM_DELTFILTER if !interface.has_clsact => Err(libc::EINVAL),
            libc::RTM_DELTFILTER => interface.filter.take().map(|_| None).ok_or(libc::ENOENT),
            _ if !interface.has_clsact => Err(libc::EINVAL),
            _ => interface.filter.as_ref().map(|program| described(program.id())).ok_or(libc::ENOENT),
        }
    }
}

/// What is told of an interface: its index, and its XDP program.
fn link(index: u32, program: Option<u32>) -> Vec<u8> {
    const IFLA_XDP: u16 = 43;
    const IFLA_XDP_ATTACHED: u16 = 2;
    const IFLA_XDP_PROG_ID: u16 = 4;
    const IFLA_XDP_DRV_PROG_ID: u16 = 5;
    let mut content = vec![0; 16];
    content[4..8].copy_from_slice(&index.to_ne_bytes());
    let mut xdp = Vec::new();
    put_attribute(&mut xdp, IFLA_XDP_ATTACHED, &[u8::from(program.is_some())]);
    if let Some(id) = program {
        put_attribute(&mut xdp, IFLA_XDP_PROG_ID, &id.to_ne_bytes());
        put_attribute(&mut xdp, IFLA_XDP_DRV_PROG_ID, &id.to_ne_bytes());
    }
    put_attribute(&mut content, IFLA_XDP, &xdp);
    content
}
