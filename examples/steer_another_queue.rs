//! Steers the set point of a queue that belongs to somebody else, from what it tells at each signal:
//! `cargo run -p weir-examples --example steer_another_queue`.

use weir_steer::{Epoch, Law, Policy, SteeringLaw};
use weir_units::{Bytes, Duration, Rate, Time};

const RATE: Rate = Rate::from_mbps(100);
const RTT: f64 = 0.050;
const STEP: f64 = 0.001;

/// Somebody else's queue with one Reno flow, as a fluid: it halves the sender's window when its delay exceeds
/// a threshold that can be set from outside, as a kernel's qdisc takes a `target`.
struct Foreign {
    window: f64,
    backlog: f64,
    threshold: Duration,
    quiet_until: f64,
}

impl Foreign {
    /// A millisecond: bits that arrived and that left, the delay, and whether it signalled.
    fn step(&mut self, now: f64) -> (f64, f64, f64, bool) {
        let bps = RATE.as_bps_f64();
        let rtt = RTT + self.backlog / bps;
        let arrived = self.window / rtt * STEP;
        let left = (self.backlog + arrived).min(bps * STEP);
        self.backlog += arrived - left;
        self.window += 12_000.0 * STEP / rtt;
        let delay = self.backlog / bps;
        let signals = delay > self.threshold.as_secs_f64() && now > self.quiet_until;
        if signals {
            self.window /= 2.0;
            self.quiet_until = now + rtt;
        }
        (arrived, left, delay, signals)
    }
}

/// Runs the example.
pub fn main() {
    let mut law = SteeringLaw::new(&Policy::default()).expect("the default policy is valid");
    let mut queue = Foreign { window: 400e3, backlog: 0.0, threshold: law.setpoint(), quiet_until: 0.0 };
    let time = |seconds: f64| Time::ZERO + Duration::from_secs_f64(seconds);
    let (mut start, mut arrived, mut delay_min, mut used) = (0.0, 0.0, f64::MAX, [0.0; 2]);
    for step in 0..240_000 {
        let now = f64::from(step) * STEP;
        let (bits, left, delay, signals) = queue.step(now);
        (arrived, delay_min) = (arrived + bits, f64::min(delay_min, delay));
        used[usize::from(now >= 120.0)] += left;
        if signals {
            let seen = Epoch {
                start: time(start),
                now: time(now),
                arrived: Bytes::new((arrived / 8.0) as u64),
                delay_min: Some(Duration::from_secs_f64(delay_min)),
                ran_empty: delay_min == 0.0,
                link: RATE,
            };
            // The signal is out already: a raise counts from the next one on.
            if !law.raise(&seen, &mut ()) {
                law.signalled(&seen, &mut ());
            }
            queue.threshold = law.setpoint();
            (start, arrived, delay_min) = (now, 0.0, f64::MAX);
        }
    }
    let share = |bits: f64| 100.0 * bits / (120.0 * RATE.as_bps_f64());
    println!("{:.1} % used at first, {:.1} % then", share(used[0]), share(used[1]));
    println!("set point {} (policy: at most {})", law.setpoint(), law.policy().target_max);
    assert!(share(used[1]) > 90.0 && law.setpoint() > Duration::from_millis(10));
}
