//! How far simulations are: a bar on a terminal, plain lines elsewhere, nothing for what is done at once.

use crate::interrupt::is_interrupted;
use crate::output::Output;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use std::io::IsTerminal;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::{Duration, Instant};
use weir_sim::batch;

/// Shorter work shows nothing.
const PATIENCE: Duration = Duration::from_secs(2);
/// Time between two plain lines.
const LINE_PERIOD: Duration = Duration::from_secs(5);
/// Steps of the bar.
const STEPS: u64 = 10_000;
/// Work is counted in this part of its unit, so that threads can add it up.
const GRAIN: f64 = 1e6;

/// Shows how far several simulations are together. Work is what they are expected to cost, in any unit.
pub struct Progress {
    output: Output,
    start: Instant,
    runs: usize,
    finished: AtomicUsize,
    total: u64,
    done: AtomicU64,
    shown: Mutex<Shown>,
}

enum Shown {
    Nothing,
    Bar(ProgressBar),
    Lines { next: Instant },
}

impl Progress {
    /// For so many runs and so much work.
    pub fn new(runs: usize, work: f64, output: &Output) -> Progress {
        Progress {
            output: *output,
            start: Instant::now(),
            runs,
            finished: AtomicUsize::new(0),
            total: ((work * GRAIN) as u64).max(1),
            done: AtomicU64::new(0),
            shown: Mutex::new(Shown::Nothing),
        }
    }

    fn show(&self) {
        // Whoever comes meanwhile leaves it to whoever is at it.
        let Ok(mut shown) = self.shown.try_lock() else { return };
        let done = self.done.load(Ordering::Relaxed).min(self.total);
        let share = done as f64 / self.total as f64;
        match &mut *shown {
            Shown::Nothing => *shown = self.open(),
            Shown::Bar(bar) => {
                bar.set_position((share * STEPS as f64) as u64);
                bar.set_message(self.count());
            }
            Shown::Lines { next } => {
                let now = Instant::now();
                if now >= *next {
                    *next = now + LINE_PERIOD;
                    self.output.say(format_args!("{:.0} % simulated, {}", share * 100.0, self.count()));
                }
            }
        }
    }

    fn count(&self) -> String {
        format!("{} of {} runs", self.finished.load(Ordering::Relaxed), self.runs)
    }

    fn open(&self) -> Shown {
        let is_dumb = std::env::var_os("TERM").is_none_or(|t| t == "dumb");
        if is_dumb || !std::io::stderr().is_terminal() {
            return Shown::Lines { next: Instant::now() };
        }
        let bar = ProgressBar::with_draw_target(Some(STEPS), ProgressDrawTarget::stderr())
            .with_elapsed(self.start.elapsed());
        let style = ProgressStyle::with_template("{wide_bar} {percent} %, {msg}, {eta} left");
        bar.set_style(style.expect("a constant template"));
        Shown::Bar(bar)
    }
}

impl batch::Progress for Progress {
    fn advance(&self, work: f64) {
        self.done.fetch_add((work * GRAIN) as u64, Ordering::Relaxed);
        if self.start.elapsed() >= PATIENCE {
            self.show();
        }
    }

    fn run_ended(&self) {
        self.finished.fetch_add(1, Ordering::Relaxed);
    }

    fn is_interrupted(&self) -> bool {
        is_interrupted()
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        let shown = self.shown.get_mut().unwrap_or_else(std::sync::PoisonError::into_inner);
        if let Shown::Bar(bar) = shown {
            bar.finish_and_clear();
        }
    }
}
