//! Agents small enough to be broken in one place.

use std::hint::black_box;

use homeostat_core::{Array, Snapshot};
use homeostat_env::{Action, EnvSpec, Space};
use homeostat_nn::Activation;
use homeostat_rl::{
    AdvantageNormalisation, AlgorithmConfig, DdpgConfig, DqnConfig, Learner, NoiseConfig, Outcome,
    PpoConfig, QLearningConfig, ReinforceConfig, Result, Workspace,
};

use crate::agents;
use crate::play::{context, spec, workspace};

/// Settings and spaces of an agent.
pub(super) type Kind = (AlgorithmConfig, EnvSpec);

/// Agent 7, which learns in every second step, after three steps that went well.
pub(super) struct Subject {
    learner: Box<dyn Learner>,
    pub(super) obs: Vec<f32>,
    steps: u64,
    workspace: Workspace,
}

pub(super) const CHOICES: Space = Space::Discrete(3);

pub(super) fn plane() -> Space {
    Space::uniform_box(2, -1.0, 1.0)
}

pub(super) fn kinds() -> [Kind; 7] {
    [
        ppo(CHOICES),
        ppo(plane()),
        dqn(),
        ddpg(),
        q_learning(),
        reinforce(CHOICES),
        reinforce(plane()),
    ]
}

/// One hidden unit behind a relu, here as in the others: easy to bring to where
/// only gradients overflow.
pub(super) fn ppo_config() -> PpoConfig {
    PpoConfig {
        num_envs: 1,
        steps_per_update: 2,
        minibatch: 2,
        hidden: vec![1],
        activation: Activation::Relu,
        normalise_advantages: AdvantageNormalisation::Never,
        max_grad_norm: None,
        ..agents::ppo()
    }
}

pub(super) fn ppo(action: Space) -> Kind {
    (AlgorithmConfig::Ppo(ppo_config()), spec(plane(), action))
}

pub(super) fn dqn() -> Kind {
    let config = DqnConfig {
        learning_starts: 2,
        train_every: 2,
        hidden: vec![1],
        epsilon_start: 0.0,
        epsilon_end: 0.0,
        target_update_every: 1_000,
        max_grad_norm: None,
        ..agents::dqn()
    };
    (AlgorithmConfig::Dqn(config), spec(plane(), CHOICES))
}

pub(super) fn ddpg() -> Kind {
    let config = DdpgConfig {
        learning_starts: 0,
        train_every: 2,
        hidden: vec![1],
        noise: NoiseConfig::Gaussian { sigma: 0.0 },
        ..agents::ddpg()
    };
    (AlgorithmConfig::Ddpg(config), spec(plane(), plane()))
}

pub(super) fn q_learning() -> Kind {
    let config = QLearningConfig { epsilon_start: 0.0, epsilon_end: 0.0, ..agents::q_learning() };
    (AlgorithmConfig::QLearning(config), spec(Space::Discrete(1), CHOICES))
}

pub(super) fn reinforce(action: Space) -> Kind {
    let config = ReinforceConfig {
        hidden: vec![1],
        activation: Activation::Relu,
        normalise_advantages: false,
        max_grad_norm: None,
        ..agents::reinforce()
    };
    (AlgorithmConfig::Reinforce(config), spec(plane(), action))
}

impl Subject {
    pub(super) fn new((config, spec): &Kind) -> Self {
        let learner = config.build(&context(spec, 7, 1)).expect("the spaces suit it");
        let obs = match spec.observation {
            Space::Discrete(_) => vec![0.0],
            _ => vec![1.0; spec.observation.len()],
        };
        let mut subject = Self { learner, obs, steps: 0, workspace: workspace() };
        for _ in 0..3 {
            subject.step().expect("all numbers are finite yet");
        }
        subject
    }

    pub(super) fn step(&mut self) -> Result<()> {
        let obs = self.obs.clone();
        self.step_with(&obs, 1.0, &obs)
    }

    pub(super) fn step_with(&mut self, obs: &[f32], reward: f64, next_obs: &[f32]) -> Result<()> {
        let Self { learner, workspace, .. } = self;
        self.steps += 1;
        learner.act(obs, &mut [Action::Discrete(0)], workspace)?;
        let truncated = self.steps.is_multiple_of(2);
        let outcome = Outcome { reward, terminated: false, truncated, next_obs };
        learner.record(0, outcome, workspace)?;
        learner.learn(0.0, workspace)?;
        Ok(())
    }

    /// Changes one array of the agent's saved state.
    pub(super) fn edit(&mut self, array: &str, change: impl FnOnce(&mut Vec<f32>)) {
        let mut snapshot = self.snapshot();
        let name = format!("agent/{array}");
        let mut numbers = snapshot.any_f32s(&name).expect("the agent has this array").to_vec();
        change(&mut numbers);
        snapshot.put_f32(&name, numbers);
        self.learner.load("agent", &snapshot).expect("only numbers have changed");
    }

    /// The error that ends the next few steps. Whatever is asked of the stopped agent
    /// afterwards, it does not panic.
    pub(super) fn stopped(&mut self) -> Option<String> {
        let error = (0..6).find_map(|_| self.step().err());
        self.is_still_answering();
        error.map(|error| error.to_string())
    }

    pub(super) fn is_still_answering(&mut self) {
        for _ in 0..6 {
            // Whether it goes on or refuses again is its own affair.
            drop(self.step());
        }
        black_box(self.learner.value(&self.obs, &mut self.workspace));
        black_box(self.learner.policy().to_bytes());
        black_box(self.snapshot());
    }

    fn snapshot(&self) -> Snapshot {
        let mut snapshot = Snapshot::default();
        self.learner.save("agent", &mut snapshot);
        snapshot
    }

    /// Names of the arrays that hold weights and moments, with their lengths.
    pub(super) fn weights_and_moments(&self) -> Vec<(String, usize)> {
        let kinds = ["/weight", "/bias", "/extra", "/mean", "/square", "/table"];
        let mut found = Vec::new();
        for (name, array) in self.snapshot().iter() {
            if let Array::F32(numbers) = array
                && kinds.iter().any(|kind| name.ends_with(kind))
            {
                found.push((name.trim_start_matches("agent/").to_owned(), numbers.len()));
            }
        }
        found
    }
}
