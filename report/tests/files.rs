//! CSV round trips and whole files.

mod common;

use std::path::{Path, PathBuf};

use weir_report::{csv, write_atomic};
use weir_scenario::result::LinkSample;

/// A folder of its own that goes away with the test.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Folder {
        let path = std::env::temp_dir().join(format!("weir-report-{}-{name}", std::process::id()));
        std::fs::create_dir_all(&path).expect("the folder can be made");
        Folder(path)
    }

    fn names(&self) -> Vec<String> {
        let entries = std::fs::read_dir(&self.0).expect("the folder can be read");
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
                  overflows,marks,table_state,virtual_backlog_bytes,virtual_rate_bps";
    assert_eq!(text.lines().next(), Some(header));
    assert_eq!(text.lines().nth(5), Some("5,100000000,98000000,,19,100000,10,1,0,0,1,0,0"), "NaN is empty");
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

#[test]
fn names_of_the_greatest_length_can_be_written() {
    let folder = Folder::new("long");
    let path = folder.0.join("n".repeat(255));
    write_atomic(&path, "x").expect("it writes");
    assert_eq!(folder.names().len(), 1);
}
