//! `weir explain`: one algorithm, or the policy, from its declaration.

mod derived;

use crate::output::{Done, Failure, Output};
use crate::verbs::list::Congestion;
use derived::Derived;
use serde::Serialize;
use std::process::ExitCode;
use weir_aqm::{Algorithm, ParamInfo, Params, Visitor};
use weir_config::{each_flow_of, nearest};
use weir_queue::EACH_FLOW;

/// Explain an algorithm: what it does, its parameters with units and ranges, its source, whether it can be
/// steered. It also takes the queue disciplines and the congestion controls of the simulator. `weir explain
/// policy` explains the policy of steering, and `weir explain steering` how the set point moves and what each
/// rule in a trace means. With `--rate` it says what an algorithm makes of a link, such as the gains and the
/// sampling frequency of PI for a number of flows, a round-trip time and a rate.
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct Arguments {
    /// A name as in `weir list`, or `policy`, or `steering`.
    name: String,
    /// Say with which inner variables the algorithm starts on a link of this rate.
    #[arg(long, value_name = "RATE")]
    rate: Option<String>,
    /// Set a parameter for that, such as `flows=20`. Can be repeated.
    #[arg(long, value_name = "KEY=VALUE", requires = "rate")]
    set: Vec<String>,
}

const EXAMPLES: &str = "Examples:
  weir explain gsp
  weir explain policy     the keys of the table [policy]
  weir explain steering   how the set point moves, and why
  weir explain pi --rate 10Mbit/s --set flows=20 --set rtt=170ms
                          the gains a and b and the sampling frequency that PI designs";

const POLICY: &str = "policy";
const STEERING: &str = "steering";

#[derive(Serialize)]
struct Parameter {
    name: &'static str,
    meaning: String,
    default: String,
    min: String,
    max: String,
}

#[derive(Serialize)]
struct Explanation {
    name: &'static str,
    summary: &'static str,
    source: &'static str,
    setpoint: Option<&'static str>,
    parameters: Vec<Parameter>,
}

/// An explanation, and what follows for a link where that was asked.
#[derive(Serialize)]
struct Explained {
    #[serde(flatten)]
    explanation: Explanation,
    #[serde(skip_serializing_if = "Option::is_none")]
    derived: Option<Derived>,
}

struct Explain;

impl Visitor for Explain {
    type Output = Explanation;
    fn visit<A: Algorithm>(self) -> Explanation {
        Explanation {
            name: A::NAME,
            summary: A::SUMMARY,
            source: A::SOURCE,
            setpoint: A::SETPOINT,
            parameters: parameters(A::Params::INFO),
        }
    }
}

impl weir_queue::Visitor for Explain {
    type Output = Explanation;
    fn over_any<D: weir_queue::OverAny>(self) -> Explanation {
        discipline::<D>(None)
    }
    fn of_its_own<D: weir_queue::OfItsOwn>(self) -> Explanation {
        discipline::<D>(Some(D::SETPOINT))
    }
}

fn discipline<D: weir_queue::Entry>(setpoint: Option<&'static str>) -> Explanation {
    let parameters = parameters(D::Params::INFO);
    Explanation { name: D::NAME, summary: D::SUMMARY, source: D::SOURCE, setpoint, parameters }
}

fn parameters(info: &'static [ParamInfo]) -> Vec<Parameter> {
    let parameter = |i: &ParamInfo| Parameter {
        name: i.name,
        meaning: i.doc.trim().to_string(),
        default: i.default.to_string(),
        min: i.min.to_string(),
        max: i.max.to_string(),
    };
    info.iter().map(parameter).collect()
}

fn policy() -> Explanation {
    Explanation {
        name: POLICY,
        summary: "How much delay may be traded for how much throughput; turns AQM Steering on.",
        source: "AQM Steering (Bless et al., 2018); Menth and Hauser, ICPE 2017, for the smoothing",
        setpoint: None,
        parameters: parameters(weir_steer::Policy::INFO),
    }
}

/// The rules of the steering law, as their names stand in events and traces, with what makes them act.
const RULES: [(&str, &str); 7] = [
    (
        "lower",
        "the delay did not dip as deep as the set point is high: the standing part is taken off (Alg. 1)",
    ),
    (
        "raise",
        "the queue ran empty after a signal and both rates lie below utilization_low: the set point is \
               doubled, and the signal that was due is withheld (Alg. 2)",
    ),
    ("to virtual", "both rates lie above utilization_target: the set point falls by a factor (Alg. 3)"),
    ("virtual on", "the set point reached virtual_target: the virtual queue takes over (Alg. 3)"),
    (
        "rate down",
        "the average rate lies above utilization_target: the virtual queue is served slower (Alg. 3)",
    ),
    (
        "rate up",
        "the virtual queue ran empty and the rates lie below utilization_low: it is served faster (Alg. 4)",
    ),
    ("virtual off", "the virtual queue is as fast as the link again: the real queue takes over (Alg. 4)"),
];

const STATES: [(&str, &str); 4] = [
    ("1", "persistently below the set point: no bottleneck, nothing to move"),
    ("2", "persistently above: the senders have not responded yet, moving would not help"),
    ("3", "fluctuating around: the AQM is in control, the set point can be assessed and moved"),
    (
        "4",
        "above twice the set point for more than a quarter of 10 s, though signals are given: the flows do not respond (BBR); a buffer as short as `target_max` bounds them",
    ),
];

fn steering(output: &Output) -> Done {
    let json = serde_json::json!({
        "name": STEERING,
        "rules": RULES.map(|(rule, when)| serde_json::json!({ "rule": rule, "when": when })),
        "states": STATES.map(|(state, meaning)| serde_json::json!({ "state": state, "meaning": meaning })),
    });
    output.result(&json, || {
        let mut text = String::from(
            "AQM Steering: an outer loop that moves the set point of an AQM so that the policy holds.\n\n\
             It looks at each congestion signal at what happened since the last one. Rules, by their names in\n\
             events and traces:\n\n",
        );
        RULES.iter().for_each(|(rule, when)| text.push_str(&entry(rule, when)));
        text.push_str("\nStates of the queue (Table I of the paper):\n\n");
        STATES.iter().for_each(|(state, meaning)| text.push_str(&entry(state, meaning)));
        text.push_str("\nThe parameters are those of `weir explain policy`.");
        text
    });
    Ok(ExitCode::SUCCESS)
}

/// A congestion control with its parameters, which are keys of the flows.
#[derive(Serialize)]
struct Control {
    #[serde(flatten)]
    control: Congestion,
    parameters: Vec<Parameter>,
}

/// A congestion control of the transport models.
fn congestion(name: &str, output: &Output) -> Done {
    let all = weir_tcp::congestion::describe();
    let Some(found) = all.iter().find(|c| c.0 == name).map(Congestion::from) else {
        if let Some(aqm) = each_flow_of(name) {
            return Err(Failure::Input(format!(
                "`{name}` is {aqm} in each FIFO of a discipline, `aqm.name = \"{aqm}\"` with `queue.discipline = \"{EACH_FLOW}\"`: \
                 see `weir explain {aqm}` and `weir explain {EACH_FLOW}`"
            )));
        }
        let known =
            [weir_aqm::names(), weir_queue::names(), weir_tcp::congestion::names(), &[POLICY, STEERING]];
        let known = known.concat();
        let meant = nearest(name, known.iter().copied());
        let meant = meant.map_or(String::new(), |meant| format!("did you mean `{meant}`? "));
        let known = known.join(", ");
        return Err(Failure::Input(format!("there is nothing named `{name}`: {meant}name one of {known}")));
    };
    let found = Control { control: found, parameters: parameters(weir_tcp::congestion::declared(name)) };
    output.result(&found, || {
        let Control { control, parameters } = &found;
        let use_it = "a congestion control of the simulator: `congestion` of [[flows]]";
        let summary = wrap(control.summary, 90, "  ");
        let parameters = listed(parameters);
        format!("{}: {use_it}\n\n  {summary}\n\n  source     {}\n{parameters}", control.name, control.source)
    });
    Ok(ExitCode::SUCCESS)
}

fn entry(name: &str, text: &str) -> String {
    format!("  {name:12} {}\n", wrap(text, 80, "               "))
}

/// Breaks a text into lines of at most `width`, continued with `indent`.
fn wrap(text: &str, width: usize, indent: &str) -> String {
    let mut lines = vec![String::new()];
    for word in text.split_whitespace() {
        let line = lines.last_mut().expect("never empty");
        if !line.is_empty() && line.len() + 1 + word.len() > width {
            lines.push(word.into());
        } else {
            if !line.is_empty() {
                line.push(' ');
            }
            line.push_str(word);
        }
    }
    lines.join(&format!("\n{indent}"))
}

fn show(Explained { explanation: e, derived }: &Explained) -> String {
    let mut text = format!("{}\n\n  {}\n\n  source     {}\n", e.name, wrap(e.summary, 90, "  "), e.source);
    if let Some(setpoint) = e.setpoint {
        text.push_str(&format!("  set point  {setpoint}: a [policy] can steer it\n"));
    }
    text.push_str(&listed(&e.parameters));
    text.push_str(&derived.as_ref().map_or(String::new(), Derived::show));
    text
}

/// Parameters with their defaults and ranges, if there are any.
fn listed(parameters: &[Parameter]) -> String {
    let mut text = if parameters.is_empty() { String::new() } else { "\nParameters\n".into() };
    for p in parameters {
        text.push_str(&format!(
            "\n  {} = {}   ({} .. {})\n      {}\n",
            p.name,
            p.default,
            p.min,
            p.max,
            wrap(&p.meaning, 90, "      ")
        ));
    }
    text
}

/// Runs the verb.
pub fn main(arguments: Arguments, output: &Output) -> Done {
    let Arguments { name, rate, set } = &arguments;
    let derived = rate.as_ref().map(|rate| Derived::new(name, rate, set)).transpose()?;
    let explanation = match name.as_str() {
        STEERING => return steering(output),
        POLICY => policy(),
        name => match weir_aqm::visit(name, Explain).or_else(|| weir_queue::visit(name, Explain)) {
            Some(explanation) => explanation,
            None => return congestion(name, output),
        },
    };
    let explained = Explained { explanation, derived };
    output.result(&explained, || show(&explained));
    Ok(ExitCode::SUCCESS)
}
