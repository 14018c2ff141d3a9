//! Scaling of pods, or of a function's containers: the number of replicas and their size.

use homeostat_core::{Bytes, Millicores, SimTime};

use crate::{
    Allocation, AllocationBounds, Dimension, Domain, GuardReason, MetricsStatus, Observation,
    Observe, Proposal, Propose, Reason, Setting, SettingBounds, SloStatus,
};

/// The domain of autoscalers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PodScaling;

impl PodScaling {
    /// Index of the number of replicas among the dimensions of an [`Allocation`].
    pub const REPLICAS: usize = 0;
    /// Index of the CPU of each.
    pub const CPU: usize = 1;
    /// Index of the memory of each.
    pub const MEMORY: usize = 2;
}

impl Domain for PodScaling {
    type Observation = Observation;
    type Setting = Allocation;
    type Bounds = AllocationBounds;
    type Proposal = Proposal;
    type Reason = Reason;
}

impl Setting for Allocation {
    const DIMENSIONS: &'static [Dimension] =
        &[Dimension::REPLICAS, Dimension::CPU, Dimension::MEMORY];

    fn amount(&self, dimension: usize) -> u64 {
        match dimension {
            PodScaling::REPLICAS => u64::from(self.replicas),
            PodScaling::CPU => self.cpu.millicores(),
            _ => self.memory.bytes(),
        }
    }

    fn with_amount(mut self, dimension: usize, amount: u64) -> Self {
        match dimension {
            PodScaling::REPLICAS => self.replicas = u32::try_from(amount).unwrap_or(u32::MAX),
            PodScaling::CPU => self.cpu = Millicores::new(amount),
            _ => self.memory = Bytes::new(amount),
        }
        self
    }

    /// A pod may request no CPU or no memory.
    fn may_be_unset(dimension: usize) -> bool {
        dimension != PodScaling::REPLICAS
    }

    fn is_counted(dimension: usize) -> bool {
        dimension == PodScaling::REPLICAS
    }
}

impl SettingBounds for AllocationBounds {
    type Setting = Allocation;

    fn clamp(&self, allocation: &Allocation) -> Allocation {
        AllocationBounds::clamp(self, allocation)
    }
}

impl Observe for Observation {
    type Setting = Allocation;

    fn now(&self) -> SimTime {
        self.now
    }

    fn setting(&self) -> Allocation {
        self.allocation
    }

    fn measured(&self) -> Allocation {
        self.measured.unwrap_or(self.allocation)
    }

    fn slo_status(&self) -> SloStatus {
        self.slo_status.unwrap_or(match self.latency {
            None => SloStatus::Unknown,
            Some(latency) if latency <= self.slo.threshold() => SloStatus::Met,
            Some(_) => SloStatus::Violated,
        })
    }

    fn metrics_status(&self) -> MetricsStatus {
        self.metrics
    }
}

impl Propose for Proposal {
    type Setting = Allocation;
    type Reason = Reason;

    fn keep(allocation: &Allocation) -> Self {
        Self {
            replicas: f64::from(allocation.replicas),
            cpu_cores: allocation.cpu.cores(),
            memory_bytes: allocation.memory.bytes() as f64,
            reasons: Vec::new(),
        }
    }

    /// A finite number that is too large for its unit saturates; bounds clamp it anyway.
    fn setting(&self) -> Result<Allocation, GuardReason> {
        let whole = |dimension, value: f64, scale: f64| {
            if !value.is_finite() || value < 0.0 {
                return Err(GuardReason::Refused { dimension, value });
            }
            Ok((value * scale).round() as u64)
        };
        let replicas = whole(Dimension::REPLICAS, self.replicas, 1.0)?;
        Ok(Allocation {
            replicas: u32::try_from(replicas).unwrap_or(u32::MAX),
            cpu: Millicores::new(whole(Dimension::CPU, self.cpu_cores, 1e3)?),
            memory: Bytes::new(whole(Dimension::MEMORY, self.memory_bytes, 1.0)?),
        })
    }

    fn into_reasons(self) -> Vec<Reason> {
        self.reasons
    }
}
