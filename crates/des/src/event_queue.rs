//! The event queue of a discrete-event simulation. Simultaneous events are processed in the order
//! in which they were scheduled.
//!
//! It is a 4-ary heap: half as deep as a binary one, and the least of four neighbours is found
//! without a branch to mispredict.

use std::hint::select_unpredictable;

use homeostat_core::{Persist, SimTime, Snapshot};

use crate::Record;

/// Events ordered by time, then by sequence.
///
/// ```
/// use homeostat_core::{SimDuration, SimTime};
/// use homeostat_des::EventQueue;
///
/// let at = |seconds| SimTime::ZERO + SimDuration::from_secs(seconds);
/// let mut queue = EventQueue::default();
/// queue.schedule(at(2), "departure");
/// queue.schedule(at(1), "arrival");
/// assert_eq!(queue.pop(), Some((at(1), "arrival")));
/// assert_eq!(queue.next_time(), Some(at(2)));
/// ```
#[derive(Debug, Clone)]
pub struct EventQueue<E> {
    /// The children of the event at `k` follow at `4 k + 1`; none is before its parent.
    heap: Vec<Scheduled<E>>,
    next_sequence: u64,
}

#[derive(Debug, Clone, Copy)]
struct Scheduled<E> {
    at: SimTime,
    sequence: u64,
    event: E,
}

impl<E> Scheduled<E> {
    /// Time and sequence as one number.
    #[inline]
    fn key(&self) -> u128 {
        u128::from(self.at.nanos()) << 64 | u128::from(self.sequence)
    }
}

impl<E> Default for EventQueue<E> {
    fn default() -> Self {
        Self { heap: Vec::new(), next_sequence: 0 }
    }
}

impl<E: Copy> EventQueue<E> {
    /// Schedules an event at any time.
    pub fn schedule(&mut self, at: SimTime, event: E) {
        let sequence = self.next_sequence;
        self.next_sequence += 1;
        self.push(Scheduled { at, sequence, event });
    }

    /// When the next event happens.
    #[inline]
    pub fn next_time(&self) -> Option<SimTime> {
        self.heap.first().map(|scheduled| scheduled.at)
    }

    /// Removes and returns the next event.
    pub fn pop(&mut self) -> Option<(SimTime, E)> {
        let last = self.heap.pop()?;
        let Some(first) = self.heap.first().copied() else { return Some((last.at, last.event)) };
        self.sink(last);
        Some((first.at, first.event))
    }

    /// Number of scheduled events.
    pub fn len(&self) -> usize {
        self.heap.len()
    }

    /// Whether no event is scheduled.
    pub fn is_empty(&self) -> bool {
        self.heap.is_empty()
    }

    fn push(&mut self, scheduled: Scheduled<E>) {
        let mut place = self.heap.len();
        self.heap.push(scheduled);
        while place > 0 {
            let parent = (place - 1) / 4;
            if self.heap[parent].key() < scheduled.key() {
                break;
            }
            self.heap[place] = self.heap[parent];
            place = parent;
        }
        self.heap[place] = scheduled;
    }

    /// Replaces the root and sifts the new event down.
    fn sink(&mut self, scheduled: Scheduled<E>) {
        let (heap, key) = (self.heap.as_mut_slice(), scheduled.key());
        let mut place = 0;
        loop {
            let children = 4 * place + 1;
            let first = match heap.get(children..).unwrap_or_default() {
                [a, b, c, d, ..] => {
                    let (left, left_key) = earlier((0, a.key()), (1, b.key()));
                    let (right, right_key) = earlier((2, c.key()), (3, d.key()));
                    earlier((left, left_key), (right, right_key))
                }
                few => {
                    let keys = few.iter().map(Scheduled::key).enumerate();
                    match keys.reduce(earlier) {
                        Some(first) => first,
                        None => break,
                    }
                }
            };
            if key < first.1 {
                break;
            }
            heap[place] = heap[children + first.0];
            place = children + first.0;
        }
        heap[place] = scheduled;
    }
}

#[inline]
fn earlier(a: (usize, u128), b: (usize, u128)) -> (usize, u128) {
    let is_second = b.1 < a.1;
    (select_unpredictable(is_second, b.0, a.0), select_unpredictable(is_second, b.1, a.1))
}

impl<E: Record + Copy> Persist for EventQueue<E> {
    fn save(&self, name: &str, out: &mut Snapshot) {
        // The order inside a heap depends on its history; sorted, equal queues are saved equally.
        let mut heap = self.heap.clone();
        heap.sort_unstable_by_key(Scheduled::key);
        let mut words = Vec::new();
        for scheduled in heap {
            words.extend([scheduled.at.nanos(), scheduled.sequence]);
            scheduled.event.write(&mut words);
        }
        out.put_u64(&format!("{name}/heap"), words);
        out.put_u64(&format!("{name}/sequence"), [self.next_sequence]);
    }

    fn load(&mut self, name: &str, from: &Snapshot) -> homeostat_core::Result<()> {
        let words = from.any_u64s(&format!("{name}/heap"))?;
        self.heap.clear();
        for record in words.chunks_exact(2 + E::WORDS) {
            self.push(Scheduled {
                at: SimTime::from_nanos(record[0]),
                sequence: record[1],
                event: E::read(&record[2..]),
            });
        }
        self.next_sequence = from.u64s(&format!("{name}/sequence"), 1)?[0];
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn at(nanos: u64) -> SimTime {
        SimTime::from_nanos(nanos)
    }

    #[test]
    fn events_of_one_instant_keep_their_order() {
        let mut queue = EventQueue::default();
        for event in 1..20u64 {
            queue.schedule(at(5), event);
        }
        queue.schedule(at(4), 0);
        let order: Vec<_> = std::iter::from_fn(|| queue.pop()).map(|(_, event)| event).collect();
        assert_eq!(order, (0..20).collect::<Vec<_>>());
    }

    proptest! {
        #[test]
        fn the_next_event_is_the_first_of_a_sorted_list(
            calls in prop::collection::vec(prop::option::of(0u64..50), 1..300),
        ) {
            let mut queue = EventQueue::default();
            let mut expect = std::collections::BTreeSet::new();
            for (event, call) in (0u64..).zip(calls) {
                match call {
                    Some(time) => {
                        queue.schedule(at(time), event);
                        expect.insert((at(time), event));
                    }
                    None => prop_assert_eq!(queue.pop(), expect.pop_first()),
                }
                prop_assert_eq!(queue.next_time(), expect.first().map(|(time, _)| *time));
                prop_assert_eq!((queue.len(), queue.is_empty()), (expect.len(), expect.is_empty()));
            }
        }

        #[test]
        fn a_restored_queue_goes_on_alike(times in prop::collection::vec(0u64..50, 0..40), taken in 0usize..40) {
            let mut queue = EventQueue::default();
            for (event, time) in times.iter().enumerate() {
                queue.schedule(at(*time), event as u64);
            }
            for _ in 0..taken.min(times.len()) {
                queue.pop();
            }
            let mut snapshot = Snapshot::default();
            queue.save("q", &mut snapshot);
            let mut restored = EventQueue::default();
            restored.load("q", &snapshot).unwrap();
            for event in 0..3u64 {
                queue.schedule(at(event * 20), 100 + event);
                restored.schedule(at(event * 20), 100 + event);
            }
            while !queue.is_empty() {
                prop_assert_eq!(queue.pop(), restored.pop());
            }
        }
    }
}
