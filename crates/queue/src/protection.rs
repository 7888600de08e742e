//! Queue protection (RFC 9957): which flows build the queue that is to stay short.
//!
//! Each flow has a queuing score: how long the bytes for which it is to blame take at a rate that a flow may
//! cause congestion with all the time ([`AGING`]). A packet adds its size times the probability with which a
//! native AQM of that queue would mark it; time takes away as much as passes. Who has a high score while the
//! queue is long is sanctioned: the packet goes to another queue. Flows that do not build a queue never get a
//! score, as the probability is zero while the queue is short.

use weir_units::{Bytes, Duration, Rate, Time};

/// Base 2 logarithm of the congestion rate in bytes/s at which scores age (`LG_AGING`, RFC 9957 section 4.1):
/// about 4 Mbit/s.
const LG_AGING: u32 = 19;

/// The same in nanoseconds for each byte: 2^30 stands for the nanoseconds of a second, as in the RFC.
const AGING: f64 = (1_u64 << (30 - LG_AGING)) as f64;

/// Score above which a flow is sanctioned when the queue has its critical delay (`CRITICALqLSCORE`).
const CRITICAL_SCORE: Duration = Duration::from_millis(4);

/// Most that is held against a flow.
const SCORE_MAX: Duration = Duration::from_secs(5);

/// Buckets that are looked at for a flow (`ATTEMPTS`).
const ATTEMPTS: u32 = 2;

/// Delay at which a native AQM marks all packets (`MAXTH`), and how far below it marks none.
const MAXTH: Duration = Duration::from_millis(1);
const RANGE: Duration = Duration::from_nanos(1 << 19);

/// Largest packet that links are expected to carry.
const FRAME_MAX: Bytes = Bytes::new(1518);

/// Probability of a mark by delay: none up to `min`, all from `min + range` on.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Ramp {
    pub min: Duration,
    pub range: Duration,
}

impl Ramp {
    /// That of RFC 9957: up to 1 ms, but more on slow links.
    pub fn native(rate: Rate) -> Ramp {
        Ramp { min: MAXTH - RANGE, range: RANGE }.at_rate(rate)
    }

    /// The same, but no mark before two of the largest packets wait at this rate.
    pub fn at_rate(self, rate: Rate) -> Ramp {
        let floor = if rate == Rate::ZERO { Duration::ZERO } else { rate.time_for(FRAME_MAX + FRAME_MAX) };
        Ramp { min: self.min.max(floor), ..self }
    }

    /// The delay from which on the queue counts as too long (`CRITICALqL`): where all packets are marked.
    fn critical(&self) -> Duration {
        self.min + self.range
    }

    fn at(&self, delay: Duration) -> f64 {
        if delay <= self.min {
            0.0
        } else if delay >= self.critical() {
            1.0
        } else {
            (delay - self.min).as_secs_f64() / self.range.as_secs_f64()
        }
    }
}

/// The score of a flow as the time at which it has aged away.
#[derive(Clone, Copy, Default)]
struct Bucket {
    flow: u32,
    expires: Time,
}

/// The scores. Memory is allocated when it is made.
pub(crate) struct Protection {
    /// One for each flow that has a score, and behind them the one of all flows that found none.
    buckets: Box<[Bucket]>,
    bits: u32,
}

impl Protection {
    /// With 2^`bits` buckets, of which RFC 9957 has 32.
    pub fn new(bits: u32) -> Protection {
        Protection { buckets: vec![Bucket::default(); (1 << bits) + 1].into(), bits }
    }

    /// A packet of a flow comes to a queue in which it would wait so long: whether it is sanctioned.
    pub fn sanctions(&mut self, now: Time, flow: u32, len: Bytes, delay: Duration, ramp: Ramp) -> bool {
        let at = self.pick(now, flow);
        let score = self.fill(now, at, len, ramp.at(delay));
        let product = |a: Duration, b: Duration| u128::from(a.as_nanos()) * u128::from(b.as_nanos());
        delay > ramp.critical() && product(delay, score) > product(ramp.critical(), CRITICAL_SCORE)
    }

    /// The bucket of a flow: its own, else one whose score has aged away, else the common one.
    fn pick(&mut self, now: Time, flow: u32) -> usize {
        let common = self.buckets.len() - 1;
        let mut free = None;
        for attempt in 0..ATTEMPTS {
            let at = (flow >> (attempt * self.bits)) as usize & (common - 1);
            let bucket = &self.buckets[at];
            if bucket.flow == flow {
                return at;
            }
            if free.is_none() && bucket.expires <= now {
                free = Some(at);
            }
        }
        let at = free.unwrap_or(common);
        self.buckets[at].flow = flow;
        at
    }

    /// Adds what a packet is to blame for; the score of its flow afterwards.
    fn fill(&mut self, now: Time, at: usize, len: Bytes, probability: f64) -> Duration {
        let bucket = &mut self.buckets[at];
        let blame = Duration::from_nanos((probability * len.get() as f64 * AGING) as u64);
        let score = (bucket.expires.since(now) + blame).min(SCORE_MAX);
        bucket.expires = now + score;
        score
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MTU: Bytes = Bytes::new(1500);

    fn us(us: u64) -> Duration {
        Duration::from_micros(us)
    }

    fn at(us: u64) -> Time {
        Time::ZERO + self::us(us)
    }

    fn ramp() -> Ramp {
        Ramp::native(Rate::from_mbps(1000))
    }

    #[test]
    fn the_ramp_of_the_rfc() {
        // 1 ms less 2^19 ns, and from there to 1 ms.
        assert_eq!(ramp(), Ramp { min: Duration::from_nanos(475_712), range: Duration::from_nanos(524_288) });
        for (delay, known) in [(0, 0.0), (475_712, 0.0), (737_856, 0.5), (1_000_000, 1.0), (9_000_000, 1.0)] {
            assert!((ramp().at(Duration::from_nanos(delay)) - known).abs() < 1e-12, "{delay}");
        }
        // Two packets of 1518 bytes at 10 Mbit/s.
        assert_eq!(Ramp::native(Rate::from_mbps(10)).min, Duration::from_nanos(2_428_800));
        assert_eq!(Ramp::native(Rate::ZERO), ramp());
    }

    #[test]
    fn a_packet_adds_its_size_over_the_aging_rate_and_time_takes_it_away() {
        let mut protection = Protection::new(5);
        // 1500 bytes at 2^19 bytes/s, with 2^30 ns for a second: 3.072 ms.
        assert_eq!(protection.fill(at(0), 3, MTU, 1.0), us(3072));
        assert_eq!(protection.fill(at(1000), 3, MTU, 0.5), us(3072 - 1000 + 1536));
        assert_eq!(protection.fill(at(1000), 3, MTU, 0.0), us(3608));
        assert_eq!(protection.fill(at(4608), 3, MTU, 0.0), Duration::ZERO);
        for _ in 0..2000 {
            protection.fill(at(4608), 3, MTU, 1.0);
        }
        assert_eq!(protection.fill(at(4608), 3, MTU, 1.0), SCORE_MAX);
    }

    #[test]
    fn who_is_sanctioned_follows_from_delay_times_score() {
        // At twice the critical delay half of the critical score is enough: 2 ms, which one packet makes.
        for (delay, want) in [(1000, [false; 3]), (1001, [false, true, true]), (2000, [true; 3])] {
            let mut protection = Protection::new(5);
            let got = [0, 0, 0].map(|_| protection.sanctions(at(0), 7, MTU, us(delay), ramp()));
            assert_eq!(got, want, "{delay}");
        }
        // 1.302 ms times 3.072 ms is just below 4 ms times 1 ms, 1.303 ms times 3.072 ms is above.
        for (delay, want) in [(1302, false), (1303, true)] {
            assert_eq!(Protection::new(5).sanctions(at(0), 7, MTU, us(delay), ramp()), want, "{delay}");
        }
    }

    #[test]
    fn a_flow_below_the_aging_rate_is_never_sanctioned_for_a_queue_of_others_at_the_critical_delay() {
        let mut protection = Protection::new(5);
        // 200 bytes each 500 us are 400 kB/s; the other flow fills the link.
        for n in 0..10_000 {
            assert!(!protection.sanctions(at(n * 500), 1, Bytes::new(200), us(1200), ramp()), "{n}");
            let big = (0..5).map(|_| protection.sanctions(at(n * 500), 2, MTU, us(1200), ramp())).last();
            assert!(n < 2 || big == Some(true), "{n}");
        }
    }

    #[test]
    fn a_flow_gets_a_bucket_whose_score_has_aged_away_else_the_common_one() {
        let mut protection = Protection::new(5);
        // Of 10 bits the lower five are looked at first.
        let flows = [0b00010_00001, 0b00011_00001, 0b00011_00001 + (1 << 20), 0b00011_00001];
        let picked = flows.map(|flow| {
            let at = protection.pick(at(0), flow);
            protection.fill(self::at(0), at, MTU, 1.0);
            at
        });
        assert_eq!(picked, [1, 3, 32, 3]);
        // Once the scores have aged away.
        assert_eq!(protection.pick(at(20_000), flows[2]), 1);
        protection.fill(at(20_000), 1, MTU, 1.0);
        assert_eq!(protection.pick(at(20_000), flows[0]), 2);
    }
}
