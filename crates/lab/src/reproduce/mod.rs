//! The experiments of the papers, repeated: each prints what came out beside what was
//! published.

mod evaluation;
mod finding;
mod s_rl;
mod simppo;
mod spread;

pub use finding::{Cell, Finding, Line, Picture, Table};
pub use s_rl::{Isolated, Joint, PolicyFigures, SrlResult, SrlStudy, Together};
pub use simppo::{SimppoOptions, run_simppo, simppo_experiments};
pub use spread::Spread;
