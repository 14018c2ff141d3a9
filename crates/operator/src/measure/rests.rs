//! When a server that did not answer in time is asked again.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

/// Times of its timeout that a server is left alone for after it did not answer in time.
const SERVER_REST: u32 = 3;

/// The same of a single question. It is longer, so that the question that finds out whether the
/// server is back is not one of those that take too long by themselves.
const QUESTION_REST: u32 = 4;

/// So many different questions without an answer to any between them say that it is the server
/// that does not answer, and not a question that asks for too much.
const SILENT_AFTER: usize = 3;

/// What is asked: the endpoint, as a range may take long of which one moment does not, and the
/// query.
pub(super) type Question = (&'static str, String);

/// What is not asked for a while, since it was not answered in time. One question that takes
/// too long is left alone by itself: the others have nothing to do with it.
#[derive(Default)]
pub(super) struct Rests {
    /// Until when questions rest.
    questions: BTreeMap<Question, Instant>,
    /// Until when the server rests.
    server: Option<Instant>,
    /// Some questions that the server was silent to since it answered last.
    unanswered: BTreeSet<Question>,
    answered_at: Option<Instant>,
}

impl Rests {
    /// How long a question is not asked still. When that is over one is asked, and the others
    /// wait for what comes of it: thousands that all wait would hold everybody up.
    pub(super) fn of(
        &mut self,
        question: &Question,
        now: Instant,
        timeout: Duration,
    ) -> Option<Duration> {
        let own = self.questions.get_mut(question);
        let mut ends: Vec<&mut Instant> = own.into_iter().chain(&mut self.server).collect();
        let latest = ends.iter().map(|end| **end).max()?;
        if now < latest {
            return Some(latest - now);
        }
        ends.iter_mut().for_each(|end| **end = now + timeout);
        None
    }

    pub(super) fn answered(&mut self, question: &Question, now: Instant) {
        self.answered_at = Some(now);
        self.unanswered.clear();
        self.questions.remove(question);
        // It was the server that did not answer, and not the questions that take long.
        if self.server.take().is_some() {
            self.questions.clear();
        }
    }

    pub(super) fn silent(
        &mut self,
        question: Question,
        (asked, now): (Instant, Instant),
        timeout: Duration,
    ) {
        self.questions.retain(|_, until| now < *until);
        self.questions.insert(question.clone(), now + QUESTION_REST * timeout);
        // Others were answered meanwhile: one tenant may have several questions that take long.
        if self.answered_at.is_some_and(|answered_at| answered_at >= asked) {
            return;
        }
        if self.unanswered.len() < SILENT_AFTER {
            self.unanswered.insert(question);
        }
        if self.unanswered.len() == SILENT_AFTER {
            self.server = Some(now + SERVER_REST * timeout);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TIMEOUT: Duration = Duration::from_secs(5);

    fn question(query: &str) -> Question {
        ("query", query.to_owned())
    }

    /// Seconds that a question rests at a moment.
    fn rest(rests: &mut Rests, query: &str, now: Instant) -> Option<u64> {
        rests.of(&question(query), now, TIMEOUT).map(|rest| rest.as_secs())
    }

    /// Asks a question that is not answered in time; when it is given up.
    fn ask_in_vain(rests: &mut Rests, query: &str, asked: Instant) -> Instant {
        let now = asked + TIMEOUT;
        rests.silent(question(query), (asked, now), TIMEOUT);
        now
    }

    #[test]
    fn a_question_that_takes_too_long_rests_alone() {
        let (mut rests, start) = (Rests::default(), Instant::now());
        // Whoever asks it again and again asks one question.
        let now = (0..5).fold(start, |now, _| ask_in_vain(&mut rests, "slow", now));
        assert_eq!(rest(&mut rests, "slow", now), Some(20));
        assert_eq!(rest(&mut rests, "quick", now), None);
        let a_range = ("query_range", "slow".to_owned());
        assert_eq!(rests.of(&a_range, now, TIMEOUT), None);
        let over = now + QUESTION_REST * TIMEOUT;
        assert_eq!(rest(&mut rests, "slow", over), None);
        assert_eq!(rest(&mut rests, "slow", over), Some(5), "one of those who ask it goes first");
        rests.answered(&question("slow"), over);
        assert_eq!(rest(&mut rests, "slow", over), None);
    }

    #[test]
    fn a_server_that_answers_nobody_rests_until_one_question_is_answered() {
        let (mut rests, start) = (Rests::default(), Instant::now());
        let mut now = start;
        for query in ["a", "b", "c"] {
            assert_eq!(rest(&mut rests, "quick", now), None);
            now = ask_in_vain(&mut rests, query, now);
        }
        assert_eq!(rest(&mut rests, "quick", now), Some(15));
        let over = now + SERVER_REST * TIMEOUT;
        assert_eq!(rest(&mut rests, "c", over), Some(5), "others find out whether it is back");
        assert_eq!(rest(&mut rests, "quick", over), None);
        assert_eq!(rest(&mut rests, "another", over), Some(5), "one goes first");
        let now = ask_in_vain(&mut rests, "quick", over);
        assert_eq!(rest(&mut rests, "another", now), Some(15));
        rests.answered(&question("another"), now);
        for query in ["a", "b", "c", "quick", "another"] {
            assert_eq!(rest(&mut rests, query, now), None, "{query}");
        }
    }

    #[test]
    fn many_questions_that_take_too_long_say_nothing_of_a_server_that_answers_others() {
        let (mut rests, start) = (Rests::default(), Instant::now());
        rests.answered(&question("quick"), start + TIMEOUT / 2);
        for query in ["a", "b", "c", "d"] {
            ask_in_vain(&mut rests, query, start);
        }
        assert_eq!(rest(&mut rests, "quick", start + TIMEOUT), None);
        let (mut rests, mut now) = (Rests::default(), start);
        for query in ["a", "b", "c", "d"] {
            now = ask_in_vain(&mut rests, query, now);
            rests.answered(&question("quick"), now);
        }
        assert_eq!(rest(&mut rests, "quick", now), None);
    }

    #[test]
    fn rests_that_are_over_are_forgotten() {
        let (mut rests, mut now) = (Rests::default(), Instant::now());
        for number in 0..100 {
            now = ask_in_vain(&mut rests, &format!("up{{number=\"{number}\"}}"), now);
        }
        assert_eq!(rests.questions.len(), QUESTION_REST as usize);
        assert_eq!(rests.unanswered.len(), SILENT_AFTER);
    }
}
