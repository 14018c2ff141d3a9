//! Policy files for tests, and the program that trains them.

use std::path::{Path, PathBuf};
use std::process::Command;

use homeostat_core::{AgentId, ControlSchema, FeatureSchema, SeedTree};
use homeostat_decide::{Features, Ratios, ScalingAction};
use homeostat_env::{EnvSpec, Space};
use homeostat_nn::Kernel;
use homeostat_rl::{
    AgentContext, AlgorithmConfig, OfflineConfig, OfflineDataset, PpoConfig, Recorded,
    RecordedEvaluation, Td3BcConfig, Workspace,
};
use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::ObjectMeta;

/// Key of a policy file in its ConfigMap.
pub(crate) const KEY: &str = "policy";

/// A ConfigMap with a policy file.
pub(crate) fn config_map(name: &str, file: Vec<u8>) -> ConfigMap {
    ConfigMap {
        metadata: ObjectMeta { name: Some(name.to_owned()), ..ObjectMeta::default() },
        binary_data: Some([(KEY.to_owned(), ByteString(file))].into()),
        ..ConfigMap::default()
    }
}

/// The program with the simulators, which the operator does not link. `cargo test --workspace` builds it
/// beside the operator.
pub(crate) fn homeostat() -> Command {
    let program: PathBuf = Path::new(env!("CARGO_BIN_EXE_homeostat-operator"))
        .with_file_name(format!("homeostat{}", std::env::consts::EXE_SUFFIX));
    assert!(
        program.exists(),
        "{} is missing; build it first: cargo build -p homeostat-cli",
        program.display()
    );
    Command::new(program)
}

/// An untrained policy that changes one dimension by one step.
pub(crate) fn of_steps() -> Vec<u8> {
    untrained(Features::schema())
}

/// The same, which reads its team as well.
pub(crate) fn of_steps_in_a_team() -> Vec<u8> {
    untrained(Features::team_schema())
}

/// `simppo+`, trained for a few episodes on a simulated platform with three functions.
pub(crate) fn of_simppo_plus() -> Vec<u8> {
    trained("faas/fleet-set-points-v1")
}

/// The same, whose agents read their team.
pub(crate) fn of_simppo_plus_in_a_team() -> Vec<u8> {
    trained("faas/fleet-set-points-team-v1")
}

fn trained(env: &str) -> Vec<u8> {
    let directory = tempfile::tempdir().expect("a directory");
    let run = directory.path().join("run");
    let answer = homeostat()
        .args(["train", "simppo+", "--env", env, "--set", "faas.functions=3"])
        .args(["--steps", "400", "--seed", "1", "--quiet", "--run-dir"])
        .arg(&run)
        .output()
        .expect("it starts");
    assert!(answer.status.success(), "{}", String::from_utf8_lossy(&answer.stderr));
    std::fs::read(run.join("policies/agent-0.policy")).expect("a policy file")
}

fn untrained(features: FeatureSchema) -> Vec<u8> {
    let action = ScalingAction::schema();
    let range = |field: &homeostat_core::FeatureField| field.low.zip(field.high).expect("a range");
    let (low, high) = features.features.iter().map(range).unzip();
    untrained_of(EnvSpec {
        observation: Space::Box { low, high },
        action: Space::Discrete(ScalingAction::ALL.len()),
        control: Some(ControlSchema { features, action, bounds: Vec::new() }.into()),
        ..task_spec()
    })
}

/// Only schemas and spaces matter to a policy file, not the task.
fn task_spec() -> EnvSpec {
    homeostat_env::make("classic/cartpole-v1").expect("it is built in").spec().clone()
}

fn untrained_of(spec: EnvSpec) -> Vec<u8> {
    let context = AgentContext { agent: AgentId::new(0), spec, seeds: SeedTree::new(1) };
    let learner = AlgorithmConfig::Ppo(PpoConfig::default()).build(&context).expect("valid");
    learner.policy().to_bytes()
}

/// A policy that learned offline, from decisions that doubled the pods, to double them; with what an
/// evaluation found of it.
pub(crate) fn that_doubles(evaluation: Option<RecordedEvaluation>) -> Vec<u8> {
    let schema = ControlSchema {
        features: Features::schema(),
        action: Ratios::schema(),
        bounds: Vec::new(),
    };
    let (low, high) = Features::RANGES.iter().copied().unzip();
    let spec = EnvSpec {
        id: "recorded/decisions-v1".parse().expect("an id"),
        observation: Space::Box { low, high },
        action: Space::uniform_box(Ratios::COUNT, -1.0, 1.0),
        control: Some(schema.into()),
        ..task_spec()
    };
    let mut data = OfflineDataset::new(&spec).expect("a box");
    for step in 0..64 {
        let obs = [0.5 + (step % 8) as f32 / 16.0; Features::COUNT];
        let recorded = Recorded {
            obs: &obs,
            action: &[0.5, 0.0, 0.0],
            reward: 0.8,
            next_obs: &obs,
            terminated: false,
        };
        data.push(&recorded).expect("finite");
    }
    let context = AgentContext { agent: AgentId::new(0), spec, seeds: SeedTree::new(1) };
    // Behaviour cloning alone: what the critic makes of one action does not matter here.
    let config =
        Td3BcConfig { minibatch: 32, hidden: vec![16], alpha: 1e-4, ..Td3BcConfig::default() };
    let mut learner = OfflineConfig::Td3Bc(config).build(&context).expect("valid");
    let mut workspace = Workspace::new(Kernel::best());
    for _ in 0..2000 {
        learner.learn(&data, &mut workspace).expect("finite");
    }
    learner.policy().with_evaluation(evaluation).to_bytes()
}

/// What an evaluation found, with a value of the fallback of 0.8.
pub(crate) fn found(policy_low: f64) -> Option<RecordedEvaluation> {
    Some(RecordedEvaluation {
        policy_low,
        behaviour: 0.8,
        confidence: 0.95,
        discount: 0.9,
        trajectories: 20,
        transitions: 1000,
    })
}

/// An untrained policy of an environment that has nothing to do with pods.
pub(crate) fn of_a_cart_pole() -> Vec<u8> {
    untrained_of(task_spec())
}
