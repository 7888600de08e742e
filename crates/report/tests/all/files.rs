//! CSV round trips and whole files.

use crate::common;

use std::path::{Path, PathBuf};

use weir_measure::result::LinkSample;
use weir_report::{FileSet, csv, remove_leftovers, write_atomic, write_chosen};

/// A folder of its own that goes away with the test.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Folder {
        let path = std::env::temp_dir().join(format!("weir-report-{}-{name}", std::process::id()));
        std::fs::create_dir_all(&path).expect("the folder can be made");
        Folder(path)
    }

    fn names(&self) -> Vec<String> {
        Folder::names_of(&self.0)
    }

    fn names_of(path: &Path) -> Vec<String> {
        let entries = std::fs::read_dir(path).expect("the folder can be read");
        let mut names: Vec<String> =
            entries.map(|e| e.expect("an entry").file_name().to_string_lossy().into_owned()).collect();
        names.sort();
        names
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

#[test]
fn tables_are_read_back_as_written() {
    let recording = common::tiny();
    let text = csv::link_samples(&recording.link_samples[0]);
    let header = "t_s,arrived_bps,delivered_bps,delay_mean_ms,delay_max_ms,backlog_bytes,setpoint_ms,drops,\
                  overflows,marks,table_state,virtual_backlog_bytes,virtual_rate_bps,virtual_empty,capacity_bps";
    assert_eq!(text.lines().next(), Some(header));
    assert_eq!(
        text.lines().nth(5),
        Some("5,100000000,98000000,,19,100000,10,1,0,0,1,0,0,0,100000000"),
        "NaN is empty"
    );
    let read = csv::read_link_samples(&text).expect("it reads");
    // NaN differs from itself, so the texts are compared.
    assert_eq!(format!("{read:?}"), format!("{:?}", recording.link_samples[0]));

    let read = csv::read_flow_samples(&csv::flow_samples(&recording.flow_samples)).expect("it reads");
    assert_eq!(format!("{read:?}"), format!("{:?}", recording.flow_samples));
    let read = csv::read_steering_events(&csv::steering_events(&recording.events)).expect("it reads");
    assert_eq!(format!("{read:?}"), format!("{:?}", recording.events));
    assert!(csv::read_link_samples(&csv::link_samples(&[])).expect("it reads").is_empty());
}

#[test]
fn of_the_samples_of_many_links_those_that_are_wanted_are_read() {
    let samples = &common::tiny().link_samples[0];
    let links = [("one", &samples[..3]), ("two", &samples[3..]), ("none", &[])];
    let text = csv::samples_of_links(links.iter().map(|(name, rows)| (*name, *rows)));
    let read = |text: &str, wanted: &[&str]| csv::read_samples_of_links(text, |name| wanted.contains(&name));
    let all = read(&text, &["two", "one", "none"]).expect("it reads");
    // NaN differs from itself, so the texts are compared.
    let expected = [("one", &samples[..3]), ("two", &samples[3..])];
    assert_eq!(format!("{all:?}"), format!("{expected:?}"));
    let two = read(&text, &["two"]).expect("it reads");
    assert_eq!((two.len(), two[0].1.len()), (1, samples.len() - 3));
    let cut = text.replace("two,4,", "two,");
    assert!(read(&cut, &["one"]).is_ok(), "what is not wanted is not looked at");
    let told = read(&cut, &["two"]).expect_err("a field is missing").to_string();
    assert_eq!(told, "CSV line 5: 14 fields where 15 belong");
    assert!(read("t_s\n", &[]).expect_err("it has another header").to_string().contains("`link,t_s,"));
}

#[test]
fn floating_point_is_exact_and_line_ends_may_be_foreign() {
    let sample = LinkSample { t_s: 0.1 + 0.2, arrived_bps: 1.0 / 3.0 * 1e10, ..LinkSample::default() };
    let text = csv::link_samples(&[sample]).replace('\n', "\r\n");
    let read = csv::read_link_samples(&text).expect("it reads");
    assert_eq!((read[0].t_s, read[0].arrived_bps), (sample.t_s, sample.arrived_bps));
}

#[test]
fn wrong_tables_are_refused_with_their_line() {
    let good = csv::flow_samples(&common::tiny().flow_samples);
    let told = |text: &str| csv::read_flow_samples(text).expect_err("it is wrong").to_string();
    assert!(told("").starts_with("CSV line 1: the header must be `t_s,flow"));
    assert!(told("t_s\n1\n").starts_with("CSV line 1"));
    assert_eq!(told(&good.replace("4,1,10", "4,x,10")), "CSV line 3: `flow` cannot be `x`");
    assert_eq!(told(&good.replace("4,1,10", "4,1")), "CSV line 3: 8 fields where 9 belong");
    assert_eq!(told(&(good + "\"")), "CSV line 6: a quoted field does not end");
}

#[test]
fn a_file_is_replaced_whole_and_nothing_else_is_left() {
    let folder = Folder::new("whole");
    let path = folder.0.join("result.csv");
    write_atomic(&path, "first").expect("it writes");
    write_atomic(&path, b"second").expect("it writes");
    assert_eq!(std::fs::read_to_string(&path).expect("it reads"), "second");
    assert_eq!(folder.names(), ["result.csv"]);
}

#[test]
fn a_failure_names_the_path_and_leaves_nothing() {
    let folder = Folder::new("failure");
    let missing = folder.0.join("missing").join("result.csv");
    let told = write_atomic(&missing, "x").expect_err("there is no folder").to_string();
    assert!(told.contains(missing.to_str().expect("a plain path")), "{told}");
    assert!(told.contains("does the folder exist"), "{told}");

    // A folder cannot be replaced by a file: the write succeeds, the rename does not.
    let taken = folder.0.join("taken");
    std::fs::create_dir(&taken).expect("the folder can be made");
    assert!(write_atomic(&taken, "x").is_err());
    assert_eq!(folder.names(), ["taken"]);

    let nameless = write_atomic(Path::new("/"), "x").expect_err("it has no name");
    assert!(nameless.to_string().contains("does not name a file"));
}

/// Unix alone has such files.
#[cfg(unix)]
#[test]
fn a_path_that_a_user_chose_stays_what_it_is() {
    use std::os::unix::fs::{FileTypeExt, PermissionsExt, symlink};
    let folder = Folder::new("chosen");
    let path = |name: &str| folder.0.join(name);
    let read = |name: &str| std::fs::read_to_string(path(name)).expect("it reads");

    write_chosen(path("page"), "first").expect("nothing is there");
    // Neither may a new text run as the owner of the old one.
    let private = std::fs::Permissions::from_mode(0o4640);
    std::fs::set_permissions(path("page"), private).expect("it is ours");
    symlink("page", path("link")).expect("a link can be made");
    write_chosen(path("link"), "second").expect("a link to a file");
    assert_eq!((read("page"), path("link").is_symlink()), ("second".into(), true));
    let mode = std::fs::metadata(path("page")).expect("it is there").permissions().mode();
    assert_eq!(mode & 0o7777, 0o640);

    symlink("nothing", path("dangling")).expect("a link can be made");
    let told = write_chosen(path("dangling"), "x").expect_err("a link to nothing").to_string();
    assert!(told.contains("dangling") && told.contains("the link names no file"), "{told}");
    assert!(path("dangling").is_symlink());

    let pipe = path("pipe");
    assert!(std::process::Command::new("mkfifo").arg(&pipe).status().expect("mkfifo").success());
    let reader = std::thread::spawn({
        let pipe = pipe.clone();
        move || std::fs::read_to_string(pipe)
    });
    write_chosen(&pipe, "third").expect("a pipe that is read");
    assert_eq!(reader.join().expect("it ends").expect("it reads"), "third");
    assert!(std::fs::metadata(&pipe).expect("it is there").file_type().is_fifo());

    symlink("/dev/null", path("null")).expect("a link can be made");
    write_chosen(path("null"), "x").expect("a device");
    assert!(std::fs::metadata("/dev/null").expect("it is there").file_type().is_char_device());

    std::fs::create_dir(path("taken")).expect("the folder can be made");
    symlink("taken", path("folder")).expect("a link can be made");
    for name in ["taken", "folder"] {
        let told = write_chosen(path(name), "x").expect_err("a folder").to_string();
        assert!(told.contains("it is a folder; name a file"), "{told}");
    }
    assert!(path("folder").is_symlink());
    assert_eq!(folder.names(), ["dangling", "folder", "link", "null", "page", "pipe", "taken"]);
}

#[test]
fn names_of_the_greatest_length_can_be_written() {
    let folder = Folder::new("long");
    let path = folder.0.join("n".repeat(255));
    write_atomic(&path, "x").expect("it writes");
    assert_eq!(folder.names().len(), 1);
}

/// Publishes files whose text is `text`; folders get a file of their own.
fn publish(folder: &Path, names: &[&str], text: &str) {
    let mut set = FileSet::new(folder);
    for name in names {
        match name.strip_suffix('/') {
            Some(inner) => {
                std::fs::create_dir_all(folder.join(inner)).expect("the folder can be made");
                publish(&folder.join(inner), &["inner.csv"], text);
                set.add_folder(inner);
            }
            None => set.add(*name, text).expect("it writes"),
        }
    }
    set.publish().expect("it is published");
}

#[test]
fn a_folder_holds_the_files_of_one_run_and_those_of_others() {
    let folder = Folder::new("set");
    std::fs::write(folder.0.join("notes.txt"), "mine").expect("it writes");
    publish(&folder.0, &["old.csv", "part/", "both.csv", "summary.json"], "first");
    std::fs::write(folder.0.join("part/notes.txt"), "mine").expect("it writes");
    publish(&folder.0, &["both.csv", "other/", "new.csv", "summary.json"], "second");
    let expected = [".weir-files", "both.csv", "new.csv", "notes.txt", "other", "part", "summary.json"];
    assert_eq!(folder.names(), expected);
    assert_eq!(Folder::names_of(&folder.0.join("part")), ["notes.txt"]);
    assert_eq!(std::fs::read_to_string(folder.0.join("both.csv")).expect("it reads"), "second");
    // A set without the folder that nobody else uses.
    publish(&folder.0, &["result.json"], "third");
    assert_eq!(folder.names(), [".weir-files", "notes.txt", "part", "result.json"]);
}

#[test]
fn a_set_that_is_not_published_changes_nothing() {
    let folder = Folder::new("unpublished");
    publish(&folder.0, &["a.csv", "summary.json"], "first");
    let mut set = FileSet::new(&folder.0);
    set.add("a.csv", "second").expect("it writes");
    let open = set.open("b.csv").expect("it opens");
    assert_eq!(folder.names().len(), 5, "{:?}", folder.names());
    drop((set, open));
    assert_eq!(folder.names(), [".weir-files", "a.csv", "summary.json"]);
    assert_eq!(std::fs::read_to_string(folder.0.join("a.csv")).expect("it reads"), "first");
}

#[test]
fn a_set_in_the_middle_of_being_published_does_not_look_whole() {
    let folder = Folder::new("middle");
    publish(&folder.0, &["a.csv", "blocked.csv", "table.csv"], "first");
    std::fs::remove_file(folder.0.join("blocked.csv")).expect("it goes");
    let mut set = FileSet::new(&folder.0);
    // A folder in the place of a file stops it there, as would a kill.
    set.add("b.csv", "second").expect("it writes");
    set.add("blocked.csv", "second").expect("it writes");
    set.add("summary.json", "second").expect("it writes");
    std::fs::create_dir(folder.0.join("blocked.csv")).expect("the folder can be made");
    assert!(set.publish().expect_err("it is in the way").to_string().contains("blocked.csv"));
    let names = folder.names();
    assert!(!names.iter().any(|name| name == "table.csv" || name == "summary.json"), "{names:?}");
    // The next run removes what the one before left, and what was there before that.
    std::fs::remove_dir(folder.0.join("blocked.csv")).expect("it goes");
    publish(&folder.0, &["summary.json"], "third");
    assert_eq!(folder.names(), [".weir-files", "summary.json"]);
    FileSet::withdraw(&folder.0, &["summary.json"]).expect("it is withdrawn");
    assert_eq!(folder.names(), [".weir-files", "summary.json"], "but for what is kept");
    FileSet::withdraw(&folder.0, &[]).expect("it is withdrawn");
    assert_eq!(folder.names(), [".weir-files"]);
}

#[test]
fn a_list_that_leads_elsewhere_is_not_followed() {
    let folder = Folder::new("elsewhere");
    let inner = folder.0.join("inner");
    std::fs::create_dir(&inner).expect("the folder can be made");
    std::fs::write(folder.0.join("mine.txt"), "mine").expect("it writes");
    std::fs::write(inner.join(".weir-files"), "../mine.txt\n/etc/hostname\n..\n../\n\n").expect("it writes");
    publish(&inner, &["summary.json"], "x");
    assert_eq!(folder.names(), ["inner", "mine.txt"]);
}

#[test]
fn what_a_killed_program_left_is_removed() {
    let folder = Folder::new("leftovers");
    let own = format!(".weir-{}-999999.tmp", std::process::id());
    // No process has the largest number.
    for name in [".weir-4294967295-0.tmp", &own, ".weir-mine.tmp", "a.tmp"] {
        std::fs::write(folder.0.join(name), "half").expect("it writes");
    }
    remove_leftovers(&folder.0);
    assert_eq!(folder.names(), [own.as_str(), ".weir-mine.tmp", "a.tmp"]);
}

#[test]
fn a_file_that_grows_is_taken_over_by_the_next_set() {
    let folder = Folder::new("growing");
    publish(&folder.0, &["old.csv", "summary.json"], "old");
    publish(&folder.0, &["rows.csv", "INCOMPLETE"], "head\n");
    assert_eq!(folder.names(), [".weir-files", "INCOMPLETE", "rows.csv"]);
    let mut rows =
        std::fs::OpenOptions::new().append(true).open(folder.0.join("rows.csv")).expect("it opens");
    std::io::Write::write_all(&mut rows, b"row\n").expect("it writes");
    let mut files = FileSet::new(&folder.0);
    files.keep("rows.csv");
    files.add("summary.json", "new").expect("it is staged");
    files.publish().expect("it is published");
    assert_eq!(folder.names(), [".weir-files", "rows.csv", "summary.json"]);
    assert_eq!(std::fs::read_to_string(folder.0.join("rows.csv")).expect("it is there"), "head\nrow\n");
    // It is one of the set now: the next one removes it.
    publish(&folder.0, &["summary.json"], "next");
    assert_eq!(folder.names(), [".weir-files", "summary.json"]);
}

#[test]
fn a_file_that_was_there_before_the_set_is_kept_by_it() {
    let folder = Folder::new("grown");
    FileSet::append(&folder.0, "rows.csv", "head\n").expect("it is written");
    let mut files = FileSet::new(&folder.0);
    files.keep("rows.csv");
    files.add("summary.json", "new").expect("it is staged");
    files.publish().expect("it is published");
    assert_eq!(folder.names(), [".weir-files", "rows.csv", "summary.json"]);
    assert_eq!(std::fs::read_to_string(folder.0.join("rows.csv")).expect("it is there"), "head\n");
    // The sign of a whole set is still the last one.
    FileSet::withdraw(&folder.0, &["rows.csv"]).expect("it is withdrawn");
    assert_eq!(folder.names(), [".weir-files", "rows.csv"]);
}

#[test]
fn files_of_others_are_told_from_those_of_a_set() {
    let folder = Folder::new("foreign");
    publish(&folder.0, &["a.csv", "summary.json"], "own");
    std::fs::write(folder.0.join("b.csv"), "mine").expect("it writes");
    std::fs::create_dir(folder.0.join("c.csv")).expect("the folder can be made");
    let names = ["a.csv", "b.csv", "c.csv", "d.csv", "summary.json"];
    assert_eq!(FileSet::foreign(&folder.0, &names), ["b.csv", "c.csv"]);
    // They stay, and so does the old set.
    let mut files = FileSet::new(&folder.0);
    ["b.csv", "summary.json"].iter().for_each(|name| files.add(*name, "new").expect("it is staged"));
    assert!(files.publish().expect_err("it would overwrite").to_string().contains("b.csv"));
    let text = |name: &str| std::fs::read_to_string(folder.0.join(name)).expect("it is there");
    assert_eq!((text("b.csv"), text("summary.json")), ("mine".into(), "own".into()));
    assert_eq!(folder.names(), [".weir-files", "a.csv", "b.csv", "c.csv", "summary.json"]);
}
