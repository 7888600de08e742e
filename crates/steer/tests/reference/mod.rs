//! GSP-AS written down once more, plainly and independently of the crate: adaptive delay-based GSP
//! (draft-lauten-aqm-gsp-03) with Algorithms 1 to 4 of AQM Steering in one function, averages as explicit
//! sums over all samples, no wrapper, no copies of algorithms.
//!
//! Times are whole nanoseconds here as well, so that both sides compare alike.

use weir_aqm::{Aqm, Cause, Moment, Packet, Verdict};
use weir_steer::Policy;
use weir_units::Time;

const INTERVAL_NS: f64 = 20e6;
const TAU_NS: f64 = 100e6;
const ALPHA: f64 = 2.0;
const MAX_CUM_NS: f64 = 300e9;

/// Parameters of the GSP that this reference contains.
pub fn gsp_params() -> weir_aqm::algorithms::gsp::Params {
    weir_aqm::algorithms::gsp::Params {
        interval: weir_units::Duration::from_nanos(INTERVAL_NS as u64),
        tau: weir_units::Duration::from_nanos(TAU_NS as u64),
        ..Default::default()
    }
}

#[derive(Clone, Copy, PartialEq)]
enum State {
    Clear,
    Overflow,
    Drain,
}

#[derive(Clone)]
struct GspState {
    state: State,
    was_above: bool,
    last_update: f64,
    timeout_expiry: f64,
    cum_time: f64,
}

pub struct Reference {
    policy: Policy,
    gsp: GspState,
    pub thresh_curr: f64,
    trq_min: f64,
    depths: Vec<(f64, f64)>,
    depth_count: u32,
    bytes_bd: f64,
    t0: f64,
    rates: Vec<(f64, f64)>,
    /// With the memories of the real and of the virtual queue.
    averages: Option<[f64; 2]>,
    thresh_up: bool,
    discarded: bool,
    pub vq_active: bool,
    pub vq_size: f64,
    vq_last: f64,
    pub rate_vq: f64,
    pub variance: f64,
}

impl Reference {
    pub fn new(policy: &Policy) -> Self {
        let thresh = policy.target_min_up.clamp(policy.target_min, policy.target_max);
        Reference {
            policy: policy.clone(),
            gsp: GspState {
                state: State::Clear,
                was_above: false,
                last_update: 0.0,
                timeout_expiry: 0.0,
                cum_time: 0.0,
            },
            thresh_curr: thresh.as_nanos() as f64,
            trq_min: f64::INFINITY,
            depths: Vec::new(),
            depth_count: 0,
            bytes_bd: 0.0,
            t0: 0.0,
            rates: Vec::new(),
            averages: None,
            thresh_up: false,
            discarded: false,
            vq_active: false,
            vq_size: 0.0,
            vq_last: 0.0,
            rate_vq: 0.0,
            variance: 0.0,
        }
    }

    fn interval(&self) -> f64 {
        (INTERVAL_NS / (1.0 + self.gsp.cum_time / TAU_NS)).round()
    }

    /// Whether GSP looks at the virtual queue: not while the real delay breaks the policy.
    fn looks_at_virtual(&self, m: &Moment) -> bool {
        let guard = self.policy.virtual_guard && m.queue.delay > self.policy.target_max;
        self.vq_active && !guard
    }

    fn ctrl_above(&self, m: &Moment) -> bool {
        let delay = if self.looks_at_virtual(m) {
            (self.vq_size * 8e9 / self.rate_vq).round()
        } else {
            m.queue.delay.as_nanos() as f64
        };
        delay > self.thresh_curr
    }

    fn gsp_empty(&self, m: &Moment) -> bool {
        if self.looks_at_virtual(m) { self.vq_size == 0.0 } else { m.queue.packets == 0 }
    }

    /// The emptiness that Algorithms 2 and 4 ask for.
    fn ctrl_empty(&self, m: &Moment) -> bool {
        if self.vq_active { self.vq_size == 0.0 } else { m.queue.packets == 0 }
    }

    /// Adaptation of the timeout and burst rule; whether the queue is above its threshold.
    fn gsp_parts_1_and_2(&mut self, m: &Moment, over: bool) -> bool {
        let (above, empty, now) = (self.ctrl_above(m), self.gsp_empty(m), ns(m.now));
        if over {
            self.gsp.state = State::Overflow;
        }
        if self.gsp.state == State::Overflow && empty {
            self.gsp.state = State::Drain;
        }
        if self.gsp.state == State::Drain && above {
            self.gsp.state = State::Clear;
        }
        let dt = now - self.gsp.last_update;
        if above && self.gsp.was_above {
            self.gsp.cum_time += ALPHA * dt;
        } else if !above && !self.gsp.was_above && self.gsp.state == State::Clear {
            self.gsp.cum_time -= dt;
        }
        self.gsp.cum_time = self.gsp.cum_time.clamp(0.0, MAX_CUM_NS);
        self.gsp.was_above = above;
        self.gsp.last_update = now;
        if empty {
            self.gsp.timeout_expiry = now + self.interval();
        }
        above
    }

    fn common_part(&mut self, m: &Moment, p: &Packet) {
        let (now, rate_max) = (ns(m.now), m.queue.rate.as_bps_f64());
        self.bytes_bd += p.len.get() as f64;
        if !self.vq_active {
            self.rate_vq = rate_max;
        }
        self.vq_size = (self.vq_size - self.rate_vq / 8e9 * (now - self.vq_last)).max(0.0);
        self.vq_last = now;
        if m.queue.packets == 0 {
            self.trq_min = 0.0;
        }
    }

    /// Exponentially weighted mean and variance, summed over all samples.
    fn mean_and_variance(&self, now: f64) -> (f64, f64) {
        let memory = self.policy.memory_depth.as_nanos() as f64;
        let weighted = || self.depths.iter().map(|(t, d)| ((-(now - t) / memory).exp(), *d));
        let weight: f64 = weighted().map(|(w, _)| w).sum();
        let mean = weighted().map(|(w, d)| w * d).sum::<f64>() / weight;
        let spread: f64 = weighted().map(|(w, d)| w * (d - mean) * (d - mean)).sum();
        if !self.policy.unbiased_variance {
            return (mean, spread / weight);
        }
        let squares: f64 = weighted().map(|(w, _)| w * w).sum();
        let freedom = weight - squares / weight;
        (mean, if freedom < 1e-9 { 0.0 } else { spread / freedom })
    }

    /// The average rate (rate_bd_avg) by which the queue that is controlled goes.
    pub fn rate_bd_avg(&self) -> Option<f64> {
        self.averages.map(|of| of[usize::from(self.vq_active)])
    }

    /// The average rate, given the memory that an epoch of a length has.
    fn smooth_cpa(&self, memory: impl Fn(f64) -> f64) -> f64 {
        // The newest sample was measured last: walk back, with the weight of what came later.
        let (mut age, mut sum, mut weight) = (0.0_f64, 0.0, 0.0);
        for (n, (dt, rate)) in self.rates.iter().enumerate().rev() {
            let first = n == 0 && !self.policy.unbiased_rate;
            let share = if first { 1.0 } else { 1.0 - (-dt / memory(*dt)).exp() };
            let w = (-age).exp() * share * memory(*dt);
            sum += w * rate;
            weight += w;
            age += dt / memory(*dt);
        }
        sum / weight
    }

    /// Memory of an epoch of a length, while the virtual queue is in use.
    fn virtual_memory(&self, dt: f64) -> f64 {
        let least = self.policy.virtual_memory.as_nanos() as f64;
        (f64::from(self.policy.virtual_signals) * dt).clamp(least, 10.0 * least)
    }

    /// By how much of the difference the virtual rate moves at the end of an epoch.
    fn gain(&self, m: &Moment) -> f64 {
        let dt = ns(m.now) - self.t0;
        let share = 1.0 - (-dt / self.virtual_memory(dt)).exp();
        self.policy.virtual_gain * if self.policy.virtual_by_time { share } else { 1.0 }
    }

    fn at_discard(&mut self, rate_bd: f64, m: &Moment) {
        let policy = self.policy.clone();
        let rate_max = m.queue.rate.as_bps_f64();
        let (low, target) = (policy.utilization_low.0 * rate_max, policy.utilization_target.0 * rate_max);
        let (min, quantum) = (policy.target_min.as_nanos() as f64, policy.step_min.as_nanos() as f64);
        let avg = self.rate_bd_avg().unwrap();
        // Algorithm 1.
        if !self.vq_active && self.trq_min < self.thresh_curr {
            self.depths.push((ns(m.now), self.thresh_curr - self.trq_min));
            self.depth_count += 1;
            let (d_avg, v_avg) = self.mean_and_variance(ns(m.now));
            self.variance = v_avg;
            let down = self.thresh_curr - (d_avg + policy.margin * v_avg.sqrt());
            let mut down = (down / quantum + 1e-9).floor() * quantum;
            if policy.cap_step {
                down = down.min((self.thresh_curr / 2.0).round());
            }
            if self.depth_count >= policy.samples_min && down > 0.0 && avg > low {
                self.thresh_curr = (self.thresh_curr - down).max(min);
            }
        }
        // Algorithm 3.
        if target < rate_max && avg > target {
            let thresh_vq = policy.virtual_target.as_nanos() as f64;
            if !self.vq_active && rate_bd > target {
                self.thresh_curr =
                    (policy.virtual_step * self.thresh_curr + 0.5).floor().max(min).max(thresh_vq);
                if self.thresh_curr <= thresh_vq {
                    self.vq_active = true;
                    self.rate_vq = rate_max;
                    self.vq_size = m.queue.backlog.get() as f64;
                }
            }
            if self.vq_active {
                self.rate_vq = target.max(self.rate_vq + self.gain(m) * (target - avg));
            }
        }
        self.trq_min = f64::INFINITY;
    }

    /// Algorithms 2 and 4: whether this crossing raises instead of signalling.
    fn raises(&mut self, rate_bd: f64, m: &Moment) -> bool {
        let policy = self.policy.clone();
        let rate_max = m.queue.rate.as_bps_f64();
        let (low, target) = (policy.utilization_low.0 * rate_max, policy.utilization_target.0 * rate_max);
        let avg = self.rate_bd_avg().unwrap_or(rate_bd);
        let raises = self.thresh_up && rate_bd < low && avg < low;
        self.thresh_up = false;
        if !raises {
            return false;
        }
        self.discarded = false;
        if !self.vq_active {
            let up = (self.thresh_curr * policy.raise_factor + 0.5).floor();
            let floor = policy.target_min_up.as_nanos() as f64;
            self.thresh_curr = up.max(floor).min(policy.target_max.as_nanos() as f64);
        } else {
            self.rate_vq = (self.rate_vq + self.gain(m) * (target - avg)).min(rate_max);
            if self.rate_vq >= rate_max {
                self.vq_active = false;
            }
        }
        true
    }

    fn signals(&mut self, m: &Moment, p: &Packet, above: bool) -> Verdict {
        if !above || ns(m.now) <= self.gsp.timeout_expiry {
            return Verdict::Forward;
        }
        self.gsp.timeout_expiry = ns(m.now) + self.interval();
        Verdict::signal(p, true, Cause::SetPoint)
    }
}

fn ns(t: Time) -> f64 {
    t.as_nanos() as f64
}

impl Aqm for Reference {
    fn on_enqueue(&mut self, m: &Moment, p: &Packet) -> Verdict {
        self.common_part(m, p);
        if self.ctrl_empty(m) && self.discarded {
            self.thresh_up = true;
        }
        let before = self.gsp.clone();
        let above = self.gsp_parts_1_and_2(m, false);
        let mut verdict = self.signals(m, p, above);
        let dt = ns(m.now) - self.t0;
        if verdict != Verdict::Forward && self.raises(self.bytes_bd * 8e9 / dt, m) {
            // The deliberate difference to the printed form, which lets this packet pass unseen: GSP looks
            // at it again with the higher set point, as if for the first time. A packet above the raised
            // set point as well is signalled now and not one packet later.
            self.gsp = before;
            let above = self.gsp_parts_1_and_2(m, false);
            verdict = self.signals(m, p, above);
        }
        if verdict != Verdict::Forward {
            if matches!(verdict, Verdict::Drop(_)) && !self.policy.count_discarded {
                self.bytes_bd -= p.len.get() as f64;
            }
            let rate_bd = self.bytes_bd * 8e9 / dt;
            self.rates.push((dt, rate_bd));
            let of_real = self.policy.memory_rate.as_nanos() as f64;
            self.averages =
                Some([self.smooth_cpa(|_| of_real), self.smooth_cpa(|dt| self.virtual_memory(dt))]);
            self.at_discard(rate_bd, m);
            self.t0 = ns(m.now);
            self.bytes_bd = 0.0;
            self.discarded = true;
        }
        if !matches!(verdict, Verdict::Drop(_)) {
            self.vq_size += p.len.get() as f64;
        }
        verdict
    }

    fn on_overflow(&mut self, m: &Moment, p: &Packet) {
        self.common_part(m, p);
        if self.ctrl_empty(m) && self.discarded {
            self.thresh_up = true;
        }
        if !self.policy.count_discarded {
            self.bytes_bd -= p.len.get() as f64;
        }
        self.gsp_parts_1_and_2(m, true);
    }

    fn on_dequeue(&mut self, m: &Moment, p: &Packet) -> Verdict {
        self.trq_min = self.trq_min.min(ns(m.now) - ns(p.arrived));
        Verdict::Forward
    }

    fn on_empty(&mut self, _now: Time) {
        self.trq_min = 0.0;
    }
}
