//! A ring of values under consecutive sequence numbers. It doubles when full and owns nothing when released.

/// Values for the sequence numbers from some base up to some end; both are the caller's.
#[derive(Clone, Debug)]
pub(crate) struct Ring<T> {
    slots: Box<[T]>,
}

const FIRST_CAPACITY: usize = 16;

impl<T: Copy + Default> Ring<T> {
    /// Without memory.
    pub fn new() -> Ring<T> {
        Ring { slots: Box::default() }
    }

    /// The value under `seq`, which must have been put.
    #[inline]
    pub fn get(&self, seq: u64) -> &T {
        &self.slots[seq as usize & (self.slots.len().wrapping_sub(1))]
    }

    /// The place of `seq`, whatever lies there.
    #[inline]
    pub fn place(&self, seq: u64) -> Option<&T> {
        self.slots.get(seq as usize & (self.slots.len().wrapping_sub(1)))
    }

    /// The value under `seq`, which must have been put.
    #[inline]
    pub fn get_mut(&mut self, seq: u64) -> &mut T {
        let mask = self.slots.len().wrapping_sub(1);
        &mut self.slots[seq as usize & mask]
    }

    /// Stores under `seq`, while everything from `base` on is still needed.
    #[inline]
    pub fn put(&mut self, base: u64, seq: u64, value: T) {
        if seq - base >= self.slots.len() as u64 {
            self.grow(base, seq);
        }
        *self.get_mut(seq) = value;
    }

    #[cold]
    fn grow(&mut self, base: u64, seq: u64) {
        let capacity = ((seq - base + 1) as usize).next_power_of_two().max(FIRST_CAPACITY);
        let mut slots = vec![T::default(); capacity].into_boxed_slice();
        if !self.slots.is_empty() {
            for s in base..seq {
                slots[s as usize & (capacity - 1)] = *self.get(s);
            }
        }
        self.slots = slots;
    }

    /// Gives its memory back.
    pub fn release(&mut self) {
        self.slots = Box::default();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn growing_keeps_what_is_needed() {
        let mut ring = Ring::new();
        for seq in 1000..5000u64 {
            ring.put(1000, seq, seq);
        }
        assert!((1000..5000).all(|seq| *ring.get(seq) == seq));
        ring.release();
        ring.put(5000, 5000, 7);
        assert_eq!(*ring.get(5000), 7);
    }
}
