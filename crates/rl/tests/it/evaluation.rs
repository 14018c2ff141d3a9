//! What the estimates of a policy's value promise: they find the value of a policy that was never
//! played, their intervals hold it about as often as they say, and they say what they cannot know.

use homeostat_core::trajectory::{End, Transition};
use homeostat_core::{AgentId, SeedTree, Stream};
use homeostat_env::{Action, Env, make};
use homeostat_rl::{
    AgentContext, Algorithm, AlgorithmConfig, Error, Estimate, EvaluationConfig, Policy, Recording,
    Sampling, evaluate,
};

use crate::agents;
use crate::play::{Play, workspace};

const CHOICE: &str = "toy/identity-v1";
const POINT: &str = "toy/identity-box-v1";

/// A policy that learnt for this many rounds.
fn policy(env: &str, config: &AlgorithmConfig, rounds: usize, seed: u64) -> Policy {
    let mut play = Play::new(|| make(env), config, 0, seed);
    play.rounds(rounds, &mut workspace());
    play.learner.policy()
}

/// The mean reward of the policy: rewards of these tasks do not depend on the past, so it is also
/// the discounted one.
fn truth(policy: &Policy, env: &str) -> f64 {
    let (mut sum, mut count) = (0.0, 0);
    played(env, 30, 99, |obs, _, action| {
        let mut workspace = workspace();
        let mut rng = Stream::from_seed(0);
        policy.act(obs, Sampling::Greedy, &mut rng, action, &mut workspace);
        None
    })
    .iter()
    .flat_map(|recording| &recording.transitions)
    .for_each(|transition| {
        sum += transition.reward;
        count += 1;
    });
    sum / f64::from(count)
}

/// Episodes in which `choose` writes the action and returns its probability.
fn played(
    env: &str,
    episodes: u64,
    seed: u64,
    mut choose: impl FnMut(&[f32], &mut Stream, &mut Action) -> Option<f64>,
) -> Vec<Recording> {
    let mut env: Box<dyn Env> = make(env).expect("it exists");
    let mut rng = Stream::from_seed(seed);
    let episode = |number: u64| {
        let mut obs = env.reset(Some(seed * 1_000 + number)).expect("valid").to_vec();
        let mut transitions = Vec::new();
        for step in 0..20 {
            let mut action = Action::Discrete(0);
            let probability = choose(&obs, &mut rng, &mut action);
            let numbers = match &action {
                Action::Discrete(choice) => vec![*choice as f32],
                Action::Continuous(values) => values.clone(),
                Action::MultiDiscrete(_) => unreachable!("no such task here"),
            };
            let outcome = env.step(&action).expect("in the space");
            let (at_ms, reward) = (step, outcome.reward);
            let observation = std::mem::replace(&mut obs, outcome.obs.to_vec());
            transitions.push(Transition {
                at_ms,
                observation,
                action: numbers,
                reward,
                probability,
            });
        }
        Recording { workload: "task".to_owned(), transitions, end: Some((End::Truncated, obs)) }
    };
    (0..episodes).map(episode).collect()
}

fn random_choices(episodes: u64, seed: u64) -> Vec<Recording> {
    played(CHOICE, episodes, seed, |_, rng, action| {
        *action = Action::Discrete(rng.below(4));
        Some(0.25)
    })
}

/// Points beside the one shown, with their density in units of [-1, 1].
fn noisy_points(episodes: u64, seed: u64) -> Vec<Recording> {
    const SPREAD: f64 = 0.4;
    played(POINT, episodes, seed, |obs, rng, action| {
        let mut density = 1.0;
        let values = obs.iter().map(|shown| {
            let z = rng.normal();
            density *= (-0.5 * z * z).exp() / (SPREAD * (2.0 * std::f64::consts::PI).sqrt());
            // The box cuts it; its density then is that of the part beyond, which the test leaves out.
            ((f64::from(*shown) * 0.5 + SPREAD * z) as f32).clamp(-1.0, 1.0)
        });
        *action = Action::Continuous(values.collect());
        Some(density)
    })
}

fn holds(estimate: &Estimate, truth: f64) -> bool {
    (estimate.low..=estimate.high).contains(&truth)
}

#[test]
fn both_estimates_find_the_value_of_policies_that_were_never_played() {
    let config = AlgorithmConfig::Dqn(agents::dqn());
    let recordings = random_choices(200, 1);
    for (rounds, seed) in [(0, 1), (1_500, 1)] {
        let policy = policy(CHOICE, &config, rounds, seed);
        let truth = truth(&policy, CHOICE);
        let found = evaluate(&policy, &recordings, &EvaluationConfig::default()).expect("enough");
        assert!((found.fitted_q.value - truth).abs() < 0.05, "{truth}: {found:?}");
        let robust = found.doubly_robust.expect("the probabilities are known");
        assert!((robust.value - truth).abs() < 0.05, "{truth}: {found:?}");
        assert!((found.behaviour.value - 0.25).abs() < 0.03, "{found:?}");
        let gain = found.fitted_q.value - found.behaviour.value;
        assert!((found.gain.value - gain).abs() < 1e-12);
        assert_eq!((found.trajectories, found.transitions), (200, 4_000));
    }
}

#[test]
fn points_of_a_box_are_evaluated_too() {
    let policy = policy(POINT, &AlgorithmConfig::Ddpg(agents::ddpg()), 3_000, 1);
    let truth = truth(&policy, POINT);
    let found =
        evaluate(&policy, &noisy_points(200, 1), &EvaluationConfig::default()).expect("enough");
    // The reward is a square of state and action, which the features hold exactly.
    assert!((found.fitted_q.value - truth).abs() < 0.01, "{truth}: {found:?}");
    assert!(found.gain.low > 0.0, "the policy is better than the noise: {found:?}");
    assert!(found.distance > 0.2, "{found:?}");
}

#[test]
fn intervals_hold_the_truth_about_as_often_as_they_say() {
    // Of 60 intervals of 90 %, fewer than 48 hold the truth once in 400 tries by chance.
    let config = EvaluationConfig { confidence: 0.9, resamples: 60, ..EvaluationConfig::default() };
    let policy = policy(CHOICE, &AlgorithmConfig::Dqn(agents::dqn()), 0, 3);
    let truth = truth(&policy, CHOICE);
    let (mut fitted, mut robust) = (0, 0);
    for seed in 0..60 {
        let found = evaluate(&policy, &random_choices(30, 100 + seed), &config).expect("enough");
        fitted += u32::from(holds(&found.fitted_q, truth));
        robust += u32::from(holds(&found.doubly_robust.expect("known"), truth));
    }
    assert!((48..60).contains(&fitted), "{fitted} of 60 by fitted Q");
    assert!((48..60).contains(&robust), "{robust} of 60 doubly robust");
}

#[test]
fn the_same_seed_gives_the_same_interval() {
    let policy = policy(CHOICE, &AlgorithmConfig::Dqn(agents::dqn()), 0, 3);
    let recordings = random_choices(20, 1);
    let found = |seed| {
        let config = EvaluationConfig { seed, ..EvaluationConfig::default() };
        evaluate(&policy, &recordings, &config).expect("enough")
    };
    assert_eq!(found(1), found(1));
    assert_ne!(found(1).fitted_q, found(2).fitted_q);
}

#[test]
fn without_probabilities_there_is_no_doubly_robust_estimate() {
    let mut recordings = random_choices(20, 1);
    recordings[3].transitions[5].probability = None;
    let policy = policy(CHOICE, &AlgorithmConfig::Dqn(agents::dqn()), 0, 3);
    let found = evaluate(&policy, &recordings, &EvaluationConfig::default()).expect("enough");
    assert_eq!(found.doubly_robust, None);
    assert!(found.fitted_q.low < found.fitted_q.high);
}

#[test]
fn of_an_open_trajectory_the_last_decision_is_left_out() {
    let mut recordings = random_choices(20, 1);
    recordings[0].end = None;
    let policy = policy(CHOICE, &AlgorithmConfig::Dqn(agents::dqn()), 0, 3);
    let found = evaluate(&policy, &recordings, &EvaluationConfig::default()).expect("enough");
    assert_eq!(found.transitions, 20 * 20 - 1);
}

#[test]
fn what_cannot_be_evaluated_is_refused_with_the_reason() {
    let policy = policy(CHOICE, &AlgorithmConfig::Dqn(agents::dqn()), 0, 3);
    let check = |recordings: &[Recording], config: &EvaluationConfig, expect: &str| {
        let error = evaluate(&policy, recordings, config).expect_err("refused").to_string();
        assert!(error.contains(expect), "{error}");
    };
    let valid = EvaluationConfig::default();
    check(&random_choices(7, 1), &valid, "at least 8 trajectories");
    check(&[], &valid, "there are 0");
    let points = noisy_points(10, 1);
    check(&points, &valid, "task has 2 features and 2 parts of an action, and the policy 1 and 1");
    let mut broken = random_choices(10, 1);
    broken[2].transitions[0].reward = f64::NAN;
    check(&broken, &valid, "not finite (NaN)");
    let recordings = random_choices(10, 1);
    check(&recordings, &EvaluationConfig { gamma: 1.0, ..valid.clone() }, "evaluation.gamma = 1");
    check(&recordings, &EvaluationConfig { resamples: 3, ..valid.clone() }, "resamples = 3");
    let context = AgentContext {
        agent: AgentId::new(0),
        spec: make(CHOICE).expect("it exists").spec().clone(),
        seeds: SeedTree::new(1),
    };
    let fresh = Algorithm::Dqn.default_config().build(&context).expect("suited").policy();
    let error: Error = evaluate(&fresh, &[], &valid).expect_err("nothing was recorded");
    assert!(error.to_string().contains("record more"), "{error}");
}
