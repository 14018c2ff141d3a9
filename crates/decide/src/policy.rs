//! Who proposes, and what a proposal is.

use homeostat_core::{Bytes, Millicores, Persist};

use crate::{Allocation, Dimension, Observation, Reason};

/// A rule or a network that proposes allocations. A proposal depends on the observation and
/// on what the policy has saved of earlier ones, and on nothing else.
///
/// [`Persist`] covers what is remembered, not the settings: a policy is restored into one
/// that was built from the same settings.
pub trait Policy: Persist + Send {
    /// Its name, as [`PolicyConfig::by_name`](crate::PolicyConfig::by_name) knows it.
    fn name(&self) -> &str;

    /// What the target should be given. Called once per observation, in the order of time.
    fn propose(&mut self, obs: &Observation) -> Proposal;
}

/// Plain numbers, so that a broken policy can be told from a working one:
/// [`decide`](crate::decide()) refuses what is negative or not finite.
#[derive(Debug, Clone, PartialEq)]
pub struct Proposal {
    /// Number of replicas, rounded to the nearest.
    pub replicas: f64,
    /// Cores of each, rounded to the nearest millicore.
    pub cpu_cores: f64,
    /// Bytes of memory of each, rounded to the nearest.
    pub memory_bytes: f64,
    /// Why.
    pub reasons: Vec<Reason>,
}

impl Proposal {
    /// The given allocation, without a reason yet.
    pub fn keep(allocation: &Allocation) -> Self {
        Self {
            replicas: f64::from(allocation.replicas),
            cpu_cores: allocation.cpu.cores(),
            memory_bytes: allocation.memory.bytes() as f64,
            reasons: Vec::new(),
        }
    }

    /// Adds a reason.
    pub fn because(mut self, reason: Reason) -> Self {
        self.reasons.push(reason);
        self
    }

    /// The proposal in units, or why it is refused. What is finite but too large for its unit
    /// becomes the largest value: the guardrails bound it anyway.
    pub(crate) fn allocation(&self) -> Result<Allocation, Reason> {
        let whole = |dimension, value: f64, scale: f64| {
            if !value.is_finite() || value < 0.0 {
                return Err(Reason::Refused { dimension, value });
            }
            Ok((value * scale).round() as u64)
        };
        let replicas = whole(Dimension::Replicas, self.replicas, 1.0)?;
        Ok(Allocation {
            replicas: u32::try_from(replicas).unwrap_or(u32::MAX),
            cpu: Millicores::new(whole(Dimension::Cpu, self.cpu_cores, 1e3)?),
            memory: Bytes::new(whole(Dimension::Memory, self.memory_bytes, 1.0)?),
        })
    }
}
