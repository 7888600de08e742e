//! Every interleaving of a writer and a reader.

use loom::cell::UnsafeCell;
use loom::sync::Arc;
use loom::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use loom::thread;
use weir_proofs::heart::Heart;
use weir_proofs::link_clock::LinkClock;
use weir_proofs::mailbox::mailbox;
use weir_proofs::ring;
use weir_units::{Duration, Time};

fn at(us: u64) -> Time {
    Time::from_nanos(1_000_000_000 + us * 1000)
}

struct Ring {
    produced: AtomicU32,
    consumed: AtomicU32,
    entries: [UnsafeCell<u32>; 2],
}

/// Entries are read as they were written, once each and in order, and none is overwritten before it was read:
/// loom fails on an access that the other side's is not ordered with. The indices begin where they wrap.
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

/// A page as the kernel gives it.
fn page() -> Heart {
    let zero = || AtomicU64::new(0);
    Heart { beat_ns: zero(), after_ns: zero(), bypassed: zero() }
}

/// `is_fresh` of `port.bpf.c`.
fn is_fresh(heart: &Heart, now: Time) -> bool {
    let age = now.as_nanos().wrapping_sub(heart.beat_ns.load(Ordering::Relaxed)) as i64;
    age < heart.after_ns.load(Ordering::Relaxed) as i64
}

/// A processor of the kernel that handles frames while the loop turns, ends in order, and says so: frames go
/// to the loop, and from one of them on past it, never back to a loop that has ended. Whoever turned and was
/// not late is not passed by.
#[test]
fn frames_go_to_the_loop_until_it_ends_and_never_back() {
    loom::model(|| {
        let heart = Arc::new(page());
        heart.set_after(Duration::from_micros(100));
        heart.beat(at(0));
        let shared = heart.clone();
        let processor = thread::spawn(move || {
            let seen = [10, 90, 130].map(|now| {
                let is_loops = is_fresh(&shared, at(now));
                if !is_loops {
                    shared.bypassed.fetch_add(1, Ordering::Relaxed);
                }
                is_loops
            });
            assert!(seen.windows(2).all(|two| two[0] || !two[1]), "{seen:?}");
            seen.iter().filter(|is_loops| !**is_loops).count() as u64
        });
        heart.beat(at(60));
        heart.stop();
        let told = heart.bypassed();
        let passed = processor.join().unwrap();
        assert!(told <= passed && heart.bypassed() == passed, "none is counted twice or forgotten");
    });
}

/// While a loop turns in time no processor sees it dead, whichever beat it reads; two of them count what
/// another loop left.
#[test]
fn a_loop_that_turns_in_time_is_alive_to_every_processor() {
    loom::model(|| {
        let heart = Arc::new(page());
        heart.set_after(Duration::from_micros(100));
        heart.beat(at(0));
        let processors: Vec<_> = (0..2)
            .map(|_| {
                let shared = heart.clone();
                thread::spawn(move || {
                    // A beat may be ahead of a clock that was read on another processor.
                    assert!(is_fresh(&shared, at(20)));
                    shared.bypassed.fetch_add(1, Ordering::Relaxed);
                })
            })
            .collect();
        heart.beat(at(50));
        processors.into_iter().for_each(|processor| processor.join().unwrap());
        assert_eq!(heart.bypassed(), 2);
    });
}

/// Whoever reads link time while the loop tells of stops sees it as it was before or after each turn, never
/// in between. It runs backwards by no more than a gap that is no stop: as far as it may run ahead of the
/// loop.
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

/// A letter is opened once or withdrawn, never both, and is one side's at a time: loom fails on an access
/// that the other side's is not ordered with.
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
