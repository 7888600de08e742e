//! What is seen of a run: what each modem delivered in each second, and how long packets took.

use crate::segments::Connections;
use serde::{Deserialize, Serialize};
use weir_aqm::Packet;
use weir_config::{Class, Scenario};
use weir_sense::probe::Stamp;
use weir_sim::Body;
use weir_sim::tap::{LinkContext, Tap, TappedPacket};
use weir_units::{Duration, Time};

/// Delays in whole milliseconds, up to a minute.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Delays {
    counts: Vec<u64>,
    total: u64,
}

/// Longer delays count as this.
const LONGEST_MS: usize = 60_000;

impl Delays {
    /// Counts one.
    pub fn note(&mut self, delay_ms: f64) {
        let slot = (delay_ms as usize).min(LONGEST_MS);
        if self.counts.len() <= slot {
            self.counts.resize(slot + 1, 0);
        }
        self.counts[slot] += 1;
        self.total += 1;
    }

    /// Takes in those of another run.
    pub fn add(&mut self, other: &Delays) {
        self.counts.resize(self.counts.len().max(other.counts.len()), 0);
        for (mine, theirs) in self.counts.iter_mut().zip(&other.counts) {
            *mine += theirs;
        }
        self.total += other.total;
    }

    /// The delay that a share of the packets does not exceed, in ms; NaN of nothing.
    pub fn quantile(&self, share: f64) -> f64 {
        let wanted = share * self.total as f64;
        let mut sum = 0;
        for (slot, count) in self.counts.iter().enumerate() {
            sum += count;
            if self.total > 0 && sum as f64 >= wanted {
                return (slot + 1) as f64;
            }
        }
        f64::NAN
    }

    /// Share of the packets up to each delay in ms, where it changes.
    pub fn distribution(&self) -> Vec<(f64, f64)> {
        let mut sum = 0;
        let share = |sum: u64| sum as f64 / self.total.max(1) as f64;
        let seen = self.counts.iter().enumerate().filter(|(_, count)| **count > 0);
        seen.map(|(slot, count)| {
            sum += count;
            ((slot + 1) as f64, share(sum))
        })
        .collect()
    }
}

/// Watches a run.
pub struct Observer {
    from_s: f64,
    rtt_ms: f64,
    /// The modem of a link behind which data has passed all queues.
    modem: Vec<Option<usize>>,
    connections: Connections,
    /// The first flow of class EF; all that follow are of it.
    voice_from: u32,
    /// End-to-end delays of the packets of class EF, there and back without queues on the way back.
    pub voice: Delays,
    /// What the last probe behind each modem took through its queues, in ms.
    probed_ms: [Option<f64>; 3],
    /// By how much the packets of data behind it took more or less than that.
    pub errors: Delays,
    /// Megabits that each modem delivered in each second of the measured part.
    pub delivered: [Vec<f64>; 3],
    /// End-to-end round trips of the data packets.
    pub delays: Delays,
}

impl Observer {
    /// For a scenario whose flows have this round-trip time.
    pub fn new(scenario: &Scenario, rtt_ms: f64) -> Observer {
        let (from_s, to_s) = (scenario.run.warmup.as_secs_f64(), scenario.run.duration.as_secs_f64());
        let bins = (to_s - from_s) as usize;
        let modem = |name: &str| match name.strip_prefix("mac_up").or(name.strip_prefix("mac_down"))? {
            "1" => Some(0),
            "2" => Some(1),
            "3" => Some(2),
            _ => None,
        };
        let assured = scenario.flows.iter().take_while(|flows| flows.class == Class::Assured);
        Observer {
            voice_from: assured.map(|flows| flows.count).sum(),
            voice: Delays::default(),
            from_s,
            rtt_ms,
            modem: scenario.links.iter().map(|link| modem(&link.name)).collect(),
            connections: Connections::new(),
            probed_ms: [None; 3],
            errors: Delays::default(),
            delivered: std::array::from_fn(|_| vec![0.0; bins]),
            delays: Delays::default(),
        }
    }
}

impl Tap for Observer {
    fn on_depart(&mut self, at: &LinkContext<'_>, seen: TappedPacket<'_>, _sojourn: Duration, _marked: bool) {
        let (Some(modem), Body::Data(segment)) = (self.modem[at.link], &seen.item.body) else { return };
        if seen.flow >= self.voice_from {
            if at.now.as_secs_f64() >= self.from_s {
                self.voice.note(self.rtt_ms + at.now.since(segment.sent).as_millis_f64());
            }
            return;
        }
        let key = (seen.flow, seen.item.connection, seen.item.generation);
        let arrived = self.connections.entry(key).or_default().note(segment.seq).unwrap_or(0);
        let now_s = at.now.as_secs_f64();
        if now_s < self.from_s {
            return;
        }
        let took_ms = at.now.since(segment.sent).as_millis_f64();
        self.delays.note(self.rtt_ms + took_ms);
        if let Some(probed_ms) = self.probed_ms[modem] {
            self.errors.note((took_ms - probed_ms).abs());
        }
        let bin = (now_s - self.from_s) as usize;
        if let Some(megabits) = self.delivered[modem].get_mut(bin) {
            *megabits += (arrived * u64::from(segment.payload) * 8) as f64 / 1e6;
        }
    }

    fn on_probe(&mut self, at: &LinkContext<'_>, _packet: &Packet, stamp: &Stamp) {
        if let Some(modem) = self.modem[at.link] {
            let sent = Time::from_nanos(stamp.sent);
            self.probed_ms[modem] = Some(at.now.since(sent).as_millis_f64());
        }
    }
}

#[cfg(test)]
pub mod tests {
    use super::*;

    /// Packets that all took so many milliseconds.
    pub fn delays(ms: u64) -> Delays {
        let mut delays = Delays::default();
        (0..100).for_each(|_| delays.note(ms as f64 - 0.5));
        delays
    }

    #[test]
    fn quantiles_are_upper_ends_of_milliseconds() {
        let mut delays = Delays::default();
        assert!(delays.quantile(0.5).is_nan());
        (0..100).for_each(|ms| delays.note(f64::from(ms) + 0.5));
        assert_eq!([0.05, 0.5, 0.95, 1.0].map(|share| delays.quantile(share)), [5.0, 50.0, 95.0, 100.0]);
        let mut both = Delays::default();
        both.note(1e9);
        both.add(&delays);
        assert_eq!((both.quantile(0.5), both.quantile(1.0)), (51.0, 60_001.0));
        assert_eq!(delays.distribution()[1], (2.0, 0.02));
    }
}
