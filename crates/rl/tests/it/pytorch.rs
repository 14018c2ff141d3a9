//! Whole updates against PyTorch, written by `fixtures/make_pytorch_fixtures.py`:
//! the same weights and the same data lead to the same weights. The slopes of the
//! losses have tests of their own beside the losses.

mod ddpg;
mod dqn;
mod ppo;
mod reinforce;

use std::sync::Arc;

use homeostat_core::{Persist, Snapshot, Stream};
use homeostat_env::{Action, Space};
use homeostat_nn::{Activation, Init, MlpShape, Network};
use homeostat_rl::{Learner, Outcome, Workspace};
use serde::Deserialize;
use serde::de::DeserializeOwned;

const FEATURES: usize = 3;

/// In absolute terms below one and in relative terms above. The largest error of all
/// cases and kernels was 2.5e-7, while weights move by a hundredth and more.
const TOLERANCE: f64 = 2e-6;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Fixture<Case> {
    torch: String,
    cases: Vec<Case>,
}

fn cases<Case: DeserializeOwned>(json: &str) -> Vec<Case> {
    let fixture: Fixture<Case> = serde_json::from_str(json).expect("the script wrote this file");
    assert_eq!(fixture.torch, "2.15.0", "all fixtures come from one version");
    assert!(!fixture.cases.is_empty(), "a fixture without cases proves nothing");
    fixture.cases
}

/// The distribution over actions, by the number of choices or values.
#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "lowercase")]
enum HeadCase {
    Categorical(Vec<usize>),
    Gaussian([usize; 1]),
}

impl HeadCase {
    /// The action space that calls for it.
    fn space(&self) -> Space {
        match self {
            Self::Categorical(choices) if choices.len() == 1 => Space::Discrete(choices[0]),
            Self::Categorical(choices) => Space::MultiDiscrete(choices.clone()),
            Self::Gaussian([len]) => Space::uniform_box(*len, -2.0, 2.0),
        }
    }

    fn outputs(&self) -> usize {
        match self {
            Self::Categorical(choices) => choices.iter().sum(),
            Self::Gaussian([len]) => *len,
        }
    }
}

fn observation() -> Space {
    Space::uniform_box(FEATURES, -1.0, 1.0)
}

/// A perceptron whose parameters, in PyTorch's order and the head's last, are these.
fn network(inputs: usize, hidden: &[usize], outputs: usize, parameters: &[f32]) -> Network {
    let widths = [&[inputs], hidden, &[outputs]].concat();
    let in_layers: usize = widths.windows(2).map(|pair| pair[0] * pair[1] + pair[1]).sum();
    let extra = parameters.len() - in_layers;
    // The activations play no part: only the parameters are read.
    let shape =
        MlpShape::new(&widths, Activation::Tanh, Activation::Identity).expect("no width is zero");
    let mut network =
        Network::new(Arc::new(shape), extra, Init::UniformFanIn, &mut Stream::from_seed(0));
    let mut rest = parameters;
    for index in 0..network.layer_count() {
        let (weights, after) = rest.split_at(widths[index] * widths[index + 1]);
        let (bias, after) = after.split_at(widths[index + 1]);
        network.set_layer(index, weights, bias);
        rest = after;
    }
    network.extra_mut().copy_from_slice(rest);
    network
}

fn in_pytorch_order(network: &Network) -> Vec<f32> {
    let mut parameters = Vec::new();
    for index in 0..network.layer_count() {
        let (weights, bias, _) = network.layer(index);
        parameters.extend(weights);
        parameters.extend(bias);
    }
    parameters.extend_from_slice(network.extra());
    parameters
}

fn assert_parameters(what: &str, got: &Network, expect: &[f64]) {
    let got = in_pytorch_order(got);
    assert_eq!(got.len(), expect.len(), "{what}: number of parameters");
    for (index, (got, expect)) in got.iter().zip(expect).enumerate() {
        let error = (f64::from(*got) - expect).abs() / expect.abs().max(1.0);
        assert!(
            error <= TOLERANCE,
            "{what}[{index}] is {got}, expected {expect}: off by {error:.1e}"
        );
    }
}

/// Changes an agent through its saved state.
fn edit(learner: &mut dyn Learner, change: impl FnOnce(&mut Snapshot)) {
    let mut snapshot = Snapshot::default();
    learner.save("agent", &mut snapshot);
    change(&mut snapshot);
    learner.load("agent", &snapshot).expect("only numbers have changed");
}

/// A network of an agent, which has the shape of `like`.
fn saved_network(learner: &dyn Learner, name: &str, like: &Network) -> Network {
    let mut snapshot = Snapshot::default();
    learner.save("agent", &mut snapshot);
    let mut network = like.clone();
    network.load(&format!("agent/{name}"), &snapshot).expect("the shapes agree");
    network
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Transition {
    obs: Vec<f32>,
    action: Vec<f32>,
    reward: f64,
    next_obs: Vec<f32>,
    terminated: bool,
}

/// Lives through the transitions and learns after each, when it is the only one that
/// the replay has room for.
fn live_through(
    transitions: &[Transition],
    progress: f64,
    learner: &mut dyn Learner,
    workspace: &mut Workspace,
) {
    for Transition { obs, action, reward, next_obs, terminated } in transitions {
        learner.act(obs, &mut [Action::Discrete(0)], workspace).expect("the fixture is finite");
        let (reward, terminated) = (*reward, *terminated);
        let outcome = Outcome { reward, terminated, truncated: false, next_obs };
        learner.record(0, outcome, workspace).expect("the fixture is finite");
        // The agent chose for itself; the fixture has chosen otherwise.
        edit(learner, |state| state.put_f32("agent/replay/actions", action.as_slice()));
        learner
            .learn(progress, workspace)
            .expect("the fixture is finite")
            .expect("there is an update after every step");
    }
}
