//! The sensor of a link, and the way of its probes.

use weir_config::Probing;
use weir_sense::probe::{IPV4_LEN, Sensor, Shaped, Shaping, State};
use weir_units::{Rate, Time};

/// Length of a probe as an IP packet.
pub(crate) const PROBE_LEN: u32 = IPV4_LEN as u32;

/// The sensor of a link.
pub struct Prober {
    pub(crate) sensor: Sensor,
    /// What it does to the rate of the link, if anything.
    pub(crate) shaping: Option<Box<Shaping>>,
    /// The links that a probe passes, the probing one first, from there to the turning point and back.
    pub(crate) route: Vec<u32>,
    /// When the next event for the sensor's timer comes; later ones may be in the event queue too.
    pub(crate) armed: Option<Time>,
    /// When the sensor's state changed, and to what.
    states: Vec<(Time, State)>,
}

impl Prober {
    /// Nothing was sent yet; `nonce` is what the probes carry.
    pub fn new(probing: &Probing, nonce: u16) -> Prober {
        let route = probing.route.iter().map(|link| *link as u32).collect();
        let shaping = probing.shaping.map(|settings| Box::new(Shaping::new(settings, Time::ZERO)));
        let sensor = Sensor::new(probing.settings, nonce);
        Prober { sensor, shaping, route, armed: None, states: Vec::new() }
    }

    /// What became of the link's rate, if probes have anything to do with it.
    pub fn shaped(&self) -> Option<&Shaped> {
        self.shaping.as_ref().map(|shaping| shaping.told())
    }

    /// The rate while probes do not come back.
    pub(crate) fn fall_back(&self) -> Option<Rate> {
        self.shaping.as_ref().and_then(|shaping| shaping.settings().fall_back)
    }

    /// When somebody has to look after it.
    pub(crate) fn next_timer(&self) -> Option<Time> {
        let decides = self.shaping.as_ref().and_then(|shaping| shaping.due());
        self.sensor.next_timer().into_iter().chain(decides).min()
    }

    /// What it saw.
    pub fn sensor(&self) -> &Sensor {
        &self.sensor
    }

    /// When the sensor's state changed, and to what.
    pub fn states(&self) -> &[(Time, State)] {
        &self.states
    }

    /// The link that a probe enters which has so many before it, the way out of the last counted.
    pub(crate) fn next_link(&self, left: u16) -> Option<u32> {
        self.route.get(self.route.len() - usize::from(left)).copied()
    }

    pub(crate) fn note_state(&mut self, now: Time) {
        let state = self.sensor.state();
        if self.states.last().map_or(State::default(), |(_, last)| *last) != state {
            self.states.push((now, state));
        }
    }
}
