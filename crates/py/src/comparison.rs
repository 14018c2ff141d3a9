//! Runs side by side, and their learning curves.

use std::path::PathBuf;

use homeostat_lab::{Error, RunDirectory};
use homeostat_report::compare::{Comparison, OpenedRuns};
use homeostat_train::read_curves;
use pyo3::prelude::*;

use crate::exceptions::raise;

/// Compares runs: a record of each as JSON, and the settings in which their systems differ.
#[pyfunction]
#[pyo3(signature = (runs, baseline=None, anyway=false, per_function=false))]
pub(crate) fn compare(
    py: Python<'_>,
    runs: Vec<PathBuf>,
    baseline: Option<PathBuf>,
    anyway: bool,
    per_function: bool,
) -> PyResult<(Vec<String>, Vec<String>)> {
    let compared = py.detach(|| -> Result<_, Error> {
        let runs = OpenedRuns::open(&runs, baseline.as_deref())?;
        let total = runs.total()?;
        if !anyway {
            total.refuse_different_settings()?;
        }
        let differences = total.setting_differences.iter().map(ToString::to_string).collect();
        let records = if per_function {
            let scopes = runs.per_function()?;
            scopes.iter().flat_map(|(name, scope)| records(scope, Some(name))).collect()
        } else {
            records(&total, None)
        };
        Ok((records, differences))
    });
    compared.map_err(|error| raise(py, &error))
}

fn records(comparison: &Comparison, function: Option<&str>) -> Vec<String> {
    let places = 0..comparison.runs.len();
    places.map(|place| comparison.record(place, function).to_string()).collect()
}

/// Draws the learning curves of runs as an SVG file.
#[pyfunction]
pub(crate) fn draw_curves(
    py: Python<'_>,
    runs: Vec<PathBuf>,
    title: &str,
    goals: Vec<f64>,
    path: PathBuf,
) -> PyResult<()> {
    let drawn = py.detach(|| -> Result<(), Error> {
        let directories =
            runs.iter().map(|run| RunDirectory::open(run)).collect::<Result<Vec<_>, _>>()?;
        homeostat_train::draw_curves(title, &read_curves(&directories)?, &goals, &path)
    });
    drawn.map_err(|error| raise(py, &error))
}
