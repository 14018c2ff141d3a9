//! One self-contained HTML page about runs, or about an experiment: no network, no fonts or scripts from elsewhere,
//! readable without JavaScript, on paper, on a phone and in the dark.
//!
//! Pictures are inline SVG whose horizontal positions are percentages, so that they fill any
//! width while their letters keep their size. Every text that comes from a file is escaped.
#![forbid(unsafe_code)]

mod axis;
pub mod compare;
mod costs;
mod decisions;
mod document;
mod finding;
mod finding_page;
mod finding_table;
mod function_dots;
mod headline;
mod key;
mod latency;
mod learning;
mod markup;
mod page;
mod picture;
mod played;
mod spread;
mod subject;
mod svg;
mod timeline;
mod windows;

pub use finding::{Cell, Finding, Line, Picture, Table};
pub use finding_page::write_finding;
pub use page::write_report;
pub use spread::Spread;
