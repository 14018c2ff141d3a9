//! Runs compared, and one self-contained HTML page about runs, an experiment or critical paths: it
//! loads nothing, and is readable without JavaScript, on paper, on a phone and in the dark.
//!
//! Pictures are inline SVG whose horizontal positions are percentages, so that they fill any
//! width while their letters keep their size. Every text that comes from a file is escaped.
#![forbid(unsafe_code)]

mod additions;
mod axis;
pub mod compare;
mod costs;
mod critical_path_page;
mod decisions;
mod document;
mod finding;
mod finding_page;
mod finding_table;
mod flame;
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

pub use additions::Additions;
pub use critical_path_page::{CriticalPathPage, write_critical_paths};
pub use finding::{Cell, Finding, Line, Picture, Table};
pub use finding_page::write_finding;
pub use page::{write_report, write_report_with};
pub use spread::Spread;
