use super::*;
use crate::statistics::mean;
use serde_json::Value;
use std::sync::atomic::{AtomicUsize, Ordering};
use weir_report::table::Paint;

/// Remembers what is said, and panics where something is to be run.
#[derive(Default)]
pub struct Quiet {
    pub said: Mutex<Vec<String>>,
    pub is_interrupted: bool,
}

impl Host for Quiet {
    fn say(&self, line: &dyn std::fmt::Display) {
        lock(&self.said).push(line.to_string());
    }
    fn paint(&self) -> Paint {
        Paint::Plain
    }
    fn made(&self) -> Made {
        Made { commit: "abc1234".into(), date: "2026-11-27".into(), ..Made::default() }
    }
    fn is_interrupted(&self) -> bool {
        self.is_interrupted
    }
    fn progress(&self, _: usize, _: f64) -> Box<dyn Progress + '_> {
        unreachable!("nothing is simulated")
    }
    fn prepare(&self, _: &Path) -> Result<(), Error> {
        Ok(())
    }
    fn files(&self, folder: &Path) -> Result<FileSet, Error> {
        Ok(FileSet::new(folder))
    }
    #[cfg(feature = "live")]
    fn lab(&self) -> &dyn crate::host::Lab {
        unreachable!("nothing runs")
    }
}

/// Progress that nobody watches.
pub struct Alone;

impl Progress for Alone {
    fn advance(&self, _: f64) {}
    fn run_ended(&self) {}
    fn is_interrupted(&self) -> bool {
        false
    }
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct Values {
    mean: f64,
    #[serde(skip_serializing_if = "Option::is_none")]
    host: Option<f64>,
    #[serde(skip)]
    all: Vec<f64>,
}

impl Measurement for Values {
    type Detail = Vec<f64>;
    fn detail(&mut self) -> &mut Vec<f64> {
        &mut self.all
    }
    #[cfg(feature = "live")]
    fn stalled_share(&self) -> Option<f64> {
        self.host
    }
}

#[derive(Clone, Debug, PartialEq, Serialize)]
struct Case {
    flows: u32,
}

/// Two runs of each of two cases at a rate.
fn plan(rate: &str) -> Vec<Planned<Case>> {
    plan_of(&format!("rate = \"{rate}\""))
}

/// The same of a link that this key makes.
fn plan_of(link: &str) -> Vec<Planned<Case>> {
    let text = format!(
        "title = \"t\"\n[link]\n{link}\n[path]\nrtt = \"10ms\"\n[aqm]\nname = \"gsp\"\n[run]\nduration = \"1s\"\n[[flows]]\ncount = 1\n"
    );
    let document = traces::bring(Document::parse("s.toml", &text).unwrap()).unwrap();
    let scenario = document.scenario().unwrap();
    [2, 9].iter().flat_map(|flows| Planned::repeated(&Case { flows: *flows }, &scenario, 2)).collect()
}

/// Values that JSON has no word for, and that differ in the last digit.
fn values(planned: &Planned<Case>) -> Values {
    let all = vec![0.1 + 0.2, f64::from(planned.case.flows) / 3.0, planned.seed as f64];
    let mean = if planned.seed == 0 { f64::NAN } else { mean(all.iter().copied()) };
    Values { mean, host: (planned.seed == 1).then_some(0.7), all }
}

fn run_of(planned: &Planned<Case>) -> Run<Case, Values> {
    Run {
        case: planned.case.clone(),
        seed: planned.seed,
        values: values(planned),
        trace_hash: Some("00".into()),
        warnings: None,
    }
}

pub struct Folder(pub PathBuf);

impl Folder {
    pub fn new(name: &str) -> Folder {
        let folder = std::env::temp_dir().join(format!("weir-journal-{name}-{}", std::process::id()));
        let _ = std::fs::remove_dir_all(&folder);
        std::fs::create_dir_all(&folder).unwrap();
        Folder(folder)
    }

    /// Makes what is left of a plan, as far as it is allowed to. Returns how many runs were made.
    fn make(&self, plan: &[Planned<Case>], resume: bool, at_most: usize) -> (Done<Case, Values>, usize) {
        let (host, count) = (Quiet::default(), AtomicUsize::new(0));
        let journal = Journal::begin(&self.0, resume, &host).unwrap();
        let make = |left: &[Planned<Case>], note: &Note<'_, Case, Values>| {
            let one = |planned: &Planned<Case>| {
                count.fetch_add(1, Ordering::Relaxed);
                note(planned, run_of(planned))
            };
            left.iter().take(at_most).map(one).collect()
        };
        (journal.complete(plan, &host, make).unwrap(), count.into_inner())
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// Runs to the bit: NaN equals itself.
fn told(runs: &[Run<Case, Values>]) -> Vec<String> {
    let bits =
        |v: &Values| v.all.iter().chain([&v.mean]).map(|v| format!("{:x}", v.to_bits())).collect::<Vec<_>>();
    runs.iter()
        .map(|r| {
            format!("{:?} {} {:?} {:?} {:?}", r.case, r.seed, bits(&r.values), r.values.host, r.trace_hash)
        })
        .collect()
}

#[test]
fn a_scenario_of_before_is_that_of_today_where_it_says_the_same() {
    for (link, other) in [
        ("rate = \"1Gbit/s\"", "rate = \"2Gbit/s\""),
        ("trace = \"traces/cell_weak.trace\"", "trace = \"traces/cell_strong.trace\""),
    ] {
        a_scenario_with_this_link_is_that_of_today(link, other);
    }
}

fn a_scenario_with_this_link_is_that_of_today(link: &str, other: &str) {
    let name = Name::of(&plan_of(link)[0]);
    let entry = || Entry { made: Quiet::default().made(), body: 0..0 };
    let read = |scenario: String| {
        let entries = by_today(BTreeMap::from([(Name { scenario, ..name.clone() }, entry())]));
        entries.into_keys().next().unwrap()
    };
    // What a key is said to mean, and a key that has its default, were not written before.
    let kept = |line: &&str| !line.starts_with('#') && !line.starts_with("accounting");
    let older = name.scenario.lines().filter(kept).collect::<Vec<_>>().join("\n");
    assert!(older.len() < name.scenario.len() / 2 && name.scenario.contains("accounting = \"line\""));
    assert_eq!(read(older.clone()), name);
    assert!(older.contains(link));
    assert_ne!(read(older.replace(link, other)), name);
    assert_eq!(read("no longer a scenario".into()).scenario, "no longer a scenario");
}

/// A policy that aims at the whole link has no virtual queue: whatever is said of one, it is the same run.
#[test]
fn a_parameter_that_is_not_in_use_makes_no_other_run() {
    let planned = |policy: &str| {
        let mut planned = plan_of(&format!("rate = \"20Mbit/s\"\n[policy]\n{policy}")).swap_remove(0);
        // Long enough that the virtual queue comes into use.
        planned.scenario.run.duration = weir_units::Duration::from_secs(60);
        planned
    };
    let hash = |planned: &Planned<Case>| {
        let run = crate::runs::simulate(planned, (), &Alone, |_, ()| ()).unwrap().unwrap();
        run.trace_hash
    };
    let same = |one: &str, other: &str| {
        let (one, other) = (planned(one), planned(other));
        assert_eq!(Name::of(&one) == Name::of(&other), hash(&one) == hash(&other));
        Name::of(&one) == Name::of(&other)
    };
    let of_virtual_queue = "virtual_gain = 0.1\nvirtual_by_time = false\nvirtual_memory = \"1s\"\n\
        virtual_signals = 0\nvirtual_step = 0.5\nvirtual_target = \"1ms\"\nvirtual_guard = false\n";
    assert!(same("", of_virtual_queue));
    let below = "utilization_low = \"89%\"\nutilization_target = \"90%\"\n";
    assert!(!same(below, &format!("{below}{of_virtual_queue}")));
    assert!(!same("", "target_min_up = \"5ms\""));
    let all = PolicyConfig::default().settings.into_iter().map(|(name, _)| name);
    assert!(all.filter(|name| name.starts_with("virtual_")).all(|name| of_virtual_queue.contains(name)));
}

#[cfg(feature = "live")]
#[test]
fn a_run_from_which_the_machine_was_taken_away_is_made_again() {
    let (folder, plan, host) = (Folder::new("stalled"), plan("1Gbit/s"), Quiet::default());
    let [count, tries, written] = [0; 3].map(AtomicUsize::new);
    let disturbed = |share: f64, planned: &Planned<Case>| {
        // The second of all is disturbed once, the last one always.
        let is_second = count.fetch_add(1, Ordering::Relaxed) == 1;
        let is_last = (planned.case.flows, planned.seed) == (9, 1);
        // Of the last one's attempts the second is the least disturbed.
        let number = tries.fetch_add(u32::from(is_last) as usize, Ordering::Relaxed);
        let host = Some(match (is_second, is_last) {
            (true, _) => 0.5,
            (_, true) => [0.7, 0.5, 0.6][number % 3],
            _ => share,
        });
        let run = Run::of(planned, Values { host, ..values(planned) });
        Ok(Attempt::new(run, String::new()).with(|| {
            written.fetch_add(1, Ordering::Relaxed);
            Ok(())
        }))
    };
    let made = |share: f64, most: &(dyn Fn(&Planned<Case>) -> f64 + Sync)| {
        let title = |planned: &Planned<Case>| format!("{:?}", planned.case);
        [&count, &tries, &written].into_iter().for_each(|count| count.store(0, Ordering::Relaxed));
        let journal = Journal::begin(&folder.0, false, &host).unwrap();
        let done =
            journal.live(&plan, 1, &host, title, most, |planned, _| disturbed(share, planned)).unwrap();
        assert_eq!(written.load(Ordering::Relaxed), 4, "once for each that counts");
        (done, count.load(Ordering::Relaxed))
    };
    // Where less may be taken away, what others take for undisturbed is made again, too.
    assert_eq!(made(STALLED_MAX, &|_| 0.003).1, 4 * 3);
    assert_eq!(made(0.003, &|_| 0.003).1, 4 + 1 + 2);
    // Of some runs alone: those of the first case are made three times each.
    assert_eq!(
        made(STALLED_MAX, &|planned| if planned.case.flows == 2 { 0.003 } else { STALLED_MAX }).1,
        2 * 3 + 1 + 3
    );
    host.said.lock().unwrap().clear();
    let (done, attempts) = made(STALLED_MAX, &|_| STALLED_MAX);
    assert_eq!((done.runs.len(), attempts), (4, 4 + 1 + 2));
    assert_eq!(
        done.runs.iter().map(|run| run.values.host.unwrap() > 0.1).collect::<Vec<_>>(),
        [false, false, false, true]
    );
    let [told] = &done.origins.disturbed[..] else { panic!("{:?}", done.origins.disturbed) };
    assert_eq!(
        told,
        "Case { flows: 9 }, run 1: 50.00 % of its time was taken away, where a run with more than 2 % is made again."
    );
    let said = host.said.into_inner().unwrap().join("\n");
    assert_eq!(said.matches("made again, as 50.00 % of its time was taken away").count(), 2, "{said}");
    assert_eq!(said.matches("made again, as 70.00 % of its time was taken away").count(), 1, "{said}");
}

#[test]
fn what_was_made_is_taken_to_the_bit_and_the_rest_is_made() {
    let (folder, plan, other) = (Folder::new("taken"), plan("1Gbit/s"), plan("2Gbit/s"));
    let (all, made) = Folder::new("whole").make(&plan, false, 9);
    assert_eq!((all.runs.len(), made), (4, 4));
    assert_eq!(folder.make(&plan, true, 3).1, 3, "to go on where nothing is begins anew");
    let (done, made) = folder.make(&plan, true, 9);
    assert_eq!((told(&done.runs), made), (told(&all.runs), 1));
    assert_eq!(done.origins.made.iter().map(|(_, runs)| runs).sum::<usize>(), 4);
    assert_eq!(folder.make(&other, true, 9).1, 4, "another scenario");
    assert_eq!(folder.make(&plan, true, 9).1, 0, "those of both are kept");
    assert_eq!(folder.make(&plan, false, 9).1, 4, "nothing is taken that is not asked for");
    assert_eq!(folder.make(&other, true, 9).1, 4, "and nothing is left of before");
}

#[test]
fn a_run_that_a_kill_cut_off_is_made_again_and_what_is_none_is_refused() {
    let (folder, plan) = (Folder::new("cut"), plan("1Gbit/s"));
    let (all, _) = folder.make(&plan, false, 9);
    let file = folder.0.join(RUNS);
    let whole = std::fs::read(&file).unwrap();
    let Found { entries, whole: length, damaged } = entries(&whole).unwrap();
    assert_eq!((entries.len(), length, damaged), (4, whole.len(), Vec::new()));
    let last = entries.values().map(|entry| entry.body.end - entry.body.start).max().unwrap();
    // Wherever it was cut.
    for missing in (1..last + 200).step_by(37) {
        std::fs::write(&file, &whole[..whole.len() - missing]).unwrap();
        let (done, made) = folder.make(&plan, true, 9);
        assert_eq!((told(&done.runs), made), (told(&all.runs), 1), "{missing} bytes are missing");
        assert_eq!(std::fs::read(&file).unwrap().len(), whole.len());
    }
    for none in [&b"figure,series\n"[..], &[0xc1; 40]] {
        std::fs::write(&file, none).unwrap();
        let Err(Error::Input(told)) = Journal::begin(&folder.0, true, &Quiet::default()).map(drop) else {
            panic!("{none:?} is read")
        };
        assert!(told.contains("runs.msgpack: cannot be read as runs of this program"), "{told}");
        assert!(told.ends_with("remove it, or leave --resume out"), "{told}");
        assert_eq!(std::fs::read(&file).unwrap(), none, "it is left as it was");
    }
}

/// Of this plan and others: whoever cannot make a run, or ends the program before there is one, loses none.
#[test]
fn what_was_there_goes_with_the_first_run_that_was_made() {
    let (folder, plan, other) = (Folder::new("before"), plan("1Gbit/s"), plan("2Gbit/s"));
    folder.make(&plan, false, 9);
    FileSet::append(&folder.0, "result.json", "before").unwrap();
    let there = || {
        (std::fs::read(folder.0.join(RUNS)).unwrap(), std::fs::read_to_string(folder.0.join("result.json")))
    };
    let (runs, _) = there();
    for resume in [false, true] {
        let host = Quiet::default();
        let journal = Journal::begin(&folder.0, resume, &host).unwrap();
        let none = |_: &[Planned<Case>], _: &Note<'_, Case, Values>| Ok(Vec::new());
        let ended = journal.complete::<Case, Values, _>(&other, &host, none);
        assert!(matches!(ended, Err(Error::Interrupted(_))), "resume {resume}");
        let (now, result) = there();
        assert!(now == runs && result.unwrap() == "before", "resume {resume}");
    }
    let (done, made) = folder.make(&other, true, 1);
    assert_eq!((done.runs.len(), made), (1, 1));
    let (now, result) = there();
    assert!(
        now.starts_with(&runs) && now.len() > runs.len() && result.is_err(),
        "one more, and no old result"
    );
    folder.make(&other, false, 1);
    let one = now.len() - runs.len();
    assert_eq!(there().0.len(), one, "runs of before go where it begins anew");
}

#[test]
fn two_programs_at_once_are_refused() {
    let (folder, plan) = (Folder::new("locked"), plan("1Gbit/s"));
    folder.make(&plan, false, 9);
    let first = Journal::begin(&folder.0, true, &Quiet::default()).unwrap();
    for resume in [false, true] {
        let Err(Error::Input(told)) = Journal::begin(&folder.0, resume, &Quiet::default()).map(drop) else {
            panic!("both have it")
        };
        let remedy =
            "another program makes runs for this folder; wait for it, or name another folder with --out";
        assert!(told.ends_with(remedy), "{told}");
    }
    drop(first);
    assert_eq!(folder.make(&plan, true, 9).1, 0, "its runs are still there");
}

/// Until it becomes another program, a process that is being started has what this one has open.
#[cfg(unix)]
#[test]
fn what_another_thread_starts_keeps_nobody_out() {
    let folder = Folder::new("forking");
    folder.make(&plan("1Gbit/s"), false, 9);
    let begin = || Journal::begin(&folder.0, true, &Quiet::default());
    let first = begin().unwrap();
    let open = lock(&first.writer).file.try_clone().unwrap();
    let mut other = std::process::Command::new("sleep").arg("60").stdin(open).spawn().unwrap();
    assert!(begin().is_err(), "the first one has the lock");
    drop(first);
    let second = begin().map(drop);
    other.kill().unwrap();
    other.wait().unwrap();
    assert!(second.is_ok(), "{:?}", second.err());
}

/// Of two that begin a folder at once both may have locked a file of their own.
#[cfg(unix)]
#[test]
fn a_file_that_was_replaced_meanwhile_is_told() {
    let (folder, plan) = (Folder::new("replaced"), plan("1Gbit/s"));
    let (host, file) = (Quiet::default(), folder.0.join(RUNS));
    let journal = Journal::begin(&folder.0, false, &host).unwrap();
    std::fs::remove_file(&file).unwrap();
    std::fs::write(&file, "another's").unwrap();
    let make = |left: &[Planned<Case>], note: &Note<'_, Case, Values>| {
        left.iter().map(|planned| note(planned, run_of(planned))).collect()
    };
    let Err(Error::Failed(told)) = journal.complete(&plan, &host, make).map(drop) else {
        panic!("it is written")
    };
    assert!(
        told.contains("removed or replaced") && told.ends_with("name another folder with --out"),
        "{told}"
    );
    assert_eq!(std::fs::read_to_string(&file).unwrap(), "another's");
}

/// Wherever a bit is another one, as of what was measured, the one run that has it does not count.
#[test]
fn a_damaged_run_is_made_again_and_those_behind_it_count() {
    let (folder, plan) = (Folder::new("behind"), plan("1Gbit/s"));
    let (all, _) = folder.make(&plan, false, 9);
    let file = folder.0.join(RUNS);
    let whole = std::fs::read(&file).unwrap();
    let ends: Vec<usize> =
        entries(&whole).unwrap().entries.into_values().map(|entry| entry.body.end).collect();
    let (first, last) = (*ends.iter().min().unwrap(), *ends.iter().max().unwrap());
    assert_eq!(last, whole.len());
    for byte in (0..whole.len()).step_by(11) {
        for bit in [0, 5, 7] {
            let mut damaged = whole.clone();
            damaged[byte] ^= 1 << bit;
            assert_eq!(entries(&damaged).unwrap().entries.len(), 3, "byte {byte}, bit {bit}");
        }
    }
    // A text that is longer than all the rest, and the first run without its beginning.
    let long = [&whole[..first], &[0xdb, 0, 0xff, 0xff, 0xff], &whole[first..]].concat();
    for (damaged, lost) in [(long, 0), (whole[7..].to_vec(), 1)] {
        std::fs::write(&file, &damaged).unwrap();
        let host = Quiet::default();
        drop(Journal::begin(&folder.0, true, &host).unwrap());
        assert_eq!(std::fs::read(&file).unwrap(), damaged, "nothing was made yet");
        let said = host.said.into_inner().unwrap().join("\n");
        assert!(said.contains("are damaged: the runs in them do not count"), "{said}");
        let (done, made) = folder.make(&plan, true, 9);
        assert_eq!((told(&done.runs), made), (told(&all.runs), lost));
    }
}

/// Runs of before have no checksum.
#[test]
fn a_run_without_a_checksum_counts() {
    let (folder, plan) = (Folder::new("unsummed"), plan("1Gbit/s"));
    let (all, _) = folder.make(&plan, false, 9);
    let file = folder.0.join(RUNS);
    let whole = std::fs::read(&file).unwrap();
    let mut rest = &whole[..];
    let mut before = Vec::new();
    while !rest.is_empty() {
        let (mut head, body) = first(rest).unwrap().expect("a whole run");
        assert!(head.crc.take().is_some());
        before.extend(rmp_serde::to_vec_named(&head).unwrap());
        before.extend(&rest[body.clone()]);
        rest = &rest[body.end..];
    }
    assert!(before.len() < whole.len());
    std::fs::write(&file, before).unwrap();
    let (done, made) = folder.make(&plan, true, 9);
    assert_eq!((told(&done.runs), made), (told(&all.runs), 0));
}

#[cfg(unix)]
#[test]
fn what_is_no_regular_file_is_refused_and_not_waited_for() {
    let folder = Folder::new("pipe");
    let path = folder.0.join(RUNS);
    let made = std::process::Command::new("mkfifo").arg(&path).status().unwrap();
    assert!(made.success());
    for resume in [false, true] {
        let Err(Error::Input(told)) = Journal::begin(&folder.0, resume, &Quiet::default()).map(drop) else {
            panic!("a pipe is taken")
        };
        assert!(told.contains("runs.msgpack is no regular file"), "{told}");
    }
}

#[test]
fn what_runs_warn_of_is_told_once_for_each_kind() {
    let planned = plan("1Gbit/s").swap_remove(0);
    let run = |warnings: &[&str]| Run {
        warnings: Some(warnings.iter().map(ToString::to_string).collect()),
        ..run_of(&planned)
    };
    let late = ["flow 3 started 0.5 s late", "flow 12 started 1.2 s late"];
    let told = warned(&[run(&late), run(&[]), run(&["lost 1 packet", late[1]])]);
    assert_eq!(
        told,
        [
            "Warning of 2 of 3 runs, 3 in all, the first of which: flow 3 started 0.5 s late",
            "Warning of 1 of 3 runs, 1 in all, the first of which: lost 1 packet"
        ]
    );
}

#[test]
fn points_without_a_run_are_known() {
    let (folder, plan) = (Folder::new("lacking"), plan("1Gbit/s"));
    let lacks = |made: (Done<Case, Values>, usize)| made.0.origins.lacks_cases;
    assert!(lacks(folder.make(&plan, false, 1)), "one run of several cases");
    assert!(!lacks(folder.make(&plan, true, 9)));
}

#[test]
fn a_file_of_somebody_else_stays() {
    let folder = Folder::new("foreign");
    std::fs::write(folder.0.join(RUNS), "mine").unwrap();
    for resume in [false, true] {
        assert!(Journal::begin(&folder.0, resume, &Quiet::default()).is_err());
        assert_eq!(std::fs::read_to_string(folder.0.join(RUNS)).unwrap(), "mine");
    }
}

#[test]
fn results_show_nothing_of_the_details() {
    let run = Folder::new("shown").make(&plan("1Gbit/s"), false, 9).0.runs.remove(1);
    let shown: Value = serde_json::to_value(&run).unwrap();
    assert_eq!(shown["host"], 0.7);
    assert!(shown.get("all").is_none(), "{shown}");
}
