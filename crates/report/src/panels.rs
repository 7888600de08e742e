//! What is drawn of one link: panels of series over time. The SVG page and the HTML page share it.

use weir_measure::result::{FlowSample, LinkSample, LinkSummary, Recording, SteeringEvent};
use weir_units::Rate;

use crate::number::{drawable, extent, prefix, significant};

/// The policy a run was steered by, as lines in its charts. All parts are optional.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Policy {
    /// Utilization below which the set point may rise, as a share of 1.
    pub utilization_low: Option<f64>,
    /// Utilization that is given up for a shorter queue, as a share of 1.
    pub utilization_target: Option<f64>,
    /// The longest delay the set point may be moved to, in milliseconds.
    pub target_max_ms: Option<f64>,
}

/// The part a series plays, from which its colour and weight follow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Tone {
    /// The quantity the panel is about.
    Main,
    /// Background to it.
    Faint,
    /// What the algorithm aims at.
    Aim,
    /// A second quantity.
    Second,
    /// A third quantity.
    Third,
}

impl Tone {
    /// Its class in the style sheets of both pages.
    pub(crate) fn class(self) -> &'static str {
        match self {
            Tone::Main => "main",
            Tone::Faint => "faint",
            Tone::Aim => "aim",
            Tone::Second => "second",
            Tone::Third => "third",
        }
    }
}

/// Name of the series of what the link could have carried.
pub(crate) const CAPACITY: &str = "capacity";

/// One line of a panel. Values that are missing are NaN.
pub(crate) struct Series {
    pub(crate) name: &'static str,
    pub(crate) tone: Tone,
    /// Whether the value holds until the next one.
    pub(crate) step: bool,
    pub(crate) t: Vec<f64>,
    pub(crate) v: Vec<f64>,
}

/// A horizontal line that data is compared with.
pub(crate) struct Limit {
    pub(crate) label: String,
    pub(crate) value: f64,
}

/// One panel: a quantity, its unit and its series.
pub(crate) struct Panel {
    pub(crate) kind: Kind,
    pub(crate) title: &'static str,
    pub(crate) unit: String,
    pub(crate) series: Vec<Series>,
    pub(crate) limits: Vec<Limit>,
}

/// The quantity of a panel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Throughput,
    Delay,
    Discards,
    Virtual,
    Flows,
}

impl Panel {
    /// The largest value that must be visible; 0 where there is nothing.
    pub(crate) fn highest(&self) -> f64 {
        let limits = self.limits.iter().map(|l| &l.value);
        extent(self.series.iter().flat_map(|s| &s.v).chain(limits)).map_or(0.0, |(_, hi)| hi.max(0.0))
    }

    /// The panel with a decimal prefix before its unit, so that its numbers are short.
    pub(crate) fn scaled(mut self, divisor: f64, letter: &str) -> Panel {
        self.unit = format!("{letter}{}", self.unit);
        self.series.iter_mut().flat_map(|s| &mut s.v).for_each(|v| *v /= divisor);
        self.limits.iter_mut().for_each(|l| l.value /= divisor);
        self
    }
}

/// One link of a recording and everything that is known about it.
#[derive(Clone, Copy)]
pub(crate) struct LinkView<'a> {
    pub(crate) recording: &'a Recording,
    pub(crate) samples: &'a [LinkSample],
    pub(crate) summary: Option<&'a LinkSummary>,
    pub(crate) policy: Policy,
}

impl<'a> LinkView<'a> {
    /// The link with this index; a link without samples or without a summary is an empty one, not an error.
    pub(crate) fn new(recording: &'a Recording, link: usize, policy: Policy) -> LinkView<'a> {
        let samples = recording.link_samples.get(link).map_or(&[][..], Vec::as_slice);
        LinkView { recording, samples, summary: recording.summary.links.get(link), policy }
    }

    /// Start and end of the recording in seconds.
    pub(crate) fn span(&self) -> (f64, f64) {
        let last = extent(self.samples.iter().map(|s| &s.t_s)).map_or(0.0, |(_, hi)| hi);
        let planned = self.recording.summary.warmup_s + self.recording.summary.duration_s;
        let end = if drawable(planned) { last.max(planned) } else { last };
        (0.0, if end > 0.0 { end } else { 1.0 })
    }

    /// End of the warm-up in seconds, if there is one.
    pub(crate) fn warmup(&self) -> Option<f64> {
        Some(self.recording.summary.warmup_s).filter(|w| *w > 0.0 && drawable(*w))
    }

    /// Moves of this link's set point.
    pub(crate) fn events(&self) -> impl Iterator<Item = &'a SteeringEvent> + use<'a> {
        let name = self.summary.map(|s| s.name.as_str());
        self.recording.events.iter().filter(move |e| Some(e.link.as_str()) == name)
    }

    /// Under the title of a chart: what ran where and how fast.
    pub(crate) fn subtitle(&self) -> String {
        let run = &self.recording.summary;
        let mut parts = Vec::new();
        if let Some(link) = self.summary {
            parts.extend([link.aqm.clone(), link.name.clone(), rate_text(link.rate_bps)]);
        }
        parts.push(run.arm.clone());
        parts.push(format!("measured {} s", significant(run.duration_s, 4)));
        if let Some(warmup) = self.warmup() {
            parts.push(format!("after {} s of warm-up", significant(warmup, 4)));
        }
        parts.retain(|p| !p.is_empty());
        parts.join(" · ")
    }

    /// All panels, in the order in which they are drawn.
    pub(crate) fn panels(&self) -> Vec<Panel> {
        let mut panels = vec![self.throughput(), self.delay(), self.discards()];
        panels.extend(self.virtual_queue());
        panels.extend(self.flows());
        panels
    }

    fn throughput(&self) -> Panel {
        let panel = self.throughput_unscaled();
        let (divisor, letter) = prefix(panel.highest());
        panel.scaled(divisor, letter)
    }

    /// The throughput in bit/s, for charts that choose one scale for several runs.
    pub(crate) fn throughput_unscaled(&self) -> Panel {
        let mut series = vec![
            self.series("arrived", Tone::Faint, |s| s.arrived_bps),
            self.series("delivered", Tone::Main, |s| s.delivered_bps),
        ];
        if self.uses_virtual_queue() {
            // Zero means that the virtual queue is not in charge: no line, not a line at zero.
            let rate = |s: &LinkSample| if s.virtual_rate_bps > 0.0 { s.virtual_rate_bps } else { f64::NAN };
            series.push(stepped(self.series("virtual rate", Tone::Second, rate)));
        }
        let varies = self.capacity_varies();
        if varies {
            series.push(self.series(CAPACITY, Tone::Third, |s| s.capacity_bps));
        }
        Panel {
            kind: Kind::Throughput,
            title: "Throughput",
            unit: "bit/s".to_string(),
            series,
            // Lines of a rate that is not in force would mislead.
            limits: if varies { Vec::new() } else { self.rate_limits() },
        }
    }

    /// Whether the link did not have the same capacity all the time.
    fn capacity_varies(&self) -> bool {
        let told = self.samples.iter().map(|s| &s.capacity_bps);
        extent(told).is_some_and(|(least, most)| most - least > 1e-6 * most)
    }

    fn rate_limits(&self) -> Vec<Limit> {
        let rate = self.summary.and_then(|s| s.rate_bps).filter(|rate| drawable(*rate));
        let Some(rate) = rate else { return Vec::new() };
        let share = |name: &str, share: Option<f64>| {
            let share = share.filter(|s| drawable(*s))?;
            let label = format!("{name} {} %", significant(share * 100.0, 4));
            Some(Limit { label, value: share * rate })
        };
        let mut limits = vec![Limit { label: "rate".to_string(), value: rate }];
        limits.extend(share("u_low", self.policy.utilization_low));
        limits.extend(share("u_target", self.policy.utilization_target));
        limits
    }

    pub(crate) fn delay(&self) -> Panel {
        let mut series = vec![
            self.series("max", Tone::Faint, |s| s.delay_max_ms),
            self.series("mean", Tone::Main, |s| s.delay_mean_ms),
        ];
        if self.samples.iter().any(|s| drawable(s.setpoint_ms)) {
            series.push(stepped(self.series("set point", Tone::Aim, |s| s.setpoint_ms)));
        }
        let target_max = self.policy.target_max_ms.filter(|v| drawable(*v));
        let name = |value| format!("target_max {} ms", significant(value, 3));
        let limits = target_max.map(|value| Limit { label: name(value), value });
        Panel {
            kind: Kind::Delay,
            title: "Delay",
            unit: "ms".to_string(),
            series,
            limits: limits.into_iter().collect(),
        }
    }

    fn discards(&self) -> Panel {
        let any = |count: fn(&LinkSample) -> u64| self.samples.iter().any(|s| count(s) > 0);
        let mut series = vec![self.per_second("drops", Tone::Aim, |s| s.drops)];
        if any(|s| s.overflows) {
            series.push(self.per_second("overflows", Tone::Second, |s| s.overflows));
        }
        if any(|s| s.marks) {
            series.push(self.per_second("marks", Tone::Third, |s| s.marks));
        }
        Panel {
            kind: Kind::Discards,
            title: "Signals",
            unit: "packets/s".to_string(),
            series,
            limits: Vec::new(),
        }
    }

    fn virtual_queue(&self) -> Option<Panel> {
        if !self.uses_virtual_queue() {
            return None;
        }
        let series = vec![
            self.series("backlog", Tone::Main, |s| s.backlog_bytes as f64),
            self.series("virtual backlog", Tone::Second, |s| s.virtual_backlog_bytes as f64),
        ];
        let unit = "B".to_string();
        let panel = Panel { kind: Kind::Virtual, title: "Backlog", unit, series, limits: Vec::new() };
        let (divisor, letter) = prefix(panel.highest());
        Some(panel.scaled(divisor, letter))
    }

    fn uses_virtual_queue(&self) -> bool {
        self.samples.iter().any(|s| s.virtual_backlog_bytes > 0 || s.virtual_rate_bps > 0.0)
    }

    fn flows(&self) -> Option<Panel> {
        let (t, v) = active_flows(&self.recording.flow_samples);
        if t.is_empty() {
            return None;
        }
        let series = vec![Series { name: "active flows", tone: Tone::Main, step: true, t, v }];
        let unit = String::new();
        Some(Panel { kind: Kind::Flows, title: "Flows", unit, series, limits: Vec::new() })
    }

    fn series(&self, name: &'static str, tone: Tone, value: impl Fn(&LinkSample) -> f64) -> Series {
        let placed = || self.samples.iter().filter(|s| drawable(s.t_s));
        let hole = |v: f64| if drawable(v) { v } else { f64::NAN };
        let t = placed().map(|s| s.t_s).collect();
        Series { name, tone, step: false, t, v: placed().map(|s| hole(value(s))).collect() }
    }

    /// Counts divided by the length of their period. The first period is taken to be as long as the second.
    fn per_second(&self, name: &'static str, tone: Tone, count: fn(&LinkSample) -> u64) -> Series {
        let mut series = self.series(name, tone, |s| count(s) as f64);
        let lengths: Vec<f64> = series.t.windows(2).map(|w| w[1] - w[0]).collect();
        let first = lengths.first().or(series.t.first()).copied();
        for (v, length) in series.v.iter_mut().zip(first.into_iter().chain(lengths)) {
            *v = if length > 0.0 && drawable(*v / length) { *v / length } else { f64::NAN };
        }
        series
    }
}

fn stepped(series: Series) -> Series {
    Series { step: true, ..series }
}

/// How many flows are between their first and their last sample. The last sample of all ends no flow: there
/// the recording ends.
fn active_flows(samples: &[FlowSample]) -> (Vec<f64>, Vec<f64>) {
    let placed = || samples.iter().filter(|s| drawable(s.t_s));
    let mut lives = std::collections::BTreeMap::<u32, (f64, f64)>::new();
    for s in placed() {
        let life = lives.entry(s.flow).or_insert((s.t_s, s.t_s));
        *life = (life.0.min(s.t_s), life.1.max(s.t_s));
    }
    let Some((_, end)) = extent(placed().map(|s| &s.t_s)) else {
        return (Vec::new(), Vec::new());
    };
    let mut changes: Vec<(f64, f64)> = lives.values().flat_map(|l| [(l.0, 1.0), (l.1, -1.0)]).collect();
    // Flows that stop within the last hundredth of the run are those that stop with it: samples of
    // different flows are not taken at the same instant.
    let start = changes.iter().fold(end, |a, c| a.min(c.0));
    changes.retain(|c| c.1 > 0.0 || c.0 < end - (end - start) / 100.0);
    changes.sort_by(|a, b| a.0.total_cmp(&b.0));
    let mut active = 0.0;
    let mut steps: Vec<(f64, f64)> = Vec::new();
    for (t, change) in changes {
        active += change;
        match steps.last_mut() {
            Some(last) if last.0 == t => last.1 = active,
            _ => steps.push((t, active)),
        }
    }
    steps.push((end, active));
    steps.into_iter().unzip()
}

/// A rate in words; `unshaped` where there is none.
pub(crate) fn rate_text(bps: Option<f64>) -> String {
    let bps = bps.filter(|bps| drawable(*bps));
    bps.map_or("unshaped".to_string(), |bps| Rate::from_bps_f64(bps).to_string())
}

#[cfg(test)]
mod tests {
    use super::*;
    use weir_measure::result::Summary;

    #[test]
    fn flows_are_counted_between_their_samples() {
        let at = |t_s, flow| FlowSample { t_s, flow, ..FlowSample::default() };
        let samples = [at(0.0, 0), at(0.0, 1), at(2.0, 2), at(5.0, 2), at(10.0, 0), at(9.95, 1)];
        let (t, v) = active_flows(&samples);
        assert_eq!(t, [0.0, 2.0, 5.0, 10.0]);
        assert_eq!(v, [2.0, 3.0, 2.0, 2.0]);
    }

    #[test]
    fn a_capacity_that_varies_is_drawn_and_a_constant_one_is_a_line() {
        let sample = |t_s, capacity_bps| LinkSample { t_s, capacity_bps, ..LinkSample::default() };
        let of = |capacities: [f64; 3]| {
            let samples = (1..).zip(capacities).map(|(t, bps)| sample(f64::from(t), bps)).collect();
            let link = LinkSummary { rate_bps: Some(9e6), ..LinkSummary::default() };
            let summary = Summary { links: vec![link], ..Summary::default() };
            let recording = Recording { summary, link_samples: vec![samples], ..Recording::default() };
            let panel = LinkView::new(&recording, 0, Policy::default()).throughput_unscaled();
            let drawn = panel.series.into_iter().find(|s| s.name == CAPACITY).map(|s| s.v);
            (drawn, panel.limits.iter().map(|l| l.value).collect::<Vec<_>>())
        };
        assert_eq!(of([9e6, 9e6, 9e6]), (None, vec![9e6]));
        assert_eq!(of([f64::NAN; 3]), (None, vec![9e6]));
        assert_eq!(of([9e6, 0.0, 4e6]), (Some(vec![9e6, 0.0, 4e6]), vec![]));
    }

    #[test]
    fn counts_become_rates() {
        let sample = |t_s, drops| LinkSample { t_s, drops, ..LinkSample::default() };
        let samples = vec![sample(0.5, 5), sample(1.0, 10), sample(1.0, 1), sample(2.0, 7)];
        let recording = Recording { link_samples: vec![samples], ..Recording::default() };
        let view = LinkView::new(&recording, 0, Policy::default());
        let v = view.per_second("drops", Tone::Main, |s| s.drops).v;
        assert_eq!(&v[..2], &[10.0, 20.0]);
        assert!(v[2].is_nan(), "a period without length has no rate");
        assert_eq!(v[3], 7.0);
    }
}
