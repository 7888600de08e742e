//! Ports that lead nowhere: for tests and measurements of the packet path without interfaces.

use super::control::{Answer, Command};
use super::handle::Reach;
use super::io::Io;
use super::path::{PlaneEvent, UserPlane};
use weir_dataplane::{Arena, Error, Frame, HEADROOM_MIN};
use weir_units::Time;

/// Size of a chunk of memory.
const CHUNK: u32 = 2048;

/// Frames that were sent are kept, in order.
pub struct Memory {
    arena: Arena,
    /// What was sent, and at which port.
    pub sent: Vec<(usize, Frame)>,
    /// How many more frames each port takes.
    pub room: [usize; super::queueing::timing_wheel::PORTS_MAX],
}

impl Memory {
    /// Memory for so many frames, and ports that take everything.
    pub fn new(frames: u32) -> Result<Memory, Error> {
        let room = [usize::MAX; super::queueing::timing_wheel::PORTS_MAX];
        Ok(Memory { arena: Arena::new(CHUNK, frames)?, sent: Vec::with_capacity(frames as usize), room })
    }

    /// A frame with these bytes, as if it had been received.
    pub fn frame(&mut self, bytes: &[u8]) -> Frame {
        let frame = self.take(bytes.len()).expect("there are as many frames as a test needs");
        self.bytes(frame).copy_from_slice(bytes);
        frame
    }
}

impl Io for Memory {
    fn bytes(&mut self, frame: Frame) -> &mut [u8] {
        self.arena.bytes(frame)
    }

    fn take(&mut self, len: usize) -> Option<Frame> {
        let addr = self.arena.take()? + u64::from(HEADROOM_MIN);
        Some(Frame { addr, len: len as u32 })
    }

    fn give(&mut self, frame: Frame) {
        self.arena.give(frame.addr);
    }

    fn room(&self, port: usize) -> usize {
        self.room[port]
    }

    #[inline(always)]
    fn push(&mut self, port: usize, frame: Frame) {
        self.room[port] = self.room[port].saturating_sub(1);
        self.sent.push((port, frame));
    }
}

/// A packet path and its control in one place, at a time that whoever uses it sets.
pub struct Here {
    /// The packet path.
    pub plane: UserPlane,
    /// Its ports.
    pub memory: Memory,
    /// The time.
    pub now: Time,
}

impl Reach for Here {
    fn ask(&mut self, command: Command) -> Option<Answer> {
        Some(self.plane.apply(command, self.now, &mut self.memory))
    }

    fn happened(&mut self) -> Option<PlaneEvent> {
        self.plane.happened()
    }
}
