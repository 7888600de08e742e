//! The access network in namespaces, with real TCP and an unmodified gateway.

use super::claim;
use crate::interrupt::is_interrupted;
use crate::output::{Done, Failure, Output};
use crate::results::prepare;
use crate::verbs::reproduce::publish::{Named, Publication, status};
use serde::Serialize;
use std::path::Path;
use std::time::Duration;
use weir_lab::access::{self, AccessConfig, ModemResult};
use weir_report::chart::{Look, Plot, PlotAxis, PlotPoint, PlotSeries};
use weir_report::html::Rows;
use weir_report::table;
use weir_scenario::RunConfig;
use weir_scenario::result::Claim;
use weir_units::Rate;

/// Round-trip times of the paper, in milliseconds.
const RTTS_MS: [u64; 3] = [50, 100, 200];
/// Packets that a modem's FIFO holds, as the delays of the paper imply.
const FIFO: u32 = 1000;
/// At the default target the link's round trip is held there.
const TARGET_MS: f64 = 100.0;

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
        format!("{name}, {}, RTT {} ms", self.load.name(), self.rtt_ms)
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

fn plans(quick: bool) -> Vec<Plan> {
    if quick {
        let plan = Plan { aqm: "codel", load: Load::Peak, rtt_ms: 50, modems: 1, seconds: 24, warmup: 10 };
        return vec![plan, Plan { aqm: "asqm", ..plan }];
    }
    let mut plans = Vec::new();
    for rtt_ms in RTTS_MS {
        for load in [Load::OffPeak, Load::Peak] {
            let plan = |aqm| Plan { aqm, load, rtt_ms, modems: 3, seconds: 60, warmup: 15 };
            plans.extend(["codel", "pie", "asqm"].map(plan));
        }
    }
    plans
}

/// What was measured of a run, over all its modems.
#[derive(Clone, Debug, Serialize)]
struct Point {
    title: String,
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
            aqm: plan.aqm,
            load: plan.load,
            rtt_ms: plan.rtt_ms,
            mbps: mean(&bins_mbps),
            deviation_mbps: deviations.sum::<f64>() / modems.len().max(1) as f64,
            ping_p50_ms: quantile(&pings_ms, 0.5),
            ping_p95_ms: quantile(&pings_ms, 0.95),
            pages: modems.iter().map(|m| m.pages).sum(),
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
pub fn main(quick: bool, out: &Path, output: &Output) -> Done {
    let folder = out.join(if quick { "asqm-lab-quick" } else { "asqm-lab" });
    prepare(&folder)?;
    let plans = plans(quick);
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
    let claims = claims(&points, quick);
    publish(&points, &claims, quick, &folder, output)?;
    Ok(status(&claims))
}

fn run(plan: &Plan, output: &Output) -> Result<Vec<ModemResult>, Failure> {
    let config = AccessConfig {
        modems: plan.modems,
        shared: plan.load.shared(plan.modems),
        fifo: FIFO,
        rtt: Duration::from_millis(plan.rtt_ms),
        limiter: plan.limiter()?,
        duration: Duration::from_secs(plan.seconds),
        warmup: Duration::from_secs(plan.warmup),
    };
    let waiting = || output.say("waiting for another run on this machine to end");
    Ok(access::run(&config, waiting, &mut |_| !is_interrupted())?)
}

/// The claims that the points are enough for.
fn claims(points: &[Point], quick: bool) -> Vec<Claim> {
    let find = |aqm: &str, load, rtt_ms| {
        points.iter().find(|p| p.aqm == aqm && p.load == load && p.rtt_ms == rtt_ms)
    };
    let mut claims = Vec::new();
    for rtt in RTTS_MS {
        let at = |load| ["codel", "pie"].into_iter().filter_map(move |aqm| find(aqm, load, rtt));
        for other in at(Load::Peak) {
            claims.push(blind(other));
        }
        if let Some(asqm) = find("asqm", Load::Peak, rtt) {
            claims.extend(at(Load::Peak).map(|other| controlled(asqm, other)));
            claims.push(paid(asqm));
            // The short form is too short for what needs many seconds.
            if !quick {
                claims.push(held(asqm));
                claims.extend(at(Load::Peak).map(|other| steadier(asqm, other)));
            }
            claims.extend(find("asqm", Load::OffPeak, rtt).map(|before| unaffected(asqm, before)));
        }
        for aqm in ["codel", "pie", "asqm"] {
            claims.extend(find(aqm, Load::OffPeak, rtt).map(|p| throughput(p, "B4", (15.0, 15.8))));
            claims.extend(find(aqm, Load::Peak, rtt).map(|p| throughput(p, "B9", (6.2, 6.8))));
        }
    }
    claims
}

fn blind(p: &Point) -> Claim {
    claim(
        "B10",
        format!("{}: what waits below IP is not seen", p.title),
        "ping p95 above 500 ms",
        format!("{:.0} ms", p.ping_p95_ms),
        p.ping_p95_ms > 500.0,
    )
}

fn held(p: &Point) -> Claim {
    let most = p.rtt_ms as f64 + TARGET_MS;
    claim(
        "B7",
        format!("{}: the delay below IP is held", p.title),
        format!("ping p50 at most {most:.0} ms"),
        format!("{:.0} ms", p.ping_p50_ms),
        p.ping_p50_ms <= most,
    )
}

fn controlled(p: &Point, other: &Point) -> Claim {
    claim(
        "B10",
        format!("{}: the delay stays controlled where {} does not see it", p.title, other.title),
        "ping p95 below 500 ms, and at most half",
        format!("{:.0} of {:.0} ms", p.ping_p95_ms, other.ping_p95_ms),
        p.ping_p95_ms < 500.0 && p.ping_p95_ms <= other.ping_p95_ms / 2.0,
    )
}

fn steadier(p: &Point, other: &Point) -> Claim {
    claim(
        "B12",
        format!("{}: a steadier rate than {}", p.title, other.title),
        "deviation of seconds at most half",
        format!("± {:.2} of {:.2} Mbit/s", p.deviation_mbps, other.deviation_mbps),
        p.deviation_mbps <= other.deviation_mbps / 2.0,
    )
}

fn unaffected(peak: &Point, before: &Point) -> Claim {
    claim(
        "B11",
        format!("{}: the peak does not change the delay", peak.title),
        "p95 within 25 % of the off-peak value",
        format!("{:.0} and {:.0} ms", peak.ping_p95_ms, before.ping_p95_ms),
        (peak.ping_p95_ms / before.ping_p95_ms - 1.0).abs() <= 0.25,
    )
}

fn throughput(p: &Point, id: &str, (low, high): (f64, f64)) -> Claim {
    claim(
        id,
        format!("{}: throughput of a modem", p.title),
        format!("{low} to {high} Mbit/s"),
        format!("{:.2} Mbit/s", p.mbps),
        (low..=high).contains(&p.mbps),
    )
}

fn paid(p: &Point) -> Claim {
    let (overhead, returned) = (p.overhead.unwrap_or(f64::NAN), p.returned.unwrap_or(0.0));
    claim(
        "B2",
        format!("{}: the price of probes, off a plain Linux gateway", p.title),
        "at most 0.5 % of the bytes; all but what the modem's FIFO dropped come back",
        format!("{:.3} %, {:.1} % returned", overhead * 100.0, returned * 100.0),
        overhead <= 0.005 && returned > 0.9,
    )
}

/// The share of values up to each.
fn distribution(points: &[Point], load: Load, of: fn(&Point) -> &Vec<f64>) -> Vec<PlotSeries> {
    let of_load = points.iter().filter(|p| p.load == load);
    let series = of_load.map(|p| {
        let values = of(p);
        let step = (values.len() / 200).max(1);
        let at = |i: usize| PlotPoint { x: values[i], y: (i + 1) as f64 / values.len() as f64, range: None };
        let points = (0..values.len()).step_by(step).map(at).collect();
        PlotSeries { name: p.title.clone(), look: Look::Line, points, on_right: false }
    });
    series.collect()
}

fn figures(points: &[Point]) -> Vec<Named> {
    let axis = |name: &str, range| PlotAxis { name: name.into(), range };
    let mut figures = Vec::new();
    for load in [Load::OffPeak, Load::Peak] {
        let of: [(&str, &str, fn(&Point) -> &Vec<f64>); 2] = [
            ("delay", "Round trip of a ping beside the transfers (ms)", |p| &p.pings_ms),
            ("bandwidth", "Throughput of a modem in a second (Mbit/s)", |p| &p.bins_mbps),
        ];
        for (file, name, of) in of {
            let series = distribution(points, load, of);
            if series.is_empty() {
                continue;
            }
            let plot = Plot {
                title: format!("Distribution of {file}, {}", load.name()),
                x: axis(name, None),
                left: axis("Share", Some((0.0, 1.0))),
                series,
                ..Plot::default()
            };
            figures.push(Named { file: format!("{file}-{}", load.name()), plot });
        }
    }
    figures
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
        "out": folder.display().to_string(),
    });
    let rows: Vec<Vec<String>> = points.iter().map(Point::row).collect();
    let notes = [
        "Each home uploads five transfers of 5 MB that repeat, one without end and pages of 700 kB of four users; the \
         limiter lets 16 Mbit/s through, and the modem's FIFO holds 1000 packets."
            .to_string(),
        "The gateway is a Linux namespace with ip_forward and a strict rp_filter; nothing else was set there."
            .to_string(),
    ];
    let title = format!("ASQM, real TCP{}", if quick { " (short form)" } else { "" });
    let header = HEADER.map(str::to_string).to_vec();
    Publication {
        title: &title,
        notes: &notes,
        claims,
        figures: &figures(points),
        tables: &[Rows { title: "Runs".into(), header, rows: rows.clone() }],
        beside: &[],
        result: &result,
    }
    .write(folder)?;
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
