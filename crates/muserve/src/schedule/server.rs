//! One server that answers one request at a time, as the no-batching mode of appendix B.3.

use std::collections::BTreeSet;

use homeostat_core::{SimDuration, SimTime};

use super::DeadlineGuard;

/// A recorded request.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Job {
    /// When it arrives.
    pub arrival: SimTime,
    /// True length of its answer, which only an oracle's rank may read.
    pub tokens: u32,
    /// The class that a predictor put it into.
    pub class: usize,
}

/// When and at which price a running request makes way.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Preemption {
    /// Tokens between two looks at the queue; at least one.
    pub quantum: u32,
    /// Time to resume a request that has begun, in tokens: its KV cache comes back.
    pub resume_cost: u32,
}

/// Job completion time of each job, in the order of `jobs`, which are sorted by arrival. Of all
/// waiting jobs the one with the smallest `rank(job, tokens so far)` runs; it runs to its end, or
/// with `preemption` as long as no other has a smaller rank.
pub fn serve(
    jobs: &[Job],
    token_time: SimDuration,
    preemption: Option<Preemption>,
    rank: impl Fn(&Job, u32) -> f64,
) -> Vec<SimDuration> {
    run(jobs, token_time, preemption, rank, &mut None::<(_, fn(&Job, u32) -> f64)>)
}

/// As [`serve`], unless `guard` puts another job before the first in rank. `remaining(job, tokens so far)` is how
/// many tokens are expected to be left.
pub fn serve_guarded(
    jobs: &[Job],
    token_time: SimDuration,
    preemption: Option<Preemption>,
    rank: impl Fn(&Job, u32) -> f64,
    guard: &mut DeadlineGuard,
    remaining: impl Fn(&Job, u32) -> f64,
) -> Vec<SimDuration> {
    run(jobs, token_time, preemption, rank, &mut Some((guard, remaining)))
}

fn run(
    jobs: &[Job],
    token_time: SimDuration,
    preemption: Option<Preemption>,
    rank: impl Fn(&Job, u32) -> f64,
    guard: &mut Option<(&mut DeadlineGuard, impl Fn(&Job, u32) -> f64)>,
) -> Vec<SimDuration> {
    debug_assert!(jobs.is_sorted_by_key(|job| job.arrival), "jobs arrive in order");
    let mut completion = vec![SimDuration::ZERO; jobs.len()];
    let mut done = vec![0u32; jobs.len()];
    // Ranks are ordered as their bits once the sign is taken care of; ties go to the earlier job.
    let mut waiting: BTreeSet<(u64, usize)> = BTreeSet::new();
    let key = |index: usize, done: u32| (sortable(rank(&jobs[index], done)), index);
    let (mut now, mut arrived, mut running) = (SimTime::ZERO, 0, None);
    loop {
        if waiting.is_empty() && running.is_none() {
            let Some(next) = jobs.get(arrived) else { return completion };
            now = now.max(next.arrival);
        }
        while arrived < jobs.len() && jobs[arrived].arrival <= now {
            waiting.insert(key(arrived, 0));
            if let Some((guard, remaining)) = guard {
                let expected = remaining(&jobs[arrived], 0) * token_time.seconds();
                guard.arrive(jobs[arrived].arrival.seconds(), expected);
            }
            arrived += 1;
        }
        let own = running.map(|index: usize| key(index, done[index]));
        let first = match (waiting.first().copied(), own) {
            (Some(first), Some(own)) => first.min(own),
            (Some(first), None) => first,
            (None, own) => own.expect("a job waits or runs"),
        };
        let index = match guard {
            Some((guard, _)) => guard.choose(now.seconds(), first.1 as u64) as usize,
            None => first.1,
        };
        if running != Some(index) {
            waiting.extend(own);
            waiting.remove(&key(index, done[index]));
            if done[index] > 0 {
                let cost = preemption.map_or(0, |preemption| preemption.resume_cost);
                now += token_time * u64::from(cost);
            }
        }
        let left = jobs[index].tokens - done[index];
        let run = preemption.map_or(left, |preemption| left.min(preemption.quantum.max(1)));
        now += token_time * u64::from(run);
        done[index] += run;
        running = Some(index);
        if done[index] == jobs[index].tokens {
            completion[index] = now.saturating_since(jobs[index].arrival);
            running = None;
        }
        if let Some((guard, remaining)) = guard {
            if running.is_none() {
                let service = token_time * u64::from(jobs[index].tokens);
                guard.finish(index as u64, now.seconds(), service.seconds());
            } else {
                let left = remaining(&jobs[index], done[index]) * token_time.seconds();
                guard.set_remaining(index as u64, left);
            }
        }
    }
}

/// Bits with the order of `f64::total_cmp`.
fn sortable(rank: f64) -> u64 {
    let bits = rank.to_bits();
    if bits >> 63 == 1 { !bits } else { bits | 1 << 63 }
}

#[cfg(test)]
mod tests {
    use super::*;
    use homeostat_core::Stream;
    use proptest::prelude::*;

    const TOKEN: SimDuration = SimDuration::from_millis(1);

    fn job(arrival_ms: u64, tokens: u32) -> Job {
        let arrival = SimTime::ZERO + SimDuration::from_millis(arrival_ms);
        Job { arrival, tokens, class: 0 }
    }

    fn milliseconds(completion: &[SimDuration]) -> Vec<u64> {
        completion.iter().map(|time| time.nanos() / 1_000_000).collect()
    }

    #[test]
    fn a_short_job_overtakes_those_that_wait_and_preempts_only_if_allowed() {
        let jobs = [job(0, 10), job(1, 8), job(2, 2)];
        let shortest = |job: &Job, done: u32| f64::from(job.tokens - done);
        let arrival = |job: &Job, _: u32| job.arrival.seconds();
        assert_eq!(milliseconds(&serve(&jobs, TOKEN, None, arrival)), [10, 17, 18]);
        assert_eq!(milliseconds(&serve(&jobs, TOKEN, None, shortest)), [10, 19, 10]);
        let free = Preemption { quantum: 1, resume_cost: 0 };
        assert_eq!(milliseconds(&serve(&jobs, TOKEN, Some(free), shortest)), [20, 10, 2]);
        let costly = Preemption { quantum: 1, resume_cost: 3 };
        assert_eq!(milliseconds(&serve(&jobs, TOKEN, Some(costly), shortest)), [26, 13, 2]);
    }

    #[test]
    fn the_mean_of_an_m_m_1_queue_is_that_of_the_theory() {
        let mut rng = Stream::from_seed(3);
        let mut now = 0.0;
        let mut exponential = |mean: f64| -mean * (1.0 - rng.uniform()).ln();
        let jobs: Vec<Job> = (0..400_000)
            .map(|_| {
                now += exponential(2000.0);
                let tokens = exponential(1000.0).round().max(1.0) as u32;
                job(now as u64, tokens)
            })
            .collect();
        let completion = serve(&jobs, TOKEN, None, |job, _| job.arrival.seconds());
        let mean = completion.iter().map(|time| time.seconds()).sum::<f64>() / jobs.len() as f64;
        // 1 / (mu - lambda) = 2 s; five per cent is some four standard errors of this length.
        assert!((mean - 2.0).abs() < 0.1, "{mean}");
    }

    proptest! {
        #[test]
        fn every_job_completes_and_the_server_is_never_idle_while_one_waits(
            sizes in prop::collection::vec((0u64..50, 0u32..30), 0..60), quantum in 0u32..5,
            deadline in 0.0f64..0.3,
        ) {
            let mut arrival = 0;
            let jobs: Vec<Job> = sizes.iter().map(|(gap, tokens)| {
                arrival += gap;
                job(arrival, *tokens)
            }).collect();
            let last = |completion: &[SimDuration]| {
                jobs.iter().zip(completion).map(|(job, time)| job.arrival + *time).max()
            };
            let fcfs = serve(&jobs, TOKEN, None, |job, _| job.arrival.seconds());
            let preemption = (quantum > 0).then_some(Preemption { quantum, resume_cost: 0 });
            let remaining = |job: &Job, done: u32| f64::from(job.tokens - done);
            let shortest = serve(&jobs, TOKEN, preemption, remaining);
            prop_assert_eq!(last(&fcfs), last(&shortest));
            let mut guard = DeadlineGuard::fixed(deadline);
            let guarded = serve_guarded(&jobs, TOKEN, preemption, remaining, &mut guard, remaining);
            prop_assert_eq!(last(&fcfs), last(&guarded));
            for (job, time) in jobs.iter().zip(&shortest) {
                prop_assert!(*time >= TOKEN * u64::from(job.tokens));
            }
        }
    }
}
