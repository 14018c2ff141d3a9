//! Mean times of queues with a closed form. The seed is fixed; the tolerance is four
//! standard errors over independent batches.

use homeostat_core::{SimDuration, SimTime, Stream};
use homeostat_des::{EventQueue, Histogram, SharedProcessor};

/// Mean over batches and its standard error.
fn mean_and_error(batches: &[f64]) -> (f64, f64) {
    let n = batches.len() as f64;
    let mean = batches.iter().sum::<f64>() / n;
    let variance = batches.iter().map(|batch| (batch - mean).powi(2)).sum::<f64>() / (n - 1.0);
    (mean, (variance / n).sqrt())
}

fn assert_mean(name: &str, batches: &[f64], expect: f64) {
    let (mean, error) = mean_and_error(batches);
    assert!(error < 0.05 * expect, "{name}: the sample is too small, {mean} +- {error}");
    assert!((mean - expect).abs() < 4.0 * error, "{name}: {mean} +- {error} against {expect}");
}

fn exponential(rng: &mut Stream, mean: f64) -> f64 {
    -mean * (1.0 - rng.uniform()).ln()
}

fn seconds(seconds: f64) -> SimDuration {
    SimDuration::from_seconds(seconds).unwrap()
}

const JOBS_PER_BATCH: usize = 20_000;
const BATCHES: usize = 20;

/// Mean time in a queue with `servers` servers, first come first served.
fn first_come_first_served(
    arrivals_per_s: f64,
    service_s: f64,
    servers: usize,
    seed: u64,
) -> Vec<f64> {
    const ARRIVAL: u64 = u64::MAX;
    (0..BATCHES as u64)
        .map(|batch| {
            let mut rng = Stream::from_seed(seed * 1000 + batch);
            let mut events = EventQueue::default();
            let mut waiting = std::collections::VecDeque::new();
            let mut arrived = Vec::new();
            let mut times = Histogram::default();
            let mut busy = 0;
            events.schedule(SimTime::ZERO, ARRIVAL);
            while let Some((now, event)) = events.pop() {
                if event == ARRIVAL {
                    waiting.push_back(arrived.len() as u64);
                    arrived.push(now);
                    if arrived.len() < JOBS_PER_BATCH {
                        let gap = seconds(exponential(&mut rng, 1.0 / arrivals_per_s));
                        events.schedule(now + gap, ARRIVAL);
                    }
                } else {
                    busy -= 1;
                    times.record(now.saturating_since(arrived[event as usize]));
                }
                while busy < servers
                    && let Some(job) = waiting.pop_front()
                {
                    busy += 1;
                    events.schedule(now + seconds(exponential(&mut rng, service_s)), job);
                }
            }
            assert_eq!(times.count() as usize, JOBS_PER_BATCH, "every request ends");
            times.mean().unwrap().seconds()
        })
        .collect()
}

/// Mean time on one shared core for service times drawn by `work`.
fn processor_sharing(
    arrivals_per_s: f64,
    work: impl Fn(&mut Stream) -> f64,
    seed: u64,
) -> Vec<f64> {
    (0..BATCHES as u64)
        .map(|batch| {
            let mut rng = Stream::from_seed(seed * 1000 + batch);
            let mut processor = SharedProcessor::new(1.0).unwrap();
            let class = processor.add_class(1.0, 1.0).unwrap();
            let mut arrived: Vec<SimTime> = Vec::new();
            let mut times = Histogram::default();
            let mut next_arrival = Some(SimTime::ZERO);
            loop {
                let finish = processor.next_finish();
                match (next_arrival, finish) {
                    (Some(at), finish) if finish.is_none_or(|finish| at < finish) => {
                        processor.start(at, class, seconds(work(&mut rng)), arrived.len() as u64);
                        arrived.push(at);
                        let gap = seconds(exponential(&mut rng, 1.0 / arrivals_per_s));
                        next_arrival = (arrived.len() < JOBS_PER_BATCH).then_some(at + gap);
                    }
                    (_, Some(at)) => {
                        while let Some(finished) = processor.finish(at) {
                            times.record(at.saturating_since(arrived[finished.job as usize]));
                        }
                    }
                    (_, None) => break,
                }
            }
            assert_eq!(times.count() as usize, JOBS_PER_BATCH, "every request ends");
            times.mean().unwrap().seconds()
        })
        .collect()
}

/// Probability that an arrival waits in M/M/c (Erlang C), for offered load `load`.
fn erlang_c(servers: usize, load: f64) -> f64 {
    let blocked =
        (1..=servers).fold(1.0, |blocked, k| load * blocked / (k as f64 + load * blocked));
    let utilisation = load / servers as f64;
    blocked / (1.0 - utilisation * (1.0 - blocked))
}

#[test]
fn m_m_1_waits_as_long_as_theory_says() {
    let (arrivals, service) = (0.7, 1.0);
    assert_mean(
        "M/M/1",
        &first_come_first_served(arrivals, service, 1, 1),
        service / (1.0 - arrivals * service),
    );
}

#[test]
fn m_m_c_waits_as_long_as_theory_says() {
    let (arrivals, service, servers) = (3.2, 1.0, 4);
    let load = arrivals * service;
    let wait = erlang_c(servers, load) * service / (servers as f64 - load);
    assert_mean("M/M/4", &first_come_first_served(arrivals, service, servers, 2), service + wait);
}

#[test]
fn m_g_1_processor_sharing_depends_on_the_mean_alone() {
    let arrivals = 0.6;
    let expect = 1.0 / (1.0 - arrivals);
    assert_mean("M/M/1-PS", &processor_sharing(arrivals, |rng| exponential(rng, 1.0), 3), expect);
    assert_mean("M/D/1-PS", &processor_sharing(arrivals, |_| 1.0, 4), expect);
    // Two kinds of jobs, far apart, with mean one: short ones nine times in ten.
    let mixed = |rng: &mut Stream| if rng.uniform() < 0.9 { 0.5 } else { 5.5 };
    assert_mean("M/H/1-PS", &processor_sharing(arrivals, mixed, 5), expect);
}
