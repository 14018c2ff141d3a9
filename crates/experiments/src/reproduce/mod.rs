//! The experiments of the papers, repeated: each prints what came out beside what was
//! published.

mod aware;
mod evaluation;
mod firm;
mod flash;
mod muserve;
mod s_rl;
mod simppo;

pub use aware::{AwareOptions, aware_experiments, run_aware};
pub use firm::{FirmOptions, firm_experiments, firm_reads_data, run_firm};
pub use flash::{FlashOptions, flash_experiments, flash_reads_data, run_flash};
pub use muserve::{MuserveOptions, muserve_experiments, muserve_reads_data, run_muserve};
pub use s_rl::{Isolated, Joint, PolicyFigures, SrlResult, SrlStudy, Together};
pub use simppo::{SimppoOptions, run_simppo, simppo_experiments};

/// A call that cannot be met.
fn refused_call(key: &str, value: &str, expected: impl Into<String>) -> homeostat_lab::Error {
    homeostat_lab::Error::OutOfRange {
        key: key.to_owned(),
        value: value.to_owned(),
        source_text: "the command line".to_owned(),
        expected: expected.into(),
    }
}
