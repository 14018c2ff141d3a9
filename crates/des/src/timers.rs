//! One timer for each of many owners, moved and cleared at will: when does which node
//! finish its next job? A binary heap that knows where everybody stands.

use homeostat_core::SimTime;

/// Timers by owner number. Of equal times the lowest owner comes first.
#[derive(Debug, Clone, Default)]
pub struct Timers {
    /// Owners, as a binary heap by their time.
    heap: Vec<u32>,
    /// Each owner's time; meaningless while it is not in the heap.
    times: Vec<SimTime>,
    /// Each owner's place in the heap.
    places: Vec<u32>,
}

/// The place of an owner whose timer is not set.
const NOWHERE: u32 = u32::MAX;

impl Timers {
    /// Sets or moves an owner's timer.
    pub fn set(&mut self, owner: usize, at: SimTime) {
        if self.places.len() <= owner {
            self.places.resize(owner + 1, NOWHERE);
            self.times.resize(owner + 1, SimTime::ZERO);
        }
        self.times[owner] = at;
        let mut place = self.places[owner];
        if place == NOWHERE {
            place = self.heap.len() as u32;
            self.heap.push(owner as u32);
            self.places[owner] = place;
        }
        self.settle(place as usize);
    }

    /// Clears an owner's timer, if it is set.
    pub fn clear(&mut self, owner: usize) {
        let Some(place) = self.places.get(owner).copied().filter(|place| *place != NOWHERE) else {
            return;
        };
        self.places[owner] = NOWHERE;
        let moved = self.heap.pop().expect("the owner stands in the heap");
        if moved as usize != owner {
            self.heap[place as usize] = moved;
            self.places[moved as usize] = place;
            self.settle(place as usize);
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
        self.heap.first().map(|owner| (self.times[*owner as usize], *owner as usize))
    }

    /// When an owner's timer is set to.
    pub fn time(&self, owner: usize) -> Option<SimTime> {
        let is_set = self.places.get(owner).is_some_and(|place| *place != NOWHERE);
        is_set.then(|| self.times[owner])
    }

    fn key(&self, place: usize) -> (SimTime, u32) {
        let owner = self.heap[place];
        (self.times[owner as usize], owner)
    }

    /// Moves whoever stands at `place` to where it belongs.
    fn settle(&mut self, mut place: usize) {
        while place > 0 && self.key(place) < self.key((place - 1) / 2) {
            self.swap(place, (place - 1) / 2);
            place = (place - 1) / 2;
        }
        loop {
            let children = [2 * place + 1, 2 * place + 2];
            let inside = children.into_iter().filter(|child| *child < self.heap.len());
            match inside.min_by_key(|child| self.key(*child)) {
                Some(child) if self.key(child) < self.key(place) => {
                    self.swap(place, child);
                    place = child;
                }
                _ => return,
            }
        }
    }

    fn swap(&mut self, a: usize, b: usize) {
        self.heap.swap(a, b);
        for place in [a, b] {
            self.places[self.heap[place] as usize] = place as u32;
        }
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
