//! Limits that no policy gets around: bounds, largest steps, cool-downs and a rate.
//!
//! Bounds come before everything: an allocation found outside them is first moved to the
//! nearest one inside, at once and however far, and steps count from there.

use homeostat_core::{Bytes, Fraction, Millicores, SimDuration, SimTime};

use crate::{
    Allocation, AllocationBounds, Amount, Dimension, Error, GuardrailMemory, Reason, Result,
};

/// The largest step each way; none for no limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Step<T> {
    /// Largest step up in one decision.
    pub up: Option<T>,
    /// Largest step down in one decision.
    pub down: Option<T>,
}

impl<T> Step<T> {
    /// Steps of any size.
    pub const UNLIMITED: Self = Self { up: None, down: None };
}

/// The largest step in replicas: the larger of a number and a part of the present replicas,
/// so that a small target can move at all and a large one in proportion. Never below one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ReplicaStep {
    /// This many replicas.
    pub absolute: u32,
    /// This part of the present replicas, rounded down.
    pub relative: Fraction,
}

impl ReplicaStep {
    /// How many replicas a target of `replicas` may move at once.
    pub fn most(self, replicas: u32) -> u32 {
        let relative = (f64::from(replicas) * self.relative.ratio()) as u32;
        relative.max(self.absolute).max(1)
    }
}

/// At most this many changed allocations in any stretch of this length.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RateLimit {
    /// Changes allowed.
    pub changes: u32,
    /// In this time.
    pub per: SimDuration,
}

/// Settings of [`Guardrails`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct GuardrailsConfig {
    /// What is allowed at all.
    pub bounds: AllocationBounds,
    /// Largest steps in replicas.
    pub replica_step: Step<ReplicaStep>,
    /// Largest steps in CPU.
    pub cpu_step: Step<Millicores>,
    /// Largest steps in memory.
    pub memory_step: Step<Bytes>,
    /// How often anything may change; none for no limit.
    pub rate_limit: Option<RateLimit>,
    /// After a dimension went up, it does not go up again for this long.
    pub scale_up_cool_down: SimDuration,
    /// After a dimension moved either way, it does not go down for this long.
    pub scale_down_cool_down: SimDuration,
}

impl GuardrailsConfig {
    /// Bounds, and no other limit.
    pub fn bounds_only(bounds: AllocationBounds) -> Self {
        Self {
            bounds,
            replica_step: Step::UNLIMITED,
            cpu_step: Step::UNLIMITED,
            memory_step: Step::UNLIMITED,
            rate_limit: None,
            scale_up_cool_down: SimDuration::ZERO,
            scale_down_cool_down: SimDuration::ZERO,
        }
    }

    /// Refuses limits under which nothing could ever move.
    pub fn build(self) -> Result<Guardrails> {
        self.bounds.validate()?;
        let need = "above 0 (leave it out for no limit)";
        for step in [self.replica_step.up, self.replica_step.down].into_iter().flatten() {
            if step.absolute == 0 && step.relative == Fraction::ZERO {
                return Err(Error::setting("replica step", need, 0));
            }
        }
        for step in [self.cpu_step.up, self.cpu_step.down].into_iter().flatten() {
            if step == Millicores::ZERO {
                return Err(Error::setting("cpu step", need, step));
            }
        }
        for step in [self.memory_step.up, self.memory_step.down].into_iter().flatten() {
            if step == Bytes::ZERO {
                return Err(Error::setting("memory step", need, step));
            }
        }
        if let Some(limit) = self.rate_limit {
            if limit.changes == 0 {
                return Err(Error::setting("changes of the rate limit", need, 0));
            }
            if limit.per == SimDuration::ZERO {
                return Err(Error::setting("time of the rate limit", need, limit.per));
            }
        }
        Ok(Guardrails { config: self })
    }
}

/// Validated limits of one target.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Guardrails {
    config: GuardrailsConfig,
}

impl Guardrails {
    /// Bounds, and no other limit.
    pub fn bounds_only(bounds: AllocationBounds) -> Result<Self> {
        GuardrailsConfig::bounds_only(bounds).build()
    }

    /// The settings.
    pub fn config(&self) -> &GuardrailsConfig {
        &self.config
    }

    /// The allocation nearest to `proposed` that the limits allow now, noted as done. Every
    /// limit that bites adds its reason.
    pub fn apply(
        &self,
        memory: &mut GuardrailMemory,
        now: SimTime,
        from: &Allocation,
        proposed: &Allocation,
        reasons: &mut Vec<Reason>,
    ) -> Allocation {
        let wanted = self.config.bounds.clamp(proposed);
        let base = self.config.bounds.clamp(from);
        let mut applied = base;
        for dimension in [Dimension::Replicas, Dimension::Cpu, Dimension::Memory] {
            let wish = raw(proposed, dimension);
            let inside = raw(&wanted, dimension);
            if inside < wish {
                reasons.push(Reason::AtMost(amount(dimension, inside)));
            } else if inside > wish {
                reasons.push(Reason::AtLeast(amount(dimension, inside)));
            }
            let (moved, limit) =
                self.limit_move(memory, now, dimension, raw(&base, dimension), inside);
            reasons.extend(limit);
            set(&mut applied, dimension, moved);
        }
        if let Some(RateLimit { changes, per }) = self.config.rate_limit
            && applied != base
            && let Some(remaining) = memory.wait_for_rate(now, changes, per)
        {
            reasons.push(Reason::RateLimited { changes, per, remaining });
            applied = base;
        }
        self.note(memory, now, from, &applied);
        applied
    }

    /// One dimension's way from `base` towards `wanted`, as far as it is allowed now, and the
    /// limit that stopped it.
    fn limit_move(
        &self,
        memory: &GuardrailMemory,
        now: SimTime,
        dimension: Dimension,
        base: u64,
        wanted: u64,
    ) -> (u64, Option<Reason>) {
        if wanted == base {
            return (base, None);
        }
        let is_up = wanted > base;
        let (last, cool_down) = if is_up {
            (memory.last_up(dimension), self.config.scale_up_cool_down)
        } else {
            (memory.last_move(dimension), self.config.scale_down_cool_down)
        };
        if let Some(until) = last.map(|last| last + cool_down).filter(|until| now < *until) {
            let remaining = until.saturating_since(now);
            return (base, Some(Reason::CoolDown { dimension, remaining }));
        }
        match self.largest_step(dimension, base, is_up) {
            Some(step) if base.abs_diff(wanted) > step => {
                let most = amount(dimension, step);
                if is_up {
                    (base + step, Some(Reason::StepUpLimited { most }))
                } else {
                    (base - step, Some(Reason::StepDownLimited { most }))
                }
            }
            _ => (wanted, None),
        }
    }

    fn largest_step(&self, dimension: Dimension, base: u64, is_up: bool) -> Option<u64> {
        fn way<T: Copy>(step: &Step<T>, is_up: bool) -> Option<T> {
            if is_up { step.up } else { step.down }
        }
        match dimension {
            Dimension::Replicas => way(&self.config.replica_step, is_up)
                .map(|step| u64::from(step.most(u32::try_from(base).unwrap_or(u32::MAX)))),
            Dimension::Cpu => way(&self.config.cpu_step, is_up).map(Millicores::millicores),
            Dimension::Memory => way(&self.config.memory_step, is_up).map(Bytes::bytes),
        }
    }

    fn note(
        &self,
        memory: &mut GuardrailMemory,
        now: SimTime,
        from: &Allocation,
        applied: &Allocation,
    ) {
        for dimension in [Dimension::Replicas, Dimension::Cpu, Dimension::Memory] {
            let (before, after) = (raw(from, dimension), raw(applied, dimension));
            if before != after {
                memory.note_move(now, dimension, after > before);
            }
        }
        // Without a limit nobody would ever forget the changes.
        if applied != from && self.config.rate_limit.is_some() {
            memory.note_change(now);
        }
    }
}

fn raw(allocation: &Allocation, dimension: Dimension) -> u64 {
    match dimension {
        Dimension::Replicas => u64::from(allocation.replicas),
        Dimension::Cpu => allocation.cpu.millicores(),
        Dimension::Memory => allocation.memory.bytes(),
    }
}

fn set(allocation: &mut Allocation, dimension: Dimension, value: u64) {
    match amount(dimension, value) {
        Amount::Replicas(replicas) => allocation.replicas = replicas,
        Amount::Cpu(cpu) => allocation.cpu = cpu,
        Amount::Memory(memory) => allocation.memory = memory,
    }
}

fn amount(dimension: Dimension, value: u64) -> Amount {
    match dimension {
        Dimension::Replicas => Amount::Replicas(u32::try_from(value).unwrap_or(u32::MAX)),
        Dimension::Cpu => Amount::Cpu(Millicores::new(value)),
        Dimension::Memory => Amount::Memory(Bytes::new(value)),
    }
}
