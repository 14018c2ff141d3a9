//! The SLO signal: latencies of the models over a sliding window, with their age.

use std::collections::VecDeque;

use homeostat_core::{SimDuration, SimTime};

use crate::histogram::{Histogram, Percentile};

/// A source's answer about one objective.
#[derive(Debug, Clone, PartialEq)]
pub enum ObjectiveReading {
    /// Everything that was observed since the start of the process that was asked.
    Histogram {
        /// None without any observation.
        cumulative: Option<Histogram>,
        /// Whether requests wait at this moment.
        is_waiting: bool,
    },
    /// A percentile that the source computed over a window of its own, s; none without requests.
    Percentile(Option<f64>),
}

/// A source's answer.
#[derive(Debug, Clone, PartialEq)]
pub struct Reading {
    /// In the order of the objectives.
    pub objectives: Vec<ObjectiveReading>,
    /// Time since the source measured it.
    pub age: SimDuration,
}

/// The latency of one objective.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Latency {
    /// At its percentile.
    Known(SimDuration),
    /// No request finished, and none waits.
    NoRequests,
    /// Without figures, or with stale ones.
    Unknown,
}

/// Readings of the last window.
#[derive(Debug, Clone)]
pub struct Signal {
    window: SimDuration,
    stale_after: SimDuration,
    /// For each objective its percentile and the threshold of its SLO.
    objectives: Vec<(f64, SimDuration)>,
    readings: VecDeque<(SimTime, Reading)>,
    failures: u64,
    last_error: Option<String>,
}

impl Signal {
    /// Without readings. Percentiles are from 0 to 1.
    pub fn new(
        window: SimDuration,
        stale_after: SimDuration,
        objectives: Vec<(f64, SimDuration)>,
    ) -> Self {
        let readings = VecDeque::new();
        Self { window, stale_after, objectives, readings, failures: 0, last_error: None }
    }

    /// Records what a source said, or why it said nothing. `now` never goes back.
    pub fn record(&mut self, now: SimTime, read: Result<Reading, String>) {
        let reading = match read {
            Ok(reading) => reading,
            Err(error) => {
                self.failures += 1;
                self.last_error = Some(error);
                return;
            }
        };
        self.last_error = None;
        // After a long gap the window would be a mean over the gap.
        let is_gap =
            |last: &(SimTime, _)| now.saturating_since(last.0) > self.stale_after + self.window;
        if self.readings.back().is_some_and(is_gap) || self.has_restarted(&reading) {
            self.readings.clear();
        }
        self.readings.push_back((now, reading));
        // The oldest one is the last that is at least a window old.
        let is_outside = |at: SimTime| now.saturating_since(at) >= self.window;
        while self.readings.get(1).is_some_and(|(at, _)| is_outside(*at)) {
            self.readings.pop_front();
        }
    }

    /// Time since the last successful reading was measured; none before the first.
    pub fn age(&self, now: SimTime) -> Option<SimDuration> {
        let (at, reading) = self.readings.back()?;
        Some(now.saturating_since(*at) + reading.age)
    }

    /// Whether the last reading is recent.
    pub fn is_fresh(&self, now: SimTime) -> bool {
        self.age(now).is_some_and(|age| age <= self.stale_after)
    }

    /// Latency of an objective over the window; unknown while readings are stale.
    pub fn latency(&self, now: SimTime, objective: usize) -> Latency {
        let (Some((_, first)), Some((_, last))) = (self.readings.front(), self.readings.back())
        else {
            return Latency::Unknown;
        };
        if !self.is_fresh(now) {
            return Latency::Unknown;
        }
        let (percentile, slo) = self.objectives[objective];
        match &last.objectives[objective] {
            ObjectiveReading::Percentile(None) => Latency::NoRequests,
            ObjectiveReading::Percentile(Some(seconds)) => known(*seconds),
            // The first reading alone says nothing about the window.
            ObjectiveReading::Histogram { .. } if self.readings.len() < 2 => Latency::Unknown,
            ObjectiveReading::Histogram { cumulative, is_waiting } => {
                let finished = cumulative.as_ref().and_then(|late| match early(first, objective) {
                    Some(early) => late.since(early),
                    None => Some(late.clone()),
                });
                match finished.and_then(|finished| finished.percentile(percentile)) {
                    Some(Percentile::At(seconds)) => known(seconds),
                    Some(Percentile::Beyond(bound)) if bound > slo.seconds() => known(bound),
                    Some(Percentile::Beyond(_)) => Latency::Unknown,
                    None if *is_waiting => Latency::Unknown,
                    None => Latency::NoRequests,
                }
            }
        }
    }

    /// Readings that failed.
    pub fn failures(&self) -> u64 {
        self.failures
    }

    /// Why the last reading failed; none if it did not.
    pub fn last_error(&self) -> Option<&str> {
        self.last_error.as_deref()
    }

    /// Whether counters are lower than they were: their process was started again.
    fn has_restarted(&self, reading: &Reading) -> bool {
        let Some((_, last)) = self.readings.back() else { return false };
        let fell = |objective: usize| match (early(last, objective), early(reading, objective)) {
            (Some(then), Some(now)) => now.since(then).is_none(),
            (Some(_), None) => true,
            (None, _) => false,
        };
        (0..self.objectives.len()).any(fell)
    }
}

fn early(reading: &Reading, objective: usize) -> Option<&Histogram> {
    match &reading.objectives[objective] {
        ObjectiveReading::Histogram { cumulative, .. } => cumulative.as_ref(),
        ObjectiveReading::Percentile(_) => None,
    }
}

fn known(seconds: f64) -> Latency {
    SimDuration::from_seconds(seconds).map_or(Latency::Unknown, Latency::Known)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: f64) -> SimTime {
        SimTime::ZERO + SimDuration::from_seconds(seconds).unwrap()
    }

    /// Requests up to 100 ms, up to 200 ms and beyond, since the start.
    fn reading(counts: Option<[f64; 3]>, is_waiting: bool) -> Result<Reading, String> {
        let bounds = [0.1, 0.2, f64::INFINITY];
        let cumulative = counts
            .map(|counts| Histogram::try_new(bounds.into_iter().zip(counts).collect()).unwrap());
        let objectives = vec![ObjectiveReading::Histogram { cumulative, is_waiting }];
        Ok(Reading { objectives, age: SimDuration::ZERO })
    }

    fn signal() -> Signal {
        let seconds = SimDuration::from_secs;
        Signal::new(seconds(10), seconds(3), vec![(0.5, SimDuration::from_millis(150))])
    }

    fn millis(millis: u64) -> Latency {
        Latency::Known(SimDuration::from_millis(millis))
    }

    #[test]
    fn the_window_holds_what_finished_in_it_and_nothing_older() {
        let mut signal = signal();
        assert_eq!(signal.latency(at(0.0), 0), Latency::Unknown);
        signal.record(at(0.0), reading(Some([1000.0, 1000.0, 1000.0]), false));
        assert_eq!(signal.latency(at(0.0), 0), Latency::Unknown, "one reading is no window");
        signal.record(at(1.0), reading(Some([1000.0, 1010.0, 1010.0]), false));
        assert_eq!(signal.latency(at(1.0), 0), millis(150));
        for second in 2..=11 {
            let fast = 1000.0 + f64::from(second) - 1.0;
            signal
                .record(at(second.into()), reading(Some([fast, fast + 10.0, fast + 10.0]), false));
        }
        // Ten fast ones are in the window now; the slow ones ended before it.
        assert_eq!(signal.latency(at(11.0), 0), millis(50));
    }

    #[test]
    fn no_requests_is_not_the_same_as_requests_that_do_not_finish() {
        let mut signal = signal();
        signal.record(at(0.0), reading(None, false));
        signal.record(at(1.0), reading(None, false));
        assert_eq!(signal.latency(at(1.0), 0), Latency::NoRequests);
        signal.record(at(2.0), reading(None, true));
        assert_eq!(signal.latency(at(2.0), 0), Latency::Unknown);
        signal.record(at(3.0), reading(Some([0.0, 0.0, 4.0]), false));
        let beyond_the_last_bound = millis(200);
        assert_eq!(signal.latency(at(3.0), 0), beyond_the_last_bound);
    }

    #[test]
    fn failed_readings_age_the_signal_until_latency_is_unknown() {
        let mut signal = signal();
        signal.record(at(0.0), reading(Some([0.0, 0.0, 0.0]), false));
        signal.record(at(1.0), reading(Some([10.0, 10.0, 10.0]), false));
        signal.record(at(2.0), Err("refused".to_owned()));
        assert_eq!((signal.failures(), signal.last_error()), (1, Some("refused")));
        assert_eq!(signal.latency(at(4.0), 0), millis(50));
        assert_eq!(signal.latency(at(4.1), 0), Latency::Unknown);
        // Back after minutes: a window across the gap would say nothing about the present.
        signal.record(at(200.0), reading(Some([10.0, 90.0, 90.0]), false));
        assert_eq!(signal.latency(at(200.0), 0), Latency::Unknown);
        signal.record(at(201.0), reading(Some([11.0, 91.0, 91.0]), false));
        assert_eq!(signal.latency(at(201.0), 0), millis(50));
    }

    #[test]
    fn counters_that_start_again_start_the_window_again() {
        let mut signal = signal();
        signal.record(at(0.0), reading(Some([50.0, 50.0, 50.0]), false));
        signal.record(at(1.0), reading(Some([60.0, 60.0, 60.0]), false));
        for restarted in [Some([0.0, 2.0, 2.0]), None] {
            signal.record(at(2.0), reading(restarted, false));
            assert_eq!(signal.latency(at(2.0), 0), Latency::Unknown);
        }
        signal.record(at(3.0), reading(Some([0.0, 2.0, 2.0]), false));
        assert_eq!(signal.latency(at(3.0), 0), millis(150));
    }

    #[test]
    fn a_percentile_of_the_source_counts_with_its_age() {
        let mut signal = signal();
        let from = |percentile, age| {
            let objectives = vec![ObjectiveReading::Percentile(percentile)];
            Ok(Reading { objectives, age: SimDuration::from_secs(age) })
        };
        signal.record(at(0.0), from(Some(0.05), 1));
        assert_eq!(signal.latency(at(0.0), 0), millis(50));
        signal.record(at(1.0), from(None, 0));
        assert_eq!(signal.latency(at(1.0), 0), Latency::NoRequests);
        signal.record(at(2.0), from(Some(0.05), 4));
        assert_eq!(signal.latency(at(2.0), 0), Latency::Unknown, "too old");
        for lie in [f64::NAN, -1.0, 1e300] {
            signal.record(at(3.0), from(Some(lie), 0));
            assert_eq!(signal.latency(at(3.0), 0), Latency::Unknown);
        }
    }
}
