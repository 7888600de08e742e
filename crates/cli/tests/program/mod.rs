//! What tests of the simulator's verbs share: the program, its files, small scenarios.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

pub const WEIR: &str = env!("CARGO_BIN_EXE_weir");

/// A link that two flows fill in no time.
pub const SMALL: &str = "title = \"small\"\nlink.rate = \"10Mbit/s\"\npath.rtt = \"20ms\"\naqm.name = \"codel\"\n\
    flows = [{ count = 2 }]\nrun.duration = \"3s\"\n";

/// More links than have a file of samples each.
pub const MANY_LINKS: &str = "title = \"Many\"\nlink = { rate = \"10Mbit/s\", buffer = \"50ms\" }\naqm.name = \"codel\"\n\
    network = { parking_lot = 21, delay = \"1ms\" }\nflows = [{ pairs = \"long\" }, { pairs = \"cross\" }]\n\
    run = { duration = \"2s\", sample = \"100ms\" }\n";

/// Writes a file of a folder; its path.
pub fn file(folder: &Path, name: &str, text: &str) -> PathBuf {
    let path = folder.join(name);
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(&path, text).unwrap();
    path
}

/// Runs the program to its end, with arguments between spaces.
pub fn weir(arguments: &str) -> Output {
    weir_in(Path::new("."), arguments)
}

/// The same in a folder.
pub fn weir_in(folder: &Path, arguments: &str) -> Output {
    let output = Command::new(WEIR).args(arguments.split_whitespace()).current_dir(folder).output().unwrap();
    assert!(!text(&output.stderr).contains("panicked"), "{output:?}");
    output
}

/// Runs the program, which must succeed; what it printed.
pub fn done(arguments: &str) -> String {
    let output = weir(arguments);
    assert_eq!(output.status.code(), Some(0), "weir {arguments}: {}", text(&output.stderr));
    text(&output.stdout)
}

/// Runs the program, which must refuse; what it said, in one line of single spaces.
pub fn refused(arguments: &str, status: i32) -> String {
    let output = weir(arguments);
    let told = text(&output.stderr);
    assert_eq!(output.status.code(), Some(status), "weir {arguments}: {told}");
    told.split_whitespace().collect::<Vec<_>>().join(" ")
}

pub fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// All files of a folder, by path.
pub fn tree(folder: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let mut files = BTreeMap::new();
    for path in fs::read_dir(folder).unwrap().map(|e| e.unwrap().path()) {
        let name = PathBuf::from(path.file_name().unwrap());
        if path.is_dir() {
            files.extend(tree(&path).into_iter().map(|(inner, bytes)| (name.join(inner), bytes)));
        } else {
            files.insert(name, fs::read(&path).unwrap());
        }
    }
    files
}
