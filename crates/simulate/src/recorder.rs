//! The decisions of a simulation as trajectories to learn from.

use std::collections::BTreeMap;
use std::io::{self, Write};

use homeostat_core::ControlSchema;
use homeostat_core::trajectory::{End, Origin, Record, Transition};
use homeostat_decide::{Features, Ratios};

use super::engine::WindowRecord;

/// Collects the decisions of one seed. What a policy proposed is written as the factors that it
/// asked for, whichever policy it was; guards stand between it and the plant, as they do when a
/// learned policy is served.
pub(super) struct DecisionRecorder {
    policy: String,
    /// By the number of the target.
    trajectories: BTreeMap<usize, Trajectory>,
}

struct Trajectory {
    origin: Origin,
    transitions: Vec<Transition>,
    /// The last decision, whose reward is not known yet.
    pending: Transition,
}

impl DecisionRecorder {
    pub(super) fn new(policy: &str) -> Self {
        Self { policy: policy.to_owned(), trajectories: BTreeMap::new() }
    }

    pub(super) fn take_in(&mut self, record: &WindowRecord<'_>) {
        let WindowRecord { decision, .. } = record;
        let now = Transition {
            at_ms: (decision.at().seconds() * 1e3) as i64,
            observation: record.features.to_vec(),
            action: Ratios::between(decision.from(), decision.proposed()).numbers().to_vec(),
            reward: 0.0,
            probability: None,
        };
        match self.trajectories.get_mut(&record.function) {
            Some(trajectory) => {
                let before = std::mem::replace(&mut trajectory.pending, now);
                let reward = record.reward;
                trajectory.transitions.push(Transition { reward, ..before });
            }
            None => {
                let origin = Origin {
                    workload: record.name.to_owned(),
                    policy: self.policy.clone(),
                    schema: ControlSchema {
                        features: Features::schema(),
                        action: Ratios::schema(),
                        bounds: record.bounds.fields(),
                    },
                    // The same simulation gives the same file, whenever it is run.
                    recorded_ms: 0,
                };
                let trajectory = Trajectory { origin, transitions: Vec::new(), pending: now };
                self.trajectories.insert(record.function, trajectory);
            }
        }
    }

    /// Writes every trajectory as lines of JSON.
    pub(super) fn write(self, to: &mut dyn Write) -> io::Result<()> {
        let mut line = |record: &Record| {
            serde_json::to_writer(&mut *to, record)?;
            to.write_all(b"\n")
        };
        for Trajectory { origin, transitions, pending } in self.trajectories.into_values() {
            line(&Record::Trajectory(origin))?;
            for transition in transitions {
                line(&Record::Transition(transition))?;
            }
            line(&Record::End { how: End::Truncated, observation: pending.observation })?;
        }
        Ok(())
    }
}
