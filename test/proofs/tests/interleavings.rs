//! Every interleaving of a writer and a reader.

use loom::cell::UnsafeCell;
use loom::sync::Arc;
use loom::sync::atomic::AtomicU32;
use loom::thread;
use weir_proofs::link_clock::LinkClock;
use weir_proofs::mailbox::mailbox;
use weir_proofs::ring;
use weir_units::Time;

fn at(us: u64) -> Time {
    Time::from_nanos(1_000_000_000 + us * 1000)
}

struct Ring {
    produced: AtomicU32,
    consumed: AtomicU32,
    entries: [UnsafeCell<u32>; 2],
}

/// Entries are read as they were written, once each and in order, and none is overwritten before it was read: loom fails on
/// an access that the other side's is not ordered with. The indices begin where they wrap.
#[test]
fn an_entry_belongs_to_one_side_at_a_time() {
    const FIRST: u32 = u32::MAX;
    loom::model(|| {
        let ring = Arc::new(Ring {
            produced: AtomicU32::new(FIRST),
            consumed: AtomicU32::new(FIRST),
            entries: [UnsafeCell::new(0), UnsafeCell::new(0)],
        });
        let theirs = ring.clone();
        let producer = thread::spawn(move || {
            let mut at = FIRST;
            for value in 1..=3 {
                while ring::pending(&theirs.consumed, at) >= 2 {
                    thread::yield_now();
                }
                // SAFETY: the entry is the producer's, which is what is proved.
                theirs.entries[(at & 1) as usize].with_mut(|entry| unsafe { *entry = value });
                at = at.wrapping_add(1);
                ring::hand_over(&theirs.produced, at);
            }
        });
        let mut at = FIRST;
        for wanted in 1..=3 {
            while ring::available(&ring.produced, at) == 0 {
                thread::yield_now();
            }
            // SAFETY: the entry is the consumer's, which is what is proved.
            let value = ring.entries[(at & 1) as usize].with(|entry| unsafe { *entry });
            assert_eq!(value, wanted);
            at = at.wrapping_add(1);
            ring::hand_over(&ring.consumed, at);
        }
        producer.join().unwrap();
    });
}

/// Whoever reads link time while the loop tells of stops sees it as it was before or after each turn, never in between. It runs
/// backwards by no more than a gap that is no stop: as far as it may run ahead of the loop.
#[test]
fn another_thread_reads_link_time_as_of_a_turn() {
    loom::model(|| {
        let mut link = LinkClock::with_room(at(0), true, 3);
        let clock = link.for_others(at(0));
        let reader = thread::spawn(move || {
            let [first, second] = [450, 6450].map(|moment| clock.of(at(moment)));
            // Before the stop that ends at 6400 is known, time stands still; afterwards 6000 us are left out.
            assert!(first == at(0) || first == at(400) || first == at(450), "{first:?}");
            assert!(second >= at(0) && second <= at(450), "{second:?}");
            assert!(second + weir_units::Duration::from_micros(500) >= first, "{first:?} {second:?}");
        });
        link.turn(at(400));
        link.turn(at(6400));
        reader.join().unwrap();
    });
}

/// A letter is opened once or withdrawn, never both, and is one side's at a time: loom fails on an access that the other side's
/// is not ordered with.
#[test]
fn a_letter_is_opened_or_withdrawn() {
    loom::model(|| {
        let (mut sender, mut receiver) = mailbox();
        let theirs = thread::spawn(move || {
            let mut opened = 0;
            for _ in 0..2 {
                receiver.open(|letter: &mut UnsafeCell<u32>| {
                    // SAFETY: the letter is the reader's while it is open, which is what is proved.
                    letter.with_mut(|value| unsafe { *value += 10 });
                    opened += 1;
                });
            }
            opened
        });
        assert!(sender.send(Box::new(UnsafeCell::new(1))).is_ok());
        // SAFETY: whoever fetched or withdrew a letter is alone with it, which is what is proved.
        let value = |letter: Box<UnsafeCell<u32>>| letter.with(|value| unsafe { *value });
        let early = sender.fetch().map(value);
        let withdrawn = sender.withdraw().map(value);
        let opened = theirs.join().unwrap();
        let late = sender.fetch().map(value);
        match (early, withdrawn, late) {
            (None, Some(1), None) => assert_eq!(opened, 0),
            (Some(11), None, None) | (None, None, Some(11)) => assert_eq!(opened, 1),
            other => panic!("{other:?}"),
        }
    });
}
