//! Several opened runs, one of them the baseline.

use std::path::{Path, PathBuf};

use homeostat_lab::{Error, Result};
use homeostat_simulate::FinishedSimulation;

use super::{Comparison, OpenedRun, Scope};

/// Runs to compare with one of them.
#[derive(Debug, Clone)]
pub struct OpenedRuns {
    runs: Vec<OpenedRun>,
    baseline: usize,
}

impl OpenedRuns {
    /// Reads every directory. The baseline is the first, or the one that is named; one that is
    /// named and not among the others comes before them.
    pub fn open(paths: &[PathBuf], baseline: Option<&Path>) -> Result<Self> {
        let mut paths = paths.to_vec();
        let baseline = match baseline {
            None => 0,
            Some(path) => paths.iter().position(|other| other == path).unwrap_or_else(|| {
                paths.insert(0, path.to_owned());
                0
            }),
        };
        let runs = paths.iter().map(|path| OpenedRun::open(path)).collect::<Result<Vec<_>>>()?;
        Ok(Self { runs, baseline })
    }

    /// All functions or agents of each run together.
    pub fn total(&self) -> Result<Comparison> {
        Comparison::new(&self.runs, self.baseline)
    }

    /// A comparison for each function of the baseline, with its name.
    pub fn per_function(&self) -> Result<Vec<(String, Comparison)>> {
        let simulations: Vec<&FinishedSimulation> =
            self.runs.iter().filter_map(OpenedRun::simulation).collect();
        if simulations.is_empty() {
            let reason =
                "training runs have no functions: omit --per-function, or compare simulations"
                    .to_owned();
            return Err(Error::Incomparable { reason });
        }
        let outcomes = simulations[self.baseline].outcomes.iter();
        let functions = outcomes.flat_map(|outcome| &outcome.functions);
        let mut names: Vec<(usize, &str)> =
            functions.map(|function| (function.number, function.name.as_str())).collect();
        names.sort();
        names.dedup();
        let scopes = names.into_iter().filter_map(|(number, name)| {
            let scope = Scope::Function(number);
            let comparison = Comparison::of_simulations(&simulations, self.baseline, scope)?;
            Some((name.to_owned(), comparison))
        });
        Ok(scopes.collect())
    }
}
