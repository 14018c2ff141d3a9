//! REINFORCE's update after an episode that ended and one that was stopped.

use homeostat_core::Persist;
use homeostat_env::Action;
use homeostat_nn::Kernel;
use homeostat_rl::{Learner, Outcome, Reinforce, ReinforceConfig, Workspace};
use serde::Deserialize;

use super::{
    FEATURES, HeadCase, assert_parameters, cases, edit, network, observation, saved_network,
};
use crate::play::{context, spec};

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ReinforceCase {
    name: String,
    config: ReinforceConfig,
    head: HeadCase,
    episodes: Vec<EpisodeCase>,
    policy: Vec<f32>,
    baseline: Vec<f32>,
    policy_after: Vec<f64>,
    baseline_after: Vec<f64>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct EpisodeCase {
    obs: Vec<f32>,
    actions: Vec<f32>,
    rewards: Vec<f64>,
    last_obs: Vec<f32>,
    /// Otherwise it was truncated.
    terminated: bool,
}

fn play(episode: &EpisodeCase, agent: &mut Reinforce, workspace: &mut Workspace) {
    let mut observations: Vec<&[f32]> = episode.obs.chunks_exact(FEATURES).collect();
    observations.push(&episode.last_obs);
    for (step, reward) in episode.rewards.iter().enumerate() {
        let is_last = step + 1 == episode.rewards.len();
        agent
            .act(observations[step], &mut [Action::Discrete(0)], workspace)
            .expect("the fixture is finite");
        let outcome = Outcome {
            reward: *reward,
            terminated: is_last && episode.terminated,
            truncated: is_last && !episode.terminated,
            next_obs: observations[step + 1],
        };
        agent.record(0, outcome, workspace).expect("the fixture is finite");
    }
}

#[test]
fn reinforce_agrees_with_pytorch() {
    for case in cases::<ReinforceCase>(include_str!("../../fixtures/reinforce.json")) {
        let ReinforceCase { name, config, head, episodes, .. } = case;
        let policy = network(FEATURES, &config.hidden, head.outputs(), &case.policy);
        let baseline = network(FEATURES, &config.hidden, 1, &case.baseline);
        let actions: Vec<f32> =
            episodes.iter().flat_map(|episode| episode.actions.clone()).collect();
        for kernel in Kernel::available() {
            let mut workspace = Workspace::new(kernel);
            let context = context(&spec(observation(), head.space()), 0, 0);
            let mut agent = Reinforce::new(&config, &context).unwrap();
            edit(&mut agent, |state| {
                policy.save("agent/policy", state);
                baseline.save("agent/baseline", state);
            });
            for episode in &episodes {
                play(episode, &mut agent, &mut workspace);
            }
            // The agent drew for itself; the fixture has drawn otherwise.
            edit(&mut agent, |state| state.put_f32("agent/episodes/actions", actions.clone()));
            agent.learn(0.0, &mut workspace).unwrap().expect("both episodes are over");
            let check = |which: &str, like, expect: &[f64]| {
                let got = saved_network(&agent, which, like);
                assert_parameters(&format!("{kernel} {name}: {which}"), &got, expect);
            };
            check("policy", &policy, &case.policy_after);
            check("baseline", &baseline, &case.baseline_after);
        }
    }
}
