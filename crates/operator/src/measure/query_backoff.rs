//! Back-off of queries to a server that did not answer in time.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

/// Back-off of the whole server, in multiples of the timeout.
const SERVER_BACKOFF: u32 = 3;

/// Back-off of a single query, in multiples of the timeout. It is longer, so that a slow query is not
/// the one that finds out whether the server is back.
const QUERY_BACKOFF: u32 = 4;

/// After this many different queries in a row without any answer, the server is at fault and not a
/// query that takes too long.
const MAX_UNANSWERED: usize = 3;

/// A query to an endpoint: a range may take too long where a single time does not.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Query {
    pub(super) endpoint: &'static str,
    pub(super) text: String,
}

/// A query that was not answered in time.
pub(super) struct Timeout {
    pub(super) query: Query,
    pub(super) sent_at: Instant,
    pub(super) now: Instant,
    /// The time limit of the query.
    pub(super) limit: Duration,
}

/// Queries that are not sent for a while, because they were not answered in time. A single slow query
/// does not delay the others.
#[derive(Default)]
pub(super) struct QueryBackoff {
    /// Until when each query is delayed.
    queries: BTreeMap<Query, Instant>,
    /// Until when all queries are delayed.
    server: Option<Instant>,
    /// Some queries that timed out since the last answer.
    unanswered: BTreeSet<Query>,
    answered_at: Option<Instant>,
}

impl QueryBackoff {
    /// For how long a query is still delayed. After that time one query is sent, and the others wait
    /// for its result: thousands of queries that all wait for a timeout would block all objects.
    pub(super) fn delay(
        &mut self,
        query: &Query,
        now: Instant,
        timeout: Duration,
    ) -> Option<Duration> {
        let own = self.queries.get_mut(query);
        let mut ends: Vec<&mut Instant> = own.into_iter().chain(&mut self.server).collect();
        let latest = ends.iter().map(|end| **end).max()?;
        if now < latest {
            return Some(latest - now);
        }
        ends.iter_mut().for_each(|end| **end = now + timeout);
        None
    }

    pub(super) fn answered(&mut self, query: &Query, now: Instant) {
        self.answered_at = Some(now);
        self.unanswered.clear();
        self.queries.remove(query);
        // The server was at fault, not the queries.
        if self.server.take().is_some() {
            self.queries.clear();
        }
    }

    pub(super) fn timed_out(&mut self, Timeout { query, sent_at, now, limit }: Timeout) {
        self.queries.retain(|_, until| now < *until);
        self.queries.insert(query.clone(), now + QUERY_BACKOFF * limit);
        // Others were answered meanwhile: one tenant may have several slow queries.
        if self.answered_at.is_some_and(|answered_at| answered_at >= sent_at) {
            return;
        }
        if self.unanswered.len() < MAX_UNANSWERED {
            self.unanswered.insert(query);
        }
        if self.unanswered.len() == MAX_UNANSWERED {
            self.server = Some(now + SERVER_BACKOFF * limit);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TIMEOUT: Duration = Duration::from_secs(5);

    fn query(text: &str) -> Query {
        Query { endpoint: "query", text: text.to_owned() }
    }

    /// Seconds that a query is delayed.
    fn delay(backoff: &mut QueryBackoff, text: &str, now: Instant) -> Option<u64> {
        backoff.delay(&query(text), now, TIMEOUT).map(|delay| delay.as_secs())
    }

    /// Sends a query that times out; returns when it does.
    fn time_out(backoff: &mut QueryBackoff, text: &str, sent_at: Instant) -> Instant {
        let now = sent_at + TIMEOUT;
        backoff.timed_out(Timeout { query: query(text), sent_at, now, limit: TIMEOUT });
        now
    }

    #[test]
    fn a_slow_query_is_delayed_alone() {
        let (mut backoff, start) = (QueryBackoff::default(), Instant::now());
        // The same query several times is one query.
        let now = (0..5).fold(start, |now, _| time_out(&mut backoff, "slow", now));
        assert_eq!(delay(&mut backoff, "slow", now), Some(20));
        assert_eq!(delay(&mut backoff, "quick", now), None);
        let range = Query { endpoint: "query_range", text: "slow".to_owned() };
        assert_eq!(backoff.delay(&range, now, TIMEOUT), None);
        let over = now + QUERY_BACKOFF * TIMEOUT;
        assert_eq!(delay(&mut backoff, "slow", over), None);
        assert_eq!(delay(&mut backoff, "slow", over), Some(5), "one of several is sent first");
        backoff.answered(&query("slow"), over);
        assert_eq!(delay(&mut backoff, "slow", over), None);
    }

    #[test]
    fn an_unresponsive_server_gets_one_query_at_a_time_until_it_answers() {
        let (mut backoff, start) = (QueryBackoff::default(), Instant::now());
        let mut now = start;
        for text in ["a", "b", "c"] {
            assert_eq!(delay(&mut backoff, "quick", now), None);
            now = time_out(&mut backoff, text, now);
        }
        assert_eq!(delay(&mut backoff, "quick", now), Some(15));
        let over = now + SERVER_BACKOFF * TIMEOUT;
        assert_eq!(
            delay(&mut backoff, "c", over),
            Some(5),
            "other queries find out whether it is back"
        );
        assert_eq!(delay(&mut backoff, "quick", over), None);
        assert_eq!(delay(&mut backoff, "another", over), Some(5), "one is sent first");
        let now = time_out(&mut backoff, "quick", over);
        assert_eq!(delay(&mut backoff, "another", now), Some(15));
        backoff.answered(&query("another"), now);
        for text in ["a", "b", "c", "quick", "another"] {
            assert_eq!(delay(&mut backoff, text, now), None, "{text}");
        }
    }

    #[test]
    fn slow_queries_do_not_delay_a_server_that_answers_others() {
        let (mut backoff, start) = (QueryBackoff::default(), Instant::now());
        backoff.answered(&query("quick"), start + TIMEOUT / 2);
        for text in ["a", "b", "c", "d"] {
            time_out(&mut backoff, text, start);
        }
        assert_eq!(delay(&mut backoff, "quick", start + TIMEOUT), None);
        let (mut backoff, mut now) = (QueryBackoff::default(), start);
        for text in ["a", "b", "c", "d"] {
            now = time_out(&mut backoff, text, now);
            backoff.answered(&query("quick"), now);
        }
        assert_eq!(delay(&mut backoff, "quick", now), None);
    }

    #[test]
    fn expired_delays_are_removed() {
        let (mut backoff, mut now) = (QueryBackoff::default(), Instant::now());
        for number in 0..100 {
            now = time_out(&mut backoff, &format!("up{{number=\"{number}\"}}"), now);
        }
        assert_eq!(backoff.queries.len(), QUERY_BACKOFF as usize);
        assert_eq!(backoff.unanswered.len(), MAX_UNANSWERED);
    }
}
