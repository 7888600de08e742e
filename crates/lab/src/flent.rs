//! A test of Flent through a lab, in place of a scenario's flows: its client at the receiver, so that what is
//! downloaded passes the managed link, and what answers it at the sender.

use crate::command;
use crate::error::{Error, Result};
use crate::netns::{Testbed, address};
use crate::process::{NsChild, SpawnOptions, spawn_in};
use crate::side::Side;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};
use weir_config::nearest;

/// Its program.
const FLENT: &str = "flent";
/// How long Flent waits before its load begins, and after that ended: the default of its `--delay`.
const DELAY: Duration = Duration::from_secs(5);
/// What it may take beside: to begin, to wait for the last of its programs, to write.
const BESIDE: Duration = Duration::from_secs(30);
/// How long it may take to end when it is asked to.
const PATIENCE: Duration = Duration::from_secs(5);
/// Time for the servers to listen.
const SETTLE: Duration = Duration::from_millis(300);
/// What it says beside the data, in the folder for them.
const SAID: &str = "said";
/// The name of a data file ends so.
const DATA: &str = ".flent.gz";
/// Where programs of its tests come from that a system may lack.
const PACKAGES: [(&str, &str); 4] = [
    ("netperf", "install the package `netperf`, which Debian 12 has in the component non-free"),
    (
        "Iperf",
        "install an iperf 2 that prints its help on standard error, where Flent looks; Debian 12's does not",
    ),
    ("irtt", "install the package `irtt`"),
    ("ping", "install the package `iputils-ping`"),
];

/// A test of Flent.
#[derive(Clone, Debug)]
pub struct FlentTest {
    /// Its name, such as `rrul`.
    pub name: String,
    /// An empty folder, where the data file is to be.
    pub folder: PathBuf,
}

/// Refuses a test that Flent does not have, and all where it is not installed.
pub fn check(test: &str) -> Result<()> {
    let listed = command::run(FLENT, &["--list-tests"])?;
    let names = listed.lines().filter_map(|line| Some(line.strip_prefix("  ")?.split_once(" :")?.0.trim()));
    let names: Vec<&str> = names.collect();
    if names.contains(&test) {
        return Ok(());
    }
    let near = nearest(test, names.iter().copied());
    let near = near.map_or(String::new(), |near| format!("did you mean `{near}`? "));
    let what = format!("Flent has no test `{test}`");
    Err(Error::invalid(what, format!("{near}`flent --list-tests` has all")))
}

/// How long a run takes whose load lasts so long, at most.
pub(crate) fn at_most(load: Duration) -> Duration {
    load + 2 * DELAY + BESIDE
}

/// A test under way. Dropping it ends it.
pub(crate) struct Running {
    test: FlentTest,
    client: Group,
    _servers: Vec<Group>,
}

/// A program with those that it starts, which end with it when it is dropped.
struct Group(NsChild);

impl Drop for Group {
    fn drop(&mut self) {
        if let (Ok(group), Ok(None)) = (i32::try_from(self.0.pid()), self.0.try_wait()) {
            // SAFETY: plain integers. The leader of the group was not reaped yet, so it is still that one.
            unsafe { libc::kill(-group, libc::SIGKILL) };
        }
    }
}

impl Running {
    /// Starts servers, as far as they are installed, and the test, whose load lasts so long.
    pub fn start(
        testbed: &Testbed,
        options: &SpawnOptions,
        test: &FlentTest,
        load: Duration,
    ) -> Result<Running> {
        let at = address(Side::Sender, false, false);
        let servers = [
            vec!["netserver", "-D", "-N", "-4", "-L", at],
            vec!["iperf", "--server", "--bind", at],
            vec!["iperf", "--server", "--udp", "--bind", at],
            vec!["irtt", "server", "-b", at],
        ];
        // Programs of Flent ask for raw sockets.
        let options = SpawnOptions { is_end_host: false, ..options.clone() };
        let start = |words: &Vec<&str>| {
            let mut command = Command::new(command::find(words[0]).ok()?);
            command.args(&words[1..]).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
            Some(spawn_in(testbed.namespace(Side::Sender), command, &options).map(Group))
        };
        let servers = servers.iter().filter_map(start).collect::<Result<Vec<Group>>>()?;
        std::thread::sleep(SETTLE);
        let failed = |error| Error::system("write what Flent says", error);
        let said = File::create(test.folder.join(SAID)).map_err(failed)?;
        let mut command = Command::new(command::find(FLENT)?);
        let length = load.as_secs().to_string();
        command.args([&test.name, "--host", at, "-4", "--length", &length, "--rcfile", "/dev/null"]);
        command.args(["--delay", &DELAY.as_secs().to_string(), "--data-dir"]).arg(&test.folder);
        command.current_dir(&test.folder).stdin(Stdio::null());
        command.stdout(Stdio::null()).stderr(said);
        let client = spawn_in(testbed.namespace(Side::Receiver), command, &options)?;
        Ok(Running { test: test.clone(), client: Group(client), _servers: servers })
    }

    /// Whether it has ended by itself.
    pub fn has_ended(&mut self) -> bool {
        !matches!(self.client.0.try_wait(), Ok(None))
    }

    /// Refuses one that has no data. Ends it if it still runs, which is wrong unless the user ended the run.
    pub fn finish(mut self, is_interrupted: bool) -> Result<()> {
        if !self.has_ended() {
            self.client.0.signal(libc::SIGINT)?;
            self.client.0.wait_until(Instant::now() + PATIENCE)?;
            if !is_interrupted {
                return Err(Error::Timeout {
                    what: format!("the end of Flent's test `{}`", self.test.name),
                    seconds: BESIDE.as_secs_f64(),
                    remedy: "run it again on a machine with less beside it".into(),
                });
            }
        }
        if data_file(&self.test.folder).is_none() && !is_interrupted {
            let said = std::fs::read_to_string(self.test.folder.join(SAID)).unwrap_or_default();
            return Err(failed(&self.test.name, &said));
        }
        Ok(())
    }
}

/// The data file in a test's folder, once it has ended.
pub fn data_file(folder: &Path) -> Option<PathBuf> {
    let files = std::fs::read_dir(folder).ok()?.flatten().map(|entry| entry.path());
    files.into_iter().find(|file| file.to_string_lossy().ends_with(DATA))
}

/// Why a test has no data.
fn failed(test: &str, said: &str) -> Error {
    let lines: Vec<&str> = said.lines().map(str::trim).filter(|line| !line.is_empty()).collect();
    let error = lines.iter().find(|line| line.starts_with("ERROR")).or(lines.last()).copied();
    let error = error.unwrap_or("it said nothing");
    let known = PACKAGES.iter().find(|(program, _)| error.contains("found") && error.contains(program));
    let remedy = known.map_or("run the same test with `flent` alone, which says more", |(_, remedy)| remedy);
    Error::invalid(format!("Flent's test `{test}` has no result: {error}"), remedy)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_test_lacks_is_told_with_its_package() {
        let told = |said: &str| failed("rrul", said).to_string();
        let netperf =
            told("WARNING: x\nERROR: Runner TCP upload BE failed check: No netperf binary found in PATH.\n");
        assert!(netperf.contains("`rrul` has no result") && netperf.contains("non-free"), "{netperf}");
        let iperf = told("ERROR: Runner UDP upload failed check: No suitable Iperf binary found.\n");
        assert!(iperf.contains("an iperf 2 that"), "{iperf}");
        assert!(told("").contains("it said nothing: run the same test"));
    }
}
