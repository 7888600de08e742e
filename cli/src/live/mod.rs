//! What is shown while something runs: a live view on a terminal, plain lines elsewhere.

mod board;
mod draw;
mod screen;
mod words;

use crate::output::Output;
use board::{Board, Sum};
use screen::Screen;
pub use screen::restore;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use weir_scenario::result::{LinkSample, SteeringEvent};

/// Seconds between two plain lines.
const LINE_PERIOD_S: f64 = 2.0;

/// What a view needs to know of a run before it starts.
#[derive(Clone, Debug, Default)]
pub struct About {
    /// Title of the run.
    pub title: String,
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
    board: Arc<Mutex<Board>>,
    shown: Shown,
    next_line_s: f64,
    line: Sum,
    /// Warnings that could not be said while the screen was shown.
    unsaid: Vec<String>,
}

/// Where a view is shown.
enum Shown {
    /// Nothing was shown yet.
    Undecided,
    Screen(Screen),
    Lines,
}

impl View {
    /// A view of a run.
    pub fn new(about: About, output: &Output) -> View {
        View {
            output: *output,
            board: Arc::new(Mutex::new(Board::new(about))),
            shown: Shown::Undecided,
            next_line_s: 0.0,
            line: Sum::default(),
            unsaid: Vec::new(),
        }
    }

    /// Shows what is new. `length_s` is `None` for a run without end. Never waits for the terminal while it
    /// shows a live view.
    pub fn update(
        &mut self,
        t_s: f64,
        length_s: Option<f64>,
        samples: &[LinkSample],
        events: &[SteeringEvent],
    ) {
        lock(&self.board).take(t_s, length_s, samples, events);
        if matches!(self.shown, Shown::Undecided) {
            self.shown = self.decide();
        }
        if !self.is_live() {
            self.lines(t_s, length_s, samples, events);
        }
    }

    /// Shows a warning until the end of the run.
    pub fn warn(&mut self, text: String) {
        lock(&self.board).warning = Some(words::plain(&text));
        if self.is_live() {
            self.unsaid.push(text);
        } else {
            self.output.say(text);
        }
    }

    /// Shows how sensing stands.
    pub fn sense(&mut self, line: String) {
        lock(&self.board).sensing = Some(line);
    }

    /// Opens the screen as late as this because its thread inherits the processors of the caller, who by now
    /// keeps off the packet loop's.
    fn decide(&self) -> Shown {
        let screen = if self.output.live() { Screen::open(self.board.clone()) } else { None };
        screen.map_or(Shown::Lines, Shown::Screen)
    }

    /// A panic elsewhere takes the screen away; lines go on from there.
    fn is_live(&self) -> bool {
        matches!(&self.shown, Shown::Screen(screen) if screen.is_active())
    }

    fn lines(&mut self, t_s: f64, length_s: Option<f64>, samples: &[LinkSample], events: &[SteeringEvent]) {
        events.iter().for_each(|event| self.output.say(words::event_line(event)));
        samples.iter().for_each(|row| self.line.add(row));
        let Some(last) = samples.last() else { return };
        if t_s < self.next_line_s {
            return;
        }
        self.next_line_s = t_s + LINE_PERIOD_S;
        let period = std::mem::take(&mut self.line);
        let rate_bps = lock(&self.board).about.rate_bps;
        self.output.say(words::period_line(t_s, length_s, &period, last, rate_bps));
        if let Some(line) = &lock(&self.board).sensing {
            self.output.say(format!("        sensing: {line}"));
        }
    }
}

impl Drop for View {
    fn drop(&mut self) {
        if let Shown::Screen(screen) = std::mem::replace(&mut self.shown, Shown::Lines) {
            drop(screen);
            self.unsaid.iter().for_each(|text| self.output.say(text));
            if let Some(line) = words::last_line(&lock(&self.board)) {
                self.output.say(line);
            }
        }
    }
}

/// The board has no invariants that a panic could break.
fn lock(board: &Mutex<Board>) -> MutexGuard<'_, Board> {
    board.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests;
