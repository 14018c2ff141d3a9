//! Which operations happen before which, learnt from many requests.
//!
//! One trace shows an order; it cannot show whether the order is meant. Two children of a parent
//! count as sequential if they were seen together often enough and their order was never violated
//! (3.2.2).

use crate::graph::RequestGraph;
use crate::store::OperationId;

/// Orders of pairs of operations, by the operation of their common parent.
#[derive(Debug)]
pub(crate) struct Sequences {
    min_requests: u32,
    by_parent: Vec<Siblings>,
    forgotten: u64,
    /// Children of one parent; then one entry per operation.
    calls: Vec<Call>,
    groups: Vec<Group>,
}

/// Operation, start and end.
type Call = (OperationId, i64, i64);

/// What was seen below one operation.
#[derive(Debug, Clone, Default)]
struct Siblings {
    /// Executions with at least two children that the parent waits for.
    executions: u32,
    /// Ordered by the pair, the smaller operation first.
    pairs: Vec<((OperationId, OperationId), Evidence)>,
}

#[derive(Debug, Clone, Copy, Default)]
struct Evidence {
    executions: u32,
    seen: Seen,
}

/// What executions showed of a pair.
#[derive(Debug, Clone, Copy, Default)]
struct Seen {
    /// A call of one overlapped a call of the other.
    overlap: bool,
    /// The first came after the second.
    backward: bool,
    /// The second came after the first.
    forward: bool,
    /// A parent called one of them several times.
    repetition: bool,
}

/// Calls of one operation: a range of `calls`.
#[derive(Debug, Clone, Copy)]
struct Group {
    operation: OperationId,
    first: usize,
    end: usize,
    start_ns: i64,
    end_ns: i64,
}

/// Pairs remembered below one operation. Real parents have a few dozen; without a limit, each
/// further pair would cost every insertion more.
const MAX_PAIRS: usize = 1024;

/// How many operations later, by start, a pair is looked for in one execution.
const MAX_DISTANCE: usize = 32;

impl Sequences {
    /// Nothing is known; two operations need this many executions together.
    pub(crate) fn new(min_requests: u32, operations: usize) -> Self {
        Self {
            min_requests,
            by_parent: vec![Siblings::default(); operations],
            forgotten: 0,
            calls: Vec::new(),
            groups: Vec::new(),
        }
    }

    /// Pairs that were not remembered.
    pub(crate) fn forgotten(&self) -> u64 {
        self.forgotten
    }

    /// Learns from one trace.
    pub(crate) fn observe(&mut self, graph: &RequestGraph) {
        for (index, node) in graph.nodes().iter().enumerate() {
            let children = graph.awaited_children(index);
            if node.is_background || children.len() < 2 {
                continue;
            }
            self.calls.clear();
            self.calls.extend(
                graph.nodes()[children]
                    .iter()
                    .map(|child| (child.operation, child.start_ns, child.end_ns)),
            );
            self.observe_siblings(node.operation);
        }
    }

    fn observe_siblings(&mut self, parent: OperationId) {
        self.calls.sort_unstable();
        self.groups.clear();
        for (index, (operation, start_ns, end_ns)) in self.calls.iter().copied().enumerate() {
            match self.groups.last_mut() {
                Some(group) if group.operation == operation => {
                    (group.end, group.end_ns) = (index + 1, group.end_ns.max(end_ns));
                }
                _ => self.groups.push(Group {
                    operation,
                    first: index,
                    end: index + 1,
                    start_ns,
                    end_ns,
                }),
            }
        }
        self.groups.sort_unstable_by_key(|group| (group.start_ns, group.operation));
        let siblings = &mut self.by_parent[parent.index()];
        siblings.executions = siblings.executions.saturating_add(1);
        for (index, group) in self.groups.iter().enumerate() {
            if group.end - group.first > 1 {
                let overlap = !is_serial(&self.calls[group.first..group.end]);
                let pair = (group.operation, group.operation);
                let seen = Seen { overlap, repetition: true, ..Seen::default() };
                self.forgotten += siblings.add(pair, seen);
            }
            for later in self.groups.iter().skip(index + 1).take(MAX_DISTANCE) {
                let ordered = group.operation < later.operation;
                let (a, b) = if ordered { (group, later) } else { (later, group) };
                let seen = Seen::of(&self.calls, a, b);
                self.forgotten += siblings.add((a.operation, b.operation), seen);
            }
        }
    }

    /// Whether `earlier` is known to happen before `later` below this parent. Where the parent
    /// was seen too rarely to know, the order in time is all there is, and it is taken.
    pub(crate) fn happens_before(
        &self,
        parent: OperationId,
        earlier: OperationId,
        later: OperationId,
    ) -> bool {
        let siblings = &self.by_parent[parent.index()];
        let is_rare = siblings.executions < self.min_requests;
        let pair = (earlier.min(later), earlier.max(later));
        match siblings.pairs.binary_search_by_key(&pair, |(pair, _)| *pair) {
            Err(_) => is_rare,
            Ok(index) => {
                let Evidence { executions, seen } = siblings.pairs[index].1;
                let was_reversed = if earlier <= later { seen.backward } else { seen.forward };
                // What is called several times, or has a name as common as `HTTP GET`, has no
                // single place in an order that could be violated.
                let is_violated = seen.overlap || was_reversed && !seen.repetition;
                !is_violated && (is_rare || executions >= self.min_requests)
            }
        }
    }
}

impl Siblings {
    /// Adds one execution; returns how many pairs had no room.
    fn add(&mut self, pair: (OperationId, OperationId), seen: Seen) -> u64 {
        let index = match self.pairs.binary_search_by_key(&pair, |(pair, _)| *pair) {
            Ok(index) => index,
            Err(_) if self.pairs.len() >= MAX_PAIRS => return 1,
            Err(index) => {
                self.pairs.insert(index, (pair, Evidence::default()));
                index
            }
        };
        let evidence = &mut self.pairs[index].1;
        evidence.executions = evidence.executions.saturating_add(1);
        evidence.seen.overlap |= seen.overlap;
        evidence.seen.backward |= seen.backward;
        evidence.seen.forward |= seen.forward;
        evidence.seen.repetition |= seen.repetition;
        0
    }
}

/// Whether calls, ordered by start, never overlap.
fn is_serial(calls: &[Call]) -> bool {
    calls.is_sorted_by(|(_, _, end), (_, start, _)| end <= start)
}

impl Seen {
    /// What one execution shows of `a` and `b`.
    fn of(calls: &[Call], a: &Group, b: &Group) -> Self {
        let repetition = a.end - a.first > 1 || b.end - b.first > 1;
        let (is_before, is_after) = (a.end_ns <= b.start_ns, b.end_ns <= a.start_ns);
        let overlap =
            !is_before && !is_after && overlap(&calls[a.first..a.end], &calls[b.first..b.end]);
        // Two calls without duration at the same moment show no order.
        Self {
            overlap,
            backward: is_after && !is_before,
            forward: is_before && !is_after,
            repetition,
        }
    }
}

/// Whether a call of the one list overlaps a call of the other; both are ordered by start.
/// Operations that take turns, as in a loop, do not.
fn overlap<'a>(mut a: &'a [Call], mut b: &'a [Call]) -> bool {
    let (mut a_end, mut b_end) = (i64::MIN, i64::MIN);
    loop {
        let takes_a = match (a.first(), b.first()) {
            (None, None) => return false,
            (Some(a), Some(b)) => (a.1, a.2) <= (b.1, b.2),
            (a, None) => a.is_some(),
            (None, _) => false,
        };
        let (own, own_end, other_end) =
            if takes_a { (&mut a, &mut a_end, b_end) } else { (&mut b, &mut b_end, a_end) };
        if let Some(((_, start, end), rest)) = own.split_first() {
            if other_end > *start {
                return true;
            }
            (*own, *own_end) = (rest, (*own_end).max(*end));
        }
    }
}
