//! The windows of a simulation's first seed, as far as a page can show them.

use std::collections::{BTreeMap, VecDeque};
use std::io::BufRead;

use homeostat_lab::{Error, Result, read_packed};
use homeostat_simulate::{FinishedSimulation, find_windows_file};
use serde::Deserialize;

use crate::compare::unusable;

/// Decisions of each function that are kept with their reasons.
const LAST_DECISIONS: usize = 8;

/// Points that a line has at most: beyond, several windows become one point.
const MAX_POINTS: usize = 240;

/// The windows of one function.
#[derive(Debug, Clone, Default)]
pub(super) struct FunctionWindows {
    /// What happened, thinned to what a line can show.
    pub(super) points: Vec<Point>,
    /// How many windows each point stands for, at most.
    pub(super) windows_per_point: usize,
    /// The last decisions, oldest first.
    pub(super) last: VecDeque<Window>,
}

/// One or several windows on a line.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub(super) struct Point {
    /// End of the last window in seconds.
    pub(super) t_s: f64,
    /// The largest 99th percentile over the SLO.
    pub(super) p99_over_slo: Option<f64>,
    /// Requests that violated the SLO.
    slo_violations: u64,
    /// Requests that were answered, given up or lost.
    settled: u64,
    /// Mean arrivals per second.
    pub(super) arrivals_per_s: f64,
    /// Mean number of containers.
    pub(super) containers: f64,
    /// Mean CPU of a container in millicores.
    pub(super) cpu_millicores: f64,
    /// Mean memory limit of a container in MiB.
    pub(super) memory_mib: f64,
}

/// A line of `windows.jsonl`, plain or packed, as far as it is shown.
#[derive(Debug, Clone, Deserialize)]
pub(super) struct Window {
    pub(super) t_s: f64,
    function: usize,
    slo_ms: f64,
    p99_ms: Option<f64>,
    arrivals_per_s: f64,
    completed: u64,
    /// None in the files of 0.1.0, which have `missed` instead.
    slo_violations: Option<u64>,
    missed: Option<u64>,
    timed_out: u64,
    failed: u64,
    pub(super) containers: u32,
    pub(super) cpu_millicores: f64,
    pub(super) memory_mib: f64,
    pub(super) decided: Decided,
}

/// What was decided at the end of a window.
#[derive(Debug, Clone, Deserialize)]
pub(super) struct Decided {
    pub(super) containers: u32,
    pub(super) cpu_millicores: f64,
    pub(super) memory_mib: f64,
    pub(super) reasons: Vec<String>,
}

/// Reads the windows of the functions that are wanted.
pub(super) fn read_windows(
    run: &FinishedSimulation,
    is_wanted: impl Fn(usize) -> bool,
) -> Result<BTreeMap<usize, FunctionWindows>> {
    let path = find_windows_file(&run.path);
    let mut functions: BTreeMap<usize, FunctionWindows> = BTreeMap::new();
    read_packed(&path, &["jsonl"], &mut |_| {}, |file| {
        for (number, line) in file.lines().enumerate() {
            let at = |reason: String| format!("line {}: {reason}", number + 1);
            let line = line.map_err(|error| at(error.to_string()))?;
            let window: Window =
                serde_json::from_str(&line).map_err(|error| at(error.to_string()))?;
            if is_wanted(window.function) {
                functions.entry(window.function).or_default().add(window);
            }
        }
        Ok(())
    })
    .map_err(|error| match error {
        Error::File { reason, path, .. } => {
            let name = path.file_name().unwrap_or_default().to_string_lossy();
            unusable(&run.path, &name, &reason)
        }
        other => other,
    })?;
    for windows in functions.values_mut() {
        windows.thin();
    }
    Ok(functions)
}

impl FunctionWindows {
    fn add(&mut self, window: Window) {
        let is_known = window.slo_ms > 0.0;
        self.points.push(Point {
            t_s: window.t_s,
            p99_over_slo: window.p99_ms.filter(|_| is_known).map(|p99| p99 / window.slo_ms),
            slo_violations: window.slo_violations.or(window.missed).unwrap_or(0),
            settled: window.completed + window.timed_out + window.failed,
            arrivals_per_s: window.arrivals_per_s,
            containers: f64::from(window.containers),
            cpu_millicores: window.cpu_millicores,
            memory_mib: window.memory_mib,
        });
        self.last.push_back(window);
        if self.last.len() > LAST_DECISIONS {
            self.last.pop_front();
        }
    }

    fn thin(&mut self) {
        let size = self.points.len().div_ceil(MAX_POINTS).max(1);
        self.windows_per_point = size;
        if size > 1 {
            self.points = self.points.chunks(size).map(Point::of).collect();
        }
    }
}

impl Point {
    /// Fraction of the requests that violated the SLO.
    pub(super) fn slo_violation_ratio(&self) -> f64 {
        self.slo_violations as f64 / self.settled.max(1) as f64
    }

    /// Several windows as one point: the worst latency, all SLO violations, and means.
    fn of(windows: &[Self]) -> Self {
        let mean = |value: fn(&Self) -> f64| {
            windows.iter().map(value).sum::<f64>() / windows.len().max(1) as f64
        };
        Self {
            t_s: windows.last().map_or(0.0, |window| window.t_s),
            p99_over_slo: windows.iter().filter_map(|window| window.p99_over_slo).reduce(f64::max),
            slo_violations: windows.iter().map(|window| window.slo_violations).sum(),
            settled: windows.iter().map(|window| window.settled).sum(),
            arrivals_per_s: mean(|window| window.arrivals_per_s),
            containers: mean(|window| window.containers),
            cpu_millicores: mean(|window| window.cpu_millicores),
            memory_mib: mean(|window| window.memory_mib),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_run_is_thinned_without_losing_peaks_or_violations() {
        let point = |place: usize| Point {
            t_s: place as f64,
            p99_over_slo: Some(if place == 777 { 9.0 } else { 0.5 }),
            slo_violations: u64::from(place == 13),
            containers: 2.0,
            ..Point::default()
        };
        let points = (0..1000).map(point).collect();
        let mut windows = FunctionWindows { points, ..FunctionWindows::default() };
        windows.thin();
        assert!(windows.points.len() <= MAX_POINTS && windows.windows_per_point == 5);
        let peak = windows.points.iter().filter_map(|point| point.p99_over_slo).reduce(f64::max);
        assert_eq!(peak, Some(9.0));
        assert_eq!(windows.points.iter().map(|point| point.slo_violations).sum::<u64>(), 1);
        assert!(windows.points.iter().all(|point| point.containers == 2.0));
    }
}
