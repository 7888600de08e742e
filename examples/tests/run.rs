//! Every example runs to its end, and stays below 80 lines.

#[path = "../own_aqm.rs"]
mod own_aqm;
#[path = "../own_congestion_control.rs"]
mod own_congestion_control;
#[path = "../round_trip_times.rs"]
mod round_trip_times;
#[path = "../steer_another_queue.rs"]
mod steer_another_queue;

#[test]
fn own_aqm() {
    own_aqm::main();
}

#[test]
fn own_congestion_control() {
    own_congestion_control::main();
}

#[test]
fn round_trip_times() {
    round_trip_times::main();
}

#[test]
fn steer_another_queue() {
    steer_another_queue::main();
}

#[test]
fn examples_are_short() {
    for file in std::fs::read_dir(env!("CARGO_MANIFEST_DIR")).unwrap().flatten() {
        if file.path().extension().is_some_and(|e| e == "rs") {
            let lines = std::fs::read_to_string(file.path()).unwrap().lines().count();
            assert!(lines < 80, "{} has {lines} lines", file.path().display());
        }
    }
}
