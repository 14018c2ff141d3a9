//! The allowed allocations.

use homeostat_core::{BoundField, Bounds, Bytes, Millicores};

use crate::{Allocation, Error, Result};

/// Lower and upper bound of each dimension of an [`Allocation`].
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
    /// The smallest CPU of the dissertation (Section 4.3.1): 128 `cpu.shares`.
    pub const DISSERTATION_MIN_CPU: Millicores = Millicores::new(125);
    /// The largest CPU of the dissertation (Section 4.3.1): 2048 `cpu.shares`.
    pub const DISSERTATION_MAX_CPU: Millicores = Millicores::new(2000);

    /// The dissertation's CPU range; it leaves memory and the number of containers to the
    /// platform.
    pub fn with_dissertation_cpu(replicas: Bounds<u32>, memory: Bounds<Bytes>) -> Self {
        let cpu = Bounds::try_new(Self::DISSERTATION_MIN_CPU, Self::DISSERTATION_MAX_CPU)
            .expect("125 millicores are fewer than 2000");
        Self { replicas, cpu, memory }
    }

    /// An error for bounds that allow a replica without CPU or memory, which would never respond.
    pub fn validate(&self) -> Result<()> {
        if self.replicas.high() == 0 {
            return Err(Error::setting("maximum of replicas", "at least 1", 0));
        }
        if self.cpu.low() == Millicores::ZERO {
            return Err(Error::setting("minimum of CPU", "above 0", self.cpu.low()));
        }
        if self.memory.low() == Bytes::ZERO {
            return Err(Error::setting("minimum of memory", "above 0", self.memory.low()));
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

    /// The bounds that a policy file or recorded decisions carry; none if they are not those of pods.
    pub fn from_fields(fields: &[BoundField]) -> Option<Self> {
        let [replicas, cpu, memory] = fields else { return None };
        let count = |number: u64| u32::try_from(number).ok();
        let this = Self {
            replicas: Bounds::try_new(count(replicas.low)?, count(replicas.high)?).ok()?,
            cpu: Bounds::try_new(Millicores::new(cpu.low), Millicores::new(cpu.high)).ok()?,
            memory: Bounds::try_new(Bytes::new(memory.low), Bytes::new(memory.high)).ok()?,
        };
        (this.fields() == fields).then_some(this)
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
            "minimum of memory must be above 0, got 0",
        );
        let none = Bounds::try_new(0, 0).unwrap();
        check(
            AllocationBounds { replicas: none, ..good },
            "maximum of replicas must be at least 1, got 0",
        );
        let cpu = Bounds::try_new(Millicores::ZERO, Millicores::new(9)).unwrap();
        check(AllocationBounds { cpu, ..good }, "minimum of CPU must be above 0, got 0m");
    }
}
