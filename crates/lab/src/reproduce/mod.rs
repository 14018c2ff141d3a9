//! The experiments of the papers, repeated: each prints what came out beside what was
//! published.

mod s_rl;
mod spread;

pub use s_rl::{Isolated, Joint, PolicyFigures, SrlResult, SrlStudy, Together};
pub use spread::Spread;
