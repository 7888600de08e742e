//! A FIFO out of which any packet can be taken, each drawn with the same probability, in constant time.

use weir_aqm::Packet;

/// A stored packet.
pub(super) struct Slot<T> {
    pub packet: Packet,
    pub marked: bool,
    pub item: T,
    /// Who arrived before it and after it, by their numbers.
    before: Option<u32>,
    behind: Option<u32>,
}

/// Packets lie without gaps, in any order, so that a number below their count draws one; links say in which
/// order they arrived.
pub(super) struct Line<T> {
    slots: Vec<Slot<T>>,
    head: Option<u32>,
    tail: Option<u32>,
}

impl<T> Line<T> {
    /// With memory for so many packets; more are allocated when they come.
    pub fn with_capacity(packets: usize) -> Line<T> {
        Line { slots: Vec::with_capacity(packets), head: None, tail: None }
    }

    pub fn len(&self) -> u32 {
        self.slots.len() as u32
    }

    pub fn push(&mut self, packet: Packet, marked: bool, item: T) {
        let number = self.len();
        let before = self.tail.replace(number);
        self.slots.push(Slot { packet, marked, item, before, behind: None });
        match before {
            Some(before) => self.slots[before as usize].behind = Some(number),
            None => self.head = Some(number),
        }
    }

    /// The number of the packet that arrived first.
    pub fn head(&self) -> Option<u32> {
        self.head
    }

    /// The packet of a number below their count.
    pub fn slot(&self, number: u32) -> &Slot<T> {
        &self.slots[number as usize]
    }

    /// Takes a packet out. That with the highest number gets its number.
    pub fn take(&mut self, number: u32) -> Slot<T> {
        let Slot { before, behind, .. } = self.slots[number as usize];
        self.join(before, behind);
        let taken = self.slots.swap_remove(number as usize);
        if let Some(&Slot { before, behind, .. }) = self.slots.get(number as usize) {
            self.join(before, Some(number));
            self.join(Some(number), behind);
        }
        taken
    }

    /// Makes these two neighbours; none is what lies before the head and behind the tail.
    fn join(&mut self, before: Option<u32>, behind: Option<u32>) {
        match before {
            Some(number) => self.slots[number as usize].behind = behind,
            None => self.head = behind,
        }
        match behind {
            Some(number) => self.slots[number as usize].before = before,
            None => self.tail = before,
        }
    }
}
