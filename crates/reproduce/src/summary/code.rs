//! What became of the code on which results depend since they were made.

use super::arm;
use super::history::History;
use crate::host::Error;
use serde::Deserialize;
use serde_json::Value;
use std::collections::BTreeSet;
use std::path::Path;
use weir_report::read_regular;

/// What simulated results depend on, as folders of the repository: the simulator and the crates below it. A
/// test compares them with what the crates name as dependencies.
pub const SIMULATED: [&str; 11] = [
    "crates/units",
    "crates/params",
    "crates/wire",
    "crates/sense",
    "crates/aqm",
    "crates/queue",
    "crates/steer",
    "crates/tcp",
    "crates/measure",
    "crates/config",
    "crates/sim",
];
/// What results of real TCP depend on besides.
pub const LIVE: [&str; 3] = ["crates/bpf", "crates/dataplane", "crates/lab"];
/// What those behind the user-plane function depend on besides.
pub const USER_PLANE: &str = "crates/upf";
/// A part of these crates, and which results depend on it, by paper and arm.
type Part = (&'static str, fn(&str, &str) -> bool);
/// What in the crates of all only some results depend on.
pub const PARTS: [Part; 6] = [
    // What passing packets tell of a bottleneck behind.
    ("crates/sense/src/bottleneck", |paper, _| paper == "vaqm"),
    ("crates/sense/src/quic", |paper, _| paper == "vaqm"),
    // Queues of the user plane.
    ("crates/queue/src/pooled", |_, arm| arm == "upf"),
    // Queues of users, which vAQM's phones have in the lab, and sets of flows, which the user plane has, too.
    (PER_USER, |paper, arm| paper == "vaqm" && arm != "sim"),
    // Testbeds of the lab; the cell's senders are made as those of the access network.
    ("crates/lab/src/access", |paper, _| ["asqm", "vaqm"].contains(&paper)),
    ("crates/lab/src/cell", |paper, _| paper == "vaqm"),
];
pub const PER_USER: &str = "crates/queue/src/disciplines/per_user";
/// The experiments, their scenarios, and recorded rates of radio links.
pub const EXPERIMENTS: &str = "crates/reproduce";
pub const SCENARIOS: &str = "data/scenarios";
const TRACES: &str = "data/scenarios/traces";
/// What no result depends on: tests; this page; and charts and the words that are said of claims, which are
/// not in results as they are compared, or are told as they are today.
const NOT_COMPARED: [&str; 8] = [
    ":(top,exclude,glob)crates/*/tests/**",
    ":(top,exclude,glob)crates/*/src/**/tests/**",
    ":(top,exclude,glob)crates/*/src/**/tests.rs",
    ":(top,exclude,glob)crates/*/src/**/*_tests.rs",
    ":(top,exclude)crates/reproduce/src/summary.rs",
    ":(top,exclude)crates/reproduce/src/figure.rs",
    ":(top,exclude,glob)crates/reproduce/src/*/**/draw.rs",
    ":(top,exclude,glob)crates/reproduce/src/*/said.rs",
];
/// Lines that change no result: empty ones, comments, and what only declares a module.
const NO_CODE: [&str; 4] = [
    // Git hands over lines with their end, behind which `^$` would match in every one.
    "^[ \t]*\n",
    "^[[:space:]]*//",
    "^[[:space:]]*#([[:space:]]|$)",
    r"^[[:space:]]*(pub(\([a-z]+\))? )?mod [a-z0-9_]+;$",
];

/// What only results with real TCP depend on.
const ONLY_LIVE: [&str; 4] = ["lab.rs", "lab/**", "upf.rs", "resume.rs"];

/// What in the folders of the experiments results of a paper's arm depend on, as pathspecs of git: what all
/// papers share, what the paper has for itself, and the scenarios that this names.
fn of_paper(tree: &History, paper: &str, arm: &str) -> Vec<String> {
    let own = format!("{EXPERIMENTS}/src/{paper}");
    let others = ONLY_LIVE.iter().filter(|_| arm == "sim");
    let others: Vec<String> = others.map(|file| format!(":(top,exclude,glob){own}/{file}")).collect();
    let named =
        ["grep", "-hoE", r#"scenario_file!\("[^"]+"\)"#, "--", &format!(":(top){own}")].map(String::from);
    let named = tree.git(named.into_iter().chain(others.clone())).unwrap_or_default();
    let mut scenarios: Vec<String> = named
        .lines()
        .filter_map(|line| Some(format!(":(top){SCENARIOS}/{}", line.split('"').nth(1)?)))
        .collect();
    if scenarios.is_empty() {
        scenarios.push(format!(":(top){SCENARIOS}"));
    }
    let shared = ["*", "src/*"].map(|files| format!(":(top,glob){EXPERIMENTS}/{files}"));
    [&shared[..], &[format!(":(top){own}"), format!(":(top){TRACES}")], &others, &scenarios].concat()
}

/// What became of the code since results were made.
#[derive(Clone, Debug, PartialEq)]
pub enum Code {
    /// Every file that they depend on is as it was.
    Unchanged,
    /// It has changed, by commits alone that change no number and no judgement of these results: what each
    /// did instead.
    Harmless(Vec<String>),
    /// So many files are other ones, in these folders.
    Changed(usize, Vec<&'static str>),
    /// Why it cannot be told.
    Unknown(&'static str),
}

impl Code {
    /// Compares the files in a working tree with those of the commit that results of a paper's arm name, and
    /// with those of the commits that their runs name where these were judged again and not made again.
    pub fn of(tree: &History, commit: &str, value: &Value, harmless: &[Harmless]) -> Code {
        let (paper, arm) = (value["paper"].as_str().unwrap_or_default(), arm(value));
        let live = if arm == "sim" { &[][..] } else { &LIVE[..] };
        let plane = (arm == "upf").then_some(USER_PLANE);
        let whole = || SIMULATED.iter().chain(live).copied().chain(plane);
        let foreign = PARTS.iter().filter(|(_, is_needed)| !is_needed(paper, arm));
        let foreign = foreign
            .flat_map(|(module, _)| [".rs", "/**"].map(|rest| format!(":(top,exclude,glob){module}{rest}")));
        let making: Vec<String> = whole().map(|folder| format!(":(top){folder}")).chain(foreign).collect();
        let (mut names, mut reasons) = (BTreeSet::new(), BTreeSet::new());
        for made in commits(commit, value) {
            // What judges has judged all of them.
            let judging = if made == commit { of_paper(tree, paper, arm) } else { measuring(paper) };
            let found = match changed(tree, made, None, making.iter().cloned().chain(judging)) {
                Ok(found) => found,
                Err(why) => return Code::Unknown(why),
            };
            for name in found {
                match all_harmless(tree, made, &name, harmless) {
                    Some(found) => reasons.extend(found),
                    None => _ = names.insert(name),
                }
            }
        }
        match (names.is_empty(), reasons.is_empty()) {
            (true, true) => return Code::Unchanged,
            (true, false) => return Code::Harmless(reasons.into_iter().collect()),
            (false, _) => {}
        }
        let is_in = |folder: &&str| {
            names.iter().any(|name| name.strip_prefix(folder).is_some_and(|rest| rest.starts_with('/')))
        };
        Code::Changed(names.len(), whole().chain([EXPERIMENTS, SCENARIOS]).filter(is_in).collect())
    }

    /// A sentence about it; `then` names the commits that were compared.
    pub fn told(&self, then: &str) -> String {
        match self {
            Code::Harmless(reasons) => format!(
                "The code that it depends on has changed since {then}, by commits alone that change neither a number nor a \
                 judgement here: {}.",
                reasons.join("; ")
            ),
            Code::Unchanged => format!("The code that it depends on has not changed since {then}."),
            Code::Changed(1, folders) => format!(
                "**Older than the code**: a file that it depends on has changed since {then}, in {}.",
                folders.join(", ")
            ),
            Code::Changed(files, folders) => format!(
                "**Older than the code**: {files} files that it depends on have changed since {then}, in {}.",
                folders.join(", ")
            ),
            Code::Unknown(why) => {
                format!("Whether the code that it depends on has changed since is unknown: {why}.")
            }
        }
    }

    /// Whether results are what today's code would make of the same runs.
    pub fn is_current(&self) -> bool {
        matches!(self, Code::Unchanged | Code::Harmless(_))
    }
}

/// A commit that changed files on which results depend, but none of these results.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Harmless {
    /// Its hash, or the beginning of it.
    commit: String,
    /// What it did, in a word or two.
    what: String,
    /// Names of the folders of these results, or their beginnings.
    results: Vec<String>,
}

/// Where such commits stand, beside the results.
pub const HARMLESS: &str = "harmless.json";

impl Harmless {
    /// Those that stand in a folder of results; none where nothing stands there.
    ///
    /// # Errors
    ///
    /// If they cannot be read.
    pub fn below(root: &Path) -> Result<Vec<Harmless>, Error> {
        let file = root.join(HARMLESS);
        let failed = |e: &dyn std::fmt::Display| Error::input(format!("{}: {e}", file.display()));
        match read_regular(&file) {
            Ok(text) => {
                let all: Vec<Harmless> = serde_json::from_slice(&text).map_err(|e| failed(&e))?;
                match all.iter().find_map(Harmless::lacks) {
                    Some(lack) => Err(failed(&lack)),
                    None => Ok(all),
                }
            }
            Err(e) if e.kind() == std::io::ErrorKind::NotFound => Ok(Vec::new()),
            Err(e) => Err(failed(&e)),
        }
    }

    /// What is wrong with it: what is too short would be of all commits, or of all results.
    fn lacks(&self) -> Option<String> {
        let Harmless { commit, what, results } = self;
        let is_digit = |byte: u8| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte);
        let is_hash = (7..=40).contains(&commit.len()) && commit.bytes().all(is_digit);
        let remedy = match () {
            _ if !is_hash => "give 7 to 40 digits of its hash, in lower case as git does",
            _ if what.trim().is_empty() => "say what it did, as `what`",
            _ if results.is_empty() || results.iter().any(String::is_empty) => {
                "name the folders of results, or their beginnings, as `results`"
            }
            _ => return None,
        };
        Some(format!("commit `{commit}`: {remedy}"))
    }

    /// Whether it is about the results of this folder.
    pub fn is_of(&self, folder: &str) -> bool {
        self.results.iter().any(|name| folder.starts_with(name.as_str()))
    }
}

/// What the commits did that changed a file since another one, if all of them are harmless and nothing else
/// has changed it.
fn all_harmless(tree: &History, since: &str, name: &str, harmless: &[Harmless]) -> Option<Vec<String>> {
    // Of commits that are not in today's history nobody said that they are harmless.
    tree.git(["merge-base", "--is-ancestor", since, "HEAD"].map(String::from))?;
    let of_file = format!(":(top){name}");
    let log = ["log", "--format=%H", &format!("{since}..HEAD"), "--", &of_file].map(String::from);
    let log = tree.git(log)?;
    let mut reasons = Vec::new();
    for commit in log.lines() {
        match harmless.iter().find(|known| commit.starts_with(&known.commit)) {
            Some(known) => reasons.push(format!("{} ({})", known.commit, known.what)),
            // Of comments alone, say.
            None if changed(tree, &format!("{commit}^"), Some(commit), [of_file.clone()].into_iter())
                .is_ok_and(|names| names.is_empty()) => {}
            None => return None,
        }
    }
    let is_committed = changed(tree, "HEAD", None, [of_file].into_iter()).is_ok_and(|names| names.is_empty());
    (is_committed && !reasons.is_empty()).then_some(reasons)
}

/// What measures runs that were judged again, beside the crates that make them.
fn measuring(paper: &str) -> Vec<String> {
    let own = MEASURING.map(|file| format!(":(top){EXPERIMENTS}/src/{paper}/{file}"));
    own.into_iter().chain([format!(":(top){EXPERIMENTS}/src/segments.rs")]).collect()
}

/// Files of papers that make what is kept of runs from what happened in them.
const MEASURING: [&str; 3] = ["measured.rs", "observer.rs", "spans.rs"];

/// The commit of results, and those of their runs where these were judged again and not made again.
pub fn commits<'a>(commit: &'a str, value: &'a Value) -> BTreeSet<&'a str> {
    let runs = value["measured"].as_array().into_iter().flatten();
    runs.filter_map(|part| part["made"]["commit"].as_str()).chain([commit]).collect()
}

/// The files of a working tree, or of a second commit, of those that pathspecs name, that are other ones than
/// in a commit.
fn changed(
    tree: &History,
    commit: &str,
    second: Option<&str>,
    files: impl Iterator<Item = String>,
) -> Result<Vec<String>, &'static str> {
    if commit.contains("changed") {
        return Err("the program was made from files that are in no commit");
    }
    let hash = commit.strip_suffix('^').unwrap_or(commit);
    let is_hash = hash == "HEAD" || !hash.is_empty() && hash.bytes().all(|byte| byte.is_ascii_hexdigit());
    let found = is_hash.then(|| {
        let ignored = NO_CODE.iter().flat_map(|lines| ["-I", lines]);
        let compare = ["diff", "--numstat", "--no-renames"]
            .into_iter()
            .chain(ignored)
            .chain([commit])
            .chain(second)
            .chain(["--"]);
        tree.git(compare.map(String::from).chain(files).chain(NOT_COMPARED.map(String::from)))
    });
    let names = found.flatten().ok_or("git does not know its commit here")?;
    // Lines added, lines removed, name.
    let names = names.lines().filter_map(|line| line.split('\t').nth(2));
    let top = tree.git(["rev-parse", "--show-toplevel"].map(String::from)).unwrap_or_default();
    let is_same = |name: &str| {
        let then = tree.git(["show".to_string(), format!("{commit}:{name}")]);
        let now = match second {
            Some(second) => tree.git(["show".to_string(), format!("{second}:{name}")]),
            None => std::fs::read_to_string(Path::new(&top).join(name)).ok(),
        };
        name.ends_with(".rs") && then.zip(now).is_some_and(|(then, now)| code(&then).eq(code(&now)))
    };
    Ok(names.filter(|name| !is_same(name)).map(String::from).collect())
}

/// The lines of a Rust file on which results depend: without empty ones and comments, and without who may use
/// what they declare.
fn code(text: &str) -> impl Iterator<Item = &str> {
    let lines = text.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with("//"));
    lines.map(|line| {
        let Some(rest) = line.strip_prefix("pub") else { return line };
        let rest = rest.strip_prefix('(').and_then(|rest| Some(rest.split_once(')')?.1)).unwrap_or(rest);
        rest.strip_prefix(' ').unwrap_or(line)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commits_that_would_be_all_of_them_are_refused() {
        let root = std::env::temp_dir().join(format!("weir-harmless-{}", std::process::id()));
        std::fs::create_dir_all(&root).unwrap();
        assert!(Harmless::below(&root).unwrap().is_empty(), "there is no such file");
        let told = |text: &str| {
            std::fs::write(root.join(HARMLESS), text).unwrap();
            match Harmless::below(&root) {
                Ok(all) => format!("{} read", all.len()),
                Err(Error::Input(told)) => told,
                other => panic!("{other:?}"),
            }
        };
        let of = |commit: &str, what: &str, results: &str| {
            told(&format!(r#"[{{ "commit": "{commit}", "what": "{what}", "results": [{results}] }}]"#))
        };
        assert_eq!(of("bda6a64b", "words", r#""avq-", "vaqm-lab""#), "1 read");
        let long = "bda6a64b".repeat(6);
        for commit in ["", "bda6", "HEAD^^^^", "BDA6A64B", &long] {
            let told = of(commit, "words", r#""avq-""#);
            assert!(
                told.ends_with(&format!(
                    "commit `{commit}`: give 7 to 40 digits of its hash, in lower case as git does"
                )),
                "{told}"
            );
        }
        assert!(of("bda6a64b", " ", r#""avq-""#).ends_with("say what it did, as `what`"));
        for results in ["", r#""avq-", """#] {
            assert!(of("bda6a64b", "words", results).contains("name the folders of results"), "{results}");
        }
        for text in ["", "{}", r#"[{ "commit": "bda6a64b", "why": "words" }]"#] {
            assert!(told(text).contains("harmless.json: "), "{text}");
        }
        std::fs::remove_dir_all(&root).unwrap();
    }
}
