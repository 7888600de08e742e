//! The user plane without interfaces, on a virtual clock.

#[path = "plane/bearers.rs"]
mod bearers;
#[path = "plane/classifier.rs"]
mod classifier;
#[path = "plane/control.rs"]
mod control;
#[path = "plane/follows.rs"]
mod follows;
#[path = "plane/hostile.rs"]
mod hostile;
#[path = "plane/meters.rs"]
mod meters;
#[path = "plane/paths.rs"]
mod paths;
#[path = "plane/rates.rs"]
mod rates;
#[path = "plane/rig.rs"]
mod rig;
#[path = "plane/unresponsive.rs"]
mod unresponsive;
#[path = "plane/ways.rs"]
mod ways;
