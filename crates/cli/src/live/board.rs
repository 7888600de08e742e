//! What the live view knows of a run: the last minute in small steps, totals, and the last moves.

use super::About;
use std::collections::VecDeque;
use weir_measure::result::{LinkSample, SteeringEvent};
use weir_report::terminal;

/// How far back the charts reach, in seconds.
pub const REACH_S: f64 = 60.0;
/// Length of a step in the charts: finer than a column of a wide terminal, and few enough to draw at once.
const STEP_S: f64 = 0.25;
/// What is called "now", in seconds: long enough to be read, short enough to be new.
const NOW_S: f64 = 1.0;
/// Most moves of the set point that are shown.
pub const MOVES_MAX: usize = 6;

/// Links, one of which is shown in full.
#[derive(Clone, Debug, Default)]
pub struct Links {
    /// At least one.
    pub all: Vec<Boards>,
    /// The one that is shown in full.
    pub chosen: usize,
    /// Whether keys are read.
    pub takes_keys: bool,
}

impl Links {
    /// The link that is shown in full.
    pub fn boards(&self) -> &Boards {
        &self.all[self.chosen]
    }

    /// The same, to be changed.
    pub fn boards_mut(&mut self) -> &mut Boards {
        &mut self.all[self.chosen]
    }

    /// Shows the next link in full, or the one before.
    pub fn choose(&mut self, is_next: bool) {
        let count = self.all.len();
        self.chosen = (self.chosen + if is_next { 1 } else { count - 1 }) % count;
    }
}

/// The directions of a link, one of which is shown in full.
#[derive(Clone, Debug, Default)]
pub struct Boards {
    /// What it is called among others.
    pub label: String,
    /// At least one.
    pub sides: Vec<Board>,
    /// The one that is shown in full.
    pub shown: usize,
    /// Whether it has ended, and others go on.
    pub has_ended: bool,
}

impl Boards {
    /// Before anything was seen.
    pub fn new(label: &str, sides: Vec<About>, shown: usize) -> Boards {
        let sides = sides.into_iter().map(Board::new).collect();
        Boards { label: terminal(label), sides, shown, has_ended: false }
    }

    /// The direction that is shown in full.
    pub fn board(&self) -> &Board {
        &self.sides[self.shown]
    }

    /// The directions that are not.
    pub fn others(&self) -> impl Iterator<Item = &Board> {
        let others = self.sides.iter().enumerate().filter(|(index, _)| *index != self.shown);
        others.map(|(_, board)| board)
    }

    /// Shows the next direction in full.
    pub fn turn(&mut self) {
        self.shown = (self.shown + 1) % self.sides.len();
    }

    /// Takes in what is new: samples of each direction, and moves of all.
    pub fn take(
        &mut self,
        t_s: f64,
        length_s: Option<f64>,
        samples: &[&[LinkSample]],
        events: &[SteeringEvent],
    ) {
        for (board, samples) in self.sides.iter_mut().zip(samples) {
            let name = &board.about.name;
            let own = events.iter().filter(|event| name.is_empty() || event.link == *name);
            let own: Vec<SteeringEvent> = own.cloned().collect();
            board.take(t_s, length_s, samples, &own);
        }
    }
}

/// Samples added up. All of a run have periods of the same length.
#[derive(Clone, Copy, Debug, Default)]
pub struct Sum {
    rows: f64,
    delivered: f64,
    delay: f64,
    /// Largest delay in ms.
    pub delay_max_ms: f64,
    /// Packets discarded by the algorithm.
    pub drops: u64,
    /// Packets discarded for lack of room.
    pub overflows: u64,
    /// Packets marked.
    pub marks: u64,
}

impl Sum {
    /// Adds a sample.
    pub fn add(&mut self, row: &LinkSample) {
        self.rows += 1.0;
        self.delivered += row.delivered_bps;
        // A period counts by what it delivered.
        self.delay += row.delay_mean_ms * row.delivered_bps;
        self.delay_max_ms = self.delay_max_ms.max(row.delay_max_ms);
        self.drops += row.drops;
        self.overflows += row.overflows;
        self.marks += row.marks;
    }

    /// Rate of delivery in bit/s.
    pub fn delivered_bps(&self) -> f64 {
        self.delivered / self.rows.max(1.0)
    }

    /// Mean delay in ms; none where nothing was delivered.
    pub fn delay_mean_ms(&self) -> Option<f64> {
        (self.delivered > 0.0).then(|| self.delay / self.delivered)
    }
}

/// A step of the charts.
#[derive(Clone, Copy, Debug)]
pub struct Step {
    begin_s: f64,
    /// End of its last sample.
    pub t_s: f64,
    /// Its samples.
    pub sum: Sum,
    /// Set point at its end; NaN where there is none.
    pub setpoint_ms: f64,
}

/// The state of a run as far as it is shown.
#[derive(Clone, Debug, Default)]
pub struct Board {
    /// What was known before.
    pub about: About,
    /// Seconds after the start of the run; negative before it.
    pub t_s: f64,
    /// Length of the run.
    pub length_s: Option<f64>,
    /// The last minute, oldest first.
    pub steps: VecDeque<Step>,
    /// The whole run.
    pub total: Sum,
    /// The latest sample.
    pub last: Option<LinkSample>,
    /// The last moves of the set point, newest first.
    pub moves: VecDeque<SteeringEvent>,
    /// How sensing stands, in words; nothing where nothing is sensed.
    pub sensing: Option<String>,
    /// The latest thing that went wrong.
    pub warning: Option<String>,
    /// Why nothing can pass now.
    pub trouble: Option<String>,
    recent: VecDeque<LinkSample>,
    recent_from_s: f64,
}

impl Board {
    /// The state before anything was seen.
    pub fn new(about: About) -> Board {
        let (title, aqm) = (terminal(&about.title), terminal(&about.aqm));
        Board { about: About { title, aqm, ..about }, ..Board::default() }
    }

    /// Takes in what is new.
    pub fn take(
        &mut self,
        t_s: f64,
        length_s: Option<f64>,
        samples: &[LinkSample],
        events: &[SteeringEvent],
    ) {
        self.t_s = t_s;
        self.length_s = length_s;
        samples.iter().for_each(|row| self.take_sample(row));
        for event in events {
            self.moves.push_front(event.clone());
            self.moves.truncate(MOVES_MAX);
        }
    }

    fn take_sample(&mut self, row: &LinkSample) {
        self.total.add(row);
        self.last = Some(*row);
        self.recent.push_back(*row);
        while self.recent.len() > 1 && self.recent[0].t_s <= row.t_s - NOW_S {
            self.recent_from_s = self.recent.pop_front().map_or(0.0, |old| old.t_s);
        }
        self.step_of(row.t_s).take(row);
        while self.steps.front().is_some_and(|step| step.t_s < row.t_s - REACH_S) {
            self.steps.pop_front();
        }
    }

    /// The step that a sample belongs to.
    fn step_of(&mut self, t_s: f64) -> &mut Step {
        let begin_s = (t_s / STEP_S).floor() * STEP_S;
        if self.steps.back().is_none_or(|step| step.begin_s != begin_s) {
            self.steps.push_back(Step { begin_s, t_s, sum: Sum::default(), setpoint_ms: f64::NAN });
        }
        self.steps.back_mut().expect("just pushed")
    }

    /// The last second.
    pub fn now(&self) -> Sum {
        let mut sum = Sum::default();
        self.recent.iter().for_each(|row| sum.add(row));
        sum
    }

    /// Length in seconds of what [`Board::now`] adds up.
    pub fn now_s(&self) -> f64 {
        self.recent.back().map_or(NOW_S, |row| (row.t_s - self.recent_from_s).max(1e-3))
    }

    /// Whether the link was steered at all.
    pub fn is_steered(&self) -> bool {
        self.about.utilization.is_some() || !self.moves.is_empty()
    }
}

impl Step {
    fn take(&mut self, row: &LinkSample) {
        self.t_s = row.t_s;
        self.sum.add(row);
        self.setpoint_ms = row.setpoint_ms;
    }
}
