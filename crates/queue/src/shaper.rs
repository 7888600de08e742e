//! The shaper: when the next packet may leave a link of a given rate.

use weir_units::{Bytes, Duration, Rate, Time};

const FRACTION_BITS: u32 = 24;

/// Emulates a link of constant rate, in *link time*.
///
/// A packet leaves when the link has finished the one before it, or when it arrives at an idle link. A host
/// that looks late is told the time at which the link would have sent, so that its own scheduling jitter
/// enters neither the rate nor the sojourn times: `max(free at, arrived)`. Lost time is made up for at most
/// `catch_up`; beyond that the link counts as having been down.
///
/// Serialisation times are kept in fractions of 2⁻²⁴ ns, so the long-term rate is exact to 10⁻⁶ up to 100
/// Gbit/s and no packet costs a division.
#[derive(Clone, Copy, Debug)]
pub struct Shaper {
    rate: Rate,
    catch_up: Duration,
    /// Nanoseconds per byte, times 2^24.
    cost: u64,
    free_at: Time,
    fraction: u64,
}

impl Shaper {
    /// A link of `rate`, idle at first. Rate zero means unshaped: everything may leave at once.
    pub fn new(rate: Rate, catch_up: Duration) -> Shaper {
        let mut shaper = Shaper { rate, catch_up, cost: 0, free_at: Time::ZERO, fraction: 0 };
        shaper.set_rate(rate);
        shaper
    }

    /// Changes the rate; a packet in transmission is not touched.
    pub fn set_rate(&mut self, rate: Rate) {
        self.rate = rate;
        let scaled = (8.0 * 1e9 * f64::from(1u32 << FRACTION_BITS)) / rate.as_bps().max(1) as f64;
        self.cost = if rate == Rate::ZERO { 0 } else { (scaled + 0.5) as u64 };
    }

    /// The rate.
    #[inline]
    pub fn rate(&self) -> Rate {
        self.rate
    }

    /// The link time at which a packet that arrived then may leave, given that nothing left before.
    #[inline]
    pub fn departure(&self, head_arrived: Time) -> Time {
        self.free_at.max(head_arrived)
    }

    /// To be called when the host looks: time lost beyond `catch_up` is given up.
    pub fn looked(&mut self, now: Time) {
        self.free_at = self.free_at.max(now - self.catch_up);
    }

    /// What follows the link could not take a packet until `now`.
    pub fn blocked(&mut self, now: Time) {
        self.free_at = self.free_at.max(now);
    }

    /// A packet of `len` left at `at`; the link is busy with it.
    #[inline]
    pub fn sent(&mut self, at: Time, len: Bytes) {
        // Of 57 bits a byte at 1 bit/s: packets of less than 2^31 bytes take less than 2^64 ns.
        // None of these can overflow; the checks of a development build would take half as much as the
        // packet.
        let cost = u128::from(len.get()).wrapping_mul(u128::from(self.cost));
        let cost = cost.wrapping_add(u128::from(self.fraction));
        self.free_at = at + Duration::from_nanos((cost >> FRACTION_BITS) as u64);
        self.fraction = cost as u64 & ((1 << FRACTION_BITS) - 1);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Bytes that leave a backlogged link in `span`, looked at each `period`.
    fn sent(shaper: &mut Shaper, len: u64, span: Duration, period: Duration) -> u64 {
        let (mut now, mut bytes) = (Time::ZERO, 0);
        while now < Time::ZERO + span {
            now += period;
            shaper.looked(now);
            while shaper.departure(Time::ZERO) <= now {
                shaper.sent(shaper.departure(Time::ZERO), Bytes::new(len));
                bytes += len;
            }
        }
        bytes
    }

    #[test]
    fn the_slowest_link_sends_for_as_long_as_its_rate_says() {
        let mut shaper = Shaper::new(Rate::from_bps(1), Duration::ZERO);
        shaper.sent(Time::ZERO, Bytes::new(9000));
        assert_eq!(shaper.departure(Time::ZERO), Time::ZERO + Duration::from_secs(72_000));
    }

    #[test]
    fn the_rate_is_exact_whatever_the_packet_size_and_the_polling() {
        for mbps in [1, 10, 97, 1000, 9_844, 100_000] {
            for len in [64, 577, 1538, 9038] {
                for period_us in [10, 317, 900] {
                    let mut shaper = Shaper::new(Rate::from_mbps(mbps), Duration::from_millis(1));
                    let bytes =
                        sent(&mut shaper, len, Duration::from_secs(1), Duration::from_micros(period_us));
                    let want = Rate::from_mbps(mbps).bytes_in(Duration::from_secs(1)).get() as f64;
                    let error = (bytes as f64 - want).abs() / want;
                    let one_packet = 2.0 * len as f64 / want;
                    let one_period = 2.0 * period_us as f64 / 1e6;
                    assert!(error < 1e-6 + one_packet + one_period, "{mbps} {len} {period_us}: {error}");
                }
            }
        }
    }

    #[test]
    fn a_stall_is_made_up_for_only_so_far() {
        let mut shaper = Shaper::new(Rate::from_mbps(8), Duration::from_millis(5));
        let now = Time::ZERO + Duration::from_secs(1);
        shaper.looked(now);
        let mut packets = 0;
        while shaper.departure(Time::ZERO) <= now {
            shaper.sent(shaper.departure(Time::ZERO), Bytes::new(1000));
            packets += 1;
        }
        assert_eq!(packets, 6);
    }

    #[test]
    fn an_idle_link_sends_at_arrival() {
        let mut shaper = Shaper::new(Rate::from_mbps(8), Duration::from_secs(1));
        let arrived = Time::ZERO + Duration::from_millis(300);
        assert_eq!(shaper.departure(arrived), arrived);
        shaper.sent(arrived, Bytes::new(1000));
        assert_eq!(shaper.departure(arrived), arrived + Duration::from_millis(1));
    }

    #[test]
    fn rate_zero_is_unshaped() {
        let mut shaper = Shaper::new(Rate::ZERO, Duration::ZERO);
        shaper.sent(Time::from_nanos(5), Bytes::new(9000));
        assert_eq!(shaper.departure(Time::from_nanos(5)), Time::from_nanos(5));
    }
}
