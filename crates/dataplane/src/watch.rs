//! What the packet loop looks at beside packets: whether its ports have a link, and whether the kernel
//! forwarded in its place.

use crate::interface::{Interface, LinkState};
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, AtomicU64, Ordering};
use weir_units::{Duration, Time};

/// Least time between two messages about frames that the kernel forwarded, so that a host that is too slow
/// all the time does not fill a log.
const BYPASS_PERIOD: Duration = Duration::from_secs(10);

/// Least time between two messages about a link that comes and goes.
const FLAP_PERIOD: Duration = Duration::from_secs(10);

/// A time of the run's clock in words.
pub fn at(time: Time, origin: Time) -> String {
    format!("{:.1} s after the start", time.since(origin).as_secs_f64())
}

/// What is known of a port.
#[derive(Debug, Default)]
struct Seen {
    state: AtomicU8,
    lost: AtomicU64,
}

/// Ports as last seen, for whoever watches the loop; taken to have a link until they are looked at.
#[derive(Clone, Debug)]
pub struct Links(Arc<[Seen]>);

impl Links {
    /// Of so many ports.
    pub fn new(ports: usize) -> Links {
        Links((0..ports).map(|_| Seen::default()).collect())
    }

    /// Whether a port has a link.
    pub fn state(&self, port: usize) -> LinkState {
        LinkState::from_number(self.0[port].state.load(Ordering::Relaxed))
    }

    /// Frames of a port that were lost before they came to the loop.
    pub fn lost(&self, port: usize) -> u64 {
        self.0[port].lost.load(Ordering::Relaxed)
    }

    /// A port has a link, or none, from now on until it is looked at.
    pub fn set(&self, port: usize, state: LinkState) {
        self.0[port].state.store(state as u8, Ordering::Relaxed);
    }

    /// The same of all.
    pub fn set_all(&self, state: LinkState) {
        (0..self.0.len()).for_each(|port| self.set(port, state));
    }

    pub(crate) fn set_lost(&self, port: usize, lost: u64) {
        self.0[port].lost.store(lost, Ordering::Relaxed);
    }
}

/// Notices that ports lose their links and find them again.
#[derive(Debug)]
pub struct LinkWatch {
    links: Links,
    /// When a port was last seen with a link.
    lost_at: Vec<Time>,
}

impl LinkWatch {
    /// Of so many ports.
    pub fn new(ports: usize) -> LinkWatch {
        LinkWatch { links: Links::new(ports), lost_at: vec![Time::ZERO; ports] }
    }

    /// What it found.
    pub fn links(&self) -> &Links {
        &self.links
    }

    /// Writes what it finds there from now on.
    pub fn tell(&mut self, links: Links) {
        links.set_all(LinkState::Up);
        self.links = links;
    }

    /// Looks at a port; what to say if its link changed. One that cannot be asked is about to vanish.
    pub fn look(&mut self, port: usize, interface: &Interface, now: Time) -> Option<String> {
        let state = interface.link_state().ok()?;
        let before = self.links.0[port].state.swap(state as u8, Ordering::Relaxed);
        if state as u8 == before {
            return None;
        }
        if LinkState::from_number(before) == LinkState::Up {
            self.lost_at[port] = now;
        }
        let name = &interface.name;
        Some(match state {
            LinkState::Up => {
                let span = now.since(self.lost_at[port]).as_secs_f64();
                format!("{name}: the link is back; it was gone for {span:.1} s")
            }
            LinkState::NoCarrier => format!(
                "{name}: no carrier: nothing passes until it is back. Remedy: look at the cable and at the interface at its \
                 other end"
            ),
            LinkState::Down => format!(
                "{name}: the interface was set down: nothing passes until it is up. Remedy: `ip link set dev {name} up`"
            ),
        })
    }
}

/// Notices a link that comes and goes between two looks at it, by the kernel's count of its changes.
#[derive(Debug, Default)]
pub struct FlapWatch {
    /// Changes that were not told yet, and since when.
    untold: u32,
    since: Time,
    looked: Time,
    due: Time,
}

impl FlapWatch {
    /// So often the carrier came or went since the last look; what to say of that. A single loss, or return,
    /// is told by who looks at the state of the link.
    pub fn look(&mut self, changes: u32, now: Time) -> Option<String> {
        let before = std::mem::replace(&mut self.looked, now);
        if changes > 1 {
            if self.untold == 0 {
                self.since = before;
            }
            self.untold = self.untold.saturating_add(changes);
        }
        if self.untold == 0 || now < self.due {
            return None;
        }
        self.due = now + FLAP_PERIOD;
        let times = std::mem::take(&mut self.untold).div_ceil(2);
        let span = now.since(self.since).as_secs_f64();
        Some(format!(
            "the link was lost and came back {times} time{} within {span:.1} s. Remedy: look at the cable and at the interface \
             at its other end",
            if times == 1 { "" } else { "s" }
        ))
    }
}

/// Notices that the kernel forwarded frames because the loop did not turn.
#[derive(Debug)]
pub struct BypassWatch {
    /// Frames known of, and those not told yet.
    known: u64,
    untold: u64,
    /// Beginning and end of the longest time without a turn since frames were last told.
    gap: (Time, Time),
    due: Time,
    messages: u32,
}

impl BypassWatch {
    /// `bypassed` frames passed before the loop turned, as they were meant to.
    pub fn new(bypassed: u64) -> BypassWatch {
        let gap = (Time::ZERO, Time::ZERO);
        BypassWatch { known: bypassed, untold: 0, gap, due: Time::ZERO, messages: 0 }
    }

    /// The loop turned at `from`, and not again before `to`.
    #[inline]
    pub fn turned(&mut self, from: Time, to: Time) {
        if to.since(from) > self.gap.1.since(self.gap.0) {
            self.gap = (from, to);
        }
    }

    /// Looks at the number of frames that the kernel forwarded; what to say of new ones. At the end nothing
    /// is put off.
    pub fn look(&mut self, bypassed: u64, now: Time, origin: Time, is_end: bool) -> Option<String> {
        self.untold += bypassed - self.known;
        self.known = bypassed;
        if self.untold == 0 {
            self.gap = (now, now);
            return None;
        }
        if now < self.due && !is_end {
            return None;
        }
        let (from, to) = std::mem::replace(&mut self.gap, (now, now));
        self.due = now + BYPASS_PERIOD;
        self.messages += 1;
        let frames = std::mem::take(&mut self.untold);
        Some(format!(
            "{frames} frames were forwarded by the kernel past the queues: the packet loop did not turn from {:.3} s to \
             {:.3} s after the start",
            from.since(origin).as_secs_f64(),
            to.since(origin).as_secs_f64()
        ))
    }

    /// How many frames that were in all, where it took several messages to tell.
    pub fn total(&self, before: u64) -> Option<String> {
        let frames = self.known - before;
        (self.messages > 1)
            .then(|| format!("in all, {frames} frames were forwarded by the kernel past the queues"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_link_that_flaps_between_two_looks_is_told_with_its_count_and_not_too_often() {
        let ms = |n| Time::ZERO + Duration::from_millis(n);
        let mut watch = FlapWatch::default();
        assert_eq!(watch.look(0, ms(300)), None);
        assert_eq!(watch.look(1, ms(600)), None, "a single change is told by others");
        let told = watch.look(40, ms(900)).unwrap();
        assert!(told.starts_with("the link was lost and came back 20 times within 0.3 s"), "{told}");
        assert_eq!(watch.look(6, ms(1200)), None, "not yet");
        assert_eq!(watch.look(2, ms(1500)), None);
        let told = watch.look(0, ms(10_900)).unwrap();
        assert!(told.contains("4 times within 10.0 s"), "{told}");
        assert_eq!(watch.look(0, ms(30_000)), None);
        assert!(watch.look(2, ms(30_300)).unwrap().contains("1 time within"));
    }

    #[test]
    fn frames_past_the_queues_are_told_at_once_and_then_not_too_often() {
        let s = |n| Time::ZERO + Duration::from_secs(n);
        let mut watch = BypassWatch::new(5);
        watch.turned(s(1), s(2));
        assert_eq!(watch.look(5, s(2), s(0), false), None);
        watch.turned(s(3), s(4));
        let told = watch.look(12, s(4), s(1), false).unwrap();
        assert!(told.starts_with("7 frames") && told.contains("from 2.000 s to 3.000 s"), "{told}");
        assert_eq!(watch.total(5), None);
        watch.turned(s(5), s(6));
        assert_eq!(watch.look(13, s(6), s(0), false), None, "not yet");
        let told = watch.look(15, s(14), s(0), false).unwrap();
        assert!(told.starts_with("3 frames") && told.contains("from 5.000 s to 6.000 s"), "{told}");
        assert_eq!(watch.look(16, s(15), s(0), true).unwrap().split(' ').next(), Some("1"));
        assert!(watch.total(5).unwrap().starts_with("in all, 11 frames"));
    }
}
