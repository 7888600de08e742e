//! Charts as SVG text: they open in every browser and in print, in light and in dark.

mod compare;
mod figure;
mod frame;
pub(crate) mod plot;
mod series;

pub use compare::{Compared, Comparison, comparison};
pub use figure::{Figure, FigureClaim, FigurePoint, FigureQuantity, FigureSeries, figure};
pub use plot::{Look, Plot, PlotAxis, PlotPoint, PlotSeries, plot};
pub use series::{TimeSeriesOptions, time_series};
