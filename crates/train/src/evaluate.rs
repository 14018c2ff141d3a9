//! Playing a finished policy.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use homeostat_core::SeedTree;
use homeostat_env::Action;
use homeostat_lab::{Candidate, EnvFactory, Error, Result, Summary};
use homeostat_nn::Kernel;
use homeostat_rl::{Sampling, for_each_agent};

use crate::evaluate_together::evaluate_together;

/// How to play.
#[derive(Debug, Clone, Copy)]
pub struct EvaluationConfig {
    /// Episodes of each policy.
    pub episodes: usize,
    /// Seed of the environments and of a stochastic policy's draws.
    pub seed: u64,
    /// Whether actions are the most probable ones or draws.
    pub sampling: Sampling,
    /// Kernel of the networks.
    pub kernel: Kernel,
}

/// What one policy reached.
#[derive(Debug, Clone)]
pub struct Evaluation {
    /// Where the policy came from.
    pub name: String,
    /// Return of each episode, in order.
    pub returns: Vec<f64>,
    /// Steps of each episode, in order.
    pub lengths: Vec<f64>,
}

impl Evaluation {
    /// Mean return with its spread over episodes.
    pub fn summary(&self) -> Summary {
        Summary::of(&self.returns).expect("at least one episode was played")
    }
}

/// Called after each episode with how many are played, and how many there are.
pub type EpisodeWatch<'a> = &'a (dyn Fn(u64, u64) + Sync);

/// Plays every policy in its own environment, all at once. Episode k has the same seed for each
/// policy. Policies of a shared environment play it together; an agent without a policy holds
/// still. Once `stop` is set, it ends with an error.
pub fn evaluate(
    candidates: Vec<Candidate>,
    env_factory: &EnvFactory,
    config: &EvaluationConfig,
    stop: &AtomicBool,
) -> Result<Vec<Evaluation>> {
    evaluate_watched(candidates, env_factory, config, stop, &|_, _| {})
}

/// [`evaluate`], with its progress.
pub fn evaluate_watched(
    candidates: Vec<Candidate>,
    env_factory: &EnvFactory,
    config: &EvaluationConfig,
    stop: &AtomicBool,
    watch: EpisodeWatch<'_>,
) -> Result<Vec<Evaluation>> {
    if config.episodes == 0 {
        return Err(Error::OutOfRange {
            key: "episodes".to_owned(),
            value: "0".to_owned(),
            source_text: "flag --episodes".to_owned(),
            expected: "it must be at least 1".to_owned(),
        });
    }
    let shared = candidates.first().map(|candidate| candidate.policy.env());
    if let Some(env) = shared.filter(|env| env_factory.is_shared(env)) {
        return evaluate_together(&candidates, env, env_factory, config, stop, watch);
    }
    let all = (config.episodes as u64).saturating_mul(candidates.len() as u64);
    let played = AtomicU64::new(0);
    let mut tasks: Vec<_> = candidates.into_iter().map(|candidate| (candidate, None)).collect();
    for_each_agent(config.kernel, &mut tasks, |(candidate, result), workspace| {
        let mut play = || -> Result<Evaluation> {
            let Candidate { name, agent, policy } = &*candidate;
            let mut env = env_factory.make(policy.env(), *agent)?;
            let seeds = SeedTree::new(config.seed);
            let mut action = Action::Discrete(0);
            let (mut returns, mut lengths) = (Vec::new(), Vec::new());
            for episode in 0..config.episodes {
                let seeds = seeds.child(&format!("evaluation/{episode}"));
                let mut rng = seeds.stream("policy");
                let mut obs = env.reset(Some(seeds.seed("world")))?.to_vec();
                let (mut total, mut length) = (0.0, 0.0);
                loop {
                    refuse_to_go_on(stop)?;
                    policy.act(&obs, config.sampling, &mut rng, &mut action, workspace);
                    let step = env.step(&action)?;
                    total += step.reward;
                    length += 1.0;
                    if step.done() {
                        break;
                    }
                    obs.copy_from_slice(step.obs);
                }
                returns.push(total);
                lengths.push(length);
                watch(played.fetch_add(1, Ordering::Relaxed) + 1, all);
            }
            Ok(Evaluation { name: name.clone(), returns, lengths })
        };
        *result = Some(play());
    });
    tasks.into_iter().map(|(_, result)| result.expect("every task ran")).collect()
}

/// An error once somebody wants to stop.
pub(crate) fn refuse_to_go_on(stop: &AtomicBool) -> Result<()> {
    if stop.load(Ordering::Relaxed) { Err(Error::Interrupted) } else { Ok(()) }
}
