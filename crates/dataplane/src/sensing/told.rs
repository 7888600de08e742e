//! What is told of sensing: to who watches, and in results.

use weir_measure::Distribution;
use weir_measure::result::SensedWire;
use weir_sense::probe::{Counters, Shaped, State};
use weir_units::{Duration, Rate};

/// How sensing stands.
#[derive(Clone, Copy, Debug)]
pub struct SensingNow {
    /// What samples are worth.
    pub state: State,
    /// What became of the probes.
    pub counters: Counters,
    /// Smoothed round trip.
    pub rtt: Option<Duration>,
    /// What became of the rate, where probes have to do with it.
    pub shaped: Option<Shaped>,
    /// Messages of routers that know a shorter way for a probe; not passed on.
    pub redirects: u64,
    /// Messages of routers and hosts that do not pass probes on; not passed on.
    pub refused: u64,
    /// Packets behind which a probe was due and for which there was no memory.
    pub no_memory: u64,
}

impl SensingNow {
    /// What only a live link sees, for results; `every` is the number of packets of data to a probe, `rtt`
    /// has the round trips of the measured part.
    pub fn wire(&self, every: u32, rtt: &Distribution) -> SensedWire {
        let c = &self.counters;
        SensedWire {
            data_packets: c.data_packets,
            data_bytes: c.data_bytes.get(),
            sent_bytes: c.sent_bytes.get(),
            budget_skipped: (c.data_packets / u64::from(every.max(1))).saturating_sub(c.sent),
            redirects: self.redirects,
            refused: self.refused,
            no_memory: self.no_memory,
            rtt_ms: rtt.spread_ms(),
        }
    }

    /// In a line, for who watches.
    pub fn line(&self) -> String {
        let c = &self.counters;
        let rtt = self.rtt.map_or("-".into(), |rtt| format!("{:.1}", rtt.as_millis_f64()));
        let mut line =
            format!("{}, RTT {rtt} ms, sent {}, returned {}", self.state.name(), c.sent, c.returned);
        let rest = [
            ("lost", c.lost),
            ("late", c.late),
            ("duplicated", c.duplicated),
            ("reordered", c.reordered),
            ("class changed", c.remapped),
            ("forged", c.forged + c.future + c.unknown),
        ];
        if let Some(Shaped { rate, cuts, .. }) = self.shaped {
            line.push_str(&format!(", shaped to {rate}"));
            line.push_str(&if cuts > 0 { format!(" (lowered {cuts} times)") } else { String::new() });
        }
        for (name, count) in rest.into_iter().filter(|(_, count)| *count > 0) {
            line.push_str(&format!(", {name} {count}"));
        }
        line
    }

    /// What a change of the state means, which also changed the rate to this one; `None` for one that needs
    /// no words.
    pub fn warning(&self, direction: &str, moved: Option<Rate>) -> Option<String> {
        let shaped = moved.map_or(String::new(), |rate| format!(", and the direction is shaped to {rate}"));
        let refused = match self.refused {
            0 => "Remedy: see docs/sensing.md for what the gateway must do".to_string(),
            n => format!("The gateway or a router answered {n} times that it does not pass them on"),
        };
        match self.state {
            State::FallenBack => Some(format!(
                "{direction}: sensing has fallen back to this link's own queue at the configured set point{shaped}: of {} \
                 probes {} came back, and too few lately. {refused}",
                self.counters.sent, self.counters.returned
            )),
            State::Holding => Some(format!(
                "{direction}: probes do not come back any more; the last good round trip is held for now"
            )),
            State::Sensing => Some(format!("{direction}: probes come back, the link is sensed{shaped}")),
            State::Starting => None,
        }
    }
}
