//! Sensing on the packet path: probes follow the data out, and are taken out of what comes back.
//!
//! A probe is put into the batch behind the frame that it follows, and from there on goes where data goes:
//! through the same queue and shaper, and through whatever lies below. What returns ends here; its round trip
//! is a sample for the algorithm of the queue that it went through.

mod echo;
mod frame;
mod rate;
mod told;

pub use rate::SensedRate;
pub use told::SensingNow;

use crate::frames::{Arena, Frame};
use crate::{Error, Received};
use frame::{Form, ProbeFrame};
use std::hash::{BuildHasher, Hasher, RandomState};
use weir_config::{PortName, SenseConfig};
use weir_measure::result;
use weir_measure::{Distribution, Window};
use weir_sense::probe::{Sensor, Settings, Shaped, Shaping, State};
use weir_units::{Duration, Rate, Time};

/// A probe that came back for the first time.
#[derive(Clone, Copy, Debug)]
pub struct Back {
    /// Its number.
    pub sequence: u16,
    /// Its round trip, if that is a sample.
    pub rtt: Option<Duration>,
}

/// The prober of one direction.
pub struct Sensing {
    /// Port that faces the gateway.
    port: usize,
    form: Form,
    sensor: Sensor,
    /// A batch with the probes among it.
    mixed: Vec<Received>,
    redirects: u64,
    refused: u64,
    no_memory: u64,
    measured: Window,
    rtt: Distribution,
    every: u32,
    /// The state that was said last.
    said: State,
}

impl Sensing {
    /// A prober for batches of at most `batch` frames.
    pub fn new(config: &SenseConfig, batch: usize, measured: Window) -> Sensing {
        // The standard library takes it from the system's source of randomness.
        let nonce = RandomState::new().build_hasher().finish() as u16;
        let form = Form::new(config, nonce);
        let settings = Settings {
            every: config.every,
            budget_ppm: (config.budget.0 * 1e6 + 0.5) as u32,
            rate_max: config.rate_max,
            probe_len: form.first_len(),
            hold_after: config.hold,
            fall_back_after: config.fall_back,
        };
        Sensing {
            port: match config.port {
                PortName::A => 0,
                PortName::B => 1,
            },
            form,
            sensor: Sensor::new(settings, nonce),
            mixed: Vec::with_capacity(2 * batch),
            redirects: 0,
            refused: 0,
            no_memory: 0,
            measured,
            rtt: Distribution::default(),
            every: config.every,
            said: State::Starting,
        }
    }

    /// The port at which probes leave and come back.
    pub fn port(&self) -> usize {
        self.port
    }

    /// The direction whose queue probes go through: it enters at the other port.
    pub fn direction(&self) -> usize {
        1 - self.port
    }

    /// What keeps the rate of the direction, of this configuration and configured rate; `None` where probes
    /// have nothing to do with it.
    pub fn rate(&self, config: &SenseConfig, rate: Option<Rate>, now: Time) -> Option<Box<SensedRate>> {
        let settings = config.rate.settings(rate?)?;
        Some(Box::new(SensedRate::new(Shaping::new(settings, now), self.form)))
    }

    /// The frames with probes behind those that are to be followed by one.
    pub fn follow<'a>(&'a mut self, received: &'a [Received], arena: &mut Arena) -> &'a [Received] {
        self.mixed.clear();
        // Frames are copied up to here: only for the sake of a probe.
        let (mut copied, mut passed) = (0, 0);
        while let Some((ahead, data)) = self.next_due(&received[passed..], arena) {
            passed += ahead + 1;
            if let Some(probe) = self.probe(&received[passed - 1], &data, arena) {
                self.mixed.extend_from_slice(&received[copied..passed]);
                self.mixed.push(probe);
                copied = passed;
            }
        }
        if copied == 0 {
            return received;
        }
        self.mixed.extend_from_slice(&received[copied..]);
        &self.mixed
    }

    /// Counts frames up to the first one behind which a probe is due. All that most packets cost is here.
    fn next_due(&mut self, received: &[Received], arena: &mut Arena) -> Option<(usize, frame::Data)> {
        for (n, r) in received.iter().enumerate() {
            let Some(data) = self.form.follows(arena.bytes(r.frame)) else { continue };
            if self.sensor.is_due(r.arrived, data.len) {
                return Some((n, data));
            }
        }
        None
    }

    /// The probe behind a frame; none, and it stays due, without an address or memory for it.
    #[cold]
    fn probe(&mut self, behind: &Received, data: &frame::Data, arena: &mut Arena) -> Option<Received> {
        let plan = self.form.plan(data, arena.bytes(behind.frame))?;
        let Some(addr) = arena.take() else {
            self.no_memory += 1;
            return None;
        };
        self.sensor.set_probe_len(plan.len);
        let stamp = self.sensor.send(behind.arrived, data.dscp);
        let mut buffer = [0; frame::LONGEST];
        let Ok(len) = self.form.write(&plan, data, arena.bytes(behind.frame), stamp, &mut buffer) else {
            arena.give(addr);
            return None;
        };
        let frame = Frame { addr, len: len as u32 };
        arena.bytes(frame).copy_from_slice(&buffer[..len]);
        Some(Received { frame, arrived: behind.arrived })
    }

    /// Takes what answers probes out of the frames that came in; tells `back` of each probe among them.
    pub fn take(
        &mut self,
        received: &mut Vec<Received>,
        arena: &mut Arena,
        back: &mut dyn FnMut(Time, Back),
    ) {
        // Mostly there is nothing to take.
        if received.iter().all(|r| frame::is_plain_data(arena.bytes(r.frame))) {
            return;
        }
        received.retain(|r| {
            let Some(found) = self.form.find(arena.bytes(r.frame)) else { return true };
            arena.give(r.frame.addr);
            self.found(found, r.arrived, back);
            false
        });
    }

    #[cold]
    fn found(&mut self, found: ProbeFrame, at: Time, back: &mut dyn FnMut(Time, Back)) {
        match found {
            ProbeFrame::Reply(stamp) => {
                // What is not believed was counted.
                if let Ok(rtt) = self.sensor.on_return(at, &stamp) {
                    if self.measured.contains(at) {
                        self.rtt.record(rtt);
                    }
                    let is_sample = self.sensor.state() == State::Sensing;
                    back(at, Back { sequence: stamp.sequence, rtt: is_sample.then_some(rtt) });
                }
            }
            ProbeFrame::Redirect => self.redirects += 1,
            ProbeFrame::Refused => self.refused += 1,
        }
    }

    /// Looks after probes that are overdue; returns what is to be taken for a round trip in their place.
    pub fn look(&mut self, now: Time) -> Option<Duration> {
        if self.sensor.next_timer().is_none_or(|due| due > now) { None } else { self.sensor.on_timer(now) }
    }

    /// How it stands, if what samples are worth is not what was said last. That they are worth something at
    /// the beginning is no news.
    pub fn news(&mut self) -> Option<SensingNow> {
        let state = self.sensor.state();
        let before = std::mem::replace(&mut self.said, state);
        (state != before && !(before == State::Starting && state == State::Sensing)).then(|| self.now(None))
    }

    /// What its word is worth.
    pub fn state(&self) -> State {
        self.sensor.state()
    }

    /// How it stands, with what became of the rate.
    pub fn now(&self, shaped: Option<Shaped>) -> SensingNow {
        SensingNow {
            shaped,
            state: self.sensor.state(),
            counters: *self.sensor.counters(),
            rtt: self.sensor.rtt(),
            redirects: self.redirects,
            refused: self.refused,
            no_memory: self.no_memory,
        }
    }

    /// For results.
    pub fn summary(&self, shaped: Option<Shaped>) -> result::Sensing {
        let wire = Some(self.now(shaped).wire(self.every, &self.rtt));
        result::Sensing { wire, ..result::Sensing::of(&self.sensor, shaped.as_ref()) }
    }
}

/// The probe path over a frame in memory, so that its cost can be measured without ports.
pub struct Rehearsal {
    sensing: Sensing,
    arena: Arena,
    batch: Vec<Received>,
}

impl Rehearsal {
    /// A path for batches of as many frames like this one.
    pub fn new(config: &SenseConfig, frame: &[u8], batch: usize) -> Result<Rehearsal, Error> {
        let mut arena = Arena::new(2048, 4 * batch as u32)?;
        let always = Window { from: Time::ZERO, until: Time::ZERO + Duration::MAX };
        let received = (0..batch).filter_map(|_| {
            let frame_of = Frame { addr: arena.take()?, len: frame.len() as u32 };
            arena.bytes(frame_of).copy_from_slice(frame);
            Some(Received { frame: frame_of, arrived: Time::ZERO })
        });
        let batch: Vec<Received> = received.collect();
        Ok(Rehearsal { sensing: Sensing::new(config, batch.len(), always), arena, batch })
    }

    /// Lets the batch go out; how many frames it is with its probes.
    pub fn go_out(&mut self) -> usize {
        let out = self.sensing.follow(&self.batch, &mut self.arena);
        let count = out.len();
        if count > self.batch.len() {
            // Data is longer than any probe.
            let probes: Vec<Frame> =
                out.iter().map(|r| r.frame).filter(|f| f.len as usize <= frame::LONGEST).collect();
            probes.iter().for_each(|probe| self.arena.give(probe.addr));
        }
        count
    }

    /// Lets the batch come in; how many frames go on.
    pub fn come_in(&mut self) -> usize {
        self.sensing.take(&mut self.batch, &mut self.arena, &mut |_, _| {});
        self.batch.len()
    }
}

#[cfg(test)]
mod tests;
