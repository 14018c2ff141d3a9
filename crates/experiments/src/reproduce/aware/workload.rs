//! The workload of a seed, its rule-based autoscaler, and the settings of its agent.

use homeostat_aware::{Exploration, Profile};
use homeostat_core::{SeedTree, SimDuration};
use homeostat_decide::{
    Error as PlantError, HpaConfig, HpaMetric, HpaVpaConfig, Policy, RewardPreset, VpaConfig,
};
use homeostat_lab::Result;
use homeostat_rl::{EvaluationConfig, IqlConfig, OfflineConfig, presets};
use homeostat_sim_deploy::{DeployConfig, DeployPlan, Part};
use homeostat_simulate::{LearnerConfig, ManagedConfig, ManagedPolicy};

use super::play::{Played, play};

/// Decisions of an episode (Section 5.2.2).
pub(super) const EPISODE: usize = 100;

/// One application of the test part of the pool under an Azure load, alone on its cluster.
pub(super) struct Workload {
    pub(super) plan: DeployPlan,
    pub(super) number: usize,
    pub(super) seeds: SeedTree,
    rule: HpaVpaConfig,
    /// The rule as tables print it.
    pub(super) rule_name: String,
}

/// Targets of CPU utilisation that the rule-based autoscaler is tried with.
const CPU_TARGETS: [u32; 6] = [30, 40, 50, 60, 70, 80];
/// A setting may violate the SLO in this part of the windows more than the best.
const TOLERATED: f64 = 0.01;

impl Workload {
    /// Draws the application and the load of a seed, and tunes the rule-based autoscaler on other hours of the
    /// same workload: the setting with the highest reward among those that meet the SLO as often as any.
    pub(super) fn of_seed(seed: u64, tuning_windows: usize) -> Result<Self> {
        let config = DeployConfig {
            pool: Part::Test,
            deployments: 1,
            random_start: false,
            ..DeployConfig::default()
        };
        let plan = config.build().map_err(PlantError::plant)?;
        let seeds = SeedTree::new(seed).child("aware");
        let number = seeds.stream("application").below(200);
        let mut this =
            Self { plan, number, seeds, rule: HpaVpaConfig::default(), rule_name: String::new() };
        let mut tried = Vec::new();
        for controls_cpu in [false, true] {
            for target in CPU_TARGETS {
                let rule = rule(target, controls_cpu, this.plan_window())?;
                let mut policy = rule.clone().build()?;
                let seeds = this.seeds.child("tuning");
                let played = play(&this, &this.plan, &mut policy, tuning_windows, &seeds)?;
                let sized = if controls_cpu { "CPU and memory" } else { "memory" };
                let name = format!("HPA at {target} % CPU, VPA on {sized}");
                tried.push((played.violated_windows(), played.reward(), rule, name));
            }
        }
        let fewest = tried.iter().map(|one| one.0).fold(f64::INFINITY, f64::min);
        let met = tried.into_iter().filter(|one| one.0 <= fewest + TOLERATED);
        let best = met.max_by(|one, other| one.1.total_cmp(&other.1));
        if let Some((_, _, rule, name)) = best {
            (this.rule, this.rule_name) = (rule, name);
        }
        Ok(this)
    }

    fn plan_window(&self) -> SimDuration {
        homeostat_decide::PlantSource::window(&self.plan)
    }

    /// The rule-based autoscaler: HPA and VPA.
    pub(super) fn fallback(&self) -> Result<Box<dyn Policy>> {
        Ok(Box::new(self.rule.clone().build()?))
    }

    /// The seeds of the requests that arms are compared on.
    pub(super) fn compared(&self) -> SeedTree {
        self.seeds.child("compared")
    }

    /// Plays a policy on the requests that arms are compared on.
    pub(super) fn play(&self, policy: &mut dyn Policy, windows: usize) -> Result<Played> {
        play(self, &self.plan, policy, windows, &self.compared())
    }

    /// A policy at the beginning of its life.
    pub(super) fn managed(&self, config: ManagedConfig) -> Result<ManagedPolicy> {
        let bounds = *self.plan.bounds();
        ManagedPolicy::new(config, self.fallback()?, bounds, &self.seeds.child("agent"))
    }
}

/// VPA's history decays by half in an hour instead of a day, as everything here takes days instead of months.
fn rule(target_percent: u32, controls_cpu: bool, window: SimDuration) -> Result<HpaVpaConfig> {
    const DAY_S: f64 = 86_400.0;
    let vpa = VpaConfig::scaled(DAY_S / (240.0 * window.seconds()))?;
    let metrics = vec![HpaMetric::CpuUtilization { target_percent }];
    Ok(HpaVpaConfig {
        hpa: HpaConfig { metrics, ..HpaConfig::default() },
        vpa: VpaConfig { controls_cpu, ..vpa },
    })
}

/// An agent without bootstrapping: it acts and explores from the first decision on, for good.
pub(super) fn without_bootstrapping(learner: LearnerConfig) -> ManagedConfig {
    let profile = Profile {
        bootstrap: false,
        exploration: Exploration::Allowed,
        activation_margin: None,
        serving_reward: f64::MAX,
        patience: usize::MAX,
        ..Profile::default()
    };
    ManagedConfig { profile, learner, ..aware(0.0) }
}

/// The agent of Table 5.2.
pub(super) fn ddpg() -> LearnerConfig {
    LearnerConfig::Ddpg(presets::aware())
}

/// The learner of AWARE here: what it learns offline goes on online, from what the agent does itself.
// Deviation: the text names a generative model of recorded actions, as BCQ has it. IQL evaluates recorded actions
// alone; BCQ evaluates ten generated ones for each row of a minibatch, which takes too long in training online.
pub(super) fn iql() -> LearnerConfig {
    LearnerConfig::Recorded(OfflineConfig::Iql(IqlConfig {
        minibatch: 64,
        gamma: 0.9,
        ..IqlConfig::default()
    }))
}

/// AWARE as printed, with a gate: bootstrapping, then training online from the fallback's mean reward on.
pub(super) fn aware(fallback_reward: f64) -> ManagedConfig {
    ManagedConfig {
        profile: Profile {
            bootstrap: true,
            online_reward: fallback_reward - 0.05,
            serving_reward: fallback_reward,
            online_floor: Some(fallback_reward - 0.05),
            serving_deviation: 0.1,
            episodes: 5,
            exploration: Exploration::Allowed,
            activation_margin: Some(0.02),
            patience: 100,
        },
        reward: RewardPreset::Slo,
        learner: iql(),
        episode: EPISODE,
        bootstrap_episodes: 32,
        bootstrap_steps: 5000,
        offline_steps: 200,
        online_steps: 1,
        noise: 0.1,
        episodes_kept: 400,
        max_distance: 0.1,
        evaluation: EvaluationConfig::default(),
    }
}
