//! Mean completion times of an M/G/1 queue against the formulas of queueing theory (Harchol-Balter,
//! Performance Modeling and Design of Computer Systems, chapters 31 to 33). Lengths are 1 to 100 tokens, equally likely,
//! and a token takes a millisecond.

use homeostat_core::{SimDuration, SimTime, Stream};
use homeostat_muserve::schedule::{
    Expectation, Job, Preemption, PreemptiveOrder, QueueOrder, serve,
};

const TOKEN: SimDuration = SimDuration::from_millis(1);
const LONGEST: u32 = 100;
const LOAD: f64 = 0.7;
const FREE: Preemption = Preemption { quantum: 1, resume_cost: 0 };

/// Requests per millisecond.
fn rate() -> f64 {
    LOAD / (f64::from(LONGEST + 1) / 2.0)
}

/// Sum over lengths of their probability times a function.
fn expected(lengths: impl Iterator<Item = u32>, of: impl Fn(f64) -> f64) -> f64 {
    lengths.map(|length| of(f64::from(length)) / f64::from(LONGEST)).sum()
}

/// Load by requests of at most this length.
fn load_up_to(length: u32) -> f64 {
    rate() * expected(1..=length, |tokens| tokens)
}

/// Mean completion time over lengths, in seconds.
fn mean(of: impl Fn(u32) -> f64) -> f64 {
    (1..=LONGEST).map(|length| of(length) / f64::from(LONGEST)).sum::<f64>() / 1e3
}

fn arrivals(seed: u64, tokens: impl Fn(&mut Stream) -> u32) -> Vec<Job> {
    let mut rng = Stream::from_seed(seed);
    let mut now = 0.0;
    (0..30_000)
        .map(|_| {
            now -= (1.0 - rng.uniform()).ln() / rate();
            let arrival = SimTime::from_nanos((now * 1e6) as u64);
            Job { arrival, tokens: tokens(&mut rng), class: 0 }
        })
        .collect()
}

fn uniform(rng: &mut Stream) -> u32 {
    1 + rng.below(LONGEST as usize) as u32
}

/// The mean of ten runs must not differ from the theory by more than four standard errors and a
/// hundredth: a running token is not interrupted, which the formulas allow.
fn check(
    theory: f64,
    tokens: impl Fn(&mut Stream) -> u32,
    preemption: Option<Preemption>,
    rank: impl Fn(&Job, u32) -> f64,
) {
    let run = |seed| {
        let jobs = arrivals(seed, &tokens);
        let times = serve(&jobs, TOKEN, preemption, &rank);
        times.iter().map(|time| time.seconds()).sum::<f64>() / jobs.len() as f64
    };
    let means: Vec<f64> = (1..=10).map(run).collect();
    let mean = means.iter().sum::<f64>() / 10.0;
    let variance = means.iter().map(|value| (value - mean).powi(2)).sum::<f64>() / 9.0;
    let allowed = 4.0 * (variance / 10.0).sqrt() + 0.01 * theory;
    assert!((mean - theory).abs() < allowed, "{mean} of {theory} +- {allowed}");
}

fn preemptive(order: PreemptiveOrder) -> impl Fn(&Job, u32) -> f64 {
    move |job, done| order.rank(Expectation::Known(job.tokens), done)
}

/// Mean work that an arriving request finds in the request that runs, in milliseconds.
fn residual() -> f64 {
    rate() * expected(1..=LONGEST, |tokens| tokens * tokens) / 2.0
}

#[test]
fn order_of_arrival_has_the_mean_of_pollaczek_and_khinchine() {
    let theory = mean(|length| f64::from(length) + residual() / (1.0 - LOAD));
    check(theory, uniform, None, |job, _| QueueOrder::Fcfs.rank(job.arrival, 0.0));
}

#[test]
fn shortest_first_has_the_mean_of_priorities_by_length() {
    let theory = mean(|length| {
        let idle = (1.0 - load_up_to(length - 1)) * (1.0 - load_up_to(length));
        f64::from(length) + residual() / idle
    });
    check(theory, uniform, None, |job, _| f64::from(job.tokens));
}

#[test]
fn preemptive_shortest_first_has_its_mean() {
    let theory = mean(|length| {
        let before = 1.0 - load_up_to(length - 1);
        let residual = rate() * expected(1..=length, |tokens| tokens * tokens) / 2.0;
        f64::from(length) / before + residual / (before * (1.0 - load_up_to(length)))
    });
    check(theory, uniform, Some(FREE), preemptive(PreemptiveOrder::ShortestFirst));
}

#[test]
fn shortest_remaining_has_the_mean_of_schrage_and_miller() {
    let theory = mean(|length| {
        // A longer request counts once it has this much left.
        let longer = f64::from(LONGEST - length) / f64::from(LONGEST);
        let square = expected(1..=length, |tokens| tokens * tokens)
            + longer * f64::from(length) * f64::from(length);
        let idle = (1.0 - load_up_to(length - 1)) * (1.0 - load_up_to(length));
        let residence: f64 = (0..length).map(|left| 1.0 / (1.0 - load_up_to(left))).sum();
        rate() * square / 2.0 / idle + residence
    });
    check(theory, uniform, Some(FREE), preemptive(PreemptiveOrder::ShortestRemaining));
}

#[test]
fn least_attained_has_the_mean_of_any_order_where_lengths_have_no_memory() {
    // Geometric lengths: M/M/1 in steps of a token.
    let mean_tokens = f64::from(LONGEST + 1) / 2.0;
    let geometric = |rng: &mut Stream| {
        let tokens = (1.0 - rng.uniform()).ln() / (1.0 - 1.0 / mean_tokens).ln();
        tokens.ceil().max(1.0) as u32
    };
    check(
        // Their variance is a little below the exponential's: the square is m (2 m - 1).
        (mean_tokens + LOAD * (2.0 * mean_tokens - 1.0) / 2.0 / (1.0 - LOAD)) / 1e3,
        geometric,
        Some(FREE),
        preemptive(PreemptiveOrder::LeastAttained),
    );
}
