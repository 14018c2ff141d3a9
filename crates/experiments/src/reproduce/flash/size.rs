//! How good `homeostat size` is: on generated functions of another seed, on real functions of a
//! platform that it was not made for, and on those after it learnt from others of them.

use homeostat_core::SeedTree;
use homeostat_flash::{FunctionSizes, SizeEstimator};
use homeostat_lab::Result;
use homeostat_report::{Finding, Spread, Table};
use rayon::prelude::*;
use serde_json::{Map, Value, json};

use super::{FlashOptions, sizeless_replication};
use crate::reproduce::refused_call;
use crate::sizing::{LAMBDA_SIZES_MB, TRAINING_FUNCTIONS, generated_functions};

/// Generated functions to judge on.
const JUDGED: usize = 200;

/// The figures of one seed and one number of measured sizes.
#[derive(Clone, Copy)]
struct Figures {
    error: f64,
    covered: f64,
    warned: f64,
}

/// Key, functions that are judged, and functions that are trained on.
const CASES: [(&str, &str, &str); 3] = [
    ("generated", "generated, another seed", "generated"),
    ("replication", "30 real ones, same CPU at every size", "generated"),
    ("history", "15 of these real ones", "the other 15"),
];

pub(super) fn size(options: &FlashOptions, progress: &(dyn Fn(&str) + Sync)) -> Result<Finding> {
    let real = sizeless_replication::read_function_sizes(&options.data)?;
    if real.len() < 24 {
        let expected = "the replication of Sizeless needs at least 24 functions".to_owned();
        return Err(refused_call("data", &options.data.display().to_string(), expected));
    }
    let figures = options
        .seeds
        .par_iter()
        .map(|seed| {
            progress(&format!("seed {seed}"));
            judge_seed(&real, *seed, options.is_quick)
        })
        .collect::<homeostat_flash::Result<Vec<_>>>()
        .map_err(|error| refused_call("data", "the replication of Sizeless", error.to_string()))?;
    let mut table = Table::new(
        "errors and intervals of homeostat size",
        &[
            "functions",
            "trained on",
            "measured sizes",
            "mean error, %",
            "inside the 90 % interval, %",
            "warned of, %",
        ],
    );
    let mut facts = Map::new();
    for (case, (key, judged, trained)) in CASES.into_iter().enumerate() {
        let mut of_case = Map::new();
        for shots in 1..=3 {
            let spread = |figure: fn(&Figures) -> f64| {
                let values = figures.iter().map(|seed| figure(&seed[case][shots - 1]));
                Spread::of(&values.collect::<Vec<_>>())
            };
            let [error, covered, warned] =
                [spread(|f| f.error), spread(|f| f.covered), spread(|f| f.warned)];
            table.push(vec![
                judged.into(),
                trained.into(),
                format!("{shots}").into(),
                error.scaled(100.0).into(),
                covered.scaled(100.0).into(),
                warned.scaled(100.0).into(),
            ]);
            let of = json!({ "mape": error, "coverage": covered, "warned": warned });
            of_case.insert(format!("{shots}-shot"), of);
        }
        facts.insert(key.to_owned(), Value::Object(of_case));
    }
    let note = "Warned of: functions that are said to be out of distribution. Of generated ones few should be; of \
                the real ones under the first training all should be, since its share of a CPU is not theirs.";
    Ok(Finding {
        name: String::new(),
        title: String::new(),
        seeds: Vec::new(),
        is_quick: false,
        tables: vec![table],
        pictures: Vec::new(),
        notes: vec![note.to_owned()],
        facts,
    })
}

fn judge_seed(
    real: &[FunctionSizes],
    seed: u64,
    is_quick: bool,
) -> homeostat_flash::Result<[[Figures; 3]; 3]> {
    let seeds = SeedTree::new(seed).child("flash/size");
    let updates = if is_quick { 1000 } else { SizeEstimator::UPDATES };
    let train = |functions: &[FunctionSizes], name: &str| {
        SizeEstimator::train(functions, updates, &seeds.child(name), &mut |_, _| {})
    };
    let known = generated_functions(TRAINING_FUNCTIONS, seeds.seed("known"));
    let unseen = generated_functions(JUDGED, seeds.seed("unseen"));
    let mut halves: Vec<FunctionSizes> = real.to_vec();
    seeds.stream("halves").shuffle(&mut halves);
    let (ours, others) = halves.split_at(halves.len() / 2);
    let mut general = train(&known, "general")?;
    let mut special = train(ours, "special")?;
    let mut sizes: Vec<f64> =
        real.iter().flat_map(|one| one.measurements.iter().map(|at| at.memory_mb)).collect();
    sizes.sort_by(f64::total_cmp);
    sizes.dedup();
    let judge_shots = |estimator: &mut SizeEstimator,
                       functions: &[FunctionSizes],
                       sizes: &[f64]|
     -> homeostat_flash::Result<[Figures; 3]> {
        Ok([
            judge(estimator, functions, sizes, 1, &seeds)?,
            judge(estimator, functions, sizes, 2, &seeds)?,
            judge(estimator, functions, sizes, 3, &seeds)?,
        ])
    };
    Ok([
        judge_shots(&mut general, &unseen, &LAMBDA_SIZES_MB)?,
        judge_shots(&mut general, real, &sizes)?,
        judge_shots(&mut special, others, &sizes)?,
    ])
}

fn judge(
    estimator: &mut SizeEstimator,
    functions: &[FunctionSizes],
    sizes: &[f64],
    shots: usize,
    seeds: &SeedTree,
) -> homeostat_flash::Result<Figures> {
    let mut rng = seeds.stream(&format!("{shots} measured sizes"));
    let (mut errors, mut inside, mut warned, mut judged) = (Vec::new(), 0, 0, 0);
    for function in functions {
        let mut measured = function.measurements.clone();
        if measured.len() <= shots {
            continue;
        }
        rng.shuffle(&mut measured);
        let (known, asked) = measured.split_at(shots);
        let known = FunctionSizes { name: function.name.clone(), measurements: known.to_vec() };
        let sized = estimator.predict(&known, sizes)?;
        judged += 1;
        warned += usize::from(!sized.warnings.is_empty());
        for truth in asked {
            let same =
                |found: &&homeostat_flash::SizePrediction| found.memory_mb == truth.memory_mb;
            let found = sized.predictions.iter().find(same).expect("it was asked for");
            let (low, high) = found.interval_ms;
            errors.push((found.duration_ms / truth.duration_ms - 1.0).abs());
            inside += usize::from((low..=high).contains(&truth.duration_ms));
        }
    }
    let count = errors.len().max(1) as f64;
    Ok(Figures {
        error: errors.iter().sum::<f64>() / count,
        covered: inside as f64 / count,
        warned: f64::from(warned as u32) / f64::from(judged.max(1)),
    })
}
