//! Sizeless with and without FLASH (Table 5.5) on two published data sets.
//!
//! Each seed is an iteration of the cross-validation with five random halves. (The text says both
//! "five-fold" and "50/50", which exclude each other; we read five splits into halves.) A half is
//! trained on, the other half asked for.

use homeostat_core::SeedTree;
use homeostat_flash::{
    Adaptation, Episode, MetaLearnerConfig, PoolPair, Profile, Protocol, SupervisedConfig,
    SupervisedLearner,
};
use homeostat_lab::{Result, Summary};
use homeostat_report::{Cell, Finding, Spread, Table};
use rayon::prelude::*;
use serde_json::{Map, Value, json};

use super::{FlashOptions, cloud_bandit, sizeless_replication};
use crate::reproduce::refused_call;

/// Splits of an iteration.
const SPLITS: usize = 5;
/// Views of a pair to train on: which of its configurations are known.
const TRAIN_VIEWS: usize = 24;
/// Views of a pair to be judged on.
const TEST_VIEWS: usize = 8;

/// How a figure is reached.
#[derive(Clone, Copy, PartialEq)]
enum Method {
    /// Every time is the mean of the measured ones.
    Unchanged,
    Plain,
    Flash(Protocol),
}

/// Key, text for people.
const METHODS: [(&str, &str, Method); 4] = [
    ("unchanged", "mean of the measured times", Method::Unchanged),
    ("plain", "Sizeless", Method::Plain),
    ("flash", "FLASH, as printed", Method::Flash(Protocol::Printed)),
    ("flash", "FLASH, strict", Method::Flash(Protocol::Strict)),
];

struct DataSet {
    name: &'static str,
    profiles: Vec<Profile>,
    /// Chosen on a few other splits of the same data.
    l2: f32,
    updates: u64,
    /// The paper's test errors, Sizeless and FLASH, for one, two and three shots.
    paper: [(f64, f64); 3],
}

/// Errors of one split.
#[derive(Clone, Copy)]
struct Errors {
    train: f64,
    test: f64,
}

const NOTES: [&str; 4] = [
    "As printed, the meta learner reads samples of every configuration of a pair, the asked ones included: the \
     embedding may hold the answer. Strict, it reads the measured configurations alone, which is what a user has.",
    "The first data set is a replication of Sizeless with 30 functions, not the original with 2000, and its \
     containers have the same share of a CPU at every size: times hardly change with memory.",
    "The original data and OpenWhisk's are not public. Deviations: recurrent layers of 32 units instead of 256, a \
     base learner of four layers of 64 instead of 256, times as ratios to the measured ones.",
    "Settings were chosen on a few other splits of the same data.",
];

pub(super) fn sizeless(
    options: &FlashOptions,
    progress: &(dyn Fn(&str) + Sync),
) -> Result<Finding> {
    let sets = [
        DataSet {
            name: "sizeless",
            profiles: sizeless_replication::read(&options.data)?,
            l2: 0.1,
            updates: 3000,
            paper: [(0.360, 0.046), (0.400, 0.038), (0.336, 0.034)],
        },
        DataSet {
            name: "cloudbandit",
            profiles: cloud_bandit::read(&options.data)?,
            l2: 0.0001,
            updates: 5000,
            paper: [(0.985, 0.649), (0.889, 0.424), (0.798, 0.497)],
        },
    ];
    let (mut facts, mut strict) = (Map::new(), Map::new());
    let mut tables = Vec::new();
    for set in &sets {
        if set.profiles.len() < 8 {
            let expected = format!("{} needs at least 8 applications", set.name);
            return Err(refused_call("data", &options.data.display().to_string(), expected));
        }
        let mut table = Table::new(
            format!("{}: mean absolute percentage error, as a fraction", set.name),
            &["shots", "method", "training", "test", "paper, test"],
        );
        let (mut printed_shots, mut strict_shots) = (Map::new(), Map::new());
        for shots in 1..=3 {
            progress(&format!("{}, {shots}-shot", set.name));
            let (mut printed, mut hidden) = (Map::new(), Map::new());
            for (key, text, method) in METHODS {
                let (train, test) = set.judge(shots, method, options)?;
                let (plain, flash) = set.paper[shots - 1];
                let paper = match method {
                    Method::Plain => plain.into(),
                    Method::Flash(_) => flash.into(),
                    Method::Unchanged => Cell::Nothing,
                };
                table.push(vec![
                    format!("{shots}").into(),
                    text.into(),
                    thousandths(train),
                    thousandths(test),
                    paper,
                ]);
                let figures = json!({ "train_mape": train, "test_mape": test });
                match method {
                    Method::Flash(Protocol::Strict) => {
                        hidden.insert(key.to_owned(), figures);
                    }
                    Method::Flash(Protocol::Printed) => {
                        printed.insert(key.to_owned(), figures);
                    }
                    // They read no embedding: both protocols are the same to them.
                    _ => {
                        printed.insert(key.to_owned(), figures.clone());
                        hidden.insert(key.to_owned(), figures);
                    }
                }
            }
            printed_shots.insert(format!("{shots}-shot"), Value::Object(printed));
            strict_shots.insert(format!("{shots}-shot"), Value::Object(hidden));
        }
        facts.insert(set.name.to_owned(), Value::Object(printed_shots));
        strict.insert(set.name.to_owned(), Value::Object(strict_shots));
        tables.push(table);
    }
    facts.insert("strict".to_owned(), Value::Object(strict));
    Ok(Finding {
        name: String::new(),
        title: String::new(),
        seeds: Vec::new(),
        is_quick: false,
        tables,
        pictures: Vec::new(),
        notes: NOTES.map(str::to_owned).to_vec(),
        facts,
    })
}

/// Two digits are too few for errors of a few percent.
fn thousandths(spread: Spread) -> Cell {
    match spread.interval {
        Some(interval) => format!("{:.3} +- {interval:.3}", spread.mean).into(),
        None => format!("{:.3}", spread.mean).into(),
    }
}

impl DataSet {
    /// Training and test error over all splits.
    fn judge(
        &self,
        shots: usize,
        method: Method,
        options: &FlashOptions,
    ) -> Result<(Spread, Spread)> {
        let splits = if options.is_quick { 1 } else { SPLITS };
        let runs: Vec<(u64, usize)> = options
            .seeds
            .iter()
            .flat_map(|seed| (0..splits).map(move |split| (*seed, split)))
            .collect();
        let errors: Vec<Errors> = runs
            .par_iter()
            .map(|(seed, split)| {
                // Methods and shots meet the same halves.
                let seeds = SeedTree::new(*seed).child("flash/sizeless").child(self.name);
                self.split(shots, method, options, &seeds.child(&format!("split {split}")))
            })
            .collect::<Result<_, homeostat_flash::Error>>()
            .map_err(|error| refused_call("data", self.name, error.to_string()))?;
        // Splits of one seed share data: the mean of a seed is one observation.
        let by_seed = |figure: fn(&Errors) -> f64| {
            let means = errors.chunks(splits).map(|errors| {
                let values: Vec<f64> = errors.iter().map(figure).collect();
                Summary::of(&values).map_or(f64::NAN, |summary| summary.mean)
            });
            Spread::of(&means.collect::<Vec<_>>())
        };
        Ok((by_seed(|errors| errors.train), by_seed(|errors| errors.test)))
    }

    fn split(
        &self,
        shots: usize,
        method: Method,
        options: &FlashOptions,
        seeds: &SeedTree,
    ) -> homeostat_flash::Result<Errors> {
        let protocol = match method {
            Method::Flash(protocol) => protocol,
            _ => Protocol::Strict,
        };
        let mut order: Vec<&Profile> = self.profiles.iter().collect();
        seeds.stream("halves").shuffle(&mut order);
        let (train, test) = order.split_at(order.len() / 2);
        let mut draws = seeds.stream("views");
        let mut pool = |profiles: &[&Profile], views: usize| {
            let mut view = |profile: &&Profile| {
                let episodes = (0..views).map(|_| profile.draw(shots, protocol, &mut draws));
                let episodes = episodes.collect::<homeostat_flash::Result<_>>()?;
                Ok(PoolPair { pair: profile.pair.clone(), episodes })
            };
            profiles.iter().map(&mut view).collect::<homeostat_flash::Result<Vec<_>>>()
        };
        let train = pool(train, TRAIN_VIEWS)?;
        let test = pool(test, TEST_VIEWS)?;
        if method == Method::Unchanged {
            let unchanged = |pool: &[PoolPair]| {
                mean_error(pool, &mut |episode| {
                    Ok(episode.queries.iter().map(|query| query.reference).collect())
                })
            };
            return Ok(Errors { train: unchanged(&train)?, test: unchanged(&test)? });
        }
        let adaptation = match method {
            Method::Flash(_) => Adaptation::Flash,
            _ => Adaptation::Plain,
        };
        let shape = self.profiles[0].shape(shots);
        let config = SupervisedConfig {
            hidden: vec![64; 4],
            l2: self.l2,
            meta: MetaLearnerConfig { input: 32, hidden: 32, ..MetaLearnerConfig::flash() },
            ..SupervisedConfig::sizeless(adaptation)
        };
        let mut learner = SupervisedLearner::new(config, shape, &train, &seeds.child("learner"))?;
        let updates = if options.is_quick { self.updates / 4 } else { self.updates };
        learner.pretrain(&train, updates)?;
        learner.set_meta_updates(false);
        Ok(Errors {
            train: mean_error(&train, &mut |episode| learner.predict(episode))?,
            test: mean_error(&test, &mut |episode| learner.predict(episode))?,
        })
    }
}

/// Mean over all queries of the error as a fraction of the true time.
fn mean_error(
    pool: &[PoolPair],
    predict: &mut dyn FnMut(&Episode) -> homeostat_flash::Result<Vec<f64>>,
) -> homeostat_flash::Result<f64> {
    let mut errors = Vec::new();
    for episode in pool.iter().flat_map(|pair| &pair.episodes) {
        let found = episode.queries.iter().zip(predict(episode)?);
        errors.extend(found.map(|(query, found)| (found / query.label - 1.0).abs()));
    }
    Ok(errors.iter().sum::<f64>() / errors.len() as f64)
}
