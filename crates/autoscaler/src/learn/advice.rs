//! The answer of a learner or a policy file, and the proposal that follows from it.

use std::fmt;

use homeostat_core::{Persist, Result as CoreResult, SimDuration, Snapshot};
use homeostat_decide::{
    Allocation, AllocationBounds, Features, Observation, Proposal, Reason, RewardPreset,
    ScalingAction,
};
use homeostat_env::Action;

use super::served_policy::ServedPolicy;
use crate::api::ConditionReason;

/// The answer of a learner at one reconcile.
#[derive(Debug, Clone, PartialEq)]
pub enum Advice {
    /// An action.
    Act(Action),
    /// A policy file, which computes its actions from observations.
    Serve(ServedPolicy),
    /// A policy file that decides beside the recommender and does not act.
    Shadow(ServedPolicy),
    /// No learner has opened a session.
    NoLearner,
    /// It did not answer in time.
    Silent {
        /// The timeout that passed; none if the learner did not wait for this transition.
        waited: Option<SimDuration>,
    },
    /// The answer is no valid action.
    Invalid {
        /// Why not.
        why: String,
    },
    /// The learner or the policy file cannot be used.
    Unavailable {
        /// Why not.
        why: String,
    },
}

impl Advice {
    /// Why another recommender stands in; none if there is an action or a policy.
    pub fn absence(&self) -> Option<ConditionReason> {
        match self {
            Self::Act(_) | Self::Serve(_) | Self::Shadow(_) => None,
            Self::Invalid { .. } => Some(ConditionReason::RecommenderInvalid),
            Self::NoLearner | Self::Silent { .. } | Self::Unavailable { .. } => {
                Some(ConditionReason::RecommenderUnavailable)
            }
        }
    }
}

impl fmt::Display for Advice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Act(action) => write!(f, "action {action}"),
            Self::Serve(policy) | Self::Shadow(policy) => write!(f, "policy of {}", policy.version),
            Self::NoLearner => f.write_str("no learner has opened a session"),
            Self::Silent { waited: Some(waited) } => {
                write!(f, "the learner did not act within {waited}")
            }
            Self::Silent { waited: None } => f.write_str("the learner has stopped answering"),
            Self::Invalid { why } => write!(f, "the learner's answer is invalid: {why}"),
            Self::Unavailable { why } => f.write_str(why),
        }
    }
}

/// The last action and its penalty, for the reward of the window that followed.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct LastAction {
    step: Option<ScalingAction>,
    penalty: f64,
}

impl LastAction {
    /// The reward of the window: the default reward of the serverless environments, minus the
    /// penalty of the action.
    pub fn reward(
        &self,
        features: &[f32; Features::COUNT],
        obs: &Observation,
        bounds: &AllocationBounds,
    ) -> f64 {
        RewardPreset::Slo.of(features, obs, bounds) - self.penalty
    }

    /// Records an action and the allocation that was applied.
    pub fn note(&mut self, advice: Option<&Advice>, from: &Allocation, applied: &Allocation) {
        *self = match advice {
            Some(Advice::Act(Action::Discrete(step))) => {
                let step = ScalingAction::from_index(*step).unwrap_or(ScalingAction::Hold);
                let previous = self.step.unwrap_or(ScalingAction::Hold);
                Self { step: Some(step), penalty: step.penalty(previous, from, applied) }
            }
            _ => Self::default(),
        };
    }
}

impl Persist for LastAction {
    fn save(&self, name: &str, out: &mut Snapshot) {
        let step = self.step.map(|step| step.index() as u64);
        out.put_u64(&format!("{name}/step"), step.into_iter().collect::<Vec<_>>());
        out.put_f64(&format!("{name}/penalty"), [self.penalty]);
    }

    fn load(&mut self, name: &str, from: &Snapshot) -> CoreResult<()> {
        let step = from.any_u64s(&format!("{name}/step"))?.first();
        self.step = step.and_then(|step| ScalingAction::from_index(*step as usize));
        self.penalty = from.f64s(&format!("{name}/penalty"), 1)?[0];
        Ok(())
    }
}

/// The proposal of an action: one step of one dimension, or replicas, cores and GiB of a pod.
pub fn propose(action: &Action, from: &Allocation) -> Proposal {
    const GIB: f64 = 1024.0 * 1024.0 * 1024.0;
    match action {
        Action::Continuous(values) => {
            let value = |place: usize| values.get(place).copied().map_or(f64::NAN, f64::from);
            Proposal {
                replicas: value(0),
                cpu_cores: value(1),
                memory_bytes: value(2) * GIB,
                reasons: vec![Reason::Asked],
            }
        }
        _ => {
            let step = action.discrete().and_then(ScalingAction::from_index);
            step.unwrap_or(ScalingAction::Hold).propose(from)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use homeostat_core::{Bytes, Millicores};

    fn allocation(replicas: u32, millicores: u64) -> Allocation {
        Allocation { replicas, cpu: Millicores::new(millicores), memory: Bytes::from_mib(512) }
    }

    #[test]
    fn an_action_that_is_not_applied_or_undoes_the_one_before_is_penalised() {
        let mut last = LastAction::default();
        let mut check = |action: ScalingAction, applied: u32, penalty: f64| {
            let advice = Advice::Act(Action::Discrete(action.index()));
            last.note(Some(&advice), &allocation(3, 500), &allocation(applied, 500));
            assert_eq!(last.penalty, penalty, "{action}");
        };
        check(ScalingAction::ReplicasUp, 4, 0.0);
        check(ScalingAction::ReplicasUp, 3, 1.0);
        check(ScalingAction::ReplicasDown, 2, 1.0);
        check(ScalingAction::Hold, 3, 0.0);
    }

    #[test]
    fn the_last_action_survives_a_restart() {
        let mut last = LastAction::default();
        let advice = Advice::Act(Action::Discrete(ScalingAction::ReplicasUp.index()));
        last.note(Some(&advice), &allocation(3, 500), &allocation(3, 500));
        let mut snapshot = Snapshot::default();
        last.save("last", &mut snapshot);
        let mut restored = LastAction::default();
        restored.load("last", &snapshot).expect("just saved");
        assert_eq!(restored, last);
    }

    #[test]
    fn an_allocation_is_proposed_unchanged_and_a_missing_value_is_not_a_number() {
        let all = Action::Continuous(vec![1e6, 0.25, 2.0]);
        let proposal = propose(&all, &allocation(2, 500));
        assert_eq!(
            (proposal.replicas, proposal.cpu_cores, proposal.memory_bytes),
            (1e6, 0.25, 2.0 * 1024.0 * 1024.0 * 1024.0)
        );
        let short = propose(&Action::Continuous(vec![2.0]), &allocation(2, 500));
        assert!(short.cpu_cores.is_nan());
    }
}
