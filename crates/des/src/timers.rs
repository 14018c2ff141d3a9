//! One timer for each of many owners, moved and cleared at will: when does which node
//! finish its next job? A heap of four children each, which
//! knows where everybody stands.

use homeostat_core::SimTime;

/// Timers by owner number. Of equal times the lowest owner comes first.
#[derive(Debug, Clone, Default)]
pub struct Timers {
    /// Times and owners, side by side: a comparison looks nowhere else.
    heap: Vec<(SimTime, u32)>,
    /// Each owner's place in the heap.
    places: Vec<u32>,
}

/// The place of an owner whose timer is not set.
const NOWHERE: u32 = u32::MAX;

/// Children of a place: half the levels of a binary heap, and one or two cache lines each.
const CHILDREN: usize = 4;

impl Timers {
    /// Sets or moves an owner's timer.
    pub fn set(&mut self, owner: usize, at: SimTime) {
        if self.places.len() <= owner {
            self.places.resize(owner + 1, NOWHERE);
        }
        let timer = (at, owner as u32);
        let place = match self.places[owner] {
            NOWHERE => {
                self.heap.push(timer);
                self.heap.len() - 1
            }
            place => place as usize,
        };
        self.settle(place, timer);
    }

    /// Clears an owner's timer, if it is set.
    pub fn clear(&mut self, owner: usize) {
        let Some(place) = self.places.get(owner).copied().filter(|place| *place != NOWHERE) else {
            return;
        };
        self.places[owner] = NOWHERE;
        let moved = self.heap.pop().expect("the owner stands in the heap");
        if moved.1 as usize != owner {
            self.settle(place as usize, moved);
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
        self.heap.first().map(|(at, owner)| (*at, *owner as usize))
    }

    /// When an owner's timer is set to.
    pub fn time(&self, owner: usize) -> Option<SimTime> {
        let place = self.places.get(owner).filter(|place| **place != NOWHERE)?;
        Some(self.heap[*place as usize].0)
    }

    /// Puts a timer where it belongs, beginning at the free place `place`.
    fn settle(&mut self, mut place: usize, timer: (SimTime, u32)) {
        while place > 0 {
            let parent = (place - 1) / CHILDREN;
            if self.heap[parent] < timer {
                break;
            }
            self.put(place, self.heap[parent]);
            place = parent;
        }
        loop {
            let first = CHILDREN * place + 1;
            let last = (first + CHILDREN).min(self.heap.len());
            let Some(children) = self.heap.get(first..last).filter(|all| !all.is_empty()) else {
                break;
            };
            let (mut least, mut child) = (children[0], first);
            for (number, other) in children.iter().enumerate().skip(1) {
                if *other < least {
                    (least, child) = (*other, first + number);
                }
            }
            if timer < least {
                break;
            }
            self.put(place, least);
            place = child;
        }
        self.put(place, timer);
    }

    fn put(&mut self, place: usize, timer: (SimTime, u32)) {
        self.heap[place] = timer;
        self.places[timer.1 as usize] = place as u32;
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
