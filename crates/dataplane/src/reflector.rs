//! Turns the probes of others around: the far end of sensing where no gateway bounces them.
//!
//! What was sent to one of our addresses by a peer goes back to it; everything else is left alone. In the
//! driver by an XDP program, or by this process from a packet socket. Either ends with the process, and the
//! interface is as before.

mod socket;
mod turn;
mod xdp;

use crate::interface::Interface;
use crate::{Error, neighbours};
use socket::Sockets;
use std::collections::BTreeSet;
use std::net::IpAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use xdp::Program;

/// How probes are turned around.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ReflectMode {
    /// By an XDP program in the driver.
    XdpNative,
    /// By an XDP program behind the driver.
    XdpGeneric,
    /// By this process.
    User,
}

impl std::fmt::Display for ReflectMode {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            ReflectMode::XdpNative => "XDP, native",
            ReflectMode::XdpGeneric => "XDP, generic",
            ReflectMode::User => "packet socket",
        })
    }
}

/// What is to be reflected.
#[derive(Clone, Debug)]
pub struct ReflectorSetup {
    /// Name of the interface where probes come in and go out.
    pub interface: String,
    /// Who may send probes.
    pub peers: Vec<IpAddr>,
    /// What probes are sent to; those of the interface if empty.
    pub addresses: Vec<IpAddr>,
    /// How; `None` for the fastest that works.
    pub mode: Option<ReflectMode>,
}

/// Whom a reflector knows.
#[derive(Clone, PartialEq, Eq, Debug)]
struct KnownHost {
    own: BTreeSet<IpAddr>,
    peers: BTreeSet<IpAddr>,
}

/// Most addresses and peers together.
const KNOWN_MAX: usize = 1024;

/// What became of probes.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Reflected {
    /// Probes that were turned around.
    pub reflected: u64,
    /// Probes of strangers, which were discarded.
    pub refused: u64,
}

enum How {
    Xdp(Program),
    Sockets(Sockets),
}

/// A running reflector; it ends when it is dropped.
pub struct Reflector {
    how: How,
    mode: ReflectMode,
    said: Vec<String>,
}

impl Reflector {
    /// Starts one on an interface of this network namespace.
    pub fn open(setup: &ReflectorSetup) -> Result<Reflector, Error> {
        let interface = Interface::find(&setup.interface)?;
        let known = known(setup, &interface)?;
        let modes = match &setup.mode {
            Some(mode) => std::slice::from_ref(mode),
            None => &[ReflectMode::XdpNative, ReflectMode::XdpGeneric, ReflectMode::User][..],
        };
        let mut said: Vec<String> = Vec::new();
        let mut refusal = None;
        for mode in modes {
            let how = match mode {
                ReflectMode::User => Sockets::open(&interface, &known).map(How::Sockets),
                xdp => Program::attach(&interface, &known, *xdp == ReflectMode::XdpNative).map(How::Xdp),
            };
            match how {
                Ok(how) => return Ok(Reflector { how, mode: *mode, said }),
                Err(error) => {
                    said.push(format!("{mode} is unavailable: {error}"));
                    refusal = Some(error);
                }
            }
        }
        Err(refusal.expect("at least one mode was tried"))
    }

    /// How probes are turned around.
    pub fn mode(&self) -> ReflectMode {
        self.mode
    }

    /// What was tried in vain.
    pub fn said(&self) -> &[String] {
        &self.said
    }

    /// What became of probes so far.
    pub fn reflected(&self) -> Reflected {
        match &self.how {
            How::Xdp(program) => program.reflected(),
            How::Sockets(sockets) => sockets.reflected,
        }
    }

    /// Works for about a tenth of a second, or until `stop` is set.
    pub fn work(&mut self, stop: &AtomicBool) -> Result<(), Error> {
        const SPAN: std::time::Duration = std::time::Duration::from_millis(100);
        if stop.load(Ordering::Relaxed) {
            return Ok(());
        }
        match &mut self.how {
            // The kernel does it.
            How::Xdp(_) => std::thread::sleep(SPAN),
            How::Sockets(sockets) => sockets.work(SPAN)?,
        }
        Ok(())
    }
}

fn known(setup: &ReflectorSetup, interface: &Interface) -> Result<KnownHost, Error> {
    let own: BTreeSet<IpAddr> = match setup.addresses.as_slice() {
        [] => neighbours::addresses(interface).into_iter().collect(),
        given => given.iter().copied().collect(),
    };
    let peers: BTreeSet<IpAddr> = setup.peers.iter().copied().collect();
    let name = &interface.name;
    let problem = if own.is_empty() {
        format!(
            "{name}: it has no address that probes could be sent to. Remedy: give it one, or name one (--address)"
        )
    } else if peers.is_empty() {
        format!(
            "{name}: without peers every probe would be refused. Remedy: name who may send probes (--peer)"
        )
    } else if own.len() + peers.len() > KNOWN_MAX {
        format!("{name}: at most {KNOWN_MAX} addresses and peers can be known. Remedy: name fewer")
    } else if let Some(both) = own.intersection(&peers).next() {
        format!(
            "{name}: {both} is an address of ours and cannot be a peer. Remedy: name the sender of the probes"
        )
    } else {
        return Ok(KnownHost { own, peers });
    };
    Err(Error::Refused(problem))
}
