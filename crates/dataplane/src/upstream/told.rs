//! What is told of an observer: to who watches, and in results.

use super::{Measured, Observer};
use weir_measure::result::Observed;
use weir_sense::Coverage;
use weir_units::{Duration, Rate};

/// How a direction that observes stands.
#[derive(Clone, Copy, Debug)]
pub struct UpstreamNow {
    /// Path RTT, Average RTT and Target RTT, where all flows share a bottleneck and one was measured.
    pub model: Option<[Duration; 3]>,
    /// The rate that it follows, where that is lower than its own.
    pub rate: Option<Rate>,
    /// Whether it follows.
    pub follows: bool,
    /// Which share of the bytes is measured.
    pub coverage: Coverage,
    /// Users that are measured, where each is by itself.
    pub users: Option<u32>,
    /// How many of them are held to a rate of their own, where each may be.
    pub held: Option<usize>,
}

impl UpstreamNow {
    /// In a line, for who watches.
    pub fn line(&self) -> String {
        let ms = |time: Duration| format!("{:.1}", time.as_millis_f64());
        let mut parts = Vec::new();
        match (self.model, self.users) {
            (Some([path, average, target]), None) => {
                parts.push(format!("RTT {} ms, path {}, target {}", ms(average), ms(path), ms(target)));
            }
            (_, Some(users)) => parts.push(format!("{users} users")),
            (None, None) => parts.push("no RTT yet".to_string()),
        }
        if let Some(held) = self.held {
            parts.push(format!("{held} held to a rate"));
        } else if self.follows {
            parts.push(self.rate.map_or("rate not held".to_string(), |rate| {
                format!("rate held at {:.2} Mbit/s", rate.as_bps_f64() / 1e6)
            }));
        }
        if let Some(share) = self.coverage.share() {
            parts.push(format!("{:.0} % of bytes measured", share * 100.0));
        }
        parts.join(", ")
    }
}

impl Observer {
    /// How it stands.
    pub fn now(&self) -> UpstreamNow {
        let path = self.path();
        let model = path.path_rtt().zip(path.average()).zip(path.target_rtt());
        let own = self.setup.own;
        UpstreamNow {
            model: model.map(|((path, average), target)| [path, average, target]),
            rate: self.bottleneck.as_ref().and_then(|bottleneck| bottleneck.rate(own)),
            follows: self.setup.mode.follows(),
            coverage: self.coverage,
            users: match &self.measured {
                Measured::All(_) => None,
                Measured::Each(users) => Some(users.used()),
            },
            held: match &self.measured {
                Measured::All(_) => None,
                Measured::Each(users) => users.held(own),
            },
        }
    }

    /// What it learned, for results.
    pub fn summary(&self) -> Observed {
        let now = self.now();
        let model = now.model.filter(|_| now.users.is_none());
        let of_model = |n: usize| model.map(|model| model[n].as_millis_f64());
        let s = self.suspicions();
        let suspicions = [
            ("acks_beyond", s.acks_beyond),
            ("sequence_jumps", s.sequence_jumps),
            ("stamp_jumps", s.stamp_jumps),
            ("spin_out_of_turn", s.spin_out_of_turn),
            ("spin_distrusted", s.spin_distrusted),
            ("spin_outliers", s.spin_outliers),
            ("untracked", s.untracked),
            ("unreadable", self.unreadable),
        ];
        Observed {
            mode: self.setup.mode.to_string(),
            rtt_ms: Some(self.rtt.spread_ms()),
            samples: self.samples,
            path_rtt_ms: of_model(0),
            average_rtt_ms: of_model(1),
            target_rtt_ms: of_model(2),
            rate_bps: now.rate.map(|rate| rate.as_bps_f64()),
            bytes: self.coverage.bytes,
            live_bytes: self.coverage.live,
            users: now.users.unwrap_or(1),
            memory_bytes: self.bytes() as u64,
            suspicions: suspicions
                .iter()
                .filter(|(_, n)| *n > 0)
                .map(|(name, n)| (name.to_string(), *n))
                .collect(),
        }
    }
}
