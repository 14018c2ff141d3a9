//! What operators install: the systemd unit and the Grafana dashboard.

use std::path::{Path, PathBuf};
use std::process::Command;

use homeostat_test_skip::skip;
use serde_json::{Value, json};

fn deploy(file: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../deploy").join(file)
}

#[test]
fn systemd_understands_the_unit_and_gives_enough_time_and_files() {
    let unit = std::fs::read_to_string(deploy("systemd/homeostat-gateway.service")).unwrap();
    let value = |key: &str| {
        let found = unit.lines().find_map(|line| line.strip_prefix(key)?.strip_prefix('='));
        found.unwrap_or_else(|| panic!("no {key}"))
    };
    let defaults: toml::Table = homeostat_gateway::settings::DEFAULT.parse().unwrap();
    let drain = defaults["timeouts"]["drain_s"].as_float().unwrap();
    assert!(value("TimeoutStopSec").parse::<f64>().unwrap() > drain + 3.0);
    let connections = defaults["listen"]["max_connections"].as_integer().unwrap();
    assert!(value("LimitNOFILE").parse::<i64>().unwrap() > 2 * connections + 64);
    // It looks for the program, which is elsewhere here.
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("homeostat-gateway.service");
    let program = env!("CARGO_BIN_EXE_homeostat-gateway");
    std::fs::write(&file, unit.replace("/usr/local/bin/homeostat-gateway", program)).unwrap();
    let Ok(verified) = Command::new("systemd-analyze").arg("verify").arg(&file).output() else {
        skip("no systemd-analyze; apt-get install systemd");
        return;
    };
    let said = String::from_utf8_lossy(&verified.stderr);
    let of_unit: Vec<&str> =
        said.lines().filter(|line| line.contains("homeostat-gateway.service")).collect();
    assert!(of_unit.is_empty(), "{said}");
}

/// All queries of the dashboard.
fn queries(value: &Value, found: &mut Vec<String>) {
    match value {
        Value::Object(fields) => {
            for (key, value) in fields {
                match (&key[..], value) {
                    ("expr", Value::String(query)) => found.push(query.clone()),
                    _ => queries(value, found),
                }
            }
        }
        Value::Array(values) => values.iter().for_each(|value| queries(value, found)),
        _ => {}
    }
}

#[test]
fn prometheus_understands_every_query_of_the_dashboard() {
    let text = std::fs::read_to_string(deploy("grafana/gateway.json")).unwrap();
    let mut found = Vec::new();
    queries(&serde_json::from_str(&text).unwrap(), &mut found);
    assert!(found.len() > 20, "{found:?}");
    let rule = |(place, query): (usize, String)| {
        // Grafana replaces its variables: an interval and a regular expression.
        let query = query.replace("$__rate_interval", "5m").replace("$instance", ".*");
        json!({ "record": format!("query:{place}"), "expr": query })
    };
    let rules: Vec<Value> = found.into_iter().enumerate().map(rule).collect();
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("rules.yaml");
    let groups = json!({ "groups": [{ "name": "dashboard", "rules": rules }] });
    std::fs::write(&file, groups.to_string()).unwrap();
    let Ok(checked) = Command::new("promtool").args(["check", "rules"]).arg(&file).output() else {
        skip("no promtool; apt-get install prometheus");
        return;
    };
    let said = String::from_utf8_lossy(&checked.stderr);
    assert!(checked.status.success(), "{said}");
}
