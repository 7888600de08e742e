//! How many probes may be sent.

use weir_units::{Bytes, Duration, Time};

/// Parts that a byte of credit is divided into, so that budgets are exact.
const PARTS: u64 = 1_000_000;

/// Probes for which credit may be saved up, so that a burst of data is followed by its probes and no more.
const SAVED_MAX: u64 = 4;

/// Probes that may follow each other closely before the rate is enforced.
const BURST: u64 = 16;

/// Three limits at once: one probe for so many packets, so many bytes of probes for bytes of data, and a rate.
#[derive(Clone, Copy, Debug)]
pub(super) struct Budget {
    every: u32,
    parts_per_byte: u64,
    price: u64,
    spacing: Duration,
    /// Data packets since the last probe.
    packets: u32,
    /// What the data so far has paid for, in parts of a byte.
    credit: u64,
    /// When the rate would be exactly used up by the probes sent so far.
    used_up: Time,
}

impl Budget {
    pub fn new(every: u32, budget_ppm: u32, rate_max: u32, probe_len: usize) -> Budget {
        Budget {
            every: every.max(1),
            parts_per_byte: u64::from(budget_ppm),
            price: probe_len as u64 * PARTS,
            spacing: Duration::from_nanos(weir_units::NANOS_PER_SEC / u64::from(rate_max.max(1))),
            packets: 0,
            credit: 0,
            used_up: Time::ZERO,
        }
    }

    /// A data packet passed; whether a probe is due and paid for.
    pub fn on_data(&mut self, now: Time, len: Bytes) -> bool {
        self.packets = self.packets.saturating_add(1);
        let earned = len.get().saturating_mul(self.parts_per_byte);
        self.credit = self.credit.saturating_add(earned).min(SAVED_MAX * self.price);
        if self.packets < self.every || self.credit < self.price || !self.rate_allows(now) {
            return false;
        }
        self.packets = 0;
        self.credit -= self.price;
        self.used_up = self.used_up.max(now) + self.spacing;
        true
    }

    fn rate_allows(&self, now: Time) -> bool {
        self.used_up.since(now) <= self.spacing.saturating_mul(BURST - 1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sent(budget: &mut Budget, packets: u64, len: u64, spacing: Duration) -> u64 {
        let mut now = Time::ZERO;
        let mut probes = 0;
        for _ in 0..packets {
            now += spacing;
            probes += u64::from(budget.on_data(now, Bytes::new(len)));
        }
        probes
    }

    #[test]
    fn full_packets_are_followed_by_one_probe_in_four() {
        let mut budget = Budget::new(4, 5_000, 1_000, 28);
        let probes = sent(&mut budget, 4_000, 1_500, Duration::from_millis(1));
        assert_eq!(probes, 1_000);
        assert!((probes * 28) as f64 / (4_000.0 * 1_500.0) < 0.0047, "share of the bytes");
    }

    #[test]
    fn small_packets_and_long_probes_are_held_to_the_share_of_bytes() {
        for (len, probe) in [(64, 28), (1_500, 48), (200, 48)] {
            let mut budget = Budget::new(4, 5_000, 1_000, probe);
            let probes = sent(&mut budget, 100_000, len, Duration::from_millis(1));
            let share = (probes * probe as u64) as f64 / (100_000 * len) as f64;
            assert!((0.0049..=0.005).contains(&share), "{share} with packets of {len} and probes of {probe}");
        }
    }

    #[test]
    fn the_rate_is_held_however_much_data_passes() {
        let mut budget = Budget::new(4, 5_000, 1_000, 28);
        // A million packets in a second.
        let probes = sent(&mut budget, 1_000_000, 1_500, Duration::from_micros(1));
        assert!((1_000..=1_000 + BURST).contains(&probes), "{probes}");
    }

    #[test]
    fn saved_credit_is_spent_within_a_few_probes() {
        let mut budget = Budget::new(4, 5_000, 1, 28);
        sent(&mut budget, 1_000, 9_000, Duration::ZERO);
        let mut later = Time::ZERO + Duration::from_secs(1_000);
        let mut probes = 0;
        for _ in 0..400 {
            later += Duration::from_nanos(1);
            probes += u64::from(budget.on_data(later, Bytes::new(20)));
        }
        assert!(probes <= SAVED_MAX + 1, "{probes}");
    }
}
