//! The discrete actions of the dissertation's Table 4.1: one step of one dimension, or none.

use std::fmt;

use homeostat_core::{Bytes, Millicores};

use crate::{Allocation, AllocationBounds, Amount};

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

/// Why an action cannot be carried out. The allocation stays as it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Illegal {
    /// The action would leave the bounds.
    #[error("one step further than {at} leaves the bounds")]
    OutsideBounds {
        /// What the target has of it.
        at: Amount,
    },
    /// Without replicas there is nothing to resize or remove.
    #[error("there is no replica to scale")]
    NoReplicas,
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

    /// The action with this index.
    pub fn from_index(index: usize) -> Option<Self> {
        Self::ALL.get(index).copied()
    }

    /// Its index.
    pub fn index(self) -> usize {
        self as usize
    }

    /// The allocation after the action. An illegal action changes nothing: the caller keeps
    /// the allocation and may count a penalty (Section 4.3.1).
    pub fn apply(
        self,
        allocation: &Allocation,
        bounds: &AllocationBounds,
    ) -> Result<Allocation, Illegal> {
        if allocation.replicas == 0 && !matches!(self, Self::Hold | Self::ReplicasUp) {
            return Err(Illegal::NoReplicas);
        }
        let &Allocation { replicas, cpu, memory } = allocation;
        let mut next = *allocation;
        // Saturation at zero cannot hide an illegal step: the bounds start above zero.
        let (is_inside, at) = match self {
            Self::Hold => return Ok(next),
            Self::CpuUp | Self::CpuDown => {
                next.cpu = match self {
                    Self::CpuUp => cpu + Self::CPU_STEP,
                    _ => cpu.saturating_sub(Self::CPU_STEP),
                };
                (bounds.cpu.contains(next.cpu), Amount::Cpu(cpu))
            }
            Self::MemoryUp | Self::MemoryDown => {
                next.memory = match self {
                    Self::MemoryUp => memory + Self::MEMORY_STEP,
                    _ => memory.saturating_sub(Self::MEMORY_STEP),
                };
                (bounds.memory.contains(next.memory), Amount::Memory(memory))
            }
            Self::ReplicasUp | Self::ReplicasDown => {
                next.replicas = match self {
                    Self::ReplicasUp => replicas.saturating_add(1),
                    _ => replicas - 1,
                };
                (bounds.replicas.contains(next.replicas), Amount::Replicas(replicas))
            }
        };
        if is_inside { Ok(next) } else { Err(Illegal::OutsideBounds { at }) }
    }

    /// Whether this undoes `previous`: the oscillation that Section 4.3.1 penalises.
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
    use homeostat_core::Bounds;
    use proptest::prelude::*;

    fn bounds() -> AllocationBounds {
        AllocationBounds::with_dissertation_cpu(
            Bounds::try_new(0, 10).unwrap(),
            Bounds::try_new(Bytes::from_mib(64), Bytes::from_mib(512)).unwrap(),
        )
    }

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
            assert_eq!(action.apply(&allocation(3, 500, 256), &bounds()), Ok(expect), "{action}");
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
    fn steps_out_of_bounds_are_illegal() {
        let check = |action: ScalingAction, at: Allocation| {
            let error = action.apply(&at, &bounds()).unwrap_err();
            assert!(matches!(error, Illegal::OutsideBounds { .. }), "{action} at {at}");
        };
        check(ScalingAction::CpuUp, allocation(1, 2000, 256));
        check(ScalingAction::CpuDown, allocation(1, 125, 256));
        check(ScalingAction::MemoryUp, allocation(1, 500, 512));
        check(ScalingAction::MemoryDown, allocation(1, 500, 64));
        check(ScalingAction::ReplicasUp, allocation(10, 500, 256));
    }

    #[test]
    fn with_no_replica_left_one_can_only_hold_or_add_one() {
        let empty = allocation(0, 500, 256);
        for action in ScalingAction::ALL {
            let is_legal = action.apply(&empty, &bounds()).is_ok();
            let expect = matches!(action, ScalingAction::Hold | ScalingAction::ReplicasUp);
            assert_eq!(is_legal, expect, "{action}");
        }
    }

    proptest! {
        #[test]
        fn an_opposing_action_takes_the_other_one_back(
            index in 0usize..7, replicas in 1u32..=10, steps in 1u64..=16, memory in 1u64..=8,
        ) {
            let before = allocation(replicas, steps * 125, memory * 64);
            let action = ScalingAction::from_index(index).unwrap();
            prop_assert_eq!(action.index(), index);
            let Ok(after) = action.apply(&before, &bounds()) else { return Ok(()) };
            prop_assert!(bounds().contains(&after));
            for other in ScalingAction::ALL {
                let undone = other.apply(&after, &bounds()) == Ok(before);
                if other.opposes(action) {
                    prop_assert!(undone);
                    prop_assert!(action.opposes(other));
                } else {
                    prop_assert!(!undone || action == ScalingAction::Hold);
                }
            }
        }
    }
}
