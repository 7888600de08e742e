//! Runs with real TCP that are in the folder of results already: judged again, and not made again.

use crate::host::{Error, Made};
use serde_json::Value;
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use weir_config::Scenario;
use weir_measure::result::{LinkSample, Recording, Summary};
use weir_report::{FileSet, csv};

/// When and with which program each run of a folder was made, by the name of its folder. Where it is missing,
/// those of the results were made with what made these.
pub const ORIGINS: &str = "measured.json";

/// The runs of a folder of results.
pub struct Kept {
    folder: PathBuf,
    origins: BTreeMap<String, Made>,
}

impl Kept {
    /// None of them.
    pub fn none(folder: &Path) -> Kept {
        Kept { folder: folder.into(), origins: BTreeMap::new() }
    }

    /// What the folder says of them; none where it is not there or says nothing.
    ///
    /// # Errors
    ///
    /// If what it says cannot be read.
    pub fn of(folder: &Path) -> Result<Kept, Error> {
        let mut kept = Kept::none(folder);
        if let Some(text) = read(&folder.join(ORIGINS))? {
            kept.origins = parse(&folder.join(ORIGINS), &text)?;
        } else if let Some(text) = read(&folder.join("result.json"))? {
            let result: Value = parse(&folder.join("result.json"), &text)?;
            let made: Option<Made> = serde_json::from_value(result["made"].clone()).ok();
            let names = result["runs"].as_array().into_iter().flatten().filter_map(|run| {
                let text = |key: &str| run[key].as_str();
                let number = |key: &str| run[key].as_u64();
                Some(name(text("figure")?, text("series")?, number("flows")?, number("run")?))
            });
            kept.origins =
                made.iter().flat_map(|made| names.clone().map(|name| (name, made.clone()))).collect();
        }
        kept.origins.retain(|name, _| folder.join(name).is_dir());
        Ok(kept)
    }

    /// A run, with the samples of its flows if they are wanted. None where the folder does not have it whole,
    /// or has one of another scenario.
    ///
    /// # Errors
    ///
    /// If its files are damaged.
    pub fn take(
        &self,
        name: &str,
        scenario: &Scenario,
        with_flows: bool,
    ) -> Result<Option<Recording>, Error> {
        let folder = self.folder.join(name);
        let is_whole = self.origins.contains_key(name) && !folder.join("INCOMPLETE").exists();
        let is_same = read(&folder.join("scenario.toml"))?.is_some_and(|text| text == scenario.to_toml());
        let file = folder.join("summary.json");
        let Some(text) = read(&file)?.filter(|_| is_whole && is_same) else { return Ok(None) };
        let summary: Summary = parse(&file, &text)?;
        if summary.interrupted {
            return Ok(None);
        }
        let samples = |link: &str| -> Result<Vec<LinkSample>, Error> {
            let file = folder.join(format!("samples_{link}.csv"));
            csv::read_link_samples(&needed(&file)?).map_err(|e| damaged(&file, &e))
        };
        let link_samples = summary.links.iter().map(|link| samples(&link.name)).collect::<Result<_, _>>()?;
        let mut flow_samples = Vec::new();
        if with_flows {
            let file = folder.join("flows.csv");
            flow_samples = csv::read_flow_samples(&needed(&file)?).map_err(|e| damaged(&file, &e))?;
        }
        let file = folder.join("events.csv");
        let events = csv::read_steering_events(&needed(&file)?).map_err(|e| damaged(&file, &e))?;
        Ok(Some(Recording { summary, link_samples, flow_samples, events }))
    }

    /// Leaves out a run, which is made again.
    pub fn forget(&mut self, name: &str) {
        self.origins.remove(name);
    }

    /// Notes in the folder when and with what a run there was made, and each that is there already, so that
    /// it is known however the program ends.
    ///
    /// # Errors
    ///
    /// If the folder cannot be written to.
    pub fn note(&mut self, run: Option<(&str, Made)>) -> Result<(), Error> {
        self.origins.extend(run.map(|(name, made)| (name.into(), made)));
        if self.origins.is_empty() {
            return Ok(());
        }
        let text = serde_json::to_string_pretty(&self.origins).expect("origins are plain data");
        Ok(FileSet::append(&self.folder, ORIGINS, text)?)
    }

    /// The folders of all runs.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.origins.keys().map(String::as_str)
    }

    /// How many of these runs were made when and with what.
    pub fn measured(&self, names: &[String]) -> Vec<(&Made, usize)> {
        let mut counts: Vec<(&Made, usize)> = Vec::new();
        for made in names.iter().filter_map(|name| self.origins.get(name)) {
            match counts.iter_mut().find(|(other, _)| *other == made) {
                Some((_, runs)) => *runs += 1,
                None => counts.push((made, 1)),
            }
        }
        counts
    }
}

/// Name of the folder of a run.
pub fn name(figure: &str, series: &str, flows: u64, number: u64) -> String {
    format!("{figure}-{}-{flows}-{number}", series.replace([' ', ','], "_"))
}

/// The text of a file; none where it is not there.
fn read(file: &Path) -> Result<Option<String>, Error> {
    match fs::read_to_string(file) {
        Ok(text) => Ok(Some(text)),
        Err(e) if [std::io::ErrorKind::NotFound, std::io::ErrorKind::NotADirectory].contains(&e.kind()) => {
            Ok(None)
        }
        Err(e) => Err(damaged(file, &e)),
    }
}

fn needed(file: &Path) -> Result<String, Error> {
    read(file)?.ok_or_else(|| damaged(file, &"it is missing"))
}

fn parse<T: serde::de::DeserializeOwned>(file: &Path, text: &str) -> Result<T, Error> {
    serde_json::from_str(text).map_err(|e| damaged(file, &e))
}

fn damaged(file: &Path, what: &dyn std::fmt::Display) -> Error {
    let remedy = "remove the folder that it is in, or leave --resume out";
    Error::Input(format!("{}: {what}; {remedy}", file.display()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::steering::cases::{Part, part_at};
    use weir_measure::result::LinkSummary;

    /// A run as `weir lab` leaves it.
    fn leave(folder: &Path, scenario: &Scenario, interrupted: bool) {
        fs::create_dir_all(folder).unwrap();
        let link = LinkSummary { name: "a_to_b".into(), utilization: 0.94, ..LinkSummary::default() };
        let summary = Summary { links: vec![link], interrupted, ..Summary::default() };
        let samples = [LinkSample { t_s: 0.5, setpoint_ms: 2.5, ..LinkSample::default() }];
        for (name, text) in [
            ("scenario.toml", scenario.to_toml()),
            ("summary.json", serde_json::to_string(&summary).unwrap()),
            ("samples_a_to_b.csv", csv::link_samples(&samples)),
            ("flows.csv", csv::flow_samples(&[])),
            ("events.csv", csv::steering_events(&[])),
        ] {
            fs::write(folder.join(name), text).unwrap();
        }
    }

    #[test]
    fn a_whole_run_of_the_same_scenario_is_taken_with_its_origin() {
        let folder = std::env::temp_dir().join(format!("weir-resume-{}", std::process::id()));
        let _ = fs::remove_dir_all(&folder);
        let scenarios = part_at(Part::EightA, "1Gbit/s", false).unwrap();
        let (same, other) = (&scenarios[0], &scenarios[1]);
        let taken =
            |name: &str, scenario: &Scenario| Kept::of(&folder).unwrap().take(name, scenario, true).unwrap();
        let run = "8a-GSP-AS-2-0";
        assert!(taken(run, same).is_none(), "there is no folder");
        leave(&folder.join(run), same, false);
        assert!(taken(run, same).is_none(), "nothing says what made it");
        // Results of before say it of their runs, and of no others.
        let made = |commit: &str| Made { commit: commit.into(), ..Made::default() };
        let runs = [0, 1]
            .map(|run| serde_json::json!({ "figure": "8a", "series": "GSP-AS", "flows": 2, "run": run }));
        let result = serde_json::json!({ "made": made("abc1234"), "runs": runs });
        fs::write(folder.join("result.json"), result.to_string()).unwrap();
        let recording = taken(run, same).expect("it is whole");
        assert_eq!(recording.summary.links[0].utilization, 0.94);
        assert_eq!(recording.link_samples[0][0].setpoint_ms, 2.5);
        assert!(taken(run, other).is_none(), "another scenario");
        leave(&folder.join("8a-GSP-AS-2-7"), same, false);
        assert!(taken("8a-GSP-AS-2-7", same).is_none(), "no run of these results");
        let kept = Kept::of(&folder).unwrap();
        assert_eq!(kept.names().collect::<Vec<_>>(), [run], "the other one has no folder");

        let mut kept = Kept::of(&folder).unwrap();
        kept.note(Some(("8a-GSP-AS-2-7", made("def5678")))).unwrap();
        let kept = Kept::of(&folder).unwrap();
        assert!(kept.take("8a-GSP-AS-2-7", same, false).unwrap().is_some());
        let names = kept.names().map(String::from).collect::<Vec<_>>();
        assert_eq!(kept.measured(&names), [(&made("abc1234"), 1), (&made("def5678"), 1)]);
        assert_eq!(kept.measured(&names[1..]), [(&made("def5678"), 1)]);
        leave(&folder.join(run), same, true);
        assert!(taken(run, same).is_none(), "it was interrupted");
        leave(&folder.join(run), same, false);
        fs::remove_file(folder.join(run).join("events.csv")).unwrap();
        let Err(Error::Input(told)) = kept.take(run, same, true) else { panic!("a table is missing") };
        assert!(told.contains("events.csv: it is missing; remove the folder"), "{told}");
        fs::write(folder.join(ORIGINS), "{").unwrap();
        assert!(Kept::of(&folder).is_err());
        fs::remove_dir_all(&folder).unwrap();
    }
}
