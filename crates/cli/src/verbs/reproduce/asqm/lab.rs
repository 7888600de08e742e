//! The access network in namespaces, with real TCP and an unmodified gateway.

mod claims;
mod draw;

use super::FigureName;
use super::cases::{Managed, Study, of_figure};
use crate::interrupt::is_interrupted;
use crate::output::{Done, Failure, Output};
use crate::results::{file_set, prepare};
use crate::verbs::reproduce::publish::{Publication, ended, status, value_name};
use serde::Serialize;
use std::ops::ControlFlow;
use std::path::Path;
use std::time::Duration;
use weir_lab::access::{self, AccessConfig, Connection, Home, ModemResult, Way};
use weir_report::html::Rows;
use weir_report::table;
use weir_scenario::RunConfig;
use weir_scenario::result::Claim;
use weir_units::Rate;

/// Round-trip times of the paper, in milliseconds.
const RTTS_MS: [u64; 3] = [50, 100, 200];
/// The one of downloads.
const DOWNLOAD_RTT_MS: u64 = 100;
/// Packets that a modem's FIFO holds, as the delays of the paper imply.
const FIFO: u32 = 1000;

/// Transfers of a home that start again when they end.
const TRANSFERS: usize = 5;
/// Users of a home, and the first of their connections: behind the transfers and the one without end.
const USERS: usize = 4;
const PAGES_FROM: usize = TRANSFERS + 1;

/// The traffic of a home (section 3.3 of draft-kuhn-aqm-eval-guidelines-00).
fn mix() -> Vec<Connection> {
    let repeated = |size| Connection { size: Some(size), pause: Some(Duration::ZERO) };
    let endless = Connection { size: None, pause: None };
    [vec![repeated(5_000_000); TRANSFERS], vec![endless], vec![repeated(700_000); USERS]].concat()
}

/// Rate of the shared link for each modem: all of what the limiters let through, and less than was sold.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
#[serde(rename_all = "lowercase")]
enum Load {
    OffPeak,
    Peak,
}

impl Load {
    fn shared(self, modems: u32) -> Rate {
        let each = match self {
            Load::OffPeak => 16_000_000,
            Load::Peak => 7_000_000,
        };
        Rate::from_bps(each * u64::from(modems))
    }

    fn name(self) -> &'static str {
        match self {
            Load::OffPeak => "off-peak",
            Load::Peak => "peak",
        }
    }
}

/// One run.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Plan {
    way: Way,
    aqm: &'static str,
    load: Load,
    rtt_ms: u64,
    modems: u32,
    seconds: u64,
    warmup: u64,
}

impl Plan {
    fn title(&self) -> String {
        let name = match self.aqm {
            "codel" => "CoDel",
            "pie" => "PIE",
            _ => "ASQM",
        };
        let way = if self.way == Way::Download { ", download" } else { "" };
        format!("{name}, {}, RTT {} ms{way}", self.load.name(), self.rtt_ms)
    }

    /// The limiter as a user of `weir run` would configure it.
    fn limiter(&self) -> Result<RunConfig, Failure> {
        let sense = if self.aqm == "asqm" { "[sense]\nport = \"b\"\n" } else { "" };
        let text = format!(
            "[ports]\na = \"a\"\nb = \"b\"\n[a_to_b]\nrate = \"16Mbit/s\"\naccounting = \"frame\"\nbuffer = \"1.5MB\"\n\
             [a_to_b.aqm]\nname = \"{}\"\n{sense}",
            self.aqm
        );
        RunConfig::parse("limiter", &text).map_err(Failure::input)
    }
}

/// Uploads of the figures that were asked for at each round-trip time, downloads at one.
fn plans(figure: FigureName, quick: bool) -> Vec<Plan> {
    let whole = Plan {
        way: Way::Upload,
        aqm: "codel",
        load: Load::Peak,
        rtt_ms: 50,
        modems: 3,
        seconds: 60,
        warmup: 15,
    };
    if quick {
        let plan = Plan { modems: 1, seconds: 24, warmup: 10, ..whole };
        return vec![plan, Plan { aqm: "asqm", ..plan }];
    }
    let uploads = RTTS_MS.map(|rtt_ms| (Way::Upload, rtt_ms));
    let mut plans = Vec::new();
    for (way, rtt_ms) in uploads.into_iter().chain([(Way::Download, DOWNLOAD_RTT_MS)]) {
        plans.extend(of_figure(figure).into_iter().map(|(study, managed)| {
            let aqm = match managed {
                Managed::CoDel => "codel",
                Managed::Pie => "pie",
                Managed::Asqm => "asqm",
            };
            let load = if study == Study::Peak { Load::Peak } else { Load::OffPeak };
            Plan { way, aqm, load, rtt_ms, ..whole }
        }));
    }
    plans
}

/// What was measured of a run, over all its modems.
#[derive(Clone, Debug, Serialize)]
struct Point {
    title: String,
    is_download: bool,
    aqm: &'static str,
    load: Load,
    rtt_ms: u64,
    /// Mean throughput of a modem in Mbit/s, and the standard deviation of its seconds.
    mbps: f64,
    deviation_mbps: f64,
    /// Round trips of pings, in milliseconds.
    ping_p50_ms: f64,
    ping_p95_ms: f64,
    pages: u64,
    /// Probes: bytes for each byte of data, and how many of them came back.
    overhead: Option<f64>,
    returned: Option<f64>,
    state: Option<String>,
    modems: Vec<weir_scenario::result::LinkSummary>,
    #[serde(skip)]
    pings_ms: Vec<f64>,
    #[serde(skip)]
    bins_mbps: Vec<f64>,
}

impl Point {
    fn of(plan: &Plan, modems: Vec<ModemResult>) -> Point {
        let sorted = |of: fn(&ModemResult) -> &Vec<f64>, unit: f64| {
            let mut all: Vec<f64> = modems.iter().flat_map(|m| of(m).iter().map(|v| v / unit)).collect();
            all.sort_by(f64::total_cmp);
            all
        };
        let (pings_ms, bins_mbps) = (sorted(|m| &m.pings_ms, 1.0), sorted(|m| &m.bins_bps, 1e6));
        let deviations = modems.iter().map(|m| deviation(&m.bins_bps) / 1e6);
        let sensing = || modems.iter().filter_map(|m| m.link.sensing.as_ref());
        let wires = || sensing().filter_map(|s| s.wire.as_ref());
        let sent: u64 = sensing().map(|s| s.sent).sum();
        let is_sensed = sent > 0;
        let ratio = |a: u64, b: u64| a as f64 / b.max(1) as f64;
        Point {
            title: plan.title(),
            is_download: plan.way == Way::Download,
            aqm: plan.aqm,
            load: plan.load,
            rtt_ms: plan.rtt_ms,
            mbps: mean(&bins_mbps),
            deviation_mbps: deviations.sum::<f64>() / modems.len().max(1) as f64,
            ping_p50_ms: quantile(&pings_ms, 0.5),
            ping_p95_ms: quantile(&pings_ms, 0.95),
            pages: modems
                .iter()
                .flat_map(|m| m.connections.iter().skip(PAGES_FROM))
                .map(|c| c.completed)
                .sum(),
            overhead: is_sensed
                .then(|| ratio(wires().map(|w| w.sent_bytes).sum(), wires().map(|w| w.data_bytes).sum())),
            returned: is_sensed.then(|| ratio(sensing().map(|s| s.returned).sum(), sent)),
            state: sensing().next().map(|s| s.state.clone()),
            modems: modems.into_iter().map(|m| m.link).collect(),
            pings_ms,
            bins_mbps,
        }
    }

    fn row(&self) -> Vec<String> {
        let share =
            |v: Option<f64>, digits: usize| v.map_or("–".into(), |v| format!("{:.digits$}", v * 100.0));
        vec![
            self.title.clone(),
            format!("{:.2}", self.mbps),
            format!("{:.2}", self.deviation_mbps),
            format!("{:.0}", self.ping_p50_ms),
            format!("{:.0}", self.ping_p95_ms),
            self.pages.to_string(),
            share(self.overhead, 3),
            share(self.returned, 1),
        ]
    }
}

const HEADER: [&str; 8] =
    ["run", "Mbit/s", "± in 1 s", "ping p50 ms", "p95 ms", "pages", "probes %", "returned %"];

fn mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len().max(1) as f64
}

fn deviation(values: &[f64]) -> f64 {
    let mean = mean(values);
    (values.iter().map(|v| (v - mean) * (v - mean)).sum::<f64>() / values.len().max(1) as f64).sqrt()
}

/// Of sorted values; none where there are none.
fn quantile(sorted: &[f64], q: f64) -> f64 {
    let at = (sorted.len() as f64 * q) as usize;
    sorted.get(at.min(sorted.len().saturating_sub(1))).copied().unwrap_or(f64::NAN)
}

/// Runs the experiment and judges its claims.
pub fn main(figure: FigureName, quick: bool, out: &Path, output: &Output) -> Done {
    let which = match (quick, figure) {
        (true, _) => "-quick".to_string(),
        (false, FigureName::All) => String::new(),
        (false, figure) => format!("-figure{}", value_name(&figure)),
    };
    let folder = out.join(format!("asqm-lab{which}"));
    prepare(&folder)?;
    let plans = plans(figure, quick);
    let seconds: u64 = plans.iter().map(|p| p.seconds + 2).sum();
    output.say(format!("{} runs, about {:.0} min", plans.len(), seconds as f64 / 60.0));
    let mut points = Vec::new();
    for (n, plan) in plans.iter().enumerate() {
        output.say(format!("[{}/{}] {}", n + 1, plans.len(), plan.title()));
        let modems = run(plan, output)?;
        if is_interrupted() {
            output.say("interrupted: claims whose runs were not made are left out");
            break;
        }
        points.push(Point::of(plan, modems));
        output.say(format!("  {}", points[n].row()[1..].join("  ")));
    }
    let claims = claims::of(&points, quick);
    publish(&points, &claims, quick, &folder, output)?;
    Ok(status(&claims))
}

fn run(plan: &Plan, output: &Output) -> Result<Vec<ModemResult>, Failure> {
    let config = AccessConfig {
        way: plan.way,
        mode: None,
        homes: vec![Home { limiter: plan.limiter()?, connections: mix() }; plan.modems as usize],
        shared: plan.load.shared(plan.modems),
        fifo: FIFO,
        rtt: Duration::from_millis(plan.rtt_ms),
        duration: Duration::from_secs(plan.seconds),
        warmup: Duration::from_secs(plan.warmup),
    };
    let waiting = || output.say("waiting for another run on this machine to end");
    Ok(access::run(&config, waiting, &mut |_| {
        if is_interrupted() { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    })?)
}

fn publish(
    points: &[Point],
    claims: &[Claim],
    quick: bool,
    folder: &Path,
    output: &Output,
) -> Result<(), Failure> {
    let result = serde_json::json!({
        "paper": "asqm", "arm": "lab", "quick": quick, "claims": claims, "runs": points,
    });
    let result = ended(result, folder);
    let rows: Vec<Vec<String>> = points.iter().map(Point::row).collect();
    let notes = [
        "Each home has five transfers of 5 MB that repeat, one without end and pages of 700 kB of four users; the \
         limiter lets 16 Mbit/s through, and the modem's FIFO holds 1000 packets."
            .to_string(),
        "What probes turn around at, the gateway for uploads and the home for downloads, is a Linux namespace with \
         ip_forward and a strict rp_filter."
            .to_string(),
    ];
    let title = format!("ASQM, real TCP{}", if quick { " (short form)" } else { "" });
    let header = HEADER.map(str::to_string).to_vec();
    Publication {
        title: &title,
        notes: &notes,
        claims,
        figures: &draw::figures(points),
        tables: &[Rows { title: "Runs".into(), header, rows: rows.clone() }],
        beside: &[],
        result: &result,
    }
    .publish(&[], file_set(folder)?)?;
    output.result(&result, || {
        format!(
            "{}\n{}\nResults: {}",
            table::aligned(&HEADER, &rows),
            table::claims(claims, output.paint()),
            folder.display()
        )
    });
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_limiter_is_a_valid_configuration_and_only_asqm_senses() {
        for plan in plans(FigureName::All, true).iter().chain(&plans(FigureName::All, false)) {
            let limiter = plan.limiter().unwrap_or_else(|e| panic!("{e:?}"));
            assert_eq!(limiter.sense.is_some(), plan.aqm == "asqm");
            assert_eq!(limiter.warnings(), Vec::<String>::new());
        }
    }

    #[test]
    fn claims_are_judged_on_what_was_measured() {
        let modem =
            |pings_ms: Vec<f64>| ModemResult { pings_ms, bins_bps: vec![6e6, 7e6], ..ModemResult::default() };
        let points = |asqm_ms: f64| {
            let [codel, asqm] = <[Plan; 2]>::try_from(plans(FigureName::All, true)).expect("two");
            [Point::of(&codel, vec![modem(vec![1500.0; 9])]), Point::of(&asqm, vec![modem(vec![asqm_ms; 9])])]
        };
        let held = |asqm_ms: f64| -> Vec<bool> {
            let claims = claims::of(&points(asqm_ms), true);
            claims.iter().filter(|c| c.id == "B10").map(|c| c.held).collect()
        };
        assert_eq!(held(200.0), [true, true]);
        assert_eq!(held(600.0), [true, false]);
        let point = &points(200.0)[0];
        assert_eq!((point.mbps, point.deviation_mbps, point.ping_p95_ms), (6.5, 0.5, 1500.0));
        assert!(claims::of(&points(f64::NAN), true).iter().any(|c| c.id == "B10" && !c.held));
    }
}
