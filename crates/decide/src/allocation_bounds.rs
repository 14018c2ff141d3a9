//! The allocations that are allowed at all.

use homeostat_core::{BoundField, Bounds, Bytes, Millicores};

use crate::{Allocation, Error, Result};

/// Least and most of each dimension of an [`Allocation`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AllocationBounds {
    /// Number of replicas.
    pub replicas: Bounds<u32>,
    /// CPU of each.
    pub cpu: Bounds<Millicores>,
    /// Memory of each.
    pub memory: Bounds<Bytes>,
}

impl AllocationBounds {
    /// Least CPU of the dissertation's Section 4.3.1: 128 `cpu.shares`.
    pub const DISSERTATION_MIN_CPU: Millicores = Millicores::new(125);
    /// Most CPU of the dissertation's Section 4.3.1: 2048 `cpu.shares`.
    pub const DISSERTATION_MAX_CPU: Millicores = Millicores::new(2000);

    /// The dissertation's CPU range; it leaves memory and the number of containers to the
    /// platform.
    pub fn with_dissertation_cpu(replicas: Bounds<u32>, memory: Bounds<Bytes>) -> Self {
        let cpu = Bounds::try_new(Self::DISSERTATION_MIN_CPU, Self::DISSERTATION_MAX_CPU)
            .expect("125 millicores are fewer than 2000");
        Self { replicas, cpu, memory }
    }

    /// Refuses bounds that allow a replica without CPU or memory: it would never answer.
    pub fn validate(&self) -> Result<()> {
        if self.replicas.high() == 0 {
            return Err(Error::setting("most replicas", "at least 1", 0));
        }
        if self.cpu.low() == Millicores::ZERO {
            return Err(Error::setting("least cpu", "above 0", self.cpu.low()));
        }
        if self.memory.low() == Bytes::ZERO {
            return Err(Error::setting("least memory", "above 0", self.memory.low()));
        }
        Ok(())
    }

    /// The bounds as a policy file carries them.
    pub fn fields(&self) -> Vec<BoundField> {
        let field =
            |dimension: &str, low, high| BoundField { dimension: dimension.to_owned(), low, high };
        let Self { replicas, cpu, memory } = self;
        vec![
            field("replicas", replicas.low().into(), replicas.high().into()),
            field("CPU in millicores", cpu.low().millicores(), cpu.high().millicores()),
            field("memory in bytes", memory.low().bytes(), memory.high().bytes()),
        ]
    }

    /// Whether every dimension lies inside.
    pub fn contains(&self, allocation: &Allocation) -> bool {
        self.clamp(allocation) == *allocation
    }

    /// The nearest allocation inside.
    pub fn clamp(&self, allocation: &Allocation) -> Allocation {
        Allocation {
            replicas: self.replicas.clamp(allocation.replicas),
            cpu: self.cpu.clamp(allocation.cpu),
            memory: self.memory.clamp(allocation.memory),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bounds_that_allow_an_empty_replica_are_refused() {
        let memory = |low| Bounds::try_new(Bytes::new(low), Bytes::from_mib(512)).unwrap();
        let replicas = Bounds::try_new(0, 8).unwrap();
        let check = |bounds: AllocationBounds, expect: &str| {
            assert_eq!(bounds.validate().unwrap_err().to_string(), expect);
        };
        let good = AllocationBounds::with_dissertation_cpu(replicas, memory(64));
        assert_eq!(good.validate(), Ok(()));
        check(
            AllocationBounds::with_dissertation_cpu(replicas, memory(0)),
            "least memory must be above 0, got 0",
        );
        let none = Bounds::try_new(0, 0).unwrap();
        check(
            AllocationBounds { replicas: none, ..good },
            "most replicas must be at least 1, got 0",
        );
        let cpu = Bounds::try_new(Millicores::ZERO, Millicores::new(9)).unwrap();
        check(AllocationBounds { cpu, ..good }, "least cpu must be above 0, got 0m");
    }
}
