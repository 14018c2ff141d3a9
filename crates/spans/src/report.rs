//! Critical paths of one operation in numbers that people and programs read.

use std::collections::BTreeMap;

use serde::Serialize;

use crate::analysis::RootTotals;
use crate::call_tree::CallTree;
use crate::store::{OperationId, SpanStore};

/// The requests of one root operation.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct OperationReport {
    /// Service of the root.
    pub service: String,
    /// Operation of the root.
    pub operation: String,
    /// Requests.
    pub requests: u64,
    /// Requests whose root failed.
    pub errors: u64,
    /// Duration of the root.
    pub latency: Latency,
    /// How many different critical paths the requests took, as far as they were told apart.
    pub distinct_paths: usize,
    /// Part of the requests that took the most frequent of them.
    pub most_frequent_path_ratio: f64,
    /// Steps of all critical paths, callers first, then by their mean start.
    pub steps: Vec<StepReport>,
}

/// Quantiles of a duration in milliseconds.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Latency {
    /// Mean.
    pub mean_ms: f64,
    /// Median.
    pub p50_ms: f64,
    /// 99th percentile.
    pub p99_ms: f64,
    /// Greatest.
    pub max_ms: f64,
}

/// A step of critical paths. Means are over all requests of the root operation: a request whose
/// path leaves the step out counts as zero.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct StepReport {
    /// Place of the calling step in the list; none for the root.
    pub caller: Option<usize>,
    /// Calls between the root and this step.
    pub depth: usize,
    /// Its service.
    pub service: String,
    /// Its operation.
    pub operation: String,
    /// Part of the requests whose path has it.
    pub requests_ratio: f64,
    /// Calls per request that has it on its path.
    pub calls_per_request: f64,
    /// Mean time that it spends on the path itself.
    pub self_ms: f64,
    /// The same as a part of the mean latency. The parts of all steps add up to 1.
    pub share_ratio: f64,
    /// Mean time on the path, with the steps that it calls.
    pub total_ms: f64,
}

impl OperationReport {
    /// `places` are the nodes of this operation's tree, callers first.
    pub(crate) fn new(
        store: &SpanStore,
        root: OperationId,
        totals: &RootTotals,
        tree: &CallTree,
        places: &[u32],
    ) -> Self {
        let mut latencies_ns = totals.latencies_ns.clone();
        latencies_ns.sort_unstable();
        let requests = latencies_ns.len() as u64;
        let total_ns: i128 = latencies_ns.iter().map(|ns| i128::from(*ns)).sum();
        Self {
            service: store.service_of(root).to_owned(),
            operation: store.name_of(root).to_owned(),
            requests,
            errors: totals.errors,
            latency: Latency {
                mean_ms: total_ns as f64 / 1e6 / requests.max(1) as f64,
                p50_ms: quantile(&latencies_ns, 0.5) as f64 / 1e6,
                p99_ms: quantile(&latencies_ns, 0.99) as f64 / 1e6,
                max_ms: latencies_ns.last().copied().unwrap_or(0) as f64 / 1e6,
            },
            distinct_paths: totals.paths.distinct(),
            most_frequent_path_ratio: totals.paths.most_frequent() as f64 / requests.max(1) as f64,
            steps: steps(store, tree, places, requests, total_ns as f64),
        }
    }
}

/// The value that this part of the ordered values does not exceed.
fn quantile(ordered: &[i64], part: f64) -> i64 {
    let rank = (part * ordered.len() as f64).ceil() as usize;
    ordered.get(rank.saturating_sub(1)).copied().unwrap_or(0)
}

fn steps(
    store: &SpanStore,
    tree: &CallTree,
    places: &[u32],
    requests: u64,
    total_ns: f64,
) -> Vec<StepReport> {
    let nodes = tree.nodes();
    let mut called: BTreeMap<Option<u32>, Vec<u32>> = BTreeMap::new();
    for place in places {
        called.entry(nodes[*place as usize].caller).or_default().push(*place);
    }
    for callees in called.values_mut() {
        callees.sort_by(|a, b| {
            let key = |place: &u32| {
                let node = &nodes[*place as usize];
                let delay = node.delay_ns / u128::from(node.calls.max(1));
                (delay, store.service_of(node.operation), store.name_of(node.operation))
            };
            key(a).cmp(&key(b))
        });
    }
    let mut steps: Vec<StepReport> = Vec::with_capacity(places.len());
    let mut waiting: Vec<(u32, Option<usize>)> =
        called.get(&None).into_iter().flatten().map(|root| (*root, None)).collect();
    while let Some((place, caller)) = waiting.pop() {
        let node = &nodes[place as usize];
        let mean_ms = |sum_ns: u128| sum_ns as f64 / 1e6 / requests.max(1) as f64;
        if let Some(callees) = called.get(&Some(place)) {
            waiting.extend(callees.iter().rev().map(|callee| (*callee, Some(steps.len()))));
        }
        steps.push(StepReport {
            caller,
            depth: caller.map_or(0, |caller| steps[caller].depth + 1),
            service: store.service_of(node.operation).to_owned(),
            operation: store.name_of(node.operation).to_owned(),
            requests_ratio: node.requests as f64 / requests.max(1) as f64,
            calls_per_request: node.calls as f64 / node.requests.max(1) as f64,
            self_ms: mean_ms(node.self_ns),
            share_ratio: if total_ns > 0.0 { node.self_ns as f64 / total_ns } else { 0.0 },
            total_ms: mean_ms(node.total_ns),
        });
    }
    steps
}

/// How often each distinct path was taken, known by a sum over its steps.
#[derive(Debug, Default)]
pub(crate) struct PathCounts {
    counts: BTreeMap<u64, u64>,
}

impl PathCounts {
    /// Paths told apart; the more there are, the less their number says.
    const MAX_DISTINCT: usize = 10_000;

    /// The sum of a path without steps.
    pub(crate) const START: u64 = 0xcbf2_9ce4_8422_2325;

    /// The sum of a path with one more step (FNV-1a).
    pub(crate) fn extend(path: u64, step: u32) -> u64 {
        step.to_le_bytes()
            .iter()
            .fold(path, |sum, byte| (sum ^ u64::from(*byte)).wrapping_mul(0x100_0000_01b3))
    }

    pub(crate) fn add(&mut self, path: u64) {
        if self.counts.len() < Self::MAX_DISTINCT {
            *self.counts.entry(path).or_default() += 1;
        } else if let Some(count) = self.counts.get_mut(&path) {
            *count += 1;
        }
    }

    fn distinct(&self) -> usize {
        self.counts.len()
    }

    fn most_frequent(&self) -> u64 {
        self.counts.values().max().copied().unwrap_or(0)
    }
}
