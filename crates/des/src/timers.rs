//! One timer for each of many owners, moved and cleared at will: when does which node
//! finish its next job? A tournament: owners play in pairs, winners in pairs again, and
//! whoever changes plays its matches anew, without a branch to guess.

use homeostat_core::SimTime;

/// Timers by owner number. Of equal times the lowest owner comes first.
#[derive(Debug, Clone, Default)]
pub struct Timers {
    /// Keys: the winner of all at 1, those who play for place `k` at `2 k` and `2 k + 1`, and
    /// the owners in the second half.
    keys: Vec<u128>,
}

/// The key of an owner whose timer is not set.
const NEVER: u128 = u128::MAX;

/// Bits of a key below its time.
const OWNER_BITS: u32 = 32;

fn key(owner: usize, at: SimTime) -> u128 {
    u128::from(at.nanos()) << OWNER_BITS | owner as u128
}

fn time(key: u128) -> SimTime {
    SimTime::from_nanos((key >> OWNER_BITS) as u64)
}

impl Timers {
    /// Sets or moves an owner's timer.
    pub fn set(&mut self, owner: usize, at: SimTime) {
        if self.keys.len() / 2 <= owner {
            self.make_room(owner + 1);
        }
        self.replace(owner, key(owner, at));
    }

    /// Clears an owner's timer, if it is set.
    pub fn clear(&mut self, owner: usize) {
        if owner < self.keys.len() / 2 {
            self.replace(owner, NEVER);
        }
    }

    /// Sets or clears, as `at` says.
    pub fn set_or_clear(&mut self, owner: usize, at: Option<SimTime>) {
        match at {
            Some(at) => self.set(owner, at),
            None => self.clear(owner),
        }
    }

    /// The earliest timer and its owner.
    pub fn first(&self) -> Option<(SimTime, usize)> {
        let first = self.keys.get(1).copied().filter(|key| *key != NEVER)?;
        Some((time(first), (first as u32) as usize))
    }

    /// When an owner's timer is set to.
    pub fn time(&self, owner: usize) -> Option<SimTime> {
        let owners = &self.keys[self.keys.len() / 2..];
        owners.get(owner).copied().filter(|key| *key != NEVER).map(time)
    }

    fn replace(&mut self, owner: usize, key: u128) {
        let mut place = self.keys.len() / 2 + owner;
        self.keys[place] = key;
        while place > 1 {
            place /= 2;
            self.keys[place] = self.keys[2 * place].min(self.keys[2 * place + 1]);
        }
    }

    #[cold]
    fn make_room(&mut self, owners: usize) {
        let half = owners.next_power_of_two();
        let mut keys = vec![NEVER; 2 * half];
        let before = &self.keys[self.keys.len() / 2..];
        keys[half..half + before.len()].copy_from_slice(before);
        for place in (1..half).rev() {
            keys[place] = keys[2 * place].min(keys[2 * place + 1]);
        }
        self.keys = keys;
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
