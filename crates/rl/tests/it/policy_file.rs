//! A policy that went through a file acts as before; a file that is not one is refused
//! with a reason.

use std::io::Write;
use std::process::{Command, Stdio};

use homeostat_core::{Snapshot, Stream};
use homeostat_env::{Action, Space, make};
use homeostat_nn::{StateFile, decode, encode};
use homeostat_rl::{
    AlgorithmConfig, DdpgConfig, DqnConfig, NoiseConfig, Policy, QLearningConfig, Sampling,
};
use homeostat_test_skip::skip;
use proptest::prelude::*;
use serde_json::{Value, json};

use crate::agents;
use crate::play::{Play, workspace};

const KIND: &str = "homeostat-policy/2";

/// CartPole's observation, as messages spell it.
const SEEN: &str = "Box([-4.8, -inf, -0.41887903, -inf]..=[4.8, inf, 0.41887903, inf])";

/// A trained policy of every kind, and what it observes.
fn policies() -> Vec<(Policy, Space)> {
    let train = |(env_id, config): (&str, _)| {
        let mut play = Play::new(|| make(env_id), &config, 0, 1);
        play.rounds(250, &mut workspace());
        (
            play.learner.policy(),
            make(env_id).expect("the environment exists").spec().observation.clone(),
        )
    };
    agents::of_every_kind().into_iter().map(train).collect()
}

fn observation(space: &Space, rng: &mut Stream) -> Vec<f32> {
    match space.sample(rng) {
        Action::Discrete(choice) => vec![choice as f32],
        Action::MultiDiscrete(choices) => choices.iter().map(|choice| *choice as f32).collect(),
        Action::Continuous(values) => values,
    }
}

fn parts(policy: &Policy) -> StateFile {
    decode(&policy.to_bytes(), KIND).expect("it was just written")
}

#[test]
fn a_policy_from_a_file_acts_as_the_one_that_was_written() {
    let mut workspace = workspace();
    for (policy, space) in policies() {
        let read = Policy::from_bytes(&policy.to_bytes()).unwrap();
        assert_eq!((read.env(), read.algorithm()), (policy.env(), policy.algorithm()));
        assert_eq!(parts(&read), parts(&policy));
        let mut rng = Stream::from_seed(3);
        let (mut rng_of_written, mut rng_of_read) = (Stream::from_seed(4), Stream::from_seed(4));
        for sampling in [Sampling::Greedy, Sampling::Stochastic] {
            for _ in 0..200 {
                let obs = observation(&space, &mut rng);
                let mut actions = [Action::Discrete(0), Action::Discrete(0)];
                let [expect, got] = &mut actions;
                policy.act(&obs, sampling, &mut rng_of_written, expect, &mut workspace);
                read.act(&obs, sampling, &mut rng_of_read, got, &mut workspace);
                assert_eq!(got, expect, "{} on {}", read.algorithm(), read.env());
            }
        }
    }
}

#[test]
fn a_policy_does_what_its_agent_does_without_exploring() {
    let dqn = DqnConfig { epsilon_start: 0.0, epsilon_end: 0.0, ..agents::dqn() };
    let ddpg = DdpgConfig {
        learning_starts: 0,
        noise: NoiseConfig::Gaussian { sigma: 0.0 },
        ..agents::ddpg()
    };
    let q_learning =
        QLearningConfig { epsilon_start: 0.0, epsilon_end: 0.0, ..agents::q_learning() };
    for (env_id, config) in [
        ("classic/cartpole-v1", AlgorithmConfig::Dqn(dqn)),
        ("classic/pendulum-v1", AlgorithmConfig::Ddpg(ddpg)),
        ("toy/grid-world-v1", AlgorithmConfig::QLearning(q_learning)),
    ] {
        let (mut workspace, mut rng) = (workspace(), Stream::from_seed(3));
        let mut play = Play::new(|| make(env_id), &config, 0, 1);
        play.rounds(250, &mut workspace);
        let policy = play.learner.policy();
        for _ in 0..50 {
            let obs = observation(&make(env_id).unwrap().spec().observation, &mut rng);
            let (mut of_agent, mut of_policy) = ([Action::Discrete(0)], Action::Discrete(0));
            play.learner.act(&obs, &mut of_agent, &mut workspace).unwrap();
            policy.act(&obs, Sampling::Greedy, &mut rng, &mut of_policy, &mut workspace);
            assert_eq!(of_policy, of_agent[0], "{env_id}");
        }
    }
}

/// The parts of a fresh policy's file.
fn cartpole_file(config: AlgorithmConfig) -> StateFile {
    let play = Play::new(|| make("classic/cartpole-v1"), &config, 0, 1);
    parts(&play.learner.policy())
}

fn ppo_file() -> StateFile {
    cartpole_file(AlgorithmConfig::Ppo(agents::ppo()))
}

fn check_refused(file: &StateFile, expect: &str) {
    let error = Policy::from_bytes(&encode(file)).expect_err("it must be refused").to_string();
    assert_eq!(error, expect);
}

#[test]
fn a_header_that_does_not_fit_is_refused() {
    let check = |place: &str, value: Value, expect: &str| {
        let mut file = ppo_file();
        *file.header.pointer_mut(place).expect("the header has it") = value;
        check_refused(&file, &format!("policy file is damaged: {expect}"));
    };
    check("/model", Value::Null, "invalid type: null, expected string or map");
    check("/provenance/env", json!(1), "invalid type: integer `1`, expected a string");
    check("/action/discrete/n", json!(0), "space is invalid: a discrete space without choices");
    check("/observation/box/low", json!([0.0]), "space is invalid: 1 lower and 4 upper bounds");
    check(
        "/action/discrete/n",
        json!(3),
        &format!("network [4, 32, 2] does not fit {SEEN} and Discrete(3)"),
    );
    check(
        "/observation",
        json!({ "discrete": { "n": 5 } }),
        "schemas of 4 features and 1 parts of an action do not fit Discrete(5) and Discrete(2)",
    );
    check(
        "/model/stochastic/widths",
        json!([]),
        &format!("network [] does not fit {SEEN} and Discrete(2)"),
    );
    check(
        "/model/stochastic/activation",
        json!("sigmoid"),
        "unknown variant `sigmoid`, expected one of `identity`, `relu`, `tanh`",
    );
}

#[test]
fn a_model_that_does_not_suit_the_spaces_is_refused() {
    let check = |mut file: StateFile, part: &str, value: Value, expect: &str| {
        file.header[part] = value;
        check_refused(&file, &format!("policy file is damaged: {expect}"));
    };
    check(
        ppo_file(),
        "model",
        json!({ "deterministic": { "widths": [4, 32, 2], "activation": "tanh" } }),
        &format!("a deterministic model cannot read {SEEN} and answer Discrete(2)"),
    );
    check(
        ppo_file(),
        "model",
        json!({ "table": { "states": 4, "actions": 2 } }),
        &format!("a table model cannot read {SEEN} and answer Discrete(2)"),
    );
    check(
        cartpole_file(AlgorithmConfig::Dqn(agents::dqn())),
        "action",
        json!({ "multi-discrete": { "n": [1, 1] } }),
        &format!("a values model cannot read {SEEN} and answer MultiDiscrete([1, 1])"),
    );
}

#[test]
fn weights_that_are_not_the_networks_are_refused() {
    let check = |change: fn(&mut StateFile), expect: &str| {
        let mut file = ppo_file();
        change(&mut file);
        check_refused(&file, expect);
    };
    check(
        |file| file.arrays = Snapshot::default(),
        "snapshot has no array `network/0/weight`: \
         it was written by another version or for another shape",
    );
    check(
        |file| file.arrays.put_f32("network/0/weight", [0.0; 7]),
        "snapshot array `network/0/weight` is 7 f32, expected 128 f32",
    );
    check(
        |file| file.arrays.put_u8("network/1/bias", [0, 0]),
        "snapshot array `network/1/bias` is 2 u8, expected an array of f32",
    );
    check(
        |file| file.arrays.put_f32("network/1/bias", [0.0, f32::NAN]),
        "policy file is damaged: network/1/bias[1] is not finite (NaN)",
    );
    // More than any machine could hold: refused before memory is asked for.
    check(
        |file| file.header["model"]["stochastic"]["widths"] = json!([4, 1u64 << 62, 2]),
        "snapshot array `network/0/weight` is 128 f32, expected 18446744073709551615 f32",
    );
}

#[test]
fn another_kind_of_file_is_refused() {
    let kind = "homeostat-checkpoint/1".to_owned();
    check_refused(
        &StateFile { kind, ..ppo_file() },
        "file is homeostat-checkpoint/1, expected homeostat-policy/2",
    );
    let error = Policy::from_bytes(b"{}").unwrap_err().to_string();
    assert!(error.starts_with("file is damaged: not a safetensors file"), "{error}");
}

proptest! {
    #[test]
    fn no_torn_or_altered_policy_is_accepted(place in any::<prop::sample::Index>(), bit in 0u8..8) {
        let file = ppo_file();
        let written = encode(&file);
        let place = place.index(written.len());
        prop_assert!(Policy::from_bytes(&written[..place]).is_err());
        let mut altered = written;
        altered[place] ^= 1 << bit;
        // A flip may land in white space of the header; then nothing has changed.
        if let Ok(policy) = Policy::from_bytes(&altered) {
            prop_assert_eq!(parts(&policy), file);
        }
    }
}

/// Prints name, shape and sum of every array; 77 says that the package is missing.
const READ_BY_PYTHON: &str = "
import json, struct, sys
try:
    import safetensors
except ImportError:
    sys.exit(77)
arrays = {}
for name, array in safetensors.deserialize(sys.stdin.buffer.read()):
    assert array['dtype'] == 'F32', array['dtype']
    numbers = [number for (number,) in struct.iter_unpack('<f', array['data'])]
    arrays[name] = {'shape': array['shape'], 'sum': sum(numbers)}
print(json.dumps(arrays))
";

#[test]
fn pythons_safetensors_reads_the_file() {
    #[expect(clippy::disallowed_methods, reason = "which Python to test against is no config")]
    let python = std::env::var("HOMEOSTAT_TEST_PYTHON").unwrap_or_default();
    if python.is_empty() {
        return skip("run ./test, which sets HOMEOSTAT_TEST_PYTHON");
    }
    let file = ppo_file();
    let mut child = Command::new(&python)
        .args(["-c", READ_BY_PYTHON])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap_or_else(|error| panic!("HOMEOSTAT_TEST_PYTHON={python} does not start: {error}"));
    let mut stdin = child.stdin.take().expect("stdin is piped");
    // Without the package it hangs up early; the exit code tells.
    let written = stdin.write_all(&encode(&file));
    drop(stdin);
    let output = child.wait_with_output().expect("the peer can be waited for");
    if output.status.code() == Some(77) {
        return skip("HOMEOSTAT_TEST_PYTHON has no safetensors");
    }
    written.expect("the peer reads the file");
    assert!(output.status.success(), "the peer failed: {}", output.status);
    let read: Value = serde_json::from_slice(&output.stdout).expect("the peer answers in JSON");
    assert_eq!(read.as_object().map(|arrays| arrays.len()), Some(file.arrays.iter().count()));
    for (name, shape) in [
        ("network/0/weight", vec![32, 4]),
        ("network/0/bias", vec![32]),
        ("network/1/weight", vec![2, 32]),
        ("network/1/bias", vec![2]),
    ] {
        let sum: f64 = file.arrays.any_f32s(name).unwrap().iter().copied().map(f64::from).sum();
        assert_eq!(read[name]["shape"], json!(shape), "{name}");
        assert!((read[name]["sum"].as_f64().unwrap() - sum).abs() < 1e-9, "{name}");
    }
}
