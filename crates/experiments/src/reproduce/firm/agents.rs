//! DDPG agents of tables 3.2 and 3.3, trained while anomalies are injected into the service that they control.

use std::sync::Arc;

use homeostat_core::{AgentId, SeedTree, Snapshot};
use homeostat_env::{Action, ConfiguredSimulator, Simulator};
use homeostat_lab::Result;
use homeostat_nn::Kernel;
use homeostat_rl::{AgentContext, AlgorithmConfig, Learner, Outcome, Policy, Workspace, presets};
use homeostat_sim_mesh::SIMULATOR;
use toml::Table;

use super::refused;

const ENV: &str = "mesh/container-v1";

/// Lengths of episodes (3.3.3): short at first, so that an agent that cannot repair anything starts again; then
/// they grow to the full length of Table 3.3.
#[derive(Debug, Clone, Copy)]
pub(super) struct Schedule {
    pub(super) episodes: usize,
}

/// Steps of an episode at first, and in the end.
const EARLY_STEPS: f64 = 30.0;
const FULL_STEPS: f64 = 300.0;

impl Schedule {
    /// The paper ends episodes early in the first 1000 of 15 000, and does not print how fast they grow: here the
    /// first tenth is short, and the second half has the full length.
    fn steps(self, episode: usize) -> u32 {
        let part = episode as f64 / self.episodes as f64;
        let grown = ((part - 0.1) / 0.4).clamp(0.0, 1.0);
        (EARLY_STEPS + grown * (FULL_STEPS - EARLY_STEPS)).round() as u32
    }
}

/// What an agent learns on.
pub(super) struct Task {
    configured: Arc<dyn ConfiguredSimulator>,
}

impl Task {
    /// A service of an application; `any` for another one in each episode.
    pub(super) fn new(topology: &str, service: &str) -> Result<Self> {
        let reference: Table = SIMULATOR.default_toml().parse().map_err(refused)?;
        let section = reference.get("mesh").and_then(toml::Value::as_table);
        let mut section = section.expect("the reference has the section").clone();
        section.insert("topology".to_owned(), topology.into());
        section.insert("service".to_owned(), service.into());
        section.insert("requests_per_s".to_owned(), 100.0.into());
        section.insert("steps".to_owned(), (FULL_STEPS as i64).into());
        Ok(Self { configured: SIMULATOR.configure(&section).map_err(refused)? })
    }
}

/// A trained agent.
pub(super) struct Trained {
    /// Mean reward of a step in each episode.
    pub(super) rewards: Vec<f64>,
    /// The policy after so many episodes, the last one at the end.
    pub(super) checkpoints: Vec<(usize, Policy)>,
    /// Networks and all else that the learner knows.
    state: Snapshot,
}

impl Trained {
    pub(super) fn policy(&self) -> &Policy {
        &self.checkpoints.last().expect("the last policy is always kept").1
    }
}

/// Trains an agent; with `from`, one that begins with the networks of another. A policy is kept every so many
/// episodes.
pub(super) fn train(
    task: &Task,
    schedule: Schedule,
    keep_every: usize,
    from: Option<&Trained>,
    seeds: &SeedTree,
) -> Result<Trained> {
    let mut env = task.configured.make(ENV, 0).map_err(refused)?;
    let spec = env.spec().clone();
    let context = AgentContext { agent: AgentId::new(0), spec, seeds: seeds.child("agent") };
    let ddpg = AlgorithmConfig::Ddpg(presets::firm());
    let mut learner = ddpg.build(&context).map_err(refused)?;
    if let Some(from) = from {
        transfer(learner.as_mut(), from)?;
    }
    let mut workspace = Workspace::new(Kernel::best());
    let mut actions = [Action::Continuous(vec![0.0; 5])];
    let mut trained =
        Trained { rewards: Vec::new(), checkpoints: Vec::new(), state: Snapshot::default() };
    for episode in 0..schedule.episodes {
        let length = schedule.steps(episode);
        let mut obs =
            env.reset(Some(seeds.seed(&format!("episode/{episode}")))).map_err(refused)?.to_vec();
        let mut sum = 0.0;
        for step in 1..=length {
            learner.act(&obs, &mut actions, &mut workspace).map_err(refused)?;
            let played = env.step(&actions[0]).map_err(refused)?;
            sum += played.reward;
            obs.clear();
            obs.extend_from_slice(played.obs);
            let outcome = Outcome {
                reward: played.reward,
                terminated: played.terminated,
                truncated: played.truncated || step == length,
                next_obs: &obs,
            };
            learner.record(0, outcome, &mut workspace).map_err(refused)?;
            let progress = episode as f64 / schedule.episodes as f64;
            learner.learn(progress, &mut workspace).map_err(refused)?;
        }
        trained.rewards.push(sum / f64::from(length));
        let done = episode + 1;
        if done % keep_every == 0 || done == schedule.episodes {
            trained.checkpoints.push((done, learner.policy()));
        }
    }
    learner.save("agent", &mut trained.state);
    Ok(trained)
}

/// Networks with their optimisers go over; memory, exploration and random numbers stay the learner's own.
fn transfer(learner: &mut dyn Learner, from: &Trained) -> Result<()> {
    let mut state = Snapshot::default();
    learner.save("agent", &mut state);
    let networks = from
        .state
        .iter()
        .filter(|(name, _)| name.starts_with("agent/actor") || name.starts_with("agent/critic"));
    for (name, array) in networks {
        state.put(name, array.clone());
    }
    learner.load("agent", &state).map_err(refused)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn episodes_begin_short_and_grow_to_their_full_length() {
        let schedule = Schedule { episodes: 100 };
        let lengths = [0, 10, 30, 50, 99].map(|episode| schedule.steps(episode));
        assert_eq!(lengths, [30, 30, 165, 300, 300]);
    }

    #[test]
    fn a_transferred_agent_begins_where_the_other_ended_and_goes_its_own_way() {
        let task = Task::new("hotel-reservation", "geo").unwrap();
        let schedule = Schedule { episodes: 2 };
        let general = train(&task, schedule, 1, None, &SeedTree::new(1)).unwrap();
        assert_eq!(general.checkpoints.len(), 2);
        let none = Schedule { episodes: 0 };
        let weights = |trained: &Trained| {
            let arrays = trained.state.iter().filter(|(name, _)| name.starts_with("agent/actor"));
            arrays.map(|(_, array)| array.clone()).collect::<Vec<_>>()
        };
        let seeds = SeedTree::new(2);
        let copied = train(&task, none, 1, Some(&general), &seeds).unwrap();
        assert_eq!(weights(&copied), weights(&general));
        let further = train(&task, schedule, 1, Some(&general), &seeds).unwrap();
        assert_ne!(weights(&further), weights(&general));
    }
}
