//! The methods of the chapter, their rivals, and what this project adds, as settings.

use homeostat_rl::{AdvantageNormalisation, PpoConfig, Schedule, presets};
use serde::{Deserialize, Serialize};

use crate::{Error, Result};

/// How a team learns.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Method {
    /// Whose reward an agent learns from.
    pub reward_sharing: RewardSharing,
    /// What its critic sees beyond its own state.
    pub critic_input: CriticInput,
    /// With whom it shares its networks.
    pub parameter_sharing: ParameterSharing,
    /// Who acts when.
    pub order: Order,
    /// Copies of the environment that are played at once.
    pub num_envs: usize,
}

/// Whose reward an agent learns from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum RewardSharing {
    /// Its own.
    Own,
    /// The mean of all agents' (section 4.7.1).
    Team,
    /// The sum of all agents' (the EuroMLSys paper).
    Total,
}

/// What a critic sees beyond the agent's own state.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum CriticInput {
    /// Nothing.
    Local,
    /// The virtual agent: all the others, with deviations (section 4.7.1).
    Others,
    /// The same without deviations (the EuroMLSys paper).
    OthersPlain,
    /// The mean of every figure of all the others' states (SIMPPO-All).
    AllStates,
    /// One virtual agent for each category of functions.
    #[serde(alias = "kinds")]
    Typed,
}

/// With whom an agent shares its networks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ParameterSharing {
    /// No sharing: every agent has its own networks.
    #[serde(alias = "nobody")]
    None,
    /// No sharing; a newcomer starts from the base model of its type (section 4.7.2).
    Base,
    /// One pair of networks for each type of function.
    Kind,
    /// One pair of networks for all.
    All,
}

/// Who acts when.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Order {
    /// All agents in every step.
    Together,
    /// One agent in each step, the one whose SLO is met worst; the others hold.
    Queue,
}

impl Method {
    /// Refuses settings outside their range.
    pub fn validate(&self) -> Result<()> {
        if (1..=MAX_ENVS).contains(&self.num_envs) {
            return Ok(());
        }
        Err(Error::Setting {
            setting: "simppo.num_envs",
            need: format!("from 1 to {MAX_ENVS}"),
            value: self.num_envs.to_string(),
        })
    }
}

/// More copies of an environment than any machine has use for.
const MAX_ENVS: usize = 1024;

impl Default for Method {
    fn default() -> Self {
        Self {
            reward_sharing: RewardSharing::Team,
            critic_input: CriticInput::Others,
            parameter_sharing: ParameterSharing::Base,
            order: Order::Together,
            num_envs: 1,
        }
    }
}

/// The environment that a coordinator hosts for agents on a network, unless another is named.
pub const HOSTED_ENV: &str = "faas/fleet-v3";

/// A method by name, with everything it takes to train it.
#[derive(Debug, Clone, PartialEq)]
pub struct Preset {
    /// Its name.
    pub name: &'static str,
    /// What it is.
    pub summary: &'static str,
    /// How the team learns.
    pub method: Method,
    /// How each of its networks does.
    pub ppo: PpoConfig,
    /// The environment it was made for.
    pub env: &'static str,
}

impl Preset {
    /// Every method, the printed ones first.
    pub fn all() -> Vec<Self> {
        let table_4_2 = presets::simppo();
        let printed =
            |name, summary, reward_sharing, critic_input, parameter_sharing, order| Self {
                name,
                summary,
                method: Method {
                    reward_sharing,
                    critic_input,
                    parameter_sharing,
                    order,
                    num_envs: 1,
                },
                ppo: table_4_2.clone(),
                env: "faas/fleet-v3",
            };
        use CriticInput::{AllStates, Local, Others, OthersPlain, Typed};
        use Order::{Queue, Together};
        use ParameterSharing::{All, Base, None as NotShared};
        use RewardSharing::{Own, Team, Total};
        vec![
            // The single agent's minibatch: section 4.5.2 keeps everything else as it was alone.
            Self {
                ppo: presets::s_rl(),
                ..printed("s-rl", "independent agents", Own, Local, NotShared, Together)
            },
            printed(
                "il-rl",
                "independent agents that learn from the mean reward",
                Team,
                Local,
                NotShared,
                Together,
            ),
            printed(
                "cpq-rl",
                "one agent acts per step, the one with the worst SLO preservation",
                Own,
                Local,
                NotShared,
                Queue,
            ),
            // Updates every 200 steps: four episodes here.
            Self {
                ppo: presets::ma_ppo(),
                ..printed(
                    "ma-ppo",
                    "the sum of all rewards; critics observe the virtual agent",
                    Total,
                    OthersPlain,
                    NotShared,
                    Together,
                )
            },
            printed(
                "simppo",
                "the mean reward; critics observe the virtual agent; newcomers start from base models",
                Team,
                Others,
                Base,
                Together,
            ),
            printed(
                "simppo-all",
                "SIMPPO whose critics observe the mean of all states",
                Team,
                AllStates,
                Base,
                Together,
            ),
            printed(
                "simppo-alone",
                "SIMPPO without parameter sharing",
                Team,
                Others,
                NotShared,
                Together,
            ),
            printed(
                "simppo-typed",
                "SIMPPO with a virtual agent for each category of functions",
                Team,
                Typed,
                Base,
                Together,
            ),
            Self {
                name: "simppo+",
                summary: "one network for all agents, set-points as actions, the SLO violations of the team as reward",
                method: Method {
                    reward_sharing: Team,
                    critic_input: Others,
                    parameter_sharing: All,
                    order: Together,
                    num_envs: 4,
                },
                ppo: plus(),
                env: "faas/fleet-set-points-v1",
            },
        ]
    }

    /// The method of this name. `simppo-kinds` is the former name of `simppo-typed`.
    pub fn by_name(name: &str) -> Option<Self> {
        let name = if name == "simppo-kinds" { "simppo-typed" } else { name };
        Self::all().into_iter().find(|preset| preset.name == name)
    }
}

/// Settings of `simppo+`, chosen on seeds that no reported figure uses. The minibatch is for one
/// agent in one environment, as everywhere here.
fn plus() -> PpoConfig {
    PpoConfig {
        num_envs: 1,
        steps_per_update: 50,
        epochs: 5,
        minibatch: 5,
        actor_learning_rate: 1e-3,
        critic_learning_rate: 1e-3,
        schedule: Schedule::Linear,
        gamma: 0.9,
        entropy_coefficient: 0.01,
        normalise_advantages: AdvantageNormalisation::Batch,
        ..PpoConfig::default()
    }
}
