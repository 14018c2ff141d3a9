//! What [`check_env`](crate::check_env) and
//! [`check_multi_agent_env`](crate::check_multi_agent_env) share: findings, rules about the spec,
//! and membership of observations in their space.

use std::fmt;

use homeostat_core::Snapshot;

use crate::{Action, EnvSpec, Error, Field, Space};

/// Seeds of the episodes.
pub(crate) const SEEDS: [u64; 3] = [0, 1, 2];
/// Seed of the random actions.
pub(crate) const ACTION_SEED: u64 = 77;
const STEPS_WITHOUT_LIMIT: u32 = 1_000;
const MAX_STEPS: u32 = 100_000;
// Beyond the first episode, so that the next one begins without a seed.
const FURTHER_STEPS: u32 = 20;

/// A violation of the contract, and how to fix it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Finding {
    /// Stable name of the violated rule.
    pub rule: &'static str,
    /// What was observed, and how to fix it.
    pub explanation: String,
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.rule, self.explanation)
    }
}

#[derive(Default)]
pub(crate) struct Findings {
    findings: Vec<Finding>,
}

impl Findings {
    /// Adds a finding, unless its rule has one: a fault in one step mostly recurs in all, and the
    /// first occurrence is the easiest to reproduce.
    pub(crate) fn add(&mut self, rule: &'static str, explanation: String) {
        if self.findings.iter().all(|finding| finding.rule != rule) {
            self.findings.push(Finding { rule, explanation });
        }
    }

    /// A call that had to succeed did not.
    pub(crate) fn add_failed_call(&mut self, what: &str, error: &Error) {
        self.add(
            "valid-call-fails",
            format!("{what} failed: {error}. Every valid call must succeed"),
        );
    }

    pub(crate) fn into_vec(self) -> Vec<Finding> {
        self.findings
    }
}

/// Steps under each seed: enough to reach the time limit.
pub(crate) fn steps_to_play(spec: &EnvSpec) -> usize {
    (spec.time_limit.unwrap_or(STEPS_WITHOUT_LIMIT).min(MAX_STEPS) + FURTHER_STEPS) as usize
}

/// Checks the spec. Returns false if the spaces are invalid, so that no step can be played.
pub(crate) fn check_spec(spec: &EnvSpec, findings: &mut Findings) -> bool {
    let mut playable = true;
    for (what, space) in [("observation", &spec.observation), ("action", &spec.action)] {
        if let Err(error) = space.validate() {
            playable = false;
            findings
                .add("spaces", format!("the {what} {error}. Correct the {what} space in the spec"));
        }
    }
    if spec.time_limit == Some(0) {
        findings.add(
            "time-limit",
            "a time limit of 0 steps allows no step. Use None for no limit".to_owned(),
        );
    }
    check_card(spec, findings);
    playable
}

fn check_card(spec: &EnvSpec, findings: &mut Findings) {
    let card = &spec.card;
    let mut missing = Vec::new();
    for (what, text) in [
        ("summary", card.summary),
        ("reward", card.reward),
        ("termination", card.termination),
        ("source", card.source),
    ] {
        if text.trim().is_empty() {
            missing.push(format!("the text of `{what}` is empty"));
        }
    }
    for (what, space, fields) in [
        ("observation", &spec.observation, &card.observation),
        ("action", &spec.action, &card.action),
    ] {
        let blank = |field: &Field| field.name.trim().is_empty() || field.meaning.trim().is_empty();
        if fields.iter().any(blank) {
            missing.push(format!("a line of `{what}` lacks its name or meaning"));
        }
        let (lines, numbers) = (fields.len(), space.len());
        match space {
            Space::Discrete(_) if lines == 0 => {
                missing.push(format!("`{what}` has no line: say what the choices mean"));
            }
            Space::Box { .. } | Space::MultiDiscrete(_) if lines != numbers => {
                missing.push(format!(
                    "`{what}` has {lines} lines for {numbers} numbers: write one for each"
                ));
            }
            _ => {}
        }
    }
    if !missing.is_empty() {
        findings.add("card", format!("{}. Complete the card in the spec", missing.join("; ")));
    }
}

/// Checks that `obs` is inside the space.
pub(crate) fn check_observation(when: &str, space: &Space, obs: &[f32], findings: &mut Findings) {
    if obs.len() != space.len() {
        findings.add(
            "observation-length",
            format!(
                "{when}, the observation has {} numbers, the space {space} has {}. \
                 Make the two agree",
                obs.len(),
                space.len()
            ),
        );
    } else if let Some(what) = number_outside(space, obs) {
        findings.add(
            "observation-in-space",
            format!("{when}, {what}. Widen the observation space or clamp what is observed"),
        );
    }
}

/// Describes the first number outside the space, if the lengths agree.
fn number_outside(space: &Space, obs: &[f32]) -> Option<String> {
    let choices = |value: &f32, n: usize| {
        let inside = Space::Discrete(n).contains_observation(&[*value]);
        (!inside).then(|| format!("one of the whole numbers 0..={}", n.saturating_sub(1)))
    };
    obs.iter().enumerate().find_map(|(i, value)| {
        let range = match space {
            Space::Discrete(n) => choices(value, *n),
            Space::MultiDiscrete(n) => choices(value, n[i]),
            Space::Box { low, high } => {
                let inside = low[i] <= *value && *value <= high[i];
                (!inside).then(|| format!("in the range {}..={}", low[i], high[i]))
            }
        };
        range.map(|range| format!("observation[{i}] is {value}, but must be {range}"))
    })
}

/// Checks that a reward is finite.
pub(crate) fn check_reward(when: &str, reward: f64, findings: &mut Findings) {
    if !reward.is_finite() {
        findings.add(
            "reward-finite",
            format!(
                "{when}, the reward is {reward}. Look for a division by zero or a logarithm of \
                 zero, and bound the reward"
            ),
        );
    }
}

/// Checks that everything saved as `name` lies under that name; otherwise two environments in one
/// snapshot would overwrite each other.
pub(crate) fn check_snapshot_names(name: &str, snapshot: &Snapshot, findings: &mut Findings) {
    let inside = |array: &str| {
        array.strip_prefix(name).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
    };
    if let Some((array, _)) = snapshot.iter().find(|(array, _)| !inside(array)) {
        findings.add(
            "snapshot-names",
            format!(
                "saved as `{name}`, the environment wrote an array `{array}`. \
                 Build every name as format!(\"{{name}}/part\")"
            ),
        );
    }
}

/// Actions outside the space, of every kind.
pub(crate) fn invalid_actions(space: &Space) -> Vec<Action> {
    match space {
        Space::Discrete(n) => vec![Action::Discrete(*n), Action::Continuous(vec![0.0])],
        Space::MultiDiscrete(n) => {
            let mut beyond = vec![0; n.len()];
            beyond[0] = n[0];
            vec![
                Action::MultiDiscrete(beyond),
                Action::MultiDiscrete(vec![0; n.len() + 1]),
                Action::Discrete(0),
            ]
        }
        Space::Box { low, high } => {
            let mut invalid = vec![
                Action::Continuous(vec![f32::NAN; low.len()]),
                Action::Continuous([low.as_slice(), &[0.0]].concat()),
                Action::Discrete(0),
            ];
            if high[0].is_finite() {
                let mut beyond = high.clone();
                beyond[0] = high[0].next_up();
                invalid.push(Action::Continuous(beyond));
            }
            invalid
        }
    }
}
