//! A queue that holds no packets.

use weir_aqm::View;
use weir_units::{Bytes, Duration, Rate, Time};

/// Bits of fraction of a backlog in bytes, and of a rate in bytes per nanosecond.
pub const FRACTION: u32 = 32;
/// Most that is counted as waiting, in bytes with fraction: 1 GiB. What comes beyond it is let go uncounted.
pub const SIZE_MAX: u64 = 1 << (30 + FRACTION);

/// A rate in bytes per nanosecond with [`FRACTION`] bits of fraction, to the nearest: to 1 bit/s.
pub const fn bytes_per_nano(rate: Rate) -> u64 {
    // 2^32 / (8 * 10^9) = 2^20 / 5^9, in two parts that fit 64 bits.
    const FIVES: u64 = 1_953_125;
    let (whole, rest) = (rate.as_bps() / FIVES, rate.as_bps() % FIVES);
    (whole << 20) + ((rest << 20) + FIVES / 2) / FIVES
}

/// The backlog that the real arrivals would cause at a slower link (AQM Steering, section IV).
///
/// ```text
/// d size / dt = arrivals - rate        not below zero
/// ```
///
/// It is a fluid: bytes leave one by one. Nothing is shaped, the real packets go on at once. All of it is in
/// whole numbers, so that a program in the kernel, which has no others, counts the same.
#[derive(Clone, Copy, Debug)]
pub struct VirtualQueue {
    /// Bytes, with their fraction: at 9.5 Gbit/s a packet interval serves no whole number.
    size: u64,
    /// How long nothing waited.
    empty: Duration,
    last: Time,
    rate: Rate,
    bytes_per_nano: u64,
}

impl VirtualQueue {
    /// A virtual queue with that backlog, served at `rate`.
    pub fn new(now: Time, backlog: Bytes, rate: Rate) -> Self {
        let size = backlog.get().min(SIZE_MAX >> FRACTION) << FRACTION;
        VirtualQueue { size, empty: Duration::ZERO, last: now, rate, bytes_per_nano: bytes_per_nano(rate) }
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
        self.bytes_per_nano = bytes_per_nano(rate);
    }

    /// Serves until `now`. A time before that of the last call is taken for that one.
    pub fn drain(&mut self, now: Time) {
        let elapsed = now.since(self.last).as_nanos();
        // How many nanoseconds what waits takes; a queue that is not served waits for ever.
        let waits = self.size.checked_div(self.bytes_per_nano).unwrap_or(u64::MAX);
        if elapsed > waits {
            self.empty += Duration::from_nanos(elapsed - waits);
            self.size = 0;
        } else {
            self.size -= elapsed * self.bytes_per_nano;
        }
        self.last = self.last.max(now);
    }

    /// A packet was accepted.
    pub fn add(&mut self, len: Bytes) {
        let size = len.get().checked_mul(1 << FRACTION).and_then(|len| self.size.checked_add(len));
        self.size = size.filter(|size| *size <= SIZE_MAX).unwrap_or(self.size);
    }

    /// Whether nothing waits.
    pub fn is_empty(&self) -> bool {
        self.size == 0
    }

    /// How long nothing waited, until the last [`VirtualQueue::drain`].
    pub fn empty_for(&self) -> Duration {
        self.empty
    }

    /// The backlog in whole bytes.
    pub fn backlog(&self) -> Bytes {
        Bytes::new(self.size >> FRACTION)
    }

    /// The rate at which it is served.
    pub fn rate(&self) -> Rate {
        self.rate
    }

    /// How long the backlog takes, to the nearest nanosecond.
    pub fn delay(&self) -> Duration {
        // A queue that is not served has no delay that could be told; it cannot be in use.
        let nanos = (self.size + self.bytes_per_nano / 2).checked_div(self.bytes_per_nano);
        Duration::from_nanos(nanos.unwrap_or(0))
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

    #[test]
    fn a_rate_is_right_to_one_bit_per_second() {
        for bps in [1, 999, 64_000, 1_953_125, 8_000_000_000, 9_500_000_001, 400_000_000_000, u64::MAX / 2] {
            let exact = (u128::from(bps) << 32) as f64 / 8e9;
            let got = bytes_per_nano(Rate::from_bps(bps)) as f64;
            assert!((got - exact).abs() <= 0.5 + exact * 1e-15, "{bps}: {got} for {exact}");
        }
        assert_eq!(bytes_per_nano(Rate::from_mbps(9_500)), (1.1875 * 4_294_967_296.0) as u64);
    }

    #[test]
    fn a_clock_that_goes_back_serves_nothing_twice() {
        let mut queue = VirtualQueue::new(Time::from_nanos(1_000_000), Bytes::new(1000), Rate::from_mbps(8));
        queue.drain(Time::from_nanos(500_000));
        queue.drain(Time::from_nanos(1_000_000));
        assert_eq!(queue.backlog(), Bytes::new(1000));
        queue.drain(Time::from_nanos(1_100_000));
        assert_eq!(queue.backlog(), Bytes::new(900));
    }

    #[test]
    fn what_is_too_much_is_not_counted() {
        let most = Bytes::new(SIZE_MAX >> FRACTION);
        let mut queue = VirtualQueue::new(Time::ZERO, Bytes::new(u64::MAX), Rate::from_mbps(8));
        assert_eq!(queue.backlog(), most);
        queue.add(Bytes::new(1));
        queue.add(Bytes::new(u64::MAX));
        assert_eq!(queue.backlog(), most);
        // One that is not served stays as it is, and no time of it is idle.
        let mut still = VirtualQueue::new(Time::ZERO, Bytes::new(7), Rate::ZERO);
        still.drain(Time::from_nanos(u64::MAX));
        assert_eq!(
            (still.backlog(), still.delay(), still.empty_for()),
            (Bytes::new(7), Duration::ZERO, Duration::ZERO)
        );
    }
}
