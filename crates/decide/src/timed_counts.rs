//! Counts with their times, over a limited span.

use std::collections::VecDeque;

use homeostat_core::{Persist, Result, SimDuration, SimTime, Snapshot};

use crate::snapshot_records::records;

/// Counts in the order of time.
#[derive(Debug, Clone, PartialEq, Default)]
pub(crate) struct TimedCounts {
    counts: VecDeque<(SimTime, u32)>,
}

impl TimedCounts {
    /// Appends a count.
    pub(crate) fn push(&mut self, at: SimTime, count: u32) {
        self.counts.push_back((at, count));
    }

    /// Drops counts of `span` ago or earlier.
    pub(crate) fn forget(&mut self, now: SimTime, span: SimDuration) {
        while self.counts.front().is_some_and(|(at, _)| *at + span <= now) {
            self.counts.pop_front();
        }
    }

    /// The counts less than `span` ago.
    pub(crate) fn within(&self, now: SimTime, span: SimDuration) -> impl Iterator<Item = u32> + '_ {
        let recent = self.counts.iter().filter(move |(at, _)| *at + span > now);
        recent.map(|(_, count)| *count)
    }

    /// The time of the count with this index; the oldest is the first.
    pub(crate) fn time(&self, index: usize) -> Option<SimTime> {
        self.counts.get(index).map(|(at, _)| *at)
    }

    /// The time of the latest count.
    pub(crate) fn latest(&self) -> Option<SimTime> {
        self.counts.back().map(|(at, _)| *at)
    }

    /// Number of counts.
    pub(crate) fn len(&self) -> usize {
        self.counts.len()
    }
}

impl Persist for TimedCounts {
    fn save(&self, name: &str, out: &mut Snapshot) {
        let words = self.counts.iter().flat_map(|(at, count)| [at.nanos(), u64::from(*count)]);
        out.put_u64(name, words.collect::<Vec<_>>());
    }

    fn load(&mut self, name: &str, from: &Snapshot) -> Result<()> {
        let counts = records(from, name)?.iter();
        self.counts = counts.map(|[at, count]| (SimTime::from_nanos(*at), *count as u32)).collect();
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_count_lasts_exactly_its_span() {
        let at = |seconds| SimTime::ZERO + SimDuration::from_secs(seconds);
        let span = SimDuration::from_secs(15);
        let mut counts = TimedCounts::default();
        counts.push(at(0), 4);
        counts.push(at(10), 2);
        assert_eq!(counts.within(at(14), span).sum::<u32>(), 6);
        assert_eq!(counts.within(at(15), span).sum::<u32>(), 2);
        assert_eq!(counts.latest(), Some(at(10)));
        counts.forget(at(15), span);
        assert_eq!((counts.len(), counts.time(0)), (1, Some(at(10))));
    }
}
