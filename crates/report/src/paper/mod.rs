//! Figures for papers: of a given width and font size, without a title, as SVG and as PDF with the font in
//! it, with colours that people with any common colour blindness can tell apart and marks that print in grey,
//! and the same numbers as CSV and as a LaTeX table.

mod canvas;
mod figure;
mod font;
mod pdf;
mod table;

pub use figure::{Chart, ChartAxis, ChartPoint, Drawn, Look, Panel, Series, Style, draw};
pub use table::{latex, numbers};
