//! Ctrl-C, and a request to end.

#[cfg(feature = "live")]
use std::sync::atomic::AtomicU32;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

/// Time that an end in order is given. Signals meanwhile are taken for the same request: terminals, `timeout`
/// and service managers send several at once.
const ORDERLY: Duration = Duration::from_secs(2);

/// Set by a request to end.
static FLAG: OnceLock<Arc<AtomicBool>> = OnceLock::new();

/// A flag that is set by Ctrl-C and by a request to end (SIGINT, SIGTERM, SIGHUP, SIGQUIT). SIGUSR1, SIGUSR2
/// and SIGALRM, which mean nothing here, do not end the program. One that comes when an end
/// in order has had its time ends the program at once.
pub fn interrupted() -> Arc<AtomicBool> {
    FLAG.get_or_init(|| {
        let flag = Arc::new(AtomicBool::new(false));
        let set = flag.clone();
        let _ignored = hangup::SavedAction::read();
        let mut first: Option<Instant> = None;
        #[cfg(unix)]
        others::listen();
        without_rights(move || {
            let _ = ctrlc::set_handler(move || {
                set.store(true, Ordering::Relaxed);
                if first.get_or_insert_with(Instant::now).elapsed() > ORDERLY {
                    #[cfg(feature = "live")]
                    crate::live::restore();
                    std::process::exit(i32::from(crate::output::INTERRUPTED));
                }
            });
        });
        flag
    })
    .clone()
}

/// A request to read the configuration again: SIGHUP from a process. Each clone hears of each.
#[cfg(feature = "live")]
#[derive(Clone)]
pub struct HangUp {
    /// How many were heard of.
    heard: std::cell::Cell<u32>,
}

/// How many there were.
#[cfg(feature = "live")]
static TOLD: AtomicU32 = AtomicU32::new(0);

#[cfg(feature = "live")]
impl HangUp {
    /// From now on SIGHUP that a process sends is such a request. One that the kernel sends, as a terminal
    /// was closed, asks for the end as before, unless the program was started to ignore it.
    pub fn listen() -> HangUp {
        // The handler for the end, where it is installed later, would take SIGHUP.
        let _ = interrupted();
        // SAFETY: all-zero is a valid value of this plain struct.
        let mut action: libc::sigaction = unsafe { std::mem::zeroed() };
        let goes_on = hangup::SavedAction::is_ignored();
        let handler = if goes_on { on_request as Handler } else { on_hangup as Handler };
        action.sa_sigaction = handler as libc::sighandler_t;
        action.sa_flags = libc::SA_SIGINFO | libc::SA_RESTART;
        // SAFETY: the handlers touch nothing but atomics.
        unsafe { libc::sigaction(libc::SIGHUP, &action, std::ptr::null_mut()) };
        HangUp { heard: std::cell::Cell::new(TOLD.load(Ordering::Relaxed)) }
    }

    /// Whether it was asked for since the last call.
    pub fn was_told(&self) -> bool {
        let told = TOLD.load(Ordering::Relaxed);
        self.heard.replace(told) != told
    }
}

#[cfg(feature = "live")]
type Handler = extern "C" fn(libc::c_int, *mut libc::siginfo_t, *mut libc::c_void);

#[cfg(feature = "live")]
extern "C" fn on_request(_: libc::c_int, _: *mut libc::siginfo_t, _: *mut libc::c_void) {
    TOLD.fetch_add(1, Ordering::Relaxed);
}

#[cfg(feature = "live")]
extern "C" fn on_hangup(_: libc::c_int, info: *mut libc::siginfo_t, _: *mut libc::c_void) {
    // SAFETY: the kernel hands over a valid pointer. Its codes above zero are its own (sigaction(2)).
    let is_of_kernel = unsafe { (*info).si_code } > 0;
    match FLAG.get().filter(|_| is_of_kernel) {
        Some(flag) => flag.store(true, Ordering::Relaxed),
        None => drop(TOLD.fetch_add(1, Ordering::Relaxed)),
    }
}

/// Does something on a thread without capabilities, so that the threads that it starts have none.
fn without_rights(body: impl FnOnce() + Send + 'static) {
    let body = move || {
        // Where they cannot be given up, the ports say so later.
        #[cfg(feature = "live")]
        let _ = weir_dataplane::privileges::keep(&[]);
        body();
    };
    let _ = std::thread::spawn(body).join();
}

/// Whether that was asked for.
pub fn is_interrupted() -> bool {
    interrupted().load(Ordering::Relaxed)
}

/// Whether a run that ends by itself was ended before. Ctrl-C is how one without an end ends.
#[cfg(feature = "live")]
pub fn is_cut_short(ends_by_itself: bool) -> bool {
    ends_by_itself && is_interrupted()
}

/// The title of results, which says if they are not whole.
pub fn titled(title: &str) -> String {
    if is_interrupted() { format!("{title} (interrupted)") } else { title.to_string() }
}

/// Signals that would kill the program by default although nobody means that.
#[cfg(unix)]
mod others {
    use super::FLAG;
    use std::sync::atomic::Ordering;

    /// SIGQUIT asks for the end; others mean nothing. Children have the default again.
    pub fn listen() {
        let handlers = [
            (libc::SIGQUIT, on_quit as extern "C" fn(libc::c_int)),
            (libc::SIGUSR1, on_nothing),
            (libc::SIGUSR2, on_nothing),
            (libc::SIGALRM, on_nothing),
        ];
        for (signal, handler) in handlers {
            // SAFETY: all-zero is a valid value of this plain struct; the handlers touch an atomic at most.
            unsafe {
                let mut action: libc::sigaction = std::mem::zeroed();
                action.sa_sigaction = handler as libc::sighandler_t;
                action.sa_flags = libc::SA_RESTART;
                libc::sigaction(signal, &action, std::ptr::null_mut());
            }
        }
    }

    extern "C" fn on_quit(_: libc::c_int) {
        if let Some(flag) = FLAG.get() {
            flag.store(true, Ordering::Relaxed);
        }
    }

    extern "C" fn on_nothing(_: libc::c_int) {}
}

/// A terminal that is closed: whoever started the program with `nohup` wants it to go on.
#[cfg(unix)]
mod hangup {
    /// What is done at SIGHUP. If that was nothing, it is put back when dropped.
    pub struct SavedAction(libc::sigaction);

    impl SavedAction {
        /// What is done now.
        pub fn read() -> SavedAction {
            // SAFETY: all-zero is a valid value of this plain struct, which the call fills.
            let mut found: libc::sigaction = unsafe { std::mem::zeroed() };
            // SAFETY: the pointer is to `found`; nothing is changed.
            unsafe { libc::sigaction(libc::SIGHUP, std::ptr::null(), &mut found) };
            SavedAction(found)
        }

        /// Whether nothing is done.
        #[cfg(feature = "live")]
        pub fn is_ignored() -> bool {
            let found = std::mem::ManuallyDrop::new(SavedAction::read());
            found.0.sa_sigaction == libc::SIG_IGN
        }
    }

    impl Drop for SavedAction {
        fn drop(&mut self) {
            if self.0.sa_sigaction == libc::SIG_IGN {
                // SAFETY: the pointer is to what the system told before.
                unsafe { libc::sigaction(libc::SIGHUP, &self.0, std::ptr::null_mut()) };
            }
        }
    }
}

/// Other systems have no such signal.
#[cfg(not(unix))]
mod hangup {
    pub struct SavedAction;

    impl SavedAction {
        pub fn read() -> SavedAction {
            SavedAction
        }
    }
}
