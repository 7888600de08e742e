//! Events beyond the horizon of the wheel.

use std::cmp::Ordering;
use std::num::NonZeroU32;
use weir_units::Time;

/// An event beyond the horizon. A small one gets a node when its tick comes, so that flows that do nothing
/// but wait take no more room than they must.
#[derive(Clone, Copy)]
pub(super) struct FarEntry<S> {
    pub time: Time,
    pub rank: u64,
    pub what: FarEvent<S>,
}

#[derive(Clone, Copy)]
pub(super) enum FarEvent<S> {
    Small(S),
    Node(NonZeroU32),
}

impl<E> PartialEq for FarEntry<E> {
    fn eq(&self, other: &FarEntry<E>) -> bool {
        self.cmp(other).is_eq()
    }
}

impl<E> Eq for FarEntry<E> {}

impl<E> PartialOrd for FarEntry<E> {
    fn partial_cmp(&self, other: &FarEntry<E>) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl<E> Ord for FarEntry<E> {
    /// The first to come is the greatest, as heaps give the greatest.
    fn cmp(&self, other: &FarEntry<E>) -> Ordering {
        (other.time, other.rank).cmp(&(self.time, self.rank))
    }
}
