//! Files as users write them: bad ones with the messages they give, good ones, and the reference pages.
//!
//! Expected texts are rewritten with `WEIR_REGENERATE=1 cargo test -p weir-config`.

use std::fs;
use std::path::{Path, PathBuf};
use weir_config::{
    Document, Embedded, Errors, NetworkLink, PageFile, PlansFile, RunConfig, Scenario, SessionFile,
    SteerConfig, UpfConfig,
};

fn here(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(path)
}

fn toml_files(dir: &str) -> Vec<PathBuf> {
    let entries = fs::read_dir(here(dir)).unwrap().map(|e| e.unwrap().path());
    let mut files: Vec<PathBuf> = entries.filter(|p| p.extension().is_some_and(|e| e == "toml")).collect();
    files.sort();
    files
}

fn name(path: &Path) -> String {
    path.file_name().unwrap().to_string_lossy().into_owned()
}

/// Compares with the text in a file, or rewrites the file when asked to.
fn expect(path: &Path, text: &str) {
    if std::env::var_os("WEIR_REGENERATE").is_some() {
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }
    let expected = fs::read_to_string(path).unwrap_or_default();
    let hint = "if that is meant: WEIR_REGENERATE=1 cargo test -p weir-config";
    assert!(expected == text, "{} is not up to date; {hint}\n\n{text}", path.display());
}

fn errors_of(path: &Path) -> Errors {
    let (file, text) = (name(path), fs::read_to_string(path).unwrap());
    let refused = if file.starts_with("run_") {
        RunConfig::parse(&file, &text).err()
    } else {
        Scenario::parse(&file, &text).err()
    };
    refused.unwrap_or_else(|| panic!("{file} is not refused"))
}

#[test]
fn bad_files_are_refused_with_all_their_problems() {
    let files = toml_files("tests/bad");
    assert!(files.len() >= 30);
    for path in files {
        // A new algorithm must not change the expected texts.
        let told = errors_of(&path).to_string().replace(&weir_aqm::names().join(", "), "{algorithms}");
        expect(&path.with_extension("txt"), &format!("{told}\n"));
    }
}

#[test]
fn the_files_of_the_project_are_good_and_print_as_themselves() {
    let files = toml_files("../../data/scenarios");
    assert!(files.len() >= 9);
    for path in files {
        let scenario = Scenario::load(&path).unwrap_or_else(|e| panic!("{e}"));
        // Links in series without a way back are meant: their data alone meets queues.
        let is_meant = |warning: &String| warning.contains("pass no link");
        let warnings: Vec<_> = scenario.warnings().into_iter().filter(|w| !is_meant(w)).collect();
        assert_eq!(warnings, Vec::<String>::new(), "{}", path.display());
        // Paths of traces start at the folder of the file.
        let beside = path.with_file_name("printed");
        let beside = beside.to_str().unwrap();
        for point in scenario.expand() {
            let printed = point.scenario.to_toml();
            let again = Scenario::parse(beside, &printed).unwrap_or_else(|e| panic!("{e}\n{printed}"));
            assert_eq!(again, point.scenario);
        }
        let again = Scenario::parse(beside, &scenario.to_toml()).unwrap();
        assert_eq!(again, scenario);
        assert_eq!(again.to_toml(), scenario.to_toml());
    }
}

/// The names that users can choose in a list of algorithms: what stands in no paper is there for tests.
fn published() -> Vec<&'static str> {
    struct IsPublished;
    impl weir_aqm::Visitor for IsPublished {
        type Output = bool;
        fn visit<A: weir_aqm::Algorithm>(self) -> bool {
            A::SOURCE != "none"
        }
    }
    let published = |name: &&str| weir_aqm::visit(name, IsPublished) == Some(true);
    weir_aqm::names().iter().copied().filter(published).collect()
}

#[test]
fn every_algorithm_and_discipline_has_a_smoke_scenario() {
    let load = |name: &str| {
        let path = here(&format!("../../data/scenarios/{name}_smoke.toml"));
        Scenario::load(&path).unwrap_or_else(|e| panic!("{e}"))
    };
    // One that manages a queue behind it stands at another link than the first, whose chart is drawn.
    for algorithm in published() {
        let at = |link: &NetworkLink| link.aqm.name == algorithm;
        assert!(load(algorithm).network().links.iter().any(at), "{algorithm}");
    }
    for discipline in weir_queue::names() {
        assert_eq!(load(discipline).queue.discipline, *discipline);
    }
}

/// Between these lines a page says what its declaration says.
const GENERATED: [&str; 2] = ["<!-- generated -->\n", "<!-- end of generated -->\n"];

/// What the page of an algorithm misses, or has in the wrong place, with the remedy.
fn misses(name: &str, page: &str) -> Option<String> {
    let figure = format!("![{name} over time](figures/{name}.svg)");
    let parts =
        ["# ", "**When to use it.** ", &figure, "## Law", "## Parameters", GENERATED[0].trim(), "## Source"];
    let all = parts.map(|part| format!("`{}`", part.trim_end()));
    let order = format!("its parts are lines that begin with, in this order, {}", all.join(", "));
    let mut before: Option<(&str, usize)> = None;
    for part in parts.into_iter().chain([GENERATED[1].trim()]) {
        let place = match page.starts_with(part) {
            true => 0,
            false => match page.find(&format!("\n{part}")) {
                Some(place) => place + 1,
                None => {
                    return Some(format!(
                        "no line begins with `{}`. Remedy: add one; {order}",
                        part.trim_end()
                    ));
                }
            },
        };
        if part == parts[0] && place > 0 {
            return Some(format!("its first line is no title. Remedy: begin with `# `; {order}"));
        }
        // The end of what is generated follows its beginning, wherever the source stands.
        let earlier = if part == GENERATED[1].trim() {
            page.find(GENERATED[0]).map(|at| (parts[5], at))
        } else {
            before
        };
        if let Some((other, _)) = earlier.filter(|(_, at)| *at > place) {
            let (part, other) = (part.trim_end(), other.trim_end());
            return Some(format!("`{part}` stands before `{other}`. Remedy: move it behind; {order}"));
        }
        before = Some((part, place));
    }
    None
}

#[test]
fn a_page_that_lacks_a_part_is_told_what_to_do() {
    let [start, end] = GENERATED;
    let page = |law: &str, rest: &str| {
        format!(
            "# Ramp\n\n**When to use it.** Here.\n\n![ramp over time](figures/ramp.svg)\n\n{law}\n## Parameters\n{start}{end}\n{rest}"
        )
    };
    let told = |law: &str, rest: &str| misses("ramp", &page(law, rest)).unwrap_or_default();
    assert_eq!(told("## Law\n", "## Source\nNobody.\n"), "");
    let all = "in this order, `#`, `**When to use it.**`, `![ramp over time](figures/ramp.svg)`, `## Law`, `## Parameters`";
    let lacks = told("", "## Source\n");
    assert!(
        lacks.starts_with("no line begins with `## Law`. Remedy: add one") && lacks.contains(all),
        "{lacks}"
    );
    let behind = told("", "## Source\n\n## Law\n");
    assert!(behind.starts_with("`## Parameters` stands before `## Law`. Remedy: move it behind"), "{behind}");
    assert!(misses("ramp", "Ramp\n# Ramp\n").unwrap().starts_with("its first line is no title"));
}

#[test]
fn every_algorithm_and_discipline_has_a_page_with_its_parameters() {
    for name in published().iter().chain(weir_queue::names()) {
        let path = here(&format!("../../docs/algorithms/{name}.md"));
        let page = fs::read_to_string(&path).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
        if let Some(told) = misses(name, &page) {
            panic!("{}: {told}", path.display());
        }
        let [start, end] = GENERATED.map(|line| page.find(line).expect("it was looked for"));
        let parameters = weir_config::pages::parameters(name).expect("it is in a list");
        expect(&path, &format!("{}{}{parameters}{}", &page[..start], GENERATED[0], &page[end..]));
    }
}

#[test]
fn the_reference_pages_are_up_to_date() {
    expect(&here("../../docs/scenario.md"), &Scenario::reference());
    expect(&here("../../docs/config.md"), &RunConfig::reference());
    expect(&here("../../docs/plans.md"), &PlansFile::reference());
    expect(&here("../../docs/page-file.md"), &PageFile::reference());
    expect(&here("../../docs/upf-config.md"), &UpfConfig::reference());
    expect(&here("../../docs/upf-sessions.md"), &SessionFile::reference());
    let path = here("../../docs/libweir.md");
    let page = fs::read_to_string(&path).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
    let [start, end] = GENERATED.map(|line| page.find(line).expect("the page has the place for its keys"));
    let keys = Embedded::reference();
    expect(&path, &format!("{}{}{keys}{}", &page[..start], GENERATED[0], &page[end..]));
    expect(&here("../../docs/steer-config.md"), &SteerConfig::reference());
}

#[test]
fn files_that_cannot_be_read_are_refused() {
    let told = |e: Errors| e.to_string();
    assert!(
        told(Document::load("/nonexistent/x.toml").unwrap_err())
            .starts_with("/nonexistent/x.toml: cannot be")
    );
    let large = " ".repeat(weir_config::MAX_FILE_BYTES + 1);
    assert!(told(Document::parse("large.toml", &large).unwrap_err()).contains("has more than 1048576 bytes"));
    assert!(Document::parse("fits.toml", &large[1..]).is_ok());
    let path = std::env::temp_dir().join(format!("weir-config-{}.toml", std::process::id()));
    fs::write(&path, b"title = \"x\"\n\xff\n").unwrap();
    let refused = told(Document::load(&path).unwrap_err());
    fs::remove_file(&path).unwrap();
    assert!(refused.ends_with(":2: is not UTF-8 text; save the file as UTF-8"), "{refused}");
}
