//! The sender of probes: when one is due, what a reply is worth, and what silence means.

use weir_units::{Bytes, Duration, Time};

use super::budget::Budget;
use super::outstanding::{KnownProbe, Outstanding};
use super::trust::Trust;
use super::wire::{IPV4_LEN, Stamp, TIMESTAMP_BITS};
use super::{Counters, Probe, State};
use crate::Srtt;

/// A probe is not called overdue before this age.
const OVERDUE_MIN: Duration = Duration::from_millis(500);

/// A probe is overdue after this many smoothed round trips.
const OVERDUE_ROUND_TRIPS: u64 = 4;

/// Time between two samples that the age of an overdue probe gives.
const AGE_EVERY: Duration = Duration::from_millis(100);

/// Probes that must have gone unanswered before silence is blamed on the path: the last few before a pause of
/// the traffic may have been lost by chance.
const UNANSWERED_MIN: u32 = 8;

/// How a sensor probes.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Settings {
    /// Data packets to a probe.
    pub every: u32,
    /// Bytes of probes to a million bytes of data, at most.
    pub budget_ppm: u32,
    /// Probes in a second, at most.
    pub rate_max: u32,
    /// Length of a probe in bytes, at the layer at which the data is counted; see [`Sensor::set_probe_len`].
    pub probe_len: usize,
    /// Ages of overdue probes count as samples up to here; then the last good value is held.
    pub hold_after: Duration,
    /// After this time without a return the sensor says that it senses nothing.
    pub fall_back_after: Duration,
}

impl Default for Settings {
    fn default() -> Settings {
        Settings {
            every: 4,
            budget_ppm: 5_000,
            rate_max: 1_000,
            probe_len: IPV4_LEN,
            hold_after: Duration::from_secs(2),
            fall_back_after: Duration::from_secs(5),
        }
    }
}

/// Why a reply is not believed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Rejected {
    /// Its sequence is not that of a recent probe.
    Unknown,
    /// Its nonce or timestamp is not that of the probe it names.
    Forged,
    /// The probe it names was sent later than now: a clock ran backwards.
    Future,
    /// The probe came back before.
    Duplicate,
}

/// The sender's state of one class in one direction. Holds what it needs by value, about 64 KB, and never
/// more, whatever comes in.
#[derive(Clone, Debug)]
pub struct Sensor {
    settings: Settings,
    nonce: u16,
    budget: Budget,
    outstanding: Outstanding,
    /// Smoothed over probes that came back.
    rtt: Srtt,
    /// The last of them.
    last_good: Option<Duration>,
    /// Probes sent since the last one came back.
    unanswered: u32,
    trust: Trust,
    /// When the age of an overdue probe last was a sample.
    last_age: Option<Time>,
    state: State,
    counters: Counters,
}

impl Sensor {
    /// A sensor whose probes carry `nonce`, which nobody else should be able to guess.
    pub fn new(settings: Settings, nonce: u16) -> Sensor {
        let s = &settings;
        Sensor {
            settings,
            nonce,
            budget: Budget::new(s.every, s.budget_ppm, s.rate_max, s.probe_len),
            outstanding: Outstanding::new(),
            rtt: Srtt::default(),
            last_good: None,
            unanswered: 0,
            trust: Trust::new(),
            last_age: None,
            state: State::Starting,
            counters: Counters::default(),
        }
    }

    /// A data packet of `len` bytes passed at `now`. Whether a probe is to follow it, which [`Sensor::send`]
    /// sends; one that cannot be sent stays due.
    #[inline]
    pub fn is_due(&mut self, now: Time, len: Bytes) -> bool {
        self.counters.data_packets += 1;
        self.counters.data_bytes += len;
        self.budget.is_due(now, self.counters.data_packets, self.counters.data_bytes)
    }

    /// A data packet of `len` bytes was queued at `now`, in class `dscp`. If a probe is to follow it, returns
    /// what the probe shall carry; it counts as sent.
    pub fn on_data(&mut self, now: Time, len: Bytes, dscp: u8) -> Option<Stamp> {
        self.is_due(now, len).then(|| self.send(now, dscp))
    }

    /// From now on probes have this length.
    pub fn set_probe_len(&mut self, probe_len: usize) {
        self.settings.probe_len = probe_len;
        self.budget.set_probe_len(probe_len);
    }

    /// Sends the probe that is due, behind a packet of class `dscp`: what it carries.
    pub fn send(&mut self, now: Time, dscp: u8) -> Stamp {
        self.budget.spend(now, self.counters.data_packets, self.counters.data_bytes);
        let (sequence, gave_up) = self.outstanding.push(now, dscp);
        if gave_up {
            self.note_lost();
        }
        self.counters.sent += 1;
        self.counters.sent_bytes += Bytes::new(self.settings.probe_len as u64);
        self.unanswered = self.unanswered.saturating_add(1);
        Stamp { sequence, nonce: self.nonce, sent: travelling(now), dscp }
    }

    /// A reply came in. Returns the round trip it measured, which is a sample while [`Sensor::state`] is
    /// [`State::Sensing`] afterwards.
    ///
    /// # Errors
    ///
    /// If it is not the first reply to a recent probe of this sensor, unaltered. Costs the same few steps
    /// whatever it is.
    pub fn on_return(&mut self, now: Time, reply: &Stamp) -> Result<Duration, Rejected> {
        let measured = self.examine(now, reply);
        match measured {
            Ok(rtt) => self.believe(now, rtt),
            Err(Rejected::Unknown) => self.counters.unknown += 1,
            Err(Rejected::Forged) => self.counters.forged += 1,
            Err(Rejected::Future) => self.counters.future += 1,
            Err(Rejected::Duplicate) => self.counters.duplicated += 1,
        }
        measured
    }

    fn examine(&mut self, now: Time, reply: &Stamp) -> Result<Duration, Rejected> {
        if reply.nonce != self.nonce {
            return Err(Rejected::Forged);
        }
        let sent = match self.outstanding.look_up(reply.sequence) {
            KnownProbe::No => return Err(Rejected::Unknown),
            KnownProbe::Returned => return Err(Rejected::Duplicate),
            KnownProbe::Sent(sent) => sent,
        };
        if reply.sent != travelling(sent) {
            return Err(Rejected::Forged);
        }
        if sent > now {
            return Err(Rejected::Future);
        }
        let arrival = self.outstanding.take(reply.sequence).ok_or(Rejected::Unknown)?;
        self.counters.late += u64::from(arrival.was_lost);
        self.counters.reordered += u64::from(arrival.reordered);
        self.counters.remapped += u64::from(arrival.dscp != reply.dscp);
        Ok(now.since(sent))
    }

    fn believe(&mut self, now: Time, rtt: Duration) {
        // Losses are counted before the return that shows them, so that both stay in the order in which they
        // happened.
        let _ = self.oldest_not_overtaken(now);
        self.counters.returned += 1;
        self.rtt.sample(rtt);
        self.last_good = Some(rtt);
        self.unanswered = 0;
        self.last_age = None;
        self.trust.note(true);
        if self.trust.holds() {
            self.state = State::Sensing;
        }
    }

    /// When [`Sensor::on_timer`] is due; it may come late. `None` while no probe is underway.
    pub fn next_timer(&self) -> Option<Time> {
        let (sent, overtaken) = self.outstanding.oldest()?;
        let due = match self.state {
            _ if overtaken => sent + self.overdue(),
            State::Sensing => sent + self.overdue(),
            State::Starting | State::Holding | State::FallenBack => sent + self.given_up(),
        };
        Some(self.last_age.map_or(due, |last| due.max(last + AGE_EVERY)))
    }

    /// Looks at the probes underway. Returns what to take as a sample in place of a reply: the age of the
    /// oldest one while that says more than the last reply, once the last good value, otherwise nothing.
    pub fn on_timer(&mut self, now: Time) -> Option<Duration> {
        let oldest = self.oldest_not_overtaken(now);
        if !self.trust.holds() {
            self.state = State::FallenBack;
        }
        let sent = oldest?;
        let age = now.since(sent);
        if age >= self.given_up() {
            return self.fall_back(now);
        }
        if age < self.overdue() || self.state != State::Sensing {
            return None;
        }
        if age >= self.settings.hold_after.max(self.overdue()) && self.unanswered >= UNANSWERED_MIN {
            self.state = State::Holding;
            self.last_age = None;
            return self.last_good;
        }
        if self.last_age.is_some_and(|last| now < last + AGE_EVERY) {
            return None;
        }
        self.last_age = Some(now);
        Some(age)
    }

    /// The oldest probe underway, after those were given up that are overdue and were overtaken: they are
    /// lost and not held up, and the ones behind them say how long the path is.
    fn oldest_not_overtaken(&mut self, now: Time) -> Option<Time> {
        loop {
            let (sent, overtaken) = self.outstanding.oldest()?;
            if !overtaken || now.since(sent) < self.overdue() {
                return Some(sent);
            }
            self.give_up_oldest();
        }
    }

    fn give_up_oldest(&mut self) {
        self.outstanding.give_up_oldest();
        self.note_lost();
    }

    fn note_lost(&mut self) {
        self.counters.lost += 1;
        self.trust.note(false);
    }

    /// Gives up all that is as old as that. The last good value is what remains, until there is enough
    /// silence to call it silence.
    fn fall_back(&mut self, now: Time) -> Option<Duration> {
        let limit = self.given_up();
        while self.outstanding.oldest().is_some_and(|(sent, _)| now.since(sent) >= limit) {
            self.give_up_oldest();
        }
        self.last_age = Some(now);
        if self.unanswered >= UNANSWERED_MIN {
            self.state = State::FallenBack;
            return None;
        }
        if self.state == State::Sensing { self.last_good } else { None }
    }

    fn overdue(&self) -> Duration {
        let srtt = self.rtt.get().unwrap_or(Duration::ZERO);
        srtt.saturating_mul(OVERDUE_ROUND_TRIPS).max(OVERDUE_MIN)
    }

    /// The age at which a probe is no longer waited for.
    fn given_up(&self) -> Duration {
        self.settings.fall_back_after.max(self.overdue())
    }

    /// Whether probe samples can be relied on.
    pub fn state(&self) -> State {
        self.state
    }

    /// Round trip smoothed over the probes that came back; in [`State::Holding`] the value that is held.
    pub fn rtt(&self) -> Option<Duration> {
        self.rtt.get()
    }

    /// What was seen so far.
    pub fn counters(&self) -> &Counters {
        &self.counters
    }

    /// Takes a packet, from its network header on, for a reply: `None` if it is no probe that was bounced.
    pub fn recognize(packet: &[u8]) -> Option<Stamp> {
        Probe::parse(packet).ok().filter(Probe::has_bounced).map(|probe| probe.stamp)
    }
}

/// The part of a time that travels.
fn travelling(sent: Time) -> u64 {
    sent.as_nanos() & ((1 << TIMESTAMP_BITS) - 1)
}

#[cfg(test)]
mod tests;
