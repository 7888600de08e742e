//! What a reader sees of a run: tables for the terminal, CSV files, SVG charts and one HTML page.
//!
//! Everything is drawn from a [`Recording`](weir_measure::result::Recording), which every arm fills in the
//! same way. All output is deterministic (the same input gives the same bytes), needs no network, and
//! treats names and titles as foreign text that is escaped for wherever it lands. Data with holes (NaN,
//! infinities, empty recordings) is drawn as holes.
//!
//! ```
//! // The points that a chart keeps of a long series have its extremes.
//! let series: Vec<f64> = (0..1000).map(|i| if i == 500 { 9.0 } else { 1.0 }).collect();
//! assert!(weir_report::keep_extremes(&series, 100).contains(&500));
//! ```
#![forbid(unsafe_code)]
#![cfg_attr(not(test), deny(clippy::unwrap_used))]

mod axis;
pub mod chart;
pub mod columns;
pub mod csv;
mod downsample;
mod escape;
mod file_set;
mod files;
pub mod flent;
pub mod html;
pub mod measured;
mod number;
mod panels;
pub mod paper;
pub mod statistics;
mod svg;
pub mod sweep;
pub mod table;
mod tally;

pub use downsample::keep_extremes;
pub use escape::{markdown, terminal};
pub use file_set::{FileSet, SetFile, remove_leftovers};
pub use files::{WriteError, read_regular, write_atomic, write_chosen};
pub use panels::Policy;
pub use tally::{Judged, outcome, tally};
