//! Discrete scaling actions: one step of one dimension, or none (the dissertation, Table 4.1).

use std::fmt;

use homeostat_core::{ActionField, ActionSchema, Bytes, Millicores};

use crate::{Allocation, Guards, Plant, PreparedProposal, Proposal, Reason, RewardPreset, decide};

/// One action of a learned policy.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum ScalingAction {
    /// Change nothing.
    Hold,
    /// More CPU for each replica.
    CpuUp,
    /// Less CPU for each replica.
    CpuDown,
    /// More memory for each replica.
    MemoryUp,
    /// Less memory for each replica.
    MemoryDown,
    /// One replica more.
    ReplicasUp,
    /// One replica fewer.
    ReplicasDown,
}

impl ScalingAction {
    /// Every action, in the order of its index.
    pub const ALL: [Self; 7] = [
        Self::Hold,
        Self::CpuUp,
        Self::CpuDown,
        Self::MemoryUp,
        Self::MemoryDown,
        Self::ReplicasUp,
        Self::ReplicasDown,
    ];
    /// A step of CPU: 128 `cpu.shares`.
    pub const CPU_STEP: Millicores = Millicores::new(125);
    /// A step of memory. The dissertation names none; 64 MiB is a quarter of OpenWhisk's
    /// default limit.
    pub const MEMORY_STEP: Bytes = Bytes::from_mib(64);

    /// The schema that policy files carry.
    pub fn schema() -> ActionSchema {
        let choices = Self::ALL.map(|action| action.to_string());
        let meaning = "one step of one dimension: 125 millicores, 64 MiB or one replica";
        ActionSchema {
            id: "pods/steps-v1".to_owned(),
            parts: vec![ActionField::choice("step", meaning, choices)],
        }
    }

    /// The action with this index.
    pub fn from_index(index: usize) -> Option<Self> {
        Self::ALL.get(index).copied()
    }

    /// Its index.
    pub fn index(self) -> usize {
        self as usize
    }

    /// The allocation after the action; none without a replica to resize or remove. Guards apply
    /// the bounds.
    pub fn target(self, from: &Allocation) -> Option<Allocation> {
        let &Allocation { replicas, cpu, memory } = from;
        if replicas == 0 && !matches!(self, Self::Hold | Self::ReplicasUp) {
            return None;
        }
        Some(match self {
            Self::Hold => *from,
            Self::CpuUp => Allocation { cpu: cpu + Self::CPU_STEP, ..*from },
            Self::CpuDown => Allocation { cpu: cpu.saturating_sub(Self::CPU_STEP), ..*from },
            Self::MemoryUp => Allocation { memory: memory + Self::MEMORY_STEP, ..*from },
            Self::MemoryDown => {
                Allocation { memory: memory.saturating_sub(Self::MEMORY_STEP), ..*from }
            }
            Self::ReplicasUp => Allocation { replicas: replicas.saturating_add(1), ..*from },
            Self::ReplicasDown => Allocation { replicas: replicas - 1, ..*from },
        })
    }

    /// The action as a proposal.
    pub fn propose(self, from: &Allocation) -> Proposal {
        let wanted = self.target(from).unwrap_or(*from);
        Proposal::keep(&wanted).because(Reason::Action { action: self })
    }

    /// The penalty of the action itself (Section 4.3.1): for an illegal action, and for one that
    /// reverts the previous one. An action is illegal if the target does not get the allocation:
    /// because of bounds, another guard, or missing capacity on the nodes.
    pub fn penalty(self, previous: Self, from: &Allocation, granted: &Allocation) -> f64 {
        let is_illegal = self.target(from) != Some(*granted);
        if is_illegal || self.opposes(previous) { RewardPreset::PENALTY } else { 0.0 }
    }

    /// Takes the action on a target as an agent in training does: proposal, decision, apply. Returns
    /// the penalty of the action itself.
    pub fn take<P: Plant + ?Sized>(
        self,
        plant: &mut P,
        target: usize,
        guards: &mut Guards,
        previous: Self,
    ) -> Result<f64, P::Error> {
        let seen = plant.observe(target);
        let from = seen.allocation;
        let decision = decide(&mut PreparedProposal::new(self.propose(&from)), guards, seen);
        let granted = plant.apply(target, &decision)?;
        Ok(self.penalty(previous, &from, &granted))
    }

    /// Whether this reverts `previous`: the oscillation that Section 4.3.1 penalises.
    pub fn opposes(self, previous: Self) -> bool {
        matches!(
            (self, previous),
            (Self::CpuUp, Self::CpuDown)
                | (Self::CpuDown, Self::CpuUp)
                | (Self::MemoryUp, Self::MemoryDown)
                | (Self::MemoryDown, Self::MemoryUp)
                | (Self::ReplicasUp, Self::ReplicasDown)
                | (Self::ReplicasDown, Self::ReplicasUp)
        )
    }
}

impl fmt::Display for ScalingAction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Hold => "hold",
            Self::CpuUp => "more CPU",
            Self::CpuDown => "less CPU",
            Self::MemoryUp => "more memory",
            Self::MemoryDown => "less memory",
            Self::ReplicasUp => "one replica more",
            Self::ReplicasDown => "one replica fewer",
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn allocation(replicas: u32, millicores: u64, mebibytes: u64) -> Allocation {
        Allocation {
            replicas,
            cpu: Millicores::new(millicores),
            memory: Bytes::from_mib(mebibytes),
        }
    }

    #[test]
    fn each_action_moves_one_dimension_by_one_step() {
        let check = |action: ScalingAction, expect| {
            assert_eq!(action.target(&allocation(3, 500, 256)), Some(expect), "{action}");
        };
        check(ScalingAction::Hold, allocation(3, 500, 256));
        check(ScalingAction::CpuUp, allocation(3, 625, 256));
        check(ScalingAction::CpuDown, allocation(3, 375, 256));
        check(ScalingAction::MemoryUp, allocation(3, 500, 320));
        check(ScalingAction::MemoryDown, allocation(3, 500, 192));
        check(ScalingAction::ReplicasUp, allocation(4, 500, 256));
        check(ScalingAction::ReplicasDown, allocation(2, 500, 256));
    }

    #[test]
    fn without_replicas_only_hold_and_one_more_are_possible() {
        let empty = allocation(0, 500, 256);
        for action in ScalingAction::ALL {
            let is_possible = action.target(&empty).is_some();
            let expect = matches!(action, ScalingAction::Hold | ScalingAction::ReplicasUp);
            assert_eq!(is_possible, expect, "{action}");
        }
    }

    #[test]
    fn an_action_costs_if_it_is_not_granted_or_undoes_the_one_before() {
        let from = allocation(3, 500, 256);
        let check = |action: ScalingAction, previous, granted, expect| {
            assert_eq!(action.penalty(previous, &from, &granted), expect, "{action}");
        };
        use ScalingAction::{CpuUp, Hold, ReplicasDown, ReplicasUp};
        check(Hold, Hold, from, 0.0);
        check(ReplicasUp, Hold, allocation(4, 500, 256), 0.0);
        check(ReplicasUp, Hold, from, 1.0);
        check(ReplicasUp, ReplicasDown, allocation(4, 500, 256), 1.0);
        check(ReplicasUp, CpuUp, allocation(4, 500, 256), 0.0);
    }

    proptest! {
        #[test]
        fn an_action_is_undone_by_exactly_its_opposite(
            index in 0..ScalingAction::ALL.len(), other in 0..ScalingAction::ALL.len(),
            replicas in 1_u32..9, steps in 2_u64..14, mebibytes in 2_u64..7,
        ) {
            let before = allocation(replicas, steps * 125, mebibytes * 64);
            let (action, other) = (ScalingAction::ALL[index], ScalingAction::ALL[other]);
            let after = action.target(&before).expect("there are replicas");
            let undone = other.target(&after) == Some(before);
            let holds = action == ScalingAction::Hold && other == ScalingAction::Hold;
            prop_assert_eq!(undone, other.opposes(action) || holds);
        }
    }
}
