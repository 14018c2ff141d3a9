//! What a report is about: the runs, read and compared.

use std::collections::BTreeMap;
use std::path::PathBuf;

use homeostat_lab::{Result, RunDirectory, Summary};
use homeostat_simulate::{FinishedSimulation, FunctionOutcome};
use homeostat_train::{Curve, read_curves};

use super::windows::{FunctionWindows, read_windows};
use crate::compare::{Comparison, OpenedRun, Scope, TrainingRun};

/// Functions that are shown over time at most; those with the most SLO violations.
const MAX_FUNCTIONS: usize = 24;

/// Everything that a report shows.
pub(super) struct Subject {
    /// The simulations, in the order in which they were given.
    pub(super) simulations: Vec<SimulatedRun>,
    /// Their comparison, if there are any.
    pub(super) played: Option<Comparison>,
    /// The two simulations with the fewest SLO violations, the better one last; nothing for one, or on
    /// systems with different settings.
    pub(super) closest: Option<Comparison>,
    /// The functions of the first simulation.
    pub(super) functions: Vec<FunctionSubject>,
    pub(super) trainings: Vec<TrainingRun>,
    /// Their comparison, if there are any.
    pub(super) trained: Option<Comparison>,
    /// Their learning curves.
    pub(super) curves: Vec<Curve>,
    /// The settings of every run: directory and text.
    pub(super) settings: Vec<(PathBuf, String)>,
}

/// A simulation with its windows.
pub(super) struct SimulatedRun {
    pub(super) label: String,
    pub(super) run: FinishedSimulation,
    pub(super) windows: BTreeMap<usize, FunctionWindows>,
}

/// One function.
pub(super) struct FunctionSubject {
    pub(super) number: usize,
    /// Its name; with its number where several have the same.
    pub(super) label: String,
    pub(super) slo_ms: f64,
    /// Requests that violated the SLO, over all runs and seeds.
    pub(super) slo_violations: f64,
    /// Their share of the requests of the first seed of every run: what the page shows of it.
    pub(super) first_seed_ratio: f64,
    /// Whether it is shown over time.
    pub(super) is_shown: bool,
}

impl Subject {
    /// Reads run directories of any kind.
    pub(super) fn read(paths: &[PathBuf]) -> Result<Self> {
        let runs = paths.iter().map(|path| OpenedRun::open(path)).collect::<Result<Vec<_>>>()?;
        let mut settings = Vec::new();
        for path in paths {
            let text = RunDirectory::open(path)?.read("config.toml")?;
            settings.push((path.clone(), String::from_utf8_lossy(&text).into_owned()));
        }
        let (mut played, mut trainings) = (Vec::new(), Vec::new());
        for run in runs {
            match run {
                OpenedRun::Simulation(run) => played.push(*run),
                OpenedRun::Training(run) => trainings.push(run),
            }
        }
        let simulated: Vec<&FinishedSimulation> = played.iter().collect();
        let comparison = (!played.is_empty())
            .then(|| Comparison::of_simulations(&simulated, 0, Scope::Total))
            .flatten();
        let closest = comparison.as_ref().and_then(|all| closest(all, &simulated));
        let trained = (!trainings.is_empty())
            .then(|| Comparison::of_trainings(&trainings.iter().collect::<Vec<_>>(), 0));
        let directories = trainings.iter().map(|run| RunDirectory::open(&run.path));
        let curves = read_curves(&directories.collect::<Result<Vec<_>>>()?)?;
        let functions = functions_of(&played);
        let is_shown = |number: usize| {
            functions.iter().any(|function| function.number == number && function.is_shown)
        };
        let labels = comparison.iter().flat_map(|comparison| &comparison.runs);
        let labels: Vec<String> = labels.map(|run| run.label.clone()).collect();
        let mut simulations = Vec::new();
        for (run, label) in played.into_iter().zip(labels) {
            let windows = read_windows(&run, is_shown)?;
            simulations.push(SimulatedRun { label, run, windows });
        }
        Ok(Self {
            simulations,
            played: comparison,
            closest,
            functions,
            trainings,
            trained,
            curves,
            settings,
        })
    }

    /// The names of the simulations.
    pub(super) fn labels(&self) -> Vec<&str> {
        self.simulations.iter().map(|run| run.label.as_str()).collect()
    }
}

impl SimulatedRun {
    /// A function's outcomes over seeds.
    pub(super) fn outcomes_of(&self, number: usize) -> impl Iterator<Item = &FunctionOutcome> {
        let functions = self.run.outcomes.iter().flat_map(|outcome| &outcome.functions);
        functions.filter(move |function| function.number == number)
    }

    /// A function's 99th percentile over its SLO: the logarithms over seeds. Ratios
    /// are averaged as such, and their interval never reaches below zero.
    pub(super) fn log_p99_over_slo(&self, number: usize) -> Option<Summary> {
        let ratios = self.outcomes_of(number).map(|function| function.figures.p99_over_slo);
        let logs = ratios.filter(|ratio| *ratio > 0.0).map(f64::ln);
        Summary::of(&logs.collect::<Vec<_>>())
    }
}

/// The comparison of the two simulations with the fewest SLO violations.
fn closest(all: &Comparison, simulated: &[&FinishedSimulation]) -> Option<Comparison> {
    if !all.setting_differences.is_empty() {
        return None;
    }
    let violations = |place: usize| {
        let figures = &all.runs[place].figures;
        let found = figures.iter().find(|(metric, _)| metric.key == "slo_violation_ratio");
        found.map_or(f64::INFINITY, |(_, summary)| summary.mean)
    };
    let mut places: Vec<usize> = (0..all.runs.len()).collect();
    places.sort_by(|a, b| violations(*a).total_cmp(&violations(*b)));
    let [winner, next, ..] = places[..] else { return None };
    let mut pair =
        Comparison::of_simulations(&[simulated[next], simulated[winner]], 0, Scope::Total)?;
    // Names tell all runs apart, not only these two.
    for (run, place) in pair.runs.iter_mut().zip([next, winner]) {
        run.label.clone_from(&all.runs[place].label);
    }
    Some(pair)
}

fn functions_of(runs: &[FinishedSimulation]) -> Vec<FunctionSubject> {
    let Some(first) = runs.first().and_then(|run| run.outcomes.first()) else { return Vec::new() };
    let all = || runs.iter().flat_map(|run| &run.outcomes).flat_map(|outcome| &outcome.functions);
    let mut functions: Vec<FunctionSubject> = first
        .functions
        .iter()
        .map(|function| {
            let own = all().filter(|other| other.number == function.number);
            let violations =
                own.map(|own| own.figures.slo_violation_ratio * own.figures.requests as f64);
            let of_first = runs.iter().filter_map(|run| run.outcomes.first());
            let of_first = of_first.flat_map(|outcome| &outcome.functions);
            let of_first = of_first.filter(|other| other.number == function.number);
            let (mut violated, mut requests) = (0.0, 0.0);
            for own in of_first {
                violated += own.figures.slo_violation_ratio * own.figures.requests as f64;
                requests += own.figures.requests as f64;
            }
            let same = first.functions.iter().filter(|other| other.name == function.name).count();
            let label = match same {
                1 => function.name.clone(),
                _ => format!("{} #{}", function.name, function.number),
            };
            FunctionSubject {
                number: function.number,
                label,
                slo_ms: function.slo_ms,
                slo_violations: violations.sum(),
                first_seed_ratio: violated / f64::max(requests, 1.0),
                is_shown: true,
            }
        })
        .collect();
    let mut by_violations: Vec<usize> = (0..functions.len()).collect();
    by_violations
        .sort_by(|a, b| functions[*b].slo_violations.total_cmp(&functions[*a].slo_violations));
    for place in by_violations.into_iter().skip(MAX_FUNCTIONS) {
        functions[place].is_shown = false;
    }
    functions
}
