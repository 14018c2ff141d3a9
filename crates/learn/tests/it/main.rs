//! `homeostat learn` and `homeostat evaluate-offline`, as they are called.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod chain;

use std::fmt::Write;
use std::fs;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use homeostat_core::trajectory::{End, Origin, Record, Transition};
use homeostat_core::{
    ActionField, ActionSchema, ControlSchema, FeatureField, FeatureSchema, Stream,
};
use homeostat_trajectories::{TrajectoryStore, import_records};
use serde_json::{Value, json};
use tempfile::TempDir;

struct Place(TempDir);

struct Called {
    code: Option<i32>,
    stdout: String,
    stderr: String,
}

impl Place {
    fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    fn command(&self, arguments: &str) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_homeostat-learn"));
        command.args(arguments.split_whitespace()).current_dir(self.0.path());
        command
    }

    fn call(&self, arguments: &str) -> Called {
        let output = self.command(arguments).output().unwrap();
        let text = |bytes| String::from_utf8(bytes).unwrap();
        let (stdout, stderr) = (text(output.stdout), text(output.stderr));
        Called { code: output.status.code(), stdout, stderr }
    }

    fn json(&self, arguments: &str) -> (Option<i32>, Value) {
        let called = self.call(&format!("{arguments} --output json"));
        let value = serde_json::from_str(&called.stdout);
        (called.code, value.unwrap_or_else(|_| panic!("{}", called.stderr)))
    }
}

fn schema(action: &str) -> ControlSchema {
    let part = ActionField { name: "x".into(), meaning: "where".into(), choices: Vec::new() };
    ControlSchema {
        features: FeatureSchema {
            id: "test/place-v1".into(),
            features: vec![FeatureField::new("place", "where it is", (-1.0, 1.0))],
            history: 1,
        },
        action: ActionSchema { id: action.into(), parts: vec![part] },
        bounds: Vec::new(),
    }
}

/// A behaviour that answers beside the place shown, by 0.4 and scattered: the closer, the higher the
/// reward.
fn records(trajectories: usize, action: &str) -> Vec<Record> {
    let mut rng = Stream::from_seed(7);
    let mut records = Vec::new();
    for _ in 0..trajectories {
        records.push(Record::Trajectory(Origin {
            workload: "shop".into(),
            policy: "hpa+vpa".into(),
            schema: schema(action),
            recorded_ms: 0,
        }));
        for step in 0..25 {
            let place = rng.range(-0.9, -0.4) as f32;
            let answer = place + 0.4 + 0.25 * rng.normal() as f32;
            records.push(Record::Transition(Transition {
                at_ms: step,
                observation: vec![place],
                action: vec![answer.clamp(-1.0, 1.0)],
                reward: -10.0 * f64::from((answer - place).powi(2)),
                probability: None,
            }));
        }
        records.push(Record::End { how: End::Truncated, observation: vec![-0.6] });
    }
    records
}

fn lines(records: &[Record]) -> String {
    records.iter().fold(String::new(), |mut text, record| {
        writeln!(text, "{}", serde_json::to_string(record).unwrap()).unwrap();
        text
    })
}

fn place_with_decisions() -> Place {
    let place = Place::new();
    fs::write(place.path("decisions.jsonl"), lines(&records(80, "test/answer-v1"))).unwrap();
    place
}

#[test]
fn a_better_policy_is_learnt_admitted_and_written_and_evaluates_the_same() {
    let place = place_with_decisions();
    for algorithm in ["td3-bc", "iql", "bcq"] {
        let (code, found) = place.json(&format!(
            "learn decisions.jsonl --out {algorithm}.policy --algorithm {algorithm} --steps 2000 -q"
        ));
        assert_eq!(code, Some(0), "{algorithm}: {found}");
        assert_eq!(found["policy"], format!("{algorithm}.policy"));
        // The file says what the evaluation found, so that who serves it can check that.
        let file = fs::read(place.path(&format!("{algorithm}.policy"))).unwrap();
        let policy = homeostat_rl::Policy::from_bytes(&file).unwrap();
        let kept = policy.provenance().evaluation.as_ref().expect("it was evaluated");
        assert_eq!(json!(kept.policy_low), found["evaluation"]["fitted_q"]["low"]);
        assert_eq!(json!(kept.behaviour), found["evaluation"]["behaviour"]["value"]);
        let evaluation = &found["evaluation"];
        assert_eq!(evaluation["admitted"], true);
        // The clone of the behaviour has -1.6 in expectation, the behaviour itself -2.2.
        assert!(evaluation["fitted_q"]["value"].as_f64().unwrap() > -1.5, "{algorithm}: {found}");
        assert!(evaluation["behaviour"]["value"].as_f64().unwrap() < -1.5, "{found}");
        let (code, found) =
            place.json(&format!("evaluate-offline decisions.jsonl --policy {algorithm}.policy"));
        assert_eq!((code, &found["trajectories"]), (Some(0), &80.into()));
        assert!(found["gain"]["low"].as_f64().unwrap() > 0.0, "{algorithm}: {found}");
        assert_eq!(found["doubly_robust"], Value::Null, "no probabilities were recorded");
    }
}

#[test]
fn a_policy_that_is_not_admitted_leaves_the_former_file() {
    let place = place_with_decisions();
    fs::write(place.path("old.policy"), "former").unwrap();
    // One gradient step teaches nothing.
    let learn = "learn decisions.jsonl --out old.policy --steps 1 --algorithm iql -q";
    let (code, found) = place.json(learn);
    assert_eq!((code, &found["evaluation"]["admitted"]), (Some(99), &false.into()), "{found}");
    assert_eq!(found["policy"], Value::Null);
    assert_eq!(fs::read(place.path("old.policy")).unwrap(), b"former");
    let (code, _) = place.json(&format!("{learn} --write-anyway"));
    assert_eq!(code, Some(99));
    assert_ne!(fs::read(place.path("old.policy")).unwrap(), b"former");
    // A margin is what a user accepts to lose.
    let (code, _) = place.json(&format!("{learn} --margin 100"));
    assert_eq!(code, Some(0));
}

#[test]
fn a_store_and_its_export_teach_the_same() {
    let place = place_with_decisions();
    let mut store = TrajectoryStore::open_or_create(&place.path("shop.db")).unwrap();
    let text = fs::read(place.path("decisions.jsonl")).unwrap();
    import_records(&mut store, &mut text.as_slice(), 1000, &mut |_| ()).unwrap();
    let learn = |source: &str, out: &str| {
        let called =
            place.call(&format!("learn {source} --out {out} --steps 50 --write-anyway -q"));
        assert!(called.code.is_some_and(|code| code != 1), "{}", called.stderr);
        fs::read(place.path(out)).unwrap()
    };
    let from_store = learn("shop.db --workload shop --behaviour hpa+vpa", "a.policy");
    assert_eq!(from_store, learn("decisions.jsonl", "b.policy"));
}

#[test]
fn every_workload_of_a_store_gets_a_policy_as_soon_as_it_has_decisions() {
    let place = place_with_decisions();
    let text = fs::read_to_string(place.path("decisions.jsonl")).unwrap();
    let import = |workload: &str| {
        let mut store = TrajectoryStore::open_or_create(&place.path("shop.db")).unwrap();
        let text = text.replace("\"workload\":\"shop\"", &format!("\"workload\":\"{workload}\""));
        import_records(&mut store, &mut text.as_bytes(), 10_000, &mut |_| ()).unwrap();
    };
    // The store is not there yet.
    let mut running = place
        .command("learn shop.db --behaviour hpa+vpa --every 1s --steps 200 --write-anyway -q --out policies")
        .stdout(Stdio::null())
        .spawn()
        .unwrap();
    let wait = |file: &str| {
        let start = Instant::now();
        while !place.path(file).exists() {
            assert!(start.elapsed() < Duration::from_secs(120), "no {file}");
            std::thread::sleep(Duration::from_millis(20));
        }
        homeostat_rl::Policy::from_bytes(&fs::read(place.path(file)).unwrap()).unwrap()
    };
    import("shop/checkout");
    assert!(wait("policies/shop/checkout.policy").provenance().evaluation.is_some());
    import("shop/cart");
    wait("policies/shop/cart.policy");
    running.kill().unwrap();
    running.wait().unwrap();
}

#[test]
fn training_that_is_killed_goes_on_and_ends_as_if_it_had_not_been() {
    let place = place_with_decisions();
    let learn = "learn decisions.jsonl --steps 3000 --checkpoint-every 100 --write-anyway -q --out";
    let unbroken = place.call(&format!("{learn} unbroken.policy"));
    assert!(unbroken.code.is_some_and(|code| code != 1), "{}", unbroken.stderr);
    let mut killed = 0;
    for _ in 0..4 {
        let mut running = place
            .command(&format!("{learn} broken.policy"))
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        // Until this round has written a checkpoint.
        let modified = || fs::metadata(place.path("broken.policy.training")).ok()?.modified().ok();
        let (before, start) = (modified(), Instant::now());
        while modified() == before && start.elapsed() < Duration::from_secs(60) {
            if running.try_wait().unwrap().is_some() {
                break;
            }
            std::thread::sleep(Duration::from_millis(1));
        }
        killed += u32::from(running.try_wait().unwrap().is_none());
        running.kill().unwrap();
        running.wait().unwrap();
    }
    assert!(killed > 0, "no round was killed while it trained");
    let last = place.call(&learn.replace("-q --out", "--out broken.policy"));
    assert!(last.stderr.contains("continuing after"), "{}", last.stderr);
    let read = |name| fs::read(place.path(name)).unwrap();
    assert_eq!(read("broken.policy"), read("unbroken.policy"));
}

#[test]
fn wrong_use_is_told_in_one_line() {
    let place = place_with_decisions();
    fs::write(place.path("few.jsonl"), lines(&records(9, "test/answer-v1"))).unwrap();
    let mut mixed = records(20, "test/answer-v1");
    mixed.extend(records(20, "test/other-v1"));
    fs::write(place.path("mixed.jsonl"), lines(&mixed)).unwrap();
    fs::write(place.path("broken.jsonl"), "{\"end\":\n").unwrap();
    fs::write(place.path("headless.jsonl"), lines(&records(1, "test/answer-v1")[1..])).unwrap();
    fs::write(place.path("no.policy"), "no policy").unwrap();
    let whole = fs::read(place.path("decisions.jsonl")).unwrap();
    fs::write(place.path("cut.jsonl"), &whole[..whole.len() / 2]).unwrap();
    for (arguments, expect) in [
        ("learn nothing.jsonl --out a.policy", "nothing.jsonl"),
        ("learn few.jsonl --out a.policy", "record at least 32"),
        ("learn mixed.jsonl --out a.policy", "decisions of several schemas"),
        ("learn broken.jsonl --out a.policy", "line 1"),
        ("learn cut.jsonl --out a.policy", "line "),
        ("learn headless.jsonl --out a.policy", "line 1: no trajectory has begun"),
        ("learn decisions.jsonl --workload mail --out a.policy", "has no decisions of this choice"),
        ("learn decisions.jsonl --out nowhere/a.policy --steps 1", "cannot write nowhere/a.policy"),
        ("learn decisions.jsonl --out a.policy --margin -1", "--margin"),
        ("learn decisions.jsonl --out a.policy --discount 1", "evaluation.gamma = 1"),
        ("evaluate-offline decisions.jsonl --policy none.policy", "cannot read none.policy"),
        ("evaluate-offline decisions.jsonl --policy no.policy", "no.policy"),
    ] {
        let called = place.call(arguments);
        assert!(called.code.is_some_and(|code| code == 1 || code == 2), "{arguments}");
        assert!(called.stderr.contains(expect), "{arguments}: {}", called.stderr);
    }
    assert!(!place.path("a.policy").exists());
}
