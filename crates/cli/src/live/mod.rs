//! What is shown while something runs: a live view on a terminal, plain lines elsewhere.

mod board;
mod draw;
mod screen;
mod words;

use crate::log::Entry;
use crate::output::Output;
use crate::speaker::Speaker;
use board::{Board, Boards, Links, Sum};
use screen::Screen;
pub use screen::restore;
use std::collections::VecDeque;
use std::ops::Range;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use weir_measure::result::{LinkSample, SteeringEvent};
use weir_report::terminal;

/// Seconds between two plain lines.
const LINE_PERIOD_S: f64 = 2.0;

/// Warnings kept while a screen is shown.
const UNSAID_MAX: usize = 64;

/// What a view needs to know of a run before it starts.
#[derive(Clone, Debug, Default)]
pub struct About {
    /// Title of the run.
    pub title: String,
    /// The direction, where a run has several; nothing where it has one.
    pub name: String,
    /// Algorithm and whether it is steered.
    pub aqm: String,
    /// Rate of the link in bit/s; 0 for unshaped.
    pub rate_bps: f64,
    /// Utilization the policy asks for at least, and the utilization it aims at.
    pub utilization: Option<(f64, f64)>,
    /// Largest set point of the policy in milliseconds.
    pub target_max_ms: Option<f64>,
}

/// A link as a view shows it.
pub struct Shown {
    /// What it is called among others.
    pub label: String,
    /// Its directions.
    pub sides: Vec<About>,
    /// The direction that is shown in full at first.
    pub first: usize,
}

/// Shows a run as it goes: all of its links, or some of those that share a screen.
pub struct View {
    output: Output,
    /// Says lines, also where nobody reads them; made with the first.
    speaker: Option<Speaker>,
    screen: Arc<Shared>,
    /// Which of the links on the screen it is of.
    links: Range<usize>,
    last_line_s: Option<f64>,
    /// What happened in each direction since the last lines.
    lines: Vec<Sum>,
}

/// What the views of a program have in common.
struct Shared {
    /// Says whether there can be a screen.
    output: Output,
    /// Of each link.
    outputs: Vec<Output>,
    links: Arc<Mutex<Links>>,
    place: Mutex<Place>,
}

/// Where a view is shown, and what could not be said meanwhile.
struct Place {
    kind: Kind,
    /// The latest lines, which could not be said while the screen was shown, by the first link that they are
    /// of, and how many came before them.
    unsaid: VecDeque<(usize, Entry)>,
    unsaid_left_out: u64,
}

/// Where a view is shown.
enum Kind {
    /// Nothing was shown yet.
    Undecided,
    Screen(Screen),
    Lines,
}

impl View {
    /// A view of a run of links; where there are several, with a line each beside the one that is shown in
    /// full.
    pub fn row(links: Vec<Shown>, output: &Output) -> View {
        let count = links.len();
        let screen = Shared::of(links, vec![*output; count], output);
        View::part(&screen, 0..count, output)
    }

    /// A view of each of several links, which share the screen. Lines of a link are said by its own output.
    pub fn several(links: Vec<(Shown, Output)>, output: &Output) -> Vec<View> {
        let (links, outputs): (Vec<Shown>, Vec<Output>) = links.into_iter().unzip();
        let screen = Shared::of(links, outputs, output);
        let own = screen.outputs.iter().enumerate();
        own.map(|(number, output)| View::part(&screen, number..number + 1, output)).collect()
    }

    fn part(screen: &Arc<Shared>, links: Range<usize>, output: &Output) -> View {
        let sides = lock(&screen.links).all[links.clone()].iter().map(|boards| boards.sides.len()).sum();
        View {
            output: *output,
            speaker: None,
            screen: screen.clone(),
            links,
            last_line_s: None,
            lines: vec![Sum::default(); sides],
        }
    }

    /// Does something with its links.
    fn each(&self, mut what: impl FnMut(&mut Boards)) {
        lock(&self.screen.links).all[self.links.clone()].iter_mut().for_each(&mut what);
    }

    /// Does something with their directions.
    fn each_side(&self, mut what: impl FnMut(&mut Board)) {
        self.each(|boards| boards.sides.iter_mut().for_each(&mut what));
    }

    /// Shows what is new: the samples of each direction, and the moves of all. `length_s` is `None` for a run
    /// without end. Never waits for the terminal while it shows a live view.
    pub fn update(
        &mut self,
        t_s: f64,
        length_s: Option<f64>,
        samples: &[&[LinkSample]],
        events: &[SteeringEvent],
    ) {
        let mut rest = samples;
        self.each(|boards| {
            let own;
            (own, rest) = rest.split_at(boards.sides.len().min(rest.len()));
            boards.take(t_s, length_s, own, events);
        });
        self.screen.decide();
        if !self.screen.is_live() {
            self.say_lines(t_s, samples, events);
        }
    }

    /// Shows a warning until the end of the run.
    pub fn warn(&mut self, text: String) {
        self.each_side(|board| board.warning = Some(terminal(&text)));
        self.note(Entry::warn("warning", text));
    }

    /// Says what happened that is not wrong.
    pub fn note(&mut self, entry: Entry) {
        let is_kept = self.screen.is_live() && !self.output.logs_apart();
        if is_kept { self.screen.keep(self.links.start, entry) } else { self.say(entry) }
    }

    /// Says why it failed.
    pub fn fail(&mut self, entry: Entry) {
        match self.screen.is_live() && !self.output.logs_apart() {
            true => self.screen.keep(self.links.start, entry),
            false => self.output.tell_error(&entry),
        }
    }

    /// Shows other policies and rates than before.
    pub fn renew(&mut self, sides: impl IntoIterator<Item = About>) {
        let mut sides = sides.into_iter();
        self.each_side(|board| {
            if let Some(about) = sides.next() {
                board.about = Board::new(about).about;
            }
        });
    }

    /// Says a line soon, without waiting for whoever reads it.
    fn say(&mut self, entry: Entry) {
        self.speaker.get_or_insert_with(|| Speaker::new(self.output)).say(entry);
    }

    /// Shows how sensing stands.
    pub fn sense(&mut self, line: String) {
        self.each_side(|board| board.sensing = Some(line.clone()));
    }

    /// Shows why nothing can pass, or that everything can.
    pub fn trouble(&mut self, trouble: Option<String>) {
        let trouble = trouble.map(|text| terminal(&text));
        self.each_side(|board| board.trouble.clone_from(&trouble));
    }

    fn say_lines(&mut self, t_s: f64, samples: &[&[LinkSample]], events: &[SteeringEvent]) {
        events.iter().for_each(|event| self.say(moved(event)));
        for (sum, samples) in self.lines.iter_mut().zip(samples) {
            samples.iter().for_each(|row| sum.add(row));
        }
        let is_early = self.last_line_s.is_some_and(|last| t_s < last + LINE_PERIOD_S);
        if is_early || samples.iter().all(|samples| samples.is_empty()) {
            return;
        }
        let span_s = t_s - self.last_line_s.replace(t_s).unwrap_or(0.0).min(t_s);
        let (mut lines, mut all) = (Vec::new(), std::mem::take(&mut self.lines));
        let mut sums = all.iter_mut();
        self.each(|boards| {
            for (board, sum) in boards.sides.iter().zip(&mut sums) {
                let Some(last) = &board.last else { continue };
                lines.push(words::period_line(board, span_s, &std::mem::take(sum), last));
            }
            lines.extend(boards.board().sensing.as_ref().map(|line| format!("        sensing: {line}")));
        });
        self.lines = all;
        lines.into_iter().for_each(|line| self.say(Entry::debug("state", line)));
    }
}

impl Drop for View {
    /// The screen stays for the links that go on.
    fn drop(&mut self) {
        self.each(|boards| boards.has_ended = true);
    }
}

impl Shared {
    fn of(links: Vec<Shown>, outputs: Vec<Output>, output: &Output) -> Arc<Shared> {
        let all = links.into_iter().map(|link| Boards::new(&link.label, link.sides, link.first)).collect();
        let place = Place { kind: Kind::Undecided, unsaid: VecDeque::new(), unsaid_left_out: 0 };
        Arc::new(Shared {
            output: *output,
            outputs,
            links: Arc::new(Mutex::new(Links { all, ..Links::default() })),
            place: Mutex::new(place),
        })
    }

    /// Opens the screen as late as this because its thread inherits the processors of the caller, who by now
    /// keeps off the packet loop's.
    fn decide(&self) {
        let mut place = lock(&self.place);
        if matches!(place.kind, Kind::Undecided) {
            let screen = if self.output.live() { Screen::open(self.links.clone()) } else { None };
            place.kind = screen.map_or(Kind::Lines, Kind::Screen);
        }
    }

    /// A panic elsewhere takes the screen away; lines go on from there.
    fn is_live(&self) -> bool {
        matches!(&lock(&self.place).kind, Kind::Screen(screen) if screen.is_active())
    }

    /// Keeps a line until the screen is gone.
    fn keep(&self, link: usize, entry: Entry) {
        let mut place = lock(&self.place);
        place.unsaid.push_back((link, entry));
        if place.unsaid.len() > UNSAID_MAX {
            place.unsaid.pop_front();
            place.unsaid_left_out += 1;
        }
    }
}

impl Drop for Shared {
    fn drop(&mut self) {
        let mut place = lock(&self.place);
        let Kind::Screen(screen) = std::mem::replace(&mut place.kind, Kind::Lines) else { return };
        drop(screen);
        let mut speakers: Vec<Option<Speaker>> = self.outputs.iter().map(|_| None).collect();
        let mut say = |link: usize, entry| {
            speakers[link].get_or_insert_with(|| Speaker::new(self.outputs[link])).say(entry);
        };
        let count = std::mem::take(&mut place.unsaid_left_out);
        if count > 0 {
            let text = format!("{count} earlier warnings are left out here");
            say(0, Entry::warn("left_out", text).with("lines", count));
        }
        std::mem::take(&mut place.unsaid).into_iter().for_each(|(link, entry)| say(link, entry));
        for (link, boards) in lock(&self.links).all.iter().enumerate() {
            let lines = boards.sides.iter().filter_map(words::last_line);
            lines.for_each(|line| say(link, Entry::debug("state", line)));
        }
    }
}

/// A move of a set point, with what it was decided by.
fn moved(event: &SteeringEvent) -> Entry {
    let entry = Entry::debug("move", words::event_line(event))
        .with("direction", &event.link)
        .with("rule", &event.rule)
        .with("from", event.from)
        .with("to", event.to);
    entry.with("unit", &event.unit).with("t_s", event.t_s)
}

/// What is shown has no invariants that a panic could break.
fn lock<T>(shown: &Mutex<T>) -> MutexGuard<'_, T> {
    shown.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests;
