//! Runs held against each other: what is shown, what is refused.

use crate::homeostat::Workplace;

/// A short simulation of three functions in `directory`.
pub(crate) fn simulated(place: &Workplace, policy: &str, directory: &str, more: &str) {
    place.done(&format!(
        "sim faas --policy {policy} --run-dir {directory} --set faas.functions=3 --quiet {more}"
    ));
}

const SHORT: &str = "--duration 200s --seeds 1..3";

/// Calls, and expects this exit code and these parts of the message.
fn refused(place: &Workplace, arguments: &str, code: i32, expect: &[&str]) {
    let called = place.call(arguments);
    assert_eq!(called.code, Some(code), "{arguments}: {}{}", called.stdout, called.stderr);
    for part in expect {
        assert!(called.stderr.contains(part), "{arguments}: no {part} in {}", called.stderr);
    }
}

#[test]
fn simulations_are_compared_seed_by_seed() {
    let place = Workplace::new();
    simulated(&place, "none", "none", SHORT);
    simulated(&place, "hpa+vpa", "both", SHORT);
    let table = place.done("compare none both");
    for part in ["SLO VIOLATIONS %", "CONTAINER-S", "differences from none", "over 3 common seeds"]
    {
        assert!(table.contains(part), "{part} is missing:\n{table}");
    }
    let rows = place.call("compare none both --output json").json();
    let [none, both] = [&rows[0], &rows[1]];
    assert!(
        none["slo_violation_ratio_difference"].is_null(),
        "the baseline differs from nothing: {none}"
    );
    for figure in ["slo_violation_ratio", "p99_over_slo", "container_s", "memory_gib_s"] {
        let number = |row: &serde_json::Value, key: &str| row[key].as_f64().unwrap();
        let difference = number(both, &format!("{figure}_difference"));
        assert!((difference - (number(both, figure) - number(none, figure))).abs() < 1e-6);
        let half = number(both, &format!("{figure}_difference_interval"));
        let shows = both[format!("{figure}_shows")].as_str().unwrap();
        assert_eq!(shows == "no difference shown", difference.abs() <= half, "{both}");
    }
    // The same policy again is the same run: nothing may be called better or worse.
    simulated(&place, "none", "again", SHORT);
    let same = place.call("compare none again --output json").json();
    assert_eq!((same[1]["better"].as_u64(), same[1]["worse"].as_u64()), (Some(0), Some(0)));
    let turned = place.call("compare none both --baseline both --output json").json();
    assert_eq!(
        turned[0]["container_s_difference"].as_f64().map(|value| -value),
        both["container_s_difference"].as_f64()
    );
    let csv = place.done("compare none both --per-function --output csv");
    assert_eq!(csv.lines().count(), 1 + 2 * 3, "{csv}");
    assert!(csv.starts_with("function,run,policy,seeds,"), "{csv}");
}

#[test]
fn different_worlds_are_refused_by_name() {
    let place = Workplace::new();
    simulated(&place, "none", "short", "--duration 100s --seeds 1");
    simulated(&place, "none", "long", "--duration 200s --seeds 1 --load bursty");
    let expect = ["duration_s is 100, 200", "load is fluctuating, bursty", "--anyway"];
    refused(&place, "compare short long", 2, &expect);
    let called = place.call("compare short long --anyway");
    assert_eq!(called.code, Some(0));
    assert!(called.stderr.contains("different settings: duration_s is 100, 200"));
    assert!(called.stdout.contains("one common seed gives no interval"), "{}", called.stdout);
    assert!(!called.stdout.contains(" ± "), "one seed has no spread: {}", called.stdout);
}

#[test]
fn trainings_are_compared_over_agents() {
    let place = Workplace::new();
    let train = |agents: usize, directory: &str, env: &str| {
        place.done(&format!(
            "train q-learning --env {env} --steps 8192 --agents {agents} --quiet --run-dir {directory}"
        ));
    };
    train(3, "a", "toy/identity-v1");
    train(2, "b", "toy/identity-v1");
    train(1, "one", "toy/identity-v1");
    train(2, "elsewhere", "toy/grid-world-v1");
    let rows = place.call("compare a b one --output json").json();
    assert_eq!((rows[0]["agents"].as_u64(), rows[1]["agents"].as_u64()), (Some(3), Some(2)));
    assert!(rows[1]["return_mean_difference_interval"].is_number(), "{rows}");
    assert_eq!(rows[2]["return_mean_shows"], "too few for an interval");
    refused(&place, "compare a elsewhere", 2, &["env is toy/identity-v1, toy/grid-world-v1"]);
    refused(&place, "compare a b --per-function", 2, &["training runs have no functions"]);
    simulated(&place, "none", "played", "--duration 50s");
    refused(
        &place,
        "compare a played",
        2,
        &["played is a simulation and a is a training run", "homeostat sim faas --policy a"],
    );
}

#[test]
fn what_cannot_be_compared_is_said_with_its_file() {
    let place = Workplace::new();
    simulated(&place, "none", "a", "--duration 50s");
    simulated(&place, "none", "torn", "--duration 50s");
    refused(&place, "compare a", 2, &["there is only one run"]);
    refused(&place, "compare a nowhere", 2, &["nowhere is not a run directory: it does not exist"]);
    place.write("torn/summary.json", "{ \"policy\": ");
    refused(&place, "compare a torn", 2, &["torn is not a run directory", "its summary.json"]);
    std::fs::remove_file(place.path("torn/summary.json")).unwrap();
    refused(&place, "compare a torn", 2, &["torn is not a run directory", "interrupted"]);
    place.write("torn/run.json", "[]");
    refused(&place, "compare a torn", 2, &["torn is not a run directory"]);
}

#[test]
fn a_threshold_is_held_against_every_run_but_the_baseline() {
    let place = Workplace::new();
    simulated(&place, "none", "a", SHORT);
    simulated(&place, "kpa", "b", SHORT);
    let check = |condition: &str, expect: i32| {
        let mut command = place.command("compare a b");
        let output = command.arg("--fail-if").arg(condition).output().unwrap();
        assert_eq!(output.status.code(), Some(expect), "{condition}");
    };
    check("slo_violation_ratio_difference > 10", 0);
    // The name and unit of 0.1.0.
    check("miss_pct_difference > 1000", 0);
    check("container_s_difference > -1e12", 99);
    check("worse < 0", 0);
    check("container_s_differnce > 0", 2);
    check("worse is bad", 2);
}
