//! The tests of `weir-cli` that need real links, in one program, which links once.

mod alarms;
#[path = "../../../operate/tests/browser/mod.rs"]
mod browser;
#[path = "../common/mod.rs"]
mod common;
mod control;
mod customers;
mod devices;
mod doctor;
mod dscp;
mod flent;
mod handshake;
mod hostile;
mod in_kernel;
mod lab_control;
mod live;
mod log;
mod many;
mod privileges;
mod queues;
mod reproduce;
mod run;
mod sense;
mod service;
#[path = "../../../lab/tests/skipped/mod.rs"]
mod skipping;
mod steer;
mod told;
mod upf;
mod upstream;
mod viewers;
mod wire;
