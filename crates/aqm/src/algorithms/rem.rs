//! REM: random exponential marking (Athuraliya, Li, Low and Yin, "REM: active queue management", IEEE Network
//! 15(3), 2001), with its price computed from the queue alone as in Kunniyur and Srikant, SIGCOMM 2001.
//!
//! A price rises while the queue grows or stands above its reference, and falls otherwise. Each arriving
//! packet is signalled with a probability that is exponential in the price, so that a sender whose packets
//! pass several such queues sees the sum of their prices.
//!
//! ```text
//! every period: price = max(0, price + gamma * (q - (1 - alpha) * q_old - alpha * q_ref)),  q_old = q
//!               p = 1 - phi^-price
//! ```
//!
//! The price knows packets: the queue is counted in packets of mean size, and the reference is the set point
//! `target` at the link's rate. The gains are those of the paper, which were chosen for links of a thousand
//! packets per second; on faster ones the price moves too fast for its effect to be awaited.

use crate::Chance;
use crate::packets;
use crate::sampling::Sampling;
use crate::{Algorithm, Aqm, Cause, Moment, Packet, Setpoint, Verdict};
use weir_units::{Bytes, Duration, Rate, Time};

const TARGET_MIN: Duration = Duration::from_micros(1);
const TARGET_MAX: Duration = Duration::from_secs(10);

crate::params! {
    /// Parameters of REM.
    pub struct Params {
        /// Queue that is aimed at, as the time its bytes take at the link's rate: `q_ref` of Kunniyur and
        /// Srikant, section 4, is 40 ms (50 packets of 1000 bytes at 10 Mbit/s). The default is that of PIE
        /// (RFC 8033 section 4.2).
        target: Duration = Duration::from_millis(15), TARGET_MIN => TARGET_MAX;
        /// Base of the probability: more means a larger one for the same price (REM, section "Exponential
        /// marking"; 1.001 in its simulations).
        phi: f64 = 1.001, 1.000001 => 10.0;
        /// Step of the price for each packet of difference (REM; 0.001 in its simulations).
        gamma: f64 = 0.001, 0.000000001 => 1.0;
        /// Weight of the queue's distance from the reference against its growth (REM; 0.1 in its
        /// simulations).
        alpha: f64 = 0.1, 0.0 => 1.0;
        /// Period of the price (2 ms in the simulator ns-2).
        period: Duration = Duration::from_millis(2), Duration::from_micros(100) => Duration::from_secs(10);
        /// Size of the packets in which the queue is counted.
        mean_packet: Bytes = Bytes::new(1538), Bytes::new(64) => Bytes::new(65_536);
        /// Whether the queue's bytes are counted (RFC 7141 section 2.1) and not its packets.
        count_bytes: bool = true, false => true;
        /// Whether ECN-capable packets are marked instead of dropped.
        ecn: bool = true, false => true;
    }
}

/// See the [module documentation](self).
#[derive(Clone, Debug)]
pub struct Rem {
    params: Params,
    /// Natural logarithm of phi.
    ln_phi: f64,
    sampling: Sampling,
    price: f64,
    /// Probability that goes with the price.
    p: f64,
    q_old: f64,
}

impl Algorithm for Rem {
    const NAME: &'static str = "rem";
    const SUMMARY: &'static str =
        "Signals at random, exponentially in a price that integrates the queue's distance from its reference.";
    const SOURCE: &'static str =
        "Athuraliya et al., IEEE Network 15(3), 2001, as in Kunniyur and Srikant, SIGCOMM 2001";
    const SETPOINT: Option<&'static str> = Some("target");
    type Params = Params;

    fn new(params: &Params, start: Time) -> Self {
        Rem {
            params: params.clone(),
            ln_phi: libm::log(params.phi),
            sampling: Sampling::new(params.period, start),
            price: 0.0,
            p: 0.0,
            q_old: 0.0,
        }
    }
}

impl Rem {
    /// `steps` periods at the end of which the queue was `q` each time.
    fn step(&mut self, q: f64, q_ref: f64, steps: f64) {
        let Params { alpha, gamma, .. } = self.params;
        self.price = (self.price + gamma * (q - (1.0 - alpha) * self.q_old - alpha * q_ref)).max(0.0);
        // All further ones are alike, and after the first that is limited they all are.
        self.price = (self.price + gamma * alpha * (q - q_ref) * (steps - 1.0)).max(0.0);
        self.q_old = q;
        self.p = -libm::expm1(-self.price * self.ln_phi);
    }
}

impl Aqm for Rem {
    const USES_RANDOM: bool = true;

    fn on_enqueue(&mut self, m: &Moment, p: &Packet) -> Verdict {
        if Chance::new(self.p).hits(m.random_bits::<Self>()) {
            Verdict::signal(p, self.params.ecn, Cause::Chance)
        } else {
            Verdict::Forward
        }
    }

    fn next_wakeup(&self) -> Option<Time> {
        Some(self.sampling.due())
    }

    fn on_wakeup(&mut self, m: &Moment) {
        let steps = self.sampling.pass(m.now, m.queue.packets == 0);
        // A link of unknown rate has no reference in packets; the host's buffer limits it.
        if m.queue.rate == Rate::ZERO {
            self.p = 0.0;
        } else {
            let Params { target, mean_packet, count_bytes, .. } = self.params;
            let q = packets::length(&m.queue, mean_packet, count_bytes);
            self.step(q, packets::sent_in(target, m.queue.rate, mean_packet), steps);
        }
    }

    fn setpoint(&mut self) -> Option<&mut dyn Setpoint> {
        Some(self)
    }

    fn gauges(&self, plot: &mut dyn FnMut(&'static str, f64)) {
        plot("price", self.price);
        plot("probability", self.p);
    }
}

impl Setpoint for Rem {
    fn get(&self) -> Duration {
        self.params.target
    }

    fn set(&mut self, to: Duration) -> Duration {
        self.params.target = to.clamp(TARGET_MIN, TARGET_MAX);
        self.params.target
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Ecn, View};

    /// The link of Kunniyur and Srikant: 10 Mbit/s, packets of 1000 bytes, reference 50 packets.
    fn rem() -> Rem {
        let params = Params {
            target: Duration::from_millis(40),
            mean_packet: Bytes::new(1000),
            ..Params::default()
        };
        Rem::new(&params, Time::ZERO)
    }

    fn moment(now: Time, packets: u32) -> Moment {
        let backlog = Bytes::new(u64::from(packets) * 1000);
        let queue = View { backlog, packets, delay: Duration::ZERO, rate: Rate::from_mbps(10) };
        Moment::new(now, queue, 0)
    }

    #[test]
    fn prices_and_probabilities_computed_by_hand() {
        let rows = [
            (60, 0.055, 5.4971e-5),
            (80, 0.076, 7.5959e-5),
            (100, 0.099, 9.8946e-5),
            (100, 0.104, 1.03943e-4),
            (100, 0.109, 1.08940e-4),
        ];
        for count_bytes in [true, false] {
            let mut rem = rem();
            rem.params.count_bytes = count_bytes;
            for (n, (packets, price, p)) in rows.into_iter().enumerate() {
                let now = Time::from_nanos(n as u64 * 2_000_000);
                assert_eq!(rem.next_wakeup(), Some(now));
                rem.on_wakeup(&moment(now, packets));
                assert!((rem.price - price).abs() < 1e-12, "{} in step {n}", rem.price);
                assert!((rem.p - p).abs() < 6e-10, "{} in step {n}", rem.p);
            }
        }
    }

    /// `-expm1(-price * ln phi)` against the power: they differ by less than 2e-13, which is what is lost by
    /// subtracting the power from one; small prices keep all their digits.
    #[test]
    fn the_probability_is_that_of_the_power() {
        let mut rem = rem();
        for n in 0..10_000 {
            rem.price = f64::from(n) * 0.37;
            let price = rem.price;
            rem.q_old = 50.0;
            rem.step(50.0, 50.0, 1.0);
            assert!((rem.p - (1.0 - libm::pow(1.001, -price))).abs() < 2e-13, "{price}");
        }
        rem.price = 1e-12;
        rem.step(50.0, 50.0, 1.0);
        assert!((rem.p / (1e-12 * libm::log(1.001)) - 1.0).abs() < 1e-12);
    }

    #[test]
    fn missed_periods_are_what_single_ones_would_have_been() {
        for (price, q_old, q) in [(0.5, 60.0, 80.0), (0.01, 10.0, 0.0), (0.0, 0.0, 30.0), (3.0, 100.0, 20.0)] {
            let (mut late, mut punctual) = (rem(), rem());
            (late.price, late.q_old) = (price, q_old);
            (punctual.price, punctual.q_old) = (price, q_old);
            late.step(q, 50.0, 300.0);
            for _ in 0..300 {
                punctual.step(q, 50.0, 1.0);
            }
            assert!((late.price - punctual.price).abs() < 1e-12, "{} {}", late.price, punctual.price);
        }
    }

    #[test]
    fn packets_are_signalled_with_the_probability() {
        let mut rem = rem();
        rem.p = 0.25;
        let ask = |rem: &mut Rem, dice, ecn| {
            let p = Packet { arrived: Time::ZERO, len: Bytes::new(1000), seq: 0, flow: 0, ecn };
            let m = moment(Time::ZERO, 10);
            rem.on_enqueue(&Moment::new(m.now, m.queue, dice), &p)
        };
        assert_eq!(ask(&mut rem, (1 << 62) - 1, Ecn::NotEct), Verdict::Drop(Cause::Chance));
        assert_eq!(ask(&mut rem, (1 << 62) - 1, Ecn::Ect0), Verdict::Mark(Cause::Chance));
        assert_eq!(ask(&mut rem, 1 << 62, Ecn::Ect0), Verdict::Forward);
    }
}
