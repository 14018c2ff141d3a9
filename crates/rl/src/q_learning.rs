//! Tabular Q-learning (Watkins, 1989), for environments with few states.

use homeostat_core::{Persist, Snapshot, Stream};
use homeostat_env::{Action, Space};
use homeostat_nn::argmax;
use serde::{Deserialize, Serialize};

use crate::algorithm::{MAX_ENVS, count, suited_to, unit};
use crate::learner::Guard;
use crate::schedule::decayed;
use crate::{AgentContext, Error, Learned, Learner, Outcome, Policy, Result, Workspace};

/// Settings of tabular Q-learning.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct QLearningConfig {
    /// Environments that the agent acts in at once.
    pub num_envs: usize,
    /// Learning rate: the fraction of the error that one step corrects.
    pub learning_rate: f32,
    /// Discount factor; one is allowed, because tables are for environments that terminate.
    pub gamma: f32,
    /// Probability of a random action at the start.
    pub epsilon_start: f32,
    /// Probability of a random action after the decay.
    pub epsilon_end: f32,
    /// Steps over which it decays linearly.
    pub epsilon_decay_steps: u64,
    /// Initial values. Optimistic values encourage exploration.
    pub initial_value: f32,
}

impl Default for QLearningConfig {
    fn default() -> Self {
        Self {
            num_envs: 1,
            learning_rate: 0.1,
            gamma: 0.99,
            epsilon_start: 1.0,
            epsilon_end: 0.05,
            epsilon_decay_steps: 5_000,
            initial_value: 0.0,
        }
    }
}

impl QLearningConfig {
    /// An error for settings outside their range.
    pub fn validate(&self) -> Result<()> {
        count("q-learning.num_envs", self.num_envs, MAX_ENVS)?;
        unit("q-learning.learning_rate", self.learning_rate)?;
        unit("q-learning.gamma", self.gamma)?;
        unit("q-learning.epsilon_start", self.epsilon_start)?;
        unit("q-learning.epsilon_end", self.epsilon_end)?;
        if self.initial_value.is_finite() {
            return Ok(());
        }
        Err(Error::Setting {
            setting: "q-learning.initial_value".to_owned(),
            value: self.initial_value.to_string(),
            expected: "it must be a finite number".into(),
        })
    }

    /// Probability of a random action after this many steps.
    fn epsilon(&self, step: u64) -> f64 {
        decayed(self.epsilon_start, self.epsilon_end, self.epsilon_decay_steps, step)
    }
}

/// One agent with a table of values.
pub struct QLearning {
    config: QLearningConfig,
    guard: Guard,
    choices: usize,
    /// Values of the choices, state after state.
    table: Vec<f32>,
    /// State and choice of each environment's step that is being played.
    pending: Vec<(usize, usize)>,
    /// Sum and number of the errors since the last report.
    errors: (f64, u64),
    rng: Stream,
    context: AgentContext,
}

/// Steps between two lines in the log.
const REPORT_EVERY: u64 = 1_000;

impl QLearning {
    /// An agent with initial values.
    pub fn new(config: &QLearningConfig, context: &AgentContext) -> Result<Self> {
        config.validate()?;
        let (Space::Discrete(states), Space::Discrete(choices)) =
            (&context.spec.observation, &context.spec.action)
        else {
            return Err(Error::Unsuited {
                algorithm: "q-learning",
                env: context.spec.id.to_string(),
                reason: format!(
                    "a table needs discrete states and actions, these are {} and {}; try {}",
                    context.spec.observation,
                    context.spec.action,
                    suited_to(&context.spec.action)
                ),
            });
        };
        Ok(Self {
            guard: Guard::new(context.agent),
            choices: *choices,
            table: vec![config.initial_value; states * choices],
            pending: vec![(0, 0); config.num_envs],
            errors: (0.0, 0),
            rng: context.seeds.stream("explore"),
            context: context.clone(),
            config: config.clone(),
        })
    }

    /// The row of the table for an observation, and its values. Like the encoder of
    /// the networks, it takes what lies beyond the last state for the last.
    fn values(&self, obs: f32) -> (usize, &[f32]) {
        let last = self.table.len() / self.choices - 1;
        let state = (obs as usize).min(last);
        (state, &self.table[state * self.choices..][..self.choices])
    }

    /// The table, state after state.
    pub fn table(&self) -> &[f32] {
        &self.table
    }
}

impl Learner for QLearning {
    fn num_envs(&self) -> usize {
        self.config.num_envs
    }

    fn act(&mut self, obs: &[f32], actions: &mut [Action], _: &mut Workspace) -> Result<()> {
        self.guard.finite("observation", obs)?;
        let epsilon = self.config.epsilon(self.guard.step);
        for env in 0..self.config.num_envs {
            let is_random = self.rng.uniform() < epsilon;
            let (state, values) = self.values(obs[env]);
            self.guard.finite("q values", values)?;
            let choice = if is_random { self.rng.below(self.choices) } else { argmax(values) };
            self.pending[env] = (state, choice);
            actions[env] = Action::Discrete(choice);
        }
        Ok(())
    }

    fn record(&mut self, env: usize, outcome: Outcome<'_>, _: &mut Workspace) -> Result<()> {
        let reward = self.guard.take_in(&outcome, 1.0)?;
        let beyond = if outcome.terminated {
            0.0
        } else {
            let (_, values) = self.values(outcome.next_obs[0]);
            self.guard.finite("q values", values)?;
            values[argmax(values)]
        };
        let (state, choice) = self.pending[env];
        let cell = &mut self.table[state * self.choices + choice];
        let error = self.guard.number("q error", reward + self.config.gamma * beyond - *cell)?;
        *cell += self.config.learning_rate * error;
        self.errors.0 += f64::from(error.abs());
        self.errors.1 += 1;
        Ok(())
    }

    /// The table is updated with every step; this only reports.
    fn learn(&mut self, _: f64, _: &mut Workspace) -> Result<Option<Learned>> {
        if self.errors.1 < REPORT_EVERY {
            return Ok(None);
        }
        let (sum, count) = std::mem::take(&mut self.errors);
        Ok(Some(Learned {
            figures: vec![
                ("absolute_error", sum / count as f64),
                ("epsilon", self.config.epsilon(self.guard.step)),
            ],
        }))
    }

    fn policy(&self) -> Policy {
        Policy::table(&self.context.spec, "q-learning", self.choices, self.table.clone())
    }

    fn value(&self, obs: &[f32], _: &mut Workspace) -> f32 {
        let (_, values) = self.values(obs[0]);
        values[argmax(values)]
    }

    fn bytes(&self) -> usize {
        self.table.len() * size_of::<f32>()
    }
}

impl Persist for QLearning {
    fn save(&self, name: &str, out: &mut Snapshot) {
        out.put_f32(&format!("{name}/table"), self.table.as_slice());
        out.put_u64(&format!("{name}/clock"), [self.guard.step, self.errors.1]);
        out.put_f64(&format!("{name}/errors"), [self.errors.0]);
        self.rng.save(&format!("{name}/rng"), out);
    }

    fn load(&mut self, name: &str, from: &Snapshot) -> homeostat_core::Result<()> {
        from.copy_f32s(&format!("{name}/table"), &mut self.table)?;
        let clock = from.u64s(&format!("{name}/clock"), 2)?;
        self.guard.step = clock[0];
        self.errors = (from.f64s(&format!("{name}/errors"), 1)?[0], clock[1]);
        self.rng.load(&format!("{name}/rng"), from)
    }
}
