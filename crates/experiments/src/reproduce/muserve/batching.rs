//! Orders with and without batching (appendix B.3): completion times and throughput of one model on one
//! device, with recorded lengths of answers and the classes that a proxy predicted.

use homeostat_core::{SeedTree, SimDuration};
use homeostat_lab::Result;
use homeostat_report::{Cell, Finding, Spread, Table};
use homeostat_sim_gpu::{Batching, DeviceType, Model, Request, Serving, single_device};
use rayon::prelude::*;
use serde_json::json;

use super::scheduler::{Recorded, arrivals, mean_tokens_of_classes, read};
use super::{MuserveOptions, refused_by_simulator as refused};

const MODEL: &str = "opt-1.3b";
const PROMPT: u32 = 64;

/// The chapter's sizes of batches.
const MAX_BATCH: u32 = 4;
const TIMEOUT: SimDuration = SimDuration::from_millis(500);

const BATCHINGS: [(&str, Batching, [f64; 2], [f64; 2]); 3] = [
    ("none", Batching::None, [34.5, 43.7], [3.6, 4.7]),
    (
        "dynamic",
        Batching::Dynamic { max_batch: MAX_BATCH, timeout: TIMEOUT },
        [39.6, 58.2],
        [3.0, 4.1],
    ),
    ("continuous", Batching::Continuous { max_batch: MAX_BATCH }, [33.2, 43.0], [2.8, 3.2]),
];

const ORDERS: [&str; 3] = ["fcfs", "ssjf", "oracle"];

/// One order on one sequence of requests.
#[derive(Debug, Clone, Copy)]
struct Outcome {
    mean_s: f64,
    /// Answered when the last request arrived.
    finished: f64,
}

pub(super) fn batching(
    options: &MuserveOptions,
    progress: &(dyn Fn(&str) + Sync),
) -> Result<Finding> {
    let recorded = read(&options.data)?;
    let count = if options.is_quick { 3000 } else { 20_000 };
    // Load of each kind of batching itself, and variation of the gaps between requests.
    let settings: &[(f64, f64)] = if options.is_quick {
        &[(0.9, 1.0), (1.5, 1.0)]
    } else {
        &[(0.7, 1.0), (0.9, 1.0), (1.5, 1.0), (0.9, 2.0), (0.9, 4.0)]
    };
    let mut finding = Finding::default();
    let columns = [
        "batching",
        "load",
        "variation",
        "order",
        "mean gain %",
        "finished / FCFS",
        "paper's gain %",
        "paper's throughput",
    ];
    let mut table = Table::new("completion times and throughput against FCFS", &columns);
    let mut by_setting = Vec::new();
    for (name, batching, paper_gain, paper_throughput) in BATCHINGS {
        progress(&format!("batching {name}: measuring its capacity"));
        let token_s = seconds_per_token(&recorded, batching)?;
        for (load, variation) in settings {
            progress(&format!("batching {name}, load {load}, variation {variation}"));
            let per_seed: Vec<[Outcome; 3]> = options
                .seeds
                .par_iter()
                .map(|seed| {
                    let tree = SeedTree::new(*seed).child("muserve/batching");
                    let mut rows = recorded.clone();
                    tree.stream("split").shuffle(&mut rows);
                    let (known, unseen) = rows.split_at(rows.len() / 2);
                    let expected = mean_tokens_of_classes(known);
                    let tree = tree.child(&format!("{name} {load} {variation}"));
                    let jobs = arrivals(unseen, count, *load, *variation, token_s, &tree);
                    let rank = |order: usize, job: &homeostat_muserve::schedule::Job| match order {
                        0 => 0.0,
                        1 => expected[job.class],
                        _ => f64::from(job.tokens),
                    };
                    let mut outcomes = [Outcome { mean_s: 0.0, finished: 0.0 }; 3];
                    for (order, outcome) in outcomes.iter_mut().enumerate() {
                        let requests = jobs.iter().map(|job| Request {
                            arrival: job.arrival,
                            model: 0,
                            prompt: PROMPT,
                            output: job.tokens,
                            rank: rank(order, job),
                        });
                        *outcome = serve(requests.collect(), batching)?;
                    }
                    Ok(outcomes)
                })
                .collect::<Result<_>>()?;
            let over_seeds = |figure: &dyn Fn(&[Outcome; 3]) -> f64| {
                Spread::of(&per_seed.iter().map(figure).collect::<Vec<_>>())
            };
            let mut gains = json!({});
            let mut ratios = json!({});
            for (order, order_name) in ORDERS.iter().enumerate().skip(1) {
                let gain = over_seeds(&|each| 100.0 * (1.0 - each[order].mean_s / each[0].mean_s));
                let ratio = over_seeds(&|each| each[order].finished / each[0].finished);
                gains[*order_name] = json!(gain);
                ratios[*order_name] = json!(ratio);
                let cells: [Cell; 8] = [
                    name.into(),
                    (*load).into(),
                    (*variation).into(),
                    (*order_name).into(),
                    gain.into(),
                    ratio.into(),
                    paper_gain[order - 1].into(),
                    paper_throughput[order - 1].into(),
                ];
                table.push(cells.to_vec());
            }
            by_setting.push(json!({
                "batching": name, "load": load, "variation": variation,
                "jct_gain_pct": gains, "throughput_ratio": ratios,
                "fcfs_mean_s": over_seeds(&|each| each[0].mean_s),
            }));
        }
    }
    finding.tables.push(table);
    finding.facts.insert("by_setting".to_owned(), json!(by_setting));
    let paper: serde_json::Map<String, serde_json::Value> = BATCHINGS
        .iter()
        .map(|(name, _, gain, throughput)| {
            let of = |pair: &[f64; 2]| json!({ "ssjf": pair[0], "oracle": pair[1] });
            let figures = json!({ "jct_gain_pct": of(gain), "throughput_ratio": of(throughput) });
            ((*name).to_owned(), figures)
        })
        .collect();
    finding.facts.insert("paper".to_owned(), json!(paper));
    finding.notes = vec![
        format!(
            "{MODEL} on one V100, batches of up to {MAX_BATCH}. A load of 1 is the rate that each kind of batching \
             can just serve in order of arrival, so that all three queue alike; the paper varies rates of requests \
             that it does not print."
        ),
        "Throughput counts requests finished when the last one arrives, at load 1.5 where queues grow; the paper \
         does not say how it counts. Classes are those of a BERT proxy; their mean lengths come from the half of \
         the requests that is not served."
            .to_owned(),
    ];
    Ok(finding)
}

fn deployment(batching: Batching) -> Result<homeostat_sim_gpu::Deployment> {
    let model = Model::by_name(MODEL).map_err(refused)?;
    let device = DeviceType::by_name("v100").map_err(refused)?;
    single_device(device, &model, batching).map_err(refused)
}

/// Seconds of the device for each token of an answer when requests always wait.
fn seconds_per_token(recorded: &[Recorded], batching: Batching) -> Result<f64> {
    let mut rows = recorded.to_vec();
    SeedTree::new(0).stream("capacity").shuffle(&mut rows);
    rows.truncate(1000);
    let tokens: f64 = rows.iter().map(|row| f64::from(row.tokens)).sum();
    let mut serving = Serving::new(deployment(batching)?).map_err(refused)?;
    for row in &rows {
        let request = Request {
            prompt: PROMPT,
            output: row.tokens,
            arrival: serving.now(),
            model: 0,
            rank: 0.0,
        };
        serving.submit(request).map_err(refused)?;
    }
    while serving.counts().finished + serving.counts().rejected < rows.len() as u64 {
        serving.advance(serving.now() + SimDuration::from_secs(10));
    }
    Ok(serving.busy(0).seconds() / tokens)
}

fn serve(requests: Vec<Request>, batching: Batching) -> Result<Outcome> {
    let last = requests.last().map(|request| request.arrival).unwrap_or_default();
    let count = requests.len();
    let mut serving = Serving::new(deployment(batching)?).map_err(refused)?;
    for request in requests {
        serving.submit(request).map_err(refused)?;
    }
    serving.advance(last);
    let finished = serving.counts().finished as f64;
    while serving.inside() > 0 {
        serving.advance(serving.now() + SimDuration::from_secs(60));
    }
    let answers = serving.take_finished();
    let sum: f64 = answers.iter().map(|done| done.latency.seconds()).sum();
    debug_assert_eq!(answers.len() as u64 + serving.counts().rejected, count as u64);
    Ok(Outcome { mean_s: sum / answers.len().max(1) as f64, finished })
}
