//! A run of the packet loop under control: the loop sees only changes that were checked.

use super::customers::Customers;
use super::loops::{self, Facts, Seen, wait_until_told};
use super::{Controlled, Desk, Doors, How, Source, configured, needs_restart, refused, valued};
use crate::interrupt::HangUp;
use crate::log::Entry;
use crate::output::Failure;
use std::time::{Duration, Instant};
use weir_config::{AlarmsConfig, Buffer, Document, RunConfig};
use weir_dataplane::{Change, Handle, LinkState, LoopNow, Mode};
use weir_measure::result::{LinkSample, SteeringEvent};
use weir_operate::{AlarmLimits, Applied, Board, DirectionStatus, PortStatus, Refused, Status};

/// How long a packet loop may tell nothing until it counts as stuck, where samples are not further apart.
const SILENCE_MAX: Duration = Duration::from_secs(3);
/// Names of the directions, as in the configuration.
const DIRECTIONS: [&str; 2] = ["a_to_b", "b_to_a"];

/// A run that can be looked at and changed.
pub struct Control {
    desk: Desk,
    run: Running,
}

/// How the run stands.
struct Running {
    board: Board,
    /// What the packet loop was built from, and what is in force.
    started: RunConfig,
    current: RunConfig,
    about: Status,
    seen: Seen,
    begun: Instant,
    /// Customers, where there are plans of some.
    customers: Option<Customers>,
    /// Changes that the loop put into force.
    changes: u64,
    /// Whether the configuration in force is another one than when somebody asked last.
    is_changed: bool,
}

/// What came of being asked, for those who read along.
pub struct Heard {
    /// Lines for the log.
    pub lines: Vec<Entry>,
    /// Whether the configuration in force is another one.
    pub is_changed: bool,
}

impl Control {
    /// Controls a run that was built from this.
    pub fn new(
        doors: Doors,
        source: Source,
        (config, customers): (&RunConfig, Option<Customers>),
        mode: Mode,
        hangup: HangUp,
        board: Board,
    ) -> Result<Control, Failure> {
        let mut about = Status {
            verb: "run".into(),
            title: format!("{} <-> {}", config.ports.a, config.ports.b),
            mode: mode.to_string(),
            what_if: true,
            // Whether they are up is looked at first when the loop turns.
            ports: [&config.ports.a, &config.ports.b]
                .map(|name| PortStatus { name: name.clone(), ..PortStatus::default() })
                .into(),
            ..Status::default()
        };
        let desk = Desk::open(doors, source, &board, &mut about, hangup)?;
        let run = Running {
            board,
            started: config.clone(),
            current: config.clone(),
            about,
            seen: Seen::new(DIRECTIONS),
            begun: Instant::now(),
            customers,
            changes: 0,
            is_changed: false,
        };
        run.board.limit_alarms(limits(&config.alarms));
        run.publish_configuration();
        run.customers.iter().for_each(|customers| run.board.count(customers.all(DIRECTIONS)));
        Ok(Control { desk, run })
    }

    /// The configuration in force.
    pub fn config(&self) -> &RunConfig {
        &self.run.current
    }

    /// How the packet loop stands, as told last.
    pub fn told(&self) -> Option<&LoopNow> {
        self.run.seen.now()
    }

    /// Whether somebody asked for the end.
    pub fn is_draining(&self) -> bool {
        self.desk.is_draining()
    }

    /// Does for so long what is asked for.
    pub fn serve(&mut self, handle: &mut Handle, time: Duration) -> Heard {
        let lines = self.desk.serve(&mut Asked { run: &mut self.run, handle }, time);
        Heard { lines, is_changed: std::mem::take(&mut self.run.is_changed) }
    }

    /// The packet loop turns: the service manager is told.
    pub fn begin(&self) {
        self.desk.begin();
    }

    /// The run ended in order, and is not to be missed.
    pub fn end(&self) {
        self.run.board.end();
    }

    /// Refuses what is asked for from now on: the run ends.
    pub fn close(&mut self) {
        self.desk.close();
    }

    /// Publishes how the run stands.
    pub fn publish(&mut self, handle: &mut Handle, samples: &[Vec<LinkSample>; 2], events: &[SteeringEvent]) {
        let status = self.run.look(handle, samples, events);
        // A loop that does not turn is not told to be alive, so that the service manager starts another.
        if self.run.seen.silent() < self.run.silence_max() {
            self.desk.alive();
        }
        self.desk.stands(&status);
    }
}

/// A run, and the way to its packet loop.
struct Asked<'a> {
    run: &'a mut Running,
    handle: &'a mut Handle,
}

impl Controlled for Asked<'_> {
    fn apply(
        &mut self,
        next: &Document,
        How { dry_run, again, customers: of_customers }: How<'_>,
    ) -> Result<Applied, Refused> {
        let Asked { run, handle } = self;
        let config = next.run_config().map_err(refused)?;
        let mut notes: Vec<String> = config.warnings();
        let changed = run.current.changes(&config);
        let change = Change::between(&run.started, &run.current, &config).map_err(restart)?;
        notes.extend_from_slice(change.notes());
        let mut applied = Applied { changed: valued(changed), at_s: None, notes };
        let read = match &run.customers {
            Some(customers) if again => {
                let read = customers.again(&config)?;
                applied.changed.extend(read.iter().map(|read| customers.changed(read)));
                read
            }
            Some(customers) if !of_customers.is_empty() => {
                let (read, changed) = customers.with(&config, of_customers)?;
                let note =
                    "in force until the file of plans is read again, which puts back what the file says";
                applied.notes.extend(read.as_ref().map(|_| note.to_string()));
                applied.changed.extend(changed);
                read
            }
            _ => None,
        };
        let read = match (read, &run.customers) {
            // What the policy of a customer does not say is as in that of its direction.
            (None, Some(customers)) if change.moves_policies() => customers.under(&config)?,
            (read, _) => read,
        };
        let change = match &read {
            Some(read) => change.with_plans(&read.plans),
            None => change,
        };
        if dry_run {
            return Ok(applied);
        }
        if !change.is_empty() {
            applied.at_s = Some(run.put(handle, change)?);
        }
        if let Some(customers) = &mut run.customers {
            customers.measure_by(&config);
            read.into_iter().for_each(|read| customers.adopt(read));
            run.board.count(customers.all(DIRECTIONS));
        }
        run.is_changed |= !applied.changed.is_empty();
        run.board.limit_alarms(limits(&config.alarms));
        run.current = config;
        run.publish_configuration();
        wait_until_told(run.changes, || {
            run.look(handle, &Default::default(), &[]);
            run.seen.changes()
        });
        Ok(applied)
    }

    fn has_customers(&self) -> bool {
        self.run.customers.is_some()
    }

    fn drain(&mut self) -> Result<Applied, Refused> {
        let at_s = self.run.put(self.handle, Change::keep_forwarding())?;
        self.run.about.is_draining = true;
        let notes = vec!["the kernel goes on forwarding between the ports".into()];
        Ok(Applied { at_s: Some(at_s), notes, ..Applied::default() })
    }
}

/// A configuration as it is in force: a direction whose rate was changed keeps the bytes of its buffer.
fn in_force(current: &RunConfig, started: &RunConfig) -> RunConfig {
    let mut told = current.clone();
    let ways = [(&mut told.a_to_b, &started.a_to_b), (&mut told.b_to_a, &started.b_to_a)];
    for (told, started) in ways {
        if let Some(rate) = started.link.rate.filter(|_| told.link.rate != started.link.rate) {
            told.link.buffer = Buffer::Bytes(started.link.buffer.bytes(rate));
        }
    }
    told
}

impl Running {
    fn put(&mut self, handle: &mut Handle, change: Change) -> Result<f64, Refused> {
        let at_s = loops::put(handle, change)?;
        self.changes += 1;
        Ok(at_s)
    }

    fn publish_configuration(&self) {
        configured(&self.board, &self.about, in_force(&self.current, &self.started).to_toml());
    }

    /// Takes what the loop told, and publishes how the run stands.
    fn look(
        &mut self,
        handle: &mut Handle,
        samples: &[Vec<LinkSample>; 2],
        events: &[SteeringEvent],
    ) -> Status {
        self.seen.take(handle, [&samples[0], &samples[1]], events);
        if let Some(customers) = &mut self.customers
            && customers.look(handle)
        {
            self.board.count(customers.all(DIRECTIONS));
        }
        let status = self.status(handle.links());
        self.board.publish(status.clone());
        status
    }

    /// How long a loop that works may tell nothing: it does with each sample.
    fn silence_max(&self) -> Duration {
        SILENCE_MAX.max(Duration::from_nanos(self.current.run.sample.as_nanos()) * 2)
    }

    fn status(&self, links: [LinkState; 2]) -> Status {
        let mut status = self.about.clone();
        status.uptime_s = self.begun.elapsed().as_secs_f64();
        status.silent_s = self.seen.silent().as_secs_f64();
        let ports = [&self.current.ports.a, &self.current.ports.b];
        let now = self.seen.now();
        let port = |index: usize| PortStatus {
            name: ports[index].clone(),
            is_up: links[index] == LinkState::Up,
            lost_frames: now.map_or(0, |now| now.lost_before_queue[index]),
        };
        status.ports = vec![port(0), port(1)];
        self.seen.tell(&mut status);
        status.directions.extend((0..2).filter_map(|index| self.direction(index)));
        status
    }

    fn direction(&self, index: usize) -> Option<DirectionStatus> {
        let channel = [&self.current.a_to_b, &self.current.b_to_a][index];
        let name = DIRECTIONS[index];
        let facts = Facts { name, channel, policy: format!("{name}.policy"), rate: format!("{name}.rate") };
        let users = self.customers.as_ref().and_then(|customers| customers.status(index));
        Some(DirectionStatus { users, ..self.seen.direction(index, facts)? })
    }
}

/// When alarms are raised, as a configuration says.
pub fn limits(alarms: &AlarmsConfig) -> AlarmLimits {
    let AlarmsConfig {
        policy_missed_after,
        delay,
        delay_after,
        drops,
        drops_after,
        port_down_after,
        gateway_silent_after,
        loop_late,
        loop_late_after,
        loop_silent_after,
    } = *alarms;
    AlarmLimits {
        loop_silent_after_s: loop_silent_after.as_secs_f64(),
        loop_late: loop_late.0,
        loop_late_after_s: loop_late_after.as_secs_f64(),
        port_down_after_s: port_down_after.as_secs_f64(),
        policy_missed_after_s: policy_missed_after.as_secs_f64(),
        delay_ms: delay.map(|delay| delay.as_millis_f64()),
        delay_after_s: delay_after.as_secs_f64(),
        drops: drops.0,
        drops_after_s: drops_after.as_secs_f64(),
        gateway_silent_after_s: gateway_silent_after.as_secs_f64(),
    }
}

fn restart(needs: Vec<weir_dataplane::NeedsRestart>) -> Refused {
    let remedy =
        "change the file and start it with `weir run FILE --takeover`, which takes over without a gap";
    needs_restart(needs.into_iter().map(|one| (one.key, one.why)), remedy)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_configuration_that_says_nothing_of_alarms_has_those_of_all_programs() {
        let text = "ports = { a = \"x\", b = \"y\" }\n";
        let config = RunConfig::parse("f.toml", text).unwrap();
        assert_eq!(limits(&config.alarms), AlarmLimits::default());
        let more = format!("{text}[alarms]\ndelay = \"60ms\"\ndrops = \"1%\"\n");
        let config = RunConfig::parse("f.toml", &more).unwrap();
        let limited = AlarmLimits { delay_ms: Some(60.0), drops: 0.01, ..AlarmLimits::default() };
        assert_eq!(limits(&config.alarms), limited);
    }
}
