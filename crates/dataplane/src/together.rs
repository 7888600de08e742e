//! Which interfaces can be ports together, and by which modes.

use crate::interface::{Interface, LinkLayer};
use crate::neighbours::{self, Relations};
use crate::{Error, Mode};

/// Ports that go together.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Together {
    /// Whether their frames are bare IP packets.
    pub is_bare: bool,
    /// Modes that cannot work with them, and why.
    pub without: Vec<(Mode, String)>,
}

/// Looks whether interfaces can be ports together, of a wire (two) or of a function that routes between them.
pub fn look(ports: &[Interface], is_wire: bool) -> Result<Together, Error> {
    for (at, port) in ports.iter().enumerate() {
        if ports[..at].contains(port) {
            let name = &port.name;
            return Err(Error::Refused(format!("`{name}` is two ports at once. Remedy: name another")));
        }
    }
    let layers: Vec<LinkLayer> = ports.iter().map(Interface::link_layer).collect::<Result<_, _>>()?;
    let is_bare = check_layers(ports, &layers, is_wire)?;
    let relations: Vec<Relations> =
        ports.iter().map(|port| neighbours::relations(port.index)).collect::<Result<_, _>>()?;
    for (at, first) in ports.iter().enumerate() {
        for (other, second) in ports.iter().enumerate().skip(at + 1) {
            check_pair([first, second], [&relations[at], &relations[other]])?;
        }
    }
    let mut without = Vec::new();
    if is_bare {
        let why = format!(
            "`{}` has no Ethernet headers, which AF_XDP needs. Remedy: mode = \"af_packet\" or \"auto\"",
            ports[0].name
        );
        without.extend([Mode::XdpNative, Mode::XdpGeneric].map(|mode| (mode, why.clone())));
    } else if let Some((port, kind)) = ports.iter().zip(&relations).find_map(|(port, of)| {
        Some((port, of.kind.as_deref().filter(|kind| ["bond", "team"].contains(kind))?))
    }) {
        // The kernel runs a program of the bond in the drivers of its members, and a socket on the bond takes
        // no frames that came in at a member.
        let why = format!(
            "`{}` is a {kind}, whose members take the frames: they would not reach its sockets. Remedy: mode = \
             \"xdp-generic\" or \"auto\"",
            port.name
        );
        without.push((Mode::XdpNative, why));
    }
    Ok(Together { is_bare, without })
}

/// Whether frames are bare IP packets; all or none.
fn check_layers(ports: &[Interface], layers: &[LinkLayer], is_wire: bool) -> Result<bool, Error> {
    let bare = ports.iter().zip(layers).find_map(|(port, layer)| match layer {
        LinkLayer::Bare(kind) => Some((&port.name, kind)),
        LinkLayer::Ethernet => None,
    });
    let Some((name, kind)) = bare else { return Ok(false) };
    if !is_wire {
        return Err(Error::Refused(format!(
            "{name}: it is {kind}, and its frames have no Ethernet header, which a user plane needs. Remedy: name the \
             Ethernet interface that carries its packets"
        )));
    }
    if let Some((other, _)) = ports.iter().zip(layers).find(|(_, layer)| **layer == LinkLayer::Ethernet) {
        return Err(Error::Refused(format!(
            "{name}: it is {kind}, and its frames have no Ethernet header; those of {0} have one, and nobody here knows \
             to whom on {0} its packets are to go. Remedy: name two interfaces of the same kind, such as the Ethernet \
             interface that carries the packets of {name}",
            other.name
        )));
    }
    Ok(true)
}

/// Refuses two ends of one cable, and an interface beside one that it sends through.
fn check_pair(ports: [&Interface; 2], relations: [&Relations; 2]) -> Result<(), Error> {
    let leads = |from: usize, to: usize| relations[from].link == Some(ports[to].index);
    let [a, b] = ports.map(|port| &port.name);
    if leads(0, 1) && leads(1, 0) {
        return Err(Error::Refused(format!(
            "{a} and {b} are both ends of one cable: what leaves at one would come in at the other without end. Remedy: \
             name interfaces that lead to different hosts"
        )));
    }
    let (upper, lower) = match () {
        () if leads(0, 1) => (a, b),
        () if leads(1, 0) => (b, a),
        () => return Ok(()),
    };
    Err(Error::Refused(format!(
        "{upper} sends and receives through {lower}: what comes in at {lower} would not reach it any more. Remedy: name \
         another interface in place of one of the two"
    )))
}

/// As errors, what stands against these interfaces as the ports of a wire or of a function that routes.
pub fn problems(names: &[&str], is_wire: bool) -> Vec<Error> {
    let found: Vec<Result<Interface, Error>> = names.iter().map(|name| Interface::find(name)).collect();
    let (found, mut errors): (Vec<_>, Vec<_>) = found.into_iter().partition(Result::is_ok);
    let here: Vec<Interface> = found.into_iter().filter_map(Result::ok).collect();
    let whole = errors.is_empty();
    let mut all: Vec<Error> = errors.drain(..).filter_map(Result::err).collect();
    if whole {
        all.extend(look(&here, is_wire).err());
    } else {
        // What each is can be told without the others.
        all.extend(here.iter().filter_map(|one| one.link_layer().err()));
    }
    all
}
