//! One file for each verb.

pub mod check;
pub mod doctor;
pub mod explain;
pub mod lab;
pub mod list;
pub mod reproduce;
pub mod run;
