//! What order of arrival would have given the same requests, learnt from those that finished.

use std::collections::VecDeque;

/// Completion times that are kept for the percentile.
const WINDOW: usize = 20_000;

/// Fewer completion times say nothing about a 99th percentile.
const MIN_RESPONSES: usize = 100;

/// Requests that wait for an unfinished one before its expected length counts as its true one. Otherwise a
/// request that is overtaken for long would delay the replay of all later ones.
const MAX_UNRESOLVED: usize = 2000;

/// A server that answers the same requests in order of arrival, replayed with their true service times.
/// All times are seconds.
#[derive(Debug, Clone, Default)]
pub struct FcfsShadow {
    unresolved: VecDeque<Unresolved>,
    /// Number of the first unresolved request.
    first: u64,
    free_at: f64,
    responses: VecDeque<f64>,
    since_percentile: usize,
    p99: Option<f64>,
}

#[derive(Debug, Clone, Copy)]
struct Unresolved {
    arrival: f64,
    service: f64,
    is_finished: bool,
}

impl FcfsShadow {
    /// The next request in order of arrival, with its expected service time.
    pub fn arrive(&mut self, arrival: f64, expected_service: f64) {
        let service = expected_service;
        self.unresolved.push_back(Unresolved { arrival, service, is_finished: false });
        self.resolve();
    }

    /// A request finished, the `number`th that arrived, counted from zero.
    pub fn finish(&mut self, number: u64, service: f64) {
        let place = number.checked_sub(self.first).and_then(|place| usize::try_from(place).ok());
        if let Some(request) = place.and_then(|place| self.unresolved.get_mut(place)) {
            *request = Unresolved { service, is_finished: true, ..*request };
            self.resolve();
        }
    }

    /// The 99th percentile of completion times in order of arrival.
    pub fn p99(&self) -> Option<f64> {
        self.p99
    }

    fn resolve(&mut self) {
        while let Some(request) = self.unresolved.front().copied() {
            if !request.is_finished && self.unresolved.len() <= MAX_UNRESOLVED {
                return;
            }
            self.unresolved.pop_front();
            self.first += 1;
            self.free_at = self.free_at.max(request.arrival) + request.service;
            self.responses.push_back(self.free_at - request.arrival);
            if self.responses.len() > WINDOW {
                self.responses.pop_front();
            }
            self.since_percentile += 1;
            let renew_every = (self.responses.len() / 100).max(20);
            if self.responses.len() >= MIN_RESPONSES && self.since_percentile >= renew_every {
                self.since_percentile = 0;
                let mut responses: Vec<f64> = self.responses.iter().copied().collect();
                let place = responses.len() * 99 / 100;
                self.p99 = Some(*responses.select_nth_unstable_by(place, f64::total_cmp).1);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_that_finish_in_any_order_have_the_completion_times_of_order_of_arrival() {
        let mut shadow = FcfsShadow::default();
        for number in 0..100 {
            shadow.arrive(f64::from(number), 7.0);
        }
        // Two seconds of service per second: the last of a hundred waits for 99 before it.
        for number in (0..100).rev() {
            assert_eq!(shadow.p99(), None);
            shadow.finish(number, 2.0);
        }
        assert_eq!(shadow.p99(), Some(101.0));
    }

    #[test]
    fn a_request_that_never_finishes_counts_with_its_expected_length() {
        let mut shadow = FcfsShadow::default();
        shadow.arrive(0.0, 5.0);
        for number in 1..3000 {
            shadow.arrive(1000.0 * number as f64, 9.0);
            shadow.finish(number, 3.0);
        }
        assert_eq!(shadow.p99(), Some(3.0));
        // It is resolved already: its end changes nothing.
        shadow.finish(0, 1e9);
        assert_eq!(shadow.p99(), Some(3.0));
    }
}
