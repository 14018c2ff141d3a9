//! Plays an environment and explains where it violates the contract that learners rely on. It
//! cannot detect a time limit that is reported as termination, nor wrong dynamics.

use homeostat_core::{Snapshot, Stream};

use crate::check_spec::{
    ACTION_SEED, Findings, SEEDS, check_observation, check_reward, check_snapshot_names,
    check_spec, invalid_actions, steps_to_play,
};
use crate::{Env, EnvSpec, Finding, Result};

/// Checks an environment; an empty list means that it satisfies the contract. `make` must return a
/// new environment on each call.
///
/// ```
/// use homeostat_env::{check_env, make};
///
/// let findings = check_env(&|| make("classic/acrobot-v1").expect("the id is registered"));
/// assert!(findings.is_empty(), "{findings:?}");
/// ```
pub fn check_env(make: &dyn Fn() -> Box<dyn Env>) -> Vec<Finding> {
    let mut findings = Findings::default();
    let spec = make().spec().clone();
    if check_spec(&spec, &mut findings) {
        check_step_before_reset(make, &spec, &mut findings);
        check_refused_actions(make, &spec, &mut findings);
        check_step_after_end(make, &spec, &mut findings);
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
    obs: Vec<f32>,
    /// None for a reset.
    outcome: Option<StepOutcome>,
}

#[derive(Debug, Clone, Copy)]
struct StepOutcome {
    reward: f64,
    terminated: bool,
    truncated: bool,
}

impl LogEntry {
    fn ended(&self) -> bool {
        self.outcome.is_some_and(|seen| seen.terminated || seen.truncated)
    }

    /// Equality of bits, so that NaN equals itself.
    fn same_bits(&self, other: &Self) -> bool {
        let bits = |entry: &Self| {
            let obs: Vec<_> = entry.obs.iter().map(|value| value.to_bits()).collect();
            let outcome =
                entry.outcome.map(|seen| (seen.reward.to_bits(), seen.terminated, seen.truncated));
            (obs, outcome)
        };
        bits(self) == bits(other)
    }

    fn describe(&self) -> String {
        match self.outcome {
            None => format!("observation {:?} of a reset", self.obs),
            Some(StepOutcome { reward, terminated, truncated }) => format!(
                "observation {:?}, reward {reward}, terminated {terminated}, truncated {truncated}",
                self.obs
            ),
        }
    }
}

fn reset(env: &mut dyn Env, seed: Option<u64>) -> Result<LogEntry> {
    Ok(LogEntry { obs: env.reset(seed)?.to_vec(), outcome: None })
}

/// Appends `entries` steps with random actions to the log; after the end of an episode, a reset
/// without seed.
fn play_on(
    env: &mut dyn Env,
    spec: &EnvSpec,
    actions: &mut Stream,
    entries: usize,
    log: &mut Vec<LogEntry>,
) -> Result<()> {
    for _ in 0..entries {
        let entry = if log.last().is_some_and(LogEntry::ended) {
            reset(env, None)?
        } else {
            let step = env.step(&spec.action.sample(actions))?;
            let (reward, terminated, truncated) = (step.reward, step.terminated, step.truncated);
            let outcome = Some(StepOutcome { reward, terminated, truncated });
            LogEntry { obs: step.obs.to_vec(), outcome }
        };
        log.push(entry);
    }
    Ok(())
}

/// The log that starts with a reset with `seed`; none if a valid call failed.
fn record(
    env: &mut dyn Env,
    seed: u64,
    spec: &EnvSpec,
    findings: &mut Findings,
) -> Option<Vec<LogEntry>> {
    let mut actions = Stream::from_seed(ACTION_SEED);
    let mut log = Vec::new();
    let mut play = || -> Result<()> {
        log.push(reset(env, Some(seed))?);
        play_on(env, spec, &mut actions, steps_to_play(spec), &mut log)
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
    for entry in log {
        length = if entry.outcome.is_some() { length + 1 } else { 0 };
        let when = match length {
            0 => format!("with seed {seed}, after a reset"),
            step => format!("with seed {seed}, in step {step} of an episode"),
        };
        check_observation(&when, &spec.observation, &entry.obs, findings);
        if let Some(seen) = entry.outcome {
            check_reward(&when, seen.reward, findings);
        }
        if spec.time_limit.is_some_and(|limit| length >= limit.max(1)) && !entry.ended() {
            findings.add(
                "time-limit",
                format!(
                    "{when}, the episode continues after the time limit. Set `truncated` in the \
                     step that reaches it; `Episode` does so"
                ),
            );
        }
    }
}

/// Describes the first entry in which two logs differ.
fn difference(log: &[LogEntry], other: &[LogEntry]) -> Option<String> {
    let (at, (a, b)) = log.iter().zip(other).enumerate().find(|(_, (a, b))| !a.same_bits(b))?;
    Some(format!("call {at} after the seeded reset gave {}; then {}", a.describe(), b.describe()))
}

fn check_same_seed(
    make: &dyn Fn() -> Box<dyn Env>,
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
                     randomness from the given stream, and set every field in reset"
                ),
            );
        }
    }
}

fn check_restore(
    make: &dyn Fn() -> Box<dyn Env>,
    log: &[LogEntry],
    seed: u64,
    spec: &EnvSpec,
    findings: &mut Findings,
) {
    const NAME: &str = "check/env";
    let first_end = log.iter().position(LogEntry::ended).unwrap_or(log.len() - 1);
    let (middle, rest) = (first_end / 2, log.len() - 1 - first_end / 2);
    let targets = [("a new environment", false), ("an environment in another state", true)];
    for (target, played) in targets {
        let continue_both = || -> Result<(Vec<LogEntry>, Vec<LogEntry>, Snapshot)> {
            let mut env = make();
            let mut actions = Stream::from_seed(ACTION_SEED);
            let mut unbroken = vec![reset(env.as_mut(), Some(seed))?];
            play_on(env.as_mut(), spec, &mut actions, middle, &mut unbroken)?;

            let mut snapshot = Snapshot::default();
            env.save(NAME, &mut snapshot);
            let mut twin = make();
            if played {
                let mut elsewhere = vec![reset(twin.as_mut(), Some(seed + 1))?];
                let mut other_actions = Stream::from_seed(ACTION_SEED + 1);
                play_on(twin.as_mut(), spec, &mut other_actions, middle + 3, &mut elsewhere)?;
            }
            twin.load(NAME, &snapshot)?;

            let mut restored = unbroken.clone();
            let mut same_actions = actions.clone();
            play_on(env.as_mut(), spec, &mut actions, rest, &mut unbroken)?;
            play_on(twin.as_mut(), spec, &mut same_actions, rest, &mut restored)?;
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
                             {difference}. Save and load every field that changes, the random \
                             stream included"
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

fn check_step_before_reset(
    make: &dyn Fn() -> Box<dyn Env>,
    spec: &EnvSpec,
    findings: &mut Findings,
) {
    let action = spec.action.sample(&mut Stream::from_seed(ACTION_SEED));
    if make().step(&action).is_ok() {
        findings.add(
            "step-before-reset",
            "a step before the first reset succeeded. Return Error::StepBeforeReset; `Episode` \
             does so"
                .to_owned(),
        );
    }
}

fn check_step_after_end(make: &dyn Fn() -> Box<dyn Env>, spec: &EnvSpec, findings: &mut Findings) {
    let mut env = make();
    let mut actions = Stream::from_seed(ACTION_SEED);
    let Ok(first) = reset(env.as_mut(), Some(SEEDS[0])) else { return };
    let mut log = vec![first];
    for _ in 0..steps_to_play(spec) {
        // `record` reports a failing valid call.
        if play_on(env.as_mut(), spec, &mut actions, 1, &mut log).is_err() {
            return;
        }
        if log.last().is_some_and(LogEntry::ended) {
            if env.step(&spec.action.sample(&mut actions)).is_ok() {
                findings.add(
                    "step-after-end",
                    "a step after the end of an episode succeeded. Return Error::StepAfterEnd; \
                     `Episode` does so"
                        .to_owned(),
                );
            }
            return;
        }
    }
}

fn check_refused_actions(make: &dyn Fn() -> Box<dyn Env>, spec: &EnvSpec, findings: &mut Findings) {
    const NAME: &str = "env";
    let mut env = make();
    for invalid in invalid_actions(&spec.action) {
        // `record` reports a failing reset.
        if env.reset(Some(SEEDS[0])).is_err() {
            return;
        }
        let (mut before, mut after) = (Snapshot::default(), Snapshot::default());
        env.save(NAME, &mut before);
        let refused = env.step(&invalid).is_err();
        env.save(NAME, &mut after);
        if !refused {
            findings.add(
                "invalid-action",
                format!(
                    "action {invalid} was accepted, but the action space is {}. Return \
                     Error::ActionOutsideSpace; `Episode` does so",
                    spec.action
                ),
            );
        } else if before != after {
            findings.add(
                "invalid-action-changes-nothing",
                format!(
                    "rejecting action {invalid} changed the state. Check the action before \
                     changing anything"
                ),
            );
        }
    }
}

#[cfg(test)]
mod tests;
