//! What the Debian package holds, and what installing and purging it does, in a folder in place of a system:
//! the short form of `make package`, which installs it on a bare Debian 12.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

fn repository() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().unwrap()
}

fn said(output: &Output) -> String {
    String::from_utf8_lossy(&[&output.stdout[..], &output.stderr].concat()).into_owned()
}

fn weir(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_weir")).args(arguments).output().unwrap()
}

#[test]
fn manual_pages_and_completions_are_of_every_verb() {
    let folder = tempfile::tempdir().unwrap();
    let man = weir(&["man", folder.path().to_str().unwrap()]);
    assert!(man.status.success(), "{}", said(&man));
    let help = said(&weir(&["--help"]));
    let verbs =
        help.lines().skip_while(|line| *line != "Commands:").skip(1).take_while(|line| !line.is_empty());
    let verbs: Vec<&str> = verbs
        .filter(|line| line.starts_with("  ") && !line.starts_with("   "))
        .filter_map(|line| line.split_whitespace().next())
        .filter(|verb| *verb != "help")
        .collect();
    assert!(verbs.len() > 8, "{help}");
    let script = said(&weir(&["completions", "bash"]));
    for verb in verbs {
        let page = std::fs::read_to_string(folder.path().join(format!("weir-{verb}.1"))).unwrap();
        assert!(page.contains(".TH") && page.contains(".SH OPTIONS"), "{verb}: {page}");
        assert!(
            script.contains(&format!("weir__{verb}")) || script.contains(&format!("weir__subcmd__{verb}")),
            "{verb}"
        );
    }
    for shell in ["zsh", "fish"] {
        assert!(said(&weir(&["completions", shell])).contains("weir"));
    }
    let wrong = weir(&["completions", "csh"]);
    assert_eq!(wrong.status.code(), Some(2));
    let refused = weir(&["man", "/proc/no-such-folder"]);
    assert!(refused.status.code() == Some(1) && said(&refused).contains("Remedy"), "{}", said(&refused));
}

/// Everything in a folder, by its name in it.
fn listed(root: &Path) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    let mut folders = vec![root.to_path_buf()];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).unwrap().flatten() {
            let path = entry.path();
            if entry.file_type().unwrap().is_dir() {
                folders.push(path.clone());
            }
            found.insert(path.strip_prefix(root).unwrap().display().to_string());
        }
    }
    found
}

#[test]
fn a_package_is_installed_starts_nothing_and_is_purged_without_a_trace() {
    let name = "a_package_is_installed_starts_nothing_and_is_purged_without_a_trace";
    for program in ["cargo-deb", "dpkg-shlibdeps"] {
        if Command::new(program).arg("--version").output().is_err() {
            return println!("SKIPPED: {name}: `{program}` is not installed");
        }
    }
    // cargo-deb looks for the program where cargo puts it by default.
    if Path::new(env!("CARGO_BIN_EXE_weir")) != repository().join("target/debug/weir") {
        return println!("SKIPPED: {name}: `cargo-deb` is not installed for this folder of programs");
    }
    let folder = tempfile::tempdir().unwrap();
    let built =
        Command::new(repository().join("tools/package")).arg(folder.path()).arg("--tests").output().unwrap();
    assert!(built.status.success(), "{}", said(&built));
    let mut package = std::fs::read_dir(folder.path()).unwrap().flatten().map(|entry| entry.path());
    let package = package.find(|path| path.extension().is_some_and(|e| e == "deb")).unwrap();

    let root = folder.path().join("root");
    for part in ["var/lib/dpkg/info", "var/lib/dpkg/updates", "etc"] {
        std::fs::create_dir_all(root.join(part)).unwrap();
    }
    std::fs::write(root.join("var/lib/dpkg/status"), "").unwrap();
    std::fs::write(root.join("var/lib/dpkg/available"), "").unwrap();
    let dpkg = |arguments: &[&str]| {
        let output = Command::new("dpkg")
            .arg(format!("--root={}", root.display()))
            .args(["--force-script-chrootless", "--force-depends", "--force-not-root", "--log=/dev/null"])
            .args(arguments)
            .output()
            .unwrap();
        assert!(output.status.success(), "{arguments:?}: {}", said(&output));
    };
    let without_dpkg = |all: BTreeSet<String>| {
        all.into_iter().filter(|path| !path.starts_with("var/lib/dpkg")).collect::<BTreeSet<_>>()
    };
    let before = without_dpkg(listed(&root));
    let package = package.to_str().unwrap();
    dpkg(&["--install", package]);
    let installed = listed(&root);
    for file in [
        "usr/bin/weir",
        "usr/lib/systemd/system/weir@.service",
        "usr/lib/systemd/system/weir-upf@.service",
        "usr/lib/systemd/system/weir-steer@.service",
        "etc/default/weir",
        "etc/weir/example.toml",
        "etc/weir/run",
        "usr/share/man/man1/weir.1.gz",
        "usr/share/man/man1/weir-run.1.gz",
        "usr/share/man/man1/weir-ctl-policy.1.gz",
        "usr/share/bash-completion/completions/weir",
        "usr/share/zsh/vendor-completions/_weir",
        "usr/share/fish/vendor_completions.d/weir.fish",
        "usr/share/doc/weir/copyright",
        "usr/share/doc/weir/docs/install.md",
        "usr/share/doc/weir/data/scenarios/traces/recorded/README.md",
    ] {
        assert!(installed.contains(file), "{file}: {installed:?}");
    }
    // What the README links to is there, and what the help tells to begin with works.
    let documents = root.join("usr/share/doc/weir");
    let text = std::fs::read_to_string(documents.join("README.md")).unwrap();
    let links = text.split("](").skip(1).filter_map(|rest| rest.split([')', '#']).next());
    let dead: Vec<&str> = links.filter(|link| !documents.join(link).exists()).collect();
    assert!(dead.is_empty() && text.contains("]("), "{dead:?}");
    for scenario in ["data/scenarios/demo.toml", "data/scenarios/vaqm_cell_strong.toml"] {
        let checked = weir(&["check", documents.join(scenario).to_str().unwrap()]);
        assert!(checked.status.success(), "{}", said(&checked));
    }
    assert!(
        !installed.iter().any(|path| path.starts_with("run/weir") || path.contains(".wants")),
        "{installed:?}"
    );
    // A unit that somebody enabled, and a configuration of their own.
    let wants = root.join("etc/systemd/system/multi-user.target.wants");
    std::fs::create_dir_all(&wants).unwrap();
    std::fs::write(wants.join("weir@home.service"), "").unwrap();
    std::fs::write(root.join("etc/weir/run/home.toml"), "").unwrap();
    dpkg(&["--install", package]);
    assert!(root.join("etc/weir/run/home.toml").exists(), "an upgrade keeps configurations");
    dpkg(&["--remove", "weir"]);
    assert!(!root.join("usr/bin/weir").exists() && root.join("etc/weir/run/home.toml").exists());
    dpkg(&["--purge", "weir"]);
    let folders_of_others =
        ["etc/systemd", "etc/systemd/system", "etc/systemd/system/multi-user.target.wants", "etc/default"];
    let left: Vec<String> = without_dpkg(listed(&root))
        .difference(&before)
        .filter(|path| path.contains("weir") || !folders_of_others.contains(&path.as_str()))
        .cloned()
        .collect();
    assert_eq!(left, [] as [String; 0]);
}

#[test]
fn what_the_package_configures_is_valid() {
    let example = repository().join("data/package/example.toml");
    let checked = weir(&["check", example.to_str().unwrap()]);
    assert!(checked.status.success(), "{}", said(&checked));
    // Units start the verbs that are there, with options that they have.
    for (unit, verb) in [("weir@", "run"), ("weir-steer@", "steer"), ("weir-upf@", "upf")] {
        let text =
            std::fs::read_to_string(repository().join(format!("data/package/{unit}.service"))).unwrap();
        let start = text.lines().find_map(|line| line.strip_prefix("ExecStart=")).unwrap();
        let words: Vec<&str> = start.split_whitespace().collect();
        assert_eq!(words[..2], ["/usr/bin/weir", verb]);
        let help = said(&weir(&[verb, "--help"]));
        let options = text.lines().filter(|line| line.starts_with("Environment=WEIR")).chain([start]);
        for option in options.flat_map(str::split_whitespace).filter_map(|word| word.split('=').next_back()) {
            assert!(!option.starts_with("--") || help.contains(option), "{unit}: {option}");
        }
        for asked in [
            "Type=notify",
            "WatchdogSec=",
            "Restart=on-failure",
            "NoNewPrivileges=yes",
            "ProtectSystem=strict",
        ] {
            assert!(text.contains(asked), "{unit}: {asked}");
        }
    }
}

/// What the container file says of capabilities, beside the unit that it names.
#[test]
fn the_container_has_the_capabilities_of_the_unit() {
    let read = |file: &str| std::fs::read_to_string(repository().join(file)).unwrap();
    // The words of one line behind these.
    let line = |file: &str, words: &str| -> String {
        let text = read(file);
        text.split(words)
            .nth(1)
            .unwrap_or_else(|| panic!("no {words:?}: {text}"))
            .lines()
            .next()
            .unwrap()
            .into()
    };
    let unit = line("data/package/weir@.service", "\nCapabilityBoundingSet=CAP_");
    let unit: BTreeSet<&str> = unit.split(" CAP_").collect();
    let container = line("Containerfile", "--cap-drop all --cap-add ");
    let container: BTreeSet<&str> = container.split(' ').next().unwrap().split(',').collect();
    assert!(unit.len() > 10 && unit.contains("CHOWN"), "{unit:?}");
    assert_eq!(container, unit);
}
