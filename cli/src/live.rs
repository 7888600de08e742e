//! What is shown while something runs: a live view on a terminal, plain lines elsewhere.

use crate::output::Output;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
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
    about: About,
    output: Output,
    next_line_s: f64,
}

impl View {
    /// A view of a run.
    pub fn new(about: About, output: &Output) -> View {
        View { about, output: *output, next_line_s: 0.0 }
    }

    /// Shows what is new. `length_s` is `None` for a run without end.
    pub fn update(&mut self, t_s: f64, length_s: Option<f64>, samples: &[LinkSample], events: &[SteeringEvent]) {
        let _ = events;
        let Some(last) = samples.last() else { return };
        if t_s < self.next_line_s {
            return;
        }
        self.next_line_s = t_s + LINE_PERIOD_S;
        let of = length_s.map_or(String::new(), |l| format!(" of {l:.0}"));
        let share = if self.about.rate_bps > 0.0 { last.delivered_bps / self.about.rate_bps } else { 0.0 };
        self.output.say(format!(
            "{t_s:6.1}{of} s  {:7.1} Mbit/s ({:5.1} %)  delay {:6.2} ms  set point {:6.2} ms  drops {} state {}",
            last.delivered_bps / 1e6,
            share * 100.0,
            last.delay_mean_ms,
            last.setpoint_ms,
            last.drops + last.overflows,
            last.table_state,
        ));
    }
}

/// A flag that is set by Ctrl-C and by a request to end; a second one ends the program at once.
pub fn interrupted() -> Arc<AtomicBool> {
    static FLAG: std::sync::OnceLock<Arc<AtomicBool>> = std::sync::OnceLock::new();
    FLAG.get_or_init(|| {
        let flag = Arc::new(AtomicBool::new(false));
        let set = flag.clone();
        let _ = ctrlc::set_handler(move || {
            if set.swap(true, Ordering::Relaxed) {
                std::process::exit(i32::from(crate::output::INTERRUPTED));
            }
        });
        flag
    })
    .clone()
}
