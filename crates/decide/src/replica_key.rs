//! Identifies replicas across observations.

use homeostat_core::SimTime;

use crate::ReplicaSample;

/// A replica's start time and its index among the replicas with the same one. Observations do not
/// name replicas; those with the same start time are interchangeable for the policies here.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct ReplicaKey {
    /// When it was started.
    pub(crate) started: SimTime,
    /// Number of replicas with the same start time before it.
    pub(crate) ordinal: u64,
}

impl ReplicaKey {
    /// Every sample with its key, in the order of keys.
    pub(crate) fn of(samples: &[ReplicaSample]) -> Vec<(Self, &ReplicaSample)> {
        let mut sorted: Vec<_> = samples.iter().collect();
        sorted.sort_by_key(|sample| sample.started);
        let mut keyed: Vec<(Self, &ReplicaSample)> = Vec::with_capacity(sorted.len());
        for sample in sorted {
            let ordinal = match keyed.last() {
                Some((last, _)) if last.started == sample.started => last.ordinal + 1,
                _ => 0,
            };
            keyed.push((Self { started: sample.started, ordinal }, sample));
        }
        keyed
    }

    /// The key as words of a snapshot.
    pub(crate) fn words(self) -> [u64; 2] {
        [self.started.nanos(), self.ordinal]
    }

    /// What [`ReplicaKey::words`] wrote.
    pub(crate) fn from_words(started: u64, ordinal: u64) -> Self {
        Self { started: SimTime::from_nanos(started), ordinal }
    }
}
