//! A process that takes over from a living one. Each runs on a thread of the machine, and one of both has the
//! word at a time: the one that takes over while the other sleeps, until it sleeps itself.

use crate::calls;
use crate::kernel::Kernel;
use std::any::Any;
use std::cell::RefCell;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread::JoinHandle;
use weir_dataplane::{Chores, Error, Handle, Loop, Setup};

/// What came of opening.
pub type Opened = Result<Result<(Loop, Handle, Option<Chores>), Error>, Box<dyn Any + Send>>;

/// Who has the word, and whether the rival is done.
#[derive(Default)]
struct Word {
    is_rivals: bool,
    is_done: bool,
}

#[derive(Default)]
struct Baton {
    word: Mutex<Word>,
    changed: Condvar,
}

impl Baton {
    /// Gives the word, and waits until it comes back; whether the rival is done.
    fn give_and_wait(&self, to_rival: bool) -> bool {
        let mut word = self.word.lock().unwrap_or_else(PoisonError::into_inner);
        word.is_rivals = to_rival;
        self.changed.notify_all();
        let is_away = |word: &mut Word| word.is_rivals == to_rival;
        let word = self.changed.wait_while(word, is_away).unwrap_or_else(PoisonError::into_inner);
        word.is_done
    }
}

thread_local! {
    /// On the thread of a rival: what it gives the word back with.
    static OWN: RefCell<Option<Arc<Baton>>> = const { RefCell::new(None) };
}

/// What the kernel knows of a process beside what it has open.
#[derive(Clone, Copy, Debug, Default)]
pub struct Process {
    /// Its number.
    pub number: i32,
    /// Its system calls.
    pub steps: u64,
    /// It is killed at this one.
    pub kill_at: Option<u64>,
    /// It was killed.
    pub is_dead: bool,
}

/// A process that takes over.
pub struct Rival {
    baton: Arc<Baton>,
    thread: JoinHandle<Opened>,
    /// It sleeps until then.
    pub wake: u64,
    /// It has opened the ports, or given up.
    pub is_done: bool,
    /// It has the word.
    pub has_word: bool,
    /// The process that does not have the word.
    pub other: Process,
}

/// The simulated kernel, on its way to another thread.
struct Shared(*mut Kernel);

// SAFETY: the thread that has the word uses it alone.
unsafe impl Send for Shared {}

impl Rival {
    /// A process that opens the ports as `setup` says as soon as it gets the word.
    ///
    /// # Safety
    /// The kernel must live until [`Rival::join`].
    pub unsafe fn begin(kernel: *mut Kernel, setup: Setup, process: Process) -> std::io::Result<Rival> {
        let baton = Arc::<Baton>::default();
        let (own, shared) = (baton.clone(), Shared(kernel));
        let body = move || {
            let Shared(kernel) = { shared };
            OWN.set(Some(own.clone()));
            let word = own.word.lock().unwrap_or_else(PoisonError::into_inner);
            drop(
                own.changed.wait_while(word, |word| !word.is_rivals).unwrap_or_else(PoisonError::into_inner),
            );
            // SAFETY: it lives, as whoever began this promised, and this thread has the word.
            unsafe { calls::enter(kernel) };
            let opened = catch_unwind(AssertUnwindSafe(|| Loop::open_alone(setup)));
            calls::leave();
            OWN.set(None);
            let mut word = own.word.lock().unwrap_or_else(PoisonError::into_inner);
            (word.is_rivals, word.is_done) = (false, true);
            own.changed.notify_all();
            opened
        };
        let thread = std::thread::Builder::new().stack_size(4 << 20).spawn(body)?;
        Ok(Rival { baton, thread, wake: 0, is_done: false, has_word: false, other: process })
    }

    /// What came of it, once it is done.
    pub fn join(self) -> Opened {
        self.thread.join().unwrap_or_else(Err)
    }
}

/// Gives the word to the rival until it sleeps or is done. To be called on a thread whose calls do not go to
/// the kernel just now.
///
/// # Safety
/// The kernel must live, and nobody else may use it.
pub unsafe fn give_word(kernel: *mut Kernel) {
    let change = |has_word: bool| {
        // SAFETY: as the caller promises: before the word is given and after it came back.
        let kernel = unsafe { &mut *kernel };
        let mut rival = kernel.rival.take()?;
        kernel.swap_process(&mut rival.other);
        rival.has_word = has_word;
        let baton = rival.baton.clone();
        kernel.rival = Some(rival);
        Some(baton)
    };
    let Some(baton) = change(true) else { return };
    let is_done = baton.give_and_wait(true);
    change(false);
    // SAFETY: the word is back.
    if let Some(rival) = unsafe { &mut (*kernel).rival } {
        rival.is_done = is_done;
    }
}

/// On the thread of a rival that sleeps: gives the word back for that time. False on other threads.
pub fn sleep(span: u64) -> bool {
    let Some(baton) = OWN.with_borrow(Clone::clone) else { return false };
    let is_dead = calls::simulated(|kernel| {
        let is_dead = kernel.step().is_err();
        let wake = kernel.now + span;
        kernel.rival.iter_mut().for_each(|rival| rival.wake = wake);
        is_dead
    });
    if is_dead == Some(false)
        && let Some(kernel) = calls::pause()
    {
        baton.give_and_wait(false);
        // SAFETY: it lives, and the word is here again.
        unsafe { calls::enter(kernel) };
    }
    true
}
