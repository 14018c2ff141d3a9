//! What all experiments share: plans, training, and playing what was learnt.

use homeostat_lab::{Candidate, Error, Result};
use homeostat_nn::Kernel;
use homeostat_report::{Finding, Spread};
use homeostat_rl::Sampling;
use homeostat_sim_faas::{FaasConfig, FaasPlan, RewardPreset, make_multi_agent};
use homeostat_simppo::{Learners, Order, Preset, TaskType, TeamConfig, Training};
use homeostat_simulate::{Controllers, Scenario, SimulationOutcome};
use rayon::prelude::*;

use super::SimppoOptions;
pub(super) use crate::reproduce::evaluation::mean;
use crate::reproduce::evaluation::play_seed;
use crate::reproduce::s_rl::SrlStudy;

/// One experiment's options.
pub(super) struct Bench<'a> {
    pub(super) options: &'a SimppoOptions,
    pub(super) progress: &'a (dyn Fn(&str) + Sync),
}

/// Agents that have been trained.
#[derive(Clone)]
pub(super) struct Trained {
    pub(super) controllers: Controllers,
    /// Mean reward of a step over agents, episode by episode, penalties included.
    pub(super) curve: Vec<f64>,
    /// The same of the agent of `primes` alone.
    pub(super) primes: Vec<f64>,
}

/// The place of `primes` in the catalogue, whose curves the chapter shows.
pub(super) const PRIMES: u32 = 1;

/// Mean load of the experiments where the chapter names none: where agents that are put together
/// lose about what it reports.
pub(super) const LOAD: f64 = 0.76;

impl Bench<'_> {
    pub(super) fn say(&self, what: &str) {
        (self.progress)(what);
    }

    pub(super) fn seeds(&self) -> &[u64] {
        &self.options.seeds
    }

    /// One of two numbers.
    pub(super) fn choose(&self, quick: u64, full: u64) -> u64 {
        if self.options.is_quick { quick } else { full }
    }

    /// Evaluation episodes of each seed: fewer where each has more functions.
    pub(super) fn evaluations(&self, functions: usize) -> u64 {
        let most = self.choose(2, 10);
        (most * 12 / functions.max(1) as u64).clamp(1, most)
    }

    /// Does something for every seed, several at once.
    pub(super) fn for_seeds<T: Send>(
        &self,
        work: impl Fn(u64) -> Result<T> + Sync,
    ) -> Result<Vec<T>> {
        self.seeds().par_iter().map(|seed| work(*seed)).collect()
    }

    /// Plays every seed's controllers on its evaluation seeds.
    pub(super) fn play(
        &self,
        plan: &FaasPlan,
        scenario: &Scenario,
        controllers: impl Fn(usize) -> Controllers + Sync,
    ) -> Result<Vec<Vec<SimulationOutcome>>> {
        let places: Vec<usize> = (0..self.seeds().len()).collect();
        let play = |place: &usize| {
            let seed = self.seeds()[*place];
            let evaluations = self.evaluations(plan.config().functions);
            play_seed(plan, scenario, &controllers(*place), seed, evaluations)
        };
        places.par_iter().map(play).collect()
    }

    /// Plays a heuristic by name.
    pub(super) fn play_named(
        &self,
        plan: &FaasPlan,
        scenario: &Scenario,
        name: &str,
    ) -> Result<Vec<Vec<SimulationOutcome>>> {
        let controllers = Controllers::parse(name, Sampling::Greedy)?;
        self.play(plan, scenario, |_| controllers.clone())
    }

    /// Trains a method for every seed.
    pub(super) fn train(
        &self,
        preset: &Preset,
        plan: &FaasPlan,
        episodes: u64,
    ) -> Result<Vec<Trained>> {
        let load = 100.0 * plan.mean_load();
        let count = plan.config().functions;
        self.say(&format!("training {} with {count} agents at {load:.0} % load", preset.name));
        let task_types = task_types_of(plan)?;
        self.for_seeds(|seed| train(preset, plan, &task_types, seed, episodes))
    }

    /// Trains S-RL agents, each alone.
    pub(super) fn train_alone(&self, reward: RewardPreset, episodes: u64) -> Result<Vec<Trained>> {
        self.say("training s-rl, every agent alone");
        let study = SrlStudy {
            seeds: self.seeds().to_vec(),
            rewards: vec![reward],
            episodes,
            cores: Vec::new(),
            evaluations: 1,
        };
        let trained = study.train("faas/function-v2", reward, None)?;
        Ok(trained
            .into_iter()
            .map(|trained| Trained {
                curve: trained.mean_curve(),
                primes: trained.curve_of(PRIMES as usize),
                controllers: Controllers::Learned {
                    name: "s-rl".to_owned(),
                    file: None,
                    candidates: trained.candidates,
                    sampling: Sampling::Stochastic,
                    takes_turns: false,
                },
            })
            .collect())
    }
}

/// A plan with this many functions at this load, in nodes of four functions.
pub(super) fn plan(functions: usize, load: f64, reward: RewardPreset) -> Result<FaasPlan> {
    plan_from(FaasConfig::default(), functions, load, reward)
}

/// The same with other settings.
pub(super) fn plan_from(
    base: FaasConfig,
    functions: usize,
    load: f64,
    reward: RewardPreset,
) -> Result<FaasPlan> {
    let nodes = functions.div_ceil(base.functions_per_node) as f64;
    let cores_per_node = functions as f64 * base.demand_cores / (nodes * load);
    Ok(FaasConfig { functions, cores_per_node, reward, ..base }.build()?)
}

pub(super) fn task_types_of(plan: &FaasPlan) -> Result<Vec<TaskType>> {
    Ok(plan.task_types()?)
}

/// A fresh team of a method on a plan.
pub(super) fn team(
    preset: &Preset,
    plan: &FaasPlan,
    task_types: &[TaskType],
    seed: u64,
    episodes: u64,
) -> Result<Training> {
    let config = TeamConfig {
        learners: Learners::Coordinated { method: preset.method.clone(), ppo: preset.ppo.clone() },
        task_types: task_types.to_vec(),
        kernel: Kernel::best(),
        seed,
        total_steps: episodes * u64::from(plan.config().steps),
    };
    let env = preset.env;
    let make = || {
        let missing =
            || homeostat_env::Error::UnknownId { id: env.to_owned(), hint: String::new() };
        make_multi_agent(env, plan).ok_or_else(|| missing().into())
    };
    Training::new(&config, &make).map_err(Error::from)
}

/// Trains a method on a plan.
pub(super) fn train(
    preset: &Preset,
    plan: &FaasPlan,
    task_types: &[TaskType],
    seed: u64,
    episodes: u64,
) -> Result<Trained> {
    let mut training = team(preset, plan, task_types, seed, episodes)?;
    let (mut curve, mut primes) = (Vec::new(), Vec::new());
    for _ in 0..episodes.div_ceil(preset.method.num_envs as u64) {
        let finished = training.episode()?;
        let reward = |agent: Option<u32>| {
            let of = finished.iter().filter(|one| agent.is_none_or(|k| one.agent.number() == k));
            let steps: Vec<f64> =
                of.map(|one| one.own_return / f64::from(one.length.max(1))).collect();
            steps.iter().sum::<f64>() / steps.len().max(1) as f64
        };
        // An episode in each copy of the environment: as many points.
        for _ in 0..preset.method.num_envs {
            curve.push(reward(None));
            primes.push(reward(Some(PRIMES)));
        }
    }
    Ok(Trained { controllers: controllers_of(preset, &training), curve, primes })
}

/// What a team would do if it stopped learning now. Agents of set-points are served greedily:
/// exploring, a weight that flips between ends would starve others for whole windows.
pub(super) fn controllers_of(preset: &Preset, training: &Training) -> Controllers {
    let candidates = training.policies().into_iter().map(|(agent, policy)| Candidate {
        name: preset.name.to_owned(),
        agent: agent.number(),
        policy,
    });
    let sampling = if preset.env == "faas/fleet-set-points-v1" {
        Sampling::Greedy
    } else {
        Sampling::Stochastic
    };
    Controllers::Learned {
        name: preset.name.to_owned(),
        file: None,
        candidates: candidates.collect(),
        sampling,
        takes_turns: preset.method.order == Order::Queue,
    }
}

/// The figure of every seed, the mean over its evaluation episodes.
pub(super) fn by_seed(
    outcomes: &[Vec<SimulationOutcome>],
    figure: impl Fn(&SimulationOutcome) -> f64,
) -> Vec<f64> {
    let mean_of =
        |runs: &Vec<SimulationOutcome>| mean(&runs.iter().map(&figure).collect::<Vec<_>>());
    outcomes.iter().map(mean_of).collect()
}

/// The same as a spread.
pub(super) fn spread(
    outcomes: &[Vec<SimulationOutcome>],
    figure: impl Fn(&SimulationOutcome) -> f64,
) -> Spread {
    Spread::of(&by_seed(outcomes, figure))
}

/// Mean SLO violations of a function in percent: every function counts the same, whatever its
/// number of requests.
pub(super) fn mean_function_violation_pct(outcome: &SimulationOutcome) -> f64 {
    let violations: Vec<f64> =
        outcome.functions.iter().map(|function| function.figures.slo_violation_pct()).collect();
    mean(&violations)
}

/// The last tenth of a curve.
pub(super) fn end_of(curve: &[f64]) -> f64 {
    let count = (curve.len() / 10).max(1).min(curve.len());
    mean(&curve[curve.len() - count..])
}

/// Episodes until the smoothed curve has come 95 % of the way from its start to its end;
/// nothing where it ends no better than it began.
pub(super) fn converged_at(curve: &[f64]) -> Option<f64> {
    const SMOOTHED: usize = 50;
    const MIN_GAIN: f64 = 0.02;
    let smooth: Vec<f64> = curve.windows(SMOOTHED).map(mean).collect();
    let (first, end) = (*smooth.first()?, end_of(&smooth));
    let goal = first + 0.95 * (end - first);
    let reached = smooth.iter().position(|value| *value >= goal)?;
    (end - first >= MIN_GAIN).then_some((reached + SMOOTHED) as f64)
}

/// A finding that is still to be filled.
pub(super) fn finding() -> Finding {
    Finding {
        name: String::new(),
        title: String::new(),
        seeds: Vec::new(),
        is_quick: false,
        tables: Vec::new(),
        pictures: Vec::new(),
        notes: Vec::new(),
        facts: serde_json::Map::new(),
    }
}
