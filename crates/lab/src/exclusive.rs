//! One measuring run at a time on a machine: two packet loops on one core measure each other.

use crate::error::{Error, Result};
use std::fs::{File, TryLockError};
use std::ops::ControlFlow;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::Duration;

/// Held by the run that measures; in a folder that every system has and empties at boot.
const LOCK: &str = "/run/weir-lab.lock";

/// The right to measure. Given back when the last copy is dropped, also by a crash.
#[derive(Clone, Debug)]
pub struct Exclusive(Arc<File>);

/// The right to measure that runs of one program have side by side: the first of them waits for it, and the
/// last one gives it back. For links so slow that they leave the processors idle most of the time. Copies
/// share one right.
#[derive(Clone, Debug, Default)]
pub struct SideBySide(Arc<Mutex<Weak<File>>>);

impl SideBySide {
    /// The right that another run of these has, or as [`exclusive`].
    pub fn exclusive(&self, waiting: impl FnMut(Duration) -> ControlFlow<()>) -> Result<Exclusive> {
        let mut held = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(lock) = held.upgrade() {
            return Ok(Exclusive(lock));
        }
        let Exclusive(lock) = exclusive(waiting)?;
        *held = Arc::downgrade(&lock);
        Ok(Exclusive(lock))
    }
}

/// Waits until no other run measures. While it does, `waiting` is called about ten times a second with the
/// time since the wait began, from zero, and can end it.
pub fn exclusive(waiting: impl FnMut(Duration) -> ControlFlow<()>) -> Result<Exclusive> {
    locked(File::try_lock, waiting)
}

/// The same for a run that measures no times, which others like it may run beside.
pub fn beside_others(waiting: impl FnMut(Duration) -> ControlFlow<()>) -> Result<Exclusive> {
    locked(File::try_lock_shared, waiting)
}

fn locked(
    lock: fn(&File) -> std::result::Result<(), TryLockError>,
    mut waiting: impl FnMut(Duration) -> ControlFlow<()>,
) -> Result<Exclusive> {
    const AGAIN: Duration = Duration::from_millis(100);
    let file = File::create(Path::new(LOCK)).map_err(|e| Error::system(format!("open {LOCK}"), e))?;
    let mut waited = Duration::ZERO;
    loop {
        match lock(&file) {
            Ok(()) => return Ok(Exclusive(Arc::new(file))),
            Err(TryLockError::WouldBlock) if waiting(waited).is_break() => return Err(Error::Interrupted),
            Err(TryLockError::WouldBlock) => {}
            Err(TryLockError::Error(e)) => return Err(Error::system(format!("lock {LOCK}"), e)),
        }
        std::thread::sleep(AGAIN);
        waited += AGAIN;
    }
}

/// What to do while another run measures: `say` so once, and wait as long as `go_on` says.
pub fn waiting(mut say: impl FnMut(), go_on: impl Fn() -> bool) -> impl FnMut(Duration) -> ControlFlow<()> {
    move |waited| {
        if !go_on() {
            return ControlFlow::Break(());
        }
        if waited.is_zero() {
            say();
        }
        ControlFlow::Continue(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_waits_can_end_it() {
        let Ok(_held) = exclusive(|_| ControlFlow::Break(())) else { return };
        let mut times = Vec::new();
        let ended = exclusive(|waited| {
            times.push(waited.as_millis());
            if times.len() < 3 { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
        });
        assert!(matches!(ended, Err(Error::Interrupted)));
        assert_eq!(times, [0, 100, 200]);
    }

    #[test]
    fn runs_side_by_side_have_the_right_together_and_nobody_else_has_it() {
        let together = SideBySide::default();
        let Ok(first) = together.exclusive(|_| ControlFlow::Break(())) else { return };
        let second = together.exclusive(|_| panic!("it is there")).unwrap();
        drop(first);
        let of_others = || exclusive(|_| ControlFlow::Break(())).is_ok();
        assert!(!of_others());
        drop(second);
        // A test beside this one may have it for a moment.
        assert!(
            exclusive(|waited| if waited.as_secs() < 5 {
                ControlFlow::Continue(())
            } else {
                ControlFlow::Break(())
            })
            .is_ok()
        );
    }
}
