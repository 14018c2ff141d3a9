//! How is an agent trained, saved as a policy file, loaded and played?
//!
//! PPO learns to balance the pole of CartPole, where the best return is 500.

use homeostat_core::{AgentId, SeedTree, Stream};
use homeostat_env::{Action, AutoresetMode, VecEnv, make};
use homeostat_nn::Kernel;
use homeostat_rl::{AgentContext, AlgorithmConfig, Outcome, Policy, Sampling, Workspace, presets};

const ENV: &str = "classic/cartpole-v1";
const STEPS: usize = 60_000;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let seeds = SeedTree::new(1);
    let context = AgentContext {
        agent: AgentId::new(0),
        spec: make(ENV)?.spec().clone(),
        seeds: seeds.child("agent"),
    };
    let mut learner = AlgorithmConfig::Ppo(presets::cartpole_ppo()).build(&context)?;
    let num_envs = learner.num_envs();
    let mut envs = VecEnv::new(|| make(ENV), num_envs, AutoresetMode::SameStep, &seeds)?;
    let mut actions = vec![Action::Discrete(0); num_envs];
    let mut workspace = Workspace::new(Kernel::best());

    let mut returns = Vec::new();
    for step in 0..STEPS / num_envs {
        learner.act(envs.obs(), &mut actions, &mut workspace)?;
        let mut recorded = Ok(());
        envs.step(&actions, |index, step| {
            let (reward, next_obs) = (step.reward, step.final_obs);
            let (terminated, truncated) = (step.terminated, step.truncated);
            let outcome = Outcome { reward, terminated, truncated, next_obs };
            returns.extend(step.episode.map(|episode| episode.episode_return));
            if recorded.is_ok() {
                recorded = learner.record(index, outcome, &mut workspace);
            }
        })?;
        recorded?;
        let progress = (step * num_envs) as f64 / STEPS as f64;
        if learner.learn(progress, &mut workspace)?.is_some() && returns.len() >= 100 {
            let mean = returns.iter().sum::<f64>() / returns.len() as f64;
            println!("step {:6}: mean return {mean:.0}", step * num_envs);
            returns.clear();
        }
    }

    let path = std::env::temp_dir().join(format!("cartpole-{}.policy", std::process::id()));
    std::fs::write(&path, learner.policy().to_bytes())?;
    let policy = Policy::from_bytes(&std::fs::read(&path)?)?;
    std::fs::remove_file(&path)?;

    let (mut env, mut rng) = (make(ENV)?, Stream::from_seed(7));
    let mut obs = env.reset(Some(7))?.to_vec();
    let mut action = Action::Discrete(0);
    let mut episode_return = 0.0;
    loop {
        policy.act(&obs, Sampling::Greedy, &mut rng, &mut action, &mut workspace);
        let step = env.step(&action)?;
        episode_return += step.reward;
        if step.done() {
            break;
        }
        obs = step.obs.to_vec();
    }
    println!("the policy file balances the pole for {episode_return} of 500 steps");
    Ok(())
}
