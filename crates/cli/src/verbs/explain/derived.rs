//! What an algorithm makes of a link: the inner variables with which it starts there.

use crate::output::Failure;
use serde::Serialize;
use weir_aqm::{Algorithm, Moment, View, Visitor};
use weir_config::{AqmConfig, Document};
use weir_units::{Bytes, Duration, Rate, Time};

/// Gains, frequencies and all else that follows from parameters and a rate, while nothing waits.
#[derive(Serialize)]
pub struct Derived {
    rate: String,
    set: Vec<String>,
    variables: Vec<Variable>,
}

#[derive(Serialize)]
struct Variable {
    name: &'static str,
    value: f64,
}

impl Derived {
    /// Of the algorithm `name` on a link of this rate, with parameters `KEY=VALUE`.
    pub fn new(name: &str, rate: &str, set: &[String]) -> Result<Derived, Failure> {
        let rate = weir_units::parse_rate(rate).map_err(|e| Failure::Input(format!("--rate {rate}: {e}")))?;
        let config = configured(name, set)?;
        let variables = weir_aqm::visit(name, Start { config: &config, rate }).expect("it was configured");
        Ok(Derived { rate: rate.to_string(), set: set.to_vec(), variables })
    }

    /// As lines below the explanation.
    pub fn show(&self) -> String {
        let with = if self.set.is_empty() { String::new() } else { format!(" with {}", self.set.join(", ")) };
        let mut text = format!("\nOn a link of {}{with}, while nothing waits\n\n", self.rate);
        for Variable { name, value } in &self.variables {
            text.push_str(&format!("  {name:22} {value:.6e}\n"));
        }
        if self.variables.is_empty() {
            text.push_str("  nothing: the algorithm shows no inner variables\n");
        }
        text
    }
}

fn only_algorithms(name: &str) -> Failure {
    let names = weir_aqm::names().join(", ");
    Failure::Input(format!(
        "--rate, --set: `{name}` is no algorithm that starts on a link: name one of {names}"
    ))
}

/// Reads the parameters as a scenario does, with its ranges and errors.
fn configured(name: &str, set: &[String]) -> Result<AqmConfig, Failure> {
    if !weir_aqm::names().contains(&name) {
        return Err(only_algorithms(name));
    }
    let text = format!(
        "title = \"one link\"\n[link]\nrate = \"1Mbit/s\"\n[path]\nrtt = \"1ms\"\n[aqm]\nname = \"{name}\"\n\
         [[flows]]\ncount = 1\n[run]\nduration = \"1s\"\n"
    );
    let mut document = Document::parse("--set", &text).map_err(Failure::input)?;
    for text in set {
        let setting = text.trim_start().strip_prefix("aqm.").unwrap_or(text);
        document.set_from(&format!("aqm.{}", setting.trim_start())).map_err(Failure::input)?;
    }
    Ok(document.scenario().map_err(Failure::input)?.network().links[0].aqm.clone())
}

struct Start<'a> {
    config: &'a AqmConfig,
    rate: Rate,
}

impl Visitor for Start<'_> {
    type Output = Vec<Variable>;

    fn visit<A: Algorithm>(self) -> Vec<Variable> {
        let mut aqm = A::new(&self.config.params::<A::Params>(), Time::ZERO);
        let queue = View { backlog: Bytes::ZERO, packets: 0, delay: Duration::ZERO, rate: self.rate };
        if let Some(due) = aqm.next_wakeup() {
            aqm.on_wakeup(&Moment::new(due, queue, 0));
        }
        let mut variables = Vec::new();
        aqm.gauges(&mut |name, value| variables.push(Variable { name, value }));
        variables
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn gains(rate: &str, set: &[&str]) -> [f64; 3] {
        let set: Vec<String> = set.iter().map(|s| s.to_string()).collect();
        let derived = Derived::new("pi", rate, &set).unwrap();
        ["gain_a", "gain_b", "frequency_hz"]
            .map(|name| derived.variables.iter().find(|v| v.name == name).unwrap().value)
    }

    /// N = 20, R = 170 ms, C = 1250 packets of 1000 bytes per second; worked by hand from section IV of the
    /// paper.
    #[test]
    fn the_rule_of_the_paper_is_followed() {
        let [a, b, frequency] = gains("10Mbit/s", &["mean_packet=1000B", "aqm.flows=20", "rtt=170ms"]);
        assert!((a / 1.7052e-4 - 1.0).abs() < 1e-3 && (b / 1.6882e-4 - 1.0).abs() < 1e-3, "{a} {b}");
        assert!((frequency / 110.7 - 1.0).abs() < 1e-3, "{frequency}");
    }

    #[test]
    fn parameters_are_read_as_in_a_scenario() {
        let refused = |name: &str, rate: &str, set: &str| match Derived::new(name, rate, &[set.to_string()]) {
            Err(Failure::Input(text)) => text,
            _ => panic!("{name} {rate} {set} was taken"),
        };
        assert!(refused("pi", "15Mbit/s", "flows=0").contains("flows"));
        assert!(refused("pi", "15Mbit/s", "flows").contains("has no `=`"));
        assert!(refused("pi", "15", "flows=3").starts_with("--rate 15"));
        assert!(refused("policy", "15Mbit/s", "flows=3").contains("no algorithm"));
    }
}
