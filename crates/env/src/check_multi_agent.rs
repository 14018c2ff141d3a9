//! Plays a world of several agents and explains in words where it breaks the
//! contract: who acts, who is seen, who joins and leaves, and when.

use std::collections::BTreeSet;

use homeostat_core::{AgentId, Snapshot, Stream};

use crate::check_spec::{
    ACTION_SEED, Findings, SEEDS, check_observation, check_reward, check_snapshot_names,
    check_spec, foreign_actions, steps_to_play,
};
use crate::{Action, AgentStep, EnvSpec, Finding, MultiAgentEnv, Result};

type Make<'a> = &'a dyn Fn() -> Box<dyn MultiAgentEnv>;

/// Checks a world of several agents; no findings means that it keeps the contract.
/// `make` must give a new world each time.
pub fn check_multi_agent_env(make: &dyn Fn() -> Box<dyn MultiAgentEnv>) -> Vec<Finding> {
    let mut findings = Findings::default();
    let spec = make().spec().clone();
    if check_spec(&spec, &mut findings) {
        check_step_before_reset(make, &mut findings);
        check_refusals(make, &spec, &mut findings);
        for seed in SEEDS {
            if let Some(log) = record(make().as_mut(), seed, &spec, &mut findings) {
                check_log(&log, seed, &spec, &mut findings);
                check_same_seed(make, &log, seed, &spec, &mut findings);
                check_restore(make, &log, seed, &spec, &mut findings);
            }
        }
    }
    findings.into_vec()
}

/// What was seen at one moment: a reset, or a step.
#[derive(Debug, Clone)]
struct Moment {
    /// Who is alive, with what each sees.
    living: Vec<(AgentId, Option<Vec<f32>>)>,
    /// Who was alive earlier in the episode, is not any more, and still sees.
    ghosts: Vec<AgentId>,
    /// Who is alive without being possible.
    impossible: Vec<AgentId>,
    /// Nothing for a reset.
    step: Option<Played>,
}

#[derive(Debug, Clone)]
struct Played {
    acted: Vec<AgentId>,
    steps: Vec<AgentStep>,
    joined: Vec<AgentId>,
}

/// A world being played with random actions.
struct Player<'a> {
    env: &'a mut dyn MultiAgentEnv,
    actions: Stream,
    seen: BTreeSet<AgentId>,
}

impl<'a> Player<'a> {
    fn new(env: &'a mut dyn MultiAgentEnv, action_seed: u64) -> Self {
        Self { env, actions: Stream::from_seed(action_seed), seen: BTreeSet::new() }
    }

    fn reset(&mut self, seed: Option<u64>) -> Result<Moment> {
        self.env.reset(seed)?;
        self.seen.clear();
        Ok(self.look(None))
    }

    fn step(&mut self, spec: &EnvSpec) -> Result<Moment> {
        let acted = self.env.agents().to_vec();
        let actions = sample_for(&acted, spec, &mut self.actions);
        let step = self.env.step(&actions)?;
        let (steps, joined) = (step.agents.to_vec(), step.joined.to_vec());
        Ok(self.look(Some(Played { acted, steps, joined })))
    }

    fn look(&mut self, step: Option<Played>) -> Moment {
        let env = &self.env;
        let see = |agent: AgentId| env.observation(agent).map(<[f32]>::to_vec);
        let living: Vec<_> = env.agents().iter().map(|agent| (*agent, see(*agent))).collect();
        self.seen.extend(env.agents());
        let is_ghost =
            |agent: &&AgentId| !env.agents().contains(agent) && env.observation(**agent).is_some();
        let ghosts = self.seen.iter().filter(is_ghost).copied().collect();
        let is_impossible = |agent: &&AgentId| {
            env.possible_agents().is_some_and(|possible| !possible.contains(agent))
        };
        let impossible = env.agents().iter().filter(is_impossible).copied().collect();
        Moment { living, ghosts, impossible, step }
    }

    /// Plays `moments` moments more; where nobody is alive, the moment is a reset
    /// without seed.
    fn play_on(&mut self, spec: &EnvSpec, moments: usize, log: &mut Vec<Moment>) -> Result<()> {
        for _ in 0..moments {
            let over = self.env.agents().is_empty();
            log.push(if over { self.reset(None)? } else { self.step(spec)? });
        }
        Ok(())
    }
}

fn sample_for(agents: &[AgentId], spec: &EnvSpec, actions: &mut Stream) -> Vec<Action> {
    agents.iter().map(|_| spec.action.sample(actions)).collect()
}

/// Everything seen from a reset with `seed` on; nothing if a legal call failed.
fn record(
    env: &mut dyn MultiAgentEnv,
    seed: u64,
    spec: &EnvSpec,
    findings: &mut Findings,
) -> Option<Vec<Moment>> {
    let mut player = Player::new(env, ACTION_SEED);
    let mut log = Vec::new();
    let mut play = || -> Result<()> {
        log.push(player.reset(Some(seed))?);
        player.play_on(spec, steps_to_play(spec), &mut log)
    };
    match play() {
        Ok(()) => Some(log),
        Err(error) => {
            findings.add_refusal(&format!("with seed {seed}, call {}", log.len()), &error);
            None
        }
    }
}

fn check_log(log: &[Moment], seed: u64, spec: &EnvSpec, findings: &mut Findings) {
    let mut length = 0;
    let mut born = BTreeSet::new();
    for moment in log {
        length = if moment.step.is_some() { length + 1 } else { 0 };
        let when = match length {
            0 => format!("with seed {seed}, after a reset"),
            step => format!("with seed {seed}, in step {step} of an episode"),
        };
        check_living(&when, moment, spec, findings);
        match &moment.step {
            None => {
                born.clear();
                if moment.living.is_empty() {
                    findings.add(
                        "agents-at-reset",
                        format!("{when}, nobody is alive. Let at least one agent start"),
                    );
                }
            }
            Some(played) => {
                check_actors(&when, moment, played, spec, findings);
                check_joined(&when, moment, played, &born, findings);
            }
        }
        born.extend(moment.living.iter().map(|(agent, _)| *agent));
        if spec.time_limit.is_some_and(|limit| length >= limit.max(1)) && !moment.living.is_empty()
        {
            findings.add(
                "time-limit",
                format!(
                    "{when}, agents live on though the time limit is reached. Truncate all of \
                     them in the step that reaches it, and let nobody join"
                ),
            );
        }
    }
}

/// Order and observations of those alive.
fn check_living(when: &str, moment: &Moment, spec: &EnvSpec, findings: &mut Findings) {
    let Moment { living, ghosts, impossible, .. } = moment;
    if let Some(pair) = living.windows(2).find(|pair| pair[0].0 >= pair[1].0) {
        findings.add(
            "agents-ascending",
            format!(
                "{when}, {} stands before {} in agents(). Keep the list ascending, each agent \
                 once: it is the order of actions and observations",
                pair[0].0, pair[1].0
            ),
        );
    }
    for (agent, obs) in living {
        match obs {
            Some(obs) => {
                check_observation(&format!("{when}, for {agent}"), &spec.observation, obs, findings)
            }
            None => findings.add(
                "observation-of-living",
                format!("{when}, {agent} is alive but has no observation. Give it one"),
            ),
        }
    }
    if let Some(agent) = ghosts.first() {
        findings.add(
            "observation-of-dead",
            format!(
                "{when}, {agent} is not alive but has an observation. Answer None; its last \
                 observation belongs in its AgentStep"
            ),
        );
    }
    if let Some(agent) = impossible.first() {
        findings.add(
            "possible-agents",
            format!(
                "{when}, {agent} is alive but not among possible_agents(). Add it, or answer \
                 None where the agents are not known in advance"
            ),
        );
    }
}

/// What is reported of those who acted, and whether they are still there.
fn check_actors(
    when: &str,
    moment: &Moment,
    played: &Played,
    spec: &EnvSpec,
    findings: &mut Findings,
) {
    let reported: Vec<_> = played.steps.iter().map(|step| step.agent).collect();
    if reported != played.acted {
        findings.add(
            "steps-of-actors",
            format!(
                "{when}, {} acted but steps were reported for {}. Report exactly one for each \
                 agent that acted, in their order",
                names(&played.acted),
                names(&reported)
            ),
        );
    }
    for step in &played.steps {
        let agent = step.agent;
        let whose = format!("{when}, for {agent}");
        check_reward(&whose, step.reward, findings);
        check_observation(&whose, &spec.observation, &step.obs, findings);
        let now = moment.living.iter().find(|(living, _)| *living == agent);
        match (step.terminated || step.truncated, now) {
            (true, Some(_)) => findings.add(
                "ended-agents-leave",
                format!("{when}, {agent} ended but is still alive. Take it out of agents()"),
            ),
            (false, None) => findings.add(
                "leaving-announced",
                format!(
                    "{when}, {agent} is gone though its step has neither flag. Set `terminated` \
                     if its task ended, `truncated` if somebody stopped it"
                ),
            ),
            (false, Some((_, Some(obs)))) if obs.as_slice() != step.obs => findings.add(
                "observations-agree",
                format!(
                    "{when}, the step of {agent} reports {:?} but observation() gives {obs:?}. \
                     Both are what it sees after the step",
                    step.obs
                ),
            ),
            _ => {}
        }
    }
}

/// Those who came: announced, alive, new. `born` are all of the episode so far.
fn check_joined(
    when: &str,
    moment: &Moment,
    played: &Played,
    born: &BTreeSet<AgentId>,
    findings: &mut Findings,
) {
    let alive = |agent: &AgentId| moment.living.iter().any(|(living, _)| living == agent);
    for agent in &played.joined {
        if played.acted.contains(agent) {
            findings.add(
                "joined-agents",
                format!(
                    "{when}, {agent} joined though it was there before. Announce newcomers only"
                ),
            );
        } else if !alive(agent) {
            findings.add(
                "joined-agents",
                format!("{when}, {agent} joined but is not alive. Put it into agents() too"),
            );
        } else if born.contains(agent) {
            findings.add(
                "ids-reused",
                format!(
                    "{when}, {agent} joined, but an agent of that number has already lived in \
                     this episode. Count numbers up and never take one back"
                ),
            );
        }
    }
    let known = |agent: &AgentId| played.acted.contains(agent) || played.joined.contains(agent);
    if let Some((agent, _)) = moment.living.iter().find(|(agent, _)| !known(agent)) {
        findings.add(
            "joined-agents",
            format!("{when}, {agent} is new but was not announced. Put it into `joined`"),
        );
    }
}

fn names(agents: &[AgentId]) -> String {
    let names: Vec<_> = agents.iter().map(AgentId::to_string).collect();
    if names.is_empty() { "nobody".to_owned() } else { names.join(", ") }
}

/// The first moment in which two logs differ, in words. They are compared as text,
/// which tells apart all numbers but the kinds of NaN.
fn difference(log: &[Moment], other: &[Moment]) -> Option<String> {
    let texts = |log: &[Moment]| -> Vec<_> { log.iter().map(|seen| format!("{seen:?}")).collect() };
    let (texts, others) = (texts(log), texts(other));
    let (at, (a, b)) = texts.iter().zip(&others).enumerate().find(|(_, (a, b))| a != b)?;
    Some(format!("call {at} after the seeded reset gave {a}; then {b}"))
}

fn check_same_seed(
    make: Make<'_>,
    log: &[Moment],
    seed: u64,
    spec: &EnvSpec,
    findings: &mut Findings,
) {
    let mut env = make();
    // Twice in the second world: what an episode leaves behind must not reach past
    // a reset with a seed.
    for whom in ["in another world", "in a world that was played before"] {
        let Some(again) = record(env.as_mut(), seed, spec, findings) else { return };
        if let Some(difference) = difference(log, &again) {
            findings.add(
                "same-seed-same-trajectory",
                format!(
                    "with seed {seed} and the same actions {whom}, {difference}. Draw all \
                     randomness from a stream that a seed restarts, and set every field in reset"
                ),
            );
        }
    }
}

fn check_restore(
    make: Make<'_>,
    log: &[Moment],
    seed: u64,
    spec: &EnvSpec,
    findings: &mut Findings,
) {
    const NAME: &str = "check/env";
    let first_end = log.iter().position(|moment| moment.living.is_empty());
    let middle = first_end.unwrap_or(log.len() - 1) / 2;
    let rest = log.len() - 1 - middle;
    for (whom, played) in [("a new world", false), ("a world in another state", true)] {
        let continue_both = || -> Result<(Vec<Moment>, Vec<Moment>, Snapshot)> {
            let mut env = make();
            let mut player = Player::new(env.as_mut(), ACTION_SEED);
            let mut unbroken = vec![player.reset(Some(seed))?];
            player.play_on(spec, middle, &mut unbroken)?;

            let mut snapshot = Snapshot::default();
            player.env.save(NAME, &mut snapshot);
            let mut other = make();
            let mut twin = Player::new(other.as_mut(), ACTION_SEED + 1);
            if played {
                let mut elsewhere = vec![twin.reset(Some(seed + 1))?];
                twin.play_on(spec, middle + 3, &mut elsewhere)?;
            }
            twin.env.load(NAME, &snapshot)?;
            (twin.actions, twin.seen) = (player.actions.clone(), player.seen.clone());

            let mut restored = unbroken.clone();
            restored.push(twin.look(None));
            unbroken.push(player.look(None));
            player.play_on(spec, rest, &mut unbroken)?;
            twin.play_on(spec, rest, &mut restored)?;
            Ok((unbroken, restored, snapshot))
        };
        match continue_both() {
            Ok((unbroken, restored, snapshot)) => {
                check_snapshot_names(NAME, &snapshot, findings);
                if let Some(difference) = difference(&unbroken, &restored) {
                    findings.add(
                        "save-restore",
                        format!(
                            "with seed {seed}, saved after step {middle} and loaded into {whom}, \
                             {difference}. Save and load every field that changes, agents and \
                             the random stream included"
                        ),
                    );
                }
            }
            Err(error) => findings.add(
                "save-restore",
                format!(
                    "with seed {seed}, saved after step {middle} and loaded into {whom}, a call \
                     failed: {error}. Load exactly what was saved, into whatever state"
                ),
            ),
        }
    }
}

fn check_step_before_reset(make: Make<'_>, findings: &mut Findings) {
    if make().step(&[]).is_ok() {
        findings.add(
            "step-before-reset",
            "a step before the first reset was played. Answer with Error::StepBeforeReset"
                .to_owned(),
        );
    }
}

/// Steps that must be refused and change nothing, until the end and beyond it.
fn check_refusals(make: Make<'_>, spec: &EnvSpec, findings: &mut Findings) {
    let mut env = make();
    let mut player = Player::new(env.as_mut(), ACTION_SEED);
    // Failing legal calls are reported where the whole episode is recorded.
    let Ok(first) = player.reset(Some(SEEDS[0])) else { return };
    let agents: Vec<_> = first.living.iter().map(|(agent, _)| *agent).collect();
    if agents.is_empty() {
        return;
    }
    let actions = sample_for(&agents, spec, &mut Stream::from_seed(ACTION_SEED));
    let too_many = [actions.as_slice(), &actions[..1]].concat();
    let count = format!("{} actions for {} agents", too_many.len(), agents.len());
    refuse(make, "action-count", &count, &too_many, findings);
    let count = format!("{} actions for {} agents", actions.len() - 1, agents.len());
    refuse(make, "action-count", &count, &actions[1..], findings);
    for foreign in foreign_actions(&spec.action) {
        let what = format!("action {foreign} for the action space {}", spec.action);
        let mut actions = actions.clone();
        // The last place: those before it must not have moved when it is refused.
        if let Some(last) = actions.last_mut() {
            *last = foreign;
        }
        refuse(make, "foreign-action", &what, &actions, findings);
    }

    for _ in 0..steps_to_play(spec) {
        if player.env.agents().is_empty() || player.step(spec).is_err() {
            break;
        }
    }
    if player.env.agents().is_empty() && player.env.step(&[]).is_ok() {
        findings.add(
            "step-after-end",
            "a step after the end of an episode was played. Answer with Error::StepAfterEnd \
             when nobody is alive"
                .to_owned(),
        );
    }
}

fn refuse(
    make: Make<'_>,
    rule: &'static str,
    what: &str,
    actions: &[Action],
    findings: &mut Findings,
) {
    const NAME: &str = "env";
    let mut env = make();
    if env.reset(Some(SEEDS[0])).is_err() {
        return;
    }
    let (mut before, mut after) = (Snapshot::default(), Snapshot::default());
    env.save(NAME, &mut before);
    let refused = env.step(actions).is_err();
    env.save(NAME, &mut after);
    if !refused {
        findings.add(rule, format!("{what}: the step was played. Answer with an error"));
    } else if before != after {
        findings.add(
            "refusal-harmless",
            format!("{what}: refusing changed the state. Check all actions before anyone moves"),
        );
    }
}

#[cfg(test)]
mod tests;
