//! Files that other programs must be able to open, opened by those programs.

use std::process::Command;

use homeostat_core::Stream;
use homeostat_env::Action;
use homeostat_nn::Kernel;
use homeostat_rl::{Policy, Sampling, Workspace};
use homeostat_test_skip::skip;

use crate::homeostat::Workplace;

/// Runs Python code with the packages that `./test` installs; nothing without them.
fn python(place: &Workplace, code: &str) -> Option<String> {
    let Ok(python) = std::env::var("HOMEOSTAT_TEST_PYTHON") else {
        skip("no Python packages; run ./test, which installs them");
        return None;
    };
    let output =
        Command::new(python).arg("-c").arg(code).current_dir(place.path(".")).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    Some(String::from_utf8(output.stdout).unwrap())
}

#[test]
fn tensorboard_reads_the_event_files() {
    let place = Workplace::new();
    place.done("train ppo --env toy/identity-v1 --steps 6144 --quiet --tensorboard --run-dir run");
    let code = "
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
events = EventAccumulator('run/tensorboard'); events.Reload()
for event in events.Scalars('agent-0/return_recent'): print(event.step, event.value)
";
    let Some(read) = python(&place, code) else { return };
    let metrics = String::from_utf8(place.read("run/metrics.jsonl")).unwrap();
    let lines: Vec<serde_json::Value> =
        metrics.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(read.lines().count(), lines.len());
    for (read, line) in read.lines().zip(&lines) {
        let (step, value) = read.split_once(' ').unwrap();
        assert_eq!(step, line["step"].to_string());
        let expect = line["return_recent"].as_f64().unwrap();
        assert!((value.parse::<f64>().unwrap() - expect).abs() < 1e-4 * expect.abs().max(1.0));
    }
}

#[test]
fn numpy_reads_a_policy_file_and_chooses_the_same_actions() {
    let place = Workplace::new();
    place.done("train ppo --env classic/cartpole-v1 --steps 4096 --quiet --run-dir run");
    let code = "
import json
import numpy as np
from safetensors import safe_open
with safe_open('run/policies/agent-0.policy', framework='np') as file:
    header = json.loads(file.metadata()['homeostat'])['header']
    tensors = {name: file.get_tensor(name) for name in file.keys()}
assert header['provenance']['env'] == 'classic/cartpole-v1', header
assert len(header['schema']['features']['features']) == 4, header
assert tensors['network/0/weight'].shape == (64, 4), tensors['network/0/weight'].shape
for x in np.random.default_rng(7).normal(size=(200, 4)).astype(np.float32):
    y = x
    for layer in range(3):
        y = tensors[f'network/{layer}/weight'] @ y + tensors[f'network/{layer}/bias']
        y = np.tanh(y) if layer < 2 else y
    # Rounding may decide between logits that are closer than this.
    if abs(y[0] - y[1]) > 1e-4: print(*x, np.argmax(y))
";
    let Some(read) = python(&place, code) else { return };
    let policy = Policy::from_bytes(&place.read("run/policies/agent-0.policy")).unwrap();
    let (mut rng, mut workspace) = (Stream::from_seed(0), Workspace::new(Kernel::best()));
    let mut chosen = [0, 0];
    for line in read.lines() {
        let numbers: Vec<f32> = line.split(' ').map(|number| number.parse().unwrap()).collect();
        let mut action = Action::Discrete(0);
        policy.act(&numbers[..4], Sampling::Greedy, &mut rng, &mut action, &mut workspace);
        let choice = action.discrete().unwrap();
        assert_eq!(choice, numbers[4] as usize, "{line}");
        chosen[choice] += 1;
    }
    assert!(chosen.iter().all(|times| *times > 10), "observations tell actions apart: {chosen:?}");
}

/// Means of five runs of 200 000 requests of SimFaaS 0.2.2, as `bench/peers/sim` prints them:
/// rate, cold starts per request, mean number of containers.
const SIMFAAS: [(f64, f64, f64); 3] =
    [(1.0, 0.041152, 1.6376), (10.0, 0.0065665, 5.0105), (100.0, 0.0015698, 21.344)];

#[test]
fn functions_that_scale_themselves_start_as_often_as_in_simfaas() {
    let place = Workplace::new();
    for (rate, cold_starts, containers) in SIMFAAS {
        let report = place
            .call(&format!("bench on-demand --rate {rate} --requests 200000 --output json"))
            .json();
        let figure = |name: &str| report[name].as_f64().unwrap();
        // Three hundred cold starts at the highest rate vary by 6 %.
        let cold_starts = figure("cold_start_probability") / cold_starts;
        assert!((cold_starts - 1.0).abs() < 0.2, "{rate}: {report}");
        assert!((figure("mean_containers") / containers - 1.0).abs() < 0.03, "{rate}: {report}");
        assert_eq!(report["held_up"], 0, "{rate}: the limit was reached");
    }
    let refused = place.call("bench on-demand --service-ms 100 --cold-ms 50");
    assert!(refused.stderr.contains("it includes the service and cannot be shorter"));
}
