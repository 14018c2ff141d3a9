//! Critical paths of two ranges of time, side by side.

use std::collections::BTreeMap;

use serde::Serialize;

use crate::{CriticalPaths, Latency, OperationReport, StepReport};

/// One operation before and after.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct OperationComparison {
    /// Service of the root.
    pub service: String,
    /// Operation of the root.
    pub operation: String,
    /// Requests before and after.
    pub requests: [u64; 2],
    /// Latency before and after; none without requests.
    pub latency: [Option<Latency>; 2],
    /// Steps of both, those whose time changed most first.
    pub steps: Vec<StepComparison>,
}

/// One step before and after. A step that is on no path takes no time.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct StepComparison {
    /// Services and operations from the root to the step, `service operation` each.
    pub path: Vec<String>,
    /// Its service.
    pub service: String,
    /// Its operation.
    pub operation: String,
    /// Mean time on the path itself, before and after.
    pub self_ms: [f64; 2],
    /// The difference: positive for slower.
    pub change_ms: f64,
    /// Part of the mean latency, before and after.
    pub share_ratio: [f64; 2],
    /// Part of the requests whose path has it, before and after.
    pub requests_ratio: [f64; 2],
}

/// Compares operation by operation, and step by step below each. Operations that changed most in
/// mean latency come first.
pub fn compare(before: &CriticalPaths, after: &CriticalPaths) -> Vec<OperationComparison> {
    let mut pairs: BTreeMap<(&str, &str), [Option<&OperationReport>; 2]> = BTreeMap::new();
    for (side, paths) in [before, after].into_iter().enumerate() {
        for report in &paths.operations {
            let key = (report.service.as_str(), report.operation.as_str());
            pairs.entry(key).or_default()[side] = Some(report);
        }
    }
    let mut operations: Vec<OperationComparison> = pairs
        .into_iter()
        .map(|((service, operation), reports)| OperationComparison {
            service: service.to_owned(),
            operation: operation.to_owned(),
            requests: reports.map(|report| report.map_or(0, |report| report.requests)),
            latency: reports.map(|report| report.map(|report| report.latency)),
            steps: compare_steps(reports),
        })
        .collect();
    let change = |operation: &OperationComparison| match operation.latency {
        [Some(before), Some(after)] => (after.mean_ms - before.mean_ms).abs(),
        _ => 0.0,
    };
    operations.sort_by(|a, b| change(b).total_cmp(&change(a)));
    operations
}

fn compare_steps(reports: [Option<&OperationReport>; 2]) -> Vec<StepComparison> {
    // A step is known by its own names and the place of its caller among those already met, so
    // that deep paths are not spelt out to be compared.
    let mut places: BTreeMap<(Option<usize>, &str, &str), usize> = BTreeMap::new();
    let mut callers: Vec<Option<usize>> = Vec::new();
    let mut found: Vec<[Option<&StepReport>; 2]> = Vec::new();
    for (side, report) in reports.into_iter().enumerate() {
        let mut own_places: Vec<usize> = Vec::new();
        for step in report.into_iter().flat_map(|report| &report.steps) {
            let caller = step.caller.map(|caller| own_places[caller]);
            let key = (caller, step.service.as_str(), step.operation.as_str());
            let place = *places.entry(key).or_insert(found.len());
            if place == found.len() {
                found.push([None, None]);
                callers.push(caller);
            }
            found[place][side] = Some(step);
            own_places.push(place);
        }
    }
    let name = |place: usize| {
        let step = found[place].iter().flatten().next();
        step.map_or(String::new(), |step| format!("{} {}", step.service, step.operation))
    };
    let mut steps: Vec<StepComparison> = (0..found.len())
        .filter_map(|place| {
            let sides = found[place];
            let step = sides.iter().flatten().next()?;
            let figure = |read: fn(&StepReport) -> f64| sides.map(|side| side.map_or(0.0, read));
            let self_ms = figure(|step| step.self_ms);
            let ancestors = std::iter::successors(Some(place), |place| callers[*place]);
            let mut path: Vec<String> = ancestors.take(MAX_PATH).map(name).collect();
            path.reverse();
            Some(StepComparison {
                path,
                service: step.service.clone(),
                operation: step.operation.clone(),
                self_ms,
                change_ms: self_ms[1] - self_ms[0],
                share_ratio: figure(|step| step.share_ratio),
                requests_ratio: figure(|step| step.requests_ratio),
            })
        })
        .collect();
    steps.sort_by(|a, b| b.change_ms.abs().total_cmp(&a.change_ms.abs()));
    steps
}

/// Steps of a path that are spelt out; the callers of deeper ones are left out.
const MAX_PATH: usize = 64;
