//! The components on critical paths, with what Alg. 3.2 computes of each: from the spans of a window.

use std::collections::BTreeMap;

use homeostat_spans::{
    AnalysisOptions, NameId, OperationId, Request, SpanDefects, SpanKind, SpanStore,
    for_each_request,
};

use crate::features::{congestion_intensity, relative_importance};
use crate::statistics::quantile;

/// One instance on the critical paths of one kind of requests.
#[derive(Debug, Clone, PartialEq)]
pub struct PathComponent {
    /// The service and the operation that the requests begin with.
    pub root: (String, String),
    /// The instance of a service.
    pub instance: String,
    /// Requests with the instance on their critical path.
    pub requests: usize,
    /// Pearson correlation of its latency with that of the path.
    pub relative_importance: f64,
    /// Its p99 over its median.
    pub congestion_intensity: f64,
    /// Its time on the paths: median and 99th percentile in milliseconds.
    pub median_ms: f64,
    /// See [`PathComponent::median_ms`].
    pub p99_ms: f64,
}

/// Latencies of one instance, request by request: its own, and that of the whole path.
#[derive(Debug, Default)]
struct Samples {
    own_ms: Vec<f64>,
    path_ms: Vec<f64>,
}

/// The components of all requests of a store, by root and instance, and what was wrong with spans. Those on
/// fewer than `min_requests` paths are left out: a p99 of a few says nothing.
pub fn path_components(
    store: &mut SpanStore,
    min_requests: usize,
) -> (Vec<PathComponent>, SpanDefects) {
    let mut samples: BTreeMap<(OperationId, NameId), Samples> = BTreeMap::new();
    let mut own: BTreeMap<NameId, i64> = BTreeMap::new();
    let defects = for_each_request(store, &AnalysisOptions::default(), |request| {
        own_times(&request, &mut own);
        let root = &request.graph.nodes()[request.root];
        let path_ms = (root.end_ns - root.start_ns) as f64 / 1e6;
        for (instance, ns) in &own {
            let of = samples.entry((root.operation, *instance)).or_default();
            of.own_ms.push(*ns as f64 / 1e6);
            of.path_ms.push(path_ms);
        }
    });
    let of = |((root, instance), samples): ((OperationId, NameId), Samples)| PathComponent {
        root: (store.service_of(root).to_owned(), store.name_of(root).to_owned()),
        instance: store.name(instance).to_owned(),
        requests: samples.own_ms.len(),
        relative_importance: relative_importance(&samples.own_ms, &samples.path_ms),
        congestion_intensity: congestion_intensity(&samples.own_ms),
        median_ms: quantile(&samples.own_ms, 0.5).unwrap_or(0.0),
        p99_ms: quantile(&samples.own_ms, 0.99).unwrap_or(0.0),
    };
    let enough = samples.into_iter().filter(|(_, one)| one.own_ms.len() >= min_requests.max(1));
    (enough.map(of).collect(), defects)
}

/// Time of each instance on the critical path of a request. What passes between the two sides of a call
/// counts to the callee: it is what the caller waits for when the callee, its network or its connections
/// are slow.
fn own_times(request: &Request<'_>, own: &mut BTreeMap<NameId, i64>) {
    own.clear();
    let nodes = request.graph.nodes();
    for step in request.steps {
        let node = &nodes[step.node];
        let callee = match node.kind {
            SpanKind::Client => request.graph.children(step.node).map(|child| &nodes[child]).next(),
            _ => None,
        };
        let instance = callee.map_or(node.instance, |callee| callee.instance);
        *own.entry(instance).or_default() += step.self_ns.max(0);
    }
}
