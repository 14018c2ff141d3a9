//! Playing the policies of a run together, in the environment that they share.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use homeostat_core::{AgentId, SeedTree};
use homeostat_lab::{Candidate, EnvFactory, Error, Result};
use homeostat_rl::{Workspace, for_each_agent};

use crate::evaluate::{EpisodeWatch, refuse_to_go_on};
use crate::{Evaluation, EvaluationConfig};

/// Episodes that are played at once: what memory holds of them does not grow with their number.
const AT_ONCE: usize = 1024;

/// Plays all policies in one environment, each as the agent that learnt it. Episodes are
/// independent and played at once. An agent that has no policy here holds still: one that
/// stopped while it learnt, or a newcomer that the run never met.
///
/// A candidate that appeared in no episode has no evaluation: where agents come and go, an
/// episode may end before its number is reached.
pub(crate) fn evaluate_together(
    candidates: &[Candidate],
    env: &str,
    env_factory: &EnvFactory,
    config: &EvaluationConfig,
    stop: &AtomicBool,
    watch: EpisodeWatch<'_>,
) -> Result<Vec<Evaluation>> {
    let played = AtomicU64::new(0);
    let agents = candidates.iter().map(|candidate| AgentId::new(candidate.agent));
    let places = agents.enumerate().map(|(place, agent)| (agent, place)).collect();
    let stage = Stage { candidates, places, env, env_factory, config, stop };
    let nothing = |candidate: &Candidate| Evaluation {
        name: candidate.name.clone(),
        returns: Vec::new(),
        lengths: Vec::new(),
    };
    let mut evaluations: Vec<_> = candidates.iter().map(nothing).collect();
    for first in (0..config.episodes).step_by(AT_ONCE) {
        let episodes = first..config.episodes.min(first.saturating_add(AT_ONCE));
        let mut tasks: Vec<_> = episodes.map(|episode| (episode, None)).collect();
        for_each_agent(config.kernel, &mut tasks, |(episode, result), workspace| {
            *result = Some(stage.play(*episode, workspace));
            watch(played.fetch_add(1, Ordering::Relaxed) + 1, config.episodes as u64);
        });
        for (_, result) in tasks {
            let parts = result.expect("every task ran")?;
            for (evaluation, part) in evaluations.iter_mut().zip(parts) {
                if let Some(Part { episode_return, length }) = part {
                    evaluation.returns.push(episode_return);
                    evaluation.lengths.push(length);
                }
            }
        }
    }
    evaluations.retain(|evaluation| !evaluation.returns.is_empty());
    if evaluations.is_empty() {
        return Err(Error::OutOfRange {
            key: "episodes".to_owned(),
            value: config.episodes.to_string(),
            source_text: "flag --episodes".to_owned(),
            expected: format!("none of these agents appeared in so many episodes of {env}"),
        });
    }
    Ok(evaluations)
}

/// Who plays what.
struct Stage<'a> {
    candidates: &'a [Candidate],
    /// The candidate that plays each agent.
    places: BTreeMap<AgentId, usize>,
    env: &'a str,
    env_factory: &'a EnvFactory,
    config: &'a EvaluationConfig,
    stop: &'a AtomicBool,
}

/// What one candidate had of an episode.
#[derive(Clone, Copy, Default)]
struct Part {
    episode_return: f64,
    length: f64,
}

impl Stage<'_> {
    /// Plays one episode; nothing for a candidate that was not there.
    fn play(&self, episode: usize, workspace: &mut Workspace) -> Result<Vec<Option<Part>>> {
        let seeds = SeedTree::new(self.config.seed).child(&format!("evaluation/{episode}"));
        let policies = seeds.child("policy");
        let stream = |candidate: &Candidate| policies.stream(&candidate.agent.to_string());
        let mut draws: Vec<_> = self.candidates.iter().map(stream).collect();
        let mut env = self.env_factory.make_multi_agent(self.env)?;
        env.reset(Some(seeds.seed("world")))?;
        let still = env.spec().action.hold();
        let mut actions = Vec::new();
        let mut parts = vec![None; self.candidates.len()];
        while !env.agents().is_empty() {
            refuse_to_go_on(self.stop)?;
            actions.resize(env.agents().len(), still.clone());
            for (action, agent) in actions.iter_mut().zip(env.agents()) {
                let Some(place) = self.places.get(agent) else {
                    action.clone_from(&still);
                    continue;
                };
                let obs =
                    env.observation(*agent).expect("an agent that is alive has an observation");
                let policy = &self.candidates[*place].policy;
                policy.act(obs, self.config.sampling, &mut draws[*place], action, workspace);
            }
            for step in env.step(&actions)?.agents {
                if let Some(place) = self.places.get(&step.agent) {
                    let part: &mut Part = parts[*place].get_or_insert_default();
                    part.episode_return += step.reward;
                    part.length += 1.0;
                }
            }
        }
        Ok(parts)
    }
}
