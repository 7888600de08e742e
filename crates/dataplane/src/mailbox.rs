//! A letter to the packet loop and its way back: at most one at a time, without locks.
//!
//! The loop neither allocates nor frees: it changes the letter in place and gives it back, and who sent it
//! drops it. A turn of the loop without a letter costs one load.

use crate::sync::Arc;
use crate::sync::atomic::{AtomicPtr, Ordering};
use std::ptr::null_mut;

/// The letter on its way there, and back; at most one of them is set.
struct Slots<T> {
    there: AtomicPtr<T>,
    back: AtomicPtr<T>,
}

impl<T> Drop for Slots<T> {
    fn drop(&mut self) {
        for slot in [&self.there, &self.back] {
            // What was not fetched goes with the last of both sides.
            drop(taken(slot.swap(null_mut(), Ordering::Acquire)));
        }
    }
}

/// Takes over what a slot pointed to.
fn taken<T>(letter: *mut T) -> Option<Box<T>> {
    // SAFETY: slots hold what `Box::into_raw` gave, and whoever swaps a pointer out is the only one to have
    // it.
    (!letter.is_null()).then(|| unsafe { Box::from_raw(letter) })
}

/// Who sends letters.
pub struct Sender<T> {
    slots: Arc<Slots<T>>,
    /// Whether one is under way.
    is_waiting: bool,
}

/// Who opens them.
pub struct Receiver<T> {
    slots: Arc<Slots<T>>,
}

/// Both ends of an empty mailbox.
pub fn mailbox<T: Send>() -> (Sender<T>, Receiver<T>) {
    let slots = Arc::new(Slots { there: AtomicPtr::new(null_mut()), back: AtomicPtr::new(null_mut()) });
    (Sender { slots: slots.clone(), is_waiting: false }, Receiver { slots })
}

// SAFETY: a letter is owned by one side at a time, and handed over by a swap with release and acquire.
unsafe impl<T: Send> Send for Sender<T> {}
// SAFETY: as above.
unsafe impl<T: Send> Send for Receiver<T> {}

impl<T: Send> Sender<T> {
    /// Sends a letter, or gives it back where the one before was not fetched yet.
    pub fn send(&mut self, letter: Box<T>) -> Result<(), Box<T>> {
        if self.is_waiting {
            return Err(letter);
        }
        self.is_waiting = true;
        // Release: the loop sees what is in the letter.
        self.slots.there.swap(Box::into_raw(letter), Ordering::AcqRel);
        Ok(())
    }

    /// The letter that was opened, if it is back.
    pub fn fetch(&mut self) -> Option<Box<T>> {
        let letter = taken(self.slots.back.swap(null_mut(), Ordering::AcqRel));
        self.is_waiting &= letter.is_none();
        letter
    }

    /// Takes a letter out that was not opened: from here on it never will be. `None` where it was, or is
    /// being.
    pub fn withdraw(&mut self) -> Option<Box<T>> {
        let letter = taken(self.slots.there.swap(null_mut(), Ordering::AcqRel));
        self.is_waiting &= letter.is_none();
        letter
    }
}

impl<T: Send> Receiver<T> {
    /// Opens the letter that came, if one did, and sends it back.
    #[inline]
    pub fn open(&mut self, read: impl FnOnce(&mut T)) {
        // Whether there is one is looked at in each turn; its content is not touched before the swap.
        if !self.slots.there.load(Ordering::Relaxed).is_null() {
            self.open_letter(read);
        }
    }

    #[cold]
    fn open_letter(&mut self, read: impl FnOnce(&mut T)) {
        let letter = self.slots.there.swap(null_mut(), Ordering::AcqRel);
        if letter.is_null() {
            // It was withdrawn meanwhile.
            return;
        }
        // SAFETY: it was swapped out, so that this thread alone has it until it is handed back.
        read(unsafe { &mut *letter });
        self.slots.back.swap(letter, Ordering::AcqRel);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_letter_comes_back_changed_and_there_is_one_at_a_time() {
        let (mut sender, mut receiver) = mailbox();
        receiver.open(|_: &mut u32| panic!("there is none"));
        sender.send(Box::new(1)).unwrap();
        assert_eq!(sender.send(Box::new(2)), Err(Box::new(2)));
        assert_eq!(sender.fetch(), None);
        receiver.open(|n| *n += 10);
        assert_eq!(sender.send(Box::new(2)), Err(Box::new(2)), "the first was not fetched");
        assert_eq!(sender.fetch(), Some(Box::new(11)));
        sender.send(Box::new(2)).unwrap();
        assert_eq!(sender.withdraw(), Some(Box::new(2)));
        receiver.open(|_| panic!("it was withdrawn"));
        sender.send(Box::new(3)).unwrap();
        receiver.open(|_| {});
        assert_eq!(sender.withdraw(), None, "it was opened");
        assert_eq!(sender.fetch(), Some(Box::new(3)));
    }

    #[test]
    fn what_was_not_fetched_is_dropped_with_the_mailbox() {
        let letter = std::sync::Arc::new(());
        for is_opened in [false, true] {
            let (mut sender, mut receiver) = mailbox();
            sender.send(Box::new(letter.clone())).unwrap();
            if is_opened {
                receiver.open(|_| {});
            }
            drop(receiver);
            drop(sender);
            assert_eq!(std::sync::Arc::strong_count(&letter), 1);
        }
    }
}
