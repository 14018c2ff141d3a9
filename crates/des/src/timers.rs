//! One movable timer for each of many owners, for example the next completion of each node.

use homeostat_core::SimTime;

use crate::Tournament;

/// Timers by owner number. Of equal times the lowest owner comes first.
///
/// A timer beyond 292 years counts as not set.
#[derive(Debug, Clone, Default)]
pub struct Timers {
    times: Tournament,
}

impl Timers {
    /// Sets or moves an owner's timer.
    pub fn set(&mut self, owner: usize, at: SimTime) {
        self.times.set(owner, at.nanos());
    }

    /// Clears an owner's timer, if it is set.
    pub fn clear(&mut self, owner: usize) {
        self.times.set(owner, Tournament::NONE);
    }

    /// Sets the timer, or clears it with none.
    pub fn set_or_clear(&mut self, owner: usize, at: Option<SimTime>) {
        self.times.set(owner, at.map_or(Tournament::NONE, SimTime::nanos));
    }

    /// The earliest timer and its owner.
    #[inline]
    pub fn first(&self) -> Option<(SimTime, usize)> {
        self.times.first().map(|(nanos, owner)| (SimTime::from_nanos(nanos), owner))
    }

    /// The time of an owner's timer.
    pub fn time(&self, owner: usize) -> Option<SimTime> {
        self.times.key(owner).map(SimTime::from_nanos)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeMap;

    proptest! {
        #[test]
        fn the_first_is_always_the_earliest(
            calls in prop::collection::vec((0usize..12, prop::option::of(0u64..30)), 1..200),
        ) {
            let mut timers = Timers::default();
            let mut expect = BTreeMap::new();
            for (owner, at) in calls {
                let at = at.map(SimTime::from_nanos);
                timers.set_or_clear(owner, at);
                match at {
                    Some(at) => expect.insert(owner, at),
                    None => expect.remove(&owner),
                };
                let first = expect.iter().map(|(owner, at)| (*at, *owner)).min();
                prop_assert_eq!(timers.first(), first);
                prop_assert_eq!(timers.time(owner), at);
            }
        }
    }
}
