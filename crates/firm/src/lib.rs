//! FIRM (dissertation, chapter 3): find the component that causes SLO violations.
//!
//! Layer 3: no I/O. [`features`] has the two features of Alg. 3.2, relative importance and
//! congestion intensity; [`path_components`] computes them of the spans of a window, and [`Extractor`]
//! classifies them by an [`IncrementalSvm`]. [`SpanProfile`] and [`deviation`]
//! compare a window with a reference: own time, network time and metrics in one robust unit, so
//! that [`rank`] can order components by their strongest evidence. [`exclusive_excess`] removes
//! from a caller what its callees explain.
#![forbid(unsafe_code)]

pub mod features;

mod components;
mod error;
mod excess;
mod extractor;
mod onset;
mod ranking;
mod robust;
mod span_profile;
mod statistics;
mod svm;

pub use components::{PathComponent, path_components};
pub use error::{Error, Result};
pub use excess::exclusive_excess;
pub use extractor::{ComponentFeatures, ComponentReference, Extractor};
pub use onset::estimate_onset;
pub use ranking::{Evidence, Ranked, Resource, rank, rank_by_spans};
pub use robust::{DeviationConfig, WindowSummary, deviation};
pub use span_profile::SpanProfile;
pub use statistics::{median, quantile};
pub use svm::{IncrementalSvm, RandomFourierFeatures, SvmConfig};
