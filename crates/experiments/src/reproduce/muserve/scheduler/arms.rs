//! The orders that are compared, and what finished requests taught them.

use homeostat_core::{SeedTree, SimDuration, SimTime};
use homeostat_lab::{Error, Result};
use homeostat_muserve::schedule::{
    DeadlineGuard, Expectation, Job, LengthDistribution, Preemption, PreemptiveOrder, QueueOrder,
    serve, serve_guarded,
};

use super::recorded::{CLASSES, Recorded, arrivals, mean_tokens};
use super::{MAIN_LOAD, TOKEN};

/// A running request may make way after each four tokens; a token's time brings its cache back.
const PREEMPTION: Preemption = Preemption { quantum: 4, resume_cost: 1 };

/// Preemption as theory assumes it: after any token, without cost.
const FREE_PREEMPTION: Preemption = Preemption { quantum: 1, resume_cost: 0 };

/// Head starts that are tried, in mean service times.
pub(super) const HEAD_STARTS: [f64; 9] = [0.0, 1.0, 2.0, 4.0, 6.0, 8.0, 12.0, 16.0, 24.0];

/// Requests of a trial: a p99 at load 0.9 needs many.
const TRIAL_REQUESTS: usize = 40_000;

/// A class with fewer requests is judged by the finer of the two proxies.
const MIN_OF_CLASS: usize = 100;

/// The lengths that a rank uses.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Lengths {
    True,
    Predicted,
}

#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Arm {
    Fcfs,
    ShortestFirst(Lengths),
    /// With a head start in mean service times.
    Aged(Lengths, f64),
    /// With the head start that was chosen on the other half of the requests.
    AgedAsChosen(Lengths),
    /// With deadlines learnt from finished requests.
    Deadlines(Lengths),
    /// With a deadline that is known in advance, in seconds.
    KnownDeadline(Lengths, f64),
    Preemptive(PreemptiveOrder, Lengths),
    FreeGittins,
    GittinsDeadlines,
}

pub(super) const ARMS: [(Arm, &str); 11] = [
    (Arm::Fcfs, "fcfs"),
    (Arm::ShortestFirst(Lengths::True), "oracle"),
    (Arm::AgedAsChosen(Lengths::True), "oracle_aged"),
    (Arm::Deadlines(Lengths::True), "oracle_deadlines"),
    (Arm::ShortestFirst(Lengths::Predicted), "ssjf"),
    (Arm::AgedAsChosen(Lengths::Predicted), "ssjf_aged"),
    (Arm::Deadlines(Lengths::Predicted), "ssjf_deadlines"),
    (Arm::Preemptive(PreemptiveOrder::ShortestRemaining, Lengths::True), "srpt"),
    (Arm::Preemptive(PreemptiveOrder::Gittins, Lengths::Predicted), "gittins"),
    (Arm::GittinsDeadlines, "gittins_deadlines"),
    (Arm::FreeGittins, "gittins_free"),
];

/// One arm on one sequence of requests.
#[derive(Debug, Clone, Copy)]
pub(super) struct Outcome {
    pub(super) mean: f64,
    pub(super) p99: f64,
    pub(super) longest: f64,
    /// Requests that were finished when the last one arrived.
    pub(super) finished: f64,
}

/// What finished requests taught.
#[derive(Debug)]
pub(super) struct Learnt {
    classes: Vec<LengthDistribution>,
    mean_service: f64,
    /// In mean service times.
    head_start: f64,
    oracle_head_start: f64,
}

impl Learnt {
    /// The lengths of each class, as `of_class` names the classes that are told apart.
    pub(super) fn classes(known: &[Recorded], of_class: impl Fn(usize) -> usize) -> Result<Self> {
        let refused = |error: homeostat_muserve::Error| Error::OutOfRange {
            key: "data".to_owned(),
            value: "the recorded predictions".to_owned(),
            source_text: "flag --data".to_owned(),
            expected: error.to_string(),
        };
        let lengths = |is_like: &dyn Fn(usize) -> bool| -> Vec<u32> {
            known.iter().filter(|row| is_like(row.class)).map(|row| row.tokens).collect()
        };
        let classes = (0..CLASSES)
            .map(|class| {
                let own = lengths(&|other| of_class(other) == of_class(class));
                let enough = own.len() >= MIN_OF_CLASS;
                let own = if enough { own } else { lengths(&|other| other % 5 == class % 5) };
                LengthDistribution::of(&own).map_err(refused)
            })
            .collect::<Result<_>>()?;
        let mean_service = mean_tokens(known) * TOKEN.seconds();
        Ok(Self { classes, mean_service, head_start: 0.0, oracle_head_start: 0.0 })
    }

    /// Classes, and the head starts of ageing.
    pub(super) fn of(known: &[Recorded], seeds: &SeedTree) -> Result<Self> {
        let mut learnt = Self::classes(known, |class| class)?;
        let trial = |trial: usize| {
            let seeds = seeds.child(&format!("trial {trial}"));
            arrivals(known, TRIAL_REQUESTS, MAIN_LOAD, 1.0, TOKEN.seconds(), &seeds)
        };
        let trials: Vec<Vec<Job>> = (0..4).map(trial).collect();
        let p99 =
            |arm: Arm| -> f64 { trials.iter().map(|jobs| learnt.outcome(arm, jobs).p99).sum() };
        let fcfs = p99(Arm::Fcfs);
        // The largest head start whose p99 is not above that of FCFS, without a margin.
        let choose = |lengths: Lengths| {
            let fits = |times: &&f64| p99(Arm::Aged(lengths, **times)) <= fcfs;
            HEAD_STARTS.iter().rfind(fits).copied().unwrap_or(0.0)
        };
        let (head_start, oracle) = (choose(Lengths::Predicted), choose(Lengths::True));
        learnt.head_start = head_start;
        learnt.oracle_head_start = oracle;
        Ok(learnt)
    }

    pub(super) fn outcome(&self, arm: Arm, jobs: &[Job]) -> Outcome {
        let expectation = |lengths: Lengths, job: &Job| match lengths {
            Lengths::True => Expectation::Known(job.tokens),
            Lengths::Predicted => Expectation::Like(&self.classes[job.class]),
        };
        let preemptive = |order: PreemptiveOrder, lengths: Lengths| {
            move |job: &Job, done: u32| order.rank(expectation(lengths, job), done)
        };
        // Before a request runs, its remaining length is its length.
        let left = |lengths: Lengths| preemptive(PreemptiveOrder::ShortestRemaining, lengths);
        let ranked = |order: QueueOrder, lengths: Lengths| {
            let length = left(lengths);
            serve(jobs, TOKEN, None, |job, done| order.rank(job.arrival, length(job, done)))
        };
        let guarded = |mut guard: DeadlineGuard, lengths: Lengths| {
            serve_guarded(jobs, TOKEN, None, left(lengths), &mut guard, left(lengths))
        };
        let aged = |times: f64| QueueOrder::Aged { head_start: times * self.mean_service };
        let gittins = preemptive(PreemptiveOrder::Gittins, Lengths::Predicted);
        let completion = match arm {
            Arm::Fcfs => ranked(QueueOrder::Fcfs, Lengths::True),
            Arm::ShortestFirst(lengths) => ranked(QueueOrder::ShortestFirst, lengths),
            Arm::Aged(lengths, times) => ranked(aged(times), lengths),
            Arm::AgedAsChosen(Lengths::True) => ranked(aged(self.oracle_head_start), Lengths::True),
            Arm::AgedAsChosen(lengths) => ranked(aged(self.head_start), lengths),
            Arm::Deadlines(lengths) => guarded(DeadlineGuard::learning(), lengths),
            Arm::KnownDeadline(lengths, seconds) => guarded(DeadlineGuard::fixed(seconds), lengths),
            Arm::Preemptive(order, lengths) => {
                serve(jobs, TOKEN, Some(PREEMPTION), preemptive(order, lengths))
            }
            Arm::FreeGittins => serve(jobs, TOKEN, Some(FREE_PREEMPTION), gittins),
            Arm::GittinsDeadlines => {
                let mut guard = DeadlineGuard::learning();
                let left = left(Lengths::Predicted);
                serve_guarded(jobs, TOKEN, Some(PREEMPTION), gittins, &mut guard, left)
            }
        };
        Outcome::of(jobs, &completion)
    }
}

impl Outcome {
    fn of(jobs: &[Job], completion: &[SimDuration]) -> Self {
        let last = jobs.last().map_or(SimTime::ZERO, |job| job.arrival);
        let is_finished = |(job, time): &(&Job, &SimDuration)| job.arrival + **time <= last;
        let finished = jobs.iter().zip(completion).filter(is_finished).count();
        let mut seconds: Vec<f64> = completion.iter().map(|time| time.seconds()).collect();
        seconds.sort_unstable_by(f64::total_cmp);
        Self {
            mean: seconds.iter().sum::<f64>() / seconds.len() as f64,
            p99: seconds[seconds.len() * 99 / 100],
            longest: seconds[seconds.len() - 1],
            finished: finished as f64,
        }
    }
}
