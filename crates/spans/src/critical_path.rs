//! The critical path of one request (Alg. 3.1).

use crate::graph::RequestGraph;
use crate::sequences::Sequences;

/// A span on a critical path.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PathStep {
    /// Its node in the graph.
    pub node: usize,
    /// The step that called it; none for the first.
    pub caller: Option<usize>,
    /// Time on the path that none of its children takes.
    pub self_ns: i64,
}

/// Finds critical paths in the same memory again and again.
#[derive(Debug, Default)]
pub(crate) struct PathFinder {
    steps: Vec<PathStep>,
    waiting: Vec<(usize, Option<usize>)>,
}

impl PathFinder {
    /// The steps of the critical path of a root, callers before those that they called, and what
    /// a caller waited for in the order of time. The own times add up to the root's duration.
    ///
    /// As printed, Alg. 3.1 recurses into the last-returned child before the children that
    /// happened before it, which gives the wrong order; here the earlier come first.
    ///
    /// Deviation: of the children that happened before the last-returned child, the printed
    /// algorithm takes all, so that parallel ones count twice. Here the last of them that
    /// returned is taken, then the last that happened before that one, and so on.
    pub(crate) fn find(
        &mut self,
        graph: &RequestGraph,
        sequences: &Sequences,
        root: usize,
    ) -> &[PathStep] {
        self.steps.clear();
        self.waiting.clear();
        self.waiting.push((root, None));
        while let Some((index, caller)) = self.waiting.pop() {
            let nodes = graph.nodes();
            let node = &nodes[index];
            let step = self.steps.len();
            let mut self_ns = node.end_ns - node.start_ns;
            let mut later: Option<usize> = None;
            for child in graph.awaited_children(index).rev() {
                let is_next = later.is_none_or(|later| {
                    let (earlier, later) = (&nodes[child], &nodes[later]);
                    earlier.end_ns <= later.start_ns
                        && sequences.happens_before(
                            node.operation,
                            earlier.operation,
                            later.operation,
                        )
                });
                if is_next {
                    self_ns -= nodes[child].end_ns - nodes[child].start_ns;
                    self.waiting.push((child, Some(step)));
                    later = Some(child);
                }
            }
            self.steps.push(PathStep { node: index, caller, self_ns });
        }
        &self.steps
    }
}
