//! Spans of distributed traces, and the critical paths of the requests that they record
//! (FIRM, dissertation 3.2.1 and 3.2.2).
//!
//! Layer 1: no I/O. Readers take anything that can be read (Jaeger and Zipkin v2 JSON, OTLP as
//! protobuf or JSON) and fill a [`SpanStore`]. [`CriticalPaths::analyse`] turns the store into
//! one execution history graph per request, corrects clocks, finds which children are parallel,
//! sequential or in the background, and adds up the critical paths per operation.
//!
//! Spans come from other programs, so nothing of them is trusted: memory has limits, no function
//! recurses over them, and whatever is dropped or repaired is counted in [`SpanDefects`].
#![forbid(unsafe_code)]

mod analysis;
mod call_tree;
mod comparison;
mod critical_path;
mod defects;
mod error;
mod graph;
mod names;
pub mod read;
mod report;
mod sequences;
mod span;
mod store;
mod time_range;

pub use analysis::{AnalysisOptions, CriticalPaths, Request, for_each_request};
pub use comparison::{OperationComparison, StepComparison, compare};
pub use critical_path::PathStep;
pub use defects::SpanDefects;
pub use error::{Error, Result};
pub use graph::{Node, RequestGraph, Workflow};
pub use names::NameId;
pub use report::{Latency, OperationReport, StepReport};
pub use span::{NewSpan, SpanKind};
pub use store::{OperationId, SpanLimits, SpanStore};
pub use time_range::TimeRange;
