//! Every algorithm masters a control task: five agents with seeds of their own,
//! each from nothing, judged in environments they have not met.

use std::sync::atomic::AtomicBool;

use homeostat_lab::{Assignment, Candidate, Environments, Settings, Summary, UserLayers};
use homeostat_nn::Kernel;
use homeostat_rl::Sampling;
use homeostat_train::{EvaluationConfig, Trainer, evaluate};

/// Trains five agents and returns the mean return of each greedy policy.
fn returns(algorithm: &str, env: &str, steps: u64) -> Vec<f64> {
    let flag = |key: &str, value: &str| Assignment::set(key, value);
    let flags = vec![
        flag("run.algorithm", algorithm),
        flag("run.env", env),
        flag("run.steps", &steps.to_string()),
        flag("run.agents", "5"),
    ];
    let config = Settings::resolve(&Environments::builtin(), &UserLayers::of_flags(flags))
        .unwrap()
        .validate()
        .unwrap();
    let mut trainer = Trainer::new(&config).unwrap();
    let (rounds, _) = trainer.round(steps);
    assert!(rounds.iter().all(|round| round.stopped.is_none()), "{rounds:?}");
    let candidates = trainer.policies().into_iter().map(|(agent, policy)| Candidate {
        name: agent.to_string(),
        agent: agent.number(),
        policy,
    });
    let evaluation = EvaluationConfig {
        episodes: 100,
        seed: 9,
        sampling: Sampling::Greedy,
        kernel: Kernel::best(),
    };
    evaluate(candidates.collect(), &config.env_factory, &evaluation, &AtomicBool::new(false))
        .unwrap()
        .iter()
        .map(|evaluation| evaluation.summary().mean)
        .collect()
}

/// The mean over the agents reaches the threshold.
fn check(algorithm: &str, env: &str, steps: u64, threshold: f64) {
    let returns = returns(algorithm, env, steps);
    let summary = Summary::of(&returns).unwrap();
    println!(
        "{algorithm} on {env}: {:.1} +- {:.1} of {returns:?}",
        summary.mean,
        summary.interval().unwrap()
    );
    assert!(summary.mean >= threshold, "{algorithm} on {env}: {} of {returns:?}", summary.mean);
}

#[test]
fn ppo_balances_the_pole() {
    check("ppo", "classic/cartpole-v1", 100_000, 475.0);
}

#[test]
fn dqn_balances_the_pole() {
    check("dqn", "classic/cartpole-v1", 120_000, 475.0);
}

#[test]
fn ddpg_swings_the_pendulum_up() {
    check("ddpg", "classic/pendulum-v1", 20_000, -200.0);
}

#[test]
fn reinforce_balances_the_pole() {
    check("reinforce", "classic/cartpole-v1", 200_000, 195.0);
}

#[test]
fn q_learning_takes_the_shortest_path() {
    let best = homeostat_env::envs::grid_world::OPTIMAL_RETURN;
    for reached in returns("q-learning", "toy/grid-world-v1", 20_000) {
        assert_eq!(reached, best);
    }
}
