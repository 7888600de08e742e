//! Ctrl-C, and a request to end.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};

/// A flag that is set by Ctrl-C and by a request to end; a second one ends the program at once.
pub fn interrupted() -> Arc<AtomicBool> {
    static FLAG: OnceLock<Arc<AtomicBool>> = OnceLock::new();
    FLAG.get_or_init(|| {
        let flag = Arc::new(AtomicBool::new(false));
        let set = flag.clone();
        let _ = ctrlc::set_handler(move || {
            if set.swap(true, Ordering::Relaxed) {
                #[cfg(feature = "live")]
                crate::live::restore();
                std::process::exit(i32::from(crate::output::INTERRUPTED));
            }
        });
        flag
    })
    .clone()
}

/// Whether that was asked for.
pub fn is_interrupted() -> bool {
    interrupted().load(Ordering::Relaxed)
}
