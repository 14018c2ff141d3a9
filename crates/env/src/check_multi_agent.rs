//! Plays a multi-agent environment and explains where it violates the contract: which agents act,
//! have observations, join and leave.

use std::collections::BTreeSet;

use homeostat_core::{AgentId, Snapshot, Stream};

use crate::check_spec::{
    ACTION_SEED, Findings, SEEDS, check_observation, check_reward, check_snapshot_names,
    check_spec, invalid_actions, steps_to_play,
};
use crate::{Action, AgentStep, EnvSpec, Finding, MultiAgentEnv, Result};

type Make<'a> = &'a dyn Fn() -> Box<dyn MultiAgentEnv>;

/// Checks a multi-agent environment; an empty list means that it satisfies the contract. `make`
/// must return a new environment on each call.
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

/// One entry of a log: a reset or a step.
#[derive(Debug, Clone)]
struct LogEntry {
    /// The present agents with their observations.
    present: Vec<(AgentId, Option<Vec<f32>>)>,
    /// Agents that have left but still have an observation.
    observed_after_leaving: Vec<AgentId>,
    /// Present agents that are not among the possible ones.
    undeclared: Vec<AgentId>,
    /// None for a reset.
    step: Option<PlayedStep>,
}

#[derive(Debug, Clone)]
struct PlayedStep {
    acted: Vec<AgentId>,
    steps: Vec<AgentStep>,
    joined: Vec<AgentId>,
}

/// Plays an environment with random actions.
struct Player<'a> {
    env: &'a mut dyn MultiAgentEnv,
    actions: Stream,
    seen: BTreeSet<AgentId>,
}

impl<'a> Player<'a> {
    fn new(env: &'a mut dyn MultiAgentEnv, action_seed: u64) -> Self {
        Self { env, actions: Stream::from_seed(action_seed), seen: BTreeSet::new() }
    }

    fn reset(&mut self, seed: Option<u64>) -> Result<LogEntry> {
        self.env.reset(seed)?;
        self.seen.clear();
        Ok(self.log_entry(None))
    }

    fn step(&mut self, spec: &EnvSpec) -> Result<LogEntry> {
        let acted = self.env.agents().to_vec();
        let actions = sample_for(&acted, spec, &mut self.actions);
        let step = self.env.step(&actions)?;
        let (steps, joined) = (step.agents.to_vec(), step.joined.to_vec());
        Ok(self.log_entry(Some(PlayedStep { acted, steps, joined })))
    }

    fn log_entry(&mut self, step: Option<PlayedStep>) -> LogEntry {
        let env = &self.env;
        let see = |agent: AgentId| env.observation(agent).map(<[f32]>::to_vec);
        let present: Vec<_> = env.agents().iter().map(|agent| (*agent, see(*agent))).collect();
        self.seen.extend(env.agents());
        let is_observed_after_leaving =
            |agent: &&AgentId| !env.agents().contains(agent) && env.observation(**agent).is_some();
        let observed_after_leaving =
            self.seen.iter().filter(is_observed_after_leaving).copied().collect();
        let is_undeclared = |agent: &&AgentId| {
            env.possible_agents().is_some_and(|possible| !possible.contains(agent))
        };
        let undeclared = env.agents().iter().filter(is_undeclared).copied().collect();
        LogEntry { present, observed_after_leaving, undeclared, step }
    }

    /// Appends `entries` steps to the log; where no agent is left, a reset without seed.
    fn play_on(&mut self, spec: &EnvSpec, entries: usize, log: &mut Vec<LogEntry>) -> Result<()> {
        for _ in 0..entries {
            let over = self.env.agents().is_empty();
            log.push(if over { self.reset(None)? } else { self.step(spec)? });
        }
        Ok(())
    }
}

fn sample_for(agents: &[AgentId], spec: &EnvSpec, actions: &mut Stream) -> Vec<Action> {
    agents.iter().map(|_| spec.action.sample(actions)).collect()
}

/// The log that starts with a reset with `seed`; none if a valid call failed.
fn record(
    env: &mut dyn MultiAgentEnv,
    seed: u64,
    spec: &EnvSpec,
    findings: &mut Findings,
) -> Option<Vec<LogEntry>> {
    let mut player = Player::new(env, ACTION_SEED);
    let mut log = Vec::new();
    let mut play = || -> Result<()> {
        log.push(player.reset(Some(seed))?);
        player.play_on(spec, steps_to_play(spec), &mut log)
    };
    match play() {
        Ok(()) => Some(log),
        Err(error) => {
            findings.add_failed_call(&format!("with seed {seed}, call {}", log.len()), &error);
            None
        }
    }
}

fn check_log(log: &[LogEntry], seed: u64, spec: &EnvSpec, findings: &mut Findings) {
    let mut length = 0;
    let mut earlier = BTreeSet::new();
    for entry in log {
        length = if entry.step.is_some() { length + 1 } else { 0 };
        let when = match length {
            0 => format!("with seed {seed}, after a reset"),
            step => format!("with seed {seed}, in step {step} of an episode"),
        };
        check_present(&when, entry, spec, findings);
        match &entry.step {
            None => {
                earlier.clear();
                if entry.present.is_empty() {
                    findings.add(
                        "agents-at-reset",
                        format!("{when}, agents() is empty. Start with at least one agent"),
                    );
                }
            }
            Some(played) => {
                check_actors(&when, entry, played, spec, findings);
                check_joined(&when, entry, played, &earlier, findings);
            }
        }
        earlier.extend(entry.present.iter().map(|(agent, _)| *agent));
        if spec.time_limit.is_some_and(|limit| length >= limit.max(1)) && !entry.present.is_empty()
        {
            findings.add(
                "time-limit",
                format!(
                    "{when}, agents continue after the time limit. Truncate all of them in the \
                     step that reaches it, and let no agent join"
                ),
            );
        }
    }
}

/// Order and observations of the present agents.
fn check_present(when: &str, entry: &LogEntry, spec: &EnvSpec, findings: &mut Findings) {
    let LogEntry { present, observed_after_leaving, undeclared, .. } = entry;
    if let Some(pair) = present.windows(2).find(|pair| pair[0].0 >= pair[1].0) {
        findings.add(
            "agents-ascending",
            format!(
                "{when}, {} precedes {} in agents(). Keep the list ascending, each agent once: it \
                 is the order of actions and observations",
                pair[0].0, pair[1].0
            ),
        );
    }
    for (agent, obs) in present {
        match obs {
            Some(obs) => {
                check_observation(&format!("{when}, for {agent}"), &spec.observation, obs, findings)
            }
            None => findings.add(
                "observation-of-agents",
                format!("{when}, {agent} is in agents() but has no observation. Return one"),
            ),
        }
    }
    if let Some(agent) = observed_after_leaving.first() {
        findings.add(
            "observation-after-leaving",
            format!(
                "{when}, {agent} has left but has an observation. Return None; its last \
                 observation belongs in its AgentStep"
            ),
        );
    }
    if let Some(agent) = undeclared.first() {
        findings.add(
            "possible-agents",
            format!(
                "{when}, {agent} is in agents() but not in possible_agents(). Add it, or return \
                 None where the agents are not known in advance"
            ),
        );
    }
}

/// The steps of the agents that acted, and whether agents that ended have left.
fn check_actors(
    when: &str,
    entry: &LogEntry,
    played: &PlayedStep,
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
        let now = entry.present.iter().find(|(present, _)| *present == agent);
        match (step.terminated || step.truncated, now) {
            (true, Some(_)) => findings.add(
                "ended-agents-leave",
                format!("{when}, {agent} ended but is in agents(). Remove it"),
            ),
            (false, None) => findings.add(
                "leaving-announced",
                format!(
                    "{when}, {agent} left but its step has neither flag. Set `terminated` if its \
                     task ended, `truncated` if a limit stopped it"
                ),
            ),
            (false, Some((_, Some(obs)))) if obs.as_slice() != step.obs => findings.add(
                "observations-agree",
                format!(
                    "{when}, the step of {agent} reports {:?} but observation() gives {obs:?}. \
                     Both are the observation after the step",
                    step.obs
                ),
            ),
            _ => {}
        }
    }
}

/// Joined agents are announced, present and new. `earlier` are all agents of the episode so far.
fn check_joined(
    when: &str,
    entry: &LogEntry,
    played: &PlayedStep,
    earlier: &BTreeSet<AgentId>,
    findings: &mut Findings,
) {
    let alive = |agent: &AgentId| entry.present.iter().any(|(present, _)| present == agent);
    for agent in &played.joined {
        if played.acted.contains(agent) {
            findings.add(
                "joined-agents",
                format!(
                    "{when}, {agent} is in `joined` but acted in this step. List new agents only"
                ),
            );
        } else if !alive(agent) {
            findings.add(
                "joined-agents",
                format!("{when}, {agent} joined but is not in agents(). Add it there too"),
            );
        } else if earlier.contains(agent) {
            findings.add(
                "ids-reused",
                format!(
                    "{when}, {agent} joined, but an earlier agent of this episode had that \
                     number. Never reuse a number"
                ),
            );
        }
    }
    let known = |agent: &AgentId| played.acted.contains(agent) || played.joined.contains(agent);
    if let Some((agent, _)) = entry.present.iter().find(|(agent, _)| !known(agent)) {
        findings.add(
            "joined-agents",
            format!("{when}, {agent} is new but not in `joined`. Add it there"),
        );
    }
}

fn names(agents: &[AgentId]) -> String {
    let names: Vec<_> = agents.iter().map(AgentId::to_string).collect();
    if names.is_empty() { "no agent".to_owned() } else { names.join(", ") }
}

/// Describes the first entry in which two logs differ. They are compared as text, which
/// distinguishes all numbers except kinds of NaN.
fn difference(log: &[LogEntry], other: &[LogEntry]) -> Option<String> {
    let texts =
        |log: &[LogEntry]| -> Vec<_> { log.iter().map(|seen| format!("{seen:?}")).collect() };
    let (texts, others) = (texts(log), texts(other));
    let (at, (a, b)) = texts.iter().zip(&others).enumerate().find(|(_, (a, b))| a != b)?;
    Some(format!("call {at} after the seeded reset gave {a}; then {b}"))
}

fn check_same_seed(
    make: Make<'_>,
    log: &[LogEntry],
    seed: u64,
    spec: &EnvSpec,
    findings: &mut Findings,
) {
    let mut env = make();
    // Twice in the second environment: a reset with a seed must discard all state of an earlier
    // episode.
    for target in ["in another environment", "in an environment that was played before"] {
        let Some(again) = record(env.as_mut(), seed, spec, findings) else { return };
        if let Some(difference) = difference(log, &again) {
            findings.add(
                "same-seed-same-trajectory",
                format!(
                    "with seed {seed} and the same actions {target}, {difference}. Draw all \
                     randomness from a stream that the seed restarts, and set every field in reset"
                ),
            );
        }
    }
}

fn check_restore(
    make: Make<'_>,
    log: &[LogEntry],
    seed: u64,
    spec: &EnvSpec,
    findings: &mut Findings,
) {
    const NAME: &str = "check/env";
    let first_end = log.iter().position(|entry| entry.present.is_empty());
    let middle = first_end.unwrap_or(log.len() - 1) / 2;
    let rest = log.len() - 1 - middle;
    let targets = [("a new environment", false), ("an environment in another state", true)];
    for (target, played) in targets {
        let continue_both = || -> Result<(Vec<LogEntry>, Vec<LogEntry>, Snapshot)> {
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
            restored.push(twin.log_entry(None));
            unbroken.push(player.log_entry(None));
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
                            "with seed {seed}, saved after step {middle} and loaded into {target}, \
                             {difference}. Save and load every field that changes, agents and \
                             the random stream included"
                        ),
                    );
                }
            }
            Err(error) => findings.add(
                "save-restore",
                format!(
                    "with seed {seed}, saved after step {middle} and loaded into {target}, a call \
                     failed: {error}. Load exactly what was saved, in every state"
                ),
            ),
        }
    }
}

fn check_step_before_reset(make: Make<'_>, findings: &mut Findings) {
    if make().step(&[]).is_ok() {
        findings.add(
            "step-before-reset",
            "a step before the first reset succeeded. Return Error::StepBeforeReset".to_owned(),
        );
    }
}

/// Invalid steps must fail and change nothing, during an episode and after its end.
fn check_refusals(make: Make<'_>, spec: &EnvSpec, findings: &mut Findings) {
    let mut env = make();
    let mut player = Player::new(env.as_mut(), ACTION_SEED);
    // `record` reports failing valid calls.
    let Ok(first) = player.reset(Some(SEEDS[0])) else { return };
    let agents: Vec<_> = first.present.iter().map(|(agent, _)| *agent).collect();
    if agents.is_empty() {
        return;
    }
    let actions = sample_for(&agents, spec, &mut Stream::from_seed(ACTION_SEED));
    let too_many = [actions.as_slice(), &actions[..1]].concat();
    let count = format!("{} actions for {} agents", too_many.len(), agents.len());
    refuse(make, "action-count", &count, &too_many, findings);
    let count = format!("{} actions for {} agents", actions.len() - 1, agents.len());
    refuse(make, "action-count", &count, &actions[1..], findings);
    for invalid in invalid_actions(&spec.action) {
        let what = format!("action {invalid} for the action space {}", spec.action);
        let mut actions = actions.clone();
        // In the last place: the agents before it must not have moved when it is rejected.
        if let Some(last) = actions.last_mut() {
            *last = invalid;
        }
        refuse(make, "invalid-action", &what, &actions, findings);
    }

    for _ in 0..steps_to_play(spec) {
        if player.env.agents().is_empty() || player.step(spec).is_err() {
            break;
        }
    }
    if player.env.agents().is_empty() && player.env.step(&[]).is_ok() {
        findings.add(
            "step-after-end",
            "a step after the end of an episode succeeded. Return Error::StepAfterEnd when \
             agents() is empty"
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
        findings.add(rule, format!("{what}: the step succeeded. Return an error"));
    } else if before != after {
        findings.add(
            "invalid-action-changes-nothing",
            format!(
                "{what}: rejecting changed the state. Check all actions before any agent moves"
            ),
        );
    }
}

#[cfg(test)]
mod tests;
