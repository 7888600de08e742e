//! Memory for the packets of many FIFOs: slots that are linked, and used again.

use std::num::NonZeroU32;
use weir_aqm::Packet;

/// Number of a slot; starts with 1 so that "none" costs no space.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Link(NonZeroU32);

impl Link {
    fn of(index: usize) -> Link {
        let number = u32::try_from(index + 1).ok().and_then(NonZeroU32::new);
        Link(number.expect("limits are below 2^32 packets"))
    }

    fn index(self) -> usize {
        self.0.get() as usize - 1
    }
}

/// A stored packet.
#[derive(Clone, Copy, Debug)]
pub(super) struct Slot<T> {
    pub packet: Packet,
    pub marked: bool,
    pub item: T,
    next: Option<Link>,
}

/// A FIFO in the pool.
#[derive(Clone, Copy, Default, Debug)]
pub(super) struct Chain {
    head: Option<Link>,
    /// The slot stored last; none that counts while there is no head.
    tail: Option<Link>,
}

/// Slots of all FIFOs.
pub(super) struct Pool<T> {
    slots: Vec<Slot<T>>,
    free: Option<Link>,
}

impl<T: Copy> Pool<T> {
    /// With memory for so many packets; more are allocated when they come.
    pub fn with_capacity(packets: usize) -> Pool<T> {
        Pool { slots: Vec::with_capacity(packets), free: None }
    }

    /// Adds a packet to the end of a FIFO.
    #[inline]
    pub fn push(&mut self, chain: &mut Chain, packet: Packet, marked: bool, item: T) {
        let slot = Slot { packet, marked, item, next: None };
        let link = match self.free {
            Some(link) => {
                let old = &mut self.slots[link.index()];
                self.free = old.next;
                *old = slot;
                link
            }
            None => {
                self.slots.push(slot);
                Link::of(self.slots.len() - 1)
            }
        };
        match chain.tail {
            Some(tail) if chain.head.is_some() => self.slots[tail.index()].next = Some(link),
            _ => chain.head = Some(link),
        }
        chain.tail = Some(link);
    }

    /// The first packet of a FIFO.
    #[inline]
    pub fn head(&self, chain: &Chain) -> Option<&Slot<T>> {
        chain.head.map(|link| &self.slots[link.index()])
    }

    /// The last two packets of a FIFO, the last one first; `None` if it has fewer, or many more than `most`:
    /// all are gone through.
    pub fn last_two(&mut self, chain: &Chain, most: usize) -> Option<[&mut Slot<T>; 2]> {
        let tail = chain.tail.filter(|_| chain.head.is_some())?;
        let mut before = chain.head?;
        for _ in 0..most {
            let next = self.slots[before.index()].next?;
            if next == tail {
                return self.slots.get_disjoint_mut([tail.index(), before.index()]).ok();
            }
            before = next;
        }
        None
    }

    /// Takes the first packet of a FIFO; its slot is used again by the next one that is stored.
    #[inline]
    pub fn pop(&mut self, chain: &mut Chain) -> Option<&Slot<T>> {
        let link = chain.head?;
        let slot = &mut self.slots[link.index()];
        chain.head = slot.next;
        slot.next = self.free;
        self.free = Some(link);
        Some(slot)
    }
}
