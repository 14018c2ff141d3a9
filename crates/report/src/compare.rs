//! Runs side by side: means with intervals, and differences that are called better or worse
//! only where their interval excludes zero.
//!
//! Simulations are paired: two policies met the same requests on the same seed, so the
//! difference is taken seed by seed. Agents in training have nothing in common, and their
//! returns are compared by Welch's interval.

mod difference;
mod format;
mod metric;
mod opened;
mod record;
mod runs;
mod setting_difference;
mod simulator_settings;

use std::path::PathBuf;

use homeostat_lab::{Error, Result, Summary};
use homeostat_simulate::{Figures, FinishedSimulation, SimulationOutcome};

pub use difference::{Difference, Verdict};
pub use format::{compact, signed, with_interval};
pub(crate) use format::{digits_of, in_digits};
pub use metric::{Direction, Metric, OfFigures};
pub(crate) use opened::unusable;
pub use opened::{OpenedRun, TrainingRun};
pub use runs::OpenedRuns;
pub use setting_difference::SettingDifference;
pub(crate) use simulator_settings::SimulatorSettings;

/// Several runs of one kind, each against the same one.
#[derive(Debug, Clone)]
pub struct Comparison {
    /// What the runs were.
    pub kind: RunKind,
    /// The place of the run that the others are compared with.
    pub baseline: usize,
    /// The runs, in the order in which they were given.
    pub runs: Vec<ComparedRun>,
    /// Settings in which the simulated systems of the runs differ; none in a fair comparison.
    pub setting_differences: Vec<SettingDifference>,
}

/// What a run was.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RunKind {
    /// Policies were simulated; figures are over seeds.
    Simulation,
    /// Agents were trained; figures are over agents.
    Training,
}

/// One run among others.
#[derive(Debug, Clone)]
pub struct ComparedRun {
    /// Its policy or algorithm; with its directory where several have the same.
    pub label: String,
    /// Its directory.
    pub path: PathBuf,
    /// Seeds or agents behind its figures.
    pub trials: usize,
    /// Seeds that it shares with the baseline.
    pub common: usize,
    /// Its figures.
    pub figures: Vec<(&'static Metric, Summary)>,
    /// How it differs from the baseline; nothing for the baseline itself.
    pub differences: Vec<Difference>,
}

/// Which figures of simulations are compared.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scope {
    /// All functions together.
    Total,
    /// The function with this number.
    Function(usize),
}

impl Comparison {
    /// Opens nothing and refuses nothing but runs of two kinds, or fewer than two.
    pub fn new(runs: &[OpenedRun], baseline: usize) -> Result<Self> {
        if runs.len() < 2 {
            let reason = "there is only one run: add another to compare it with".to_owned();
            return Err(Error::Incomparable { reason });
        }
        let simulations: Vec<&FinishedSimulation> =
            runs.iter().filter_map(OpenedRun::simulation).collect();
        let trainings: Vec<&TrainingRun> = runs.iter().filter_map(OpenedRun::training).collect();
        match (simulations.as_slice(), trainings.as_slice()) {
            (simulations, []) => Ok(Self::of_simulations(simulations, baseline, Scope::Total)
                .expect("all functions together are always there")),
            ([], trainings) => Ok(Self::of_trainings(trainings, baseline)),
            ([simulation, ..], [training, ..]) => Err(Error::Incomparable {
                reason: format!(
                    "{} is a simulation and {} is a training run: compare runs of one kind, or simulate the policy with homeostat sim {} --policy {}",
                    simulation.path.display(),
                    training.path.display(),
                    SimulatorSettings::of_run(&simulation.path).prefix,
                    training.path.display(),
                ),
            }),
        }
    }

    /// Simulations by common seeds. Nothing if the scope is a function that the baseline does
    /// not have; runs without it are left out.
    pub(crate) fn of_simulations(
        runs: &[&FinishedSimulation],
        baseline: usize,
        scope: Scope,
    ) -> Option<Self> {
        let trials = |run: &FinishedSimulation| -> Vec<(u64, Figures)> {
            let of = |outcome: &SimulationOutcome| Some((outcome.seed, scope.figures(outcome)?));
            run.outcomes.iter().filter_map(of).collect()
        };
        let base = trials(runs[baseline]);
        if base.is_empty() {
            return None;
        }
        let labels = labels(runs.iter().map(|run| (run.facts.policy.as_str(), &run.path)));
        let compared = runs.iter().zip(labels).enumerate().map(|(place, (run, label))| {
            let own = trials(run);
            let pairs: Vec<(&Figures, &Figures)> = own
                .iter()
                .filter_map(|(seed, figures)| {
                    let same = base.iter().find(|(other, _)| other == seed);
                    same.map(|(_, other)| (figures, other))
                })
                .collect();
            let figures = Metric::SIMULATION.iter().filter_map(|(metric, of)| {
                let values: Vec<f64> = own.iter().map(|(_, figures)| of(figures)).collect();
                Some((metric, Summary::of(&values)?))
            });
            let differences = Metric::SIMULATION.iter().filter_map(|(metric, of)| {
                let differences: Vec<f64> =
                    pairs.iter().map(|(own, other)| of(own) - of(other)).collect();
                let is_wanted = metric.is_compared && place != baseline;
                is_wanted.then(|| Difference::paired(metric, &differences))?
            });
            ComparedRun {
                label,
                path: run.path.clone(),
                trials: own.len(),
                common: pairs.len(),
                figures: figures.collect(),
                differences: differences.collect(),
            }
        });
        Some(Self {
            kind: RunKind::Simulation,
            baseline,
            runs: compared.collect(),
            setting_differences: SettingDifference::of_simulations(runs),
        })
    }

    /// Trainings by the last returns of their agents.
    pub(crate) fn of_trainings(runs: &[&TrainingRun], baseline: usize) -> Self {
        let base = Summary::of(&runs[baseline].returns);
        let labels = labels(runs.iter().map(|run| (run.algorithm.as_str(), &run.path)));
        let compared = runs.iter().zip(labels).enumerate().map(|(place, (run, label))| {
            let own = Summary::of(&run.returns);
            let differences = match (own, base) {
                (Some(own), Some(base)) if place != baseline => {
                    vec![Difference::welch(&Metric::RETURN, &own, &base)]
                }
                _ => Vec::new(),
            };
            ComparedRun {
                label,
                path: run.path.clone(),
                trials: run.returns.len(),
                common: 0,
                figures: own.map(|own| (&Metric::RETURN, own)).into_iter().collect(),
                differences,
            }
        });
        Self {
            kind: RunKind::Training,
            baseline,
            runs: compared.collect(),
            setting_differences: SettingDifference::of_trainings(runs),
        }
    }

    /// Refuses runs on systems with different settings.
    pub fn refuse_different_settings(&self) -> Result<()> {
        if self.setting_differences.is_empty() {
            return Ok(());
        }
        let settings: Vec<String> =
            self.setting_differences.iter().map(ToString::to_string).collect();
        Err(Error::Incomparable {
            reason: format!(
                "the runs have different settings: {}; run them with the same, or compare them with --anyway",
                settings.join("; ")
            ),
        })
    }
}

impl Scope {
    fn figures(self, outcome: &SimulationOutcome) -> Option<Figures> {
        match self {
            Self::Total => Some(outcome.total),
            Self::Function(number) => {
                let functions = &outcome.functions;
                let function = functions.iter().find(|function| function.number == number);
                function.map(|function| function.figures)
            }
        }
    }
}

/// Names that tell the runs apart.
pub(crate) fn labels<'a>(
    runs: impl Iterator<Item = (&'a str, &'a PathBuf)> + Clone,
) -> Vec<String> {
    let name_runs = runs.clone();
    let label = move |(name, path): (&str, &PathBuf)| {
        let same = name_runs.clone().filter(|(other, _)| *other == name).count();
        if same < 2 {
            return name.to_owned();
        }
        let directory = path.file_name().map_or_else(
            || path.display().to_string(),
            |directory| directory.to_string_lossy().into_owned(),
        );
        format!("{name} ({directory})")
    };
    runs.map(label).collect()
}

#[cfg(test)]
mod tests;
