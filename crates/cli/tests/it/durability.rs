//! A run survives Ctrl-C, kill -9 and damaged files, and goes on as if nothing
//! had happened.

use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

use crate::homeostat::{Called, Workplace, files_below};

/// Long enough to be interrupted, with many checkpoints.
const LONG: &str = "train dqn --env classic/cartpole-v1 --preset off --agents 2 --steps 30000 --seed 5 --quiet \
                    --set run.log_every=500 --set run.checkpoint_every=1000 --run-dir";

/// Files of a run that follow from its seed.
fn results(place: &Workplace, run: &str) -> Vec<(String, Vec<u8>)> {
    let names = files_below(&place.path(run));
    let is_result = |name: &String| !name.starts_with("timing") && !name.starts_with("checkpoints");
    let mut results: Vec<_> = names.into_iter().filter(is_result).collect();
    results.push("checkpoints/step-00000000000000030000.safetensors".to_owned());
    results.into_iter().map(|name| (name.clone(), place.read(&format!("{run}/{name}")))).collect()
}

fn assert_equal_runs(place: &Workplace, left: &str, right: &str) {
    for ((name, left), (other, right)) in
        results(place, left).into_iter().zip(results(place, right))
    {
        assert_eq!(name, other);
        assert!(left == right, "{name} differs");
    }
}

/// Starts a run and waits until it has written a few checkpoints.
fn start_and_wait(place: &Workplace, run: &str) -> Child {
    let mut child = place
        .command(&format!("{LONG} {run}"))
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let begun = Instant::now();
    let checkpoint =
        place.path(&format!("{run}/checkpoints/step-00000000000000003000.safetensors"));
    while !checkpoint.exists() {
        assert!(begun.elapsed() < Duration::from_secs(60), "no checkpoint after a minute");
        assert!(
            child.try_wait().unwrap().is_none(),
            "the run ended before it could be interrupted"
        );
        std::thread::sleep(Duration::from_millis(2));
    }
    child
}

#[test]
fn after_kill_minus_nine_a_run_goes_on_bit_for_bit() {
    let place = Workplace::new();
    place.done(&format!("{LONG} unbroken"));
    let mut child = start_and_wait(&place, "killed");
    child.kill().unwrap();
    child.wait().unwrap();
    assert!(!place.path("killed/summary.json").exists());
    place.done("train --resume killed --quiet");
    assert_equal_runs(&place, "unbroken", "killed");
}

#[test]
fn ctrl_c_writes_a_checkpoint_and_a_summary_and_the_run_goes_on() {
    let place = Workplace::new();
    place.done(&format!("{LONG} unbroken"));
    let child = start_and_wait(&place, "stopped");
    let signal = std::process::Command::new("kill")
        .args(["-INT", &child.id().to_string()])
        .status()
        .unwrap();
    assert!(signal.success());
    let called = Called::new(child.wait_with_output().unwrap());
    assert_eq!(called.code, Some(130), "half a policy is not deployed: {}", called.stderr);
    assert!(called.stdout.contains("interrupted"), "{}", called.stdout);
    assert!(called.stderr.contains("homeostat train --resume stopped"), "{}", called.stderr);
    assert!(place.path("stopped/policies/agent-1.policy").exists());
    place.done("train --resume stopped --quiet");
    assert_equal_runs(&place, "unbroken", "stopped");
}

#[test]
fn an_interrupted_demo_does_not_succeed() {
    let place = Workplace::new();
    let child = place
        .command("demo --episodes 100000")
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let begun = Instant::now();
    // Training has begun once its directory is there: Ctrl-C is listened to by then.
    while !place.path("runs/demo/s-rl/metrics.jsonl").exists() {
        assert!(begun.elapsed() < Duration::from_secs(60), "the demo did not start");
        std::thread::sleep(Duration::from_millis(20));
    }
    std::thread::sleep(Duration::from_millis(500));
    let kill = std::process::Command::new("kill").args(["-INT", &child.id().to_string()]).status();
    assert!(kill.unwrap().success());
    let called = Called::new(child.wait_with_output().unwrap());
    assert_eq!(called.code, Some(130), "{}", called.stderr);
}

#[test]
fn a_torn_checkpoint_is_passed_over_for_the_one_before() {
    let place = Workplace::new();
    place.done(&format!("{LONG} unbroken"));
    place.done(&format!("{LONG} torn"));
    let newest = place.path("torn/checkpoints/step-00000000000000030000.safetensors");
    let whole = std::fs::read(&newest).unwrap();
    std::fs::write(&newest, &whole[..whole.len() / 3]).unwrap();
    let called = place.call("train --resume torn --quiet");
    assert_eq!(called.code, Some(0), "{}", called.stderr);
    assert!(called.stderr.contains("passed over a damaged checkpoint"), "{}", called.stderr);
    assert!(called.stderr.contains("going on from step 29000"), "{}", called.stderr);
    assert_equal_runs(&place, "unbroken", "torn");
}

#[test]
fn resuming_a_finished_run_changes_nothing() {
    let place = Workplace::new();
    place.done(&format!("{LONG} run"));
    let before = results(&place, "run");
    let called = place.call("train --resume run --quiet");
    assert_eq!(called.code, Some(0), "{}", called.stderr);
    assert!(called.stderr.contains("nothing left to do"), "{}", called.stderr);
    assert!(before == results(&place, "run"));
}

#[test]
fn a_run_goes_on_only_as_itself() {
    let place = Workplace::new();
    place.done(&format!("{LONG} run"));
    let config = String::from_utf8(place.read("run/config.toml")).unwrap();
    let check = |from: &str, to: &str, expect: &str| {
        assert!(config.contains(from), "{from} is not in {config}");
        place.write("run/config.toml", config.replace(from, to));
        let called = place.call("train --resume run --quiet");
        assert_eq!(called.code, Some(2), "{}", called.stderr);
        assert!(called.stderr.contains(expect), "{}", called.stderr);
    };
    check("seed = 5", "seed = 6", "run.seed was 5 when the run began and is 6 now");
    check("agents = 2", "agents = 1", "run.agents was 2 when the run began and is 1 now");
    check("hidden = [64, 64]", "hidden = [32]", "dqn.hidden was [64, 64] when the run began");
    check("steps = 30000", "steps = 20000", "the run has taken 30000 steps already");
}

#[test]
fn two_processes_never_train_in_one_directory() {
    let place = Workplace::new();
    let mut child = start_and_wait(&place, "run");
    let called = place.call("train --resume run --quiet");
    assert_eq!(called.code, Some(1));
    assert!(called.stderr.contains("another process is training in run"), "{}", called.stderr);
    child.kill().unwrap();
    child.wait().unwrap();
    place.done("train --resume run --quiet");
}

#[test]
fn what_a_crash_left_of_a_line_is_dropped() {
    let place = Workplace::new();
    place.done(&format!("{LONG} unbroken"));
    let mut child = start_and_wait(&place, "torn");
    child.kill().unwrap();
    child.wait().unwrap();
    let mut metrics = place.read("torn/metrics.jsonl");
    metrics.extend_from_slice(b"\xff\xfe{\"step\":12");
    place.write("torn/metrics.jsonl", metrics);
    place.done("train --resume torn --quiet");
    assert_equal_runs(&place, "unbroken", "torn");
}

#[test]
fn a_run_in_progress_can_be_played() {
    let place = Workplace::new();
    let mut child = start_and_wait(&place, "run");
    let played = place.call("eval run --episodes 2 --output json");
    child.kill().unwrap();
    child.wait().unwrap();
    assert_eq!(played.code, Some(0), "{}", played.stderr);
}

#[test]
fn without_a_whole_checkpoint_nothing_is_guessed() {
    let place = Workplace::new();
    place.done(&format!("{LONG} run"));
    for name in files_below(&place.path("run/checkpoints")) {
        place.write(&format!("run/checkpoints/{name}"), "torn");
    }
    let called = place.call("train --resume run --quiet");
    assert_eq!(called.code, Some(1));
    assert!(called.stderr.contains("no checkpoint in run can be loaded"), "{}", called.stderr);
}

#[test]
fn a_finished_run_can_be_given_a_larger_budget() {
    let place = Workplace::new();
    let short = "train q-learning --env toy/grid-world-v1 --quiet --run-dir";
    place.done(&format!("{short} long --steps 20000"));
    place.done(&format!("{short} grown --steps 10240"));
    place.done("train --resume grown --steps 20000 --quiet");
    assert_eq!(place.read("grown/metrics.jsonl"), place.read("long/metrics.jsonl"));
    assert_eq!(
        place.read("grown/policies/agent-0.policy"),
        place.read("long/policies/agent-0.policy")
    );
}
