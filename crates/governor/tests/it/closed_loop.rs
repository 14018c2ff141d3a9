//! The governor against a queue: one device serves requests in order, in a time that is partly in
//! proportion to 1 / clock. Simulated time, so that an hour takes a moment.

use homeostat_core::{SeedTree, SimDuration, SimTime};
use homeostat_governor::governor::DeviceGovernor;
use homeostat_governor::histogram::Histogram;
use homeostat_governor::lease::LeaseDirectory;
use homeostat_governor::settings::Settings;
use homeostat_governor::signal::{ObjectiveReading, Reading, Signal};

use crate::device::{HIGHEST, TestGpu};

const SLO_S: f64 = 0.5;

fn settings() -> Settings {
    Settings::parse(&format!(
        "[source]\nmetrics = \"http://127.0.0.1:1/metrics\"\n[[devices]]\ngpu = \"0\"\nmodels = [\"m\"]\n\
         [[objectives]]\nmodel = \"m\"\nslo_ms = {}\n",
        SLO_S * 1e3
    ))
    .unwrap()
}

/// A server with Poisson arrivals: 10 ms of a request do not depend on the clock, 30 ms do at the
/// highest one.
struct Server {
    random: homeostat_core::Stream,
    next_arrival: f64,
    free_at: f64,
    /// Latencies of requests that are under way, by the time of their end.
    ends: std::collections::VecDeque<(f64, f64)>,
    bounds: Vec<f64>,
    counts: Vec<f64>,
}

impl Server {
    fn new(seed: u64) -> Self {
        let mut bounds: Vec<f64> =
            (0..61).map(|place| 0.005 * 2_f64.powf(f64::from(place) / 4.0)).collect();
        bounds.push(f64::INFINITY);
        let counts = vec![0.0; bounds.len()];
        let random = SeedTree::new(seed).stream("governor/arrivals");
        Self { random, next_arrival: 0.0, free_at: 0.0, ends: Default::default(), bounds, counts }
    }

    /// Plays one second.
    fn advance(&mut self, until: f64, rate: f64, clock: f64) {
        while self.next_arrival < until {
            let service = 0.010 + 0.030 * f64::from(HIGHEST) / clock;
            self.free_at = self.free_at.max(self.next_arrival) + service;
            self.ends.push_back((self.free_at, self.free_at - self.next_arrival));
            self.next_arrival += -(1.0 - self.random.uniform()).ln() / rate;
        }
        while let Some((_, latency)) = self.ends.pop_front_if(|(end, _)| *end < until) {
            for (bound, count) in self.bounds.iter().zip(&mut self.counts) {
                *count += f64::from(u8::from(latency <= *bound));
            }
        }
    }

    fn reading(&self) -> Reading {
        let buckets = self.bounds.iter().copied().zip(self.counts.iter().copied()).collect();
        let cumulative = Some(Histogram::try_new(buckets).unwrap());
        let is_waiting = !self.ends.is_empty();
        let objectives = vec![ObjectiveReading::Histogram { cumulative, is_waiting }];
        Reading { objectives, age: SimDuration::ZERO }
    }
}

/// One period of one second.
#[derive(Debug)]
struct Period {
    slack: Option<f64>,
    clock: f64,
}

/// Governs for some seconds; the arrivals of each depend on those before.
fn play(seed: u64, seconds: u64, mut rate: impl FnMut(&[Period]) -> f64) -> Vec<Period> {
    let settings = settings();
    let place = tempfile::tempdir().unwrap();
    let gpu = TestGpu::new("GPU-1");
    let device = &settings.devices[0];
    let mut governor = DeviceGovernor::new(gpu.clone(), device, &settings).unwrap();
    governor.act(LeaseDirectory(place.path().to_owned()).lock("GPU-1").unwrap(), device).unwrap();
    let objectives = &settings.objectives;
    let slos = objectives.iter().map(|objective| (objective.percentile, objective.slo)).collect();
    let mut signal = Signal::new(settings.window, settings.stale_after, slos);
    let mut server = Server::new(seed);
    let mut periods = Vec::new();
    for second in 1..=seconds {
        let now = SimTime::ZERO + SimDuration::from_secs(second);
        server.advance(now.seconds(), rate(&periods), gpu.clock());
        signal.record(now, Ok(server.reading()));
        let step = governor.step(now, &signal, objectives, None).unwrap();
        let applied = f64::from(step.decision.applied().0);
        assert_eq!(gpu.clock(), applied, "exactly the decision is applied");
        periods.push(Period { slack: step.obs.models[0].slack(), clock: gpu.clock() });
    }
    periods
}

fn longest_violation(periods: &[Period]) -> usize {
    let is_violated = |period: &Period| period.slack.is_some_and(|slack| slack < 0.0);
    periods.split(|period| !is_violated(period)).map(<[Period]>::len).max().unwrap_or(0)
}

#[test]
fn under_a_steady_load_the_clock_settles_low_and_the_slo_is_hardly_ever_violated() {
    for seed in 1..=5 {
        let periods = play(seed, 3600, |_| 4.0);
        let settled = &periods[600..];
        let mean = settled.iter().map(|period| period.clock).sum::<f64>() / settled.len() as f64;
        assert!(mean < 0.7 * f64::from(HIGHEST), "seed {seed}: mean clock {mean}");
        let violated =
            settled.iter().filter(|period| period.slack.is_some_and(|slack| slack < 0.0));
        let violated = violated.count() as f64 / settled.len() as f64;
        assert!(violated < 0.05, "seed {seed}: violated in {violated} of the windows");
        // A window of ten seconds keeps a violation in sight for as long.
        assert!(longest_violation(settled) <= 20, "seed {seed}: {}", longest_violation(settled));
    }
}

#[test]
fn a_burst_is_answered_within_two_periods_of_its_sight() {
    for seed in 1..=5 {
        // It comes at a moment at which the clock is low.
        let mut start = None;
        let periods = play(seed, 1200, |past| {
            let is_low = past.last().is_some_and(|last| last.clock < 1500.0);
            if start.is_none() && past.len() >= 900 && is_low {
                start = Some(past.len());
            }
            if start.is_some() { 14.0 } else { 4.0 }
        });
        let start = start.expect("the clock is low at some time");
        let is_near = |period: &Period| period.slack.is_some_and(|slack| slack < 0.05);
        let seen = start + periods[start..].iter().position(is_near).unwrap();
        let before = periods[seen - 1].clock;
        let answered = periods[seen + 1].clock;
        assert!(
            answered >= f64::min(2.0 * before, HIGHEST.into()) - 1.0,
            "seed {seed}: {before} to {answered}"
        );
        let violation = longest_violation(&periods[start..]);
        assert!(violation <= 20, "seed {seed}: the burst violated the SLO for {violation} periods");
    }
}

#[test]
fn near_the_capacity_of_the_device_the_clock_stays_high() {
    let periods = play(7, 600, |_| 20.0);
    let mean = periods[60..].iter().map(|period| period.clock).sum::<f64>() / 540.0;
    assert!(mean > 0.85 * f64::from(HIGHEST), "{mean}");
}
