//! What is counted of the traffic, by threads that share it.

use super::ConnectionResult;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// What one connection did, or those that followed each other.
#[derive(Debug, Default)]
pub struct Count {
    received: AtomicU64,
    completed: AtomicU64,
    busy_us: AtomicU64,
    retransmits: AtomicU64,
    ended: AtomicU64,
    rtt_us: AtomicU64,
}

impl Count {
    /// Bytes arrived.
    pub fn note_received(&self, bytes: u64) {
        self.received.fetch_add(bytes, Ordering::Relaxed);
    }

    /// A transfer was completed.
    pub fn note_completed(&self, took: Duration) {
        self.completed.fetch_add(1, Ordering::Relaxed);
        self.busy_us.fetch_add(took.as_micros() as u64, Ordering::Relaxed);
    }

    /// A connection ended, whose sender's kernel says this of it.
    pub fn note_ended(&self, retransmits: u64, rtt_us: u64) {
        self.retransmits.fetch_add(retransmits, Ordering::Relaxed);
        self.ended.fetch_add(1, Ordering::Relaxed);
        self.rtt_us.fetch_add(rtt_us, Ordering::Relaxed);
    }

    fn result(&self) -> ConnectionResult {
        let of = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        ConnectionResult {
            bytes: of(&self.received),
            completed: of(&self.completed),
            busy_s: of(&self.busy_us) as f64 / 1e6,
            retransmits: of(&self.retransmits),
            rtt_ms: of(&self.rtt_us) as f64 / 1e3 / of(&self.ended).max(1) as f64,
        }
    }
}

/// When datagrams came back, and their round trips.
#[derive(Debug, Default)]
pub struct Pings(Mutex<Vec<(Instant, Duration)>>);

impl Pings {
    /// One came back.
    pub fn note(&self, rtt: Duration) {
        let mut pings = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        pings.push((Instant::now(), rtt));
    }

    /// Round trips of those that came back in a span, in milliseconds.
    pub fn within(&self, from: Instant, until: Instant) -> Vec<f64> {
        let pings = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let within = pings.iter().filter(|(at, _)| (from..until).contains(at));
        within.map(|(_, rtt)| rtt.as_secs_f64() * 1e3).collect()
    }
}

/// What all homes did.
#[derive(Debug)]
pub struct Counts {
    /// Of all homes one after the other.
    connections: Vec<Count>,
    /// Number of each home's first connection, and the number of all.
    first: Vec<usize>,
    /// Of each home: the pings, and behind them those of its calls.
    pings: Vec<Vec<Pings>>,
}

impl Counts {
    /// Nothing yet, for homes with so many connections and calls each.
    pub fn new(homes: impl Iterator<Item = (usize, usize)>) -> Counts {
        let (mut first, mut pings) = (vec![0], Vec::new());
        for (connections, calls) in homes {
            first.push(first[first.len() - 1] + connections);
            pings.push((0..=calls).map(|_| Pings::default()).collect());
        }
        let all = first.last().copied().unwrap_or(0);
        Counts { connections: (0..all).map(|_| Count::default()).collect(), pings, first }
    }

    /// The number of a home's connection, which its data begins with.
    pub fn slot(&self, home: usize, connection: usize) -> u32 {
        (self.first[home] + connection) as u32
    }

    /// Where the connection of this number is counted.
    pub fn of(&self, slot: u32) -> Option<&Count> {
        self.connections.get(slot as usize)
    }

    fn by_home<T>(&self, of: impl Fn(&Count) -> T) -> Vec<Vec<T>> {
        let home = |ends: &[usize]| self.connections[ends[0]..ends[1]].iter().map(&of).collect();
        self.first.windows(2).map(home).collect()
    }

    /// Bytes received so far, by home and connection.
    pub fn received(&self) -> Vec<Vec<u64>> {
        self.by_home(|count| count.received.load(Ordering::Relaxed))
    }

    /// What came of the connections, by home.
    pub fn results(&self) -> Vec<Vec<ConnectionResult>> {
        self.by_home(Count::result)
    }

    /// The pings of a home, or those of one of its calls.
    pub fn pings(&self, home: usize, call: Option<usize>) -> &Pings {
        &self.pings[home][call.map_or(0, |call| call + 1)]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn connections_are_counted_by_home() {
        let counts = Counts::new([(2, 0), (1, 1)].into_iter());
        assert_eq!((counts.slot(0, 1), counts.slot(1, 0)), (1, 2));
        counts.of(1).unwrap().note_received(5);
        counts.of(2).unwrap().note_received(7);
        counts.of(2).unwrap().note_ended(3, 40_000);
        assert_eq!(counts.received(), [vec![0, 5], vec![7]]);
        assert!(counts.of(3).is_none());
        let from = Instant::now();
        counts.pings(1, Some(0)).note(Duration::from_millis(30));
        let until = Instant::now() + Duration::from_secs(1);
        let of = |home, call| counts.pings(home, call).within(from, until);
        assert_eq!([of(0, None), of(1, None), of(1, Some(0))], [vec![], vec![], vec![30.0]]);
        assert!(counts.pings(1, Some(0)).within(until, until).is_empty());
        let last = counts.results()[1][0];
        assert_eq!((last.bytes, last.retransmits, last.rtt_ms), (7, 3, 40.0));
    }
}
