//! Simulations of autoscaling policies, and the HTML page about runs.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use homeostat_core::SimDuration;
use homeostat_lab::{Environments, RunDirectory};
use homeostat_rl::Sampling;
use homeostat_simulate::{SimulationRequest, TraceFiles, run_simulation};
use pyo3::exceptions::PyKeyboardInterrupt;
use pyo3::prelude::*;

use crate::attended::Attended;
use crate::exceptions::raise;
use crate::settings::{Keywords, resolve};

/// What is to be simulated, as a dictionary.
#[derive(FromPyObject)]
#[pyo3(from_item_all)]
pub(crate) struct Asked {
    simulator: String,
    policy: String,
    seeds: Vec<u64>,
    duration_s: Option<f64>,
    alone: bool,
    stochastic: bool,
    trace: Option<PathBuf>,
    durations: Option<PathBuf>,
    memory: Option<PathBuf>,
    nodes: Option<usize>,
    slo: f64,
}

/// Plays every seed of one policy. `report` is called with `(windows, of all)`. The directory.
#[pyfunction]
#[pyo3(signature = (asked, settings, report, config=None, run_dir=None, threads=0))]
pub(crate) fn simulate<'py>(
    py: Python<'py>,
    asked: Asked,
    mut settings: Keywords<'py>,
    report: &Bound<'_, PyAny>,
    config: Option<PathBuf>,
    run_dir: Option<PathBuf>,
    threads: usize,
) -> PyResult<PathBuf> {
    let environments = Environments::builtin();
    let plants = environments.plants(&asked.simulator).map_err(|error| raise(py, &error))?;
    let env = pyo3::types::PyString::new(py, plants.env()).into_any();
    settings.push(("run.env".to_owned(), env, "simulator".to_owned()));
    let settings = resolve(py, &settings, config, true)?;
    let whole = |path: PathBuf| std::path::absolute(&path).unwrap_or(path);
    let duration = asked.duration_s.map(SimDuration::from_seconds).transpose();
    let request = SimulationRequest {
        policy: asked.policy,
        sampling: if asked.stochastic { Sampling::Stochastic } else { Sampling::Greedy },
        files: asked.trace.map(|counts| TraceFiles {
            counts: whole(counts),
            durations: asked.durations.map(whole),
            memory: asked.memory.map(whole),
        }),
        nodes: asked.nodes,
        slo_over_mean: asked.slo,
        alone: asked.alone,
        duration: duration.map_err(|error| raise(py, &error.into()))?,
        may_outlast_trace: false,
        seeds: asked.seeds,
    };
    let prepared =
        py.detach(|| request.prepare(settings.validate()?)).map_err(|error| raise(py, &error))?;
    let name = format!("sim-{}", prepared.facts.policy);
    let path = run_dir.unwrap_or_else(|| RunDirectory::next_free(Path::new("runs"), &name));
    let attended = Attended::new();
    let (sender, stop) = (attended.sender.clone(), Arc::clone(&attended.stop));
    let directory = path.clone();
    let work = move || {
        // A message for each percent: windows are many.
        let told = AtomicU64::new(0);
        let progress = |done: u64, total: u64| {
            let percent = 100 * done / total.max(1);
            if told.fetch_max(percent, Ordering::Relaxed) < percent {
                // The receiver is gone after a second Ctrl-C.
                let _ = sender.send((done, total));
            }
        };
        let (simulation, facts) = (&prepared.simulation, &prepared.facts);
        run_simulation(simulation, facts, &prepared.config.toml, &directory, &progress, &stop)
            .map(drop)
    };
    let (outcome, interruption) =
        attended.run(py, threads, work, |messages: Vec<(u64, u64)>| {
            messages.last().map_or(Ok(()), |last| report.call1(*last).map(drop))
        })?;
    if let Some(error) = interruption {
        return Err(match error.is_instance_of::<PyKeyboardInterrupt>(py) {
            true => PyKeyboardInterrupt::new_err("the simulation was interrupted before its end"),
            false => error,
        });
    }
    outcome.map_err(|error| raise(py, &error))?;
    Ok(path)
}

/// Writes one self-contained HTML page about runs.
#[pyfunction]
#[pyo3(signature = (runs, path, title=None))]
pub(crate) fn write_report(
    py: Python<'_>,
    runs: Vec<PathBuf>,
    path: PathBuf,
    title: Option<String>,
) -> PyResult<()> {
    py.detach(|| homeostat_report::write_report(&runs, title.as_deref(), &path))
        .map_err(|error| raise(py, &error))
}

/// The figures of a simulation, means over its seeds, as JSON; and each seed's.
#[pyfunction]
pub(crate) fn simulation_figures(py: Python<'_>, path: PathBuf) -> PyResult<(String, String)> {
    let run = py
        .detach(|| homeostat_simulate::FinishedSimulation::open(&path))
        .map_err(|error| raise(py, &error))?;
    Ok((run.summary().to_string(), serde_json::json!(run.outcomes).to_string()))
}
