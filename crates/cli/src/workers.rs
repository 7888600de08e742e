//! Threads that take one piece of work after the other.

use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

/// As many threads as there are processors.
pub fn processors() -> usize {
    std::thread::available_parallelism().map_or(1, |n| n.get())
}

/// Does every piece of work in `order` on `jobs` threads, which start them in that order. After a failure no further
/// one is started; the first failure is returned.
pub fn work_through<E: Send>(
    order: &[usize],
    jobs: usize,
    work: impl Fn(usize) -> Result<(), E> + Sync,
) -> Result<(), E> {
    let (next, failed, failure) = (AtomicUsize::new(0), AtomicBool::new(false), Mutex::new(None));
    let take = || {
        while !failed.load(Ordering::Relaxed) {
            let Some(piece) = order.get(next.fetch_add(1, Ordering::Relaxed)) else { return };
            if let Err(e) = work(*piece) {
                failed.store(true, Ordering::Relaxed);
                lock(&failure).get_or_insert(e);
            }
        }
    };
    std::thread::scope(|scope| {
        for _ in 1..jobs.min(order.len()) {
            scope.spawn(take);
        }
        take();
    });
    lock(&failure).take().map_or(Ok(()), Err)
}

/// Takes a lock under which nothing is left half changed.
pub fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn everything_is_done_once_and_a_failure_ends_it() {
        let done: Vec<AtomicUsize> = (0..50).map(|_| AtomicUsize::new(0)).collect();
        let order: Vec<usize> = (0..50).rev().collect();
        let count = |piece: usize| {
            done[piece].fetch_add(1, Ordering::Relaxed);
            Ok::<(), usize>(())
        };
        assert_eq!(work_through(&order, 4, count), Ok(()));
        assert!(done.iter().all(|n| n.load(Ordering::Relaxed) == 1));
        assert_eq!(work_through(&order, 1, |n| if n == 30 { Err(n) } else { count(n) }), Err(30));
        assert_eq!(done[31].load(Ordering::Relaxed), 2);
        assert_eq!(done[29].load(Ordering::Relaxed), 1);
    }
}
