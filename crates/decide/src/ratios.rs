//! Continuous actions on all three dimensions at once: the factor by which replicas, CPU and memory
//! change. Decisions of any autoscaler can be written as such actions, so that offline learners can
//! learn from what HPA and VPA did.

use homeostat_core::{ActionField, ActionSchema, Bytes, Millicores};

use crate::{Allocation, Proposal, Reason};

/// One action: the logarithm of each factor to base [`Ratios::LARGEST_FACTOR`], from -1 to 1.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Ratios {
    /// Of the number of replicas.
    pub replicas: f32,
    /// Of the CPU of each replica.
    pub cpu: f32,
    /// Of its memory.
    pub memory: f32,
}

impl Ratios {
    /// Number of numbers.
    pub const COUNT: usize = 3;
    /// The largest change of one decision.
    pub const LARGEST_FACTOR: f64 = 4.0;
    /// A smaller change of CPU or memory is not made, as HPA's tolerance: a network never says
    /// exactly "as it is", and every resize costs.
    pub const TOLERANCE: f64 = 0.1;

    /// The schema that policy files carry.
    pub fn schema() -> ActionSchema {
        let part = |name: &str, what: &str| {
            let meaning = format!(
                "logarithm to base 4 of the factor on {what}: -1 for a quarter, 1 for four times"
            );
            ActionField { name: name.to_owned(), meaning, choices: Vec::new() }
        };
        ActionSchema {
            id: "pods/ratios-v1".to_owned(),
            parts: vec![
                part("replicas", "the number of replicas"),
                part("CPU", "the CPU of each replica; below a tenth more or less, none"),
                part("memory", "the memory of each replica; below a tenth more or less, none"),
            ],
        }
    }

    /// The action of these numbers; numbers beyond the range, or that are missing, are cut.
    pub fn from_numbers(numbers: &[f32]) -> Self {
        let number = |k: usize| {
            let number = numbers.get(k).copied().unwrap_or(0.0);
            if number.is_nan() { 0.0 } else { number.clamp(-1.0, 1.0) }
        };
        Self { replicas: number(0), cpu: number(1), memory: number(2) }
    }

    /// Its numbers.
    pub fn numbers(&self) -> [f32; Self::COUNT] {
        [self.replicas, self.cpu, self.memory]
    }

    /// The action that leads from one allocation to another, as far as its range goes.
    pub fn between(from: &Allocation, to: &Allocation) -> Self {
        let ratio = |from: f64, to: f64| {
            let exponent = (to.max(1e-9) / from.max(1e-9)).ln() / Self::LARGEST_FACTOR.ln();
            exponent.clamp(-1.0, 1.0) as f32
        };
        Self {
            replicas: ratio(f64::from(from.replicas), f64::from(to.replicas)),
            cpu: ratio(from.cpu.cores(), to.cpu.cores()),
            memory: ratio(from.memory.bytes() as f64, to.memory.bytes() as f64),
        }
    }

    /// The allocation after the action. Guards apply the bounds.
    pub fn target(self, from: &Allocation) -> Allocation {
        let factor = |exponent: f32| Self::LARGEST_FACTOR.powf(f64::from(exponent));
        let resized = |amount: f64, exponent: f32| {
            let factor = factor(exponent);
            if (factor - 1.0).abs() < Self::TOLERANCE { amount } else { amount * factor }
        };
        let replicas = (f64::from(from.replicas) * factor(self.replicas)).round();
        let cpu = resized(from.cpu.millicores() as f64, self.cpu).round();
        let memory = resized(from.memory.bytes() as f64, self.memory).round();
        Allocation {
            replicas: replicas as u32,
            cpu: Millicores::new(cpu as u64),
            memory: Bytes::new(memory as u64),
        }
    }

    /// The action as a proposal.
    pub fn propose(self, from: &Allocation) -> Proposal {
        let target = self.target(from);
        Proposal::keep(&target).because(Reason::Ratios { from: *from, to: target })
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

    fn check(numbers: [f32; 3], expect: Allocation) {
        let action = Ratios::from_numbers(&numbers);
        assert_eq!(action.target(&allocation(4, 500, 256)), expect, "{numbers:?}");
    }

    #[test]
    fn an_action_changes_all_dimensions_at_once() {
        check([0.0, 0.0, 0.0], allocation(4, 500, 256));
        check([0.5, -0.5, 1.0], allocation(8, 250, 1024));
        check([-1.0, 1.0, -1.0], allocation(1, 2000, 64));
        // Cut to the range.
        check([9.0, f32::NAN, -9.0], allocation(16, 500, 64));
    }

    #[test]
    fn small_changes_of_size_are_not_made() {
        check([0.05, 0.05, -0.05], allocation(4, 500, 256));
        check([0.2, 0.1, 0.0], allocation(5, 574, 256));
        check([0.0, 0.1, -0.5], allocation(4, 574, 128));
    }

    proptest! {
        #[test]
        fn what_an_autoscaler_decided_is_what_its_action_does(
            from in (1_u32..30, 50_u64..4000, 32_u64..4096),
            factors in (0.25_f64..4.0, 0.25_f64..4.0, 0.25_f64..4.0),
        ) {
            let from = allocation(from.0, from.1, from.2);
            let to = Allocation {
                replicas: (f64::from(from.replicas) * factors.0).round().max(1.0) as u32,
                cpu: Millicores::new((from.cpu.millicores() as f64 * factors.1) as u64),
                memory: Bytes::new((from.memory.bytes() as f64 * factors.2) as u64),
            };
            let done = Ratios::between(&from, &to).target(&from);
            prop_assert_eq!(done.replicas, to.replicas);
            let near = |done: f64, to: f64| (done / to - 1.0).abs() < Ratios::TOLERANCE + 0.012;
            prop_assert!(near(done.cpu.cores(), to.cpu.cores()), "{} {}", done.cpu, to.cpu);
            prop_assert!(near(done.memory.bytes() as f64, to.memory.bytes() as f64));
        }
    }
}
