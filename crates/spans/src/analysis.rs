//! From stored spans to critical paths per operation.

use std::collections::BTreeMap;

use crate::call_tree::CallTree;
use crate::critical_path::{PathFinder, PathStep};
use crate::graph::{GraphBuilder, Node, RequestGraph};
use crate::report::{OperationReport, PathCounts};
use crate::sequences::Sequences;
use crate::store::{OperationId, SpanStore};
use crate::{SpanDefects, TimeRange};

/// How paths are found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AnalysisOptions {
    /// Two operations need this many executions together, all in one order, to count as
    /// sequential. Where a parent was executed less often, the order in time is taken.
    pub min_requests: u32,
}

impl Default for AnalysisOptions {
    fn default() -> Self {
        Self { min_requests: 10 }
    }
}

/// Critical paths of a range of time.
#[derive(Debug, Clone, PartialEq)]
pub struct CriticalPaths {
    /// Requests whose roots start in the range.
    pub requests: u64,
    /// Their root operations, by latency in all, the greatest first.
    pub operations: Vec<OperationReport>,
}

/// One request and its critical path.
#[derive(Debug, Clone, Copy)]
pub struct Request<'a> {
    /// All spans of its trace.
    pub graph: &'a RequestGraph,
    /// Its root among them.
    pub root: usize,
    /// The path, callers before those that they called.
    pub steps: &'a [PathStep],
}

impl Request<'_> {
    fn node(&self) -> &Node {
        &self.graph.nodes()[self.root]
    }
}

impl CriticalPaths {
    /// Adds up the critical paths of the requests of each range, and says what was wrong with
    /// spans. Which operations are sequential is learnt from all requests.
    pub fn analyse(
        store: &mut SpanStore,
        options: &AnalysisOptions,
        ranges: &[TimeRange],
    ) -> (Vec<Self>, SpanDefects) {
        let mut totals: Vec<RangeTotals> = ranges.iter().map(|_| RangeTotals::default()).collect();
        let mut defects = for_each_request(store, options, |request| {
            let start_ns = request.node().start_ns;
            for (range, totals) in ranges.iter().zip(&mut totals) {
                if range.contains(start_ns) {
                    totals.add(&request);
                }
            }
        });
        let paths = totals.iter().map(|totals| totals.report(store)).collect();
        defects.merged_steps = totals.iter().map(|totals| totals.merged_steps).sum();
        (paths, defects)
    }

    /// Leaves out the operations whose service and name do not contain this text.
    pub fn keep_operations_with(&mut self, text: &str) {
        self.operations
            .retain(|report| report.service.contains(text) || report.operation.contains(text));
        self.requests = self.operations.iter().map(|report| report.requests).sum();
    }
}

/// Calls `visit` with every request and its critical path, trace by trace, the last trace first; returns what was wrong
/// with spans.
pub fn for_each_request(
    store: &mut SpanStore,
    options: &AnalysisOptions,
    mut visit: impl FnMut(Request),
) -> SpanDefects {
    let ends = store.group_by_trace();
    let mut sequences = Sequences::new(options.min_requests, store.operations());
    let mut builder = GraphBuilder::default();
    let mut defects = store.defects();
    let spans_of = |trace: usize| {
        let start = if trace == 0 { 0 } else { ends[trace - 1] };
        &store.spans()[start..ends[trace]]
    };
    for trace in 0..ends.len() {
        sequences.observe(builder.build(store, spans_of(trace), &mut defects));
    }
    defects.forgotten_sequences = sequences.forgotten();
    let mut finder = PathFinder::default();
    // What was wrong has been counted: memory for all graphs at once would cost more than to
    // build them twice. Backwards, because the last one is there.
    let mut counted_before = SpanDefects::default();
    for trace in (0..ends.len()).rev() {
        if trace + 1 < ends.len() {
            builder.build(store, spans_of(trace), &mut counted_before);
        }
        let graph = builder.graph();
        for root in graph.roots() {
            visit(Request { graph, root, steps: finder.find(graph, &sequences, root) });
        }
    }
    defects
}

/// Sums over the requests of a range.
#[derive(Debug, Default)]
struct RangeTotals {
    tree: CallTree,
    requests: u64,
    by_root: BTreeMap<OperationId, RootTotals>,
    merged_steps: u64,
    /// Nodes of the tree for the steps of one path.
    places: Vec<u32>,
}

#[derive(Debug, Default)]
pub(crate) struct RootTotals {
    pub(crate) latencies_ns: Vec<i64>,
    pub(crate) errors: u64,
    pub(crate) paths: PathCounts,
}

impl RangeTotals {
    fn add(&mut self, request: &Request) {
        let root = *request.node();
        self.requests += 1;
        self.places.clear();
        let totals = self.by_root.entry(root.operation).or_default();
        totals.latencies_ns.push(root.end_ns - root.start_ns);
        totals.errors += u64::from(root.is_error);
        let mut path = PathCounts::START;
        for step in request.steps {
            let node = &request.graph.nodes()[step.node];
            let caller = step.caller.map(|caller| self.places[caller]);
            let place = match (self.tree.node(caller, node.operation), caller) {
                (Some(place), _) => {
                    let (total_ns, delay_ns) =
                        (node.end_ns - node.start_ns, node.start_ns - root.start_ns);
                    self.tree.add_call(place, self.requests, total_ns, delay_ns);
                    place
                }
                (None, Some(caller)) => {
                    self.merged_steps += 1;
                    caller
                }
                (None, None) => {
                    self.merged_steps += 1;
                    return;
                }
            };
            self.tree.add_self(place, step.self_ns);
            self.places.push(place);
            path = PathCounts::extend(path, place);
        }
        totals.paths.add(path);
    }

    fn report(&self, store: &SpanStore) -> CriticalPaths {
        let mut trees: BTreeMap<OperationId, Vec<u32>> = BTreeMap::new();
        let mut root_of: Vec<OperationId> = Vec::with_capacity(self.tree.nodes().len());
        for (place, node) in (0..).zip(self.tree.nodes()) {
            let root = match node.caller {
                Some(caller) => root_of[caller as usize],
                None => node.operation,
            };
            root_of.push(root);
            trees.entry(root).or_default().push(place);
        }
        let mut operations: Vec<OperationReport> = self
            .by_root
            .iter()
            .map(|(root, totals)| {
                let places = trees.get(root).map_or(&[][..], Vec::as_slice);
                OperationReport::new(store, *root, totals, &self.tree, places)
            })
            .collect();
        operations.sort_by(|a, b| {
            let total = |report: &OperationReport| report.latency.mean_ms * report.requests as f64;
            let names =
                |report: &OperationReport| (report.service.clone(), report.operation.clone());
            total(b).total_cmp(&total(a)).then_with(|| names(a).cmp(&names(b)))
        });
        CriticalPaths { requests: self.requests, operations }
    }
}
