//! Continuous actions that name the allocation itself: replicas, CPU and memory between their bounds
//! (AWARE; dissertation, Table 5.1). An error of such an action stays an error of its size; errors of
//! factors ([`Ratios`]) add up from decision to decision.

use homeostat_core::{ActionField, ActionSchema, Bytes, Millicores};

use crate::{Allocation, AllocationBounds, Features, Proposal, Ratios, Reason};

/// One action: the place of each dimension between its bounds on a logarithmic scale, -1 for the lower
/// bound and 1 for the upper.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct AllocationTarget {
    /// Of the number of replicas.
    pub replicas: f32,
    /// Of the CPU of each replica.
    pub cpu: f32,
    /// Of its memory.
    pub memory: f32,
}

impl AllocationTarget {
    /// Number of numbers.
    pub const COUNT: usize = 3;

    /// The schema that policy files carry.
    pub fn schema() -> ActionSchema {
        let part = |name: &str, what: &str| {
            let meaning = format!(
                "{what} between its bounds, logarithmic: -1 for the lower bound, 1 for the upper"
            );
            ActionField { name: name.to_owned(), meaning, choices: Vec::new() }
        };
        ActionSchema {
            id: "pods/allocation-v1".to_owned(),
            parts: vec![
                part("replicas", "number of replicas"),
                part("CPU", "CPU of each replica; a change below a tenth is not made"),
                part("memory", "memory of each replica; a change below a tenth is not made"),
            ],
        }
    }

    /// The action of these numbers; numbers beyond the range are cut, missing ones are 0.
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

    /// The action that asks for an allocation, as far as bounds allow.
    pub fn of(allocation: &Allocation, bounds: &AllocationBounds) -> Self {
        let [replicas, cpu, memory] = ends(bounds);
        let place = |(low, high): (f64, f64), value: f64| {
            let part =
                if high > low { (value.max(low) / low).ln() / (high / low).ln() } else { 0.5 };
            (2.0 * part - 1.0).clamp(-1.0, 1.0) as f32
        };
        Self {
            replicas: place(replicas, f64::from(allocation.replicas)),
            cpu: place(cpu, allocation.cpu.millicores() as f64),
            memory: place(memory, allocation.memory.bytes() as f64),
        }
    }

    /// The allocation that it asks for. CPU and memory stay as they are where they change by less than
    /// [`Ratios::TOLERANCE`].
    pub fn target(self, from: &Allocation, bounds: &AllocationBounds) -> Allocation {
        let [replicas, cpu, memory] = ends(bounds);
        let value = |(low, high): (f64, f64), place: f32| {
            low * (high / low).powf(f64::from(place + 1.0) / 2.0)
        };
        let resized = |from: u64, to: f64| {
            let is_small = (to / from.max(1) as f64 - 1.0).abs() < Ratios::TOLERANCE;
            if is_small { from } else { to.round() as u64 }
        };
        Allocation {
            replicas: value(replicas, self.replicas).round() as u32,
            cpu: Millicores::new(resized(from.cpu.millicores(), value(cpu, self.cpu))),
            memory: Bytes::new(resized(from.memory.bytes(), value(memory, self.memory))),
        }
    }

    /// The action that asks for the same as recorded factors ([`Ratios`]) did, from the allocation that the
    /// recorded features show.
    pub fn of_factors(
        features: &[f32; Features::COUNT],
        factors: &[f32],
        bounds: &AllocationBounds,
    ) -> Self {
        let [.., cpu, memory, replicas] = features.map(f64::from);
        let value = |place: f64, low: u64, high: u64| {
            (low as f64 + place * (high.saturating_sub(low)) as f64).round() as u64
        };
        let (low, high) = (bounds.cpu.low(), bounds.cpu.high());
        let from = Allocation {
            replicas: value(replicas, bounds.replicas.low().into(), bounds.replicas.high().into())
                as u32,
            cpu: Millicores::new(value(cpu, low.millicores(), high.millicores())),
            memory: Bytes::new(value(
                memory,
                bounds.memory.low().bytes(),
                bounds.memory.high().bytes(),
            )),
        };
        Self::of(&Ratios::from_numbers(factors).target(&from), bounds)
    }

    /// The action as a proposal.
    pub fn propose(self, from: &Allocation, bounds: &AllocationBounds) -> Proposal {
        let target = self.target(from, bounds);
        Proposal::keep(&target).because(Reason::Ratios { from: *from, to: target })
    }
}

/// The bounds of replicas, millicores and bytes. A logarithmic scale needs a lower end above zero.
fn ends(bounds: &AllocationBounds) -> [(f64, f64); 3] {
    let at_least_one = |low: f64, high: f64| (low.max(1.0), high.max(1.0));
    let (cpu, memory) = (&bounds.cpu, &bounds.memory);
    [
        at_least_one(bounds.replicas.low().into(), bounds.replicas.high().into()),
        at_least_one(cpu.low().millicores() as f64, cpu.high().millicores() as f64),
        at_least_one(memory.low().bytes() as f64, memory.high().bytes() as f64),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Observation;
    use homeostat_core::{Bounds, Fraction, SimDuration, SimTime, Slo};
    use proptest::prelude::*;

    fn bounds() -> AllocationBounds {
        AllocationBounds::with_dissertation_cpu(
            Bounds::try_new(1, 16).unwrap(),
            Bounds::try_new(Bytes::from_mib(64), Bytes::from_mib(1024)).unwrap(),
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
    fn the_ends_of_the_range_are_the_bounds() {
        let check = |numbers: [f32; 3], expect: Allocation| {
            let from = allocation(3, 700, 300);
            let action = AllocationTarget::from_numbers(&numbers);
            assert_eq!(action.target(&from, &bounds()), expect, "{numbers:?}");
        };
        check([-1.0, -1.0, -1.0], allocation(1, 125, 64));
        check([1.0, 1.0, 1.0], allocation(16, 2000, 1024));
        check([0.0, 0.0, 0.0], allocation(4, 500, 256));
        // Cut to the range, and unknown numbers in the middle.
        check([9.0, f32::NAN, -9.0], allocation(16, 500, 64));
    }

    #[test]
    fn small_changes_of_size_are_not_made() {
        let from = allocation(4, 510, 260);
        let action = AllocationTarget::from_numbers(&[0.0, 0.0, 0.0]);
        assert_eq!(action.target(&from, &bounds()), from);
    }

    #[test]
    fn recorded_factors_ask_for_the_same_allocation() {
        let from = allocation(4, 500, 256);
        let slo = Slo::try_new(Fraction::from_percent(99), SimDuration::from_millis(250));
        let obs = Observation::new(SimTime::ZERO, from, slo.unwrap());
        let features = Features::new(bounds()).observe(&obs);
        let factors = [0.5, -0.5, 0.0];
        let found = AllocationTarget::of_factors(&features, &factors, &bounds());
        assert_eq!(found.target(&from, &bounds()), allocation(8, 250, 256));
    }

    proptest! {
        #[test]
        fn what_an_autoscaler_asked_for_is_what_its_action_asks_for(
            to in (1_u32..=16, 125_u64..=2000, 64_u64..=1024),
        ) {
            let to = allocation(to.0, to.1, to.2);
            // From far away, so that nothing is within the tolerance.
            let from = allocation(1, 10, 1);
            let found = AllocationTarget::of(&to, &bounds()).target(&from, &bounds());
            prop_assert_eq!(found.replicas, to.replicas);
            prop_assert!(found.cpu.millicores().abs_diff(to.cpu.millicores()) <= 1);
            let bytes = found.memory.bytes().abs_diff(to.memory.bytes());
            prop_assert!((bytes as f64) < 1e-5 * to.memory.bytes() as f64);
        }
    }
}
