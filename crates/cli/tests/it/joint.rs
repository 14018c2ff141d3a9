//! Agents that learn together in a shared environment, from training to evaluation.

use crate::homeostat::{Workplace, files_below};

const FLEET: &str = "train ppo --env faas/fleet-v3 --preset s-rl --quiet --set faas.functions=4 \
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

/// Starts a training, kills it once it has written two checkpoints, and lets it go on.
fn kill_and_resume(place: &Workplace, call: &str, run: &str) {
    let mut child = place.command(call).spawn().unwrap();
    let checkpoints = place.path(&format!("{run}/checkpoints"));
    let begun = std::time::Instant::now();
    while std::fs::read_dir(&checkpoints).map_or(0, Iterator::count) < 2 {
        assert!(begun.elapsed() < std::time::Duration::from_secs(60), "no checkpoint");
        std::thread::sleep(std::time::Duration::from_millis(2));
    }
    child.kill().unwrap();
    child.wait().unwrap();
    place.done(&format!("train --resume {run} --quiet"));
}

#[test]
fn a_fleet_killed_and_resumed_equals_one_that_was_not() {
    let place = Workplace::new();
    for churn in ["0.0", "0.2"] {
        let fleet = |run: &str| format!("{FLEET} {run}-{churn} --set faas.churn={churn}");
        place.done(&format!("{} --steps 3000", fleet("unbroken")));
        let killed = format!("killed-{churn}");
        kill_and_resume(&place, &format!("{} --steps 3000", fleet("killed")), &killed);
        assert_equal_runs(&place, &format!("unbroken-{churn}"), &format!("killed-{churn}"));
    }
}

#[test]
fn the_files_of_a_fleet_do_not_depend_on_threads() {
    let place = Workplace::new();
    for threads in [1, 2] {
        let call = format!("{FLEET} threads-{threads} --steps 800 --set ppo.num_envs=4");
        let output =
            place.command(&call).env("RAYON_NUM_THREADS", threads.to_string()).output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    }
    assert_equal_runs(&place, "threads-1", "threads-2");
}

/// Containers of all agents together in the last round.
fn last_containers(metrics: &str) -> f64 {
    let lines = metrics.lines().map(|line| serde_json::from_str(line).unwrap());
    let lines: Vec<serde_json::Value> = lines.collect();
    let last = lines.last().unwrap()["step"].clone();
    let of_last = lines.iter().filter(|line| line["step"] == last);
    of_last.map(|line| line["containers_mean"].as_f64().unwrap()).sum()
}

#[test]
fn training_shows_slo_violations_and_cost_beside_the_return() {
    let place = Workplace::new();
    let called = place.call(
        "train ppo --env faas/function-v2 --steps 600 --agents 2 --set faas.steps=20 --set run.log_every=200 \
         --run-dir run --fail-if slo_violation_ratio>1",
    );
    assert_eq!(called.code, Some(0), "{}", called.stderr);
    let line = called.stderr.lines().rfind(|line| line.starts_with("step 600")).unwrap();
    assert!(line.contains("SLO violations ") && line.contains(" %  containers "), "{line}");
    assert!(called.stdout.contains("slo_violation_pct") && called.stdout.contains("containers"));
    // Resumed with nothing left to do, it says the same.
    let before = place.read("run/summary.json");
    place.done("train --resume run --quiet");
    assert_eq!(place.read("run/summary.json"), before);
}

const TEAM: &str = "--quiet --set faas.functions=4 --set faas.steps=20 --set run.log_every=100 \
                    --set run.checkpoint_every=200";

#[test]
fn a_team_is_trained_played_simulated_compared_and_reported() {
    let place = Workplace::new();
    for (team, env) in [("simppo", "fleet-v3"), ("simppo+", "fleet-set-points-v1")] {
        place.done(&format!("train {team} {TEAM} --seed 7 --steps 800"));
        let run = format!("runs/{team}-{env}-seed7");
        let facts: serde_json::Value =
            serde_json::from_slice(&place.read(&format!("{run}/run.json"))).unwrap();
        assert_eq!(
            (&facts["algorithm"], &facts["env"], &facts["agents"]),
            (&team.into(), &format!("faas/{env}").into(), &4.into())
        );
        let played = place.call(&format!("eval {run} --episodes 2 --per-agent --output json"));
        let played = played.json();
        assert_eq!(played.as_array().map(Vec::len), Some(4), "{played}");
        assert!(played[3]["length_mean"] == 20.0, "{played}");
        let sim = format!("sim faas --policy {run} --seeds 1..2 --duration 200s --quiet");
        place.done(&format!("{sim} --set faas.functions=4 --run-dir played-{team}"));
        let metrics = String::from_utf8(place.read(&format!("{run}/metrics.jsonl"))).unwrap();
        assert!(metrics.lines().all(|line| line.contains("shared_return_mean")), "{metrics}");
        let summary: serde_json::Value =
            serde_json::from_slice(&place.read(&format!("{run}/summary.json"))).unwrap();
        let ratio = summary["slo_violation_ratio"].as_f64().expect("there were requests");
        assert!((0.0..=1.0).contains(&ratio), "{summary}");
        assert_eq!(summary["containers"].as_f64().unwrap(), last_containers(&metrics), "{run}");
    }
    let compared = place.done("compare played-simppo played-simppo+");
    assert!(compared.contains("simppo+-fleet-set-points-v1-seed7"), "{compared}");
    place.done("report runs/simppo-fleet-v3-seed7 played-simppo played-simppo+ --out page.html");
    place.done("plot runs/simppo-fleet-v3-seed7 --out curve.svg");
    let svg = String::from_utf8(place.read("curve.svg")).unwrap();
    assert!(svg.contains("simppo on faas/fleet-v3 (4 agents)"));
}

#[test]
fn a_team_killed_and_resumed_equals_one_that_was_not() {
    let place = Workplace::new();
    for (name, team) in [
        ("simppo", "simppo"),
        ("plus", "simppo+"),
        ("churn", "simppo --set faas.churn=0.2"),
        ("queue", "cpq-rl"),
    ] {
        let call = |run: &str| format!("train {team} {TEAM} --steps 3000 --run-dir {run}-{name}");
        place.done(&call("unbroken"));
        kill_and_resume(&place, &call("killed"), &format!("killed-{name}"));
        assert_equal_runs(&place, &format!("unbroken-{name}"), &format!("killed-{name}"));
    }
}

#[test]
fn the_files_of_a_team_do_not_depend_on_threads() {
    let place = Workplace::new();
    for team in ["simppo", "simppo+"] {
        for threads in [1, 2] {
            let call = format!("train {team} {TEAM} --steps 800 --run-dir {team}-{threads}");
            let mut command = place.command(&call);
            let output = command.env("RAYON_NUM_THREADS", threads.to_string()).output().unwrap();
            assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        }
        assert_equal_runs(&place, &format!("{team}-1"), &format!("{team}-2"));
    }
}

#[test]
fn a_team_that_was_changed_is_not_resumed() {
    let place = Workplace::new();
    place.done(&format!("train simppo {TEAM} --steps 200 --run-dir run"));
    let config = String::from_utf8(place.read("run/config.toml")).unwrap();
    assert!(config.contains("[simppo]\nreward_sharing = \"team\""), "{config}");
    let changed = config.replace("reward_sharing = \"team\"", "reward_sharing = \"own\"");
    place.write("run/config.toml", changed);
    let refused = place.call("train --resume run --steps 400");
    assert_eq!(refused.code, Some(2), "{}", refused.stderr);
    assert!(refused.stderr.contains("simppo.reward_sharing was \"team\" when the run began"));
}

#[test]
fn a_run_with_the_keys_of_an_earlier_release_is_resumed() {
    let place = Workplace::new();
    place.done(&format!("train simppo {TEAM} --steps 200 --run-dir run"));
    let config = String::from_utf8(place.read("run/config.toml")).unwrap();
    let old = config
        .replace("reward_sharing =", "pay =")
        .replace("critic_input =", "view =")
        .replace("parameter_sharing =", "sharing =")
        .replace("num_envs =", "worlds =");
    assert_ne!(old, config);
    place.write("run/config.toml", old);
    let resumed = place.call("train --resume run --steps 400");
    assert_eq!(resumed.code, Some(0), "{}", resumed.stderr);
    let note = "`simppo.pay` (from file run/config.toml) is now called `simppo.reward_sharing`";
    assert!(resumed.stderr.contains(note), "{}", resumed.stderr);
    let migrated = String::from_utf8(place.read("run/config.toml")).unwrap();
    assert!(migrated.contains("reward_sharing =") && !migrated.contains("pay ="), "{migrated}");
}
