//! What is run: the cell of the test, with a signal, a protocol of the phone that is watched, and a form of
//! vAQM.

use super::Arguments;
use crate::host::Error;
use crate::runs::{NestedCase, Planned, times};
use crate::traces;
use serde::Serialize;
use weir_aqm::Value;
use weir_config::{AqmConfig, Document, Protocol, QueueConfig, Scenario, Upstream};
use weir_units::Duration;

/// How well the phones hear the base station.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Signal {
    /// Near it.
    Strong,
    /// At the edge of the cell.
    Weak,
}

/// Both, in the order of the article.
pub const SIGNALS: [Signal; 2] = [Signal::Strong, Signal::Weak];

impl Signal {
    /// A word for it.
    pub fn name(self) -> &'static str {
        ["strong", "weak"][self as usize]
    }

    /// Name of the scenario file, and its content.
    fn file(self) -> (&'static str, &'static str) {
        match self {
            Signal::Strong => scenario_file!("vaqm_cell_strong.toml"),
            Signal::Weak => scenario_file!("vaqm_cell_weak.toml"),
        }
    }
}

/// How the watched phone loads.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Transport {
    /// TCP.
    Tcp,
    /// QUIC, which shows its spin bit.
    Quic,
}

/// Both, in the order of the article.
pub const PROTOCOLS: [Transport; 2] = [Transport::Tcp, Transport::Quic];

impl Transport {
    /// As it is written.
    pub fn name(self) -> &'static str {
        ["TCP", "QUIC"][self as usize]
    }

    fn protocol(self) -> Protocol {
        [Protocol::Tcp, Protocol::Quic][self as usize]
    }
}

/// The form of vAQM.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Form {
    /// None.
    Off,
    /// Without bitrate adjustment: signals from round-trip times.
    Signals,
    /// With bitrate adjustment: FQ-CoDel at a rate that follows the bottleneck.
    Shaper,
    /// The same by the article's own rule for the rate.
    Largest,
}

/// All of them.
pub const FORMS: [Form; 4] = [Form::Off, Form::Signals, Form::Shaper, Form::Largest];
/// Those that do something.
pub const ON: [Form; 3] = [Form::Signals, Form::Shaper, Form::Largest];

impl Form {
    /// A few words for it.
    pub fn name(self) -> &'static str {
        ["vAQM off", "vAQM", "vAQM with shaper", "vAQM with the article's shaper"][self as usize]
    }

    fn upstream(self) -> Upstream {
        [Upstream::Off, Upstream::Inform, Upstream::Follow, Upstream::FollowLargest][self as usize]
    }
}

/// One case: its runs differ in nothing but their random numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct Case {
    /// How well the phones hear.
    pub signal: Signal,
    /// How the watched phone loads.
    pub protocol: Transport,
    /// The form of vAQM, for every phone.
    pub form: Form,
}

/// Flows of the scenario file that are the watched phone's: its page, and its image.
pub const PAGE: u32 = 0;
/// See [`PAGE`].
pub const IMAGE: u32 = 1;

impl Case {
    /// A few words for what the phone uses.
    pub fn series(&self) -> String {
        format!("{}, {}", self.protocol.name(), self.form.name())
    }

    /// The cell as it is run, or a short form of it.
    pub fn scenario(&self, quick: bool) -> Result<Scenario, Error> {
        self.scenario_with(quick, "")
    }

    /// The same with more tables in the file.
    pub fn scenario_with(&self, quick: bool, more: &str) -> Result<Scenario, Error> {
        let (name, text) = self.signal.file();
        let document = Document::parse(name, &format!("{text}{more}")).map_err(Error::input)?;
        let mut scenario = traces::bring(document)?.scenario().map_err(Error::input)?;
        scenario.run.seeds = 1;
        if quick {
            scenario.run.duration = Duration::from_secs(30);
        }
        for link in &mut scenario.links {
            if link.upstream != Upstream::Off {
                link.upstream = self.form.upstream();
                if link.upstream.follows() {
                    link.queue = QueueConfig::new("flow").expect("the list has FlowQueue");
                    link.aqm = Some(inner());
                }
            }
        }
        for flows in &mut scenario.flows[..=IMAGE as usize] {
            flows.protocol = self.protocol.protocol();
        }
        Ok(scenario)
    }
}

/// CoDel of a flow's queue at the shaper, which tells it the interval. Each phone has a flow or two there,
/// and one that takes away three tenths of its window must find as much in the queue, or the cell idles.
fn inner() -> AqmConfig {
    let mut codel = AqmConfig::new("codel").expect("the list has CoDel");
    codel.set("target", Value::Duration(Duration::from_millis(50))).expect("a target in its range");
    codel
}

/// Every run that the arguments ask for, checked before the first one starts.
pub fn plan(arguments: &Arguments) -> Result<Vec<Planned<NestedCase<Case>>>, Error> {
    let seeds = times(arguments.seeds, arguments.quick, 10);
    let mut plan = Vec::new();
    for case in all() {
        let scenario = case.scenario(arguments.quick)?;
        plan.extend(Planned::repeated(&NestedCase { case }, &scenario, seeds));
    }
    Ok(plan)
}

/// All cases, in the order of the article.
pub fn all() -> Vec<Case> {
    let mut cases = Vec::new();
    for signal in SIGNALS {
        for protocol in PROTOCOLS {
            cases.extend(FORMS.map(|form| Case { signal, protocol, form }));
        }
    }
    cases
}

#[cfg(test)]
mod tests {
    use super::*;
    use weir_units::Rate;

    #[test]
    fn a_case_reaches_its_links_and_flows() {
        let case = Case { signal: Signal::Weak, protocol: Transport::Quic, form: Form::Shaper };
        let scenario = case.scenario(false).unwrap();
        let sense = scenario.links.iter().find(|l| l.name == "sense3").unwrap();
        assert_eq!((sense.upstream, sense.queue.discipline.as_str()), (Upstream::Follow, "flow"));
        let radio = scenario.links.iter().find(|l| l.name == "radio2").unwrap();
        assert!((Rate::from_mbps(30)..Rate::from_mbps(34)).contains(&radio.rate()));
        let protocols: Vec<Protocol> = scenario.flows.iter().map(|f| f.protocol).collect();
        assert_eq!(protocols[..2], [Protocol::Quic; 2]);
        assert_eq!(protocols[2..], [Protocol::Tcp; 3]);
        let largest = Case { form: Form::Largest, ..case }.scenario(true).unwrap();
        let sense = largest.links.iter().find(|l| l.name == "sense3").unwrap();
        assert_eq!((sense.upstream, sense.queue.discipline.as_str()), (Upstream::FollowLargest, "flow"));
        let off = Case { form: Form::Off, ..case }.scenario(true).unwrap();
        assert!(off.links.iter().all(|l| l.upstream == Upstream::Off));
        assert_eq!(off.run.duration, Duration::from_secs(30));
    }

    #[test]
    fn every_signal_protocol_and_form_is_there() {
        assert_eq!(all().len(), 16);
    }
}
