//! A model of function populations: it is fitted to traces and sampled, and its samples are
//! compared with real traces by summary statistics.

mod azure_2019;
mod figures;
mod fit;
mod model;
mod quantiles;
mod random_row;
mod rhythm;
mod summary;

pub use figures::FunctionFigures;
pub use fit::ModelFit;
pub use model::{ClockPeriod, DurationModel, FunctionTraffic, RandomBand, TrafficModel};
pub use quantiles::Quantiles;
pub use rhythm::Rhythm;
pub use summary::{Distance, Spread, TraceFigures, TraceSummary, distance};
