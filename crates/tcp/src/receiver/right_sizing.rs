//! A receive window that follows what the connection can use: dynamic right-sizing (Fisk and Feng, "Dynamic
//! Right-Sizing: A Simulation Study", IEEE ICCCN 2001), as Linux has it (`tcp_moderate_rcvbuf`).

use weir_units::{Duration, Time};

/// The window may be so many times what arrived in a round trip. The paper has twice, so that a sender that
/// doubles its window is not held back; what the window allows arrives a round trip later, when the sender
/// may have doubled once more.
const ROOM: u64 = 4;

/// What is measured of a connection. The application is assumed to read at once.
#[derive(Clone, Debug)]
pub(super) struct RightSizing {
    /// Segments of the largest window.
    most: u32,
    /// The least time that a window of data took, which without timestamps stands for the round-trip time
    /// (section 3.2 of the paper): it is that where the window is the limit, else more.
    rtt: Option<Duration>,
    window_began: Time,
    window_end: u64,
    /// The round trip under way: when it began, and what had arrived.
    began: Time,
    base: u64,
    /// Segments that the window may grow to for what arrived in a round trip.
    limit: u32,
}

impl RightSizing {
    /// Of a window that begins with `window` segments and may have `most`.
    pub fn new(window: u32, most: u32, now: Time) -> RightSizing {
        RightSizing {
            most,
            rtt: None,
            window_began: now,
            window_end: window.into(),
            began: now,
            base: 0,
            limit: (window + window / 4).min(most),
        }
    }

    /// The window in segments when the segment `next` arrives, in order. It grows by one for each, so that it
    /// doubles per round trip at most.
    pub fn window(&mut self, now: Time, next: u64, window: u32) -> u32 {
        let grown = window.saturating_add(1).min(self.limit).max(window);
        if next == 0 {
            (self.window_began, self.began) = (now, now);
            return grown;
        }
        if next >= self.window_end {
            let took = now.since(self.window_began);
            self.rtt = Some(self.rtt.map_or(took, |rtt| rtt.min(took)));
            self.window_began = now;
            self.window_end = next + u64::from(window);
        }
        if self.rtt.is_none_or(|rtt| now.since(self.began) < rtt) {
            return grown;
        }
        let wanted = ROOM * (next - self.base);
        (self.began, self.base) = (now, next);
        self.limit = self.limit.max(u32::try_from(wanted).unwrap_or(u32::MAX).min(self.most));
        grown
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const RTT: Duration = Duration::from_millis(100);

    /// The windows of a sender that sends what it may in one go each round trip of 100 ms, at most `limit`.
    fn windows(limit: u64, rounds: u64) -> Vec<u32> {
        let mut sizing = RightSizing::new(45, 2715, Time::ZERO);
        let (mut window, mut next) = (45, 0);
        (0..rounds)
            .map(|round| {
                for _ in 0..limit.min(window.into()) {
                    window = sizing.window(Time::ZERO + RTT.saturating_mul(round), next, window);
                    next += 1;
                }
                window
            })
            .collect()
    }

    #[test]
    fn it_doubles_each_round_trip_up_to_the_largest() {
        let windows = windows(u64::MAX, 10);
        // A buffer of 128 KiB has room for 56 segments, of which the first window is 45.
        assert_eq!(windows[0], 56);
        for pair in windows.windows(2).filter(|pair| pair[1] < 2715) {
            let growth = f64::from(pair[1]) / f64::from(pair[0]);
            assert!((1.9..=2.0).contains(&growth), "{windows:?}");
        }
        assert_eq!(windows.last(), Some(&2715));
    }

    #[test]
    fn a_sender_that_does_not_use_it_leaves_it() {
        let windows = windows(20, 100);
        // A window of 45 takes three round trips, in which 60 arrive.
        assert!(*windows.last().unwrap() <= 4 * 60, "{windows:?}");
        assert_eq!(windows[20], windows[99], "it has stopped");
    }
}
