//! Populations of functions without a trace: a model of how functions are called, drawn from
//! and fitted to traces, and the figures by which a made trace and a real one are compared.

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
