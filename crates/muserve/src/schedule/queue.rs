//! Waiting requests, a queue per model.

use std::cmp::Ordering;
use std::collections::BTreeMap;

use homeostat_core::SimTime;

use crate::{Error, Result};

/// The order in which the requests of one model are served.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum QueueOrder {
    /// First come, first served.
    Fcfs,
    /// Shortest expected answer first. With predictions this is speculative SJF, with true lengths
    /// the oracle. A long request can starve.
    ShortestFirst,
    /// Speculative SJF with ageing: the request with the smallest `arrival + head_start * ln(tokens)`
    /// is next, in seconds. A request of a tenth of the length overtakes all that arrived up to
    /// `2.3 * head_start` earlier, and none that waited longer: nothing starves.
    Aged {
        /// Seconds of waiting that weigh as much as a length of 1/e.
        head_start: f64,
    },
}

impl QueueOrder {
    /// Ageing with this head start in seconds.
    pub fn aged(head_start: f64) -> Result<Self> {
        if !head_start.is_finite() || head_start < 0.0 {
            return Err(Error::OutOfRange {
                what: "the head start of short requests in seconds",
                value: head_start,
                expected: "it is a number of seconds, zero or more",
            });
        }
        Ok(Self::Aged { head_start })
    }

    /// The rank of a request: the smallest is served next. It does not change while a request waits:
    /// all waiting requests age at the same pace, so a heap needs no update.
    pub fn rank(self, arrival: SimTime, expected_tokens: f64) -> f64 {
        match self {
            Self::Fcfs => arrival.seconds(),
            Self::ShortestFirst => expected_tokens,
            Self::Aged { head_start } => {
                arrival.seconds() + head_start * expected_tokens.max(1.0).ln()
            }
        }
    }
}

/// The place of a request in its queue; it takes the request out again.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Ticket {
    model: String,
    place: Place,
}

/// Requests that wait, by model.
#[derive(Debug, Clone)]
pub struct ModelQueues<T> {
    order: QueueOrder,
    queues: BTreeMap<String, BTreeMap<Place, T>>,
    sequence: u64,
}

impl<T> ModelQueues<T> {
    /// No requests.
    pub fn new(order: QueueOrder) -> Self {
        Self { order, queues: BTreeMap::new(), sequence: 0 }
    }

    /// Adds a request whose answer is expected to have this many tokens. An expectation that is not
    /// a number counts as infinitely long: a broken predictor delays its requests and loses none.
    pub fn push(
        &mut self,
        model: &str,
        arrival: SimTime,
        expected_tokens: f64,
        request: T,
    ) -> Ticket {
        let expected = if expected_tokens.is_nan() { f64::INFINITY } else { expected_tokens };
        let place = Place { rank: self.order.rank(arrival, expected), sequence: self.sequence };
        self.sequence += 1;
        let ticket = Ticket { model: model.to_owned(), place: place.clone() };
        self.queues.entry(ticket.model.clone()).or_default().insert(place, request);
        ticket
    }

    /// Takes the next request of a model.
    pub fn pop(&mut self, model: &str) -> Option<T> {
        let queue = self.queues.get_mut(model)?;
        let next = queue.pop_first().map(|(_, request)| request);
        if queue.is_empty() {
            self.queues.remove(model);
        }
        next
    }

    /// Takes the next request of several models among those that are `eligible`: a server that serves
    /// these models has room for it.
    pub fn pop_eligible<'a>(
        &mut self,
        models: impl IntoIterator<Item = &'a str>,
        eligible: impl Fn(&T) -> bool,
    ) -> Option<T> {
        let first_of = |model: &str| {
            let queue = self.queues.get(model)?;
            let (place, _) = queue.iter().find(|(_, request)| eligible(request))?;
            Some(Ticket { model: model.to_owned(), place: place.clone() })
        };
        let next = models.into_iter().filter_map(first_of).min_by(|a, b| a.place.cmp(&b.place))?;
        self.remove(&next)
    }

    /// Changes the order of the requests that come from now on; those that wait keep their rank.
    pub fn set_order(&mut self, order: QueueOrder) {
        self.order = order;
    }

    /// The order of the requests that come from now on.
    pub fn order(&self) -> QueueOrder {
        self.order
    }

    /// Takes out a request that still waits, for example one that its client cancelled.
    pub fn remove(&mut self, ticket: &Ticket) -> Option<T> {
        let queue = self.queues.get_mut(&ticket.model)?;
        let request = queue.remove(&ticket.place);
        if queue.is_empty() {
            self.queues.remove(&ticket.model);
        }
        request
    }

    /// How many requests of a model wait.
    pub fn len(&self, model: &str) -> usize {
        self.queues.get(model).map_or(0, BTreeMap::len)
    }

    /// Whether no request waits.
    pub fn is_empty(&self) -> bool {
        self.queues.is_empty()
    }
}

/// Rank, then order of arrival.
#[derive(Debug, Clone)]
struct Place {
    rank: f64,
    sequence: u64,
}

impl Ord for Place {
    fn cmp(&self, other: &Self) -> Ordering {
        self.rank.total_cmp(&other.rank).then(self.sequence.cmp(&other.sequence))
    }
}

impl PartialOrd for Place {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Place {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for Place {}

#[cfg(test)]
mod tests {
    use super::*;
    use homeostat_core::SimDuration;
    use proptest::prelude::*;

    fn at(seconds: u64) -> SimTime {
        SimTime::ZERO + SimDuration::from_secs(seconds)
    }

    fn served(order: QueueOrder, requests: &[(u64, f64)]) -> Vec<usize> {
        let mut queues = ModelQueues::new(order);
        for (index, (arrival, tokens)) in requests.iter().enumerate() {
            queues.push("m", at(*arrival), *tokens, index);
        }
        std::iter::from_fn(|| queues.pop("m")).collect()
    }

    #[test]
    fn each_order_serves_by_its_own_rank() {
        let requests = [(0, 400.0), (1, 40.0), (2, 4.0), (30, 4.0)];
        assert_eq!(served(QueueOrder::Fcfs, &requests), [0, 1, 2, 3]);
        assert_eq!(served(QueueOrder::ShortestFirst, &requests), [2, 3, 1, 0]);
        assert_eq!(served(QueueOrder::aged(5.0).unwrap(), &requests), [2, 1, 0, 3]);
    }

    #[test]
    fn requests_of_equal_length_keep_the_order_of_arrival() {
        let requests = [(0, 7.0), (1, 7.0), (2, 7.0)];
        assert_eq!(served(QueueOrder::ShortestFirst, &requests), [0, 1, 2]);
    }

    #[test]
    fn an_expectation_that_is_not_a_number_delays_its_request_and_loses_nothing() {
        let order = QueueOrder::aged(5.0).unwrap();
        assert_eq!(served(order, &[(0, f64::NAN), (900, 500.0)]), [1, 0]);
    }

    #[test]
    fn a_cancelled_request_leaves_its_queue_once() {
        let mut queues = ModelQueues::new(QueueOrder::Fcfs);
        let ticket = queues.push("a", at(0), 1.0, "first");
        queues.push("b", at(0), 1.0, "other");
        assert_eq!(queues.remove(&ticket), Some("first"));
        assert_eq!(queues.remove(&ticket), None);
        assert_eq!((queues.len("a"), queues.len("b")), (0, 1));
    }

    #[test]
    fn a_server_of_several_models_takes_the_eligible_request_with_the_smallest_rank() {
        let mut queues = ModelQueues::new(QueueOrder::ShortestFirst);
        queues.push("a", at(0), 50.0, "long");
        queues.push("b", at(1), 5.0, "short");
        queues.push("c", at(2), 1.0, "of another server");
        let mut pop = |eligible: fn(&&str) -> bool| queues.pop_eligible(["a", "b"], eligible);
        assert_eq!(pop(|request| *request != "short"), Some("long"));
        assert_eq!(pop(|_| false), None);
        assert_eq!(pop(|_| true), Some("short"));
        assert_eq!(pop(|_| true), None);
        assert_eq!(queues.len("c"), 1);
    }

    #[test]
    fn a_negative_head_start_is_refused() {
        for head_start in [-1.0, f64::NAN, f64::INFINITY] {
            assert!(QueueOrder::aged(head_start).is_err(), "{head_start}");
        }
    }

    proptest! {
        #[test]
        fn nothing_waits_behind_requests_that_come_after_its_head_start(
            tokens in 1.0f64..500.0, others in prop::collection::vec(1.0f64..500.0, 1..40),
        ) {
            let head_start = 5.0;
            let mut queues = ModelQueues::new(QueueOrder::aged(head_start).unwrap());
            queues.push("m", at(0), tokens, usize::MAX);
            let longest_wait = (head_start * 500f64.ln()).ceil() as u64;
            for (index, other) in others.iter().enumerate() {
                queues.push("m", at(longest_wait), *other, index);
            }
            prop_assert_eq!(queues.pop("m"), Some(usize::MAX));
        }
    }
}
