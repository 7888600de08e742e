//! What the packet path needs of whoever has the ports.

use weir_dataplane::Frame;

/// Ports, and the memory that frames live in.
pub trait Io {
    /// The bytes of a frame. There is room in front of it for the headers of a tunnel.
    fn bytes(&mut self, frame: Frame) -> &mut [u8];
    /// A new frame of a length, if there is memory.
    fn take(&mut self, len: usize) -> Option<Frame>;
    /// A frame is not needed any more.
    fn give(&mut self, frame: Frame);
    /// How many more frames a port takes.
    fn room(&self, port: usize) -> usize;
    /// Sends a frame.
    fn push(&mut self, port: usize, frame: Frame);
}

/// A frame with more in front of it.
#[inline]
pub fn longer(frame: Frame, by: usize) -> Frame {
    Frame { addr: frame.addr - by as u64, len: frame.len + by as u32 }
}

/// A frame without its first bytes.
#[inline]
pub fn shorter(frame: Frame, by: usize) -> Frame {
    Frame { addr: frame.addr + by as u64, len: frame.len - by as u32 }
}

/// There are no ports, and no frames.
pub(super) struct Nowhere;

impl Io for Nowhere {
    fn bytes(&mut self, _frame: Frame) -> &mut [u8] {
        &mut []
    }

    fn take(&mut self, _len: usize) -> Option<Frame> {
        None
    }

    fn give(&mut self, _frame: Frame) {}

    fn room(&self, _port: usize) -> usize {
        0
    }

    fn push(&mut self, _port: usize, _frame: Frame) {}
}
