//! Plays an environment and explains in words where it breaks the contract that
//! learners rely on. It cannot see whether a time limit is passed off as the end
//! of the task, nor whether the dynamics are the right ones.

use homeostat_core::{Snapshot, Stream};

use crate::check_spec::{
    ACTION_SEED, Findings, SEEDS, check_observation, check_reward, check_snapshot_names,
    check_spec, foreign_actions, steps_to_play,
};
use crate::{Env, EnvSpec, Finding, Result};

/// Checks an environment; no findings means that it keeps the contract. `make`
/// must give a new environment each time.
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

/// What was seen at one moment: a reset, or a step.
#[derive(Debug, Clone)]
struct Moment {
    obs: Vec<f32>,
    /// Nothing for a reset.
    outcome: Option<Seen>,
}

#[derive(Debug, Clone, Copy)]
struct Seen {
    reward: f64,
    terminated: bool,
    truncated: bool,
}

impl Moment {
    fn ended(&self) -> bool {
        self.outcome.is_some_and(|seen| seen.terminated || seen.truncated)
    }

    /// Equality of every bit, which NaN does not escape.
    fn same_bits(&self, other: &Self) -> bool {
        let bits = |moment: &Self| {
            let obs: Vec<_> = moment.obs.iter().map(|value| value.to_bits()).collect();
            let outcome =
                moment.outcome.map(|seen| (seen.reward.to_bits(), seen.terminated, seen.truncated));
            (obs, outcome)
        };
        bits(self) == bits(other)
    }

    fn describe(&self) -> String {
        match self.outcome {
            None => format!("observation {:?} of a reset", self.obs),
            Some(Seen { reward, terminated, truncated }) => format!(
                "observation {:?}, reward {reward}, terminated {terminated}, truncated {truncated}",
                self.obs
            ),
        }
    }
}

fn reset(env: &mut dyn Env, seed: Option<u64>) -> Result<Moment> {
    Ok(Moment { obs: env.reset(seed)?.to_vec(), outcome: None })
}

/// Plays random actions for `moments` moments more; where an episode has ended,
/// the moment is a reset without seed.
fn play_on(
    env: &mut dyn Env,
    spec: &EnvSpec,
    actions: &mut Stream,
    moments: usize,
    log: &mut Vec<Moment>,
) -> Result<()> {
    for _ in 0..moments {
        let moment = if log.last().is_some_and(Moment::ended) {
            reset(env, None)?
        } else {
            let step = env.step(&spec.action.sample(actions))?;
            let (reward, terminated, truncated) = (step.reward, step.terminated, step.truncated);
            let outcome = Some(Seen { reward, terminated, truncated });
            Moment { obs: step.obs.to_vec(), outcome }
        };
        log.push(moment);
    }
    Ok(())
}

/// Everything seen from a reset with `seed` on; nothing if a legal call failed.
fn record(
    env: &mut dyn Env,
    seed: u64,
    spec: &EnvSpec,
    findings: &mut Findings,
) -> Option<Vec<Moment>> {
    let mut actions = Stream::from_seed(ACTION_SEED);
    let mut log = Vec::new();
    let mut play = || -> Result<()> {
        log.push(reset(env, Some(seed))?);
        play_on(env, spec, &mut actions, steps_to_play(spec), &mut log)
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
    for moment in log {
        length = if moment.outcome.is_some() { length + 1 } else { 0 };
        let when = match length {
            0 => format!("with seed {seed}, after a reset"),
            step => format!("with seed {seed}, in step {step} of an episode"),
        };
        check_observation(&when, &spec.observation, &moment.obs, findings);
        if let Some(seen) = moment.outcome {
            check_reward(&when, seen.reward, findings);
        }
        if spec.time_limit.is_some_and(|limit| length >= limit.max(1)) && !moment.ended() {
            findings.add(
                "time-limit",
                format!(
                    "{when}, the episode goes on though the time limit is reached. Set \
                     `truncated` in the step that reaches it; `Episode` does so by itself"
                ),
            );
        }
    }
}

/// The first moment in which two logs differ, in words.
fn difference(log: &[Moment], other: &[Moment]) -> Option<String> {
    let (at, (a, b)) = log.iter().zip(other).enumerate().find(|(_, (a, b))| !a.same_bits(b))?;
    Some(format!("call {at} after the seeded reset gave {}; then {}", a.describe(), b.describe()))
}

fn check_same_seed(
    make: &dyn Fn() -> Box<dyn Env>,
    log: &[Moment],
    seed: u64,
    spec: &EnvSpec,
    findings: &mut Findings,
) {
    let mut env = make();
    // Twice in the second environment: what an episode leaves behind must not
    // reach past a reset with a seed.
    for whom in ["in another environment", "in an environment that was played before"] {
        let Some(again) = record(env.as_mut(), seed, spec, findings) else { return };
        if let Some(difference) = difference(log, &again) {
            findings.add(
                "same-seed-same-trajectory",
                format!(
                    "with seed {seed} and the same actions {whom}, {difference}. Draw all \
                     randomness from the stream handed in, and set every field in reset"
                ),
            );
        }
    }
}

fn check_restore(
    make: &dyn Fn() -> Box<dyn Env>,
    log: &[Moment],
    seed: u64,
    spec: &EnvSpec,
    findings: &mut Findings,
) {
    const NAME: &str = "check/env";
    let first_end = log.iter().position(Moment::ended).unwrap_or(log.len() - 1);
    let (middle, rest) = (first_end / 2, log.len() - 1 - first_end / 2);
    let whoms = [("a new environment", false), ("an environment in another state", true)];
    for (whom, played) in whoms {
        let continue_both = || -> Result<(Vec<Moment>, Vec<Moment>, Snapshot)> {
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
                            "with seed {seed}, saved after step {middle} and loaded into {whom}, \
                             {difference}. Save and load every field that changes, the random \
                             stream included"
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

fn check_step_before_reset(
    make: &dyn Fn() -> Box<dyn Env>,
    spec: &EnvSpec,
    findings: &mut Findings,
) {
    let action = spec.action.sample(&mut Stream::from_seed(ACTION_SEED));
    if make().step(&action).is_ok() {
        findings.add(
            "step-before-reset",
            "a step before the first reset was played. Answer with Error::StepBeforeReset; \
             `Episode` does so by itself"
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
        // A failing legal call is reported where the whole episode is recorded.
        if play_on(env.as_mut(), spec, &mut actions, 1, &mut log).is_err() {
            return;
        }
        if log.last().is_some_and(Moment::ended) {
            if env.step(&spec.action.sample(&mut actions)).is_ok() {
                findings.add(
                    "step-after-end",
                    "a step after the end of an episode was played. Answer with \
                     Error::StepAfterEnd; `Episode` does so by itself"
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
    for foreign in foreign_actions(&spec.action) {
        // A failing reset is reported where the whole episode is recorded.
        if env.reset(Some(SEEDS[0])).is_err() {
            return;
        }
        let (mut before, mut after) = (Snapshot::default(), Snapshot::default());
        env.save(NAME, &mut before);
        let refused = env.step(&foreign).is_err();
        env.save(NAME, &mut after);
        if !refused {
            findings.add(
                "foreign-action",
                format!(
                    "action {foreign} was taken though the action space is {}. Answer with \
                     Error::ActionOutsideSpace; `Episode` does so by itself",
                    spec.action
                ),
            );
        } else if before != after {
            findings.add(
                "refusal-harmless",
                format!(
                    "refusing action {foreign} changed the state. Check the action before \
                     anything else"
                ),
            );
        }
    }
}

#[cfg(test)]
mod tests;
