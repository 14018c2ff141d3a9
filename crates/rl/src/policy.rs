//! A trained policy: one file that maps observations to actions, without a trainer and without a
//! simulator.

use std::collections::BTreeMap;
use std::sync::Arc;

use homeostat_core::{Array, ControlSchema, Persist, Snapshot, Stream};
use homeostat_env::{Action, EnvSpec, Space};
use homeostat_nn::{Activation, Head, Init, MlpShape, Network, StateFile, argmax, decode, encode};
use serde::{Deserialize, Serialize};

use crate::constrained_model::{ConstrainedModel, ModelWidths};
use crate::{ActionCodec, Encoder, Error, Result, Workspace};

const KIND: &str = "homeostat-policy/2";

/// Where a policy comes from.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Provenance {
    /// The environment it was trained in.
    pub env: String,
    /// The training run, if it has a directory.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub run: Option<RunProvenance>,
    /// What off-policy evaluation found before it was written, if it was evaluated.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub evaluation: Option<RecordedEvaluation>,
}

/// What off-policy evaluation found of a policy. It is part of the file: whoever serves the policy can
/// check that it was evaluated, and no evaluation of another file counts.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RecordedEvaluation {
    /// Lower end of the interval of the policy's value, by fitted Q.
    pub policy_low: f64,
    /// The value of what was recorded.
    pub behaviour: f64,
    /// Part of repeated evaluations whose interval should hold the true value.
    pub confidence: f64,
    /// Discount factor of the values.
    pub discount: f64,
    /// Trajectories that it was evaluated on, none of which it learnt from.
    pub trajectories: usize,
    /// Their transitions.
    pub transitions: usize,
}

/// The training run that a policy comes from.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RunProvenance {
    /// The root seed.
    pub seed: u64,
    /// Steps of each agent.
    pub steps: u64,
    /// Every setting that affects results; the number of threads, for example, does not.
    pub settings: BTreeMap<String, String>,
    /// SHA-256 of settings, seed and steps.
    pub hash: String,
}

/// How a stochastic policy chooses.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Sampling {
    /// The most probable action.
    Greedy,
    /// A draw from the distribution.
    Stochastic,
}

/// A policy that acts and no longer learns.
///
/// ```
/// use homeostat_core::{AgentId, SeedTree, Stream};
/// use homeostat_env::{Action, make};
/// use homeostat_nn::Kernel;
/// use homeostat_rl::{AgentContext, Algorithm, Policy, Sampling, Workspace};
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let spec = make("classic/cartpole-v1")?.spec().clone();
/// let context = AgentContext { agent: AgentId::new(0), spec, seeds: SeedTree::new(1) };
/// let learner = Algorithm::Ppo.default_config().build(&context)?;
///
/// let file: Vec<u8> = learner.policy().to_bytes();
/// let policy = Policy::from_bytes(&file)?;
/// assert_eq!(policy.env(), "classic/cartpole-v1");
/// let names: Vec<&str> =
///     policy.schema().features.features.iter().map(|feature| feature.name.as_str()).collect();
/// assert_eq!(names, ["position", "velocity", "angle", "angular velocity"]);
///
/// let (mut rng, mut workspace) = (Stream::from_seed(1), Workspace::new(Kernel::best()));
/// let mut action = Action::Discrete(0);
/// policy.act(&[0.0; 4], Sampling::Greedy, &mut rng, &mut action, &mut workspace);
/// assert!(policy.action().contains(&action));
/// # Ok(())
/// # }
/// ```
#[derive(Debug, Clone)]
pub struct Policy {
    /// Boxed, since acting does not read it: a fleet's policies then lie close together.
    facts: Box<Facts>,
    encoder: Encoder,
    codec: ActionCodec,
    model: Model,
}

#[derive(Debug, Clone)]
enum Model {
    /// A distribution over actions.
    Stochastic(Network, Head),
    /// Values of the choices; the highest wins.
    Values(Network),
    /// The action itself, in [-1, 1].
    Deterministic(Network),
    /// Values of the choices for each observation index.
    Table(Vec<f32>),
    /// The best of a generative model's actions, in [-1, 1].
    Constrained(Box<ConstrainedModel>),
}

/// The header of a policy file.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
struct Facts {
    /// Version of this software.
    homeostat: String,
    algorithm: String,
    observation: SpaceRecord,
    action: SpaceRecord,
    /// What the numbers of an observation and of an action are. Policies of one environment share it.
    schema: Arc<ControlSchema>,
    provenance: Provenance,
    model: ModelRecord,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum ModelRecord {
    Stochastic {
        widths: Vec<usize>,
        activation: Activation,
    },
    Values {
        widths: Vec<usize>,
        activation: Activation,
    },
    Deterministic {
        widths: Vec<usize>,
        activation: Activation,
    },
    Table {
        states: usize,
        actions: usize,
    },
    /// Widths of each network by name, and the number of candidates.
    Constrained {
        widths: BTreeMap<String, Vec<usize>>,
        candidates: usize,
    },
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
        let record = ModelRecord::Stochastic { widths, activation };
        Self::new(spec, algorithm, record, Model::Stochastic(network, head))
    }

    pub(crate) fn values(spec: &EnvSpec, algorithm: &str, network: Network) -> Self {
        let (widths, activation) = describe(&network);
        Self::new(
            spec,
            algorithm,
            ModelRecord::Values { widths, activation },
            Model::Values(network),
        )
    }

    pub(crate) fn deterministic(spec: &EnvSpec, algorithm: &str, network: Network) -> Self {
        let (widths, activation) = describe(&network);
        let record = ModelRecord::Deterministic { widths, activation };
        Self::new(spec, algorithm, record, Model::Deterministic(network))
    }

    pub(crate) fn table(spec: &EnvSpec, algorithm: &str, actions: usize, values: Vec<f32>) -> Self {
        let record = ModelRecord::Table { states: values.len() / actions, actions };
        Self::new(spec, algorithm, record, Model::Table(values))
    }

    pub(crate) fn constrained(spec: &EnvSpec, algorithm: &str, model: ConstrainedModel) -> Self {
        let widths = model.networks().map(|(name, net)| (name.to_owned(), net.shape().widths()));
        let latent_len = model.latent_len(Encoder::new(&spec.observation).features());
        let candidates = model.latents.len() / latent_len;
        let record = ModelRecord::Constrained { widths: widths.into(), candidates };
        Self::new(spec, algorithm, record, Model::Constrained(Box::new(model)))
    }

    fn new(spec: &EnvSpec, algorithm: &str, record: ModelRecord, model: Model) -> Self {
        Self {
            facts: Box::new(Facts {
                homeostat: env!("CARGO_PKG_VERSION").to_owned(),
                algorithm: algorithm.to_owned(),
                observation: SpaceRecord::new(&spec.observation),
                action: SpaceRecord::new(&spec.action),
                schema: spec.control_schema(),
                provenance: Provenance { env: spec.id.to_string(), ..Provenance::default() },
                model: record,
            }),
            encoder: Encoder::new(&spec.observation),
            codec: ActionCodec::new(&spec.action),
            model,
        }
    }

    /// The environment it was trained in.
    pub fn env(&self) -> &str {
        &self.facts.provenance.env
    }

    /// What it reads and answers.
    pub fn schema(&self) -> &ControlSchema {
        &self.facts.schema
    }

    /// Where it comes from.
    pub fn provenance(&self) -> &Provenance {
        &self.facts.provenance
    }

    /// The same with the run it comes from, or without one.
    pub fn with_run(mut self, run: Option<RunProvenance>) -> Self {
        self.facts.provenance.run = run;
        self
    }

    /// The same with what an evaluation found of it.
    pub fn with_evaluation(mut self, evaluation: Option<RecordedEvaluation>) -> Self {
        self.facts.provenance.evaluation = evaluation;
        self
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

    /// Writes the action for one observation. Only a stochastic policy with
    /// [`Sampling::Stochastic`] draws from `rng`.
    pub fn act(
        &self,
        obs: &[f32],
        sampling: Sampling,
        rng: &mut Stream,
        action: &mut Action,
        workspace: &mut Workspace,
    ) {
        if let Model::Constrained(model) = &self.model {
            let row = model.act(&self.encoder, obs, workspace);
            self.codec.stretch(row);
            self.codec.decode(row, action);
            return;
        }
        let Workspace { kernel, actor, head: scratch, features, actions, .. } = workspace;
        let x = features.at_least(self.encoder.features());
        self.encoder.encode(obs, x);
        match &self.model {
            Model::Stochastic(network, head) => {
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
            Model::Values(network) => {
                let choice = argmax(network.forward(*kernel, x, 1, actor));
                self.codec.decode(&[choice as f32], action);
            }
            Model::Deterministic(network) => {
                let outputs = network.forward(*kernel, x, 1, actor);
                let row = actions.at_least(outputs.len());
                row.copy_from_slice(outputs);
                self.codec.stretch(row);
                self.codec.decode(row, action);
            }
            Model::Table(values) => {
                let states = self.encoder.features();
                let choices = values.len() / states;
                let row = &values[(obs[0] as usize).min(states - 1) * choices..][..choices];
                self.codec.decode(&[argmax(row) as f32], action);
            }
            Model::Constrained(_) => unreachable!("it has acted above, with all of the workspace"),
        }
    }

    /// The policy as the bytes of a file.
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut file = StateFile {
            kind: KIND.to_owned(),
            header: serde_json::to_value(&self.facts).expect("plain data"),
            ..StateFile::default()
        };
        match &self.model {
            Model::Stochastic(network, _)
            | Model::Values(network)
            | Model::Deterministic(network) => {
                save_network("network", network, &mut file);
            }
            Model::Table(values) => {
                file.arrays.put_f32("table", values.as_slice());
                let ModelRecord::Table { states, actions } = self.facts.model else {
                    unreachable!("a table has a table's record")
                };
                file.shapes.insert("table".to_owned(), vec![states, actions]);
            }
            Model::Constrained(model) => model.save(&mut file),
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
        if !facts.model.suits(&observation, &action) {
            return Err(damaged(format!(
                "a {} model cannot read {observation} and answer {action}",
                facts.model.name()
            )));
        }
        let (fields, parts) =
            (facts.schema.features.features.len(), facts.schema.action.parts.len());
        if (fields, parts) != (observation.len(), action.len()) {
            return Err(damaged(format!(
                "schemas of {fields} features and {parts} parts of an action do not fit \
                 {observation} and {action}"
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
            require_layers("network", &file.arrays, widths)?;
            let shape = MlpShape::new(widths, activation, output_activation)?;
            let mut network =
                Network::new(Arc::new(shape), extra, Init::UniformFanIn, &mut Stream::from_seed(0));
            network.load("network", &file.arrays)?;
            Ok(network)
        };
        let head = codec.head();
        let model = match &facts.model {
            ModelRecord::Stochastic { widths, activation } => Model::Stochastic(
                network(widths, *activation, Activation::Identity, head.outputs(), head.extra())?,
                head,
            ),
            ModelRecord::Values { widths, activation } => Model::Values(network(
                widths,
                *activation,
                Activation::Identity,
                head.outputs(),
                0,
            )?),
            ModelRecord::Deterministic { widths, activation } => Model::Deterministic(network(
                widths,
                *activation,
                Activation::Tanh,
                head.outputs(),
                0,
            )?),
            ModelRecord::Table { states, actions } => {
                if (*states, *actions) != (encoder.features(), head.outputs()) {
                    return Err(damaged(format!(
                        "a table of {states} by {actions} does not fit {observation} and {action}"
                    )));
                }
                Model::Table(file.arrays.f32s("table", states.saturating_mul(*actions))?.to_vec())
            }
            ModelRecord::Constrained { widths, candidates } => {
                let reads = ModelWidths { features: encoder.features(), action: head.outputs() };
                let model = ConstrainedModel::load(&file.arrays, widths, *candidates, reads)?;
                Model::Constrained(Box::new(model))
            }
        };
        Ok(Self { facts: Box::new(facts), encoder, codec, model })
    }
}

/// Writes a network with the shapes of its layers.
pub(crate) fn save_network(name: &str, network: &Network, file: &mut StateFile) {
    network.save(name, &mut file.arrays);
    for index in 0..network.layer_count() {
        let (_, _, shape) = network.layer(index);
        file.shapes.insert(format!("{name}/{index}/weight"), shape.to_vec());
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
pub(crate) fn require_layers(name: &str, arrays: &Snapshot, widths: &[usize]) -> Result<()> {
    for (index, pair) in widths.windows(2).enumerate() {
        let weights = pair[0].saturating_mul(pair[1]);
        arrays.f32s(&format!("{name}/{index}/weight"), weights)?;
        arrays.f32s(&format!("{name}/{index}/bias"), pair[1])?;
    }
    Ok(())
}

fn describe(network: &Network) -> (Vec<usize>, Activation) {
    (network.shape().widths(), network.shape().activation())
}

impl ModelRecord {
    fn name(&self) -> &'static str {
        match self {
            Self::Stochastic { .. } => "stochastic",
            Self::Values { .. } => "values",
            Self::Deterministic { .. } => "deterministic",
            Self::Table { .. } => "table",
            Self::Constrained { .. } => "constrained",
        }
    }

    fn suits(&self, observation: &Space, action: &Space) -> bool {
        let is_choice = |space: &Space| matches!(space, Space::Discrete(_));
        match self {
            Self::Stochastic { .. } => true,
            Self::Values { .. } => is_choice(action),
            Self::Deterministic { .. } | Self::Constrained { .. } => match action {
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
