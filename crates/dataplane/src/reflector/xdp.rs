//! The XDP program that turns probes around, and what it knows and counts.

use super::{KnownHost, Reflected};
use crate::interface::Interface;
use crate::{Error, guard};
use libbpf_rs::{MapCore, MapFlags, Object, ObjectBuilder};
use std::net::IpAddr;
use std::os::fd::{AsFd, OwnedFd};

static OBJECT: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/reflect.bpf.o"));
/// What is at an address; the values in `reflect.bpf.c`.
const OURS: u32 = 1;
const PEER: u32 = 2;

/// The program on an interface. It goes with this value, and with the process.
pub struct Program {
    /// Closed first.
    _link: OwnedFd,
    object: Object,
}

impl Program {
    /// Attaches it.
    pub fn attach(interface: &Interface, known: &KnownHost, native: bool) -> Result<Program, Error> {
        if let Some(id) = guard::xdp_program(interface.index) {
            return Err(Error::Refused(format!(
                "{0}: XDP program {id} is attached already. Remedy: end the program that owns it, or `ip link set {0} \
                 xdp off`, or reflect by a packet socket (--mode user)",
                interface.name
            )));
        }
        let mut builder = ObjectBuilder::default();
        let open = guard::request("cannot read the BPF object", || builder.open_memory(OBJECT))?;
        let object = guard::request("cannot load the XDP program", || open.load())?;
        let addresses = object.maps().find(|m| m.name() == "addresses").expect("the object has this map");
        let all = known.own.iter().map(|a| (a, OURS)).chain(known.peers.iter().map(|a| (a, PEER)));
        for (address, what) in all {
            guard::request("cannot enter an address", || {
                addresses.update(&key(*address), &what.to_ne_bytes(), MapFlags::ANY)
            })?;
        }
        let program = object.progs().find(|p| p.name() == "reflect").expect("the object has this program");
        let link = guard::attach_xdp(program.as_fd(), interface.index, native)?;
        Ok(Program { _link: link, object })
    }

    /// What it counted.
    pub fn reflected(&self) -> Reflected {
        let counts = self.object.maps().find(|m| m.name() == "counts").expect("the object has this map");
        let count = |which: u32| {
            let value = counts.lookup(&which.to_ne_bytes(), MapFlags::ANY).ok().flatten();
            value.and_then(|v| Some(u64::from_ne_bytes(v.get(..8)?.try_into().ok()?))).unwrap_or(0)
        };
        Reflected { reflected: count(0), refused: count(1) }
    }
}

/// An address as the program looks it up.
fn key(address: IpAddr) -> [u8; 16] {
    let mut key = [0; 16];
    match address {
        IpAddr::V4(v4) => key[..4].copy_from_slice(&v4.octets()),
        IpAddr::V6(v6) => key = v6.octets(),
    }
    key
}
