//! A trained policy: what to do for an observation, as one file that anything
//! can load without a trainer and without a simulator.

use std::sync::Arc;

use homeostat_core::{Array, Persist, Snapshot, Stream};
use homeostat_env::{Action, EnvSpec, Space};
use homeostat_nn::{Activation, Head, Init, MlpShape, Network, StateFile, argmax, decode, encode};
use serde::{Deserialize, Serialize};

use crate::{ActionCodec, Encoder, Error, Result, Workspace};

const KIND: &str = "homeostat-policy/1";

/// How a stochastic policy chooses.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Sampling {
    /// The most probable action.
    Greedy,
    /// A draw from the distribution.
    Stochastic,
}

/// A policy that acts and no longer learns.
#[derive(Debug, Clone)]
pub struct Policy {
    facts: Facts,
    encoder: Encoder,
    codec: ActionCodec,
    brain: Brain,
}

#[derive(Debug, Clone)]
enum Brain {
    /// A distribution over actions.
    Stochastic(Network, Head),
    /// Values of the choices; the highest wins.
    Values(Network),
    /// The action itself, in [-1, 1].
    Deterministic(Network),
    /// Values of the choices for each observation index.
    Table(Vec<f32>),
}

/// The header of a policy file.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
struct Facts {
    /// Version of this software.
    homeostat: String,
    algorithm: String,
    env: String,
    observation: SpaceRecord,
    action: SpaceRecord,
    /// Name of each number of an observation, in order.
    features: Vec<String>,
    brain: BrainRecord,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum BrainRecord {
    Stochastic { widths: Vec<usize>, activation: Activation },
    Values { widths: Vec<usize>, activation: Activation },
    Deterministic { widths: Vec<usize>, activation: Activation },
    Table { states: usize, actions: usize },
}

/// A space in JSON; an infinite end is null there.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum SpaceRecord {
    Box { low: Vec<Option<f32>>, high: Vec<Option<f32>> },
    Discrete { n: usize },
    MultiDiscrete { n: Vec<usize> },
}

impl Policy {
    pub(crate) fn stochastic(spec: &EnvSpec, algorithm: &str, network: Network) -> Self {
        let head = ActionCodec::new(&spec.action).head();
        let (widths, activation) = describe(&network);
        let record = BrainRecord::Stochastic { widths, activation };
        Self::new(spec, algorithm, record, Brain::Stochastic(network, head))
    }

    pub(crate) fn values(spec: &EnvSpec, algorithm: &str, network: Network) -> Self {
        let (widths, activation) = describe(&network);
        Self::new(
            spec,
            algorithm,
            BrainRecord::Values { widths, activation },
            Brain::Values(network),
        )
    }

    pub(crate) fn deterministic(spec: &EnvSpec, algorithm: &str, network: Network) -> Self {
        let (widths, activation) = describe(&network);
        let record = BrainRecord::Deterministic { widths, activation };
        Self::new(spec, algorithm, record, Brain::Deterministic(network))
    }

    pub(crate) fn table(spec: &EnvSpec, algorithm: &str, actions: usize, values: Vec<f32>) -> Self {
        let record = BrainRecord::Table { states: values.len() / actions, actions };
        Self::new(spec, algorithm, record, Brain::Table(values))
    }

    fn new(spec: &EnvSpec, algorithm: &str, record: BrainRecord, brain: Brain) -> Self {
        Self {
            facts: Facts {
                homeostat: env!("CARGO_PKG_VERSION").to_owned(),
                algorithm: algorithm.to_owned(),
                env: spec.id.to_string(),
                observation: SpaceRecord::new(&spec.observation),
                action: SpaceRecord::new(&spec.action),
                features: spec.card.observation.iter().map(|field| field.name.to_owned()).collect(),
                brain: record,
            },
            encoder: Encoder::new(&spec.observation),
            codec: ActionCodec::new(&spec.action),
            brain,
        }
    }

    /// The environment it was trained for.
    pub fn env(&self) -> &str {
        &self.facts.env
    }

    /// What it looks at.
    pub fn observation(&self) -> Space {
        self.facts.observation.space()
    }

    /// What it answers.
    pub fn action(&self) -> Space {
        self.facts.action.space()
    }

    /// The algorithm it was trained by.
    pub fn algorithm(&self) -> &str {
        &self.facts.algorithm
    }

    /// Writes the action for one observation. `rng` is drawn from only by a
    /// stochastic policy that is not greedy.
    pub fn act(
        &self,
        obs: &[f32],
        sampling: Sampling,
        rng: &mut Stream,
        action: &mut Action,
        workspace: &mut Workspace,
    ) {
        let Workspace { kernel, actor, head: scratch, features, actions, .. } = workspace;
        let x = features.at_least(self.encoder.features());
        self.encoder.encode(obs, x);
        match &self.brain {
            Brain::Stochastic(network, head) => {
                let outputs = network.forward(*kernel, x, 1, actor);
                let row = actions.at_least(head.action_len());
                match sampling {
                    Sampling::Greedy => head.mode(outputs, row),
                    Sampling::Stochastic => {
                        head.sample(*kernel, outputs, network.extra(), rng, row, scratch)
                    }
                }
                self.codec.decode(row, action);
            }
            Brain::Values(network) => {
                let choice = argmax(network.forward(*kernel, x, 1, actor));
                self.codec.decode(&[choice as f32], action);
            }
            Brain::Deterministic(network) => {
                let outputs = network.forward(*kernel, x, 1, actor);
                let row = actions.at_least(outputs.len());
                row.copy_from_slice(outputs);
                self.codec.stretch(row);
                self.codec.decode(row, action);
            }
            Brain::Table(values) => {
                let states = self.encoder.features();
                let choices = values.len() / states;
                let row = &values[(obs[0] as usize).min(states - 1) * choices..][..choices];
                self.codec.decode(&[argmax(row) as f32], action);
            }
        }
    }

    /// The policy as the bytes of a file.
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut file = StateFile {
            kind: KIND.to_owned(),
            header: serde_json::to_value(&self.facts).expect("plain data"),
            ..StateFile::default()
        };
        match &self.brain {
            Brain::Stochastic(network, _)
            | Brain::Values(network)
            | Brain::Deterministic(network) => {
                network.save("network", &mut file.arrays);
                for index in 0..network.layer_count() {
                    let (_, _, shape) = network.layer(index);
                    file.shapes.insert(format!("network/{index}/weight"), shape.to_vec());
                }
            }
            Brain::Table(values) => {
                file.arrays.put_f32("table", values.as_slice());
                let BrainRecord::Table { states, actions } = self.facts.brain else {
                    unreachable!("a table has a table's record")
                };
                file.shapes.insert("table".to_owned(), vec![states, actions]);
            }
        }
        encode(&file)
    }

    /// Reads what [`Policy::to_bytes`] wrote.
    pub fn from_bytes(bytes: &[u8]) -> Result<Self> {
        let file = decode(bytes, KIND)?;
        let damaged = |what: String| Error::PolicyFile { what };
        let facts: Facts =
            serde_json::from_value(file.header).map_err(|e| damaged(e.to_string()))?;
        let (observation, action) = (facts.observation.space(), facts.action.space());
        observation
            .validate()
            .and_then(|()| action.validate())
            .map_err(|e| damaged(e.to_string()))?;
        if !facts.brain.suits(&observation, &action) {
            return Err(damaged(format!(
                "a {} brain cannot see {observation} and answer {action}",
                facts.brain.name()
            )));
        }
        require_finite(&file.arrays)?;
        let (encoder, codec) = (Encoder::new(&observation), ActionCodec::new(&action));
        let network = |widths: &[usize],
                       activation,
                       output_activation,
                       outputs: usize,
                       extra: usize|
         -> Result<Network> {
            if widths.first() != Some(&encoder.features()) || widths.last() != Some(&outputs) {
                return Err(damaged(format!(
                    "network {widths:?} does not fit {observation} and {action}"
                )));
            }
            require_layers(&file.arrays, widths)?;
            let shape = MlpShape::new(widths, activation, output_activation)?;
            let mut network =
                Network::new(Arc::new(shape), extra, Init::UniformFanIn, &mut Stream::from_seed(0));
            network.load("network", &file.arrays)?;
            Ok(network)
        };
        let head = codec.head();
        let brain = match &facts.brain {
            BrainRecord::Stochastic { widths, activation } => Brain::Stochastic(
                network(widths, *activation, Activation::Identity, head.outputs(), head.extra())?,
                head,
            ),
            BrainRecord::Values { widths, activation } => Brain::Values(network(
                widths,
                *activation,
                Activation::Identity,
                head.outputs(),
                0,
            )?),
            BrainRecord::Deterministic { widths, activation } => Brain::Deterministic(network(
                widths,
                *activation,
                Activation::Tanh,
                head.outputs(),
                0,
            )?),
            BrainRecord::Table { states, actions } => {
                if (*states, *actions) != (encoder.features(), head.outputs()) {
                    return Err(damaged(format!(
                        "a table of {states} by {actions} does not fit {observation} and {action}"
                    )));
                }
                Brain::Table(file.arrays.f32s("table", states.saturating_mul(*actions))?.to_vec())
            }
        };
        Ok(Self { facts, encoder, codec, brain })
    }
}

fn require_finite(arrays: &Snapshot) -> Result<()> {
    for (name, array) in arrays.iter() {
        let Array::F32(numbers) = array else { continue };
        if let Some(index) = numbers.iter().position(|number| !number.is_finite()) {
            let what = format!("{name}[{index}] is not finite ({})", numbers[index]);
            return Err(Error::PolicyFile { what });
        }
    }
    Ok(())
}

/// Refuses widths that are not those of the arrays, before memory is taken for them.
fn require_layers(arrays: &Snapshot, widths: &[usize]) -> Result<()> {
    for (index, pair) in widths.windows(2).enumerate() {
        let weights = pair[0].saturating_mul(pair[1]);
        arrays.f32s(&format!("network/{index}/weight"), weights)?;
        arrays.f32s(&format!("network/{index}/bias"), pair[1])?;
    }
    Ok(())
}

fn describe(network: &Network) -> (Vec<usize>, Activation) {
    (network.shape().widths(), network.shape().activation())
}

impl BrainRecord {
    fn name(&self) -> &'static str {
        match self {
            Self::Stochastic { .. } => "stochastic",
            Self::Values { .. } => "values",
            Self::Deterministic { .. } => "deterministic",
            Self::Table { .. } => "table",
        }
    }

    fn suits(&self, observation: &Space, action: &Space) -> bool {
        let is_choice = |space: &Space| matches!(space, Space::Discrete(_));
        match self {
            Self::Stochastic { .. } => true,
            Self::Values { .. } => is_choice(action),
            Self::Deterministic { .. } => match action {
                Space::Box { low, high } => low.iter().chain(high).all(|end| end.is_finite()),
                _ => false,
            },
            Self::Table { .. } => is_choice(observation) && is_choice(action),
        }
    }
}

impl SpaceRecord {
    fn new(space: &Space) -> Self {
        let ends = |ends: &[f32]| {
            ends.iter().map(|end| Some(*end).filter(|end| end.is_finite())).collect()
        };
        match space {
            Space::Box { low, high } => Self::Box { low: ends(low), high: ends(high) },
            Space::Discrete(n) => Self::Discrete { n: *n },
            Space::MultiDiscrete(n) => Self::MultiDiscrete { n: n.clone() },
        }
    }

    fn space(&self) -> Space {
        let ends =
            |ends: &[Option<f32>], open| ends.iter().map(|end| end.unwrap_or(open)).collect();
        match self {
            Self::Box { low, high } => {
                Space::Box { low: ends(low, f32::NEG_INFINITY), high: ends(high, f32::INFINITY) }
            }
            Self::Discrete { n } => Space::Discrete(*n),
            Self::MultiDiscrete { n } => Space::MultiDiscrete(n.clone()),
        }
    }
}
