//! A lab under control: how its links stand, and changes of each of them.

use super::loops::{self, Facts, Seen, wait_until_told};
use super::{Controlled, Desk, Doors, How, Source, configured, needs_restart, refused, valued};
use crate::interrupt::HangUp;
use crate::log::Entry;
use crate::output::Failure;
use crate::results::Planned;
use std::path::Path;
use std::time::{Duration, Instant};
use weir_config::{Channel, Document, Scenario, Variation};
use weir_dataplane::{Change, Impairments};
use weir_lab::Playing;
use weir_lab::access::Access;
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
    /// Changes that each packet loop put into force.
    changes: Vec<u64>,
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
            changes: Vec::new(),
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
            self.changes = vec![0; loops.len()];
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
    fn fixed(&self) -> Option<&'static str> {
        match () {
            () if !self.started.sweep.axes.is_empty() => {
                Some("this run is a point of a sweep, whose keys are the scenario's")
            }
            () if Access::is_meant(&self.started) => {
                Some("limiters and modems of homes are built with it; one link, and links in a row, change")
            }
            () => None,
        }
    }

    /// What each packet loop is to be told, by its number, and what undoes it; or what takes a restart.
    fn changes(&self, to: &Scenario) -> Result<Vec<Told>, Refused> {
        let wrong = |error: weir_lab::Error| (422, Refusal::plain(error.to_string()));
        let of = |scenario| weir_lab::directions(scenario).map_err(wrong);
        let all = of(&self.started)?.into_iter().zip(of(&self.current)?).zip(of(to)?);
        let (mut told, mut needs) = (Vec::new(), Vec::new());
        for (number, ((started, from), to)) in all.enumerate() {
            let (mut change, mut back) = (Change::default(), Change::default());
            for (index, ((started, from), mut to)) in started.into_iter().zip(from).zip(to).enumerate() {
                let Some(link) = LinkKeys::of(&self.run, index, &to.name) else { continue };
                // Bytes that follow from a time and the rate stay as they are.
                if link.table.is_some() {
                    to.channel.link.buffer = from.channel.link.buffer;
                }
                let needs_line = started.impairments.as_ref().is_some_and(Impairments::need_line);
                let has_line = needs_line || started.channel.delay > weir_units::Duration::ZERO;
                let key = &|key: &str| link.key(key);
                let channels = [&started, &from, &to].map(|direction| direction.channel.clone());
                let undone = [&started, &to, &from].map(|direction| direction.channel.clone());
                let both = change.with_direction(index, key, has_line, channels);
                match both.and_then(|change| Ok((change, back.with_direction(index, key, has_line, undone)?)))
                {
                    Ok(made) => (change, back) = made,
                    Err(why) => {
                        needs.extend(why.into_iter().map(|one| (one.key, one.why)));
                        (change, back) = (Change::default(), Change::default());
                    }
                }
            }
            told.extend((!change.is_empty()).then_some(Told { number, change, back }));
        }
        if needs.is_empty() { Ok(told) } else { Err(needs_restart(needs, REMEDY)) }
    }
}

/// What a packet loop is told.
struct Told {
    /// The number of the loop.
    number: usize,
    change: Change,
    /// What puts back what was before.
    back: Change,
}

/// A link of a scenario, by the keys that it has there.
struct LinkKeys<'a> {
    /// Its number among `links`; none of the only link.
    table: Option<usize>,
    variation: &'a Variation,
}

impl LinkKeys<'_> {
    /// That of a direction of a packet loop; none for a way that is only delayed.
    fn of<'a>(scenario: &'a Scenario, index: usize, name: &str) -> Option<LinkKeys<'a>> {
        if scenario.links.is_empty() {
            return (index == 0).then_some(LinkKeys { table: None, variation: &scenario.link.variation });
        }
        let table = scenario.links.iter().position(|link| link.name == name)?;
        Some(LinkKeys { table: Some(table), variation: &scenario.links[table].variation })
    }

    /// What a key of a direction of `weir run` is called in the scenario.
    fn key(&self, key: &str) -> String {
        match (self.table, key) {
            (Some(number), _) => format!("links.{number}.{key}"),
            (None, "rate" | "buffer" | "accounting" | "overhead") => format!("link.{key}"),
            (None, "delay") => "path".into(),
            (None, _) => key.into(),
        }
    }

    /// Whether its rate changes by itself.
    fn varies(&self) -> bool {
        !self.variation.steps.is_empty() || self.variation.trace().is_some()
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

/// Whether a key is one of a queue and its link, of which [`Change`] says which of them change.
fn is_of_link(key: &str) -> bool {
    let of_row = key.strip_prefix("links.").and_then(|rest| Some(rest.split_once('.')?.1));
    let key = of_row.or(key.strip_prefix("link.").filter(|key| *key == "rate")).unwrap_or(key);
    ["rate", "aqm", "policy", "queue"]
        .iter()
        .any(|table| key.strip_prefix(table).is_some_and(|rest| rest.is_empty() || rest.starts_with('.')))
}

impl Asked<'_, '_> {
    /// Has the packet loops put into force what they are told; when the last did. Where one does not, those
    /// before it have what was before again.
    fn put(&mut self, all: Vec<Told>) -> Result<f64, Refused> {
        let (mut at_s, mut done) = (0.0, Vec::new());
        for Told { number, change, back } in all {
            match loops::put(self.loops[number].handle, change) {
                Ok(then_s) => {
                    at_s = f64::max(at_s, then_s);
                    self.lab.changes[number] += 1;
                    done.push((number, back));
                }
                Err((status, mut refusal)) => {
                    for (number, back) in done {
                        match loops::put(self.loops[number].handle, back) {
                            Ok(_) => self.lab.changes[number] += 1,
                            Err((_, why)) => {
                                let names = self.loops[number].names.into_iter().flatten();
                                let names: Vec<&str> = names.collect();
                                let names = names.join(" and ");
                                refusal.error += &format!("; {names} changed, and not back: {}", why.error);
                            }
                        }
                    }
                    return Err((status, refusal));
                }
            }
        }
        Ok(at_s)
    }
}

impl Controlled for Asked<'_, '_> {
    fn apply(&mut self, next: &Document, How { dry_run, .. }: How<'_>) -> Result<Applied, Refused> {
        let scenario = next.scenario().map_err(refused)?;
        let lab = &mut *self.lab;
        let changed = lab.current.changes(&scenario);
        if changed.is_empty() {
            return Ok(Applied::default());
        }
        if let Some(why) = lab.fixed() {
            return Err(needs_restart(changed.into_iter().map(|one| (one.key, why)), REMEDY));
        }
        weir_lab::check(&scenario).map_err(|error| (422, Refusal::plain(error.to_string())))?;
        let is_fixed = |key: &str| {
            let names = || lab.run.links.iter().map(|link| link.name.as_str()).chain([""]);
            let links = || names().filter_map(|name| LinkKeys::of(&scenario, 0, name));
            match () {
                () if !is_of_link(key) => Some("end hosts, path and samples of the run are built with it"),
                () if links().any(|link| link.varies() && link.key("rate") == key) => {
                    Some("the rate changes by the scenario's own steps or trace")
                }
                () => None,
            }
        };
        let fixed = changed.iter().filter_map(|one| Some((one.key.clone(), is_fixed(&one.key)?)));
        let fixed: Vec<(String, &str)> = fixed.collect();
        if !fixed.is_empty() {
            return Err(needs_restart(fixed, REMEDY));
        }
        let told = lab.changes(&scenario)?;
        let notes = told.iter().flat_map(|one| one.change.notes().to_vec()).collect();
        let mut applied = Applied { changed: valued(changed), at_s: None, notes };
        if dry_run {
            return Ok(applied);
        }
        let numbers: Vec<usize> = told.iter().map(|one| one.number).collect();
        let at_s = self.put(told)?;
        let Asked { lab, loops } = self;
        applied.at_s = Some(at_s);
        let value = |value: &Option<String>| value.clone().unwrap_or_else(|| "absent".into());
        let told = applied.changed.iter().map(|one| {
            format!("changed at {at_s:.1} s: {} {} -> {}", one.key, value(&one.from), value(&one.to))
        });
        lab.told.extend(told);
        // The run's own title and the like stay.
        lab.run.link = scenario.link.clone();
        lab.run.links.clone_from(&scenario.links);
        lab.run.aqm = scenario.aqm.clone();
        lab.run.policy = scenario.policy.clone();
        lab.current = scenario;
        lab.is_changed = true;
        lab.publish_configuration();
        for number in numbers {
            wait_until_told(lab.changes[number], || {
                lab.look(loops, &[]);
                lab.seen[number].changes()
            });
        }
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
    fn keys_of_links_are_known_by_their_names_in_a_scenario() {
        for key in ["link.rate", "aqm.interval", "aqm.name", "policy.target_max", "policy", "queue.users"] {
            assert!(is_of_link(key), "{key}");
        }
        for key in ["links.0.rate", "links.12.aqm.interval", "links.1.policy.target_max"] {
            assert!(is_of_link(key), "{key}");
        }
        for key in ["link.buffer", "link.rates", "path.rtt", "aqms", "flows.0.count", "run.sample"] {
            assert!(!is_of_link(key), "{key}");
        }
        for key in ["links.0.buffer", "links.0.delay", "links.0.name", "links.0", "links"] {
            assert!(!is_of_link(key), "{key}");
        }
        let none = Variation::default();
        let only = LinkKeys { table: None, variation: &none };
        assert_eq!(["rate", "aqm.name", "delay"].map(|key| only.key(key)), ["link.rate", "aqm.name", "path"]);
        let third = LinkKeys { table: Some(2), variation: &none };
        assert_eq!(["rate", "buffer"].map(|key| third.key(key)), ["links.2.rate", "links.2.buffer"]);
    }
}
