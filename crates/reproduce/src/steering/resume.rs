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
/// all were made with what made the results.
pub const ORIGINS: &str = "measured.json";

/// The runs of a folder of results.
pub struct Kept {
    folder: PathBuf,
    origins: BTreeMap<String, Made>,
    /// Of runs that are not named.
    others: Option<Made>,
}

impl Kept {
    /// None of them.
    pub fn none(folder: &Path) -> Kept {
        Kept { folder: folder.into(), origins: BTreeMap::new(), others: None }
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
            kept.others = serde_json::from_value(result["made"].clone()).ok();
        }
        Ok(kept)
    }

    /// A run, and when and with what it was made. None where the folder does not have it whole, or has one of
    /// another scenario.
    ///
    /// # Errors
    ///
    /// If its files are damaged.
    pub fn take(&self, name: &str, scenario: &Scenario) -> Result<Option<(Recording, Made)>, Error> {
        let folder = self.folder.join(name);
        let Some(made) = self.origins.get(name).or(self.others.as_ref()) else { return Ok(None) };
        let is_whole = !folder.join("INCOMPLETE").exists();
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
        let file = folder.join("flows.csv");
        let flow_samples = csv::read_flow_samples(&needed(&file)?).map_err(|e| damaged(&file, &e))?;
        let file = folder.join("events.csv");
        let events = csv::read_steering_events(&needed(&file)?).map_err(|e| damaged(&file, &e))?;
        Ok(Some((Recording { summary, link_samples, flow_samples, events }, made.clone())))
    }

    /// Notes in the folder when and with what a run there was made, so that it is known however the program
    /// ends.
    ///
    /// # Errors
    ///
    /// If the folder cannot be written to.
    pub fn note(&mut self, name: &str, made: Made) -> Result<(), Error> {
        self.origins.insert(name.into(), made);
        let text = serde_json::to_string_pretty(&self.origins).expect("origins are plain data");
        Ok(FileSet::append(&self.folder, ORIGINS, text)?)
    }

    /// How many runs were made when and with what, for programs.
    pub fn measured(&self) -> Vec<(&Made, usize)> {
        let mut counts: Vec<(&Made, usize)> = Vec::new();
        for made in self.origins.values() {
            match counts.iter_mut().find(|(other, _)| *other == made) {
                Some((_, runs)) => *runs += 1,
                None => counts.push((made, 1)),
            }
        }
        counts
    }
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
        assert!(Kept::of(&folder).unwrap().take("run", same).unwrap().is_none(), "there is no folder");
        leave(&folder.join("run"), same, false);
        assert!(Kept::of(&folder).unwrap().take("run", same).unwrap().is_none(), "nothing says what made it");
        // Results of before say it of all.
        let made = |commit: &str| Made { commit: commit.into(), ..Made::default() };
        let result = serde_json::json!({ "made": made("abc1234") });
        fs::write(folder.join("result.json"), result.to_string()).unwrap();
        let (recording, of) = Kept::of(&folder).unwrap().take("run", same).unwrap().expect("it is whole");
        assert_eq!((of, recording.summary.links[0].utilization), (made("abc1234"), 0.94));
        assert_eq!(recording.link_samples[0][0].setpoint_ms, 2.5);
        assert!(Kept::of(&folder).unwrap().take("run", other).unwrap().is_none(), "another scenario");

        let mut kept = Kept::of(&folder).unwrap();
        kept.note("run", made("def5678")).unwrap();
        kept.note("second", made("def5678")).unwrap();
        kept.note("third", made("abc1234")).unwrap();
        let kept = Kept::of(&folder).unwrap();
        assert_eq!(kept.take("run", same).unwrap().expect("it is whole").1, made("def5678"));
        assert_eq!(kept.measured(), [(&made("def5678"), 2), (&made("abc1234"), 1)]);
        leave(&folder.join("run"), same, true);
        assert!(kept.take("run", same).unwrap().is_none(), "it was interrupted");
        leave(&folder.join("run"), same, false);
        fs::remove_file(folder.join("run/events.csv")).unwrap();
        let Err(Error::Input(told)) = kept.take("run", same) else { panic!("a table is missing") };
        assert!(told.contains("events.csv: it is missing; remove the folder"), "{told}");
        fs::write(folder.join(ORIGINS), "{").unwrap();
        assert!(Kept::of(&folder).is_err());
        fs::remove_dir_all(&folder).unwrap();
    }
}
