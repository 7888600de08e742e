//! The cell behind a 5G core: vAQM is `weir upf`'s, in a queue of each session.

use super::Arguments;
use super::cases::{Case, Form};
use super::lab::{config as cell_config, repeat};
use crate::host::{Error, Host, Report, waits};
use weir_lab::SideBySide;
use weir_lab::cell::mobile::{self, MobileConfig, MobileResult};
use weir_upf::rules::PerDirection;

/// Aggregate of each session in kbit/s: more than the radio ever has.
const AMBR_KBPS: PerDirection<u64> = PerDirection { up: 100_000, down: 1_000_000 };

/// How packets wait in the user-plane function. With bitrate adjustment nothing is said but whose rule gives
/// the rate: it learns what it needs.
fn queues(form: Form) -> &'static str {
    match form {
        Form::Off => "flow = { aqm = { name = \"tail_drop\" } }",
        Form::Signals => "flow = { aqm = { name = \"vaqm\" } }",
        Form::Shaper => "",
        Form::Largest => "follow_law = \"largest\"",
    }
}

/// A run of a case. Before the user-plane function packets only take their time.
fn config(case: Case, quick: bool) -> Result<MobileConfig, Error> {
    let cell = cell_config(Case { form: Form::Off, ..case }, quick)?;
    Ok(MobileConfig { cell, waits: queues(case.form).into(), ambr: AMBR_KBPS })
}

/// Repeats the test.
pub fn main(arguments: &Arguments, host: &dyn Host) -> Result<Report, Error> {
    let measure = |case: Case, turns: &SideBySide, go_on: &mut dyn FnMut() -> bool| {
        let turn = || turns.exclusive(waits(host));
        let result = mobile::run(&config(case, arguments.quick)?, turn, go_on)?;
        let told = sessions(&result);
        Ok((result.cell, Some(told)))
    };
    repeat(arguments, NOTE, host, measure)
}

/// What the sessions did: usage as it was reported over PFCP, and what their queues did to packets.
fn sessions(result: &MobileResult) -> String {
    let reported: Vec<String> =
        result.sessions.iter().map(|s| format!("{:.1}", s.reported.down as f64 / 1e6)).collect();
    let queues = || result.sessions.iter().flat_map(|session| &session.flows).filter(|flow| !flow.is_uplink);
    let aqm = queues().next().map_or("none", |flow| flow.aqm.as_str());
    let [dropped, marked] =
        [queues().map(|flow| flow.dropped).sum::<u64>(), queues().map(|flow| flow.marked).sum()];
    format!(
        "usage reports: {} MB to the phones; {aqm}: {dropped} packets discarded, {marked} marked",
        reported.join(", ")
    )
}

/// What stands under the claims, but for the length of the runs.
const NOTE: &str = "The article's picture of a 5G core in network namespaces: session management establishes a session for each of four \
         phones over PFCP, the user-plane function (the code of `weir upf`) tunnels their packets over GTP-U to a base \
         station, which takes them out and lets them wait, 1 MB for each phone, drop-tail, before a radio link whose rate \
         follows a trace: 62 Mbit/s on average with a strong signal and 32 with a weak one. Three phones download by the \
         kernel's TCP without end; the fourth loads a page of 1 MB and an image of 16 MB again and again, by TCP or by QUIC \
         (quinn). Senders are CUBIC. vAQM is the user-plane function's, in a queue of each session: it signals, or without \
         any setting adjusts the rate to that of the bottleneck, under CoDel. Round trips are the smoothed ones of the \
         fourth phone's senders, the kernel's or quinn's.";

#[cfg(test)]
mod tests {
    use super::super::cases::all;
    use super::*;
    use weir_config::FollowedBy;

    #[test]
    fn every_case_is_a_valid_configuration() {
        for case in all() {
            let config = config(case, true).unwrap_or_else(|e| panic!("{e:?}"));
            let upf = config.upf().unwrap_or_else(|e| panic!("{e}"));
            assert_eq!(upf.flow.follows(), matches!(case.form, Form::Shaper | Form::Largest));
            assert_eq!(upf.follow_law == FollowedBy::Largest, case.form == Form::Largest);
            assert_eq!(config.cell.core.a_to_b.upstream.as_str(), "off");
        }
    }

    #[test]
    fn what_sessions_did_is_told() {
        let mut result = MobileResult::default();
        result.sessions.push(weir_lab::cell::mobile::SessionResult {
            reported: PerDirection { up: 1, down: 2_500_000 },
            flows: vec![weir_upf::rules::FlowUsage { aqm: "vaqm".into(), dropped: 7, ..Default::default() }],
        });
        assert_eq!(
            sessions(&result),
            "usage reports: 2.5 MB to the phones; vaqm: 7 packets discarded, 0 marked"
        );
    }
}
