//! Opens ports in a mode, with memory for all of their queues.

use crate::frames::Arena;
use crate::guard::{self, Guard, Loaded};
use crate::interface::Interface;
use crate::journal::Journal;
use crate::mtu::LINK_OVERHEAD;
use crate::packet_ring;
use crate::port::{Port, WAITING_MAX, socket};
use crate::xsk::{HEADROOM, RING, Xsk};
use crate::{Error, Mode, QUEUES_MAX};
use std::os::fd::OwnedFd;
use std::time::Instant;
use weir_units::Duration;

/// Chunks that all receive queues of a port may borrow together, while there are few.
const LENT_MAX: u32 = 4 * RING;
/// Chunks that a receive queue may borrow, however many there are.
const SHARE_MIN: u32 = 512;
/// Most chunks of an arena: the kernel numbers them in one allocation for each queue, which cannot exceed 2
/// GiB.
const CHUNKS_MAX: u64 = 1 << 24;
/// What the kernel keeps of each chunk for each socket (`struct xdp_buff_xsk`), about.
const CHUNK_OF_SOCKET: u64 = 120;
/// The four rings of a socket with their headers, about.
const RINGS_OF_SOCKET: u64 = 56 * RING as u64;
/// How long a queue is waited for that has a socket. One that was closed is taken off by a worker of the
/// kernel, a moment later.
const LEAVES: std::time::Duration = std::time::Duration::from_millis(250);
/// How often it is tried meanwhile.
const LOOK: std::time::Duration = std::time::Duration::from_millis(1);
/// Part of the memory that is available which frames may take, in percent.
const MEMORY_SHARE_MAX: u64 = 75;

/// How far the opening of ports has come: with many queues and large buffers it takes seconds.
#[derive(Clone, Copy, Debug)]
pub enum Progress<'a> {
    /// Another start is waited for: one at a time looks at ports and takes them.
    Waiting,
    /// Sockets are opened.
    Opening {
        /// The port.
        port: &'a str,
        /// The receive queue whose socket is opened next, from zero.
        queue: u32,
        /// How many there are.
        queues: u32,
    },
}

/// Told before each step, and again and again while another start is waited for; whether it is to go on.
pub(crate) type Watcher<'a> = &'a mut dyn FnMut(Progress<'_>) -> bool;

/// What is to be opened.
pub(crate) struct Opening<'a> {
    pub interfaces: &'a [Interface],
    /// Whether their frames are bare IP packets.
    pub is_bare: bool,
    /// Modes that cannot work with them, and why.
    pub without: Vec<(Mode, String)>,
    /// Whether frames of a port leave at the other one, of two, when the loop fails.
    pub fails_open: bool,
    /// Age of the heartbeat at which it has failed.
    pub after: Duration,
    /// Longest frame.
    pub longest: u32,
    /// Room wanted in front of each frame; AF_XDP leaves [`HEADROOM`] anyhow.
    pub headroom: u32,
    /// Frames that may wait in queues and delay lines, beside those in rings.
    pub frames: u64,
    pub journal: &'a mut Journal,
    /// Whether the kernel forwards between the ports already, which is not to end.
    pub is_taken_over: bool,
    /// The links of an earlier run's XDP programs, for each port.
    pub links: Vec<Option<OwnedFd>>,
    /// What was made before, for one of the modes.
    pub made: Option<Made>,
    pub watcher: Watcher<'a>,
}

/// What takes long to make and changes nothing: memory for frames, the programs in the kernel, and sockets
/// that are not bound yet. With ports that are taken over, whose frames pass by the queues or not at all
/// meanwhile, it is made beforehand.
pub(crate) struct Made {
    mode: Mode,
    plan: Plan,
    arena: Arena,
    programs: Vec<Loaded>,
    /// For each port one for each of its queues, or none.
    sockets: Vec<Vec<Xsk>>,
}

impl Made {
    fn new(mode: Mode, plan: Plan, interfaces: &[Interface]) -> Result<Made, Error> {
        let arena = Arena::new(plan.chunk, plan.chunks)?;
        let programs =
            interfaces.iter().map(|port| guard::load(port.index, mode)).collect::<Result<_, _>>()?;
        let sockets = interfaces.iter().map(|_| Vec::new()).collect();
        Ok(Made { mode, plan, arena, programs, sockets })
    }

    /// Makes the sockets too. Where that fails it is tried again, and told, when they are to be bound.
    fn with_sockets(mut self, ports: &[(&str, u32, u32)]) -> Made {
        for (made, (_, queues, _)) in self.sockets.iter_mut().zip(ports) {
            for queue in 0..*queues {
                match Xsk::unbound(&mut self.arena, lent(*queues), queue == 0) {
                    Ok(socket) => made.push(socket),
                    Err(_) => {
                        made.drain(..).for_each(|mut socket| socket.take_back(&mut self.arena));
                        break;
                    }
                }
            }
        }
        self
    }

    /// For the first mode that will be tried; nothing where that cannot be, which the opening tells then.
    pub fn beforehand(
        interfaces: &[Interface],
        wanted: Option<Mode>,
        without: &[(Mode, String)],
        (longest, headroom, frames): (u32, u32, u64),
    ) -> Option<Made> {
        let can_be = |mode: &&Mode| without.iter().all(|(against, _)| against != *mode);
        let mode = wanted.or(MODES.iter().find(can_be).copied())?;
        let needs = Needs::of(interfaces, mode, longest, headroom, frames);
        let made = Made::new(mode, needs.plan(available_memory()).ok()?, interfaces).ok()?;
        Some(if mode == Mode::AfPacket { made } else { made.with_sockets(&needs.ports) })
    }
}

/// Modes from the best to the one that works with every driver.
const MODES: [Mode; 3] = [Mode::XdpNative, Mode::XdpGeneric, Mode::AfPacket];

/// Open ports and the memory that their frames live in.
pub(crate) struct Opened {
    pub arena: Arena,
    pub guards: Vec<Guard>,
    pub ports: Vec<Port>,
}

impl Opening<'_> {
    /// Opens the ports in the mode wanted, or in the best that works, and says which do not.
    pub fn in_best_mode(
        mut self,
        wanted: Option<Mode>,
        said: &mut Vec<String>,
    ) -> Result<(Mode, Opened), Error> {
        let modes = match &wanted {
            Some(mode) => std::slice::from_ref(mode),
            None => &MODES[..],
        };
        let mut refusal = None;
        for mode in modes {
            let against = self.without.iter().find(|(without, _)| without == mode);
            let tried = match against.map(|(_, why)| why.clone()) {
                Some(why) => Err(Error::Refused(why)),
                None => self.in_mode(*mode),
            };
            match tried {
                Ok(opened) => return Ok((*mode, opened)),
                Err(Error::GivenUp) => return Err(Error::GivenUp),
                Err(error) => {
                    said.push(format!("{mode} is unavailable: {error}"));
                    if !self.is_taken_over {
                        // What stays there is replaced by the next mode, or taken off when the journal is
                        // undone.
                        let _ = self.interfaces.iter().try_for_each(|port| guard::detach(port.index, false));
                    }
                    refusal = Some(error);
                }
            }
        }
        Err(refusal.expect("at least one mode was tried"))
    }

    fn in_mode(&mut self, mode: Mode) -> Result<Opened, Error> {
        if mode != Mode::AfPacket {
            self.interfaces.iter().try_for_each(|port| refuse_stripping(&port.name, &port.strips_tags()))?;
        }
        let (longest, headroom) = (self.longest, self.headroom);
        let needs = Needs::of(self.interfaces, mode, longest, headroom, self.frames);
        let made = match self.made.take() {
            Some(made) if made.mode == mode && needs.plan(u64::MAX).is_ok_and(|plan| plan == made.plan) => {
                made
            }
            _ => Made::new(mode, needs.plan(available_memory())?, self.interfaces)?,
        };
        let (mut arena, mut guards) = (made.arena, Vec::new());
        for ((at, interface), programs) in self.interfaces.iter().enumerate().zip(made.programs) {
            let peer = if self.fails_open { self.interfaces.get(1 - at) } else { None };
            guards.push(open_guard(interface, peer, programs, self.after, self.journal)?);
        }
        let is_xdp = mode != Mode::AfPacket;
        // Where a program is exchanged, first: meanwhile the kernel takes the sockets of before off their
        // queues.
        let is_exchanged = is_xdp && self.links.iter().any(Option::is_some);
        if is_exchanged {
            self.attach(&mut guards)?;
        }
        let mut ports = Vec::new();
        let mut made_sockets = made.sockets.into_iter();
        for ((interface, guard), (_, queues, most)) in self.interfaces.iter().zip(&guards).zip(&needs.ports) {
            let bound = Bound::new(made_sockets.next().unwrap_or_default(), interface, *queues);
            ports.push(if mode == Mode::AfPacket {
                let headroom = u64::from(headroom);
                Port::packet(
                    interface.clone(),
                    longest as usize,
                    headroom,
                    guard.copy_filter(),
                    self.is_bare,
                )?
            } else {
                let sockets = match bound.entered(&mut arena, guard) {
                    Some(sockets) => sockets,
                    None => sockets(&mut arena, interface, guard, *queues, self.watcher)?,
                };
                Port::xdp(interface.clone(), sockets, lent_to_port(*queues, *most))?
            });
        }
        if is_xdp && !is_exchanged {
            self.attach(&mut guards)?;
        }
        Ok(Opened { arena, guards, ports })
    }

    /// Attaches the XDP programs.
    fn attach(&mut self, guards: &mut [Guard]) -> Result<(), Error> {
        for (at, guard) in guards.iter_mut().enumerate() {
            guard.attach_xdp(self.links.get_mut(at).and_then(Option::take))?;
        }
        Ok(())
    }
}

/// Binds, and waits where the queue has a socket that leaves it.
fn patiently<T, E>(
    mut bind: impl FnMut() -> Result<T, E>,
    number: impl Fn(&E) -> Option<i32>,
) -> Result<T, E> {
    let begun = Instant::now();
    loop {
        match bind() {
            Err(error) if number(&error) == Some(libc::EBUSY) && begun.elapsed() < LEAVES => {
                std::thread::sleep(LOOK);
            }
            done => return done,
        }
    }
}

/// Sockets that were made beforehand, and whether they are bound: all of a port, or none that could be used.
struct Bound {
    sockets: Vec<Xsk>,
    is_whole: bool,
}

impl Bound {
    /// Binds them to the queues of a port.
    fn new(sockets: Vec<Xsk>, interface: &Interface, queues: u32) -> Bound {
        let first = sockets.first().map(Xsk::fd);
        let bind = |(queue, socket): (usize, &Xsk)| {
            let bind = || socket.bind_to(interface.index, queue as u32, first.filter(|_| queue > 0), false);
            patiently(bind, |error| error.raw_os_error())
        };
        let is_whole =
            sockets.len() as u32 == queues && sockets.iter().enumerate().map(bind).all(|done| done.is_ok());
        Bound { sockets, is_whole }
    }

    /// Enters them for the frames of their queues; what is not bound gives its chunks back, and is made anew.
    fn entered(mut self, arena: &mut Arena, guard: &Guard) -> Option<Vec<Xsk>> {
        let enter = |(queue, socket): (usize, &Xsk)| guard.add_socket(queue as u32, socket.fd());
        if self.is_whole && self.sockets.iter().enumerate().map(enter).all(|done| done.is_ok()) {
            return Some(self.sockets);
        }
        self.sockets.iter_mut().for_each(|socket| socket.take_back(arena));
        None
    }
}

fn open_guard(
    port: &Interface,
    peer: Option<&Interface>,
    programs: Loaded,
    after: Duration,
    journal: &mut Journal,
) -> Result<Guard, Error> {
    journal.programs(port)?;
    journal.bring_clsact(port)?;
    Guard::attach(programs, peer.map(|peer| peer.index), after)
}

/// Refuses a port for AF_XDP whose frames would lose their VLAN tags.
fn refuse_stripping(name: &str, stripping: &[&str]) -> Result<(), Error> {
    if stripping.is_empty() {
        return Ok(());
    }
    Err(Error::Refused(format!(
        "{name}: it takes VLAN tags off what it receives ({}) and does not let that be switched off; AF_XDP does not see \
         these tags. Remedy: mode = \"af_packet\"",
        stripping.join(", ")
    )))
}

/// A socket for each receive queue of a port. A driver that cannot do without copies, as it seemed to, is
/// asked to copy; the other port is not concerned.
fn sockets(
    arena: &mut Arena,
    interface: &Interface,
    guard: &Guard,
    queues: u32,
    watcher: Watcher<'_>,
) -> Result<Vec<Xsk>, Error> {
    match bind_all(arena, interface, guard, queues, false, watcher) {
        Err(Error::Os { error, .. }) if is_for_copies(&error) => {
            bind_all(arena, interface, guard, queues, true, watcher)
        }
        result => result,
    }
}

/// Whether copies may help where this error is met.
fn is_for_copies(error: &std::io::Error) -> bool {
    matches!(
        error.raw_os_error(),
        Some(libc::EOPNOTSUPP | libc::EINVAL | libc::ENOMEM | libc::EIO | libc::ENOSYS)
    )
}

fn bind_all(
    arena: &mut Arena,
    interface: &Interface,
    guard: &Guard,
    queues: u32,
    copies: bool,
    watcher: Watcher<'_>,
) -> Result<Vec<Xsk>, Error> {
    let mut sockets: Vec<Xsk> = Vec::new();
    for queue in 0..queues {
        let first = sockets.first().map(Xsk::fd);
        let opened = match watcher(Progress::Opening { port: &interface.name, queue, queues }) {
            true => patiently(
                || socket(arena, interface, guard, queue, lent(queues), first, copies),
                |error| match error {
                    Error::Os { error, .. } => error.raw_os_error(),
                    _ => None,
                },
            ),
            false => Err(Error::GivenUp),
        };
        match opened {
            Ok(socket) => sockets.push(socket),
            Err(error) => {
                sockets.iter_mut().for_each(|socket| socket.take_back(arena));
                return Err(error);
            }
        }
    }
    Ok(sockets)
}

/// Chunks that each receive queue of a port with so many may borrow.
fn lent(queues: u32) -> u32 {
    (LENT_MAX / queues).clamp(SHARE_MIN, RING)
}

/// Chunks that all receive queues of a port may borrow, of which there may be more later, up to `most`.
fn lent_to_port(queues: u32, most: u32) -> u32 {
    let later = most.min(QUEUES_MAX) * SHARE_MIN;
    (queues * lent(queues)).max(later.min(LENT_MAX))
}

/// What ports need memory for.
struct Needs<'a> {
    mode: Mode,
    /// Their names, and how many receive queues they have and can have.
    ports: Vec<(&'a str, u32, u32)>,
    longest: u32,
    headroom: u32,
    frames: u64,
}

/// Memory that is enough: what is lent to one queue is no other's, and what waits in queues takes nothing
/// from the rings.
#[derive(Debug, PartialEq, Eq)]
struct Plan {
    chunk: u32,
    chunks: u32,
}

impl Needs<'_> {
    fn of(interfaces: &[Interface], mode: Mode, longest: u32, headroom: u32, frames: u64) -> Needs<'_> {
        let ports = interfaces
            .iter()
            .map(|port| (port.name.as_str(), port.receive_queues(), port.most_receive_queues()))
            .collect();
        Needs { mode, ports, longest, headroom, frames }
    }

    /// Refuses what cannot work, or takes more than its part of the available memory, in bytes.
    fn plan(&self, available: u64) -> Result<Plan, Error> {
        let is_xdp = self.mode != Mode::AfPacket;
        if let Some((name, queues, _)) = self.ports.iter().find(|port| is_xdp && port.1 > QUEUES_MAX) {
            return Err(Error::Refused(format!(
                "{name}: it has {queues} receive queues, and AF_XDP serves at most {QUEUES_MAX}. Remedy: `ethtool -L \
                 {name} combined {QUEUES_MAX}` (`rx` in place of `combined` where the driver counts them apart), or mode = \
                 \"af_packet\""
            )));
        }
        let chunk = self.chunk()?;
        let (mut in_rings, mut sockets) = (0, 0);
        for (_, queues, most) in &self.ports {
            in_rings += u64::from(match is_xdp {
                // What is lent, what waits for the port, what is in its ring, and what comes back from there.
                true => lent_to_port(*queues, *most) + WAITING_MAX as u32 + 2 * RING,
                // Frames in rings are not in the arena: what waits for the port, twice for rounding.
                false => 2 * WAITING_MAX as u32,
            });
            sockets += u64::from(*queues);
        }
        let chunks = in_rings + self.frames;
        let bytes = match is_xdp {
            true => chunks * (u64::from(chunk) + CHUNK_OF_SOCKET * sockets) + RINGS_OF_SOCKET * sockets,
            false => {
                chunks * u64::from(chunk)
                    + (self.ports.len() * packet_ring::size(self.longest as usize)) as u64
            }
        };
        if chunks > CHUNKS_MAX || bytes > available / 100 * MEMORY_SHARE_MAX {
            return Err(Error::Refused(self.too_much(chunks, chunk, bytes, available)));
        }
        Ok(Plan { chunk, chunks: chunks as u32 })
    }

    /// Size of a chunk. AF_XDP leaves room in front of each frame; with AF_PACKET there is as much as is
    /// asked for.
    fn chunk(&self) -> Result<u32, Error> {
        let longest = self.longest;
        match self.mode {
            Mode::AfPacket => Ok((longest + self.headroom + 64).next_power_of_two().max(2048)),
            _ if longest <= 2048 - HEADROOM => Ok(2048),
            _ if longest <= 4096 - HEADROOM => Ok(4096),
            _ => Err(Error::Refused(format!(
                "frames of {longest} bytes do not fit in a page, which AF_XDP needs. Remedy: an MTU of at \
                 most {}, or mode = \"af_packet\"",
                4096 - HEADROOM - LINK_OVERHEAD
            ))),
        }
    }

    fn too_much(&self, chunks: u64, chunk: u32, bytes: u64, available: u64) -> String {
        let queues: Vec<String> =
            self.ports.iter().map(|(name, queues, _)| format!("{queues} of {name}")).collect();
        let (of_queues, remedy) = match self.mode {
            Mode::AfPacket => (String::new(), "more memory"),
            _ => (
                format!(", with {CHUNK_OF_SOCKET} more for each receive queue ({})", queues.join(", ")),
                "fewer queues (`ethtool -L DEV combined N`), mode = \"af_packet\", or more memory",
            ),
        };
        format!(
            "room for {chunks} frames, {} of them waiting in queues and delay lines, {chunk} bytes each{of_queues}, takes {} \
             MiB; {MEMORY_SHARE_MAX} % of {} MiB that are available may be taken, and {CHUNKS_MAX} frames. Remedy: smaller \
             buffers and delays, {remedy}",
            self.frames,
            bytes >> 20,
            available >> 20,
        )
    }
}

/// Memory that programs can take without others being swapped out or killed, in bytes; no limit where that is
/// not told.
fn available_memory() -> u64 {
    let text = std::fs::read_to_string("/proc/meminfo").unwrap_or_default();
    let line = text.lines().find_map(|line| line.strip_prefix("MemAvailable:"));
    let kilobytes = line.and_then(|line| line.split_whitespace().next()?.parse::<u64>().ok());
    kilobytes.map_or(u64::MAX, |kilobytes| kilobytes << 10)
}

#[cfg(test)]
mod tests {
    use super::*;

    const PLENTY: u64 = 64 << 30;

    fn needs(mode: Mode, queues: [u32; 2], frames: u64) -> Needs<'static> {
        let ports = vec![("left", queues[0], queues[0]), ("right", queues[1], queues[1])];
        Needs { mode, ports, longest: 1522, headroom: 0, frames }
    }

    #[test]
    fn there_is_memory_for_all_queues_and_for_what_waits() {
        for queues in [[1, 1], [2, 1], [6, 6], [16, 16], [64, 64], [5, 32], [128, 128]] {
            let plan = needs(Mode::XdpNative, queues, 10_000).plan(PLENTY).unwrap();
            let lent: u32 = queues.iter().map(|n| n * lent(*n)).sum();
            assert!(plan.chunks >= lent + 10_000 + 4 * RING, "{queues:?}: {plan:?}");
            assert!(queues.iter().all(|n| (SHARE_MIN..=RING).contains(&super::lent(*n))));
        }
        // One queue on each side takes what it always took.
        assert_eq!(needs(Mode::XdpNative, [1, 1], 0).plan(PLENTY).unwrap().chunks, 8 * RING);
        assert_eq!(needs(Mode::AfPacket, [64, 64], 0).plan(PLENTY).unwrap().chunks, 4 * RING);
    }

    #[test]
    fn there_is_memory_for_queues_that_are_added() {
        assert_eq!(lent_to_port(1, 1), RING);
        assert_eq!(lent_to_port(1, 128), LENT_MAX);
        assert_eq!(lent_to_port(128, 128), 128 * SHARE_MIN);
        assert!(lent_to_port(1, 1000) / QUEUES_MAX >= 128, "each of them has some at least");
    }

    #[test]
    fn a_port_that_takes_tags_off_is_refused() {
        assert!(refuse_stripping("p", &[]).is_ok());
        let told = refuse_stripping("p", &["rx-vlan-offload"]).unwrap_err().to_string();
        assert!(
            told.starts_with("p: it takes VLAN tags off") && told.contains("mode = \"af_packet\""),
            "{told}"
        );
    }

    #[test]
    fn only_errors_of_the_driver_are_met_with_copies() {
        let is_for = |errno| is_for_copies(&std::io::Error::from_raw_os_error(errno));
        assert!(is_for(libc::EOPNOTSUPP) && is_for(libc::EINVAL));
        assert!(!is_for(libc::EPERM) && !is_for(libc::EBUSY) && !is_for(libc::ENOBUFS));
    }

    #[test]
    fn what_cannot_work_is_refused_with_numbers_and_remedy() {
        let refused = |needs: Needs<'_>, available| needs.plan(available).unwrap_err().to_string();
        let told = refused(needs(Mode::XdpNative, [1, 129], 0), PLENTY);
        assert!(
            told.starts_with("right: it has 129 receive queues, and AF_XDP serves at most 128"),
            "{told}"
        );
        assert!(told.contains("`ethtool -L right combined 128`"), "{told}");
        assert!(needs(Mode::AfPacket, [1, 129], 0).plan(PLENTY).is_ok());
        let told = refused(needs(Mode::XdpGeneric, [64, 64], 262_144), 4 << 30);
        for part in ["262144 of them", "64 of left, 64 of right", "75 % of 4096 MiB", "mode = \"af_packet\""]
        {
            assert!(told.contains(part), "{part}: {told}");
        }
        let told = refused(needs(Mode::AfPacket, [1, 1], 1 << 24), u64::MAX);
        assert!(
            told.contains("and 16777216 frames. Remedy: smaller buffers and delays, more memory"),
            "{told}"
        );
    }
}
