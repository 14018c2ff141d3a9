//! What happens next. Events of one instant come in the order they were scheduled.
//!
//! Arrivals of a trace are sorted already: they wait in a plain queue beside the heap
//! and cost nothing to keep in order.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};

use homeostat_core::{Persist, SimTime, Snapshot};

use crate::{Error, Record, Result};

/// Events by time.
#[derive(Debug, Clone)]
pub struct EventQueue<E> {
    heap: BinaryHeap<Reverse<Scheduled<E>>>,
    arrivals: VecDeque<Scheduled<E>>,
    next_sequence: u64,
}

#[derive(Debug, Clone)]
struct Scheduled<E> {
    at: SimTime,
    sequence: u64,
    event: E,
}

impl<E> Scheduled<E> {
    fn key(&self) -> (SimTime, u64) {
        (self.at, self.sequence)
    }
}

impl<E> PartialEq for Scheduled<E> {
    fn eq(&self, other: &Self) -> bool {
        self.key() == other.key()
    }
}

impl<E> Eq for Scheduled<E> {}

impl<E> PartialOrd for Scheduled<E> {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl<E> Ord for Scheduled<E> {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        self.key().cmp(&other.key())
    }
}

impl<E> Default for EventQueue<E> {
    fn default() -> Self {
        Self { heap: BinaryHeap::new(), arrivals: VecDeque::new(), next_sequence: 0 }
    }
}

impl<E> EventQueue<E> {
    /// Schedules an event at any time.
    pub fn schedule(&mut self, at: SimTime, event: E) {
        let scheduled = self.number(at, event);
        self.heap.push(Reverse(scheduled));
    }

    /// Appends an arrival that is not earlier than the last one appended.
    pub fn append_arrival(&mut self, at: SimTime, event: E) -> Result<()> {
        if let Some(last) = self.arrivals.back().map(|arrival| arrival.at).filter(|last| at < *last)
        {
            return Err(Error::ArrivalsOutOfOrder { at, last });
        }
        let scheduled = self.number(at, event);
        self.arrivals.push_back(scheduled);
        Ok(())
    }

    /// When the next event happens.
    pub fn next_time(&self) -> Option<SimTime> {
        let heap = self.heap.peek().map(|Reverse(scheduled)| scheduled.at);
        let arrival = self.arrivals.front().map(|scheduled| scheduled.at);
        heap.into_iter().chain(arrival).min()
    }

    /// Takes the next event.
    pub fn pop(&mut self) -> Option<(SimTime, E)> {
        let is_arrival = match (self.heap.peek(), self.arrivals.front()) {
            (Some(Reverse(scheduled)), Some(arrival)) => arrival < scheduled,
            (None, Some(_)) => true,
            (_, None) => false,
        };
        let scheduled = if is_arrival {
            self.arrivals.pop_front()
        } else {
            self.heap.pop().map(|Reverse(scheduled)| scheduled)
        };
        scheduled.map(|scheduled| (scheduled.at, scheduled.event))
    }

    /// Events that wait.
    pub fn len(&self) -> usize {
        self.heap.len() + self.arrivals.len()
    }

    /// Whether nothing waits.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    fn number(&mut self, at: SimTime, event: E) -> Scheduled<E> {
        let sequence = self.next_sequence;
        self.next_sequence += 1;
        Scheduled { at, sequence, event }
    }
}

impl<E: Record> Persist for EventQueue<E> {
    fn save(&self, name: &str, out: &mut Snapshot) {
        let words = |events: &mut dyn Iterator<Item = &Scheduled<E>>| {
            let mut words = Vec::new();
            for scheduled in events {
                words.extend([scheduled.at.nanos(), scheduled.sequence]);
                scheduled.event.write(&mut words);
            }
            words
        };
        // A heap's inner order depends on its history; sorted, equal queues save alike.
        let mut heap: Vec<_> = self.heap.iter().map(|Reverse(scheduled)| scheduled).collect();
        heap.sort();
        out.put_u64(&format!("{name}/heap"), words(&mut heap.into_iter()));
        out.put_u64(&format!("{name}/arrivals"), words(&mut self.arrivals.iter()));
        out.put_u64(&format!("{name}/sequence"), [self.next_sequence]);
    }

    fn load(&mut self, name: &str, from: &Snapshot) -> homeostat_core::Result<()> {
        let read = |part: &str| -> homeostat_core::Result<Vec<Scheduled<E>>> {
            let words = from.any_u64s(&format!("{name}/{part}"))?;
            let records = words.chunks_exact(2 + E::WORDS);
            Ok(records
                .map(|record| Scheduled {
                    at: SimTime::from_nanos(record[0]),
                    sequence: record[1],
                    event: E::read(&record[2..]),
                })
                .collect())
        };
        self.heap = read("heap")?.into_iter().map(Reverse).collect();
        self.arrivals = read("arrivals")?.into();
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
        queue.schedule(at(5), 1u64);
        queue.append_arrival(at(5), 2).unwrap();
        queue.schedule(at(5), 3);
        queue.schedule(at(4), 0);
        let order: Vec<_> = std::iter::from_fn(|| queue.pop()).map(|(_, event)| event).collect();
        assert_eq!(order, [0, 1, 2, 3]);
    }

    #[test]
    fn an_arrival_in_the_past_is_refused_and_nothing_is_lost() {
        let mut queue = EventQueue::default();
        queue.append_arrival(at(7), 1u64).unwrap();
        let error = queue.append_arrival(at(6), 2).unwrap_err().to_string();
        assert_eq!(error, "sorted arrivals must not go back: t+6ns comes after t+7ns");
        assert_eq!((queue.len(), queue.pop()), (1, Some((at(7), 1))));
    }

    proptest! {
        #[test]
        fn the_clock_never_goes_back_and_no_event_is_lost(
            heap in prop::collection::vec(0u64..50, 0..40), mut arrivals in prop::collection::vec(0u64..50, 0..40),
        ) {
            arrivals.sort_unstable();
            let mut queue = EventQueue::default();
            for (event, time) in heap.iter().enumerate() {
                queue.schedule(at(*time), event as u64);
            }
            for (event, time) in arrivals.iter().enumerate() {
                queue.append_arrival(at(*time), 1000 + event as u64).unwrap();
            }
            let mut last = SimTime::ZERO;
            let mut seen = 0;
            while let Some(next) = queue.next_time() {
                let (time, _) = queue.pop().unwrap();
                prop_assert_eq!(time, next);
                prop_assert!(time >= last);
                last = time;
                seen += 1;
            }
            prop_assert_eq!(seen, heap.len() + arrivals.len());
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
