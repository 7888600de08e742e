//! Events beyond the horizon of the wheel.

use std::cmp::Ordering;
use std::num::NonZeroU32;
use weir_units::Time;

/// An event beyond the horizon. A small one gets a node when its tick comes, so that flows that do nothing but wait
/// take no more room than they must.
#[derive(Clone, Copy)]
pub(super) struct Far<S> {
    pub time: Time,
    pub rank: u64,
    pub what: Beyond<S>,
}

#[derive(Clone, Copy)]
pub(super) enum Beyond<S> {
    Small(S),
    Node(NonZeroU32),
}

impl<E> PartialEq for Far<E> {
    fn eq(&self, other: &Far<E>) -> bool {
        self.cmp(other).is_eq()
    }
}

impl<E> Eq for Far<E> {}

impl<E> PartialOrd for Far<E> {
    fn partial_cmp(&self, other: &Far<E>) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl<E> Ord for Far<E> {
    /// The first to come is the greatest, as heaps give the greatest.
    fn cmp(&self, other: &Far<E>) -> Ordering {
        (other.time, other.rank).cmp(&(self.time, self.rank))
    }
}
