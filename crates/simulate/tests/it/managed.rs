//! Policies under the life cycle of AWARE, on a simulated cluster.

use homeostat_aware::{Cause, Exploration, Profile, Stage};
use homeostat_core::{Persist, SeedTree, Snapshot};
use homeostat_decide::{Allocation, Guards, Plant, Policy, PolicyConfig, RewardPreset, decide};
use homeostat_rl::{DdpgConfig, EvaluationConfig, OfflineConfig, Td3BcConfig};
use homeostat_sim_deploy::{DeployConfig, DeployPlan, DeployPlant};
use homeostat_simulate::{LearnerConfig, ManagedConfig, ManagedPolicy};

fn plan() -> DeployPlan {
    let config = DeployConfig {
        application: "json-parse".to_owned(),
        demand_cores: 0.3,
        random_start: false,
        ..DeployConfig::default()
    };
    config.build().unwrap()
}

/// Episodes of five decisions; every policy that evaluation admits acts.
fn config() -> ManagedConfig {
    ManagedConfig {
        profile: Profile {
            online_reward: -10.0,
            serving_reward: -10.0,
            serving_deviation: 10.0,
            episodes: 2,
            exploration: Exploration::Allowed,
            activation_margin: Some(10.0),
            ..Profile::default()
        },
        reward: RewardPreset::Slo,
        learner: LearnerConfig::Recorded(OfflineConfig::Td3Bc(Td3BcConfig {
            minibatch: 16,
            hidden: vec![16],
            ..Td3BcConfig::default()
        })),
        episode: 5,
        bootstrap_episodes: 32,
        bootstrap_steps: 100,
        offline_steps: 10,
        online_steps: 1,
        noise: 0.2,
        episodes_kept: 40,
        max_distance: 10.0,
        evaluation: EvaluationConfig { resamples: 20, ..EvaluationConfig::default() },
    }
}

fn fallback() -> Box<dyn Policy> {
    PolicyConfig::by_name("hpa+vpa").unwrap().build().unwrap()
}

fn managed(config: ManagedConfig) -> ManagedPolicy {
    ManagedPolicy::new(config, fallback(), *plan().bounds(), &SeedTree::new(3)).unwrap()
}

/// A cluster under decisions, one after the other.
struct Run {
    plant: DeployPlant,
    guards: Guards,
}

impl Run {
    fn new() -> Self {
        let plan = plan();
        let mut plant = DeployPlant::new(&plan, &[0], &SeedTree::new(5));
        plant.advance().unwrap();
        Self { plant, guards: Guards::bounds_only(*plan.bounds()).unwrap() }
    }

    fn play(&mut self, policy: &mut dyn Policy, windows: usize) -> Vec<Allocation> {
        let mut decided = Vec::new();
        for _ in 0..windows {
            let decision = decide(policy, &mut self.guards, self.plant.observe(0));
            decided.push(self.plant.apply(0, &decision).unwrap());
            self.plant.advance().unwrap();
        }
        decided
    }
}

#[test]
fn the_fallback_acts_until_a_policy_is_admitted_and_then_the_agent() {
    let mut agent = managed(config());
    let ours = Run::new().play(&mut agent, 400);
    let theirs = Run::new().play(fallback().as_mut(), 400);
    // The decision after the 32nd episode is the agent's first.
    assert_eq!(ours[..160], theirs[..160]);
    assert_ne!(ours[160..], theirs[160..]);
    let stages: Vec<Stage> = agent.stages().iter().map(|entry| entry.change.to).collect();
    assert_eq!(stages, [Stage::Offline, Stage::Online, Stage::Serving]);
    assert!(agent.failure().is_none());
}

#[test]
fn a_policy_that_evaluation_does_not_admit_never_acts() {
    let mut strict = config();
    strict.profile.activation_margin = Some(0.0);
    // So sure is nothing that is learnt from a few hours.
    strict.evaluation.confidence = 1.0 - 1e-12;
    let mut agent = managed(strict);
    let ours = Run::new().play(&mut agent, 300);
    assert_eq!(ours, Run::new().play(fallback().as_mut(), 300));
    assert_eq!(agent.stage(), Stage::Offline);
    let waiting = agent.lifecycle().waiting().unwrap().to_string();
    assert!(waiting.starts_with("evaluation does not admit the policy"), "{waiting}");
}

#[test]
fn the_fallback_takes_over_when_a_policy_that_never_explores_fails() {
    let mut quiet = config();
    quiet.profile.exploration = Exploration::Never;
    let mut agent = managed(quiet.clone());
    let mut run = Run::new();
    run.play(&mut agent, 200);
    assert_eq!(agent.stage(), Stage::Serving);
    // No reward is above 1: from now on the policy that serves is too bad.
    let profile = Profile { serving_reward: 1.5, ..quiet.profile };
    let mut moved = agent.moved(profile, fallback(), &SeedTree::new(4)).unwrap();
    run.play(&mut moved, 20);
    let entry = moved.stages().first().unwrap();
    assert!(matches!(entry.change.cause, Cause::RewardTooLow { .. }), "{entry:?}");
    assert_eq!(moved.stage(), Stage::Offline);
}

#[test]
fn an_agent_without_bootstrapping_explores_from_the_first_decision_on() {
    let mut bold = config();
    bold.profile.bootstrap = false;
    bold.profile.activation_margin = None;
    bold.learner = LearnerConfig::Ddpg(DdpgConfig { hidden: vec![16], ..DdpgConfig::default() });
    bold.profile.serving_reward = 10.0;
    let mut agent = managed(bold);
    let ours = Run::new().play(&mut agent, 40);
    assert_ne!(ours, Run::new().play(fallback().as_mut(), 40));
    assert_eq!(agent.stage(), Stage::Online);
}

#[test]
fn a_saved_life_cycle_goes_on_as_if_it_had_not_been_interrupted() {
    // In the middle of an episode of each stage.
    for (windows, serving_reward, stage) in
        [(103, -10.0, Stage::Offline), (173, 10.0, Stage::Online), (233, -10.0, Stage::Serving)]
    {
        let mut config = config();
        config.profile.serving_reward = serving_reward;
        let (mut run, mut agent) = (Run::new(), managed(config.clone()));
        run.play(&mut agent, windows);
        let mut saved = Snapshot::default();
        agent.save("agent", &mut saved);
        let unbroken = run.play(&mut agent, 100);

        let mut again = Run::new();
        again.play(&mut managed(config.clone()), windows);
        let mut restored = managed(config);
        restored.load("agent", &saved).unwrap();
        assert_eq!(restored.stage(), stage);
        assert_eq!(again.play(&mut restored, 100), unbroken, "after {windows} decisions");
    }
}

#[test]
fn settings_that_cannot_work_are_refused_by_name() {
    let check = |change: fn(&mut ManagedConfig), expect: &str| {
        let mut config = config();
        change(&mut config);
        let bounds = *plan().bounds();
        let refused = ManagedPolicy::new(config, fallback(), bounds, &SeedTree::new(1));
        let error = refused.err().unwrap().to_string();
        assert!(error.contains(expect), "{error}");
    };
    check(|config| config.bootstrap_episodes = 8, "it must be at least 32");
    check(|config| config.episodes_kept = 32, "above `bootstrap_episodes`");
    check(|config| config.noise = f32::NAN, "noise = NaN");
    check(|config| config.profile.patience = 1, "patience");
    check(|config| config.learner = LearnerConfig::Ddpg(DdpgConfig::default()), "no bootstrapping");
}
