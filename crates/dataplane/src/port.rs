//! A port: one interface, as the packet loop sees it.

use crate::frames::{Arena, Frame};
use crate::guard::Guard;
use crate::interface::Interface;
use crate::losses::Losses;
use crate::packet_ring::{self, PacketRing};
use crate::xsk::{RING, Xsk};
use crate::{Error, Received};
use std::collections::VecDeque;
use std::os::fd::{OwnedFd, RawFd};
use weir_units::{Duration, Time};

/// How frames come in and go out.
enum Rings {
    Xdp(Queues),
    Packet(PacketRing),
}

/// A socket for each receive queue; frames are sent by the first.
struct Queues {
    sockets: Vec<Xsk>,
    /// The one that is served first in this turn.
    turn: usize,
    /// Chunks that all of them may borrow.
    lent: u32,
}

/// How often the system is asked for losses at the end of a run, where it does not tell at once: later
/// nobody can.
const LAST_LOOKS: u32 = 3;
/// Chunks that a queue may borrow at least, however many were added.
const SHARE_LEAST: u32 = 16;

impl Queues {
    /// Takes received frames, at most as many as `out` has room for: from each queue its share, then what is
    /// left of the room from those that have more. The queue that goes first changes with each turn.
    fn receive(&mut self, arena: &mut Arena, now: Time, out: &mut Vec<Received>) {
        let count = self.sockets.len();
        self.turn = if self.turn + 1 < count { self.turn + 1 } else { 0 };
        let share = ((out.capacity() - out.len()) / count).max(1);
        let (behind, first) = self.sockets.split_at_mut(self.turn);
        let mut more = false;
        for socket in first.iter_mut().chain(&mut *behind) {
            socket.poll(now);
            more |= socket.receive(arena, now, share, out);
        }
        if more && out.len() < out.capacity() {
            for socket in first.iter_mut().chain(behind) {
                socket.receive(arena, now, usize::MAX, out);
            }
        }
    }

    /// Sends what waits, takes back the memory of what was sent, and lends to each queue, first to the one
    /// whose turn it is.
    fn flush(&mut self, waiting: &mut VecDeque<Frame>, arena: &mut Arena) -> Result<(), std::io::Error> {
        let sender = self.sockets.first_mut().expect("a port has a queue at least");
        sender.send(waiting);
        let mut result = sender.kick();
        sender.reclaim(arena);
        let (behind, first) = self.sockets.split_at_mut(self.turn);
        // What fails at one queue is no reason to leave the others without buffers.
        for socket in first.iter_mut().chain(behind) {
            result = result.and(socket.refill(arena));
        }
        result
    }
}

/// An interface with its rings.
pub struct Port {
    /// Which interface.
    pub interface: Interface,
    rings: Rings,
    /// Frames to be sent that had no room in the ring yet.
    waiting: VecDeque<Frame>,
    losses: Losses,
    _promiscuous: OwnedFd,
}

/// Frames that may wait for the ring; when so many wait the queues are held back.
pub const WAITING_MAX: usize = RING as usize;

/// Whether the kernel leaves it to a busy program to take an interface's frames, for some time.
fn defers_interrupts(name: &str) -> bool {
    ["napi_defer_hard_irqs", "gro_flush_timeout"].iter().all(|setting| {
        let text = std::fs::read_to_string(format!("/sys/class/net/{name}/{setting}"));
        text.is_ok_and(|t| t.trim().parse::<u64>().is_ok_and(|n| n > 0))
    })
}

impl Port {
    /// Opens AF_XDP sockets on all queues.
    pub fn xdp(interface: Interface, sockets: Vec<Xsk>, lent: u32) -> Result<Port, Error> {
        Port::new(interface, Rings::Xdp(Queues { sockets, turn: 0, lent }))
    }

    /// Receive queues that are served one by one; none with one ring for all.
    pub fn queues(&self) -> Option<u32> {
        match &self.rings {
            Rings::Xdp(queues) => Some(queues.sockets.len() as u32),
            Rings::Packet(_) => None,
        }
    }

    /// Takes the sockets of the queues out, for the end: nothing is received or sent after it.
    pub fn take_sockets(&mut self) -> Vec<Xsk> {
        match &mut self.rings {
            Rings::Xdp(queues) => std::mem::take(&mut queues.sockets),
            Rings::Packet(_) => Vec::new(),
        }
    }

    /// Whether the driver hands frames over without copying them; `None` for AF_PACKET.
    pub fn is_zero_copy(&self) -> Option<bool> {
        match &self.rings {
            Rings::Xdp(queues) => queues.sockets.first().map(Xsk::is_zero_copy),
            Rings::Packet(_) => None,
        }
    }

    /// Serves one more receive queue, of which the driver has more now. All get smaller shares of the memory
    /// that is lent to the port.
    pub fn add_queue(&mut self, arena: &mut Arena, guard: &Guard) -> Result<(), Error> {
        let Rings::Xdp(queues) = &mut self.rings else { return Ok(()) };
        let queue = queues.sockets.len() as u32;
        let share = (queues.lent / (queue + 1)).clamp(SHARE_LEAST, RING);
        let (first, copies) = (queues.sockets.first().map(Xsk::fd), false);
        queues.sockets.push(socket(arena, &self.interface, guard, queue, share, first, copies)?);
        queues.sockets.iter_mut().for_each(|socket| socket.set_share(share));
        self.losses.add_queue();
        Ok(())
    }

    /// Whether all that was to be sent is on its way.
    pub fn is_idle(&self) -> bool {
        self.waiting.is_empty()
            && match &self.rings {
                Rings::Xdp(queues) => queues.sockets.iter().all(|socket| socket.unsent() == 0),
                Rings::Packet(ring) => !ring.has_unsent(),
            }
    }

    /// Opens AF_PACKET rings; `filter` says which frames are copied to them, with so much room in front of
    /// each. The frames of the interface may be bare IP packets.
    pub fn packet(
        interface: Interface,
        frame_max: usize,
        headroom: u64,
        filter: RawFd,
        is_bare: bool,
    ) -> Result<Port, Error> {
        let ring = PacketRing::open(interface.index, frame_max, headroom, filter, is_bare)?;
        Port::new(interface, Rings::Packet(ring))
    }

    fn new(interface: Interface, rings: Rings) -> Result<Port, Error> {
        let promiscuous = packet_ring::promiscuous(interface.index)?;
        let waiting = VecDeque::with_capacity(2 * WAITING_MAX);
        let losses = Losses::new(match &rings {
            Rings::Xdp(queues) => queues.sockets.len(),
            Rings::Packet(_) => 1,
        });
        Ok(Port { interface, rings, waiting, losses, _promiscuous: promiscuous })
    }

    /// Takes received frames, at most as many as `out` has room for.
    pub fn receive(&mut self, arena: &mut Arena, now: Time, out: &mut Vec<Received>) {
        match &mut self.rings {
            Rings::Xdp(queues) => queues.receive(arena, now, out),
            Rings::Packet(ring) => ring.receive(arena, now, out),
        }
    }

    /// How many more frames may be given to [`Port::push`] before the port is behind.
    pub fn room(&self) -> usize {
        WAITING_MAX.saturating_sub(self.waiting.len())
    }

    /// Takes a frame to be sent at the next [`Port::flush`].
    pub fn push(&mut self, frame: Frame) {
        self.waiting.push_back(frame);
    }

    /// Sends what waits and takes back the memory of what was sent.
    pub fn flush(&mut self, arena: &mut Arena) -> Result<(), std::io::Error> {
        match &mut self.rings {
            Rings::Xdp(queues) => queues.flush(&mut self.waiting, arena),
            Rings::Packet(ring) if ring.is_bare() => ring.send_bare(arena, &mut self.waiting),
            Rings::Packet(ring) => {
                ring.send(arena, &mut self.waiting);
                ring.kick()
            }
        }
    }

    /// Polls the driver while taking frames if somebody set the interface to wait for that
    /// (`napi_defer_hard_irqs` and `gro_flush_timeout`): otherwise each frame would wait for the timeout.
    pub fn poll_driver_if_deferred(&mut self) {
        match &mut self.rings {
            Rings::Xdp(queues) if defers_interrupts(&self.interface.name) => {
                queues.sockets.iter_mut().for_each(Xsk::poll_driver);
            }
            _ => {}
        }
    }

    /// Counts the frames that were lost before the loop saw them; a warning if some found no buffer and it is
    /// time for one.
    pub fn look_for_losses(&mut self, now: Time) -> Option<String> {
        self.count_losses();
        self.losses.warning(&self.interface.name, now)
    }

    /// Whether the system told of all losses.
    fn count_losses(&mut self) -> bool {
        match &mut self.rings {
            Rings::Xdp(queues) => self.losses.look(queues.sockets.iter().map(Xsk::lost)),
            Rings::Packet(ring) => self.losses.look(std::iter::once(ring.lost())),
        }
    }

    /// Frames that were lost before the loop saw them, up to the last look.
    pub fn lost(&self) -> u64 {
        self.losses.frames()
    }

    /// Counts the losses for the last time; warnings about all frames that found no buffer, and about losses
    /// that the system does not tell.
    pub fn lost_in_all(&mut self) -> impl Iterator<Item = String> {
        for _ in 0..LAST_LOOKS {
            if self.count_losses() {
                break;
            }
        }
        self.losses.in_all(&self.interface.name)
    }

    /// Descriptors to wait on for frames.
    fn fds(&self) -> Vec<RawFd> {
        match &self.rings {
            Rings::Xdp(queues) => queues.sockets.iter().map(Xsk::fd).collect(),
            Rings::Packet(ring) => vec![ring.fd()],
        }
    }
}

/// The socket of a receive queue, entered for its frames. The first of a port registers the arena.
pub(crate) fn socket(
    arena: &mut Arena,
    interface: &Interface,
    guard: &Guard,
    queue: u32,
    share: u32,
    first: Option<RawFd>,
    copies: bool,
) -> Result<Xsk, Error> {
    let mut socket = Xsk::bind(arena, interface.index, queue, share, first, copies).map_err(|error| {
        let what = format!("AF_XDP refused on `{}` queue {queue}", interface.name);
        match error.raw_os_error() {
            // The arena is registered with the first socket.
            Some(libc::ENOBUFS) if first.is_none() => Error::Refused(format!(
                "{what}: {} MiB for frames are to be locked in memory, and {} KiB may be. Remedy: `ulimit -l \
                 unlimited`, the capability IPC_LOCK, or mode = \"af_packet\"",
                arena.size() >> 20,
                lockable_memory() >> 10
            )),
            _ => Error::io(what, error),
        }
    })?;
    if let Err(error) = guard.add_socket(queue, socket.fd()) {
        // No frame came to it.
        socket.take_back(arena);
        return Err(error);
    }
    Ok(socket)
}

/// Memory that this process may lock, in bytes (`RLIMIT_MEMLOCK`).
fn lockable_memory() -> u64 {
    let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: the pointer is to a limit, which the call fills.
    unsafe { libc::getrlimit(libc::RLIMIT_MEMLOCK, &mut limit) };
    limit.rlim_cur
}

/// Longest sleep while sockets with errors are passed over.
const SLEEP_WITH_ERRORS: Duration = Duration::from_millis(1);

/// Sleeps until a frame comes to any queue of any port.
pub struct Sleeper {
    polls: Vec<libc::pollfd>,
    /// Sockets that told an error: passed over until a sleep has ended for something else, as an error that
    /// stays would end each sleep at once.
    failed: Vec<usize>,
}

impl Sleeper {
    /// For these ports.
    pub fn new(ports: &[Port]) -> Sleeper {
        let poll = |fd| libc::pollfd { fd, events: libc::POLLIN, revents: 0 };
        // The first place is for a descriptor that is named when it sleeps; the kernel passes over negative
        // ones.
        let polls: Vec<_> = std::iter::once(-1).chain(ports.iter().flat_map(Port::fds)).map(poll).collect();
        Sleeper { failed: Vec::with_capacity(polls.len()), polls }
    }

    /// Sleeps until a frame comes, `also` has something to read, or a span of less than a second is over.
    pub fn sleep(&mut self, also: Option<RawFd>, span: Duration) {
        self.polls[0].fd = also.unwrap_or(-1);
        let span = self.at_most(span);
        poll(&mut self.polls, span);
        self.sort();
    }

    /// For those who sleep for several at once ([`poll`]): adds what this one waits for, and says how long it
    /// may sleep of a span.
    pub(crate) fn enlist(&self, polls: &mut Vec<libc::pollfd>, span: Duration) -> Duration {
        polls.extend_from_slice(&self.polls);
        self.at_most(span)
    }

    /// Takes what is its own from the front of what was told; whether there is anything.
    pub(crate) fn take(&mut self, told: &mut &[libc::pollfd]) -> bool {
        let (own, rest) = told.split_at(self.polls.len());
        *told = rest;
        self.polls.copy_from_slice(own);
        self.sort();
        own.iter().any(|poll| poll.revents != 0)
    }

    fn at_most(&self, span: Duration) -> Duration {
        if self.failed.is_empty() { span } else { span.min(SLEEP_WITH_ERRORS) }
    }

    /// An interface that went down leaves an error, which would end every further sleep at once.
    fn sort(&mut self) {
        let passed_over = self.failed.len();
        for (place, poll) in self.polls.iter_mut().enumerate().skip(1) {
            if poll.revents & libc::POLLERR != 0 {
                packet_ring::clear_error(poll.fd);
                poll.fd = !poll.fd;
                self.failed.push(place);
            }
        }
        if self.failed.len() == passed_over {
            self.failed.drain(..).for_each(|place| self.polls[place].fd = !self.polls[place].fd);
        }
    }
}

/// Sleeps until there is something to read for one of these, or a span of less than a second is over.
pub(crate) fn poll(polls: &mut [libc::pollfd], span: Duration) {
    let timeout = libc::timespec { tv_sec: 0, tv_nsec: span.as_nanos().min(999_999_999) as libc::c_long };
    // SAFETY: the pointer and length are those of the slice; no signal mask is passed.
    unsafe {
        libc::ppoll(polls.as_mut_ptr(), polls.len() as libc::nfds_t, &timeout, std::ptr::null());
    }
}
