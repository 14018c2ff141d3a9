//! Agents in pairs of application and environment that they were not trained on (Figures 5.15, A.2 to A.4).
//!
//! One seed is one run: methods are pretrained on a pool of pairs, then tests are made in the rest. A test trains an
//! agent in one pair until it is good (the known pair), then meets other pairs. There each method serves without
//! training, and an agent that is trained in the pair itself is the measure of what can be reached.

use homeostat_core::SeedTree;
use homeostat_env::EnvSpec;
use homeostat_flash::{
    Adaptation, Memory, MetaLearnerConfig, PairEnvironment, ReinforcementConfig,
    ReinforcementLearner, Result as FlashResult,
};
use homeostat_lab::Result;
use homeostat_report::{Cell, Finding, Spread, Table};
use homeostat_rl::{AlgorithmConfig, PpoConfig, Sampling};
use rayon::prelude::*;
use serde_json::{Map, Value, json};

use super::FlashOptions;
use crate::reproduce::refused_call;

/// A task with all its pairs.
pub(super) struct AdaptationTask {
    pub(super) spec: EnvSpec,
    pub(super) pairs: Vec<PairEnvironment>,
    /// The base learner in pretraining and in the pairs it is trained on from nothing.
    pub(super) algorithm: AlgorithmConfig,
    /// That of the recurrent policy.
    pub(super) recurrent: PpoConfig,
    /// The base learner that goes on from other weights.
    pub(super) fine_tuning: AlgorithmConfig,
    pub(super) meta: MetaLearnerConfig,
    /// Units of memory of the recurrent policy.
    pub(super) memory: usize,
    pub(super) sizes: Sizes,
}

/// How much is run.
#[derive(Debug, Clone, Copy)]
pub(super) struct Sizes {
    /// Pairs of the pretraining pool.
    pub(super) pool: usize,
    /// Visits of pretraining, each of `pairs_per_visit` pairs for `episodes_per_visit` episodes.
    pub(super) visits: u64,
    pub(super) pairs_per_visit: usize,
    pub(super) episodes_per_visit: usize,
    /// Rounds of training in one pair from nothing, each of `pairs_per_visit` episodes.
    pub(super) rounds: u64,
    /// Rounds of adaptation to a pair, at most.
    pub(super) adaptation_rounds: u64,
    /// Tests, and other pairs in each.
    pub(super) tests: usize,
    pub(super) others: usize,
    /// Episodes in which a pair is observed before it is served, and episodes that are judged.
    pub(super) exposure: usize,
    pub(super) judged: usize,
}

/// How a pair is served without training in it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Method {
    /// An agent of another pair.
    Plain,
    /// One agent for the whole pool, that is told nothing of a pair.
    Pooled,
    /// One agent for the whole pool with a meta learner.
    Flash,
    /// One recurrent agent for the whole pool.
    Rl2,
    /// One agent for the whole pool that is told the true parameters.
    Oracle,
}

impl Method {
    pub(super) const ALL: [Self; 5] =
        [Self::Plain, Self::Pooled, Self::Flash, Self::Rl2, Self::Oracle];

    pub(super) fn key(self) -> &'static str {
        match self {
            Self::Plain => "plain",
            Self::Pooled => "pooled",
            Self::Flash => "flash",
            Self::Rl2 => "rl2",
            Self::Oracle => "oracle",
        }
    }

    pub(super) fn text(self) -> &'static str {
        match self {
            Self::Plain => "trained in one other pair",
            Self::Pooled => "trained on the pool, told nothing",
            Self::Flash => "FLASH: trained on the pool, reads an embedding",
            Self::Rl2 => "RL2: trained on the pool, recurrent",
            Self::Oracle => "trained on the pool, told the truth",
        }
    }

    fn adaptation(self) -> Adaptation {
        match self {
            Self::Plain | Self::Pooled => Adaptation::Plain,
            Self::Flash => Adaptation::Flash,
            Self::Rl2 => Adaptation::Rl2,
            Self::Oracle => Adaptation::Oracle,
        }
    }
}

/// Agents that are trained on in a new pair: key, text.
const ADAPTED: [(&str, &str); 3] = [
    ("tl", "transfer learning from one other pair"),
    ("flash", "FLASH"),
    ("pooled", "transfer learning from an agent of the pool, told nothing"),
];

/// What one method did in one pair.
#[derive(Debug, Clone)]
pub(super) struct Meeting {
    /// Mean return of an agent that was trained in the pair.
    pub(super) converged: f64,
    /// Of an agent that chooses at random as long as it lasts: what nothing learnt is worth.
    pub(super) untrained: f64,
    /// Mean return of each method, in the order of [`Method::ALL`].
    pub(super) served: [f64; 5],
    /// Episodes until nearly the return of the converged agent is reached, and whether it was: of [`ADAPTED`].
    pub(super) episodes: [(f64, bool); 3],
}

impl Meeting {
    /// What a method loses of the return of the converged agent, in percent of it.
    pub(super) fn drop_pct(&self, method: Method) -> f64 {
        let served = self.served[method as usize];
        100.0 * (self.converged - served) / self.converged.abs().max(1e-9)
    }

    /// What a method loses of what training in the pair gains, in percent: comparable between pairs whose returns are
    /// near zero.
    pub(super) fn regret_pct(&self, method: Method) -> Option<f64> {
        let gain = self.converged - self.untrained;
        let served = self.served[method as usize];
        (gain > 0.02 * self.converged.abs().max(self.untrained.abs()))
            .then(|| 100.0 * (self.converged - served) / gain)
    }
}

/// One run.
pub(super) fn run(
    task: &AdaptationTask,
    seed: u64,
    progress: &(dyn Fn(&str) + Sync),
) -> FlashResult<Vec<Meeting>> {
    let seeds = SeedTree::new(seed).child("flash/adaptation");
    let mut order: Vec<usize> = (0..task.pairs.len()).collect();
    seeds.stream("pools").shuffle(&mut order);
    let (pool, rest) = order.split_at(task.sizes.pool);
    let pool: Vec<PairEnvironment> = pool.iter().map(|place| task.pairs[*place].clone()).collect();
    let pretrain = |method: Method| {
        let seeds = seeds.child(method.key());
        let config = task.config(method.adaptation());
        let mut learner = ReinforcementLearner::new(config, &task.spec, &pool, &seeds)?;
        learner.pretrain(&pool, task.sizes.visits, &mut |visit| {
            if visit.number % (task.sizes.visits / 4).max(1) == 0 {
                let (made, all) = (visit.number, task.sizes.visits);
                progress(&format!("seed {seed}: {}: visit {made} of {all}", method.key()));
            }
        })?;
        Ok(learner)
    };
    let pretrained: Vec<ReinforcementLearner> =
        Method::ALL[1..].par_iter().map(|method| pretrain(*method)).collect::<FlashResult<_>>()?;
    let tests = (0..task.sizes.tests).into_par_iter().map(|test| {
        let seeds = seeds.child(&format!("test/{test}"));
        let mut drawn = rest.to_vec();
        seeds.stream("pairs").shuffle(&mut drawn);
        let known = &task.pairs[drawn[0]];
        let mut of_known = task.learner_for(known, &seeds.child("known"))?;
        of_known.adapt(known, task.sizes.rounds)?;
        let meet = |(place, other): (usize, &usize)| {
            let seeds = seeds.child(&format!("other/{place}"));
            let met = task.meet(&task.pairs[*other], &of_known, &pretrained, &seeds)?;
            progress(&format!("seed {seed}: test {test}: pair {place}"));
            Ok(met)
        };
        drawn[1..=task.sizes.others].iter().enumerate().map(meet).collect()
    });
    let meetings: Vec<Vec<Meeting>> = tests.collect::<FlashResult<_>>()?;
    Ok(meetings.into_iter().flatten().collect())
}

/// The paper's figures.
pub(super) struct Paper {
    /// Reward drop without adaptation, percent, of the original agent and with FLASH.
    pub(super) plain: f64,
    pub(super) flash: f64,
    /// Episodes to adapt, of TL and of FLASH; NaN where it gives their ratio alone.
    pub(super) episodes: [f64; 2],
    pub(super) speedup: f64,
}

/// Runs every seed and writes the finding.
pub(super) fn find_out(
    task: &AdaptationTask,
    options: &FlashOptions,
    paper: &Paper,
    progress: &(dyn Fn(&str) + Sync),
) -> Result<Finding> {
    let one = |seed: &u64| {
        run(task, *seed, progress)
            .map_err(|error| refused_call("experiment", &seed.to_string(), error.to_string()))
    };
    let runs: Vec<Vec<Meeting>> = options.seeds.par_iter().map(one).collect::<Result<_>>()?;
    let over_runs = |figure: &dyn Fn(&[Meeting]) -> f64| {
        Spread::of(&runs.iter().map(|run| figure(run)).collect::<Vec<_>>())
    };
    let mut drops = Table::new(
        "pairs never seen, without training in them: lost of the return of an agent trained there",
        &[
            "method",
            "mean reward drop, %",
            "median, %",
            "lost of what training gains, %",
            "paper, %",
        ],
    );
    let (mut mean_drop, mut median_drop, mut regret) = (Map::new(), Map::new(), Map::new());
    for method in Method::ALL {
        let of = |meeting: &Meeting| meeting.drop_pct(method);
        let means = over_runs(&|run| mean(&run.iter().map(of).collect::<Vec<_>>()));
        let medians = over_runs(&|run| median(run.iter().map(of).collect()));
        let regrets = over_runs(&|run| {
            median(run.iter().filter_map(|meeting| meeting.regret_pct(method)).collect())
        });
        let paper = match method {
            Method::Plain => paper.plain.into(),
            Method::Flash => paper.flash.into(),
            _ => Cell::Nothing,
        };
        drops.push(vec![method.text().into(), means.into(), medians.into(), regrets.into(), paper]);
        mean_drop.insert(method.key().to_owned(), json!(means));
        median_drop.insert(method.key().to_owned(), json!(medians));
        regret.insert(method.key().to_owned(), json!(regrets));
    }
    let mut adaptation = Table::new(
        "training in the new pair until 95 % of the return of an agent trained there from nothing",
        &["method", "episodes", "reached, %", "paper, episodes"],
    );
    let mut episodes = Map::new();
    for (place, (key, text)) in ADAPTED.into_iter().enumerate() {
        let spent = over_runs(&|run| mean_of(run, |meeting| meeting.episodes[place].0));
        let reached = over_runs(&|run| {
            mean_of(run, |meeting| f64::from(u8::from(meeting.episodes[place].1)))
        });
        let of_paper = paper.episodes.get(place).copied().unwrap_or(f64::NAN);
        let of_paper = if of_paper.is_nan() { Cell::Nothing } else { of_paper.into() };
        adaptation.push(vec![text.into(), spent.into(), reached.scaled(100.0).into(), of_paper]);
        episodes.insert(key.to_owned(), json!(spent));
        episodes.insert(format!("{key}_reached"), json!(reached));
    }
    let speedup = over_runs(&|run| {
        let spent = |place: usize| mean_of(run, |meeting| meeting.episodes[place].0.max(1.0));
        spent(0) / spent(1)
    });
    let (low, high) = match speedup.interval {
        Some(half) => (speedup.mean - half, speedup.mean + half),
        None => (speedup.min, speedup.max),
    };
    let mut speedups =
        Table::new("episodes of transfer learning over those of FLASH", &["speedup", "paper"]);
    speedups.push(vec![speedup.into(), paper.speedup.into()]);
    let facts = [
        ("reward_drop_pct", Value::Object(mean_drop)),
        ("median_reward_drop_pct", Value::Object(median_drop)),
        ("lost_of_gain_pct", Value::Object(regret)),
        ("episodes", Value::Object(episodes)),
        ("speedup", json!({ "mean": speedup.mean, "low": low, "high": high })),
        ("sizes", json!(format!("{:?}", task.sizes))),
    ];
    Ok(Finding {
        name: String::new(),
        title: String::new(),
        seeds: Vec::new(),
        is_quick: false,
        tables: vec![drops, adaptation, speedups],
        pictures: Vec::new(),
        notes: notes(task),
        facts: facts.into_iter().map(|(key, value)| (key.to_owned(), value)).collect(),
    })
}

fn notes(task: &AdaptationTask) -> Vec<String> {
    let Sizes { pool, visits, pairs_per_visit, episodes_per_visit, rounds, exposure, .. } =
        task.sizes;
    let episodes = visits as usize * pairs_per_visit * episodes_per_visit;
    vec![
        format!(
            "Each method that is trained on the pool has {episodes} episodes in {pool} pairs; an agent of one pair has {}.",
            rounds as usize * pairs_per_visit
        ),
        format!(
            "FLASH and RL2 observe a new pair for {exposure} episode before they are judged; it counts as an episode of \
             adaptation."
        ),
        "A return near zero makes a percentage of it large: the median and the part of what training gains (returns \
         between an untrained agent's and that of the agent trained in the pair) are not disturbed by such pairs."
            .to_owned(),
        "Adaptation that never reached 95 % counts with all its episodes, so a mean is a lower bound where not all \
         reached it."
            .to_owned(),
    ]
}

fn mean_of(run: &[Meeting], figure: impl Fn(&Meeting) -> f64) -> f64 {
    mean(&run.iter().map(figure).collect::<Vec<_>>())
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    match values.len() {
        0 => f64::NAN,
        len if len % 2 == 1 => values[len / 2],
        len => 0.5 * (values[len / 2 - 1] + values[len / 2]),
    }
}

impl AdaptationTask {
    fn config(&self, adaptation: Adaptation) -> ReinforcementConfig {
        let algorithm = match adaptation {
            Adaptation::Rl2 => AlgorithmConfig::Ppo(self.recurrent.clone()),
            _ => self.algorithm.clone(),
        };
        ReinforcementConfig {
            algorithm,
            adaptation,
            meta: self.meta,
            memory_units: self.memory,
            pairs_per_visit: self.sizes.pairs_per_visit,
            episodes_per_visit: self.sizes.episodes_per_visit,
            memory: Memory::PresentVisit,
        }
    }

    /// A plain agent for one pair, with fresh weights.
    fn learner_for(
        &self,
        pair: &PairEnvironment,
        seeds: &SeedTree,
    ) -> FlashResult<ReinforcementLearner> {
        let config = self.config(Adaptation::Plain);
        ReinforcementLearner::new(config, &self.spec, std::slice::from_ref(pair), seeds)
    }

    /// All methods in one pair. Judged episodes are the same for all of them.
    fn meet(
        &self,
        pair: &PairEnvironment,
        of_known: &ReinforcementLearner,
        pretrained: &[ReinforcementLearner],
        seeds: &SeedTree,
    ) -> FlashResult<Meeting> {
        let judged = |learner: &mut ReinforcementLearner| -> FlashResult<f64> {
            let returns = learner.judge(pair, self.sizes.judged, &seeds.child("judged"))?;
            Ok(mean(&returns))
        };
        let mut local = self.learner_for(pair, &seeds.child("local"))?;
        let untrained = judged(&mut local)?;
        local.adapt(pair, self.sizes.rounds)?;
        let converged = judged(&mut local)?;
        let mut served = [0.0; 5];
        for (served, learner) in served.iter_mut().zip(std::iter::once(of_known).chain(pretrained))
        {
            let seeds = seeds.child("served");
            let algorithm = match learner.config().adaptation {
                Adaptation::Rl2 => learner.config().algorithm.clone(),
                _ => self.fine_tuning.clone(),
            };
            let mut new = learner.for_new_pair(pair, algorithm, &seeds)?;
            if learner.config().adaptation.observes() {
                new.serve(pair, self.sizes.exposure, Sampling::Stochastic)?;
            }
            *served = judged(&mut new)?;
        }
        let episodes = |from: &ReinforcementLearner, name: &str| -> FlashResult<(f64, bool)> {
            let seeds = seeds.child(name);
            let mut new = from.for_new_pair(pair, self.fine_tuning.clone(), &seeds)?;
            let mut spent = 0;
            if from.config().adaptation.observes() {
                new.serve(pair, self.sizes.exposure, Sampling::Stochastic)?;
                spent += self.sizes.exposure;
            }
            let enough = converged - 0.05 * converged.abs();
            for _ in 0..=self.sizes.adaptation_rounds {
                if judged(&mut new)? >= enough {
                    return Ok((spent as f64, true));
                }
                spent += new.adapt(pair, 1)?.len();
            }
            Ok((spent as f64, false))
        };
        let on_pool = |method: Method| &pretrained[method as usize - 1];
        let episodes = [
            episodes(of_known, "tl")?,
            episodes(on_pool(Method::Flash), "flash")?,
            episodes(on_pool(Method::Pooled), "pooled")?,
        ];
        Ok(Meeting { converged, untrained, served, episodes })
    }
}

fn mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len().max(1) as f64
}
