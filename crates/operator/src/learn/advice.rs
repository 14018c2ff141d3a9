//! What a learner says, and what becomes of it.

use std::fmt;

use homeostat_core::SimDuration;
use homeostat_decide::{
    Allocation, AllocationBounds, Features, Observation, Proposal, Reason, RewardPreset,
    ScalingAction,
};
use homeostat_env::Action;

use crate::api::ConditionReason;

/// What a learner says at one moment.
#[derive(Debug, Clone, PartialEq)]
pub enum Advice {
    /// It acts.
    Act(Action),
    /// Nobody has opened a session.
    Nobody,
    /// It did not answer in time.
    Silent {
        /// How long it was waited for; none if it does not wait for us any longer either.
        waited: Option<SimDuration>,
    },
    /// What it said is no action.
    Nonsense {
        /// Why not.
        why: String,
    },
    /// It cannot be asked.
    Unavailable {
        /// Why not.
        why: String,
    },
}

impl Advice {
    /// Why somebody else recommends in its place; none if it acts.
    pub fn absence(&self) -> Option<ConditionReason> {
        match self {
            Self::Act(_) => None,
            Self::Nonsense { .. } => Some(ConditionReason::RecommenderNonsense),
            Self::Nobody | Self::Silent { .. } | Self::Unavailable { .. } => {
                Some(ConditionReason::RecommenderUnavailable)
            }
        }
    }
}

impl fmt::Display for Advice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Act(action) => write!(f, "action {action}"),
            Self::Nobody => f.write_str("no learner has opened a session"),
            Self::Silent { waited: Some(waited) } => {
                write!(f, "the learner did not act within {waited}")
            }
            Self::Silent { waited: None } => f.write_str("the learner has stopped to act"),
            Self::Nonsense { why } => write!(f, "the learner's answer makes no sense: {why}"),
            Self::Unavailable { why } => f.write_str(why),
        }
    }
}

/// The action before, for the reward of the window that followed.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct LastAction {
    step: Option<ScalingAction>,
    penalty: f64,
}

impl LastAction {
    /// What the window was worth: the reward of the serverless worlds by default.
    pub fn reward(
        &self,
        features: &[f32; Features::COUNT],
        obs: &Observation,
        bounds: &AllocationBounds,
    ) -> f64 {
        RewardPreset::Slo.of(features, obs, bounds) - self.penalty
    }
}

/// An action as a proposal: one of the steps of Table 4.1, or replicas, cores and GiB of a pod.
/// An illegal step changes nothing; the guardrails bound the rest.
pub fn act(
    action: &Action,
    from: &Allocation,
    bounds: &AllocationBounds,
    last: &mut LastAction,
) -> Proposal {
    const GIB: f64 = 1024.0 * 1024.0 * 1024.0;
    match action {
        Action::Continuous(values) => {
            *last = LastAction::default();
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
            let step = step.unwrap_or(ScalingAction::Hold);
            let wanted = step.apply(from, bounds);
            let is_undone = last.step.is_some_and(|before| step.opposes(before));
            let penalty = if is_undone || wanted.is_err() { RewardPreset::PENALTY } else { 0.0 };
            *last = LastAction { step: Some(step), penalty };
            Proposal::keep(&wanted.unwrap_or(*from)).because(Reason::Action { action: step })
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use homeostat_core::{Bounds, Bytes, Millicores};

    fn allocation(replicas: u32, millicores: u64) -> Allocation {
        Allocation { replicas, cpu: Millicores::new(millicores), memory: Bytes::from_mib(512) }
    }

    fn bounds() -> AllocationBounds {
        AllocationBounds {
            replicas: Bounds::try_new(1, 4).unwrap(),
            cpu: Bounds::try_new(Millicores::new(100), Millicores::new(1000)).unwrap(),
            memory: Bounds::try_new(Bytes::from_mib(64), Bytes::from_mib(1024)).unwrap(),
        }
    }

    #[test]
    fn steps_that_leave_the_bounds_or_undo_the_one_before_are_paid_for() {
        let mut last = LastAction::default();
        let mut check = |action: usize, from: Allocation, replicas: f64, penalty: f64| {
            let proposal = act(&Action::Discrete(action), &from, &bounds(), &mut last);
            assert_eq!((proposal.replicas, last.penalty), (replicas, penalty), "{action}");
        };
        let up = ScalingAction::ReplicasUp.index();
        let down = ScalingAction::ReplicasDown.index();
        check(up, allocation(3, 500), 4.0, 0.0);
        check(up, allocation(4, 500), 4.0, 1.0);
        check(down, allocation(4, 500), 3.0, 1.0);
        check(0, allocation(3, 500), 3.0, 0.0);
    }

    #[test]
    fn an_allocation_is_taken_as_it_is_and_what_is_missing_is_no_number() {
        let mut last = LastAction::default();
        let all = Action::Continuous(vec![1e6, 0.25, 2.0]);
        let proposal = act(&all, &allocation(2, 500), &bounds(), &mut last);
        assert_eq!(
            (proposal.replicas, proposal.cpu_cores, proposal.memory_bytes),
            (1e6, 0.25, 2.0 * 1024.0 * 1024.0 * 1024.0)
        );
        let short = act(&Action::Continuous(vec![2.0]), &allocation(2, 500), &bounds(), &mut last);
        assert!(short.cpu_cores.is_nan());
    }
}
