//! Which replicas' figures may be believed.
//!
//! Kubernetes knows when a pod's readiness last changed and when its figure was measured. Where
//! an observation does not say, the autoscaler goes by what it saw: a change is dated to the
//! observation that first shows it, and a replica seen for the first time has been as it is
//! since its start.

use std::collections::BTreeMap;

use homeostat_core::{Bytes, Persist, Result, SimDuration, SimTime, Snapshot};

use crate::replica_key::ReplicaKey;
use crate::snapshot_records::records;
use crate::{Observation, ReplicaSample};

/// The replicas of one metric, sorted by what can be done with their figures.
#[derive(Debug, Clone, PartialEq, Default)]
pub(super) struct ReplicaGroups {
    /// The replicas that count.
    pub(super) counted: Vec<Figure>,
    /// What replicas request that are not ready, or too young to be believed.
    pub(super) unready: Vec<f64>,
    /// What replicas request that have no figure.
    pub(super) missing: Vec<f64>,
}

/// What one replica uses of what it requests.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Figure {
    pub(super) used: f64,
    pub(super) requested: f64,
}

impl ReplicaGroups {
    /// Whether all of them request something: of nothing there is no part to be used.
    pub(super) fn all_request(&self) -> bool {
        let counted = self.counted.iter().map(|figure| &figure.requested);
        counted.chain(&self.unready).chain(&self.missing).all(|&requested| requested > 0.0)
    }
}

/// Readiness of each replica as far as it was seen.
#[derive(Debug, Clone, PartialEq, Default)]
pub(super) struct ReadinessMemory {
    replicas: BTreeMap<ReplicaKey, Readiness>,
}

#[derive(Debug, Clone, Copy, PartialEq)]
struct Readiness {
    is_ready: bool,
    since: SimTime,
}

impl ReadinessMemory {
    /// Takes in an observation and forgets the replicas that are gone.
    pub(super) fn observe(&mut self, obs: &Observation) {
        let before = std::mem::take(&mut self.replicas);
        for (key, sample) in ReplicaKey::of(&obs.replicas) {
            let since = match before.get(&key) {
                Some(known) if known.is_ready == sample.is_ready => known.since,
                Some(_) => obs.now,
                None => sample.started,
            };
            self.replicas.insert(key, Readiness { is_ready: sample.is_ready, since });
        }
    }

    /// Sorts the replicas for CPU: a young replica's start-up work is no load.
    pub(super) fn cpu_groups(
        &self,
        obs: &Observation,
        initialization_period: SimDuration,
        initial_readiness_delay: SimDuration,
    ) -> ReplicaGroups {
        self.groups(
            obs,
            |sample| (sample.cpu_cores, obs.request_of(sample).cores()),
            |sample, since| {
                if obs.now < sample.started + initialization_period {
                    // The figure must cover a whole window since the replica became ready.
                    let served = sample.served_throughout;
                    !sample.is_ready || !served.unwrap_or(obs.now >= since + obs.window)
                } else {
                    // One that was ready once keeps counting: it may be unready from overload.
                    !sample.is_ready && since < sample.started + initial_readiness_delay
                }
            },
        )
    }

    /// Sorts the replicas for memory, which a young replica uses like any other.
    pub(super) fn memory_groups(&self, obs: &Observation) -> ReplicaGroups {
        let bytes = |memory: Bytes| memory.bytes() as f64;
        let request = bytes(obs.allocation.memory);
        self.groups(obs, |sample| (sample.memory.map(bytes), request), |_, _| false)
    }

    fn groups(
        &self,
        obs: &Observation,
        figure: impl Fn(&ReplicaSample) -> (Option<f64>, f64),
        is_unready: impl Fn(&ReplicaSample, SimTime) -> bool,
    ) -> ReplicaGroups {
        let mut groups = ReplicaGroups::default();
        for (key, sample) in ReplicaKey::of(&obs.replicas) {
            let since = self.replicas.get(&key).map_or(sample.started, |known| known.since);
            let (used, requested) = figure(sample);
            match used.filter(|used| used.is_finite() && *used >= 0.0) {
                // Without a figure and never ready: still being placed or pulled.
                None if !sample.is_ready && since == sample.started => {
                    groups.unready.push(requested);
                }
                None => groups.missing.push(requested),
                Some(_) if is_unready(sample, since) => groups.unready.push(requested),
                Some(used) => groups.counted.push(Figure { used, requested }),
            }
        }
        groups
    }
}

impl Persist for ReadinessMemory {
    fn save(&self, name: &str, out: &mut Snapshot) {
        let words = self.replicas.iter().flat_map(|(key, known)| {
            let [started, ordinal] = key.words();
            [started, ordinal, u64::from(known.is_ready), known.since.nanos()]
        });
        out.put_u64(name, words.collect::<Vec<_>>());
    }

    fn load(&mut self, name: &str, from: &Snapshot) -> Result<()> {
        self.replicas = records(from, name)?
            .iter()
            .map(|[started, ordinal, is_ready, since]| {
                let since = SimTime::from_nanos(*since);
                let known = Readiness { is_ready: *is_ready != 0, since };
                (ReplicaKey::from_words(*started, *ordinal), known)
            })
            .collect();
        Ok(())
    }
}
