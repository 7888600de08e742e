//! The claims of the article, judged on what was measured: each is held or missed, with its numbers.
//!
//! C1 and C2 are the article's for TCP; the same is asked of QUIC, which it left out. A claim is left out
//! where a case that it compares was not run.

use super::cases::{Case, Form, ON, PROTOCOLS, Signal, Transport};
use super::measured::Measured;
use crate::claim::{claim, within};
use weir_measure::result::Claim;

/// "Roughly three times" begins and ends here.
const RATIO: (f64, f64) = (2.5, 4.0);
/// Most of the throughput that it may cost.
const COST: f64 = 0.05;
/// What "not much different" means, to either side.
const DIFFERENT: f64 = 0.5;
/// What "approximately one second" means, in ms.
const A_SECOND: (f64, f64) = (700.0, 1500.0);

/// All claims that can be judged.
pub fn all(cases: &Measured) -> Vec<Claim> {
    let mut claims = Vec::new();
    for protocol in PROTOCOLS {
        for form in ON {
            claims.extend(strong(cases, protocol, form));
        }
    }
    for protocol in PROTOCOLS {
        claims.extend(ON.into_iter().filter_map(|form| weak(cases, protocol, form)));
    }
    claims.extend(PROTOCOLS.into_iter().filter_map(|protocol| unmanaged(cases, protocol)));
    claims
}

fn get<'a>(cases: &Measured<'a>, signal: Signal, protocol: Transport, form: Form) -> Option<Measured<'a>> {
    cases.get(Case { signal, protocol, form })
}

fn ms(value: f64) -> String {
    format!("{value:.0} ms")
}

/// C1: what it gains, and what it costs.
fn strong(cases: &Measured, protocol: Transport, form: Form) -> Vec<Claim> {
    let of = |form| get(cases, Signal::Strong, protocol, form);
    let (Some(off), Some(on)) = (of(Form::Off), of(form)) else { return Vec::new() };
    let [before, after] = [&off, &on].map(|m| m.quantile(0.5));
    let ratio = before / after;
    let lost = 1.0 - on.goodput_mbps() / off.goodput_mbps();
    let (protocol, form) = (protocol.name(), form.name());
    let times = |ratio| format!("{ratio:.1} times");
    let text = format!("Strong signal, {protocol}: {form} reduces the median round trip about threefold");
    let threefold = within("C1", text, RATIO.0..=RATIO.1, ratio, times);
    vec![
        claim(
            "C1",
            format!(
                "Strong signal, {protocol}: {form} reduces the median round trip at least as the article says"
            ),
            format!("at least {} times", RATIO.0),
            format!("{ratio:.1} times, {} to {}", ms(before), ms(after)),
            ratio >= RATIO.0,
        ),
        Claim { expected: format!("{} to {} times", RATIO.0, RATIO.1), ..threefold },
        claim(
            "C1",
            format!("Strong signal, {protocol}: {form} costs next to no throughput"),
            format!("at most {:.0} %", COST * 100.0),
            format!("{:.1} % of {:.1} Mbit/s", lost * 100.0, off.goodput_mbps()),
            lost <= COST,
        ),
    ]
}

/// C2: a weak signal makes little difference.
fn weak(cases: &Measured, protocol: Transport, form: Form) -> Option<Claim> {
    let median =
        |signal| get(cases, signal, protocol, form).map(|m| m.quantile(0.5)).filter(|rtt| rtt.is_finite());
    let (strong, weak) = (median(Signal::Strong)?, median(Signal::Weak)?);
    let change = weak / strong - 1.0;
    Some(claim(
        "C2",
        format!(
            "{}, {}: the median round trip with a weak signal is about that with a strong one",
            protocol.name(),
            form.name()
        ),
        format!("within {:.0} % of {}", DIFFERENT * 100.0, ms(strong)),
        format!("{}, {:+.0} %", ms(weak), change * 100.0),
        change.abs() <= DIFFERENT,
    ))
}

/// C3: what nobody manages.
fn unmanaged(cases: &Measured, protocol: Transport) -> Option<Claim> {
    let high = get(cases, Signal::Weak, protocol, Form::Off)?.quantile(0.95);
    let name = protocol.name();
    let text =
        format!("Weak signal, {name}: without vAQM the 95th percentile of the round trip is about a second");
    Some(within("C3", text, A_SECOND.0..=A_SECOND.1, high, ms))
}

#[cfg(test)]
mod tests {
    use super::super::cases::FORMS;
    use super::super::measured::{Run, Values};
    use super::*;
    use crate::runs::NestedCase;

    /// A run in which all round trips were the same.
    fn run(signal: Signal, form: Form, rtt_ms: f64, goodput_mbps: f64) -> Run {
        let case = NestedCase { case: Case { signal, protocol: Transport::Tcp, form } };
        let values = Values::new(vec![rtt_ms; 10], [Some(1.0), None], goodput_mbps);
        Run { case, seed: 0, values, trace_hash: None, warnings: None }
    }

    fn held(runs: &[Run]) -> Vec<(String, bool)> {
        all(&Measured::new(runs)).into_iter().map(|c| (c.id, c.held)).collect()
    }

    fn expect(held: &[(String, bool)], wanted: &[(&str, bool)]) {
        let held: Vec<(&str, bool)> = held.iter().map(|(id, held)| (id.as_str(), *held)).collect();
        assert_eq!(held, wanted);
    }

    #[test]
    fn what_the_article_saw_is_held_and_what_is_otherwise_missed() {
        let of = |on: f64, goodput: f64, weak_on: f64, weak_off: f64| {
            held(&[
                run(Signal::Strong, Form::Off, 300.0, 50.0),
                run(Signal::Strong, Form::Signals, on, goodput),
                run(Signal::Weak, Form::Signals, weak_on, 10.0),
                run(Signal::Weak, Form::Off, weak_off, 10.0),
            ])
        };
        expect(
            &of(100.0, 49.0, 110.0, 1000.0),
            &[("C1", true), ("C1", true), ("C1", true), ("C2", true), ("C3", true)],
        );
        expect(
            &of(130.0, 47.0, 200.0, 2000.0),
            &[("C1", false), ("C1", false), ("C1", false), ("C2", false), ("C3", false)],
        );
        // More than the article says is not what it says.
        expect(
            &of(60.0, 49.0, 66.0, 1000.0),
            &[("C1", true), ("C1", false), ("C1", true), ("C2", true), ("C3", true)],
        );
    }

    #[test]
    fn every_claim_has_the_articles_words_and_the_origin_of_its_bound() {
        let of = |signal| FORMS.map(|form| run(signal, form, 100.0, 50.0));
        let runs: Vec<Run> = [Signal::Strong, Signal::Weak].into_iter().flat_map(of).collect();
        crate::said::assert_told(&all(&Measured::new(&runs)), crate::vaqm::said::TABLE);
    }

    #[test]
    fn what_was_not_run_is_not_judged() {
        expect(&held(&[]), &[]);
        expect(&held(&[run(Signal::Strong, Form::Shaper, 90.0, 50.0)]), &[]);
    }
}
