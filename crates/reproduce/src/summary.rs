//! One page of results that reproductions left: each with its date, commit, machine and number of runs, and
//! whether the code that it depends on has changed since.

mod code;
mod history;
mod kept;

use crate::choice::{Arm, Choice, by_name};
use crate::host::{Error, Made};
use crate::said::{Said, Unjudged, WITNESS};
use crate::{asqm, avq, steering, vaqm};
use code::{Code, HARMLESS, Harmless, commits};
use history::History;
use kept::{KEPT, Runs};
pub use kept::{Kept, keep};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use weir_measure::result::Claim;
use weir_report::{markdown, read_regular, tally};
use weir_units::Rate;

/// A paper, with what is said of its claims today.
struct Paper {
    name: &'static str,
    arms: &'static [Choice<Arm>],
    /// What a figure or experiment of this name comprises in an arm.
    parts: fn(&str, Arm) -> Vec<String>,
    said: &'static [Said],
    unjudged: &'static [Unjudged],
}

static PAPERS: [Paper; 4] = [
    Paper {
        name: "steering",
        arms: &steering::ARMS,
        parts: |name, arm| {
            let parts = chosen(&steering::FIGURES, name).iter();
            // What is told without a figure is not run with real TCP.
            let run = parts.filter(|part| **part != steering::Part::Text || arm == Arm::Sim);
            run.map(|part| part.name().to_string()).collect()
        },
        said: steering::said::TABLE,
        unjudged: steering::said::UNJUDGED,
    },
    Paper {
        name: "asqm",
        arms: &asqm::ARMS,
        parts: |name, _| {
            let Some(Choice { value, .. }) = by_name(&asqm::FIGURES, name) else { return Vec::new() };
            let figures = value.figures.iter().map(|figure| figure.number.to_string());
            figures.chain(value.sweeps.then(|| "sweep".to_string())).collect()
        },
        said: asqm::said::TABLE,
        unjudged: asqm::said::UNJUDGED,
    },
    Paper {
        name: "vaqm",
        arms: &vaqm::ARMS,
        // It is always all.
        parts: |_, _| Vec::new(),
        said: vaqm::said::TABLE,
        unjudged: vaqm::said::UNJUDGED,
    },
    Paper {
        name: "avq",
        arms: &avq::ARMS,
        parts: |name, _| {
            let experiments = chosen(&avq::EXPERIMENTS, name).iter();
            experiments.map(|experiment| u32::from(*experiment).to_string()).collect()
        },
        said: avq::said::TABLE,
        unjudged: avq::said::UNJUDGED,
    },
];

/// What a choice of this name stands for; nothing where there is none.
fn chosen<T>(choices: &'static [Choice<&'static [T]>], name: &str) -> &'static [T] {
    by_name(choices, name).map_or(&[], |choice| choice.value)
}

impl Paper {
    /// The paper of results.
    fn of(value: &Value) -> Option<&'static Paper> {
        PAPERS.iter().find(|paper| value["paper"] == paper.name)
    }

    /// Says of each claim what is said today: what the paper says, where the bound comes from, and the cause
    /// of a missed one. What an experiment found with the runs stays as it was found.
    fn retell(&self, claims: &mut [Claim]) {
        for claim in claims {
            let row = self.said.iter().find(|row| row.id == claim.id && claim.text.contains(row.about));
            let Some(row) = row else { continue };
            (claim.paper, claim.basis, claim.own) = (row.paper.into(), row.basis.into(), row.own);
            let is_found = row.experiment.is_some_and(|experiment| claim.cause.contains(experiment.file.0));
            if claim.is_missed() && !is_found {
                (claim.cause, claim.shown) = (row.cause.into(), false);
            }
        }
    }
}

/// What a reproduction wrote, as far as the page shows it.
struct Outcome {
    folder: String,
    title: String,
    command: String,
    made: Made,
    value: Value,
    runs: Runs,
    claims: Vec<Claim>,
    /// The same claims, judged on the runs of another simulator.
    elsewhere: Vec<Claim>,
    code: Code,
    /// Where the code has changed: what came of runs that were made again with today's.
    again: Option<Again>,
}

/// Runs that were made a second time with the code of the working tree.
#[derive(Debug, Default, PartialEq)]
struct Again {
    /// How many, of those that the results have too.
    runs: usize,
    /// How many of them gave every number as before.
    same: usize,
}

impl Again {
    /// Compares results with others of the same paper, arm and form. Nothing, if they have no run in common.
    fn of<'a>(value: &Value, others: impl Iterator<Item = &'a Value>) -> Option<Again> {
        let key =
            |value: &Value| (value["paper"].to_string(), arm(value).to_string(), value["quick"] == true);
        let others = others.filter(|other| key(other) == key(value));
        let runs: BTreeMap<String, &Value> = others.flat_map(of_each_case).collect();
        let mut again = Again::default();
        for (case, run) in of_each_case(value) {
            let Some(other) = runs.get(&case) else { continue };
            again.runs += 1;
            again.same += usize::from(**other == *run);
        }
        (again.runs > 0).then_some(again)
    }

    fn told(&self, of: usize) -> String {
        let Again { runs, same } = self;
        match runs - same {
            0 => format!(
                "{runs} of its {of} runs were made again with the code of this tree: each gave the same numbers."
            ),
            other => format!(
                "{runs} of its {of} runs were made again with the code of this tree: **{other} gave other numbers**."
            ),
        }
    }
}

/// The runs of results, each with what tells it from all others.
fn of_each_case(value: &Value) -> impl Iterator<Item = (String, &Value)> {
    let timers = value["timers"].to_string();
    let runs = value["runs"].as_array().into_iter().flatten();
    runs.map(move |run| (format!("{timers} {} {}", case(run), number(run)), run))
}

/// Makes the page of all results below a folder, in the order of their names. Each is told whether the code
/// in the working tree of git around `tree` is that of its commit. Where it is not, `repeated` may have some
/// of the same runs again: those made with the code of that tree are compared, number by number.
///
/// # Errors
///
/// If a folder cannot be read, has no results, or one of them is damaged or does not say when it was made.
pub fn page(root: &Path, repeated: Option<&Path>, tree: &Path) -> Result<String, Error> {
    let tree = &History::of(tree);
    let mut outcomes = read_all(root, tree)?;
    if repeated.is_some()
        && let Some(kept) = outcomes.iter().find(|outcome| outcome.value.get(KEPT).is_some())
    {
        let remedy = "leave out --repeated, or name the folder that --out named when it was made";
        return Err(Error::input(format!(
            "{}: what was kept of it has no runs to compare: {remedy}",
            kept.folder
        )));
    }
    let repeated = repeated.map(|folder| read_all(folder, tree)).transpose()?.unwrap_or_default();
    for outcome in outcomes.iter_mut().filter(|outcome| matches!(outcome.code, Code::Changed(..))) {
        let current = repeated.iter().filter(|other| other.code.is_current());
        outcome.again = Again::of(&outcome.value, current.map(|other| &other.value));
    }
    let mut out = String::from(HEAD);
    totals(&outcomes, &mut out);
    gaps(&outcomes, &mut out);
    not_judged(&outcomes, &mut out);
    ages(&outcomes, tree, &mut out);
    outcomes.iter().for_each(|outcome| section(outcome, &outcomes, &mut out));
    Ok(out)
}

/// The results below a folder, in the order of their names.
fn read_all(root: &Path, tree: &History) -> Result<Vec<Outcome>, Error> {
    let mut found = Vec::new();
    find(root, &mut found)?;
    found.sort();
    let harmless = Harmless::below(root)?;
    let outcomes =
        found.iter().map(|file| read(root, file, tree, &harmless)).collect::<Result<Vec<_>, Error>>()?;
    let outcomes: Vec<Outcome> = outcomes.into_iter().flatten().collect();
    if outcomes.is_empty() {
        return Err(none_below(root));
    }
    Ok(outcomes)
}

fn none_below(root: &Path) -> Error {
    let remedy = "make some with `weir reproduce PAPER`, or name the folder that --out named";
    Error::input(format!("no results of `weir reproduce` below {}: {remedy}", root.display()))
}

/// The file of a reproduction's result, and of that of a single run.
const RESULT: &str = "result.json";

const HEAD: &str = "# Results of reproductions

This page is made by `weir reproduce summary` from what `weir reproduce` wrote; nothing in it is written by hand, and its numbers are measured by the runs of each section: words are those of the program (what a paper says, where a bound comes from, and what the cause of a miss is, up to the colon behind which the experiment's numbers stand). A section whose files were lost says so: it was taken over from an earlier page. Each section says which command made it, when, with which commit, on which machine and with how many \
runs; of one that was \"judged\" then, runs were made before, as it tells below. \"Paper\" is what the paper says, \"bound\" what was judged by, \"basis\" where that bound comes from. What is run, and what was found: [reproduction.md](reproduction.md). Measurements that are no reproduction: \
[measurements.md](measurements.md).

";

/// The files of results below a folder, without what symbolic links lead to, which may be the same again.
/// Folders of single runs have one too.
fn find(folder: &Path, found: &mut Vec<PathBuf>) -> Result<(), Error> {
    let remedy = "Remedy: `weir reproduce PAPER` first, or name the folder that it wrote to";
    let failed = |e: std::io::Error| Error::input(format!("{}: {e}. {remedy}", folder.display()));
    for entry in std::fs::read_dir(folder).map_err(failed)? {
        let entry = entry.map_err(failed)?;
        let (path, kind) = (entry.path(), entry.file_type().map_err(failed)?);
        if kind.is_dir() {
            find(&path, found)?;
        } else if path.file_name().is_some_and(|name| name == RESULT) {
            found.push(path);
        }
    }
    Ok(())
}

/// A file of results cannot be used.
fn damaged(file: &Path, what: &dyn std::fmt::Display) -> Error {
    Error::input(format!("{}: {what}; make it again with `weir reproduce`", file.display()))
}

/// What a file of results says.
struct Written {
    value: Value,
    made: Made,
    runs: Runs,
    claims: Vec<Claim>,
    /// The same claims, judged on the runs of another simulator.
    elsewhere: Vec<Claim>,
}

/// Reads a file of results; nothing where it is that of a single run.
fn written(file: &Path) -> Result<Option<Written>, Error> {
    let text = read_regular(file).map_err(|e| damaged(file, &e))?;
    let value: Value = serde_json::from_slice(&text).map_err(|e| damaged(file, &e))?;
    let is_reproduced = ["paper", "totals", KEPT].iter().any(|key| value.get(key).is_some());
    if value.is_object() && !is_reproduced {
        return Ok(None);
    }
    if !value["paper"].is_string() {
        return Err(damaged(file, &"it does not say of which paper it is (`paper`)"));
    }
    if value["totals"].is_object() && !value["claims"].is_array() {
        return Err(damaged(file, &"it has totals and no claims (`claims`)"));
    }
    let made = value.get("made").cloned().unwrap_or_default();
    let made = serde_json::from_value(made)
        .map_err(|_| damaged(file, &"it does not say when and with what it was made (`made`)"))?;
    let claims = |value: &Value| -> Result<Vec<Claim>, Error> {
        let claims = value.get("claims").cloned().unwrap_or_else(|| Value::Array(Vec::new()));
        serde_json::from_value(claims).map_err(|e| damaged(file, &e))
    };
    let (claims, elsewhere) = (claims(&value)?, claims(&value["witness"])?);
    let runs = Runs::of(&value).map_err(|e| damaged(file, &e))?;
    Ok(Some(Written { value, made, runs, claims, elsewhere }))
}

/// A result; nothing where the file is that of a single run.
fn read(root: &Path, file: &Path, tree: &History, harmless: &[Harmless]) -> Result<Option<Outcome>, Error> {
    let Some(Written { value, made, runs, mut claims, mut elsewhere }) = written(file)? else {
        return Ok(None);
    };
    if let Some(paper) = Paper::of(&value) {
        paper.retell(&mut claims);
        paper.retell(&mut elsewhere);
    }
    let folder = file.parent().and_then(|f| f.strip_prefix(root).ok()).unwrap_or(Path::new(""));
    let title = value["title"].as_str().unwrap_or("Results").to_string();
    let folder = folder.display().to_string();
    let harmless: Vec<Harmless> = harmless.iter().filter(|commit| commit.is_of(&folder)).cloned().collect();
    let code = Code::of(tree, &made.commit, &value, &harmless);
    let command = command(&value, &runs);
    Ok(Some(Outcome { command, folder, title, made, value, runs, claims, elsewhere, code, again: None }))
}

/// The arm that made results.
fn arm(value: &Value) -> &str {
    value["arm"].as_str().unwrap_or("sim")
}

/// The command that makes such results.
fn command(value: &Value, runs: &Runs) -> String {
    // With the rate that real TCP has anyway the folder would be another one.
    let is_usual = |rate: &Rate| arm(value) == "lab" && rate.to_string() == steering::LAB_RATE;
    let mut command = command_at(value, runs.only_rate().filter(|rate| !is_usual(rate)));
    // What is judged, what real TCP runs, the sweep and other algorithms may be repeated as often as wanted.
    let (is_judged, is_of_others) = (value["totals"].is_object(), value["aqm"].is_string());
    let is_sweep = value["figure"] == steering::VIRTUAL_SWEEP;
    let may_be = is_judged || is_of_others || is_sweep || arm(value) != "sim";
    // Where one series has more runs than the others, as often as it was asked for.
    let of_series = value["seeds"].as_u64().and_then(|seeds| usize::try_from(seeds).ok());
    if let Some(runs) = of_series.or(runs.of_each_case).filter(|_| may_be) {
        command += &format!(" --seeds {runs}");
    }
    if value["witness"].is_object() {
        command += " --witness ns2";
    }
    command
}

/// A word of a command, quoted for a shell where it needs that.
fn quoted(word: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "-_.,/%".contains(c);
    match !word.is_empty() && word.chars().all(is_plain) {
        true => word.to_string(),
        false => format!("'{}'", word.replace('\'', r"'\''")),
    }
}

/// The same at a rate, or at all of them.
fn command_at(value: &Value, rate: Option<Rate>) -> String {
    let text = |key: &str| value[key].as_str().map(quoted);
    let mut command = format!("weir reproduce {}", text("paper").unwrap_or("?".into()));
    for key in ["figure", "experiment"] {
        text(key).iter().for_each(|which| command += &format!(" --{key} {which}"));
    }
    let is_usual = value["paper"] == "avq" && value["arm"] == "sim";
    let arm = text("arm").filter(|_| !is_usual);
    arm.iter().for_each(|arm| command += &format!(" --arm {arm}"));
    text("aqm").iter().for_each(|names| command += &format!(" --aqm {names}"));
    text("series").iter().for_each(|name| command += &format!(" --series {name}"));
    rate.iter().for_each(|rate| command += &format!(" --rate {rate}"));
    let timers = text("timers").filter(|timers| timers != "linux");
    timers.iter().for_each(|timers| command += &format!(" --timers {timers}"));
    let machines = value["machines"].as_u64().filter(|machines| *machines > 1);
    machines.iter().for_each(|machines| command += &format!(" --machines {machines}"));
    let jobs = value["jobs"].as_u64().filter(|jobs| *jobs > 1);
    jobs.iter().for_each(|jobs| command += &format!(" --jobs {jobs}"));
    for flag in ["borrow", "quick"].into_iter().filter(|flag| value[*flag] == true) {
        command += &format!(" --{flag}");
    }
    command
}

/// What tells cases apart, in all papers.
const CASE: [&str; 8] = ["case", "experiment", "figure", "series", "policy", "flows", "rate_bps", "title"];

fn case(run: &Value) -> String {
    CASE.map(|key| run[key].to_string()).join(" ")
}

/// Which of the runs of its case it is.
fn number(run: &Value) -> u64 {
    run["seed"].as_u64().or(run["run"].as_u64()).unwrap_or(0)
}

/// What is otherwise than usual in all runs, in words: retransmission timers that are not those of Linux,
/// limiters, machines in a home, other algorithms.
fn conditions(value: &Value) -> Vec<String> {
    let timers = value["timers"].as_str().filter(|timers| *timers != "linux");
    let borrow = (value["borrow"] == true).then(|| "limiters that borrow".to_string());
    let machines = value["machines"].as_u64().filter(|machines| *machines > 1);
    let told = [
        timers.map(|timers| format!("timers of {timers}")),
        borrow,
        machines.map(|machines| format!("{machines} machines in each home")),
        value["aqm"].as_str().map(|names| format!("of {names}")),
    ];
    told.into_iter().flatten().collect()
}

/// Whether it is the full form or the short one, and under which conditions.
fn form(value: &Value) -> String {
    let form = if value["quick"] == true { "short" } else { "full" };
    [vec![form.to_string()], conditions(value)].concat().join(", ")
}

/// What results are of in which a claim of the same identifier and sentence is the same one, judged again.
fn asked(value: &Value) -> String {
    // Sentences of steering and AVQ tell the figure or experiment; one of ASQM is of one of its parts.
    let part_of = part(value).filter(|_| value["paper"] == "asqm").unwrap_or_default();
    let paper = value["paper"].as_str().unwrap_or_default();
    [paper, arm(value), part_of, &form(value)].join(" ")
}

/// The claims of results, without those that others judge which are as old as the code where these are not.
fn claims_of<'a>(outcome: &'a Outcome, all: &[Outcome]) -> Vec<&'a Claim> {
    let mut claims: Vec<&Claim> = outcome.claims.iter().collect();
    if !outcome.code.is_current() {
        let asked_here = asked(&outcome.value);
        let newer = all
            .iter()
            .filter(|other| other.code.is_current() && asked(&other.value) == asked_here)
            .flat_map(|other| other.claims.iter().map(|claim| (&claim.id, &claim.text)))
            .collect::<BTreeSet<_>>();
        claims.retain(|claim| !newer.contains(&(&claim.id, &claim.text)));
    }
    claims
}

/// What was held of each paper in each arm. Short forms, other conditions and comparisons with another
/// simulator count apart. Where some rates were run again, a claim counts once, by what is as old as the
/// code.
fn totals(outcomes: &[Outcome], out: &mut String) {
    let mut sums: BTreeMap<[String; 3], [usize; 5]> = BTreeMap::new();
    let mut counted: BTreeMap<[String; 3], usize> = BTreeMap::new();
    let (current, older): (Vec<_>, Vec<_>) = outcomes.iter().partition(|outcome| outcome.code.is_current());
    for (number, outcome) in current.into_iter().chain(older).enumerate() {
        let paper = outcome.value["paper"].as_str().unwrap_or_default().to_string();
        let (form, asked) = (form(&outcome.value), asked(&outcome.value));
        let place = |claim: &Claim, place: String| match claim.own {
            true => format!("{place}, criteria of our own"),
            false => place,
        };
        let claims = outcome.claims.iter().map(|claim| match claim.id.as_str() {
            WITNESS => (claim, format!(", beside {WITNESS}")),
            _ => (claim, place(claim, String::new())),
        });
        let elsewhere =
            outcome.elsewhere.iter().map(|claim| (claim, place(claim, format!(", in {WITNESS}"))));
        let mut is_new = |(claim, place): &(&Claim, String)| {
            let key = [format!("{asked}{place}"), claim.id.clone(), claim.text.clone()];
            *counted.entry(key).or_insert(number) == number
        };
        for (claim, place) in claims.chain(elsewhere).filter(&mut is_new) {
            let row = [paper.clone(), arm(&outcome.value).to_string(), form.clone() + &place];
            let sum = sums.entry(row).or_default();
            sum[0] += usize::from(claim.held);
            sum[1] += usize::from(claim.is_missed());
            sum[2] += usize::from(claim.is_missed() && claim.shown);
            sum[3] += usize::from(claim.is_missed() && !claim.shown && !claim.cause.is_empty());
            sum[4] += usize::from(claim.undecided);
        }
    }
    out.push_str(
        "## Totals\n\n| paper | arm | form | held | missed | cause shown by an experiment | cause assumed | not judged |\n",
    );
    out.push_str("| --- | --- | --- | ---: | ---: | ---: | ---: | ---: |\n");
    for ([paper, arm, form], counts) in sums {
        row([paper, arm, form].into_iter().chain(counts.map(|count| count.to_string())), out);
    }
    out.push('\n');
}

/// The whole results of a paper's arm: what is judged is of the paper.
fn whole<'a>(outcomes: &'a [Outcome], paper: &Paper, arm_of: Arm) -> Vec<&'a Outcome> {
    let is_of = |outcome: &&Outcome| {
        let value = &outcome.value;
        let is_whole_run = value["quick"] != true && value["interrupted"] != true;
        is_whole_run
            && value["paper"] == paper.name
            && arm(value) == arm_of.name()
            && value["totals"].is_object()
    };
    outcomes.iter().filter(is_of).collect()
}

/// The parts of a paper of which an arm has no whole result.
fn missing(made: &[&Outcome], paper: &Paper, arm_of: Arm) -> Vec<String> {
    let parts = |name: &str| (paper.parts)(name, arm_of);
    let had: BTreeSet<String> =
        made.iter().flat_map(|outcome| parts(part(&outcome.value).unwrap_or(ALL))).collect();
    parts(ALL).into_iter().filter(|part| !had.contains(part)).collect()
}

/// What of the papers has no result on the page: arms, and parts of arms.
fn gaps(outcomes: &[Outcome], out: &mut String) {
    let mut told = Vec::new();
    for paper in &PAPERS {
        for arm_of in paper.arms {
            let made = whole(outcomes, paper, arm_of.value);
            let missing = missing(&made, paper, arm_of.value);
            match &made[..] {
                [] => told.push(format!("{}, {}: none", paper.name, arm_of.name)),
                _ if missing.is_empty() => {}
                _ => told.push(format!("{}, {}: all but {}", paper.name, arm_of.name, missing.join(", "))),
            }
        }
    }
    if !told.is_empty() {
        let _ = writeln!(out, "Full forms that are not all here: {}.\n", told.join("; "));
    }
}

/// Which claims of the papers an arm that is on the page does not judge, and why.
fn not_judged(outcomes: &[Outcome], out: &mut String) {
    let mut told = String::new();
    for paper in &PAPERS {
        for arm_of in paper.arms.iter().filter(|arm| !whole(outcomes, paper, arm.value).is_empty()) {
            for Unjudged { ids, why, .. } in paper.unjudged.iter().filter(|claims| claims.is_in(arm_of.name))
            {
                let _ = writeln!(told, "* {}, {}: {}: {why}.", paper.name, arm_of.name, ids.join(", "));
            }
        }
    }
    if !told.is_empty() {
        let _ = writeln!(out, "Claims of the papers that an arm does not judge:\n\n{told}");
    }
}

/// What all figures or experiments together are called.
const ALL: &str = "all";

/// The figure or experiment that results are limited to; none where they are of all.
fn part(value: &Value) -> Option<&str> {
    let named = value["figure"].as_str().or(value["experiment"].as_str());
    named.filter(|part| *part != ALL)
}

/// How many results are as old as the code, and as of which commit that is told.
fn ages(outcomes: &[Outcome], tree: &History, out: &mut String) {
    let here = ["describe", "--always", "--dirty=, changed", "--exclude=*"].map(String::from);
    let Some(here) = tree.git(here) else {
        out.push_str(
            "Whether code has changed since is unknown: the page was not made in a tree of git.\n\n",
        );
        return;
    };
    let is_alike = |outcome: &&Outcome| outcome.again.as_ref().is_some_and(|again| again.same == again.runs);
    let alike = outcomes.iter().filter(is_alike).count();
    let count = |is_so: fn(&Code) -> bool| outcomes.iter().filter(|outcome| is_so(&outcome.code)).count();
    let _ = writeln!(
        out,
        "Compared with the tree of commit {here}: of {} results the code is the same for {}, changed by commits alone that \
         change nothing in them, as people wrote into `{HARMLESS}`, for {}, other for {}{}, and unknown for {}.\n",
        outcomes.len(),
        count(|code| *code == Code::Unchanged),
        count(|code| matches!(code, Code::Harmless(_))),
        count(|code| matches!(code, Code::Changed(..))),
        match alike {
            0 => String::new(),
            alike => format!(" (of which {alike} had some runs made again, all with the same numbers)"),
        },
        count(|code| matches!(code, Code::Unknown(_))),
    );
}

/// A cell of a table: one line, and no bar.
fn cell(text: &str) -> String {
    markdown(text).replace('|', "\\|")
}

/// A line of text that begins nothing else, such as a heading, a list or a block of code.
fn paragraph(text: &str) -> String {
    let text = markdown(text.trim_start());
    let digits = text.bytes().take_while(u8::is_ascii_digit).count();
    let begins_list = digits > 0 && text[digits..].starts_with(['.', ')']);
    match begins_list {
        true => format!("{}\\{}", &text[..digits], &text[digits..]),
        false if text.starts_with(['#', '>', '-', '+', '*', '`', '~', '=', '|', '[', '_']) => {
            format!("\\{text}")
        }
        false => text,
    }
}

fn row(cells: impl IntoIterator<Item = String>, out: &mut String) {
    let cells: Vec<String> = cells.into_iter().map(|text| cell(&text)).collect();
    let _ = writeln!(out, "| {} |", cells.join(" | "));
}

/// What results are of, so that no two headings are alike: their title, and what it does not say of arm,
/// form, rate and conditions.
fn heading(outcome: &Outcome) -> String {
    let Outcome { title, value, runs, .. } = outcome;
    let arm = match arm(value) {
        "sim" => "simulated",
        "upf" => "real TCP behind the user-plane function",
        _ => "real TCP",
    };
    let arm = (!title.contains(arm)).then(|| arm.to_string());
    let short = (value["quick"] == true && !title.contains("short form")).then(|| "short form".to_string());
    let rate = runs.only_rate().map(|rate| format!("at {rate}"));
    let unsaid = conditions(value).into_iter().filter(|told| !title.contains(told.as_str()));
    let told = [Some(title.clone()), arm, short, rate].into_iter().flatten().chain(unsaid);
    markdown(&told.collect::<Vec<_>>().join(", "))
}

fn section(outcome: &Outcome, all: &[Outcome], out: &mut String) {
    let Outcome { made, value, runs, command, folder, code, again, .. } = outcome;
    let claims = claims_of(outcome, all);
    let _ = writeln!(out, "## {}\n", heading(outcome));
    let (judged, then) = match commits(&made.commit, value).len() {
        1 => ("", "that commit"),
        _ => ("judged ", "the commits that made its runs and judged them"),
    };
    let line = format!(
        "`{}` ({folder}): {judged}{}, commit {}, version {}; {}; {}.",
        command.replace('`', "'"),
        made.date,
        made.commit,
        made.version,
        made.machine,
        runs.repetitions
    );
    let _ = writeln!(out, "{}\n", markdown(&line));
    let _ = writeln!(out, "{}\n", markdown(&code.told(then)));
    if let Some(again) = again {
        let _ = writeln!(out, "{}\n", again.told(of_each_case(value).count()));
    }
    if made.commit.contains("changed") {
        out.push_str("**Changed tree**: the program was made from files that are in no commit.\n\n");
    }
    if value["interrupted"] == true {
        out.push_str("**Interrupted**: not all runs were made.\n\n");
    }
    for note in value["notes"].as_array().into_iter().flatten().filter_map(Value::as_str) {
        let _ = writeln!(out, "{}\n", paragraph(note));
    }
    for table in value["tables"].as_array().into_iter().flatten() {
        rows(table, out);
    }
    if tells_apart(&runs.spreads) {
        rows(&runs.spreads, out);
    }
    if !claims.is_empty() {
        let (beside, others): (Vec<&Claim>, Vec<&Claim>) = claims.iter().partition(|c| c.id == WITNESS);
        let _ = write!(out, "Claims: {}", tally(others, ""));
        if !beside.is_empty() {
            let agreeing = beside.iter().filter(|c| c.held).count();
            let _ = write!(out, "; {agreeing} of {} comparisons with {WITNESS} agree", beside.len());
        }
        match outcome.claims.len() - claims.len() {
            0 => out.push_str(".\n\n"),
            newer => {
                let _ = writeln!(out, "; {newer} more are judged by newer results of this page alone.\n");
            }
        }
        out.push_str("| claim | outcome | paper | bound | measured | what it says | basis |\n");
        out.push_str("| --- | --- | --- | --- | --- | --- | --- |\n");
        for c in &claims {
            let word = weir_report::outcome(c);
            let outcome = if c.is_missed() { format!("**{word}**") } else { word };
            let cells = [&c.id, &outcome, &c.paper, &c.expected, &c.measured, &c.text, &c.basis];
            row(cells.map(String::clone), out);
        }
        out.push('\n');
        let mut told: Vec<String> = Vec::new();
        for (c, why) in claims.iter().filter_map(|c| Some((c, c.why()?))) {
            let line = format!("* {}", paragraph(&format!("{} {why}.", c.id)));
            if !told.contains(&line) {
                told.push(line);
            }
        }
        if !told.is_empty() {
            let _ = writeln!(out, "{}\n", told.join("\n"));
        }
    }
    let elsewhere = judged_elsewhere(outcome, all);
    if !elsewhere.is_empty() {
        let _ = writeln!(
            out,
            "Claims of the paper that only other results of this page judge: {}.\n",
            markdown(&elsewhere.into_iter().collect::<Vec<_>>().join(", "))
        );
    }
}

/// The claims of the same paper that other results judge and these, which are not limited to a part of it,
/// do not.
fn judged_elsewhere<'a>(outcome: &Outcome, all: &'a [Outcome]) -> BTreeSet<&'a str> {
    if outcome.claims.is_empty() || part(&outcome.value).is_some() {
        return BTreeSet::new();
    }
    let ids = |outcome: &'a Outcome| outcome.claims.iter().map(|claim| claim.id.as_str());
    let alike = all.iter().filter(|other| other.value["paper"] == outcome.value["paper"]);
    let is_judged = |id: &&str| outcome.claims.iter().any(|claim| claim.id == *id);
    alike.flat_map(ids).filter(|id| !is_judged(id) && *id != WITNESS).collect()
}

/// Whether each row of a table of spreads says of which case it is, by queue, rate and flows: of a sweep over
/// the parameters of one queue several have the same words.
fn tells_apart(spreads: &Value) -> bool {
    let rows = || spreads["rows"].as_array().into_iter().flatten();
    let cases: BTreeSet<String> =
        rows().map(|row| [&row[0], &row[1], &row[2]].map(Value::to_string).join(" ")).collect();
    !cases.is_empty() && cases.len() == rows().count()
}

fn rows(table: &Value, out: &mut String) {
    let texts = |value: &Value| -> Vec<String> {
        value.as_array().into_iter().flatten().map(|v| v.as_str().unwrap_or_default().to_string()).collect()
    };
    let header = texts(&table["header"]);
    let _ = writeln!(out, "{}\n", paragraph(table["title"].as_str().unwrap_or_default()));
    row(header.clone(), out);
    row(header.iter().map(|_| "---".to_string()), out);
    table["rows"].as_array().into_iter().flatten().for_each(|cells| row(texts(cells), out));
    out.push('\n');
}

#[cfg(test)]
mod tests {
    use super::code::{EXPERIMENTS, LIVE, PER_USER, SCENARIOS, SIMULATED, USER_PLANE};
    use super::*;
    use serde_json::json;

    fn folder(name: &str) -> PathBuf {
        let folder = std::env::temp_dir().join(format!("weir-summary-{}-{name}", std::process::id()));
        let _ = std::fs::remove_dir_all(&folder);
        std::fs::create_dir_all(folder.join("avq")).expect("a folder");
        folder
    }

    #[test]
    fn a_page_tells_of_each_result_what_made_it_and_what_held() {
        let folder = folder("page");
        let result = json!({
            "paper": "avq", "experiment": "2", "timers": "2001", "quick": false, "title": "AVQ, experiment 2",
            "made": { "date": "2026-11-23", "commit": "abc1234, changed", "version": "0.1.0", "machine": "2 x EPYC" },
            "runs": [{ "series": "AVQ", "seed": 0 }, { "series": "AVQ", "seed": 2 }, { "series": "PI", "seed": 0 }],
            "tables": [{ "title": "Loads", "header": ["AQM", "lost"], "rows": [["AVQ", "a|b"]] }],
            "totals": {},
            "claims": [
                { "id": "D3", "text": "fewer", "paper": "of before", "expected": "below 5", "measured": "4", "held": true },
                { "id": "D3", "text": "fewer than PI", "expected": "below 5", "measured": "6", "held": false,
                  "shown": true, "cause": "room: 9 packets (cause_avq_room.toml)" },
                { "id": "D4", "text": "RED", "expected": "below 1", "measured": "2", "held": false, "cause": "of before",
                  "basis": "of before" },
            ],
            "notes": ["Reno, 10 Mbit/s."],
        });
        let write =
            |value: &Value| std::fs::write(folder.join("avq/result.json"), value.to_string()).unwrap();
        write(&result);
        let page = page(&folder, None, &folder).expect("a page");
        for wanted in [
            "`weir reproduce avq --experiment 2 --timers 2001` (avq): 2026-11-23, commit abc1234, changed, version 0.1.0; 2 x EPYC; one \
             run of one case, 2 runs of one case.",
            "| avq | sim | full, timers of 2001 | 1 | 2 | 1 | 1 | 0 |",
            "Full forms that are not all here: steering, lab: none; steering, sim: none; asqm, sim: none; asqm, lab: none; vaqm, sim: \
             none; vaqm, lab: none; vaqm, upf: none; avq, sim: all but 1, 3, 4, 5; avq, lab: none.",
            "## AVQ, experiment 2, simulated, timers of 2001\n",
            "\n\nReno, 10 Mbit/s.\n\n",
            "**Changed tree**",
            "has changed since is unknown: the program was made from files that are in no commit.",
            "is unknown: the page was not made in a tree of git",
            "| AVQ | a\\|b |",
            // What experiments found is as it was; all other words are those of today.
            "* D3 is missed: room: 9 packets (cause_avq_room.toml).",
            "* D4 is missed: between thresholds of 37 and 75 packets",
        ] {
            assert!(page.contains(wanted), "{wanted:?} in {page}");
        }
        assert!(!page.contains("of before"), "{page}");
        let mut foreign = result.clone();
        foreign["title"] = json!("AVQ\n\n## Totals\n<script>");
        foreign["notes"] = json!(["# one", "```", "1. two", " * three", "10 runs"]);
        foreign["timers"] = json!("2001; true");
        write(&foreign);
        let told = super::page(&folder, None, &folder).expect("a page");
        assert!(
            told.contains("\n## AVQ  ## Totals &lt;script>, simulated, timers of 2001; true\n"),
            "{told}"
        );
        assert!(told.contains("\n\\# one\n\n\\```\n\n1\\. two\n\n\\* three\n\n10 runs\n"), "{told}");
        assert!(told.contains(" --timers '2001; true'` (avq)"), "{told}");
        assert_eq!(quoted("it's"), r"'it'\''s'");
        write(&result);
        // The rate is told where all figures have the same.
        let told = |value: &Value| command(value, &Runs::of(value).unwrap());
        let of = |rates: [f64; 2]| {
            let figures = rates.map(|rate| json!({ "figure": "5", "rate_bps": rate }));
            let runs = [&figures[..], &[json!({ "figure": "text", "rate_bps": 1e8 })]].concat();
            told(&json!({ "paper": "steering", "figure": "all", "arm": "sim", "runs": runs }))
        };
        assert_eq!(of([1e9, 1e9]), "weir reproduce steering --figure all --arm sim --rate 1Gbit/s");
        assert_eq!(of([1e9, 1e10]), "weir reproduce steering --figure all --arm sim");
        let live = json!({ "paper": "steering", "figure": "5", "arm": "lab", "runs": [{ "figure": "5", "rate_bps": 1e9 }] });
        assert_eq!(told(&live), "weir reproduce steering --figure 5 --arm lab --seeds 1");
        let bbr = |arm: &str| {
            told(
                &json!({ "paper": "steering", "figure": "bbr", "arm": arm, "runs": [{ "case": [], "seed": 0 }] }),
            )
        };
        assert_eq!(bbr("lab"), "weir reproduce steering --figure bbr --arm lab --seeds 1");
        assert_eq!(bbr("sim"), "weir reproduce steering --figure bbr --arm sim");
        let more = json!({ "paper": "steering", "figure": "8b", "arm": "sim", "totals": {}, "series": "TD 2.5ms", "seeds": 4,
            "runs": [{ "series": "TD 2.5ms", "run": 0 }, { "series": "TD 2.5ms", "run": 1 }, { "series": "GSP-AS", "run": 0 }] });
        assert_eq!(
            told(&more),
            "weir reproduce steering --figure 8b --arm sim --series 'TD 2.5ms' --seeds 4"
        );
        let other = json!({ "paper": "steering", "figure": "5", "arm": "sim", "aqm": "pie", "runs": [{ "case": ["pie"] }] });
        assert_eq!(told(&other), "weir reproduce steering --figure 5 --arm sim --aqm pie --seeds 1");
        let sweep = json!({ "paper": "steering", "figure": "virtual-sweep", "arm": "sim", "runs": [{ "case": ["200us"] }] });
        assert_eq!(told(&sweep), "weir reproduce steering --figure virtual-sweep --arm sim --seeds 1");
        // A table of spreads whose rows have the same words says of neither what it is.
        let spreads = |flows: [u32; 2]| {
            let row = |flows: u32| json!(["8a, GSP-AS", "1Gbit/s", flows.to_string(), "5"]);
            json!({ "rows": flows.map(row) })
        };
        assert_eq!(
            [tells_apart(&spreads([2, 3])), tells_apart(&spreads([2, 2])), tells_apart(&json!(null))],
            [true, false, false]
        );
        let runs: Vec<Value> = (0..3).map(|run| json!({ "series": "AVQ", "seed": run })).collect();
        let mut repeated = json!({ "paper": "avq", "arm": "sim", "experiment": "all", "runs": runs, "totals": {}, "witness": {} });
        assert_eq!(told(&repeated), "weir reproduce avq --experiment all --seeds 3 --witness ns2");
        repeated["paper"] = json!("steering");
        repeated["arm"] = json!("lab");
        assert!(told(&repeated).contains(" --arm lab --seeds 3"), "{}", told(&repeated));
        // Without its runs it gives the same page, also when it is kept again.
        let kept = folder.join("kept");
        let kept_page = |from: &Path| {
            assert_eq!(keep(from, &kept).unwrap().results, 1);
            super::page(&kept, None, &folder).expect("a page")
        };
        assert_eq!(kept_page(&folder.join("avq")), page);
        assert_eq!(kept_page(&kept), page);
        let text = std::fs::read_to_string(kept.join("avq/result.json")).unwrap();
        assert!(!text.contains("\"runs\""), "{text}");
        std::fs::write(kept.join("avq/result.json"), text.replace("\"repetitions\"", "\"other\"")).unwrap();
        let Err(Error::Input(told)) = super::page(&kept, None, &folder) else {
            panic!("it does not say how many runs there were")
        };
        assert!(told.contains("result.json: missing field `repetitions`"), "{told}");
        std::fs::remove_dir_all(&kept).unwrap();
        // A run of its own beside them is no reproduction.
        std::fs::create_dir_all(folder.join("run")).unwrap();
        std::fs::write(folder.join("run/result.json"), "{}").unwrap();
        assert!(super::page(&folder, None, &folder).is_ok());
        let mut old = result.clone();
        old.as_object_mut().expect("an object").remove("made");
        write(&old);
        let Err(Error::Input(told)) = super::page(&folder, None, &folder) else {
            panic!("it says nothing of its origin")
        };
        assert!(told.contains("result.json") && told.contains("does not say when"), "{told}");
        std::fs::write(folder.join("avq/result.json"), "{").unwrap();
        assert!(super::page(&folder, None, &folder).is_err());
        std::fs::remove_dir_all(&folder).unwrap();
        let Err(Error::Input(told)) = super::page(&folder, None, &folder) else {
            panic!("there is no such folder")
        };
        assert!(told.contains("weir-summary"), "{told}");
    }

    /// Of arms whose results in this repository have all parts of their paper.
    #[test]
    fn each_arm_judges_each_claim_of_its_paper_or_says_why_not() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
        let outcomes = read_all(&root.join("data/results"), &History::of(&root)).unwrap();
        let last_of = |paper: &Paper| match paper.name {
            "steering" => ("A", 20),
            "asqm" => ("B", 16),
            "vaqm" => ("C", 5),
            _ => ("D", 8),
        };
        for paper in &PAPERS {
            let (letter, last) = last_of(paper);
            for arm_of in paper.arms {
                let made = whole(&outcomes, paper, arm_of.value);
                if made.is_empty() || !missing(&made, paper, arm_of.value).is_empty() {
                    continue;
                }
                for id in (1..=last).map(|number| format!("{letter}{number}")) {
                    let mut claims = made.iter().flat_map(|outcome| &outcome.claims);
                    let is_judged = claims.any(|claim| claim.id == id);
                    let is_said = paper
                        .unjudged
                        .iter()
                        .any(|claims| claims.is_in(arm_of.name) && claims.ids.contains(&&*id));
                    assert_ne!(is_judged, is_said, "{}, {}: {id}", paper.name, arm_of.name);
                }
            }
        }
    }

    #[test]
    fn the_page_of_this_repository_is_made_from_the_results_in_it() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
        let written = std::fs::read_to_string(root.join("docs/results.md")).unwrap();
        let made = super::page(&root.join("data/results"), None, &root).unwrap();
        // How old they are depends on the tree, and on that which of two counts; the rest does not.
        let sections = |page: &str| {
            let (_, sections) = page.split_once("\n## ASQM").expect("sections");
            let is_age = |line: &&str| {
                ["The code that", "**Older than", "Whether the code"].iter().any(|age| line.starts_with(age))
            };
            sections.lines().filter(|line| !is_age(line)).map(String::from).collect::<Vec<_>>()
        };
        let (written, made) = (sections(&written), sections(&made));
        let remedy =
            "`weir reproduce summary data/results --into docs/results.md`, and commit what it changes";
        for (number, (written, made)) in written.iter().zip(&made).enumerate() {
            assert_eq!(written, made, "line {number} behind the totals: {remedy}");
        }
        assert_eq!(written.len(), made.len(), "{remedy}");
    }

    /// A working tree of git.
    struct Tree(PathBuf);

    impl Tree {
        fn new(name: &str) -> Tree {
            let tree = Tree(folder(name));
            tree.git(&["init", "--quiet"]);
            tree
        }

        fn write(&self, name: &str, text: &str) {
            let file = self.0.join(name);
            std::fs::create_dir_all(file.parent().expect("a folder")).unwrap();
            std::fs::write(file, format!("{text}\n")).unwrap();
        }

        fn git(&self, arguments: &[&str]) -> String {
            let who =
                ["-c", "user.name=test", "-c", "user.email=test@localhost", "-c", "commit.gpgsign=false"];
            let all: Vec<String> = who.iter().chain(arguments).map(|text| text.to_string()).collect();
            super::history::git(&self.0, &all).expect("git")
        }

        fn commit(&self) -> String {
            self.git(&["add", "."]);
            self.git(&["commit", "--quiet", "--message", "one"]);
            self.git(&["rev-parse", "--short", "HEAD"])
        }
    }

    /// Dependencies of a crate that are crates of this repository; those of tests and builds left out.
    fn dependencies(folder: &str) -> Vec<String> {
        let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(folder).join("Cargo.toml");
        let text = std::fs::read_to_string(&file).unwrap_or_else(|e| panic!("{}: {e}", file.display()));
        let section = text.split("\n[").find(|section| section.starts_with("dependencies]"));
        let names = section.into_iter().flat_map(str::lines).filter_map(|line| line.strip_prefix("weir-"));
        let name = |line: &str| line.chars().take_while(|c| c.is_ascii_alphanumeric()).collect::<String>();
        names.map(|line| format!("crates/{}", name(line))).collect()
    }

    #[test]
    fn results_depend_on_every_crate_below_those_that_make_them() {
        let all: Vec<&str> = SIMULATED.into_iter().chain(LIVE).chain([USER_PLANE, EXPERIMENTS]).collect();
        for folder in &all {
            for needed in dependencies(folder) {
                // Pages and charts are no results.
                let is_known = all.contains(&needed.as_str()) || needed == "crates/report";
                assert!(is_known, "{folder} depends on {needed}, which is not compared");
            }
        }
        assert!(dependencies(EXPERIMENTS).len() > 4, "the crates were not read");
        for folder in SIMULATED {
            let live = dependencies(folder).into_iter().find(|needed| LIVE.contains(&needed.as_str()));
            assert_eq!(live, None, "of {folder}, which is simulated");
        }
    }

    /// The files of folders in which git finds a pattern, without this one; none where there is no git.
    fn found<'a>(search: [&str; 2], folders: impl IntoIterator<Item = &'a str>) -> String {
        let search = ["grep", search[0], search[1], "--"].map(String::from).into_iter();
        let folders = folders.into_iter().map(|folder| format!(":(top){folder}"));
        let own = ":(top,exclude)crates/reproduce/src/summary.rs".to_string();
        let here = Path::new(env!("CARGO_MANIFEST_DIR"));
        History::of(here).git(search.chain(folders).chain([own])).unwrap_or_default()
    }

    #[test]
    fn what_is_said_to_be_of_the_user_plane_alone_is_used_there_alone() {
        let crates =
            SIMULATED.into_iter().chain(LIVE).chain([EXPERIMENTS]).filter(|of| *of != "crates/queue");
        let sources: Vec<String> = crates.map(|folder| format!("{folder}/src")).collect();
        assert_eq!(found(["-lw", "Pooled"], sources.iter().map(String::as_str)), "");
    }

    #[test]
    fn no_paper_but_vaqm_has_queues_of_users() {
        const REPRODUCE: &str = "crates/reproduce/src";
        let search = ["-lE", r#"(discipline.{0,6}|QueueConfig::new\()"user|EACH_USER"#];
        let found_in = found(search, [REPRODUCE, "crates/lab/src", SCENARIOS]);
        let names: Vec<&str> = found_in.lines().filter_map(|file| file.rsplit('/').next()).collect();
        let (scenarios, code): (Vec<&str>, Vec<&str>) =
            names.iter().partition(|name| name.ends_with(".toml"));
        // Empty where there is no git.
        assert!(code.is_empty() && scenarios.is_empty() || code == ["lab.rs"], "{found_in}");
        assert!(found_in.is_empty() || found_in.contains("src/vaqm/lab.rs"), "{found_in}");
        for name in scenarios {
            let named = format!("scenario_file!(\"{name}\")");
            assert_eq!(found(["-l", &named], [REPRODUCE]), "", "{name}");
        }
    }

    #[test]
    fn what_only_other_papers_run_makes_results_no_older() {
        let tree = Tree::new("papers");
        tree.write("crates/reproduce/src/runs.rs", "shared");
        let cases = "scenario_file!(\"a.toml\")";
        tree.write("crates/reproduce/src/vaqm/cases.rs", cases);
        for name in ["a.toml", "b.toml"] {
            tree.write(&format!("data/scenarios/{name}"), "old");
        }
        tree.write("crates/upf/src/a.rs", "old");
        tree.write("crates/queue/src/a.rs", "struct A {\n    a: u32,\n}\n");
        tree.write("crates/queue/src/pooled/flows.rs", "old");
        tree.write(&format!("{PER_USER}/flows.rs"), "old");
        let first = tree.commit();
        let since =
            |arm: &str| Code::of(&History::of(&tree.0), &first, &json!({ "paper": "vaqm", "arm": arm }), &[]);
        for other in [
            "crates/reproduce/src/avq/cases.rs",
            "crates/reproduce/src/summary.rs",
            "crates/reproduce/src/vaqm/said.rs",
            "crates/reproduce/src/vaqm/draw.rs",
            "crates/reproduce/src/vaqm/lab/draw.rs",
            "crates/reproduce/src/vaqm/upf.rs",
            "crates/reproduce/src/vaqm/claims_tests.rs",
            "crates/sim/tests/a.rs",
            "data/scenarios/b.toml",
        ] {
            tree.write(other, "new");
        }
        // Who may use it.
        tree.write("crates/queue/src/a.rs", "/// A.\npub(crate) struct A {\n    pub a: u32,\n}\n");
        let about = "// Why.\n\n// And how.\npub(crate) mod said;\n\n";
        tree.write("crates/reproduce/src/vaqm/cases.rs", &format!("{about}{cases}"));
        let second = tree.commit();
        assert_eq!(since("sim"), Code::Unchanged);
        tree.write("crates/upf/src/a.rs", "new");
        tree.write("crates/queue/src/pooled/flows.rs", "new");
        // What only arms with real TCP have, and testbeds, of which other papers depend on none.
        tree.write("crates/lab/src/access/wires.rs", "new");
        tree.write(&format!("{PER_USER}/flows.rs"), "new");
        tree.commit();
        assert_eq!(since("lab"), Code::Changed(3, vec!["crates/queue", "crates/lab", "crates/reproduce"]));
        let folders = vec!["crates/queue", "crates/lab", "crates/upf", "crates/reproduce"];
        assert_eq!(since("upf"), Code::Changed(5, folders));
        assert_eq!(since("sim"), Code::Unchanged);
        let of = |paper: &str| {
            Code::of(&History::of(&tree.0), &second, &json!({ "paper": paper, "arm": "lab" }), &[])
        };
        assert_eq!(["asqm", "avq"].map(of), [Code::Changed(1, vec!["crates/lab"]), Code::Unchanged]);
        tree.write("data/scenarios/a.toml", "new");
        assert_eq!(since("sim"), Code::Changed(1, vec!["data/scenarios"]));
        tree.write("crates/queue/src/a.rs", "pub(crate) struct A {\n    pub b: u32,\n}\n");
        assert_eq!(since("sim"), Code::Changed(2, vec!["crates/queue", "data/scenarios"]));
        tree.write("crates/queue/src/a.rs", "struct A {\n    a: u32,\n}\n");
        tree.write("crates/reproduce/src/runs.rs", "new");
        assert_eq!(since("sim"), Code::Changed(2, vec!["crates/reproduce", "data/scenarios"]));
        std::fs::remove_dir_all(&tree.0).unwrap();
    }

    #[test]
    fn a_claim_of_a_rate_that_was_run_again_counts_once() {
        let claim =
            |text: &str, held: bool| Claim { id: "A11".into(), text: text.into(), held, ..Claim::default() };
        let outcome = |rates: &[f64], claims: &[(&str, bool)], code: Code| {
            let runs: Vec<Value> =
                rates.iter().map(|rate| json!({ "figure": "5", "rate_bps": rate })).collect();
            let value = json!({ "paper": "steering", "figure": "all", "arm": "sim", "runs": runs });
            Outcome {
                folder: String::new(),
                title: String::new(),
                command: String::new(),
                made: Made::default(),
                runs: Runs::of(&value).unwrap(),
                value,
                // Of two flows and of nine.
                claims: claims.iter().map(|(text, held)| claim(text, *held)).collect(),
                elsewhere: Vec::new(),
                code,
                again: None,
            }
        };
        let told = |outcomes: &[Outcome]| {
            let mut page = String::new();
            totals(outcomes, &mut page);
            page.lines().nth(4).unwrap_or_default().to_string()
        };
        let older = || {
            let claims = [("at 1Gbit/s", false), ("at 1Gbit/s", false), ("at 10Gbit/s", false)];
            outcome(&[1e9, 1e10], &claims, Code::Changed(1, vec![]))
        };
        assert_eq!(told(&[older()]), "| steering | sim | full | 0 | 3 | 0 | 0 | 0 |");
        let again = outcome(&[1e9], &[("at 1Gbit/s", true), ("at 1Gbit/s", true)], Code::Unchanged);
        let all = [older(), again];
        assert_eq!(told(&all), "| steering | sim | full | 2 | 1 | 0 | 0 | 0 |");
        // Its section does not judge them once more.
        let mut page = String::new();
        section(&all[0], &all, &mut page);
        let counts = "Claims: 0 of 1 held; 2 more are judged by newer results of this page alone.";
        assert!(page.contains(counts) && !page.contains("at 1Gbit/s"), "{page}");
    }

    #[test]
    fn what_results_lack_is_told_and_what_is_no_claim_of_the_paper_counts_apart() {
        let outcome = |arm: &str, figure: Option<&str>, ids: &[&str]| {
            let value = json!({ "paper": "asqm", "arm": arm, "figure": figure, "totals": {} });
            let claim = |id: &&str| Claim { id: id.to_string(), ..Claim::default() };
            let own = Claim { own: true, held: true, ..claim(&"B2") };
            Outcome {
                folder: String::new(),
                title: "ASQM".into(),
                command: String::new(),
                made: Made::default(),
                runs: Runs::of(&value).unwrap(),
                value,
                claims: ids.iter().map(claim).collect(),
                elsewhere: ids.iter().take(1).map(claim).chain([own]).collect(),
                code: Code::Unchanged,
                again: None,
            }
        };
        let all = [
            outcome("sim", Some("all"), &["B1", "B2", WITNESS]),
            outcome("lab", Some("all"), &["B2"]),
            outcome("lab", Some("4-15"), &["B2"]),
            outcome("lab", Some("sweep"), &["B2"]),
        ];
        let elsewhere = all.each_ref().map(|one| judged_elsewhere(one, &all).into_iter().collect::<Vec<_>>());
        assert_eq!(elsewhere, [vec![], vec!["B1"], vec![], vec![]]);
        let mut page = String::new();
        totals(&all, &mut page);
        assert!(page.contains("| asqm | sim | full | 0 | 2 |"), "{page}");
        assert!(page.contains("| asqm | sim | full, beside ns-2 | 0 | 1 |"), "{page}");
        assert!(page.contains("| asqm | sim | full, in ns-2 | 0 | 1 |"), "{page}");
        assert!(page.contains("| asqm | sim | full, in ns-2, criteria of our own | 1 | 0 |"), "{page}");
        let mut page = String::new();
        gaps(&all, &mut page);
        assert!(!page.contains("asqm") && page.contains("avq, lab: none"), "{page}");
        let told = |outcomes: &[Outcome]| {
            let mut page = String::new();
            gaps(outcomes, &mut page);
            page
        };
        assert!(told(&all[2..3]).contains("asqm, lab: all but sweep;"), "{}", told(&all[2..3]));
        assert!(!told(&all[2..]).contains("asqm, lab"), "{}", told(&all[2..]));
        // With real TCP there is nothing of what the paper tells without a figure.
        let live = ["5", "6", "7", "8a", "8b"].map(|figure| {
            let mut outcome = outcome("lab", Some(figure), &[]);
            outcome.value["paper"] = json!("steering");
            outcome
        });
        assert!(!told(&live).contains("steering, lab"), "{}", told(&live));
        assert!(told(&live[1..4]).contains("steering, lab: all but 5, 8b;"), "{}", told(&live[1..4]));
        let mut page = String::new();
        section(&all[0], &all, &mut page);
        assert!(page.contains("Claims: 0 of 2 held; 0 of 1 comparisons with ns-2 agree.\n"), "{page}");
        let mut page = String::new();
        not_judged(&all[1..], &mut page);
        assert!(!page.contains("asqm, sim"), "{page}");
        let lines = ["\n* asqm, lab: B1: arithmetic", "\n* asqm, lab: B15: a survey of providers"];
        lines.iter().for_each(|line| assert!(page.contains(line), "{page}"));
        assert_eq!(heading(&all[1]), "ASQM, real TCP");
        let run = |seed: u64, used: f64| {
            let link = json!({ "utilization": used, "delay_ms": { "mean": 2.0, "p95": 4.0 } });
            json!({ "figure": "5", "series": "GSP", "flows": 2, "rate_bps": 1e9, "seed": seed, "link": link })
        };
        let spreads = |runs: &[Value]| Runs::of(&json!({ "runs": runs })).unwrap().spreads;
        let told = ["5, GSP", "1Gbit/s", "2", "3", "98.40 to 99.97", "2.00 to 2.00", "4.00 to 4.00"];
        assert_eq!(spreads(&[run(0, 0.984), run(1, 0.9997), run(2, 0.99)])["rows"], json!([told]));
        assert!(spreads(&[run(0, 0.984)]).is_null());
        let mut as_in_2014 = outcome("sim", Some("all"), &[]);
        as_in_2014.value["borrow"] = json!(true);
        as_in_2014.value["machines"] = json!(2);
        assert_eq!(heading(&as_in_2014), "ASQM, simulated, limiters that borrow, 2 machines in each home");
    }

    #[test]
    fn results_are_as_old_as_the_code_that_they_depend_on() {
        let repository = Tree::new("tree");
        let tree = &repository.0;
        let (write, commit) = (|name: &str, text: &str| repository.write(name, text), || repository.commit());
        let of = |arm: &str| json!({ "paper": "vaqm", "arm": arm });
        let since_commit = |commit: &str, arm: &str| Code::of(&History::of(tree), commit, &of(arm), &[]);
        let none = folder("no-tree");
        assert!(
            matches!(Code::of(&History::of(&none), "abc1234", &of("sim"), &[]), Code::Unknown(_)),
            "there is no repository"
        );
        for name in ["crates/sim/src/a.rs", "crates/lab/src/a.rs", "data/scenarios/a.toml", "docs/a.md"] {
            write(name, "old");
        }
        let first = commit();
        let since = |arm: &str| since_commit(&first, arm);
        write("docs/a.md", "new");
        assert_eq!((since("sim"), since("lab")), (Code::Unchanged, Code::Unchanged), "a text is no code");
        write("crates/lab/src/a.rs", "new");
        assert_eq!((since("sim"), since("lab")), (Code::Unchanged, Code::Changed(1, vec!["crates/lab"])));
        // In a commit or not: what counts is what lies in the tree.
        write("crates/sim/src/a.rs", "new");
        let changed = || Code::Changed(2, vec!["crates/sim", "data/scenarios"]);
        write("data/scenarios/a.toml", "new");
        assert_eq!(since("sim"), changed());
        let second = commit();
        assert_eq!((since("sim"), since_commit(&second, "sim")), (changed(), Code::Unchanged));
        // Runs that were judged again are as old as what made them; what judged them is newer.
        let again = |commit: &str| {
            let measured = json!([{ "runs": 2, "made": { "commit": commit } }]);
            Code::of(
                &History::of(tree),
                &second,
                &json!({ "paper": "vaqm", "arm": "sim", "measured": measured }),
                &[],
            )
        };
        assert_eq!((again(&first), again(&second)), (Code::Changed(1, vec!["crates/sim"]), Code::Unchanged));
        // From a folder below, as where the page is made.
        assert_eq!(Code::of(&History::of(&tree.join("docs")), &first, &of("sim"), &[]), changed());
        for unknown in ["unknown", "", "0123456789", "--help", &format!("{first}, changed")] {
            assert!(matches!(since_commit(unknown, "sim"), Code::Unknown(_)), "{unknown}");
        }

        let result = |commit: &str, runs: &[(u64, f64)]| {
            let runs: Vec<Value> =
                runs.iter().map(|(seed, lost)| json!({ "case": "a", "seed": seed, "lost": lost })).collect();
            let made =
                json!({ "date": "2026-11-23", "commit": commit, "version": "0.1.0", "machine": "2 x EPYC" });
            json!({ "paper": "vaqm", "arm": "sim", "title": "vAQM", "made": made, "runs": runs }).to_string()
        };
        let results = folder("ages");
        std::fs::write(results.join("avq/result.json"), result(&first, &[(0, 4.0), (1, 5.0), (2, 6.0)]))
            .unwrap();
        let page = |repeated: Option<&Path>| super::page(&results, repeated, tree).expect("a page");
        let only = page(None);
        for wanted in [
            format!("Compared with the tree of commit {second}: of 1 results the code is the same for 0, changed by commits alone that change nothing in them, as people wrote into `harmless.json`, for 0, other for 1, and unknown for 0."),
            "**Older than the code**: 2 files that it depends on have changed since that commit, in crates/sim, data/scenarios.".into(),
        ] {
            assert!(only.contains(&wanted), "{wanted:?} in {only}");
        }
        // Some of the runs again: with the code of the tree, and with that of before, which shows nothing.
        let repeated = folder("again");
        let again = |commit: &str, runs: &[(u64, f64)]| {
            std::fs::write(repeated.join("avq/result.json"), result(commit, runs)).unwrap();
            page(Some(&repeated))
        };
        let same = again(&second, &[(0, 4.0), (2, 6.0)]);
        assert!(
            same.contains(
                "2 of its 3 runs were made again with the code of this tree: each gave the same numbers."
            ),
            "{same}"
        );
        assert!(
            same.contains("other for 1 (of which 1 had some runs made again, all with the same numbers)"),
            "{same}"
        );
        let other = again(&second, &[(0, 4.0), (1, 5.5), (7, 1.0)]);
        assert!(
            other.contains(
                "2 of its 3 runs were made again with the code of this tree: **1 gave other numbers**."
            ),
            "{other}"
        );
        assert!(other.contains("other for 1, and"), "{other}");
        assert_eq!(again(&first, &[(0, 4.0)]), only, "made with the code of before");
        assert_eq!(again(&second, &[(7, 4.0)]), only, "no run of both");
        // A commit that is said to change nothing here, and one that is not, or files that are in no commit.
        let named = |commit: &str| {
            let text = json!([{ "commit": commit, "what": "words alone", "results": ["vaqm-"] }]);
            serde_json::from_value::<Vec<Harmless>>(text).unwrap()
        };
        let by = |named: &[Harmless]| Code::of(&History::of(tree), &first, &of("sim"), named);
        let harmless = Code::Harmless(vec![format!("{second} (words alone)")]);
        assert_eq!((by(&named(&second)), by(&named(&first))), (harmless.clone(), changed()));
        assert!(harmless.is_current() && harmless.told("x").ends_with(&format!("{second} (words alone).")));
        assert!(named(&second)[0].is_of("vaqm-lab") && !named(&second)[0].is_of("avq-vaqm-"));
        write("crates/sim/src/a.rs", "newer");
        assert_eq!(by(&named(&second)), Code::Changed(1, vec!["crates/sim"]));
        write("crates/sim/src/a.rs", "// Of what.\nnew");
        commit();
        assert_eq!(by(&named(&second)), harmless, "comments need not be said");
        [tree, &results, &repeated].iter().for_each(|folder| std::fs::remove_dir_all(folder).unwrap());
    }
}
