//! What was wrong with spans, counted.

use serde::Serialize;

/// Spans that were dropped or repaired, by reason. A span may count more than once.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct SpanDefects {
    /// Dropped: no trace id or no span id.
    pub without_id: u64,
    /// Dropped: the trace, or all traces together, have as many spans as fit.
    pub over_limit: u64,
    /// Dropped: a copy of another span.
    pub duplicate: u64,
    /// Left out: its parent is missing, or an ancestor's is, in a trace that has a root.
    pub missing_parent: u64,
    /// Left out: it is its own ancestor, or below such a span.
    pub cyclic: u64,
    /// Repaired: its end came before its start, so that its duration is zero.
    pub end_before_start: u64,
    /// Repaired: its time or duration was out of range and is cut.
    pub time_out_of_range: u64,
    /// Repaired: a name was too long or one too many, and is cut or `(other)`.
    pub name_over_limit: u64,
    /// Repaired: moved because the clock of its instance differs from that of its caller.
    pub clock_skew: u64,
    /// Traces whose root is missing; spans with missing parents are their roots.
    pub traces_without_root: u64,
    /// Steps of critical paths that are counted as their callers, because there are too many.
    pub merged_steps: u64,
    /// Orders of two operations that are not remembered, because there are too many.
    pub forgotten_sequences: u64,
}

impl SpanDefects {
    /// Whether nothing was wrong.
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}
