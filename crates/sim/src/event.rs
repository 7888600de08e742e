//! What can happen, apart from a link becoming free.

use crate::packet::{ConnectionId, Item, LightAck, Opening};
use crate::wheel::Compact;

/// Something that happens at a time.
#[derive(Clone, Copy, Debug)]
pub enum Event {
    /// An acknowledgement reaches the sending side.
    Acknowledge {
        /// Of which connection.
        connection: ConnectionId,
        /// Tells those of an earlier connection of that number.
        generation: u16,
        /// What it says.
        ack: LightAck,
    },
    /// The answer to the SYN of a connection reaches the sending side.
    Opened {
        /// Of which connection.
        connection: ConnectionId,
        /// Tells those of an earlier connection of that number.
        generation: u16,
        /// What it says.
        answer: Opening,
    },
    /// A packet reaches the next link of its route.
    Enter(Item),
    /// A packet arrives behind a link where others may have overtaken it.
    Arrive(Item),
    /// Something that is small and may lie far ahead.
    Rare(Rare),
}

/// What often waits for long, and so is kept small.
#[derive(Clone, Copy, Debug)]
pub enum Rare {
    /// A timer of a connection.
    Timer(Timer),
    /// The application of a connection acts, or a datagram leaves.
    Act {
        /// Of which connection.
        connection: ConnectionId,
        /// Tells events of an earlier connection of that number.
        generation: u16,
    },
    /// A SYN was not answered in time.
    Unanswered {
        /// Of which connection.
        connection: ConnectionId,
        /// Tells those of an earlier connection of that number.
        generation: u16,
        /// How many were sent before it.
        tries: u8,
    },
    /// A flow starts, or its next transfer.
    Start(u32),
    /// A flow stops.
    Stop(u32),
    /// A link's rate changes; the number counts the changes of all links.
    Step(u32),
    /// The timer of a link's sensor.
    Probe(u32),
    /// The counters of a link's queue are read, by which it is steered.
    Poll(u32),
    /// The measured part begins.
    MeasureFrom,
    /// The measured part ends.
    MeasureUntil,
    /// A sampling period ends.
    Sample,
}

impl Compact for Event {
    type Small = Rare;

    #[inline]
    fn small(self) -> Option<Rare> {
        match self {
            Event::Rare(rare) => Some(rare),
            Event::Acknowledge { .. } | Event::Opened { .. } | Event::Enter(_) | Event::Arrive(_) => None,
        }
    }

    #[inline]
    fn from_small(rare: Rare) -> Event {
        Event::Rare(rare)
    }
}

/// A timer of a connection.
#[derive(Clone, Copy, Debug)]
pub struct Timer {
    /// Whose.
    pub connection: ConnectionId,
    /// Tells timers of an earlier connection of that number.
    pub generation: u16,
    /// Which side's.
    pub side: Side,
    /// Which of the side's two.
    pub hand: TimerSlot,
}

/// A side of a connection.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Side {
    /// The one that sends data.
    Sender,
    /// The one that receives it.
    Receiver,
}

/// A hand of an alarm.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum TimerSlot {
    /// For what comes soon, such as the next paced segment.
    Near,
    /// For what is mostly put off, such as a retransmission timeout.
    Far,
}
