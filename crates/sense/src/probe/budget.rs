//! How many probes may be sent.

use weir_units::{Bytes, Duration, Time};

/// Parts that a byte of credit is divided into, so that budgets are exact.
const PARTS: i64 = 1_000_000;

/// Probes for which credit may be saved up, so that a burst of data is followed by its probes and no more.
const SAVED_MAX: i64 = 4;

/// Probes that may follow each other closely before the rate is enforced.
const BURST: u64 = 16;

/// Three limits at once: one probe for so many packets, so many bytes of probes for bytes of data, and a
/// rate.
///
/// Each is kept as what must be reached, so that a packet costs three comparisons and no arithmetic.
#[derive(Clone, Copy, Debug)]
pub(super) struct Budget {
    every: u64,
    parts_per_byte: i64,
    price: i64,
    spacing: Duration,
    /// What the data before `settled` has paid for, in parts of a byte; less than nothing after a probe that
    /// was dearer than the one before.
    credit: i64,
    /// Data up to which credit is settled.
    settled: Bytes,
    /// When the rate would be exactly used up by the probes sent so far.
    used_up: Time,
    /// What the next probe waits for.
    due: Due,
}

/// What must be reached.
#[derive(Clone, Copy, Debug)]
struct Due {
    packets: u64,
    bytes: Bytes,
    at: Time,
}

impl Budget {
    pub fn new(every: u32, budget_ppm: u32, rate_max: u32, probe_len: usize) -> Budget {
        let every = every.max(1).into();
        let mut budget = Budget {
            every,
            parts_per_byte: budget_ppm.into(),
            price: price_of(probe_len),
            spacing: Duration::from_nanos(weir_units::NANOS_PER_SEC / u64::from(rate_max.max(1))),
            credit: 0,
            settled: Bytes::ZERO,
            used_up: Time::ZERO,
            due: Due { packets: every, bytes: Bytes::ZERO, at: Time::ZERO },
        };
        budget.due.bytes = budget.paid_at();
        budget
    }

    /// From now on probes have this length.
    pub fn set_probe_len(&mut self, probe_len: usize) {
        if self.price != price_of(probe_len) {
            self.price = price_of(probe_len);
            self.due.bytes = self.paid_at();
        }
    }

    /// Whether a probe is due and paid for, after so much data in all.
    #[inline]
    pub fn is_due(&self, now: Time, packets: u64, bytes: Bytes) -> bool {
        packets >= self.due.packets && now >= self.due.at && bytes >= self.due.bytes
    }

    /// A probe is sent, after so much data in all.
    pub fn spend(&mut self, now: Time, packets: u64, bytes: Bytes) {
        let data = (bytes.get() - self.settled.get()).min(i64::MAX as u64) as i64;
        let earned = data.saturating_mul(self.parts_per_byte);
        self.credit = self.credit.saturating_add(earned).min(SAVED_MAX * self.price) - self.price;
        self.settled = bytes;
        self.used_up = self.used_up.max(now) + self.spacing;
        let ahead = self.spacing.saturating_mul(BURST - 1).as_nanos();
        let at = Time::from_nanos(self.used_up.as_nanos().saturating_sub(ahead));
        self.due = Due { packets: packets + self.every, bytes: self.paid_at(), at };
    }

    /// Data after which the next probe is paid for.
    fn paid_at(&self) -> Bytes {
        let missing = (self.price - self.credit).max(0) as u64;
        let wanted = match self.parts_per_byte {
            0 => u64::MAX,
            parts => missing.div_ceil(parts as u64),
        };
        self.settled + Bytes::new(wanted)
    }
}

fn price_of(probe_len: usize) -> i64 {
    probe_len as i64 * PARTS
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A budget beside the data so far.
    struct Beside {
        budget: Budget,
        packets: u64,
        bytes: Bytes,
    }

    impl Beside {
        fn new(rate_max: u32, probe_len: usize) -> Beside {
            Beside { budget: Budget::new(4, 5_000, rate_max, probe_len), packets: 0, bytes: Bytes::ZERO }
        }

        /// Whether a probe follows a packet.
        fn pass(&mut self, now: Time, len: u64) -> bool {
            self.packets += 1;
            self.bytes += Bytes::new(len);
            let is_due = self.budget.is_due(now, self.packets, self.bytes);
            if is_due {
                self.budget.spend(now, self.packets, self.bytes);
            }
            is_due
        }
    }

    fn sent(budget: &mut Beside, packets: u64, len: u64, spacing: Duration) -> u64 {
        let mut now = Time::ZERO;
        let mut probes = 0;
        for _ in 0..packets {
            now += spacing;
            probes += u64::from(budget.pass(now, len));
        }
        probes
    }

    #[test]
    fn full_packets_are_followed_by_one_probe_in_four() {
        let mut budget = Beside::new(1_000, 28);
        let probes = sent(&mut budget, 4_000, 1_500, Duration::from_millis(1));
        assert_eq!(probes, 1_000);
        assert!((probes * 28) as f64 / (4_000.0 * 1_500.0) < 0.0047, "share of the bytes");
    }

    #[test]
    fn small_packets_and_long_probes_are_held_to_the_share_of_bytes() {
        for (len, probe) in [(64, 28), (1_500, 48), (200, 48)] {
            let mut budget = Beside::new(1_000, probe);
            let probes = sent(&mut budget, 100_000, len, Duration::from_millis(1));
            let share = (probes * probe as u64) as f64 / (100_000 * len) as f64;
            assert!((0.0049..=0.005).contains(&share), "{share} with packets of {len} and probes of {probe}");
        }
    }

    /// Every sequence of nine packets of three sizes, after no time or a spacing, with probes of three
    /// lengths: each of the three limits is held at every step, and a probe that none of them holds up is
    /// due.
    #[test]
    fn all_short_histories_keep_the_three_limits() {
        const EVERY: u64 = 2;
        const PPM: u64 = 250_000;
        const RATE: u32 = 1_000_000;
        let spacing = Duration::from_nanos(weir_units::NANOS_PER_SEC / u64::from(RATE));
        for probe in [1, 5, 16] {
            for history in 0..6u32.pow(8) {
                let mut budget = Budget::new(EVERY as u32, PPM as u32, RATE, probe);
                let (mut now, mut packets, mut bytes, mut probes, mut last) = (Time::ZERO, 0, 0, 0, 0);
                let mut rest = history;
                for _ in 0..8 {
                    let (len, waits) = ([1, 7, 100][(rest % 3) as usize], rest / 3 % 2 == 1);
                    rest /= 6;
                    now += if waits { spacing } else { Duration::ZERO };
                    packets += 1;
                    bytes += len;
                    let is_due = budget.is_due(now, packets, Bytes::new(bytes));
                    if !is_due {
                        continue;
                    }
                    budget.spend(now, packets, Bytes::new(bytes));
                    assert!(packets >= last + EVERY, "one for so many packets: {history}");
                    (probes, last) = (probes + 1, packets);
                    // What all probes cost is paid for by the data so far, to the part of a byte.
                    assert!(probes * probe as u64 * 1_000_000 <= bytes * PPM, "{probe}, {history}");
                    let passed = now.as_nanos() / spacing.as_nanos();
                    assert!(probes <= BURST + passed, "{history}");
                }
                // Without a debt, with the packets that it takes and time enough, it is due.
                let much = Bytes::new(bytes + 64 * probe as u64);
                assert!(
                    budget.is_due(now + spacing.saturating_mul(64), packets + EVERY, much),
                    "{probe}, {history}"
                );
            }
        }
    }

    #[test]
    fn the_rate_is_held_however_much_data_passes() {
        let mut budget = Beside::new(1_000, 28);
        // A million packets in a second.
        let probes = sent(&mut budget, 1_000_000, 1_500, Duration::from_micros(1));
        assert!((1_000..=1_000 + BURST).contains(&probes), "{probes}");
    }

    #[test]
    fn saved_credit_is_spent_within_a_few_probes() {
        let mut budget = Beside::new(1, 28);
        sent(&mut budget, 1_000, 9_000, Duration::ZERO);
        let mut later = Time::ZERO + Duration::from_secs(1_000);
        let mut probes = 0;
        for _ in 0..400 {
            later += Duration::from_nanos(1);
            probes += u64::from(budget.pass(later, 20));
        }
        assert!(probes <= SAVED_MAX as u64 + 1, "{probes}");
    }
    #[test]
    fn a_probe_that_is_dearer_than_the_one_before_is_paid_for_later() {
        let mut budget = Beside::new(1_000, 28);
        assert_eq!(sent(&mut budget, 4, 1_500, Duration::from_millis(1)), 1);
        budget.budget.set_probe_len(48);
        let probes = sent(&mut budget, 100_000, 1_500, Duration::from_millis(1));
        let share = (probes * 48) as f64 / (100_000.0 * 1_500.0);
        assert!((0.0049..=0.005).contains(&share), "{share}");
    }
}
