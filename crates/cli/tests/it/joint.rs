//! Agents that learn together in a shared world, from training to evaluation.

use crate::homeostat::{Workplace, files_below};

const FLEET: &str = "train ppo --env faas/fleet-v1 --preset s-rl --quiet --set faas.functions=4 \
                     --set faas.steps=20 --set run.log_every=100 --set run.checkpoint_every=200 \
                     --run-dir";

fn assert_equal_runs(place: &Workplace, left: &str, right: &str) {
    let names = |run: &str| {
        let mut names = files_below(&place.path(run));
        names.retain(|name| !name.starts_with("timing"));
        names
    };
    assert_eq!(names(left), names(right));
    for name in names(left) {
        let read = |run: &str| place.read(&format!("{run}/{name}"));
        assert!(read(left) == read(right), "{name} differs");
    }
}

#[test]
fn a_fleet_is_trained_resumed_and_played() {
    let place = Workplace::new();
    place.done(&format!("{FLEET} run --steps 800"));
    // 510 steps: neither a round nor an episode nor an update ends there.
    place.done(&format!("{FLEET} grown --steps 510"));
    let played = place.call("eval grown --episodes 2 --per-agent --output json");
    assert_eq!(played.code, Some(0), "{}", played.stderr);
    let played = played.json();
    let agents = played.as_array().unwrap();
    assert_eq!(agents.len(), 4);
    for (number, agent) in agents.iter().enumerate() {
        assert_eq!(agent["agent"], format!("agent-{number}"));
        assert_eq!((&agent["episodes"], &agent["length_mean"]), (&2.into(), &20.0.into()));
    }
    let config = String::from_utf8(place.read("run/config.toml")).unwrap();
    assert!(config.contains("agents = 4"), "{config}");
    let summary = place.call("eval run --episodes 3 --stochastic --output json").json();
    assert_eq!((&summary["agents"], &summary["episodes"]), (&4.into(), &3.into()));
    // The round that ended early is in the metrics; the learners are not to know.
    place.done("train --resume grown --steps 800 --quiet");
    for number in 0..4 {
        let policy = |run: &str| place.read(&format!("{run}/policies/agent-{number}.policy"));
        assert!(policy("grown") == policy("run"), "agent {number} differs");
    }
}

#[test]
fn a_fleet_killed_and_resumed_equals_one_that_was_not() {
    let place = Workplace::new();
    for churn in ["0.0", "0.2"] {
        let fleet = |run: &str| format!("{FLEET} {run}-{churn} --set faas.churn={churn}");
        place.done(&format!("{} --steps 3000", fleet("unbroken")));
        let mut child =
            place.command(&format!("{} --steps 3000", fleet("killed"))).spawn().unwrap();
        let checkpoints = place.path(&format!("killed-{churn}/checkpoints"));
        let begun = std::time::Instant::now();
        while std::fs::read_dir(&checkpoints).map_or(0, Iterator::count) < 2 {
            assert!(begun.elapsed() < std::time::Duration::from_secs(60), "no checkpoint");
            std::thread::sleep(std::time::Duration::from_millis(2));
        }
        child.kill().unwrap();
        child.wait().unwrap();
        place.done(&format!("train --resume killed-{churn} --quiet"));
        assert_equal_runs(&place, &format!("unbroken-{churn}"), &format!("killed-{churn}"));
    }
}

#[test]
fn the_files_of_a_fleet_do_not_depend_on_threads() {
    let place = Workplace::new();
    for threads in [1, 2] {
        let call = format!("{FLEET} threads-{threads} --steps 800 --set ppo.lanes=4");
        let output =
            place.command(&call).env("RAYON_NUM_THREADS", threads.to_string()).output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    }
    assert_equal_runs(&place, "threads-1", "threads-2");
}
