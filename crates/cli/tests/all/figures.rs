//! The figures of the pages in `docs/algorithms` are what their scenarios draw.
//!
//! `WEIR_REGENERATE=1 cargo test -p weir-cli --test all figures` draws them anew.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// A page that a browser loads at once has no larger figures.
const SIZE_MAX: usize = 40_000;

fn here(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(path)
}

/// Whether `name` is a discipline, or an algorithm that users can choose.
fn is_published(name: &str) -> bool {
    struct Source;
    impl weir_aqm::Visitor for Source {
        type Output = &'static str;
        fn visit<A: weir_aqm::Algorithm>(self) -> &'static str {
            A::SOURCE
        }
    }
    weir_aqm::visit(name, Source) != Some("none")
}

#[test]
fn the_figures_are_what_the_smoke_scenarios_draw() {
    let folder = tempfile::tempdir().unwrap();
    let mut stale = Vec::new();
    for name in weir_aqm::names().iter().chain(weir_queue::names()).filter(|name| is_published(name)) {
        let (scenario, out) =
            (here(&format!("../../data/scenarios/{name}_smoke.toml")), folder.path().join(name));
        let ran =
            Command::new(env!("CARGO_BIN_EXE_weir")).arg("sim").arg(scenario).arg("--out").arg(&out).output();
        let ran = ran.unwrap();
        assert!(ran.status.success(), "{name}: {}", String::from_utf8_lossy(&ran.stderr));
        let drawn = fs::read(out.join("chart.svg")).unwrap();
        assert!(drawn.len() < SIZE_MAX, "the figure of {name} has {} bytes", drawn.len());
        let path = here(&format!("../../docs/algorithms/figures/{name}.svg"));
        if std::env::var_os("WEIR_REGENERATE").is_some() {
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(&path, &drawn).unwrap();
        }
        if fs::read(&path).unwrap_or_default() != drawn {
            stale.push(path);
        }
    }
    let remedy = "if that is meant: WEIR_REGENERATE=1 cargo test -p weir-cli --test all figures";
    assert!(stale.is_empty(), "{stale:?} are not up to date; {remedy}");
}
