//! A lab under control: how its links stand, and changes of the one link where there is one.

use super::loops::{self, Facts, Seen, wait_until_told};
use super::{Controlled, Desk, Doors, How, Source, configured, needs_restart, refused, valued};
use crate::interrupt::HangUp;
use crate::log::Entry;
use crate::output::Failure;
use crate::results::Planned;
use std::path::Path;
use std::time::{Duration, Instant};
use weir_config::{Channel, Document, Scenario};
use weir_dataplane::Change;
use weir_lab::Playing;
use weir_measure::result::SteeringEvent;
use weir_operate::{Applied, Board, DirectionStatus, Refusal, Refused, Status};

/// What to do about a key that does not change.
const REMEDY: &str = "change the file and start `weir lab` again";

/// Labs, one after the other, that can be looked at and changed.
pub struct Control {
    /// Until the first run begins, when they are handed to the desk.
    doors: Option<(Doors, HangUp)>,
    desk: Option<Desk>,
    set: Vec<String>,
    lab: Option<Lab>,
    board: Board,
    about: Status,
}

/// The run that is under way.
struct Lab {
    board: Board,
    /// What it was made from, and what is in force: as the file has it, before its sweep.
    started: Scenario,
    current: Scenario,
    /// The scenario of this run.
    run: Scenario,
    source: Option<Source>,
    about: Status,
    seen: Vec<Seen>,
    begun: Instant,
    changes: u64,
    /// Whether that is another than when somebody asked last.
    is_changed: bool,
    /// What was changed, and when, for the results.
    told: Vec<String>,
}

impl Control {
    /// Listens at these addresses from the first run on; `set` is what was set over the files.
    pub fn new(doors: Doors, set: &[String], hangup: HangUp) -> Control {
        let about = Status {
            verb: "lab".into(),
            mode: "network namespaces".into(),
            what_if: true,
            ..Status::default()
        };
        let (doors, board) = (Some((doors, hangup)), Board::default());
        Control { doors, desk: None, set: set.to_vec(), lab: None, board, about }
    }

    /// Another run begins.
    pub fn begin(&mut self, planned: &Planned) -> Result<(), Failure> {
        let file = planned.document.scenario().map_err(Failure::input)?;
        let name = Path::new(planned.document.file());
        self.about.title.clone_from(&planned.scenario.title);
        self.lab = Some(Lab {
            board: self.board.clone(),
            started: file.clone(),
            current: file,
            run: planned.scenario.clone(),
            source: Some(Source::new(Some(name), &self.set, (*planned.document).clone())),
            about: self.about.clone(),
            seen: Vec::new(),
            begun: Instant::now(),
            changes: 0,
            is_changed: false,
            told: Vec::new(),
        });
        Ok(())
    }

    /// Whether somebody asked for the end.
    pub fn is_draining(&self) -> bool {
        self.desk.as_ref().is_some_and(Desk::is_draining)
    }

    /// The scenario of the run, as it is in force, if it was changed since somebody asked.
    pub fn scenario(&mut self) -> Option<&Scenario> {
        let lab = self.lab.as_mut()?;
        std::mem::take(&mut lab.is_changed).then_some(&lab.run)
    }

    /// What was changed in the run, for its results.
    pub fn changed(&mut self) -> Vec<String> {
        self.lab.as_mut().map(|lab| std::mem::take(&mut lab.told)).unwrap_or_default()
    }

    /// Does for so long what is asked for; entries for the log. The thread that answers begins with the first
    /// run, because it inherits the processors of the caller, who by then keeps off the packet loop's.
    pub fn serve(&mut self, loops: &mut [Playing<'_>], time: Duration) -> Vec<Entry> {
        let begun = Instant::now();
        let mut lines = self.open();
        let left = time.saturating_sub(begun.elapsed());
        match (&mut self.desk, &mut self.lab) {
            (Some(desk), Some(lab)) => lines.extend(desk.serve(&mut Asked { lab, loops }, left)),
            _ => std::thread::sleep(left),
        }
        lines
    }

    /// Answers from now on, if it does not yet, of the run that is under way.
    fn open(&mut self) -> Vec<Entry> {
        let Some(lab) = &mut self.lab else { return Vec::new() };
        let Some(source) = lab.source.take() else { return Vec::new() };
        let mut lines = Vec::new();
        if let Some((mut doors, hangup)) = self.doors.take() {
            lines.extend(doors.listen().map(|line| Entry::warn("control", line)));
            match Desk::open(doors, source, &self.board, &mut lab.about, hangup) {
                Ok(desk) => {
                    desk.begin();
                    self.about.clone_from(&lab.about);
                    self.desk = Some(desk);
                }
                Err(failure) => {
                    let why = format!("nobody can look at this run, which goes on: {}", failure.text());
                    lines.push(Entry::warn("control", why));
                }
            }
        } else if let Some(desk) = &mut self.desk {
            lab.about.file = source.name();
            desk.turn_to(source);
        }
        lab.publish_configuration();
        lines
    }

    /// Publishes how the links stand.
    pub fn publish(&mut self, loops: &mut [Playing<'_>], events: &[SteeringEvent]) {
        let (Some(lab), Some(desk)) = (&mut self.lab, &mut self.desk) else { return };
        let status = lab.look(loops, events);
        desk.alive();
        desk.stands(&status);
    }

    /// Refuses what is asked for from now on: the program ends.
    pub fn close(&mut self) {
        self.desk.iter_mut().for_each(Desk::close);
    }
}

impl Lab {
    fn publish_configuration(&self) {
        configured(&self.board, &self.about, self.current.to_toml());
    }

    /// Takes what the loops told, and publishes how their links stand.
    fn look(&mut self, loops: &mut [Playing<'_>], events: &[SteeringEvent]) -> Status {
        if self.seen.len() != loops.len() {
            let names = |playing: &Playing<'_>| Seen::new(playing.names.map(Option::unwrap_or_default));
            self.seen = loops.iter().map(names).collect();
        }
        let mut status = self.about.clone();
        status.uptime_s = self.begun.elapsed().as_secs_f64();
        for (seen, playing) in self.seen.iter_mut().zip(&mut *loops) {
            seen.take(playing.handle, playing.samples, events);
            status.silent_s = status.silent_s.max(seen.silent().as_secs_f64());
            seen.tell(&mut status);
        }
        for (seen, playing) in self.seen.iter().zip(&*loops) {
            let names = playing.names.iter().enumerate();
            let named = names.filter_map(|(index, name)| direction(&self.run, seen, index, (*name)?));
            status.directions.extend(named);
        }
        self.board.publish(status.clone());
        status
    }

    /// Why nothing of the scenario can change, if that is so.
    fn fixed(&self, loops: usize) -> Option<&'static str> {
        match () {
            () if !self.started.sweep.axes.is_empty() => {
                Some("this run is a point of a sweep, whose keys are the scenario's")
            }
            () if loops != 1 || !self.started.links.is_empty() => {
                Some("links of a row or of homes are built with it; that of a scenario with one link changes")
            }
            () => None,
        }
    }
}

/// How a link stands; what a link of a row is made of is not told by its loop.
fn direction(run: &Scenario, seen: &Seen, index: usize, name: &str) -> Option<DirectionStatus> {
    let is_only = run.links.is_empty();
    let channel = match (is_only, index) {
        (true, 0) => run.forward(),
        (true, _) => Channel::unshaped(),
        (false, _) => of_row(run, name),
    };
    let place = run.links.iter().position(|link| link.name == name);
    let table = place.map_or(String::new(), |place| format!("links.{place}."));
    let rate = if is_only { "link.rate".into() } else { format!("{table}rate") };
    let facts = Facts { name, channel: &channel, policy: format!("{table}policy"), rate };
    seen.direction(index, facts)
}

/// What is told of a link of a row.
fn of_row(run: &Scenario, name: &str) -> Channel {
    let mut channel = Channel::unshaped();
    if let Some(link) = run.links.iter().find(|link| link.name == name) {
        channel.aqm.clone_from(&link.aqm);
        channel.policy.clone_from(&link.policy);
    }
    channel
}

/// A run, and the ways to its packet loops.
struct Asked<'a, 'b> {
    lab: &'a mut Lab,
    loops: &'a mut [Playing<'b>],
}

/// What a key of a direction of `weir run` is called in a scenario.
fn in_scenario(key: &str) -> String {
    match key {
        "rate" | "buffer" | "accounting" | "overhead" => format!("link.{key}"),
        "delay" => "path".into(),
        _ => key.into(),
    }
}

/// Whether a key is one of the queue and its link, of which [`Change`] says which of them change.
fn is_of_link(key: &str) -> bool {
    ["link.rate", "aqm", "policy", "queue"]
        .iter()
        .any(|table| key.strip_prefix(table).is_some_and(|rest| rest.is_empty() || rest.starts_with('.')))
}

impl Controlled for Asked<'_, '_> {
    fn apply(&mut self, next: &Document, How { dry_run, .. }: How<'_>) -> Result<Applied, Refused> {
        let Asked { lab, loops } = self;
        let scenario = next.scenario().map_err(refused)?;
        let changed = lab.current.changes(&scenario);
        if changed.is_empty() {
            return Ok(Applied::default());
        }
        if let Some(why) = lab.fixed(loops.len()) {
            return Err(needs_restart(changed.into_iter().map(|one| (one.key, why)), REMEDY));
        }
        weir_lab::check(&scenario).map_err(|error| (422, Refusal::plain(error.to_string())))?;
        let built = "end hosts, path and samples of the run are built with it";
        let mut fixed: Vec<(String, &str)> =
            changed.iter().filter(|one| !is_of_link(&one.key)).map(|one| (one.key.clone(), built)).collect();
        let variation = &scenario.link.variation;
        let varies = !variation.steps.is_empty() || variation.trace().is_some();
        if varies && lab.current.link.shape.rate != scenario.link.shape.rate {
            fixed.push(("link.rate".into(), "the rate changes by the scenario's own steps or trace"));
        }
        let impairments = weir_dataplane::Impairments { variation: lab.started.link.variation.clone() };
        let has_line = impairments.need_line() || lab.started.forward().delay > weir_units::Duration::ZERO;
        let channels = [lab.started.forward(), lab.current.forward(), scenario.forward()];
        let change = Change::of_direction(&in_scenario, has_line, channels);
        let change = change.map_err(|needs| {
            let of_link = needs.into_iter().map(|one| (one.key, one.why));
            needs_restart(of_link.chain(fixed.clone()), REMEDY)
        })?;
        if !fixed.is_empty() {
            return Err(needs_restart(fixed, REMEDY));
        }
        let mut applied = Applied { changed: valued(changed), at_s: None, notes: change.notes().to_vec() };
        if dry_run {
            return Ok(applied);
        }
        let at_s = loops::put(loops[0].handle, change)?;
        lab.changes += 1;
        applied.at_s = Some(at_s);
        let value = |value: &Option<String>| value.clone().unwrap_or_else(|| "absent".into());
        let told = applied.changed.iter().map(|one| {
            format!("changed at {at_s:.1} s: {} {} -> {}", one.key, value(&one.from), value(&one.to))
        });
        lab.told.extend(told);
        // The run's own title and the like stay.
        lab.run.link = scenario.link.clone();
        lab.run.aqm = scenario.aqm.clone();
        lab.run.policy = scenario.policy.clone();
        lab.current = scenario;
        lab.is_changed = true;
        lab.publish_configuration();
        wait_until_told(lab.changes, || {
            lab.look(loops, &[]);
            lab.seen[0].changes()
        });
        Ok(applied)
    }

    fn drain(&mut self) -> Result<Applied, Refused> {
        self.lab.about.is_draining = true;
        let now = self.lab.seen.first().and_then(|seen| seen.now()).map(|now| now.t_s);
        let notes = vec!["what was measured until now is kept".into()];
        Ok(Applied { at_s: Some(now.unwrap_or_default()), notes, ..Applied::default() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_of_the_link_are_known_by_their_names_in_a_scenario() {
        for key in ["link.rate", "aqm.interval", "aqm.name", "policy.target_max", "policy", "queue.users"] {
            assert!(is_of_link(key), "{key}");
        }
        for key in ["link.buffer", "link.rates", "path.rtt", "aqms", "flows.0.count", "run.sample"] {
            assert!(!is_of_link(key), "{key}");
        }
        assert_eq!(in_scenario("rate"), "link.rate");
        assert_eq!(in_scenario("aqm.name"), "aqm.name");
    }
}
