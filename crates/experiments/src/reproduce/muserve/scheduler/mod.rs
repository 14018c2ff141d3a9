//! Recorded answer lengths with the classes that a BERT proxy predicted, served by one server.

use std::io::BufRead;
use std::path::Path;

use homeostat_core::{SeedTree, SimDuration, SimTime};
use homeostat_lab::{Error, Result, read_packed};
use homeostat_muserve::schedule::{Job, LengthDistribution, Preemption, QueueOrder, serve};
use homeostat_report::{Cell, Finding, Spread, Table};
use rayon::prelude::*;
use serde_json::{Value, json};

use super::{MuserveOptions, empty_finding};

/// Time of one token; results relative to FCFS do not depend on it.
const TOKEN: SimDuration = SimDuration::from_millis(25);

/// A running request may make way after each four tokens; a token's time brings its cache back.
const PREEMPTION: Preemption = Preemption { quantum: 4, resume_cost: 1 };

/// Head starts that are tried, in mean service times.
const HEAD_STARTS: [f64; 9] = [0.0, 1.0, 2.0, 4.0, 6.0, 8.0, 12.0, 16.0, 24.0];

/// The load at which the head start is chosen.
const MAIN_LOAD: f64 = 0.9;

/// Requests of a trial: a p99 at load 0.9 needs many.
const TRIAL_REQUESTS: usize = 40_000;

/// Both proxies' classes, three of one and five of the other, are joined.
const CLASSES: usize = 15;

#[derive(Clone, Copy)]
pub(super) struct Recorded {
    pub(super) tokens: u32,
    class: usize,
}

/// What finished requests taught.
struct Learnt {
    classes: Vec<LengthDistribution>,
    mean_service: f64,
    head_start: f64,
    oracle_head_start: f64,
    preemptive_head_start: f64,
}

#[derive(Clone, Copy, PartialEq)]
enum Arm {
    Fcfs,
    Oracle,
    OracleAged,
    Ssjf,
    SsjfAged,
    Gittins,
    GittinsAged,
}

const ARMS: [(Arm, &str); 7] = [
    (Arm::Fcfs, "fcfs"),
    (Arm::Oracle, "oracle"),
    (Arm::OracleAged, "oracle_aged"),
    (Arm::Ssjf, "ssjf"),
    (Arm::SsjfAged, "ssjf_aged"),
    (Arm::Gittins, "gittins"),
    (Arm::GittinsAged, "gittins_aged"),
];

/// One arm on one sequence of requests.
#[derive(Clone, Copy)]
struct Outcome {
    mean: f64,
    p99: f64,
    /// Requests that were finished when the last one arrived.
    finished: f64,
}

pub(super) fn scheduler(
    options: &MuserveOptions,
    progress: &(dyn Fn(&str) + Sync),
) -> Result<Finding> {
    let recorded = read(&options.data)?;
    let count = if options.is_quick { 10_000 } else { 40_000 };
    let settings: &[(f64, f64)] = if options.is_quick {
        &[(0.7, 1.0), (0.9, 1.0), (1.5, 1.0)]
    } else {
        &[
            (0.5, 1.0),
            (0.7, 1.0),
            (0.8, 1.0),
            (0.9, 1.0),
            (0.95, 1.0),
            (1.5, 1.0),
            (0.9, 2.0),
            (0.9, 4.0),
        ]
    };
    progress("choosing head starts on half of the requests");
    let per_seed: Vec<Vec<Vec<Outcome>>> = options
        .seeds
        .par_iter()
        .map(|seed| {
            let seeds = SeedTree::new(*seed).child("muserve/scheduler");
            let mut rows = recorded.clone();
            seeds.stream("split").shuffle(&mut rows);
            let (known, unseen) = rows.split_at(rows.len() / 2);
            let learnt = Learnt::of(known, &seeds)?;
            progress(&format!("seed {seed}: serving the other half"));
            let run = |(load, variation): &(f64, f64)| {
                let name = format!("load {load} variation {variation}");
                let jobs = arrivals(
                    unseen,
                    count,
                    *load,
                    *variation,
                    TOKEN.seconds(),
                    &seeds.child(&name),
                );
                ARMS.iter().map(|(arm, _)| learnt.outcome(*arm, &jobs)).collect()
            };
            Ok(settings.iter().map(run).collect())
        })
        .collect::<Result<_>>()?;
    Ok(finding(settings, &per_seed))
}

impl Learnt {
    fn of(known: &[Recorded], seeds: &SeedTree) -> Result<Self> {
        let refused = |error: homeostat_muserve::Error| Error::OutOfRange {
            key: "data".to_owned(),
            value: "the recorded predictions".to_owned(),
            source_text: "flag --data".to_owned(),
            expected: error.to_string(),
        };
        let classes = (0..CLASSES)
            .map(|class| {
                let of = |is_like: &dyn Fn(usize) -> bool| -> Vec<u32> {
                    known.iter().filter(|row| is_like(row.class)).map(|row| row.tokens).collect()
                };
                // A rare pair of classes is judged by the finer of the two proxies.
                let own = of(&|other| other == class);
                let lengths =
                    if own.len() < 100 { of(&|other| other % 5 == class % 5) } else { own };
                LengthDistribution::of(&lengths).map_err(refused)
            })
            .collect::<Result<_>>()?;
        let mut learnt = Self {
            classes,
            mean_service: mean_tokens(known) * TOKEN.seconds(),
            head_start: 0.0,
            oracle_head_start: 0.0,
            preemptive_head_start: 0.0,
        };
        let trial = |trial: usize| {
            let seeds = seeds.child(&format!("trial {trial}"));
            arrivals(known, TRIAL_REQUESTS, MAIN_LOAD, 1.0, TOKEN.seconds(), &seeds)
        };
        let trials: Vec<Vec<Job>> = (0..4).map(trial).collect();
        let p99 = |learnt: &Self, arm: Arm| -> f64 {
            trials.iter().map(|jobs| learnt.outcome(arm, jobs).p99).sum()
        };
        let fcfs = p99(&learnt, Arm::Fcfs);
        // The largest head start whose p99 is not above that of FCFS, without a margin.
        let choose = |learnt: &mut Self, arm: Arm, field: fn(&mut Self) -> &mut f64| {
            let mut chosen = 0.0;
            for times in HEAD_STARTS {
                *field(learnt) = times * learnt.mean_service;
                if p99(learnt, arm) <= fcfs {
                    chosen = *field(learnt);
                }
            }
            *field(learnt) = chosen;
        };
        choose(&mut learnt, Arm::SsjfAged, |learnt| &mut learnt.head_start);
        choose(&mut learnt, Arm::OracleAged, |learnt| &mut learnt.oracle_head_start);
        choose(&mut learnt, Arm::GittinsAged, |learnt| &mut learnt.preemptive_head_start);
        Ok(learnt)
    }

    fn outcome(&self, arm: Arm, jobs: &[Job]) -> Outcome {
        let expected = |job: &Job| self.classes[job.class].mean();
        let truth = |job: &Job| f64::from(job.tokens);
        let index = |job: &Job, done: u32| self.classes[job.class].gittins_rank(done);
        let aged = |head_start: f64| QueueOrder::Aged { head_start };
        let ranked = |order: QueueOrder, length: &dyn Fn(&Job) -> f64| {
            serve(jobs, TOKEN, None, |job, _| order.rank(job.arrival, length(job)))
        };
        let completion = match arm {
            Arm::Fcfs => ranked(QueueOrder::Fcfs, &truth),
            Arm::Oracle => ranked(QueueOrder::ShortestFirst, &truth),
            Arm::OracleAged => ranked(aged(self.oracle_head_start), &truth),
            Arm::Ssjf => ranked(QueueOrder::ShortestFirst, &expected),
            Arm::SsjfAged => ranked(aged(self.head_start), &expected),
            Arm::Gittins => serve(jobs, TOKEN, Some(PREEMPTION), index),
            Arm::GittinsAged => {
                let order = aged(self.preemptive_head_start);
                serve(jobs, TOKEN, Some(PREEMPTION), |job, done| {
                    order.rank(job.arrival, index(job, done))
                })
            }
        };
        let last = jobs.last().map_or(SimTime::ZERO, |job| job.arrival);
        let is_finished = |(job, time): &(&Job, &SimDuration)| job.arrival + **time <= last;
        let finished = jobs.iter().zip(&completion).filter(is_finished).count();
        let mut seconds: Vec<f64> = completion.iter().map(|time| time.seconds()).collect();
        seconds.sort_unstable_by(f64::total_cmp);
        Outcome {
            mean: seconds.iter().sum::<f64>() / seconds.len() as f64,
            p99: seconds[seconds.len() * 99 / 100],
            finished: finished as f64,
        }
    }
}

fn mean_tokens(rows: &[Recorded]) -> f64 {
    rows.iter().map(|row| f64::from(row.tokens)).sum::<f64>() / rows.len() as f64
}

/// The mean length of the requests of each class; that of all where a class is rare.
pub(super) fn mean_tokens_of_classes(known: &[Recorded]) -> Vec<f64> {
    let of = |class: usize| -> f64 {
        let rows: Vec<Recorded> = known.iter().copied().filter(|row| row.class == class).collect();
        mean_tokens(if rows.len() < 20 { known } else { &rows })
    };
    (0..CLASSES).map(of).collect()
}

/// Requests at this load, where a token takes so long. The gaps are exponential, or of two exponentials with balanced means
/// where their coefficient of variation is above one.
pub(super) fn arrivals(
    rows: &[Recorded],
    count: usize,
    load: f64,
    variation: f64,
    token_s: f64,
    seeds: &SeedTree,
) -> Vec<Job> {
    let (mut gaps, mut picks) = (seeds.stream("gaps"), seeds.stream("requests"));
    let mean_gap = mean_tokens(rows) * token_s / load;
    let square = variation * variation;
    let likely = 0.5 * (1.0 + ((square - 1.0) / (square + 1.0)).max(0.0).sqrt());
    let mut now = 0.0;
    let job = |_| {
        let share = if gaps.uniform() < likely { likely } else { 1.0 - likely };
        now -= mean_gap / (2.0 * share) * (1.0 - gaps.uniform()).ln();
        let Recorded { tokens, class } = rows[picks.below(rows.len())];
        let arrival = SimTime::from_nanos((now * 1e9) as u64);
        Job { arrival, tokens, class }
    };
    (0..count).map(job).collect()
}

fn finding(settings: &[(f64, f64)], per_seed: &[Vec<Vec<Outcome>>]) -> Finding {
    let mut finding = empty_finding();
    let columns = [
        "load",
        "variation",
        "order",
        "mean gain %",
        "part of the oracle's",
        "p99 / FCFS",
        "finished / FCFS",
    ];
    let mut table = Table::new("completion times against FCFS", &columns);
    let mut by_setting: Vec<Value> = Vec::new();
    for (place, (load, variation)) in settings.iter().enumerate() {
        let mut keys = [json!({}), json!({}), json!({}), json!({})];
        for (arm, (_, name)) in ARMS.iter().enumerate().skip(1) {
            let over_seeds = |figure: &dyn Fn(&[Outcome]) -> f64| {
                Spread::of(&per_seed.iter().map(|seed| figure(&seed[place])).collect::<Vec<_>>())
            };
            let gain = over_seeds(&|outcome| 100.0 * (1.0 - outcome[arm].mean / outcome[0].mean));
            let part = over_seeds(&|outcome| {
                (outcome[0].mean - outcome[arm].mean) / (outcome[0].mean - outcome[1].mean)
            });
            let p99 = over_seeds(&|outcome| outcome[arm].p99 / outcome[0].p99);
            let finished = over_seeds(&|outcome| outcome[arm].finished / outcome[0].finished);
            for (key, spread) in keys.iter_mut().zip([gain, part, p99, finished]) {
                key[*name] = json!(spread);
            }
            let cells: [Cell; 7] = [
                (*load).into(),
                (*variation).into(),
                (*name).into(),
                gain.into(),
                part.into(),
                p99.into(),
                finished.into(),
            ];
            table.push(cells.to_vec());
        }
        let [gain, part, p99, finished] = keys;
        let figures = json!({
            "load": load, "variation": variation, "jct_gain_pct": gain,
            "part_of_oracle_gain": part, "p99_vs_fcfs": p99, "throughput_ratio": finished,
        });
        if (*load, *variation) == (MAIN_LOAD, 1.0) {
            for key in ["jct_gain_pct", "part_of_oracle_gain", "p99_vs_fcfs"] {
                finding.facts.insert(key.to_owned(), figures[key].clone());
            }
        }
        if *load > 1.0 {
            finding
                .facts
                .insert("throughput_ratio".to_owned(), figures["throughput_ratio"].clone());
        }
        by_setting.push(figures);
    }
    finding.facts.insert("by_setting".to_owned(), json!(by_setting));
    finding.facts.insert(
        "paper".to_owned(),
        json!({ "jct_gain_pct": { "ssjf": 34.5, "oracle": 43.7 }, "throughput_ratio": { "ssjf": 3.6, "oracle": 4.7 } }),
    );
    finding.tables.push(table);
    finding.notes = vec![
        "The figures without a load are those of load 0.9; throughput_ratio is that of load 1.5: requests \
         finished when the last one arrives. The paper does not say how it counts throughput."
            .to_owned(),
        "gittins preempts. In a stable queue with Poisson arrivals and free preemption, the true Gittins order \
         has the least mean completion time of all that know the classes alone. Ours is an estimate from half \
         of the requests that pays for preemption, so it indicates that limit and does not prove it; the \
         theory says nothing about load 1.5."
            .to_owned(),
        "Head starts are chosen on one half of the requests, so that p99 is at most that of FCFS at load \
         0.9; the other half is served. Paper: no batching, over varying rates (appendix B.3)."
            .to_owned(),
    ];
    finding
}

/// The recorded lengths with their predicted classes.
pub(super) fn read(data: &Path) -> Result<Vec<Recorded>> {
    let path = data.join("ssjf_output_length_predictions/predictions_cls_multicls.csv.zst");
    read_packed(&path, &["csv"], &mut |_| {}, |file| {
        let mut rows = Vec::new();
        for (index, line) in file.lines().enumerate() {
            let line = line.map_err(|error| error.to_string())?;
            if index == 0 {
                if !line.starts_with("output_token_length,pred_cls,pred_multi_cls") {
                    return Err(format!(
                        "its first line is `{line:.60}`; expected the columns output_token_length,pred_cls,pred_multi_cls"
                    ));
                }
                continue;
            }
            let mut fields = line.split(',').map(|field| field.parse::<u32>().ok());
            let mut next = || fields.next().flatten();
            match (next(), next(), next()) {
                (Some(tokens), Some(three @ 0..3), Some(five @ 0..5)) => {
                    rows.push(Recorded { tokens, class: (three * 5 + five) as usize });
                }
                _ => {
                    return Err(format!(
                        "line {} is not a length with classes 0 to 2 and 0 to 4: `{line:.60}`",
                        index + 1
                    ));
                }
            }
        }
        if rows.len() < 1000 {
            Err(format!("it has {} requests; at least 1000 are needed", rows.len()))
        } else {
            Ok(rows)
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arrivals_have_the_load_and_the_variation_asked_for() {
        let rows = [Recorded { tokens: 100, class: 0 }];
        for variation in [1.0, 3.0] {
            let jobs = arrivals(&rows, 200_000, 0.5, variation, 0.025, &SeedTree::new(1));
            let gaps: Vec<f64> = jobs
                .windows(2)
                .map(|pair| pair[1].arrival.saturating_since(pair[0].arrival).seconds())
                .collect();
            let mean = gaps.iter().sum::<f64>() / gaps.len() as f64;
            let square =
                gaps.iter().map(|gap| (gap - mean).powi(2)).sum::<f64>() / gaps.len() as f64;
            assert!((mean / 5.0 - 1.0).abs() < 0.05, "{mean}");
            assert!((square.sqrt() / mean / variation - 1.0).abs() < 0.05);
        }
    }
}
