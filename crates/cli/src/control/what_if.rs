//! What a direction would do under other keys or with other traffic: the simulator computes it from what is
//! in force. It looks at what was published and touches nothing that packets pass.

use super::{Refused, refused};
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};
use weir_config::{Document, Scenario};
use weir_operate::{Configuration, Forecast, ForecastPoint, Refusal, WhatIf};
use weir_sim::batch::{Progress, simulate};

/// Packets at most that are computed, of 1500 bytes: some seconds of a processor that nobody else wants.
const PACKETS_MAX: f64 = 5e6;
const PACKET_BITS: f64 = 12_000.0;
/// How long computing may take.
const TIME_MAX: Duration = Duration::from_secs(30);
const DURATION_S: f64 = 30.0;
/// A test that is judged by its result is the same each time.
const SEED: u64 = 1;

/// Ends a run when nobody waits any more, or when it has taken too long.
struct Watch<'a> {
    stop: &'a AtomicBool,
    until: Instant,
}

impl Progress for Watch<'_> {
    fn advance(&self, _: f64) {}
    fn run_ended(&self) {}
    fn is_interrupted(&self) -> bool {
        self.stop.load(Ordering::Relaxed) || Instant::now() >= self.until
    }
}

fn wrong(problem: impl Into<String>, remedy: &str) -> Refused {
    super::wrong(None, problem.into(), remedy)
}

/// The key of a scenario for a key of a direction; none where the simulator's link has nothing of it.
fn key_of(key: &str) -> Option<String> {
    match key.split('.').next()? {
        "rate" | "buffer" | "accounting" | "overhead" => Some(format!("link.{key}")),
        "queue" | "aqm" | "policy" => Some(key.into()),
        _ => None,
    }
}

/// Keys and values of a direction that is in force, as those of a scenario.
fn in_force(direction: &str, values: &BTreeMap<String, String>) -> Result<Vec<(String, String)>, Refused> {
    let own = format!("{direction}.");
    let of_run = values.iter().filter_map(|(key, value)| Some((key.strip_prefix(&own)?, value)));
    let of_run: Vec<_> = of_run.filter_map(|(key, value)| Some((key_of(key)?, value.clone()))).collect();
    if !of_run.is_empty() {
        return Ok(of_run);
    }
    // That of a scenario with one link.
    let is_own =
        |key: &str| ["link.", "queue.", "aqm.", "policy."].iter().any(|table| key.starts_with(table));
    let of_lab = values.iter().filter(|(key, _)| values.contains_key("aqm.name") && is_own(key));
    let of_lab: Vec<_> = of_lab.map(|(key, value)| (key.clone(), value.clone())).collect();
    if of_lab.is_empty() {
        let problem = format!("`direction`: {direction:?} has no queue that the simulator knows");
        return Err(wrong(problem, "name a direction of the status that has an algorithm and a rate"));
    }
    Ok(of_lab)
}

/// The scenario that was asked for.
fn scenario(asked: &WhatIf, values: &BTreeMap<String, String>) -> Result<Scenario, Refused> {
    if !(1..=1000).contains(&asked.flows) {
        return Err(wrong(format!("`flows`: {} is out of range", asked.flows), "give 1 to 1000"));
    }
    if !(0.1..=2000.0).contains(&asked.rtt_ms) {
        return Err(wrong(format!("`rtt_ms`: {} is out of range", asked.rtt_ms), "give 0.1 to 2000"));
    }
    let known = weir_tcp::congestion::names();
    if let Some(name) = asked.congestion.as_deref().filter(|name| !known.contains(name)) {
        let problem = format!("`congestion`: the simulator has no {name:?}");
        return Err(wrong(problem, &format!("give one of {}", known.join(", "))));
    }
    // A duration is set when the rate is known.
    let text = format!(
        "title = \"what if\"\n[path]\nrtt = \"{}us\"\n[[flows]]\ncount = {}\n{}\
         [run]\nduration = \"120s\"\nwarmup = \"0s\"\nsample = \"500ms\"\n",
        (asked.rtt_ms * 1e3).round(),
        asked.flows,
        asked.congestion.as_ref().map_or(String::new(), |name| format!("congestion = \"{name}\"\n")),
    );
    let mut document = Document::parse("what-if", &text).map_err(refused)?;
    let mut current = in_force(&asked.direction, values)?;
    // Parameters are those of their algorithm, and of their discipline, which may have an algorithm of its
    // own.
    let is_another = |key: &str| {
        let name = |value: &str| value.trim_matches('"').to_string();
        let of_force = current.iter().find(|(own, _)| own == key).map(|(_, value)| name(value));
        asked.set.get(key).is_some_and(|wanted| of_force != Some(name(wanted)))
    };
    let is_other_queue = is_another("queue.discipline");
    let brings_algorithm =
        |name: &String| is_other_queue && weir_config::brings_algorithm(name.trim_matches('"'));
    let is_other_aqm =
        is_another("aqm.name") || asked.set.get("queue.discipline").is_some_and(brings_algorithm);
    current.retain(|(key, _)| {
        !(is_other_aqm && key.starts_with("aqm.") || is_other_queue && key.starts_with("queue."))
    });
    for (key, value) in &current {
        document.set(key, value).map_err(refused)?;
    }
    for (key, value) in &asked.set {
        let Some(own) = key_of(key) else {
            let problem = format!("key `{key}`: is not computed");
            return Err(wrong(problem, "set keys of `rate`, `buffer`, `queue`, `aqm` or `policy`"));
        };
        document.set(&own, value).map_err(refused)?;
    }
    document.scenario().map_err(refused)
}

/// How many seconds are computed.
fn duration(asked: &WhatIf, rate_bps: f64) -> Result<f64, Refused> {
    let most = (PACKETS_MAX * PACKET_BITS / rate_bps).min(120.0);
    match asked.duration_s {
        None if most < 2.0 => {
            Err(wrong("the link is too fast to be computed while packets pass", "use `weir sim` elsewhere"))
        }
        None => Ok(DURATION_S.min(most)),
        Some(asked) if (2.0..=most).contains(&asked) => Ok(asked),
        Some(asked) => {
            let problem = format!("`duration_s`: {asked} is out of range");
            Err(wrong(problem, &format!("give 2 to {most:.0} s; more is for `weir sim`")))
        }
    }
}

/// Computes what was asked for; see [`weir_operate::Simulate`].
pub fn forecast(
    asked: &WhatIf,
    configuration: &Configuration,
    stop: &AtomicBool,
) -> Result<Forecast, Refused> {
    let mut scenario = scenario(asked, &configuration.values)?;
    let Some(rate) = scenario.link.shape.rate else {
        return Err(wrong("the direction has no rate", "give one: `set` has \"rate\""));
    };
    let rate_bps = rate.as_bps_f64();
    let duration_s = duration(asked, rate_bps)?;
    let nanos = |s: f64| weir_units::Duration::from_nanos((s * 1e9) as u64);
    (scenario.run.duration, scenario.run.warmup) = (nanos(duration_s), nanos(duration_s / 3.0));
    let begun = Instant::now();
    let watch = Watch { stop, until: begun + TIME_MAX };
    let (outcome, is_interrupted, ()) =
        simulate(&scenario, SEED, (), &watch).map_err(|error| (422, Refusal::plain(error.to_string())))?;
    if is_interrupted {
        let why = format!("computing took more than {} s", TIME_MAX.as_secs());
        return Err((
            503,
            Refusal::plain(format!("{why}. Remedy: ask for fewer flows, or a shorter `duration_s`")),
        ));
    }
    let recording = outcome.recording;
    let link = recording.summary.links.first().ok_or((500, Refusal::plain("nothing was measured")))?;
    let points =
        recording.link_samples.first().map_or(&[][..], Vec::as_slice).iter().map(|row| ForecastPoint {
            t_s: row.t_s,
            utilization: row.delivered_bps / rate_bps,
            delay_mean_ms: row.delay_mean_ms,
            delay_max_ms: row.delay_max_ms,
            setpoint_ms: Some(row.setpoint_ms).filter(|ms| ms.is_finite()),
        });
    let policy = scenario.policy.as_ref();
    Ok(Forecast {
        direction: asked.direction.clone(),
        aqm: link.aqm.clone(),
        duration_s,
        took_s: begun.elapsed().as_secs_f64(),
        rate_bps,
        policy: policy.map(|policy| super::policy_status(String::new(), &policy.policy())),
        utilization: link.utilization,
        delay_mean_ms: link.delay_ms.mean,
        delay_p95_ms: link.delay_ms.p95,
        delay_max_ms: link.delay_ms.max,
        drops: link.drops + link.overflows,
        marks: link.marks,
        points: points.collect(),
        notes: recording.summary.warnings.clone(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use weir_config::RunConfig;

    fn configuration(aqm: &str) -> Configuration {
        let text = format!(
            "ports = {{ a = \"x\", b = \"y\" }}\n[a_to_b]\nrate = \"20Mbit/s\"\nbuffer = \"200ms\"\naqm = {aqm}\n\
             policy = {{ utilization_low = \"97%\", target_max = \"30ms\" }}\n"
        );
        let config = RunConfig::parse("f.toml", &text).unwrap();
        let toml = config.to_toml();
        Configuration { file: "f.toml".into(), values: weir_config::values(&toml), toml }
    }

    fn ask(set: &[(&str, &str)]) -> WhatIf {
        let set = set.iter().map(|(key, value)| (key.to_string(), value.to_string())).collect();
        WhatIf { direction: "a_to_b".into(), set, flows: 2, duration_s: Some(20.0), ..WhatIf::default() }
    }

    fn computed(asked: &WhatIf) -> Result<Forecast, Refused> {
        forecast(asked, &configuration("{ name = \"gsp\" }"), &AtomicBool::new(false))
    }

    #[test]
    fn what_is_in_force_is_computed_and_what_is_asked_for_over_it() {
        let now = computed(&ask(&[])).unwrap();
        assert_eq!((now.rate_bps, now.duration_s, now.points.len()), (20e6, 20.0, 40));
        assert!(now.utilization > 0.8 && now.utilization < 1.01, "{now:?}");
        assert_eq!(now.policy.as_ref().unwrap().target_max_ms, 30.0);
        assert!(now.points.iter().all(|point| point.setpoint_ms.is_some()));
        // Less delay is allowed: there is less of it.
        let strict = computed(&ask(&[("policy.target_max", "2ms"), ("policy.target_min", "0.5ms")])).unwrap();
        assert!(strict.delay_p95_ms < now.delay_p95_ms, "{strict:?} {now:?}");
        let highest = |forecast: &Forecast| {
            forecast.points.iter().filter_map(|point| point.setpoint_ms).fold(0.0, f64::max)
        };
        assert!(highest(&strict) <= 2.0 && highest(&now) > 2.0, "{} {}", highest(&strict), highest(&now));
        // A rate, and another algorithm without the parameters of this one.
        let slow = computed(&ask(&[("rate", "5Mbit/s"), ("aqm.name", "codel")])).unwrap();
        assert_eq!((slow.rate_bps, slow.aqm.as_str()), (5e6, "codel"));
        assert_eq!(computed(&ask(&[])).unwrap().points, now.points, "the same each time");
        // Parameters of a discipline go with it, and the algorithm where the next one brings its own.
        let flow = computed(&ask(&[("queue.discipline", "flow"), ("aqm.name", "codel")])).unwrap();
        let dual = computed(&ask(&[("queue.discipline", "dualpi2")]));
        assert_eq!(flow.aqm.as_str(), "flow codel");
        assert_eq!(dual.unwrap().aqm.as_str(), "dualpi2");
    }

    #[test]
    fn what_cannot_be_computed_is_refused_with_key_and_remedy() {
        let told = |asked: &WhatIf| computed(asked).unwrap_err().1.error;
        for (asked, words) in [
            (WhatIf { flows: 0, ..ask(&[]) }, "`flows`: 0 is out of range. Remedy: give 1 to 1000"),
            (WhatIf { rtt_ms: 1e9, ..ask(&[]) }, "`rtt_ms`"),
            (WhatIf { rtt_ms: f64::NAN, ..ask(&[]) }, "`rtt_ms`"),
            (WhatIf { congestion: Some("newreno".into()), ..ask(&[]) }, "give one of"),
            (WhatIf { direction: "up".into(), ..ask(&[]) }, "\"up\" has no queue"),
            (WhatIf { duration_s: Some(500.0), ..ask(&[]) }, "give 2 to 120 s"),
            (ask(&[("rate", "fast")]), "link.rate"),
            (ask(&[("policy.target_max", "99s")]), "policy.target_max"),
            (ask(&[("delay", "5ms")]), "key `delay`: is not computed"),
            (WhatIf { duration_s: Some(20.0), ..ask(&[("rate", "50Gbit/s")]) }, "`duration_s`"),
        ] {
            let told = told(&asked);
            assert!(told.contains(words), "{asked:?}: {told}");
        }
        // Without a number it is as long as there is time for.
        let fast = WhatIf { duration_s: None, ..ask(&[]) };
        assert_eq!(duration(&fast, 1e10).unwrap(), 6.0);
        assert!(duration(&fast, 1e11).is_err());
    }

    #[test]
    fn it_ends_when_nobody_waits_any_more() {
        let (begun, stop) = (Instant::now(), AtomicBool::new(true));
        let asked = WhatIf { flows: 500, duration_s: Some(100.0), ..ask(&[("rate", "500Mbit/s")]) };
        assert!(forecast(&asked, &configuration("{ name = \"gsp\" }"), &stop).is_err());
        assert!(begun.elapsed() < Duration::from_secs(2), "{:?}", begun.elapsed());
    }
}
