//! What the user of a phone notices: a call, adaptive video and pages beside a download, in the cell of the
//! article. The article says nothing of it, so that nothing is judged.

use super::Arguments;
use super::cases::{Case, FORMS, Form, IMAGE, PAGE, SIGNALS, Signal, Transport};
use crate::host::{Error, Host};
use crate::runs::{Planned, run_all, times};
use crate::statistics::mean;
use serde::Serialize;
use weir_measure::study::Kind;
use weir_report::html::Rows;
use weir_sim::batch::{self, Progress};

/// What the first phone does beside loading its image, in the form of the scenario file. The page of 1 MB
/// of the test gives way to one of many objects.
const APPLICATIONS: &str = "
[[flows]]
from = \"server\"
to = \"phone1\"
start = \"5s\"
voice = { playout = \"150ms\" }

[[flows]]
from = \"server\"
to = \"phone1\"
start = \"5s\"
video = { buffer = \"60s\" }

[[flows]]
from = \"server\"
to = \"phone1\"
start = \"5s\"
page = {}
";

/// What was noticed in a run. What did not happen in it is NaN.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Noticed {
    /// How well the phones hear.
    pub signal: Signal,
    /// The form of vAQM.
    pub form: Form,
    /// Mean opinion score of the call by the E-model, 1 to 4.5.
    pub call_mos: f64,
    /// From mouth to ear, in ms.
    pub mouth_to_ear_ms: f64,
    /// Share of the call's packets that were lost or came too late to be played, in percent.
    pub unheard_percent: f64,
    /// Mean rate of the video, in Mbit/s.
    pub video_mbps: f64,
    /// Share of the time in which its pictures stood still, in percent.
    pub still_percent: f64,
    /// From the request of the video to its first picture, in seconds.
    pub first_picture_s: f64,
    /// Time of a page, in seconds: median, and 95th percentile.
    pub page_median_s: f64,
    /// See [`Noticed::page_median_s`].
    pub page_p95_s: f64,
    /// Mean time of the image of 16 MB, in seconds.
    pub image_s: f64,
}

type Run = Planned<(Signal, Form)>;

/// The runs: each signal and each form.
fn plan(arguments: &Arguments) -> Result<Vec<Run>, Error> {
    let seeds = times(arguments.seeds, arguments.quick, 5);
    // The short form is for whether it works.
    let signals = if arguments.quick { &SIGNALS[..1] } else { &SIGNALS[..] };
    let mut plan = Vec::new();
    for &signal in signals {
        for form in FORMS {
            let case = Case { signal, protocol: Transport::Tcp, form };
            let mut scenario = case.scenario_with(arguments.quick, APPLICATIONS)?;
            scenario.flows.remove(PAGE as usize);
            plan.extend(Planned::repeated(&(signal, form), &scenario, seeds));
        }
    }
    Ok(plan)
}

fn measure(planned: &Run, progress: &dyn Progress) -> Result<Option<Noticed>, Error> {
    let (outcome, interrupted, ()) = batch::simulate(&planned.scenario, planned.seed, (), progress)?;
    if interrupted {
        return Ok(None);
    }
    let study = outcome.study;
    let (signal, form) = planned.case;
    let (call, video) = (study.calls.first(), study.videos.first());
    let page =
        study.completions.iter().find(|c| c.kind == Kind::Page && c.group.is_none() && c.size.is_none());
    let page = page.and_then(|page| page.time_ms.as_ref());
    let image = outcome.recording.summary.flows.iter().find(|flow| flow.group == IMAGE - 1);
    let percent = |share: f64| 100.0 * share;
    Ok(Some(Noticed {
        signal,
        form,
        call_mos: call.map_or(f64::NAN, |call| call.mos),
        mouth_to_ear_ms: call.map_or(f64::NAN, |call| call.mouth_to_ear_ms),
        unheard_percent: call.map_or(f64::NAN, |call| percent(call.datagrams.lost + call.datagrams.late)),
        video_mbps: video.map_or(f64::NAN, |video| video.rate_bps / 1e6),
        still_percent: video.map_or(f64::NAN, |video| percent(video.stalled)),
        first_picture_s: video.map_or(f64::NAN, |video| video.startup_ms.mean / 1e3),
        page_median_s: page.map_or(f64::NAN, |times| times.p50 / 1e3),
        page_p95_s: page.map_or(f64::NAN, |times| times.p95 / 1e3),
        image_s: image.and_then(|flow| flow.transfers).and_then(|t| t.mean_s).unwrap_or(f64::NAN),
    }))
}

/// Makes the runs.
pub fn noticed(arguments: &Arguments, host: &dyn Host) -> Result<Vec<Noticed>, Error> {
    run_all(&plan(arguments)?, host, measure)
}

const HEADER: [&str; 11] = [
    "signal",
    "vAQM",
    "call, MOS",
    "mouth to ear ms",
    "not heard %",
    "video Mbit/s",
    "stood still %",
    "first picture s",
    "page p50 s",
    "p95",
    "image s",
];

/// The table of it, means over the runs; none of no runs.
pub fn table(all: &[Noticed]) -> Option<Rows> {
    let mut rows = Vec::new();
    let mut most = 0;
    for signal in SIGNALS {
        for form in FORMS {
            let mine: Vec<&Noticed> = all.iter().filter(|n| n.signal == signal && n.form == form).collect();
            most = most.max(mine.len());
            if mine.is_empty() {
                continue;
            }
            let cell = |digits: usize, of: fn(&Noticed) -> f64| {
                let value = mean(mine.iter().map(|n| of(n)).filter(|value| value.is_finite()));
                if value.is_finite() { format!("{value:.digits$}") } else { "–".into() }
            };
            rows.push(vec![
                signal.name().to_string(),
                form.name().to_string(),
                cell(2, |n| n.call_mos),
                cell(0, |n| n.mouth_to_ear_ms),
                cell(1, |n| n.unheard_percent),
                cell(1, |n| n.video_mbps),
                cell(1, |n| n.still_percent),
                cell(1, |n| n.first_picture_s),
                cell(1, |n| n.page_median_s),
                cell(1, |n| n.page_p95_s),
                cell(1, |n| n.image_s),
            ]);
        }
    }
    let runs = if most == 1 { "one run of each".into() } else { format!("{most} runs of each") };
    let title = format!("What the user of the first phone notices beside its download; {runs}");
    (!rows.is_empty()).then(|| Rows { title, header: HEADER.map(String::from).to_vec(), rows })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::choice::Arm;
    use crate::journal::tests::Alone;

    #[test]
    fn the_first_phone_has_a_call_video_pages_and_its_image() {
        let of = |quick| Arguments {
            arm: Arm::Sim,
            quick,
            seeds: None,
            jobs: 1,
            resume: false,
            out: "out".into(),
        };
        let plan = plan(&of(false)).unwrap();
        assert_eq!(plan.len(), 2 * 4 * 5);
        let flows = &plan[0].scenario.flows;
        assert!(flows[IMAGE as usize - 1].transfer.is_some() && flows.len() == 7, "{flows:?}");
        assert!(flows[4].voice.is_some() && flows[5].video.is_some() && flows[6].page.is_some());
        assert!(flows[4..].iter().all(|flow| flow.to == flows[0].to));
        assert_eq!(super::plan(&of(true)).unwrap().len(), 4);
    }

    #[test]
    fn a_shaper_makes_a_call_good_that_nobody_could_follow_without() {
        let quick =
            Arguments { arm: Arm::Sim, quick: true, seeds: None, jobs: 1, resume: false, out: "out".into() };
        let runs = plan(&quick).unwrap();
        let seen = |form: Form| {
            let run = runs.iter().find(|run| run.case.1 == form).unwrap();
            measure(run, &Alone).unwrap().unwrap()
        };
        let [off, shaper] = [Form::Off, Form::Shaper].map(seen);
        println!("{off:?} {shaper:?}");
        assert!(off.call_mos < 2.0 && shaper.call_mos > off.call_mos + 1.0, "{off:?} {shaper:?}");
        assert!(off.video_mbps > 0.1 && shaper.video_mbps > 0.1, "{off:?} {shaper:?}");
    }

    #[test]
    fn what_did_not_happen_is_no_number() {
        let one = Noticed {
            signal: Signal::Strong,
            form: Form::Off,
            call_mos: 4.0,
            mouth_to_ear_ms: 100.0,
            unheard_percent: 1.0,
            video_mbps: 5.0,
            still_percent: 0.0,
            first_picture_s: 2.0,
            page_median_s: f64::NAN,
            page_p95_s: f64::NAN,
            image_s: 30.0,
        };
        let rows = table(&[one, Noticed { call_mos: 3.0, ..one }]).unwrap();
        assert!(rows.title.ends_with("2 runs of each"), "{}", rows.title);
        assert_eq!(rows.rows[0][2..9], ["3.50", "100", "1.0", "5.0", "0.0", "2.0", "–"].map(String::from));
        assert!(table(&[]).is_none());
    }
}
