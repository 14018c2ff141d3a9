//! Verbs, outputs and exit codes.

use crate::homeostat::{Workplace, files_below};

const SHORT: &str =
    "train ppo --env toy/identity-v1 --steps 4096 --set ppo.steps_per_update=64 --quiet";

#[test]
fn help_teaches_with_examples() {
    let place = Workplace::new();
    let help = place.done("--help");
    for verb in
        ["demo", "train", "eval", "plot", "env", "config", "bench", "First steps", "Exit codes"]
    {
        assert!(help.contains(verb), "{verb} is missing:\n{help}");
    }
    let train = place.done("train --help");
    for part in ["--resume runs/", "train simppo --seed 7", "config teams"] {
        assert!(train.contains(part), "{part} is missing:\n{train}");
    }
}

#[test]
fn shells_complete_every_command() {
    let place = Workplace::new();
    for (shell, mark) in [
        ("bash", "complete -F _homeostat"),
        ("zsh", "#compdef homeostat"),
        ("fish", "complete -c homeostat"),
    ] {
        let script = place.done(&format!("completions {shell}"));
        for part in [mark, "reproduce", "trajectories", "fail-if"] {
            assert!(script.contains(part), "{shell}: {part} is missing");
        }
    }
    place.write("script", place.done("completions bash"));
    let typed = "source ./script; COMP_WORDS=(homeostat rep); COMP_CWORD=1; _homeostat homeostat rep homeostat; \
                 echo ${COMPREPLY[@]}";
    let shell = std::process::Command::new("bash")
        .args(["--norc", "-c", typed])
        .current_dir(place.path("."))
        .output()
        .unwrap();
    let offered = String::from_utf8(shell.stdout).unwrap();
    assert_eq!(
        offered.trim(),
        "replay reproduce report",
        "{}",
        String::from_utf8_lossy(&shell.stderr)
    );
}

#[test]
fn runs_are_listed_with_their_state_and_results() {
    let place = Workplace::new();
    assert!(place.call("runs list").stderr.contains("there is no directory runs"));
    place.done(&format!("{SHORT} --run-dir runs/learnt"));
    let sim =
        "sim faas --policy none --duration 100s --set faas.functions=3 -q --seeds 1..2 --run-dir";
    for name in ["runs/deep/er/played", "runs/killed", "runs/broken", "runs/worse"] {
        place.done(&format!("{sim} {name}"));
    }
    std::fs::remove_file(place.path("runs/killed/summary.json")).unwrap();
    place.write("runs/broken/summary.json", "{");
    place.write("runs/worse/run.json", "\u{1b}[31m");
    let rows = place.call("runs list --output json").json();
    let states: Vec<(&str, &str)> = rows
        .as_array()
        .unwrap()
        .iter()
        .map(|row| (row["run"].as_str().unwrap(), row["status"].as_str().unwrap()))
        .collect();
    let expect = [
        ("runs/broken", "damaged"),
        ("runs/deep/er/played", "finished"),
        ("runs/killed", "unfinished"),
        ("runs/learnt", "finished"),
        ("runs/worse", "damaged"),
    ];
    assert_eq!(states, expect);
    assert!(rows[1]["slo_violation_ratio"].is_number() && rows[1]["containers"].is_number());
    assert_eq!((&rows[1]["seeds"], &rows[1]["policy"]), (&"1 2".into(), &"none".into()));
    assert_eq!((&rows[3]["kind"], &rows[3]["policy"]), (&"training".into(), &"ppo".into()));
    assert!(rows[3]["return_mean"].is_number(), "{rows}");
    let table = place.done("runs list");
    assert!(table.starts_with("RUN ") && table.contains("SLO_VIOLATION_PCT"), "{table}");
}

#[test]
fn a_replay_that_names_a_prometheus_is_of_a_cluster_and_any_other_of_a_simulation() {
    let place = Workplace::new();
    for words in ["replay --prometheus http://localhost:9090 --help", "replay --prometheus= --help"]
    {
        let help = place.call(words);
        let is_handed_on = help.stdout.contains("The replay is open loop")
            || help.stderr.contains("homeostat-operator is not installed");
        assert!(is_handed_on, "{words}: {}{}", help.stdout, help.stderr);
    }
    let help = place.done("replay --help");
    assert!(help.contains("Run directory of a simulation"), "{help}");
    assert!(help.contains("homeostat replay --prometheus URL --last 7d"), "{help}");
    let refused = place.call("replay nowhere --policy hpa");
    assert!(refused.stderr.contains("nowhere"), "{}", refused.stderr);
}

#[test]
fn training_leaves_a_complete_run_directory() {
    let place = Workplace::new();
    place.done(&format!("{SHORT} --run-dir run --csv --tensorboard"));
    let files = files_below(&place.path("run"));
    let expected = [
        "checkpoints/step-00000000000000004096.safetensors",
        "config.toml",
        "metrics.csv",
        "metrics.jsonl",
        "policies/agent-0.policy",
        "run.json",
        "run.lock",
        "summary.json",
        "tensorboard/events",
        "timing.jsonl",
    ];
    assert_eq!(files.len(), expected.len(), "{files:?}");
    for (file, start) in files.iter().zip(expected) {
        assert!(file.starts_with(start), "{file} against {start}");
    }
    let metrics = String::from_utf8(place.read("run/metrics.jsonl")).unwrap();
    let first: serde_json::Value = serde_json::from_str(metrics.lines().next().unwrap()).unwrap();
    for figure in
        ["step", "agent", "episodes", "return_mean", "return_recent", "policy_loss", "entropy"]
    {
        assert!(!first[figure].is_null(), "{figure} is missing: {first}");
    }
    let csv = String::from_utf8(place.read("run/metrics.csv")).unwrap();
    assert_eq!(csv.lines().count(), metrics.lines().count() + 1);
    assert!(csv.starts_with("step,agent,episodes,return_mean,"), "{csv}");
}

#[test]
fn the_summary_comes_as_table_json_or_csv() {
    let place = Workplace::new();
    let table = place.done(SHORT);
    assert!(
        table.contains("return_mean") && table.contains("status           finished"),
        "{table}"
    );
    let json = place.call(&format!("{SHORT} --output json")).json();
    assert_eq!((json["status"].as_str(), json["steps"].as_u64()), (Some("finished"), Some(4096)));
    let csv = place.done(&format!("{SHORT} --output csv"));
    assert_eq!(csv.lines().count(), 2);
    assert!(csv.starts_with("status,algorithm,env,seed,"), "{csv}");
    let json_mean = json["return_mean"].to_string();
    assert!(csv.contains(&json_mean), "every digit for programs: {json_mean} in {csv}");
    // Three runs of the same name stand side by side.
    assert!(place.path("runs/ppo-identity-v1-seed1-3").is_dir());
}

#[test]
fn a_threshold_ends_with_its_own_exit_code() {
    let place = Workplace::new();
    let check = |condition: &str, expect: i32| {
        let mut command = place.command(SHORT);
        let output = command.arg("--fail-if").arg(condition).output().unwrap();
        assert_eq!(
            output.status.code(),
            Some(expect),
            "{condition}: {}",
            String::from_utf8_lossy(&output.stderr)
        );
    };
    check("return_mean > 1000", 0);
    check("return_mean < 1000", 99);
    let runs = || std::fs::read_dir(place.path("runs")).unwrap().count();
    let before = runs();
    check("return_maen < 1000", 2);
    check("return_mean > inf", 2);
    assert_eq!(runs(), before, "a metric that does not exist is found before the run");
    check("return_mean is high", 2);
}

#[test]
fn a_policy_is_played_by_run_and_by_file() {
    let place = Workplace::new();
    place.done(&format!("{SHORT} --agents 3 --run-dir run"));
    let summary = place.call("eval run --episodes 5 --output json").json();
    assert_eq!((summary["agents"].as_u64(), summary["episodes"].as_u64()), (Some(3), Some(5)));
    let rows = place.call("eval run --episodes 5 --per-agent --output json").json();
    assert_eq!(rows.as_array().map(Vec::len), Some(3));
    let one = place.call("eval run/policies/agent-1.policy --episodes 5 --output json").json();
    assert_eq!(one["return_mean"], rows[1]["return_mean"]);
    let drawn = place.call("eval run --episodes 5 --stochastic --output json").json();
    assert!(drawn["return_mean"].as_f64() <= summary["return_mean"].as_f64());
}

#[test]
fn a_long_evaluation_shows_its_progress() {
    let place = Workplace::new();
    place.done(&format!("{SHORT} --run-dir run"));
    let mut command = place.command("eval run --episodes 1e12");
    let mut playing = command.stderr(std::process::Stdio::piped()).spawn().unwrap();
    let mut line = String::new();
    let stderr = playing.stderr.take().unwrap();
    std::io::BufRead::read_line(&mut std::io::BufReader::new(stderr), &mut line).unwrap();
    playing.kill().unwrap();
    playing.wait().unwrap();
    assert!(line.contains(" of 1000000000000 episodes"), "{line}");
}

#[test]
fn environments_are_listed_explained_and_checked() {
    let place = Workplace::new();
    let list = place.done("env list");
    for id in [
        "classic/acrobot-v1",
        "classic/cartpole-v1",
        "classic/mountain-car-v0",
        "classic/pendulum-v1",
        "toy/grid-world-v1",
        "toy/identity-v1",
        "toy/roll-call-v1",
    ] {
        assert!(list.contains(id), "{id} is missing:\n{list}");
        assert_eq!(place.done(&format!("env check {id}")), format!("{id} keeps its contract\n"));
    }
    let card = place.done("env card classic/cartpole-v1");
    for part in ["State", "Actions", "Reward", "Terminates", "Truncates   after 500 steps"] {
        assert!(card.contains(part), "{part} is missing:\n{card}");
    }
}

#[test]
fn settings_are_shown_with_the_place_they_came_from() {
    let place = Workplace::new();
    place.write("my.toml", "[ppo]\nclip = 0.3\nepochs = 7\n");
    let output = place
        .command("config show ppo --preset simppo --config my.toml --set ppo.clip=0.1 --output csv")
        .env("HOMEOSTAT_PPO_GAMMA", "0.5")
        .output()
        .unwrap();
    let shown = String::from_utf8(output.stdout).unwrap();
    for line in [
        "ppo.clip,0.1,flag --set ppo.clip",
        "ppo.epochs,7,file my.toml",
        "ppo.gamma,0.5,environment HOMEOSTAT_PPO_GAMMA",
        "ppo.minibatch,5,preset simppo",
        "run.seed,1,default",
        "run.algorithm,ppo,flag ALGORITHM",
    ] {
        assert!(shown.contains(line), "{line} is missing:\n{shown}");
    }
    assert!(!shown.contains("dqn."), "settings of other algorithms are hidden");
    assert_eq!(place.done("config check my.toml"), "my.toml is good\n");
    assert!(place.done("config presets").contains("firm"));
    let team = place.done("config show simppo+ --set simppo.num_envs=2 --output csv");
    for line in [
        "simppo.num_envs,2,flag --set simppo.num_envs",
        "simppo.parameter_sharing,all,method simppo+",
        "ppo.gamma,0.9,method simppo+",
        "run.env,faas/fleet-set-points-v1,method simppo+",
    ] {
        assert!(team.contains(line), "{line} is missing:\n{team}");
    }
    let teams = place.call("config teams --output json").json();
    let names: Vec<_> = teams.as_array().unwrap().iter().map(|team| team["team"].clone()).collect();
    assert!(names.contains(&"simppo".into()) && names.contains(&"cpq-rl".into()), "{teams}");
}

#[test]
fn the_printed_reference_is_a_valid_file() {
    let place = Workplace::new();
    place.write("default.toml", place.done("config default"));
    place.done("config check default.toml");
}

#[test]
fn learning_curves_are_drawn() {
    let place = Workplace::new();
    place.done(&format!("{SHORT} --agents 2 --run-dir a"));
    place.done("train q-learning --env toy/identity-v1 --steps 8192 --quiet --run-dir b");
    assert_eq!(place.done("plot a b --goal 100 --out both.svg"), "both.svg\n");
    let svg = String::from_utf8(place.read("both.svg")).unwrap();
    for text in
        ["<svg", "ppo on toy/identity-v1 (2 agents)", "q-learning on toy/identity-v1 (1 agents)"]
    {
        assert!(svg.contains(text), "{text} is missing");
    }
}

#[test]
fn the_benchmark_reports_work_that_was_really_done() {
    let place = Workplace::new();
    let report = place.call("bench learn --agents 1,3 --repetitions 1 --output json").json();
    // The sums that JAX and PyTorch reach on the same work.
    for (minibatch, sum, abs) in [("mb5", -3.70095, 823.0937), ("mb64", -3.84138, 822.3648)] {
        let found = &report["checksum"][minibatch];
        assert!((found["sum"].as_f64().unwrap() - sum).abs() < 1e-4, "{found}");
        assert!((found["abs"].as_f64().unwrap() - abs).abs() < 1e-3, "{found}");
        assert!(report["update_ms"][minibatch]["n3"].as_f64().unwrap() > 0.0);
    }
    let found = &report["checksum"]["recurrent"];
    for (key, expect) in [("loss", 0.003_987_457), ("gradient_abs", 3.323_846)] {
        let ratio = found[key].as_f64().unwrap() / expect;
        assert!((ratio - 1.0).abs() < 1e-4, "{key}: {found}");
    }
    assert!(report["recurrent_ms"].as_f64().unwrap() > 0.0);
    assert!(report["infer_us"].as_f64().unwrap() > 0.0);
    assert!(report["bytes_per_agent"].as_u64().unwrap() > 100_000);
}

#[test]
fn a_budget_is_whole_lanes() {
    let place = Workplace::new();
    let call =
        "train ppo --env toy/identity-v1 --steps 1000 --set ppo.num_envs=700 --quiet --output json";
    assert_eq!(place.call(call).json()["steps"], 1400);
}

#[test]
fn one_agent_has_no_interval() {
    let place = Workplace::new();
    assert!(place.call(&format!("{SHORT} --output json")).json()["return_interval"].is_null());
}

#[test]
fn nobody_listening_on_standard_error_is_no_error() {
    let place = Workplace::new();
    let program = env!("CARGO_BIN_EXE_homeostat");
    let train = "train q-learning --env toy/grid-world-v1 --steps 40000 --run-dir run";
    let script = format!("{program} {train} 2>&1 >/dev/null | head -n 1; exit ${{PIPESTATUS[0]}}");
    let output = std::process::Command::new("bash")
        .arg("-c")
        .arg(script)
        .current_dir(place.path("."))
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(0));
    assert!(place.path("run/summary.json").exists());
}

#[test]
fn a_reader_that_goes_away_is_no_error() {
    let place = Workplace::new();
    let program = env!("CARGO_BIN_EXE_homeostat");
    let script = format!("{program} config default | head -n 1; exit ${{PIPESTATUS[0]}}");
    let output = std::process::Command::new("bash")
        .arg("-c")
        .arg(script)
        .current_dir(place.path("."))
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(0), "{}", String::from_utf8_lossy(&output.stderr));
}

#[test]
fn a_fleet_is_timed_by_key() {
    let place = Workplace::new();
    let json = place.call("bench fleet --quick --only train_s.n12 --output json").json();
    assert!(json["train_s"]["n12"].as_f64() > Some(0.0), "{json}");
    assert_eq!((json["quick"].as_bool(), &json["growth"]), (Some(true), &serde_json::Value::Null));
    let table = place.done("bench fleet --quick --only decisions_per_s");
    assert!(table.contains("decisions_per_s.n110") && table.contains("> 300000"), "{table}");
}

#[test]
fn the_demo_tells_its_story_in_figures() {
    let place = Workplace::new();
    let demo = place.call("demo --episodes 10 --trials 1 --output json");
    let json = demo.json();
    let policies = |key: &str| -> Vec<String> {
        let rows = json[key].as_array().cloned().unwrap_or_default();
        rows.iter().filter_map(|row| row["policy"].as_str().map(str::to_owned)).collect()
    };
    assert_eq!(policies("comparison"), ["simppo+", "s-rl", "hpa+vpa", "ensure"], "{json}");
    assert_eq!(policies("growth"), policies("comparison"));
    assert!(
        json["verdict"].as_str().is_some_and(|verdict| verdict.contains("% of requests")),
        "{json}"
    );
    for file in ["report.html", "simppo+.policy", "sim-simppo+/summary.json"] {
        assert!(place.path("runs/demo").join(file).is_file(), "{file} is missing");
    }
    assert!(demo.stderr.contains("SLOs met"), "{}", demo.stderr);
    let page = String::from_utf8(place.read("runs/demo/report.html")).unwrap();
    for part in [
        "Training of the team (simppo+)",
        "When the platform grows",
        "Growth in figures",
        "<pre>homeostat demo --seed 1 --episodes 10 --trials 1</pre>",
    ] {
        assert!(page.contains(part), "{part} is missing from the report");
    }
    let again = place.call("demo --episodes 10 --trials 1 --output json").json();
    assert_eq!((&again["comparison"], &again["growth"]), (&json["comparison"], &json["growth"]));
}
