//! Policy files say what they read and answer, where they come from, and what serves them.

use crate::homeostat::Workplace;

#[test]
fn a_policy_of_simppo_plus_can_be_simulated_replayed_and_served_on_a_cluster() {
    let place = Workplace::new();
    place.done("train simppo+ --steps 400 --set faas.functions=3 --seed 5 --run-dir run --quiet");
    let shown = place.call("policy show run/policies/agent-0.policy --output json").json();
    assert_eq!(shown["serves"], serde_json::json!(["sim", "replay", "operator"]));
    assert_eq!(shown["features"]["id"], "pods/load-and-contention-v1");
    assert_eq!(shown["features"]["features"].as_array().map(Vec::len), Some(10));
    assert_eq!(shown["action"]["parts"][0]["choices"][4], "2000m");
    assert_eq!(shown["bounds"][0]["dimension"], "replicas");
    let provenance = &shown["provenance"];
    assert_eq!(provenance["env"], "faas/fleet-set-points-v1");
    assert_eq!(provenance["run"]["seed"], 5);
    assert_eq!(provenance["run"]["settings"]["faas.functions"], "3");
    assert_eq!(provenance["run"]["hash"].as_str().map(str::len), Some(64));

    let rows = place.done("policy show run/policies/agent-0.policy --output csv");
    assert!(rows.starts_with("part,name,unit,"), "{rows}");
    let parts = shown["action"]["parts"].as_array().map_or(0, Vec::len);
    assert_eq!(rows.lines().count(), 1 + 10 + parts, "{rows}");

    let short = "--set faas.functions=3 --duration 100s --quiet";
    place.done(&format!("sim faas --policy hpa {short} --run-dir recorded"));
    let replayed = place.done("replay recorded --policy run/policies/agent-0.policy --quiet");
    assert!(replayed.contains("agent-0"), "{replayed}");
}

#[test]
fn a_policy_that_reads_its_team_is_trained_shown_simulated_and_replayed() {
    let place = Workplace::new();
    place.done(
        "train simppo+ --env faas/fleet-set-points-team-v1 --steps 400 --set faas.functions=3 --seed 5 \
         --run-dir run --quiet",
    );
    let shown = place.call("policy show run/policies/agent-0.policy --output json").json();
    assert_eq!(shown["serves"], serde_json::json!(["sim", "replay", "operator"]));
    assert_eq!(shown["features"]["id"], "pods/load-and-contention-v1+team");
    let fields = shown["features"]["features"].as_array().unwrap();
    let of_team = fields.iter().filter(|field| field["needs_team"] == true).count();
    assert_eq!((fields.len(), of_team), (24, 14));
    let table = place.done("policy show run/policies/agent-0.policy");
    assert!(table.contains("(from millicores)") && table.contains("; needs the team"), "{table}");

    let short = "--set faas.functions=3 --duration 100s --quiet";
    place.done(&format!("sim faas --policy run {short} --run-dir played"));
    let replayed = place.done("replay played --policy run/policies/agent-0.policy --quiet");
    assert!(replayed.contains("agent-0"), "{replayed}");
}

#[test]
fn a_policy_of_another_domain_serves_its_own_environment_only() {
    let place = Workplace::new();
    place.done("train ppo --env classic/cartpole-v1 --steps 600 --run-dir run --quiet");
    let shown = place.done("policy show run/policies/agent-0.policy");
    assert!(shown.contains("serves       its own environment only"), "{shown}");
    assert!(shown.contains("Reads classic/cartpole-v1 (history 1)"), "{shown}");
}

#[test]
fn what_is_no_policy_file_is_refused_by_name() {
    let place = Workplace::new();
    std::fs::write(place.path("torn.policy"), b"torn").unwrap();
    for (file, expect) in [("torn.policy", "file is damaged"), ("none.policy", "cannot read")] {
        let called = place.call(&format!("policy show {file}"));
        assert_eq!(called.code, Some(1), "{}", called.stderr);
        assert!(
            called.stderr.contains(file) && called.stderr.contains(expect),
            "{}",
            called.stderr
        );
    }
}
