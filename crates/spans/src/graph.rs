//! The execution history graph of one trace: who called whom, on one clock.

use std::cmp::Ordering;

use crate::span::{MAX_NS, Span, SpanKind};
use crate::store::{OperationId, SpanStore};
use crate::{NameId, SpanDefects};

/// Spans of one trace as a forest, parents before children, the children of a node side by side.
/// Each root is a request.
#[derive(Debug, Default)]
pub struct RequestGraph {
    nodes: Vec<Node>,
    roots: usize,
}

/// A span in its place.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Node {
    /// What was done.
    pub operation: OperationId,
    /// The replica that did it.
    pub instance: NameId,
    /// Its role in a call.
    pub kind: SpanKind,
    /// Start on the clock of the root, in nanoseconds since 1970. Never before the parent's.
    pub start_ns: i64,
    /// End on the clock of the root. Unless in the background, never after the parent's.
    pub end_ns: i64,
    /// The parent does not wait for it, so that it is on no critical path.
    pub is_background: bool,
    /// It failed.
    pub is_error: bool,
    parent: u32,
    first_child: u32,
    children: u32,
    awaited: u32,
    /// Place of the span among the distinct spans, ordered by id.
    place: u32,
    clock_offset_ns: i64,
}

/// How two children of one parent relate in time (3.2.2).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Workflow {
    /// They overlap.
    Parallel,
    /// One ends before the other starts.
    Sequential,
    /// The parent waits for one of them at most.
    Background,
}

const NONE: u32 = u32::MAX;

/// Traces with fewer spans are in the cache, where an index does not pay.
const MIN_INDEXED: usize = 4096;

/// Jaeger and Zipkin cut starts and durations to microseconds: an end may be two of them late.
const TRUNCATION_NS: i64 = 2_000;

impl RequestGraph {
    /// Roots are the first nodes.
    pub fn roots(&self) -> std::ops::Range<usize> {
        0..self.roots
    }

    /// All nodes, parents before their children.
    pub fn nodes(&self) -> &[Node] {
        &self.nodes
    }

    /// The caller of a node; none for a root.
    pub fn parent(&self, node: usize) -> Option<usize> {
        match self.nodes[node].parent {
            NONE => None,
            parent => Some(parent as usize),
        }
    }

    /// All children, those that the parent waits for first, each group ordered by its ends.
    pub fn children(&self, node: usize) -> std::ops::Range<usize> {
        let node = &self.nodes[node];
        node.first_child as usize..(node.first_child + node.children) as usize
    }

    /// The children that the parent waits for, ordered by their ends.
    pub fn awaited_children(&self, node: usize) -> std::ops::Range<usize> {
        let node = &self.nodes[node];
        node.first_child as usize..(node.first_child + node.awaited) as usize
    }

    /// How two children of one parent relate.
    ///
    /// Deviation: the printed definition has strict inequalities, by which two children that
    /// start together are neither parallel nor sequential. Here they are parallel.
    pub fn workflow(&self, i: usize, j: usize) -> Workflow {
        let (i, j) = (&self.nodes[i], &self.nodes[j]);
        match () {
            () if i.is_background || j.is_background => Workflow::Background,
            () if i.end_ns <= j.start_ns || j.end_ns <= i.start_ns => Workflow::Sequential,
            () => Workflow::Parallel,
        }
    }
}

/// Builds the graph of trace after trace in the same memory.
#[derive(Debug, Default)]
pub(crate) struct GraphBuilder {
    graph: RequestGraph,
    /// Distinct spans by id: (id, is server, place in the trace).
    distinct: Vec<(u64, bool, u32)>,
    /// Where ids with the same first bits begin in `distinct`, and how many bits are left.
    buckets: Vec<u32>,
    bucket_shift: u32,
    parents: Vec<Parent>,
    /// Children of the distinct span `k` are `children[child_ends[k - 1]..child_ends[k]]`.
    children: Vec<u32>,
    child_ends: Vec<u32>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Parent {
    /// None is named: a root.
    None,
    /// One is named and absent.
    Missing,
    Found(u32),
}

impl GraphBuilder {
    /// The graph of the spans of one trace; `defects` counts what is left out or repaired.
    pub(crate) fn build(
        &mut self,
        store: &SpanStore,
        spans: &[Span],
        defects: &mut SpanDefects,
    ) -> &RequestGraph {
        self.find_distinct(store, spans, defects);
        self.find_parents(spans);
        self.list_children();
        self.walk(spans, defects);
        &self.graph
    }

    /// The graph that was built last.
    pub(crate) fn graph(&self) -> &RequestGraph {
        &self.graph
    }

    fn find_distinct(&mut self, store: &SpanStore, spans: &[Span], defects: &mut SpanDefects) {
        self.distinct.clear();
        self.distinct.extend((0..).zip(spans).map(|(place, span)| {
            let (id, is_server) = span.key();
            (id, is_server, place)
        }));
        self.distinct.sort_unstable();
        let before = self.distinct.len();
        self.distinct.dedup_by(|next, kept| {
            let is_same = (next.0, next.1) == (kept.0, kept.1);
            let (a, b) = (&spans[next.2 as usize], &spans[kept.2 as usize]);
            if is_same && better_copy(store, a, b) == Ordering::Greater {
                kept.2 = next.2;
            }
            is_same
        });
        defects.duplicate += (before - self.distinct.len()) as u64;
        self.index_distinct();
    }

    /// Ids are mostly random, so that their first bits lead near their places: one look instead
    /// of twenty in a trace of a million spans.
    fn index_distinct(&mut self) {
        self.buckets.clear();
        if self.distinct.len() < MIN_INDEXED {
            return;
        }
        let bits = self.distinct.len().ilog2();
        self.bucket_shift = u64::BITS - bits;
        self.buckets.reserve((1 << bits) + 1);
        for (place, (id, _, _)) in self.distinct.iter().enumerate() {
            let bucket = (id >> self.bucket_shift) as usize;
            while self.buckets.len() <= bucket {
                self.buckets.push(place as u32);
            }
        }
        self.buckets.resize((1 << bits) + 1, self.distinct.len() as u32);
    }

    fn find_parents(&mut self, spans: &[Span]) {
        self.parents.clear();
        let mut last = (0, Parent::None);
        for place in 0..self.distinct.len() {
            let (id, is_server, index) = self.distinct[place];
            let span = &spans[index as usize];
            // The other side of a call whose sides share an id (Zipkin).
            let other_side = is_server && place > 0 && self.distinct[place - 1].0 == id;
            let parent = match span.parent_id {
                _ if other_side => Parent::Found(place as u32 - 1),
                0 => Parent::None,
                parent_id if parent_id == last.0 => last.1,
                parent_id => {
                    last = (parent_id, self.find(parent_id));
                    last.1
                }
            };
            self.parents.push(parent);
        }
    }

    /// The place of an id. Children of a call with one id for both sides belong to the server's.
    fn find(&self, id: u64) -> Parent {
        let (from, to) = match self.buckets.is_empty() {
            true => (0, self.distinct.len()),
            false => {
                let bucket = (id >> self.bucket_shift) as usize;
                (self.buckets[bucket] as usize, self.buckets[bucket + 1] as usize)
            }
        };
        let next = from + self.distinct[from..to].partition_point(|(other, _, _)| *other <= id);
        match next.checked_sub(1) {
            Some(place) if self.distinct[place].0 == id => Parent::Found(place as u32),
            _ => Parent::Missing,
        }
    }

    fn list_children(&mut self) {
        self.child_ends.clear();
        self.child_ends.resize(self.parents.len() + 1, 0);
        let found = |parent: &Parent| match parent {
            Parent::Found(parent) => Some(*parent as usize),
            _ => None,
        };
        for parent in self.parents.iter().filter_map(found) {
            self.child_ends[parent + 1] += 1;
        }
        for place in 1..self.child_ends.len() {
            self.child_ends[place] += self.child_ends[place - 1];
        }
        let count = self.child_ends.last().copied().unwrap_or(0);
        self.children.clear();
        self.children.resize(count as usize, 0);
        // Each start moves to its end while the list is filled: `child_ends[k]` then ends list k.
        for (place, parent) in self.parents.iter().enumerate() {
            if let Some(parent) = found(parent) {
                let next = &mut self.child_ends[parent];
                self.children[*next as usize] = place as u32;
                *next += 1;
            }
        }
    }

    fn children_of(&self, place: u32) -> std::ops::Range<usize> {
        let place = place as usize;
        let start = if place == 0 { 0 } else { self.child_ends[place - 1] };
        start as usize..self.child_ends[place] as usize
    }

    /// Puts nodes in order, breadth first: no recursion, however deep a trace is.
    fn walk(&mut self, spans: &[Span], defects: &mut SpanDefects) {
        let mut nodes = std::mem::take(&mut self.graph.nodes);
        nodes.clear();
        let has_root = self.parents.contains(&Parent::None);
        let root = if has_root { Parent::None } else { Parent::Missing };
        for (place, _) in self.parents.iter().enumerate().filter(|(_, parent)| **parent == root) {
            nodes.push(root_node(&spans[self.distinct[place].2 as usize], place as u32));
        }
        self.graph.roots = nodes.len();
        if !has_root && !nodes.is_empty() {
            defects.traces_without_root += 1;
        }
        let mut next = 0;
        while next < nodes.len() {
            let parent = nodes[next];
            let first = nodes.len();
            let parent_span = &spans[self.distinct[parent.place as usize].2 as usize];
            for child in self.children_of(parent.place) {
                let place = self.children[child];
                let span = &spans[self.distinct[place as usize].2 as usize];
                let node = child_node(&parent, parent_span, next as u32, span, place);
                if node.clock_offset_ns != parent.clock_offset_ns && node.clock_offset_ns != 0 {
                    defects.clock_skew += 1;
                }
                nodes.push(node);
            }
            let children = &mut nodes[first..];
            children.sort_unstable_by_key(|node| {
                (node.is_background, node.end_ns, node.start_ns, node.place)
            });
            let awaited = children.partition_point(|node| !node.is_background) as u32;
            let count = children.len() as u32;
            let parent = &mut nodes[next];
            (parent.first_child, parent.children, parent.awaited) = (first as u32, count, awaited);
            next += 1;
        }
        let left_out = self.parents.len() - nodes.len();
        if left_out > 0 {
            let detached = if has_root { self.count_detached() } else { 0 };
            defects.missing_parent += detached as u64;
            defects.cyclic += (left_out - detached) as u64;
        }
        self.graph.nodes = nodes;
    }

    /// Spans with a missing parent, and all below them.
    fn count_detached(&self) -> usize {
        let is_detached = |place: &u32| self.parents[*place as usize] == Parent::Missing;
        let mut waiting: Vec<u32> = (0..self.parents.len() as u32).filter(is_detached).collect();
        let mut count = 0;
        while let Some(place) = waiting.pop() {
            count += 1;
            waiting.extend(&self.children[self.children_of(place)]);
        }
        count
    }
}

/// Which of two copies of a span is kept: the longer, which is the more complete; the rest of the
/// order makes the choice independent of the order of arrival.
fn better_copy(store: &SpanStore, a: &Span, b: &Span) -> Ordering {
    let key = |span: &Span| {
        (
            span.duration_ns,
            span.start_ns,
            span.parent_id,
            span.kind,
            span.is_error,
            span.follows_from,
        )
    };
    let names = |span: &Span| {
        let operation = span.operation;
        (store.service_of(operation), store.name_of(operation), store.name(span.instance))
    };
    key(a).cmp(&key(b)).then_with(|| names(a).cmp(&names(b)))
}

fn root_node(span: &Span, place: u32) -> Node {
    Node {
        operation: span.operation,
        instance: span.instance,
        kind: span.kind,
        start_ns: span.start_ns,
        end_ns: span.start_ns + span.duration_ns,
        is_background: false,
        is_error: span.is_error,
        parent: NONE,
        first_child: 0,
        children: 0,
        awaited: 0,
        place,
        clock_offset_ns: 0,
    }
}

fn child_node(parent: &Node, caller: &Span, index: u32, span: &Span, place: u32) -> Node {
    let clock_offset_ns = clock_offset(parent, caller, span);
    // Stored times have limits; a chain of wrong clocks must not add up beyond them.
    let start_ns = (span.start_ns + clock_offset_ns).clamp(0, MAX_NS);
    let end_ns = start_ns + span.duration_ns;
    let is_background = parent.is_background
        || span.follows_from
        || span.kind == SpanKind::Consumer
        || caller.kind == SpanKind::Producer
        || start_ns > parent.end_ns
        || end_ns > parent.end_ns + TRUNCATION_NS;
    let start_ns = start_ns.max(parent.start_ns);
    let end_ns = match is_background {
        true => end_ns.max(start_ns),
        false => end_ns.clamp(start_ns, parent.end_ns.max(start_ns)),
    };
    Node {
        start_ns,
        end_ns,
        is_background,
        parent: index,
        clock_offset_ns,
        ..root_node(span, place)
    }
}

/// What has to be added to the times of a span so that they are on the clock of the root.
///
/// A child that starts before its caller has a wrong clock. One that ends after its caller may be
/// in the background; only where a client waits for its server, it has a wrong clock, too. The
/// network is then taken to need as long for the call as for the answer, as Jaeger does.
fn clock_offset(parent: &Node, caller: &Span, span: &Span) -> i64 {
    if span.instance == caller.instance {
        return parent.clock_offset_ns;
    }
    let earliest = parent.start_ns - span.start_ns;
    let latest = parent.end_ns - span.start_ns - span.duration_ns;
    let waits = caller.kind == SpanKind::Client && span.kind == SpanKind::Server;
    let starts_early = earliest > TRUNCATION_NS;
    let ends_late = waits && latest < -TRUNCATION_NS;
    match () {
        () if !starts_early && !ends_late => 0,
        () if earliest <= latest => earliest + (latest - earliest) / 2,
        // It is longer than the call: the caller gave up before the answer came.
        () if starts_early => earliest,
        () => 0,
    }
}
