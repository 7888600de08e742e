//! End hosts: the two sides of each connection.
//!
//! The sides lie in arrays of their own, as an acknowledgement touches one and a data packet the other.

use crate::alarm::Alarm;
use crate::application::{Application, DatagramSender, VideoCall};
use crate::dice::Dice;
use crate::packet::ConnectionId;
use crate::service::NEVER;
use weir_measure::{Frames, Stream, Window};
use weir_tcp::{Receiver, Sender};
use weir_units::{Duration, Time};

/// The sending side of a connection.
pub struct Outbound {
    /// What sends.
    pub transmitter: Transmitter,
    /// What runs on top of it; `None` for one that has all its data from the start.
    pub application: Option<Box<Application>>,
    /// When the transmitter is to be called.
    pub alarm: Alarm,
    /// Number of the flow.
    pub flow: u32,
    /// What queues tell flows and hosts apart by.
    pub identity: Identity,
    /// Bytes of headers of a packet with data.
    pub header: u32,
    /// The first link of the route and the number that follow it; `None` without links.
    pub entrance: Option<(u32, u16)>,
    /// Counts the connections of this number.
    pub generation: u16,
    /// Whether the answer to its SYN is awaited.
    pub is_opening: bool,
}

/// What queues tell flows and hosts apart by.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Identity {
    /// Hash of addresses and ports.
    pub tuple: u32,
    /// The flows of one `[[flows]]` table are those of one host at each end.
    pub host: u32,
}

/// What sends on a connection. It lies in the array of sending sides, as nearly all connections are
/// transports.
#[allow(clippy::large_enum_variant, reason = "a closed connection is reused soon")]
pub enum Transmitter {
    /// Nothing: the connection is closed.
    Closed,
    /// A transport.
    Transport(Sender),
    /// Datagrams.
    Datagrams(Box<DatagramSender>),
    /// Real-time video: both of its ends, as reports are looked up and not carried.
    Realtime(Box<VideoCall>),
}

/// What receives on a connection.
#[allow(clippy::large_enum_variant, reason = "a closed connection is reused soon")]
pub enum Sink {
    /// Nothing: the connection is closed.
    Closed,
    /// A transport.
    Transport(Receiver),
    /// Datagrams, whose payload is counted.
    Datagrams(u64),
    /// Datagrams of an application, with what became of them.
    Stream(Box<(Stream, u64)>),
    /// Packets of real-time video, with what became of its frames.
    Frames(Box<(Frames, u64)>),
}

impl Sink {
    /// Payload received so far, in order.
    pub fn received(&self) -> u64 {
        match self {
            Sink::Closed => 0,
            Sink::Transport(receiver) => receiver.received_bytes(),
            Sink::Datagrams(bytes) => *bytes,
            Sink::Stream(stream) => stream.1,
            Sink::Frames(frames) => frames.1,
        }
    }
}

/// The receiving side of a connection.
pub struct Inbound {
    /// What receives.
    pub sink: Sink,
    /// When it is to be called.
    pub alarm: Alarm,
    /// Number of the flow.
    pub flow: u32,
    /// Counts the connections of this number.
    pub generation: u16,
    /// The first link of the way back and the number that follow it; `None` without links.
    pub entrance: Option<(u32, u16)>,
    /// Delay behind the last link.
    pub delay: Duration,
    /// Behind the last link of the way back.
    pub back: BackDelay,
    /// When the connection was opened.
    pub opened: Time,
    /// What was received when.
    pub progress: Progress,
}

/// The end of the way back: a delay and the randomness of a host, which keep the order.
#[derive(Clone, Debug)]
pub struct BackDelay {
    /// The constant part.
    pub delay: Duration,
    /// Most of the random part.
    pub jitter: Duration,
    /// Where it comes from.
    pub dice: Dice,
    /// The last acknowledgement's arrival.
    pub last: Time,
}

impl BackDelay {
    /// When an acknowledgement that leaves the last link then reaches the sender.
    #[inline]
    pub fn arrival(&mut self, at: Time) -> Time {
        let at = at + self.delay;
        if self.jitter > Duration::ZERO {
            self.last = self.last.max(at + self.dice.up_to(self.jitter));
            return self.last;
        }
        at
    }
}

/// What was received in the measured part, and when all of it was.
#[derive(Clone, Copy, Debug)]
pub struct Progress {
    /// The edge of the measured part that comes next; [`NEVER`] behind the last.
    edge: Time,
    /// Received when the measured part began, and in it once it is over; zero before.
    counted: u64,
    /// Bytes that make the transfer complete; more than there can be without an end.
    wanted: u64,
    /// When they had arrived; [`NEVER`] before.
    completed: Time,
}

impl Progress {
    /// Of a connection that carries `wanted` bytes, or goes on.
    pub fn new(window: Window, wanted: Option<u64>) -> Progress {
        let wanted = wanted.unwrap_or(u64::MAX);
        Progress { edge: window.from, counted: 0, wanted, completed: NEVER }
    }

    /// So many bytes make the next part complete.
    pub fn expect(&mut self, wanted: u64) {
        self.wanted = wanted;
    }

    /// A packet arrived at `at`; `before` and `after` it, so many bytes had been received. Returns whether
    /// what was wanted is complete with it.
    #[inline]
    pub fn note(&mut self, window: &Window, at: Time, before: u64, after: u64) -> bool {
        if at >= self.edge {
            self.pass_edge(window, at, before);
        }
        let is_complete = after >= self.wanted;
        if is_complete {
            self.completed = at;
            self.wanted = u64::MAX;
        }
        is_complete
    }

    #[cold]
    fn pass_edge(&mut self, window: &Window, at: Time, before: u64) {
        if self.edge == window.from {
            self.counted = before;
        }
        self.edge = window.until;
        if at >= window.until {
            self.counted = before - self.counted;
            self.edge = NEVER;
        }
    }

    /// Bytes received in the measured part, of `received` in all.
    pub fn measured(&self, window: &Window, received: u64) -> u64 {
        match self.edge {
            NEVER => self.counted,
            edge if edge == window.from => 0,
            _ => received - self.counted,
        }
    }

    /// When the transfer was complete.
    pub fn completed(&self) -> Option<Time> {
        (self.completed != NEVER).then_some(self.completed)
    }
}

/// Connections whose state stays in a cache of the second level.
const CACHED: usize = 256;

/// All connections.
#[derive(Default)]
pub struct Hosts {
    /// Sending sides by number.
    pub outbound: Vec<Outbound>,
    /// Receiving sides by number.
    pub inbound: Vec<Inbound>,
    free: Vec<ConnectionId>,
}

impl Hosts {
    /// Stores both sides of a new connection and returns its number; the generation is set here.
    pub fn open(&mut self, mut outbound: Outbound, mut inbound: Inbound) -> (ConnectionId, u16) {
        if let Some(id) = self.free.pop() {
            let generation = self.outbound[id as usize].generation.wrapping_add(1);
            (outbound.generation, inbound.generation) = (generation, generation);
            self.outbound[id as usize] = outbound;
            self.inbound[id as usize] = inbound;
            return (id, generation);
        }
        (outbound.generation, inbound.generation) = (0, 0);
        self.outbound.push(outbound);
        self.inbound.push(inbound);
        (self.outbound.len() as ConnectionId - 1, 0)
    }

    /// Makes room for so many connections and not more.
    pub fn expect(&mut self, connections: usize) {
        self.outbound.reserve_exact(connections);
        self.inbound.reserve_exact(connections);
    }

    /// Frees the number; what is still on its way to the connection will find it closed.
    pub fn close(&mut self, id: ConnectionId) -> (Transmitter, Sink) {
        self.free.push(id);
        let (out, inb) = (&mut self.outbound[id as usize], &mut self.inbound[id as usize]);
        out.application = None;
        out.is_opening = false;
        let transmitter = std::mem::replace(&mut out.transmitter, Transmitter::Closed);
        (transmitter, std::mem::replace(&mut inb.sink, Sink::Closed))
    }

    /// Whether there are more than the cache holds, so that asking for them early pays.
    #[inline]
    pub fn are_many(&self) -> bool {
        self.outbound.len() > CACHED
    }

    /// Whether a connection is open.
    pub fn is_open(&self, id: ConnectionId) -> bool {
        !matches!(self.outbound[id as usize].transmitter, Transmitter::Closed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ms(ms: u64) -> Time {
        Time::ZERO + Duration::from_millis(ms)
    }

    #[test]
    fn acknowledgements_keep_their_order_in_the_host() {
        let (delay, jitter) = (Duration::from_millis(5), Duration::from_micros(10));
        let mut back = BackDelay { delay, jitter, dice: Dice::of(1, "b"), last: Time::ZERO };
        let mut before = Time::ZERO;
        for n in 0..10_000 {
            let at = Time::from_nanos(500 * n);
            let out = back.arrival(at);
            assert!(before <= out && at + delay <= out && out < at + delay + jitter);
            before = out;
        }
    }

    #[test]
    fn a_connection_is_small() {
        let (out, inb) = (size_of::<Outbound>(), size_of::<Inbound>());
        let flow = size_of::<crate::flow::Flow>();
        // Without the transport itself, which has a limit of its own.
        let around = out + inb + flow - size_of::<Sender>() - size_of::<Receiver>();
        assert!(around <= 290, "{out} + {inb} + {flow}: {around} around the transport");
    }

    #[test]
    fn only_what_arrives_in_the_measured_part_counts() {
        let window = Window { from: ms(10), until: ms(20) };
        let mut p = Progress::new(window, Some(500));
        p.note(&window, ms(5), 0, 100);
        assert_eq!(p.measured(&window, 100), 0);
        p.note(&window, ms(10), 100, 200);
        p.note(&window, ms(19), 200, 300);
        assert_eq!(p.measured(&window, 300), 200);
        p.note(&window, ms(20), 300, 400);
        p.note(&window, ms(25), 400, 500);
        assert_eq!((p.measured(&window, 500), p.completed()), (200, Some(ms(25))));
        // One packet that jumps over the measured part.
        let mut p = Progress::new(window, None);
        p.note(&window, ms(5), 0, 100);
        p.note(&window, ms(30), 100, 200);
        assert_eq!((p.measured(&window, 200), p.completed()), (0, None));
    }
}
