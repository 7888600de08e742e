//! A DCTCP variant of one's own in the simulator, beside DCTCP: it answers marks by a third of their share
//! instead of a half. `cargo run -p weir-examples --example own_congestion_control`.

use std::ops::ControlFlow;
use weir_config::Scenario;
use weir_params::NoParams;
use weir_sim::{Outcome, run, run_prepared};
use weir_tcp::EcnMode;
use weir_tcp::congestion::dctcp::Dctcp;
use weir_tcp::congestion::{AckSample, Congestion, CongestionControl, Env, Own, ReductionCause, Window};

/// DCTCP whose window falls by a third of the share of marked segments.
#[derive(Clone, Debug)]
struct Gentle(Dctcp);

impl CongestionControl for Gentle {
    const NAME: &'static str = "gentle";
    const SUMMARY: &'static str = "DCTCP that answers marks by a third of their share.";
    const SOURCE: &'static str = "this example";
    type Params = NoParams;
    const ECN: EcnMode = EcnMode::Dctcp;

    fn new(params: &NoParams, env: &Env) -> Gentle {
        Gentle(Dctcp::new(params, env))
    }

    fn on_sample(&mut self, window: &mut Window, sample: &AckSample) {
        self.0.on_sample(window, sample);
    }

    fn grow(&mut self, window: &mut Window, sample: &AckSample) {
        self.0.grow(window, sample);
    }

    fn ssthresh(&mut self, window: &Window, cause: ReductionCause) -> u32 {
        let to = self.0.ssthresh(window, cause);
        if cause == ReductionCause::Mark { window.cwnd - (window.cwnd - to) * 2 / 3 } else { to }
    }
}

const SCENARIO: &str = r#"
    title = "Four flows"
    [link]
    rate = "1Gbit/s"
    buffer = "10ms"
    [path]
    rtt = "1ms"
    [aqm]
    name = "hull"
    [[flows]]
    count = 4
    congestion = "dctcp"
    ecn = true
    [run]
    duration = "2s"
    warmup = "500ms"
"#;

fn print(name: &str, outcome: &Outcome) {
    let link = &outcome.recording.summary.links[0];
    println!(
        "{name}: {:.1} % used, mean delay {:.3} ms, {} marks",
        100.0 * link.utilization,
        link.delay_ms.mean,
        link.marks
    );
    assert!(link.marks > 0 && link.utilization > 0.5);
}

/// Runs the example.
pub fn main() {
    let scenario = Scenario::parse("example.toml", SCENARIO).expect("the scenario is valid");
    let go_on = &mut |_: weir_sim::Progress<'_>| ControlFlow::Continue(());
    print("DCTCP", &run(&scenario, 1, go_on).expect("it runs"));
    let prepare = |network: &mut weir_sim::Simulation<()>| {
        network.kinds_mut()[0].congestion = Some(Congestion::Own(Own::of::<Gentle>()));
    };
    print("gentle", &run_prepared(&scenario, 1, prepare, go_on).expect("it runs"));
}
