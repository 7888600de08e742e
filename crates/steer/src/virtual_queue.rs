//! A queue that holds no packets.

use weir_aqm::View;
use weir_units::{Bytes, Duration, NANOS_PER_SEC, Rate, Time};

/// The backlog that the real arrivals would cause at a slower link (AQM Steering, section IV).
///
/// ```text
/// d size / dt = arrivals - rate        not below zero
/// ```
///
/// It is a fluid: bytes leave one by one. Nothing is shaped, the real packets go on at once.
#[derive(Clone, Copy, Debug)]
pub struct VirtualQueue {
    /// Bytes, with their fraction: at 9.5 Gbit/s a packet interval serves no whole number.
    size: f64,
    /// How long nothing waited.
    empty: Duration,
    last: Time,
    rate: Rate,
    bytes_per_nano: f64,
    nanos_per_byte: f64,
}

impl VirtualQueue {
    /// A virtual queue with that backlog, served at `rate`.
    pub fn new(now: Time, backlog: Bytes, rate: Rate) -> Self {
        let mut queue = VirtualQueue {
            size: backlog.get() as f64,
            empty: Duration::ZERO,
            last: now,
            rate: Rate::ZERO,
            bytes_per_nano: 0.0,
            nanos_per_byte: 0.0,
        };
        queue.set_rate(rate);
        queue
    }

    /// Begins anew with that backlog, served at `rate`; how long it was empty is kept.
    pub fn restart(&mut self, now: Time, backlog: Bytes, rate: Rate) {
        *self = VirtualQueue { empty: self.empty, ..VirtualQueue::new(now, backlog, rate) };
    }

    /// Changes the rate from the last [`VirtualQueue::drain`] on.
    pub fn set_rate(&mut self, rate: Rate) {
        if rate == self.rate {
            return;
        }
        self.rate = rate;
        self.bytes_per_nano = rate.as_bps_f64() / (8.0 * NANOS_PER_SEC as f64);
        // A queue that is not served has no delay that could be told; it cannot be in use.
        self.nanos_per_byte = if rate == Rate::ZERO { 0.0 } else { 1.0 / self.bytes_per_nano };
    }

    /// Serves until `now`.
    pub fn drain(&mut self, now: Time) {
        let served = self.bytes_per_nano * now.since(self.last).as_nanos() as f64;
        if served > self.size {
            let unused_ns = (served - self.size) * self.nanos_per_byte;
            self.empty += Duration::from_nanos(unused_ns as u64);
        }
        self.size = (self.size - served).max(0.0);
        self.last = now;
    }

    /// A packet was accepted.
    pub fn add(&mut self, len: Bytes) {
        self.size += len.get() as f64;
    }

    /// Whether nothing waits.
    pub fn is_empty(&self) -> bool {
        self.size == 0.0
    }

    /// How long nothing waited, until the last [`VirtualQueue::drain`].
    pub fn empty_for(&self) -> Duration {
        self.empty
    }

    /// The backlog in whole bytes.
    pub fn backlog(&self) -> Bytes {
        Bytes::new(self.size as u64)
    }

    /// The rate at which it is served.
    pub fn rate(&self) -> Rate {
        self.rate
    }

    /// How long the backlog takes, to the nearest nanosecond.
    pub fn delay(&self) -> Duration {
        Duration::from_nanos((self.size * self.nanos_per_byte + 0.5) as u64)
    }

    /// What an AQM is told instead of the real queue, in which `packets` wait.
    pub fn view(&self, packets: u32) -> View {
        View {
            backlog: self.backlog(),
            // How many packets the backlog stands for is not known; only that there are none or some.
            packets: if self.is_empty() { 0 } else { packets.max(1) },
            delay: self.delay(),
            rate: self.rate,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_grows_by_the_difference_of_the_rates() {
        // Back-to-back packets of 1500 bytes at 10 Gbit/s, one each 1.2 us, and 9.5 Gbit/s of service.
        let mut queue = VirtualQueue::new(Time::ZERO, Bytes::ZERO, Rate::from_mbps(9_500));
        let mut now = Time::ZERO;
        let mut sizes = std::vec::Vec::new();
        let mut reached = 0;
        for n in 0..4000 {
            queue.drain(now);
            // What an arrival sees; the threshold is 0.2 ms at 9.5 Gbit/s.
            if reached == 0 && queue.backlog() > Bytes::new(237_500) {
                reached = n;
            }
            queue.add(Bytes::new(1500));
            sizes.push(queue.backlog().get());
            now += Duration::from_nanos(1200);
        }
        assert_eq!(sizes[..5], [1500, 1575, 1650, 1725, 1800]);
        // 75 bytes per packet: 237.5 kB after 3.8 ms.
        assert_eq!(reached, 3167);
        assert_eq!(queue.view(0).packets, 1);
    }

    #[test]
    fn it_empties_and_stays_empty() {
        let mut queue = VirtualQueue::new(Time::ZERO, Bytes::new(1000), Rate::from_mbps(8));
        assert_eq!(queue.delay(), Duration::from_millis(1));
        queue.drain(Time::from_nanos(999_999));
        assert!(!queue.is_empty());
        queue.drain(Time::from_nanos(3_600_000_000_000));
        assert!(queue.is_empty());
        assert_eq!((queue.view(7).packets, queue.delay()), (0, Duration::ZERO));
        // 1000 bytes at a byte each microsecond.
        assert_eq!(queue.empty_for(), Duration::from_nanos(3_600_000_000_000 - 1_000_000));
    }
}
