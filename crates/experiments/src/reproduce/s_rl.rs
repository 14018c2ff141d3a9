//! Section 4.5 of the dissertation: one agent for each function, trained alone; the same
//! agents together on one platform; and agents trained together.

use homeostat_lab::{Assignment, Candidate, Environments, Result, RunConfig, Settings, UserLayers};
use homeostat_report::Spread;
use homeostat_rl::Sampling;
use homeostat_sim_faas::{FaasPlan, RewardPreset};
use homeostat_simulate::{Controllers, Figures, Scenario, SimulationOutcome};
use homeostat_train::Trainer;
use rayon::prelude::*;
use serde::Serialize;

use super::evaluation::{mean, play_seed};
use crate::faas_plan;

/// What to run.
#[derive(Debug, Clone)]
pub struct SrlStudy {
    /// Seeds of training, each with evaluation seeds of its own.
    pub seeds: Vec<u64>,
    /// Rewards to train on.
    pub rewards: Vec<RewardPreset>,
    /// Steps of each agent, in episodes of full length.
    pub episodes: u64,
    /// Cores of a node for each load of the shared platform.
    pub cores: Vec<f64>,
    /// Evaluation episodes of each seed.
    pub evaluations: u64,
}

impl SrlStudy {
    /// As the dissertation has it: a thousand episodes, twelve functions, four loads.
    pub fn full() -> Self {
        Self {
            seeds: (1..=5).collect(),
            rewards: RewardPreset::ALL.to_vec(),
            episodes: 1000,
            cores: vec![8.0, 6.0, 5.0, 4.0],
            evaluations: 10,
        }
    }

    /// The same in little more than a minute, to see that it runs.
    pub fn quick() -> Self {
        Self {
            seeds: vec![1, 2],
            rewards: vec![RewardPreset::Paper, RewardPreset::Slo],
            episodes: 300,
            cores: vec![8.0, 5.0],
            evaluations: 3,
        }
    }
}

/// What came out.
#[derive(Debug, Clone, Serialize)]
pub struct SrlResult {
    /// Seeds of training.
    pub seeds: Vec<u64>,
    /// Episodes of training.
    pub episodes: u64,
    /// Each reward: agents alone.
    pub isolated: Vec<Isolated>,
    /// Each reward and load: the agents trained alone, and the heuristics, together.
    pub together: Vec<Together>,
    /// Each reward and load: agents trained together.
    pub joint: Vec<Joint>,
}

/// Agents trained and played alone, beside heuristics on the same requests.
#[derive(Debug, Clone, Serialize)]
pub struct Isolated {
    /// The reward they were trained on.
    pub reward: &'static str,
    /// Episodes until the smoothed reward has come 95 % of the way from its start to its end;
    /// paper: 280 to 350.
    pub episodes_to_95_pct: Spread,
    /// The same for the quickest and the slowest function, means over seeds.
    pub quickest_and_slowest: (f64, f64),
    /// Agents of all seeds that ended no better than they began; they are in no mean.
    pub without_gain: usize,
    /// Reward of a step at the end of training, penalties included.
    pub training_reward: Spread,
    /// Every policy's figures.
    pub policies: Vec<PolicyFigures>,
}

/// Functions of agents trained alone, on one platform.
#[derive(Debug, Clone, Serialize)]
pub struct Together {
    /// The reward they were trained on.
    pub reward: &'static str,
    /// Mean CPU demand over cores, in percent.
    pub load_pct: f64,
    /// Smallest, mean and largest p99 over that of the same agent alone, over functions; paper:
    /// 2.2 to 4.8 times.
    pub p99_over_alone: (f64, f64, f64),
    /// Every policy's figures.
    pub policies: Vec<PolicyFigures>,
}

/// Agents trained together.
#[derive(Debug, Clone, Serialize)]
pub struct Joint {
    /// The reward they were trained on.
    pub reward: &'static str,
    /// Mean CPU demand over cores, in percent.
    pub load_pct: f64,
    /// Reward of a step at the end of training, penalties included.
    pub training_reward: Spread,
    /// Reward of a step of the same seeds' agents trained alone.
    pub alone_reward: Spread,
    /// How much lower that is than alone, in percent of a reward above zero; paper: 55.9.
    pub below_alone_pct: Spread,
    /// The figures of what was learnt, together.
    pub policy: PolicyFigures,
}

/// One policy's figures, over seeds.
#[derive(Debug, Clone, Serialize)]
pub struct PolicyFigures {
    /// Its name.
    pub policy: String,
    /// Fraction of requests that violated the SLO.
    pub slo_violation_ratio: Spread,
    /// p99 over the SLO, geometric mean of functions.
    pub p99_over_slo: Spread,
    /// Mean SLO preservation.
    pub preservation: Spread,
    /// Utilisation of the CPU given.
    pub cpu_utilisation: Spread,
    /// Utilisation of the memory limit.
    pub memory_utilisation: Spread,
    /// Container-seconds of an episode of all functions.
    pub container_s: Spread,
    /// GiB-seconds of memory of an episode of all functions.
    pub memory_gib_s: Spread,
    /// Reward of a window, penalties left out.
    pub reward: Spread,
}

/// The rivals that need no training.
const HEURISTICS: [&str; 6] = ["none", "random", "ensure", "ensure-util", "hpa+vpa", "kpa"];

/// Steps between two looks at the training reward.
const LOOK_EVERY: u64 = 500;

/// Agents that have been trained, and how their reward went.
pub(super) struct Trained {
    pub(super) candidates: Vec<Candidate>,
    curves: Vec<Vec<Look>>,
}

impl Trained {
    /// One agent's reward of a step, episode by episode.
    pub(super) fn curve_of(&self, agent: usize) -> Vec<f64> {
        let mut curve = Vec::new();
        for look in &self.curves[agent] {
            curve.resize((look.episodes as usize).max(curve.len()), look.reward);
        }
        curve
    }

    /// The same, mean of the agents, as far as all have come.
    pub(super) fn mean_curve(&self) -> Vec<f64> {
        let curves: Vec<_> = (0..self.curves.len()).map(|agent| self.curve_of(agent)).collect();
        let length = curves.iter().map(Vec::len).min().unwrap_or(0);
        let at = |episode: usize| curves.iter().map(|curve| curve[episode]).collect::<Vec<_>>();
        (0..length).map(|episode| mean(&at(episode))).collect()
    }
}

/// One agent's reward at one time of training.
#[derive(Clone, Copy)]
struct Look {
    episodes: f64,
    /// Of a step, in the episodes since the last look.
    reward: f64,
}

impl SrlStudy {
    /// Runs everything; `progress` is called with what is being done.
    pub fn run(&self, progress: &mut dyn FnMut(&str)) -> Result<SrlResult> {
        let mut result = SrlResult {
            seeds: self.seeds.clone(),
            episodes: self.episodes,
            isolated: Vec::new(),
            together: Vec::new(),
            joint: Vec::new(),
        };
        for reward in &self.rewards {
            progress(&format!("reward {}: training 12 agents, each alone", reward.name()));
            let alone = self.train("faas/function-v2", *reward, None)?;
            progress(&format!("reward {}: simulating alone", reward.name()));
            let (isolated, own) = self.isolated(*reward, &alone)?;
            for cores in &self.cores {
                let percent = 100.0 * self.plan(*reward, Some(*cores))?.mean_load();
                progress(&format!("reward {}: together at {percent:.0} % load", reward.name()));
                result.together.push(self.together(*reward, *cores, &alone, &own)?);
                progress(&format!(
                    "reward {}: training 12 agents together at {percent:.0} % load",
                    reward.name()
                ));
                let trained = self.train("faas/fleet-v3", *reward, Some(*cores))?;
                result.joint.push(self.joint(*reward, *cores, &alone, &trained)?);
            }
            result.isolated.push(isolated);
        }
        Ok(result)
    }

    fn config(
        &self,
        env: &str,
        reward: RewardPreset,
        seed: u64,
        cores: Option<f64>,
    ) -> Result<RunConfig> {
        let flag =
            |key: &str, value: &str| Assignment::new(key, value, format!("of the study, {key}"));
        let mut flags = vec![
            flag("run.preset", "s-rl"),
            flag("run.env", env),
            flag("run.seed", &seed.to_string()),
            flag("run.steps", &(self.episodes * 50).to_string()),
            flag("faas.reward", reward.name()),
        ];
        match cores {
            // Alone, the agents have the early ending of section 4.5.1.
            None => flags.extend([flag("run.agents", "12"), flag("faas.curriculum", "true")]),
            Some(cores) => {
                flags.extend([
                    flag("run.agents", "12"),
                    flag("faas.cores_per_node", &cores.to_string()),
                ]);
            }
        }
        Settings::resolve(&Environments::builtin(), &UserLayers::of_flags(flags))?.validate()
    }

    fn plan(&self, reward: RewardPreset, cores: Option<f64>) -> Result<FaasPlan> {
        let config = self.config("faas/fleet-v3", reward, 1, cores.or(Some(6.0)))?;
        faas_plan(&config)
    }

    /// Trains a fleet for every seed, several at once.
    pub(super) fn train(
        &self,
        env: &str,
        reward: RewardPreset,
        cores: Option<f64>,
    ) -> Result<Vec<Trained>> {
        let train_one = |seed: &u64| self.train_seed(env, reward, *seed, cores);
        self.seeds.par_iter().map(train_one).collect()
    }

    fn train_seed(
        &self,
        env: &str,
        reward: RewardPreset,
        seed: u64,
        cores: Option<f64>,
    ) -> Result<Trained> {
        let config = self.config(env, reward, seed, cores)?;
        let mut trainer = Trainer::new(&config)?;
        let mut curves: Vec<Vec<Look>> = vec![Vec::new(); trainer.agents()];
        while !trainer.is_done() {
            let (rounds, _) = trainer.round(LOOK_EVERY);
            for (curve, round) in curves.iter_mut().zip(&rounds) {
                if let Some((total, length)) = round.round_return.zip(round.round_length) {
                    let episodes = round.episodes as f64;
                    curve.push(Look { episodes, reward: total / length.max(1.0) });
                }
            }
        }
        let candidates = trainer.policies().into_iter().map(|(agent, policy)| Candidate {
            name: agent.to_string(),
            agent: agent.number(),
            policy,
        });
        Ok(Trained { candidates: candidates.collect(), curves })
    }

    /// The figures of one policy for each seed of training, on that seed's evaluation seeds.
    fn play(
        &self,
        plan: &FaasPlan,
        scenario: &Scenario,
        controllers: impl Fn(usize) -> Result<Controllers> + Sync,
    ) -> Result<Vec<Vec<SimulationOutcome>>> {
        let play = |(place, seed): (usize, &u64)| {
            play_seed(plan, scenario, &controllers(place)?, *seed, self.evaluations)
        };
        self.seeds.par_iter().enumerate().map(play).collect()
    }

    fn play_learned(
        &self,
        plan: &FaasPlan,
        scenario: &Scenario,
        trained: &[Trained],
    ) -> Result<Vec<Vec<SimulationOutcome>>> {
        self.play(plan, scenario, |place| {
            Ok(Controllers::Learned {
                name: "s-rl".to_owned(),
                file: None,
                candidates: trained[place].candidates.clone(),
                sampling: Sampling::Stochastic,
                takes_turns: false,
            })
        })
    }

    /// The figures of every policy alone, and the learned one's outcomes.
    fn isolated(
        &self,
        reward: RewardPreset,
        trained: &[Trained],
    ) -> Result<(Isolated, Vec<Vec<SimulationOutcome>>)> {
        let plan = self.plan(reward, None)?;
        let own = self.play_learned(&plan, &Scenario::Alone, trained)?;
        let policies = self.with_heuristics(&plan, &Scenario::Alone, &own)?;
        let per_function: Vec<Vec<Option<f64>>> = trained
            .iter()
            .map(|trained| trained.curves.iter().map(|curve| converged_at(curve)).collect())
            .collect();
        let known = |row: &mut dyn Iterator<Item = Option<f64>>| row.flatten().collect::<Vec<_>>();
        let seed_means: Vec<f64> =
            per_function.iter().map(|row| mean(&known(&mut row.iter().copied()))).collect();
        let functions = per_function.first().map_or(0, Vec::len);
        let function_means: Vec<f64> = (0..functions)
            .map(|place| known(&mut per_function.iter().map(|row| row[place])))
            .filter(|episodes| !episodes.is_empty())
            .map(|episodes| mean(&episodes))
            .collect();
        let ends = Spread::of(&function_means);
        let without = per_function.iter().flatten().filter(|episodes| episodes.is_none()).count();
        let isolated = Isolated {
            reward: reward.name(),
            episodes_to_95_pct: Spread::of(&seed_means),
            quickest_and_slowest: (ends.min, ends.max),
            without_gain: without,
            training_reward: Spread::of(&training_rewards(trained)),
            policies,
        };
        Ok((isolated, own))
    }

    fn together(
        &self,
        reward: RewardPreset,
        cores: f64,
        trained: &[Trained],
        alone: &[Vec<SimulationOutcome>],
    ) -> Result<Together> {
        let plan = self.plan(reward, Some(cores))?;
        let own = self.play_learned(&plan, &Scenario::Together, trained)?;
        let ratios = Spread::of(&p99_ratios(&own, alone));
        Ok(Together {
            reward: reward.name(),
            load_pct: 100.0 * plan.mean_load(),
            p99_over_alone: (ratios.min, ratios.mean, ratios.max),
            policies: self.with_heuristics(&plan, &Scenario::Together, &own)?,
        })
    }

    fn joint(
        &self,
        reward: RewardPreset,
        cores: f64,
        alone: &[Trained],
        trained: &[Trained],
    ) -> Result<Joint> {
        let plan = self.plan(reward, Some(cores))?;
        let own = self.play_learned(&plan, &Scenario::Together, trained)?;
        let (reached, before) = (training_rewards(trained), training_rewards(alone));
        let below: Vec<f64> =
            reached.iter().zip(&before).map(|(now, alone)| 100.0 * (1.0 - now / alone)).collect();
        Ok(Joint {
            reward: reward.name(),
            load_pct: 100.0 * plan.mean_load(),
            training_reward: Spread::of(&reached),
            alone_reward: Spread::of(&before),
            below_alone_pct: Spread::of(&below),
            policy: figures_of("s-rl, trained together", &own),
        })
    }

    fn with_heuristics(
        &self,
        plan: &FaasPlan,
        scenario: &Scenario,
        own: &[Vec<SimulationOutcome>],
    ) -> Result<Vec<PolicyFigures>> {
        let mut policies = vec![figures_of("s-rl", own)];
        for name in HEURISTICS {
            let outcomes =
                self.play(plan, scenario, |_| Controllers::parse(name, Sampling::Greedy))?;
            policies.push(figures_of(name, &outcomes));
        }
        Ok(policies)
    }
}

/// Means over the evaluation seeds of each training seed, then their spread.
fn figures_of(policy: &str, outcomes: &[Vec<SimulationOutcome>]) -> PolicyFigures {
    let spread = |figure: fn(&Figures) -> f64| {
        let means: Vec<f64> = outcomes
            .iter()
            .map(|runs| mean(&runs.iter().map(|run| figure(&run.total)).collect::<Vec<_>>()))
            .collect();
        Spread::of(&means)
    };
    PolicyFigures {
        policy: policy.to_owned(),
        slo_violation_ratio: spread(|figures| figures.slo_violation_ratio),
        p99_over_slo: spread(|figures| figures.p99_over_slo),
        preservation: spread(|figures| figures.preservation),
        cpu_utilisation: spread(|figures| figures.cpu_utilisation),
        memory_utilisation: spread(|figures| figures.memory_utilisation),
        container_s: spread(|figures| figures.container_s),
        memory_gib_s: spread(|figures| figures.memory_gib_s),
        reward: spread(|figures| figures.reward),
    }
}

/// Each function's p99 together over alone, means over seeds.
fn p99_ratios(together: &[Vec<SimulationOutcome>], alone: &[Vec<SimulationOutcome>]) -> Vec<f64> {
    let functions = together[0][0].functions.len();
    let p99 = |outcomes: &[Vec<SimulationOutcome>], place: usize| {
        let values: Vec<f64> = outcomes
            .iter()
            .flatten()
            .filter_map(|run| run.functions[place].figures.p99_ms)
            .collect();
        mean(&values)
    };
    (0..functions).map(|place| p99(together, place) / p99(alone, place)).collect()
}

/// The mean reward of a step over agents in the last tenth of training, for each seed.
fn training_rewards(trained: &[Trained]) -> Vec<f64> {
    let last = |curve: &Vec<Look>| {
        let count = (curve.len() / 10).max(1);
        mean(&curve.iter().rev().take(count).map(|look| look.reward).collect::<Vec<_>>())
    };
    trained
        .iter()
        .map(|trained| mean(&trained.curves.iter().map(last).collect::<Vec<_>>()))
        .collect()
}

/// Episodes until the smoothed reward has come 95 % of the way from its start to its end;
/// nothing for an agent that ends no better than it began. The first value that can be seen is
/// that of the first 2500 steps, 137 episodes with the curriculum.
fn converged_at(curve: &[Look]) -> Option<f64> {
    /// Looks in one smoothed value.
    const SMOOTHED: usize = 5;
    /// A smaller gain is noise.
    const MIN_GAIN: f64 = 0.02;
    let smooth: Vec<Look> = curve
        .windows(SMOOTHED)
        .map(|looks| Look {
            episodes: looks[SMOOTHED - 1].episodes,
            reward: mean(&looks.iter().map(|look| look.reward).collect::<Vec<_>>()),
        })
        .collect();
    let tenth = (smooth.len() / 10).max(1);
    let end = mean(&smooth.iter().rev().take(tenth).map(|look| look.reward).collect::<Vec<_>>());
    let first = smooth.first()?.reward;
    let goal = first + 0.95 * (end - first);
    let reached = smooth.iter().find(|look| look.reward >= goal)?;
    (end - first >= MIN_GAIN).then_some(reached.episodes)
}
