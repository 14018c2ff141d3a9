//! Off-policy evaluation: what a policy would be worth, estimated from decisions of another one.
//!
//! The value of a policy is its mean discounted reward from the beginning of a trajectory on,
//! `(1 - gamma) sum of gamma^t r_t`: in the units of one reward, whatever the discount. Two
//! estimates of it: fitted Q (`fitted_q.rs`) and doubly robust (`doubly_robust.rs`). Their intervals
//! come from the spread over trajectories, so they count the chance in the data; they do not count
//! what the recorded actions never tried, nor what the observation leaves out.

mod doubly_robust;
mod fitted_q;
mod linear;

use homeostat_core::trajectory::{End, Transition};
use homeostat_core::{SeedTree, Stream};
use homeostat_env::{Action, Space};
use homeostat_nn::Kernel;

use crate::{ActionCodec, Encoder, Error, Policy, Result, Sampling, Workspace};
use doubly_robust::{FeatureQ, doubly_robust};
use fitted_q::{FittedQ, QFeatures};

/// A recorded trajectory.
#[derive(Debug, Clone, PartialEq)]
pub struct Recording {
    /// What was controlled, for messages.
    pub workload: String,
    /// The decisions in their order.
    pub transitions: Vec<Transition>,
    /// How it ended and what was observed then. Of an open trajectory the last transition is left
    /// out, since what followed is not known.
    pub end: Option<(End, Vec<f32>)>,
}

/// Settings of an evaluation.
#[derive(Debug, Clone, PartialEq)]
pub struct EvaluationConfig {
    /// Discount factor.
    pub gamma: f64,
    /// Part of repeated evaluations whose interval should hold the true value.
    pub confidence: f64,
    /// Resamples of the trajectories, for the spread of fitted Q.
    pub resamples: usize,
    /// A continuous action of the policy is blurred by a normal distribution of this deviation, in
    /// units of [-1, 1], so that a recorded action has a probability under it. Doubly robust only.
    pub smoothing: f64,
    /// The largest product of probability ratios. It bounds the variance and costs a bias towards
    /// fitted Q.
    pub max_ratio: f64,
    /// Seed of the resamples.
    pub seed: u64,
}

impl Default for EvaluationConfig {
    fn default() -> Self {
        Self {
            gamma: 0.9,
            confidence: 0.95,
            resamples: 200,
            smoothing: 0.1,
            max_ratio: 20.0,
            seed: 1,
        }
    }
}

impl EvaluationConfig {
    /// An error for settings outside their range.
    pub fn validate(&self) -> Result<()> {
        let check = |is_valid: bool, setting: &str, value: f64, expected: &'static str| {
            if is_valid {
                return Ok(());
            }
            let (setting, value) = (format!("evaluation.{setting}"), value.to_string());
            Err(Error::Setting { setting, value, expected: expected.into() })
        };
        let open = |number: f64| number > 0.0 && number < 1.0;
        let below_one = "it must lie from 0 to below 1";
        check((0.0..1.0).contains(&self.gamma), "gamma", self.gamma, below_one)?;
        check(open(self.confidence), "confidence", self.confidence, "it must lie between 0 and 1")?;
        let resamples = self.resamples as f64;
        let range = "it must lie from 20 to 100000";
        check((20..=100_000).contains(&self.resamples), "resamples", resamples, range)?;
        let is_positive = |number: f64| number > 0.0 && number.is_finite();
        let positive = "it must be a number above 0";
        check(is_positive(self.smoothing), "smoothing", self.smoothing, positive)?;
        check(is_positive(self.max_ratio), "max_ratio", self.max_ratio, positive)
    }
}

/// An estimate with its interval.
#[derive(Debug, Clone, Copy, PartialEq, serde::Serialize)]
pub struct Estimate {
    /// The estimate.
    pub value: f64,
    /// Lower end of its interval.
    pub low: f64,
    /// Upper end.
    pub high: f64,
}

/// What recorded trajectories say about a policy.
#[derive(Debug, Clone, PartialEq, serde::Serialize)]
pub struct OfflineEvaluation {
    /// Trajectories used.
    pub trajectories: usize,
    /// Their transitions.
    pub transitions: usize,
    /// The value of the behaviour that was recorded.
    pub behaviour: Estimate,
    /// The value of the policy by fitted Q.
    pub fitted_q: Estimate,
    /// By fitted Q, how much more the policy is worth than the behaviour. Its interval is narrower
    /// than those of the two, which err together.
    pub gain: Estimate,
    /// The value of the policy, doubly robust; none if the probabilities of recorded actions are not
    /// known.
    pub doubly_robust: Option<Estimate>,
    /// Transitions whose probability ratios count, in the doubly robust estimate: the sum of the
    /// ratios squared over the sum of their squares.
    pub effective_transitions: Option<f64>,
    /// Mean distance of the policy's action from the recorded one, in units of [-1, 1] for a
    /// continuous action; the part of actions that differ, for choices. Far from what was recorded,
    /// an estimate extrapolates.
    pub distance: f64,
}

/// Fewest trajectories that an interval can come from.
pub const MIN_TRAJECTORIES: usize = 8;

/// Estimates the value of the policy, as it is served: its most probable action.
pub fn evaluate(
    policy: &Policy,
    recordings: &[Recording],
    config: &EvaluationConfig,
) -> Result<OfflineEvaluation> {
    config.validate()?;
    let prepared = prepare(policy, recordings)?;
    if prepared.len() < MIN_TRAJECTORIES {
        let what = format!(
            "an interval needs at least {MIN_TRAJECTORIES} trajectories with two decisions, and \
             there are {}: record more",
            prepared.len()
        );
        return Err(Error::Dataset { transition: 0, what });
    }
    let features = QFeatures::of(&prepared);
    let fitted = FittedQ::new(&features, &prepared, config);
    let seeds = SeedTree::new(config.seed);
    let spread = fitted.spread(config, &mut seeds.stream("resamples"));
    let mut rng = seeds.stream("doubly robust resamples");
    let q = FeatureQ { features: &features, fitted: &fitted };
    let robust = doubly_robust(&q, &prepared, &policy.action(), config, &mut rng);
    let transitions: usize = prepared.iter().map(|one| one.steps.len()).sum();
    let distances = prepared.iter().flat_map(|one| one.steps.iter().map(|step| step.distance));
    Ok(OfflineEvaluation {
        trajectories: prepared.len(),
        transitions,
        behaviour: spread.behaviour,
        fitted_q: spread.policy,
        gain: spread.gain,
        doubly_robust: robust.as_ref().map(|robust| robust.estimate),
        effective_transitions: robust.map(|robust| robust.effective_transitions),
        distance: distances.sum::<f64>() / transitions as f64,
    })
}

/// A trajectory with the policy's actions beside the recorded ones.
struct Prepared {
    steps: Vec<Step>,
}

/// One decision. Actions are in [-1, 1] for a box, and one-hot for choices.
struct Step {
    state: Vec<f32>,
    recorded: Vec<f32>,
    chosen: Vec<f32>,
    reward: f64,
    /// Probability of the recorded action under the behaviour.
    probability: Option<f64>,
    distance: f64,
    next: Next,
}

/// What follows a decision.
struct Next {
    state: Vec<f32>,
    /// The policy's action there.
    chosen: Vec<f32>,
    /// The behaviour's; none at the end of a trajectory.
    recorded: Option<Vec<f32>>,
    /// 0 where the task ended, else 1.
    continues: f64,
}

fn prepare(policy: &Policy, recordings: &[Recording]) -> Result<Vec<Prepared>> {
    let (observation, action) = (policy.observation(), policy.action());
    let mut acting = Acting::new(policy);
    let (mut prepared, mut number) = (Vec::new(), 0);
    for recording in recordings {
        let count = recording.transitions.len();
        let mut steps = Vec::new();
        for (index, transition) in recording.transitions.iter().enumerate() {
            let Transition { observation: obs, action: taken, reward, probability, .. } =
                transition;
            let refuse = |what: String| Err(Error::Dataset { transition: number, what });
            if obs.len() != observation.len() || taken.len() != action.len() {
                let workload = &recording.workload;
                let (features, parts) = (observation.len(), action.len());
                return refuse(format!(
                    "{workload} has {} features and {} parts of an action, and the policy {features} \
                     and {parts}",
                    obs.len(),
                    taken.len()
                ));
            }
            let numbers = obs.iter().chain(taken).map(|number| f64::from(*number));
            if let Some(number) = numbers.chain([*reward]).find(|number| !number.is_finite()) {
                return refuse(format!("a number of it is not finite ({number})"));
            }
            number += 1;
            let following = recording.transitions.get(index + 1);
            let (next_obs, continues) = match (following, &recording.end) {
                (Some(next), _) => (&next.observation, 1.0),
                (None, Some((End::Truncated, last))) => (last, 1.0),
                (None, Some((End::Terminated, last))) => (last, 0.0),
                (None, None) => break,
            };
            let next = Next {
                chosen: acting.act(next_obs),
                recorded: following.map(|next| acting.encode(&next.action)),
                state: acting.state(next_obs),
                continues,
            };
            let (recorded, chosen) = (acting.encode(taken), acting.act(obs));
            steps.push(Step {
                state: acting.state(obs),
                distance: distance(&action, &recorded, &chosen),
                recorded,
                chosen,
                reward: *reward,
                probability: *probability,
                next,
            });
        }
        if count >= 2 && !steps.is_empty() {
            prepared.push(Prepared { steps });
        }
    }
    Ok(prepared)
}

/// Root mean square over the numbers of a box; the part of choices that differ.
fn distance(action: &Space, recorded: &[f32], chosen: &[f32]) -> f64 {
    let squares: f64 =
        recorded.iter().zip(chosen).map(|(one, other)| f64::from(one - other).powi(2)).sum();
    match action {
        Space::Box { .. } => (squares / recorded.len() as f64).sqrt(),
        // Two one-hot groups that differ are two apart.
        _ => squares / 2.0 / action.len() as f64,
    }
}

/// The policy at work.
struct Acting<'p> {
    policy: &'p Policy,
    encoder: Encoder,
    space: Space,
    codec: ActionCodec,
    workspace: Workspace,
    action: Action,
    /// Greedy policies do not draw from it.
    rng: Stream,
}

impl<'p> Acting<'p> {
    fn new(policy: &'p Policy) -> Self {
        let space = policy.action();
        let codec = ActionCodec::new(&space);
        let workspace = Workspace::new(Kernel::best());
        let (action, rng) = (Action::Discrete(0), Stream::from_seed(0));
        let encoder = Encoder::new(&policy.observation());
        Self { policy, encoder, space, codec, workspace, action, rng }
    }

    /// The features of an observation.
    fn state(&self, obs: &[f32]) -> Vec<f32> {
        let mut state = vec![0.0; self.encoder.features()];
        self.encoder.encode(obs, &mut state);
        state
    }

    fn act(&mut self, obs: &[f32]) -> Vec<f32> {
        let Self { policy, workspace, action, rng, .. } = self;
        policy.act(obs, Sampling::Greedy, rng, action, workspace);
        let numbers: Vec<f32> = match &self.action {
            Action::Discrete(choice) => vec![*choice as f32],
            Action::MultiDiscrete(choices) => choices.iter().map(|choice| *choice as f32).collect(),
            Action::Continuous(values) => values.clone(),
        };
        self.encode(&numbers)
    }

    /// Numbers of a box scaled to [-1, 1], choices one-hot.
    fn encode(&self, action: &[f32]) -> Vec<f32> {
        let one_hot = |choice: f32, choices: usize| {
            (0..choices).map(move |k| if k == choice as usize { 1.0 } else { 0.0 })
        };
        match &self.space {
            Space::Box { .. } => {
                let mut row = action.to_vec();
                self.codec.shrink(&mut row);
                row
            }
            Space::Discrete(n) => one_hot(action[0], *n).collect(),
            Space::MultiDiscrete(n) => {
                action.iter().zip(n).flat_map(|(choice, n)| one_hot(*choice, *n)).collect()
            }
        }
    }
}

/// `value` with as many deviations on both sides as the confidence asks for.
fn interval(value: f64, deviation: f64, degrees: usize, confidence: f64) -> Estimate {
    let half = linear::student_t(degrees, 0.5 + confidence / 2.0) * deviation;
    Estimate { value, low: value - half, high: value + half }
}
