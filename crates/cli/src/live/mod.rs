//! What is shown while something runs: a live view on a terminal, plain lines elsewhere.

mod board;
mod draw;
mod screen;
mod words;

use crate::log::Entry;
use crate::output::Output;
use crate::speaker::Speaker;
use board::{Board, Boards, Sum};
use screen::Screen;
pub use screen::restore;
use std::collections::VecDeque;
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

/// Shows a run as it goes.
pub struct View {
    output: Output,
    /// Says lines, also where nobody reads them; made with the first.
    speaker: Option<Speaker>,
    boards: Arc<Mutex<Boards>>,
    shown: Shown,
    last_line_s: Option<f64>,
    /// What happened in each direction since the last lines.
    lines: Vec<Sum>,
    /// The latest warnings, which could not be said while the screen was shown, and how many came before
    /// them.
    unsaid: VecDeque<Entry>,
    unsaid_left_out: u64,
}

/// Where a view is shown.
enum Shown {
    /// Nothing was shown yet.
    Undecided,
    Screen(Screen),
    Lines,
}

impl View {
    /// A view of a run, by its directions, of which `shown` is shown in full at first.
    pub fn new(sides: Vec<About>, shown: usize, output: &Output) -> View {
        View {
            output: *output,
            speaker: None,
            lines: vec![Sum::default(); sides.len()],
            boards: Arc::new(Mutex::new(Boards::new(sides, shown))),
            shown: Shown::Undecided,
            last_line_s: None,
            unsaid: VecDeque::new(),
            unsaid_left_out: 0,
        }
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
        lock(&self.boards).take(t_s, length_s, samples, events);
        if matches!(self.shown, Shown::Undecided) {
            self.shown = self.decide();
        }
        if !self.is_live() {
            self.say_lines(t_s, samples, events);
        }
    }

    /// Shows a warning until the end of the run.
    pub fn warn(&mut self, text: String) {
        lock(&self.boards).sides.iter_mut().for_each(|board| board.warning = Some(terminal(&text)));
        self.note(Entry::warn("warning", text));
    }

    /// Says what happened that is not wrong.
    pub fn note(&mut self, entry: Entry) {
        if self.is_live() && !self.output.logs_apart() { self.keep(entry) } else { self.say(entry) }
    }

    /// Keeps a line until the screen is gone.
    fn keep(&mut self, entry: Entry) {
        self.unsaid.push_back(entry);
        if self.unsaid.len() > UNSAID_MAX {
            self.unsaid.pop_front();
            self.unsaid_left_out += 1;
        }
    }

    /// Shows other policies and rates than before.
    pub fn renew(&mut self, sides: impl IntoIterator<Item = About>) {
        let mut boards = lock(&self.boards);
        boards.sides.iter_mut().zip(sides).for_each(|(board, about)| board.about = Board::new(about).about);
    }

    /// Says a line soon, without waiting for whoever reads it.
    fn say(&mut self, entry: Entry) {
        self.speaker.get_or_insert_with(|| Speaker::new(self.output)).say(entry);
    }

    /// Shows how sensing stands.
    pub fn sense(&mut self, line: String) {
        lock(&self.boards).sides.iter_mut().for_each(|board| board.sensing = Some(line.clone()));
    }

    /// Shows why nothing can pass, or that everything can.
    pub fn trouble(&mut self, trouble: Option<String>) {
        let trouble = trouble.map(|text| terminal(&text));
        lock(&self.boards).sides.iter_mut().for_each(|board| board.trouble.clone_from(&trouble));
    }

    /// Opens the screen as late as this because its thread inherits the processors of the caller, who by now
    /// keeps off the packet loop's.
    fn decide(&self) -> Shown {
        let screen = if self.output.live() { Screen::open(self.boards.clone()) } else { None };
        screen.map_or(Shown::Lines, Shown::Screen)
    }

    /// A panic elsewhere takes the screen away; lines go on from there.
    fn is_live(&self) -> bool {
        matches!(&self.shown, Shown::Screen(screen) if screen.is_active())
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
        let mut lines = Vec::new();
        let boards = lock(&self.boards);
        for (board, sum) in boards.sides.iter().zip(&mut self.lines) {
            let Some(last) = &board.last else { continue };
            lines.push(words::period_line(board, span_s, &std::mem::take(sum), last));
        }
        lines.extend(boards.board().sensing.as_ref().map(|line| format!("        sensing: {line}")));
        drop(boards);
        lines.into_iter().for_each(|line| self.say(Entry::debug("state", line)));
    }
}

impl Drop for View {
    fn drop(&mut self) {
        if let Shown::Screen(screen) = std::mem::replace(&mut self.shown, Shown::Lines) {
            drop(screen);
            if self.unsaid_left_out > 0 {
                let text = format!("{} earlier warnings are left out here", self.unsaid_left_out);
                self.say(Entry::warn("left_out", text).with("lines", self.unsaid_left_out));
            }
            std::mem::take(&mut self.unsaid).into_iter().for_each(|entry| self.say(entry));
            let boards = lock(&self.boards).clone();
            boards
                .sides
                .iter()
                .filter_map(words::last_line)
                .for_each(|line| self.say(Entry::debug("state", line)));
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

/// The boards have no invariants that a panic could break.
fn lock(boards: &Mutex<Boards>) -> MutexGuard<'_, Boards> {
    boards.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests;
