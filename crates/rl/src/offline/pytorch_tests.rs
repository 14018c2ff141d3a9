//! Whole updates against PyTorch, written by `tests/fixtures/make_offline_fixtures.py`: the same
//! weights, minibatches and noise lead to the same weights.

use std::collections::BTreeMap;
use std::sync::Arc;

use homeostat_core::{AgentId, Persist, SeedTree, Snapshot, Stream};
use homeostat_env::{EnvSpec, Space, make};
use homeostat_nn::{Activation, Init, Kernel, MlpShape, Network};
use serde::Deserialize;
use serde::de::DeserializeOwned;

use super::dataset::Batch;
use super::{Bcq, Iql, Td3Bc};
use crate::{AgentContext, Workspace};

const FEATURES: usize = 3;
/// As in the tests of the other algorithms: weights move by a hundredth and more.
const TOLERANCE: f64 = 2e-6;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Fixture {
    torch: String,
    cases: Vec<Case>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Case {
    name: String,
    algorithm: String,
    config: serde_json::Value,
    actions: usize,
    batches: Vec<BatchRecord>,
    widths: BTreeMap<String, Vec<usize>>,
    before: BTreeMap<String, Vec<f32>>,
    after: BTreeMap<String, Vec<f64>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct BatchRecord {
    states: Vec<f32>,
    actions: Vec<f32>,
    rewards: Vec<f32>,
    next_states: Vec<f32>,
    continues: Vec<f32>,
    noise: Vec<f32>,
}

/// A perceptron with these parameters in PyTorch's order, the head's last.
fn network(widths: &[usize], parameters: &[f32]) -> Network {
    let shape = MlpShape::new(widths, Activation::Relu, Activation::Identity).expect("valid");
    let extra = parameters.len() - shape_parameters(widths);
    let mut network =
        Network::new(Arc::new(shape), extra, Init::UniformFanIn, &mut Stream::from_seed(0));
    let mut rest = parameters;
    for (index, pair) in widths.windows(2).enumerate() {
        let (weights, after) = rest.split_at(pair[0] * pair[1]);
        let (bias, after) = after.split_at(pair[1]);
        network.set_layer(index, weights, bias);
        rest = after;
    }
    network.extra_mut().copy_from_slice(rest);
    network
}

fn shape_parameters(widths: &[usize]) -> usize {
    widths.windows(2).map(|pair| pair[0] * pair[1] + pair[1]).sum()
}

fn in_pytorch_order(network: &Network) -> Vec<f32> {
    let layers = (0..network.layer_count()).flat_map(|index| {
        let (weights, bias, _) = network.layer(index);
        weights.into_iter().chain(bias)
    });
    layers.chain(network.extra().iter().copied()).collect()
}

/// An agent that is driven batch by batch.
trait Driven: Persist {
    fn drive(&mut self, batch: Batch, noise: Vec<f32>, number: u64, workspace: &mut Workspace);
}

impl Driven for Td3Bc {
    fn drive(&mut self, batch: Batch, noise: Vec<f32>, number: u64, workspace: &mut Workspace) {
        (self.batch, self.noise) = (batch, noise);
        self.set_steps(number);
        self.update(workspace).expect("the fixture is finite");
    }
}

impl Driven for Iql {
    fn drive(&mut self, batch: Batch, _: Vec<f32>, _: u64, workspace: &mut Workspace) {
        self.batch = batch;
        self.update(workspace).expect("the fixture is finite");
    }
}

impl Driven for Bcq {
    fn drive(&mut self, batch: Batch, noise: Vec<f32>, _: u64, workspace: &mut Workspace) {
        assert_eq!(noise.len(), self.noise_len(batch.rows), "every draw is used");
        (self.batch, self.noise) = (batch, noise);
        self.update(workspace).expect("the fixture is finite");
    }
}

fn config<T: DeserializeOwned>(case: &Case) -> T {
    serde_json::from_value(case.config.clone()).expect("the script knows the settings")
}

fn agent(case: &Case) -> Box<dyn Driven> {
    let like = make("classic/pendulum-v1").expect("it exists").spec().clone();
    let spec = EnvSpec {
        control: None,
        observation: Space::uniform_box(FEATURES, -1.0, 1.0),
        action: Space::uniform_box(case.actions, -2.0, 2.0),
        ..like
    };
    let context = AgentContext { agent: AgentId::new(0), spec, seeds: SeedTree::new(0) };
    match case.algorithm.as_str() {
        "td3-bc" => Box::new(Td3Bc::new(&config(case), &context).expect("valid")),
        "iql" => Box::new(Iql::new(&config(case), &context).expect("valid")),
        "bcq" => Box::new(Bcq::new(&config(case), &context).expect("valid")),
        other => panic!("{other} is no offline algorithm"),
    }
}

fn check(case: &Case, kernel: Kernel) {
    let mut agent = agent(case);
    let mut state = Snapshot::default();
    agent.save("agent", &mut state);
    for (name, parameters) in &case.before {
        network(&case.widths[name], parameters).save(&format!("agent/{name}"), &mut state);
    }
    agent.load("agent", &state).expect("only numbers have changed");
    let mut workspace = Workspace::new(kernel);
    for (number, record) in (1..).zip(&case.batches) {
        let batch = Batch {
            rows: record.rewards.len(),
            states: record.states.clone(),
            actions: record.actions.clone(),
            rewards: record.rewards.clone(),
            next_states: record.next_states.clone(),
            continues: record.continues.clone(),
        };
        agent.drive(batch, record.noise.clone(), number, &mut workspace);
    }
    agent.save("agent", &mut state);
    for (name, expect) in &case.after {
        let mut got = network(&case.widths[name], &case.before[name]);
        got.load(&format!("agent/{name}"), &state).expect("the shapes agree");
        for (index, (got, expect)) in in_pytorch_order(&got).iter().zip(expect).enumerate() {
            let error = (f64::from(*got) - expect).abs() / expect.abs().max(1.0);
            let (kernel, algorithm, case) = (kernel, &case.algorithm, &case.name);
            assert!(
                error <= TOLERANCE,
                "{kernel} {algorithm}, {case}: {name}[{index}] is {got}, expected {expect}: off by \
                 {error:.1e}"
            );
        }
    }
}

#[test]
fn updates_agree_with_pytorch() {
    let json = include_str!("../../tests/fixtures/offline.json");
    let fixture: Fixture = serde_json::from_str(json).expect("the script wrote this file");
    assert_eq!(fixture.torch, "2.15.0", "all fixtures come from one version");
    for kernel in Kernel::available() {
        fixture.cases.iter().for_each(|case| check(case, kernel));
    }
    let algorithms: Vec<&str> = fixture.cases.iter().map(|case| case.algorithm.as_str()).collect();
    for algorithm in super::OfflineAlgorithm::ALL {
        assert!(algorithms.contains(&algorithm.name()), "{} has no case", algorithm.name());
    }
}
