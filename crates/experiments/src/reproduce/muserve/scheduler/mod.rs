//! Recorded answer lengths with the classes that a BERT proxy predicted, served by one server.

mod arms;
mod recorded;
mod trade_off;

use homeostat_core::{SeedTree, SimDuration};
use homeostat_lab::Result;
use homeostat_report::{Cell, Finding, Spread, Table};
use rayon::prelude::*;
use serde_json::{Value, json};

use self::arms::{ARMS, Learnt, Outcome};
pub(super) use self::recorded::{Recorded, arrivals, mean_tokens_of_classes, read};
use super::MuserveOptions;

/// Time of one token; results relative to FCFS do not depend on it.
const TOKEN: SimDuration = SimDuration::from_millis(25);

/// The load of the figures that are quoted without one.
const MAIN_LOAD: f64 = 0.9;

/// Loads, and coefficients of variation of the gaps between arrivals.
const SETTINGS: [(f64, f64); 8] = [
    (0.5, 1.0),
    (0.7, 1.0),
    (0.8, 1.0),
    (0.9, 1.0),
    (0.95, 1.0),
    (1.5, 1.0),
    (0.9, 2.0),
    (0.9, 4.0),
];

/// What one seed gives.
struct Seed {
    /// By setting and arm.
    outcomes: Vec<Vec<Outcome>>,
    trade_off: Vec<Outcome>,
    predictors: Vec<Outcome>,
}

pub(super) fn scheduler(
    options: &MuserveOptions,
    progress: &(dyn Fn(&str) + Sync),
) -> Result<Finding> {
    let recorded = read(&options.data)?;
    let count = if options.is_quick { 10_000 } else { 40_000 };
    let quick_settings = [(0.7, 1.0), (MAIN_LOAD, 1.0), (1.5, 1.0)];
    let settings: &[(f64, f64)] = if options.is_quick { &quick_settings } else { &SETTINGS };
    progress("learning what classes mean on half of the requests");
    let seeds: Vec<Seed> = options
        .seeds
        .par_iter()
        .map(|seed| {
            let seeds = SeedTree::new(*seed).child("muserve/scheduler");
            let mut rows = recorded.clone();
            seeds.stream("split").shuffle(&mut rows);
            let (known, unseen) = rows.split_at(rows.len() / 2);
            let learnt = Learnt::of(known, &seeds)?;
            progress(&format!("seed {seed}: serving the other half"));
            let jobs = |load: f64, variation: f64| {
                let name = format!("load {load} variation {variation}");
                arrivals(unseen, count, load, variation, TOKEN.seconds(), &seeds.child(&name))
            };
            let run = |(load, variation): &(f64, f64)| {
                let jobs = jobs(*load, *variation);
                ARMS.iter().map(|(arm, _)| learnt.outcome(*arm, &jobs)).collect()
            };
            let main = jobs(MAIN_LOAD, 1.0);
            Ok(Seed {
                outcomes: settings.iter().map(run).collect(),
                trade_off: trade_off::trade_off(&learnt, &main),
                predictors: trade_off::predictors(known, &main)?,
            })
        })
        .collect::<Result<_>>()?;
    let mut finding = finding(settings, &seeds);
    let main = settings.iter().position(|setting| *setting == (MAIN_LOAD, 1.0));
    if let Some(main) = main {
        let base: Vec<(Outcome, Outcome)> =
            seeds.iter().map(|seed| (seed.outcomes[main][0], seed.outcomes[main][1])).collect();
        let points: Vec<Vec<Outcome>> = seeds.iter().map(|seed| seed.trade_off.clone()).collect();
        trade_off::report_trade_off(&mut finding, &base, &points);
        let points: Vec<Vec<Outcome>> = seeds.iter().map(|seed| seed.predictors.clone()).collect();
        trade_off::report_predictors(&mut finding, &base, &points);
    }
    Ok(finding)
}

fn finding(settings: &[(f64, f64)], seeds: &[Seed]) -> Finding {
    let mut finding = Finding::default();
    let columns = [
        "load",
        "variation",
        "order",
        "mean gain %",
        "part of the oracle's",
        "p99 / FCFS",
        "longest / FCFS",
        "finished / FCFS",
    ];
    let mut table = Table::new("completion times against FCFS", &columns);
    let mut by_setting: Vec<Value> = Vec::new();
    for (place, (load, variation)) in settings.iter().enumerate() {
        let mut keys = [(); 5].map(|()| json!({}));
        for (arm, (_, name)) in ARMS.iter().enumerate().skip(1) {
            let over_seeds = |figure: &dyn Fn(&[Outcome]) -> f64| {
                let of_seed = |seed: &Seed| figure(&seed.outcomes[place]);
                Spread::of(&seeds.iter().map(of_seed).collect::<Vec<_>>())
            };
            let gain = over_seeds(&|outcome| 100.0 * (1.0 - outcome[arm].mean / outcome[0].mean));
            let part = over_seeds(&|outcome| {
                (outcome[0].mean - outcome[arm].mean) / (outcome[0].mean - outcome[1].mean)
            });
            let p99 = over_seeds(&|outcome| outcome[arm].p99 / outcome[0].p99);
            let longest = over_seeds(&|outcome| outcome[arm].longest / outcome[0].longest);
            let finished = over_seeds(&|outcome| outcome[arm].finished / outcome[0].finished);
            for (key, spread) in keys.iter_mut().zip([gain, part, p99, longest, finished]) {
                key[*name] = json!(spread);
            }
            let cells: [Cell; 8] = [
                (*load).into(),
                (*variation).into(),
                (*name).into(),
                gain.into(),
                part.into(),
                p99.into(),
                longest.into(),
                finished.into(),
            ];
            table.push(cells.to_vec());
        }
        let [gain, part, p99, longest, finished] = keys;
        let figures = json!({
            "load": load, "variation": variation, "jct_gain_pct": gain,
            "part_of_oracle_gain": part, "p99_vs_fcfs": p99, "longest_vs_fcfs": longest,
            "throughput_ratio": finished,
        });
        if (*load, *variation) == (MAIN_LOAD, 1.0) {
            for key in ["jct_gain_pct", "part_of_oracle_gain", "p99_vs_fcfs", "longest_vs_fcfs"] {
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
        "..._deadlines learn their deadlines while they serve, from the requests that have finished, at any load \
         and from none on. ..._aged use the head start of half of the requests, so that p99 is at most that \
         of FCFS at load 0.9. Paper: no batching, over varying rates (appendix B.3)."
            .to_owned(),
        "gittins_free may interrupt after every token at no cost. In a stable queue with Poisson arrivals the Gittins \
         order then has the least mean completion time of all that know the classes alone, whatever happens to p99. Ours \
         takes its ranks from half of the requests. Other preemptive orders look again after four tokens and pay one \
         to resume."
            .to_owned(),
    ];
    finding
}
