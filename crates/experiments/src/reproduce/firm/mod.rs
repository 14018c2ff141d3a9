//! The experiments of chapter 3 of the dissertation, on published measurements.

mod case;
mod leave_one_out;
mod nezha;
mod petshop;
mod real_faults;
mod sock_shop;

use std::path::PathBuf;

use homeostat_lab::{Error, Result};
use homeostat_report::Finding;

/// What to run on.
#[derive(Debug, Clone)]
pub struct FirmOptions {
    /// The directory with the published data, a folder per data set.
    pub data: PathBuf,
}

const REAL_FAULTS: &str = "firm/real-faults";

/// The names of all experiments with what they ask.
pub fn firm_experiments() -> impl Iterator<Item = (&'static str, &'static str)> {
    let asks = "the component at fault in three published systems, by spans and metrics";
    std::iter::once((REAL_FAULTS, asks))
}

/// Runs one experiment by name, one of [`firm_experiments`]; `progress` is called with what is
/// being done.
pub fn run_firm(
    name: &str,
    options: &FirmOptions,
    progress: &(dyn Fn(&str) + Sync),
) -> Result<Finding> {
    let Some((name, asks)) = firm_experiments().find(|(known, _)| *known == name) else {
        return Err(Error::OutOfRange {
            key: "experiment".to_owned(),
            value: name.to_owned(),
            source_text: "the command line".to_owned(),
            expected: format!("there is {REAL_FAULTS}"),
        });
    };
    let mut finding = real_faults::real_faults(&options.data, progress)?;
    finding.name = name.to_owned();
    finding.title = asks.to_owned();
    Ok(finding)
}
