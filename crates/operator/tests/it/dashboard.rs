//! The Grafana dashboard: every metric that it queries is exported, and every exported metric is
//! shown.

use std::collections::BTreeSet;
use std::fs;
use std::process::Command;

use homeostat_operator::telemetry::Telemetry;
use homeostat_test_skip::skip;
use serde_json::{Value, json};

use super::chart::chart_file;
use super::cluster;
use super::operator::{Operator, OperatorConfig, eventually};
use super::shop::{Shop, spec};

const PREFIX: &str = "homeostat_operator_";

/// Families that appear with the first error: a healthy operator has none.
const ONLY_AFTER_ERRORS: [&str; 2] = ["server_errors", "watch_errors"];

/// Families that appear with the first pod; other tests cover them.
const ONLY_AFTER_PODS: [&str; 2] = ["admissions", "resizes"];

/// All queries of the dashboard.
fn queries() -> Vec<String> {
    fn collect(value: &Value, found: &mut Vec<String>) {
        match value {
            Value::Object(fields) => {
                for (key, value) in fields {
                    match (&key[..], value) {
                        ("expr" | "definition", Value::String(query)) => found.push(query.clone()),
                        _ => collect(value, found),
                    }
                }
            }
            Value::Array(values) => values.iter().for_each(|value| collect(value, found)),
            _ => {}
        }
    }
    let text = fs::read_to_string(chart_file("dashboards/homeostat.json")).expect("it is there");
    let mut found = Vec::new();
    collect(&serde_json::from_str(&text).expect("it is JSON"), &mut found);
    found
}

#[test]
fn prometheus_understands_every_query_of_the_dashboard() {
    let is_query = |query: &String| !query.starts_with("label_values(");
    let rules: Vec<Value> = queries()
        .into_iter()
        .filter(is_query)
        .enumerate()
        // Grafana replaces a variable by a regular expression of names.
        .map(|(place, query)| json!({ "record": format!("query:{place}"), "expr": query.replace('$', "") }))
        .collect();
    assert!(rules.len() > 20, "{rules:?}");
    let file = cluster::fresh_folder("dashboard").join("rules.yaml");
    let groups = json!({ "groups": [{ "name": "dashboard", "rules": rules }] });
    fs::write(&file, groups.to_string()).expect("written");
    let Ok(checked) = Command::new("promtool").args(["check", "rules"]).arg(&file).output() else {
        skip("no promtool; apt-get install prometheus");
        return;
    };
    let said = String::from_utf8_lossy(&checked.stderr);
    assert!(checked.status.success(), "{said}");
}

/// The operator's metrics in a query.
fn names(query: &str) -> BTreeSet<String> {
    let words = query.split(|c: char| !c.is_ascii_alphanumeric() && c != '_');
    words.filter_map(|word| word.strip_prefix(PREFIX)).map(str::to_owned).collect()
}

/// Names of series and families that an operator exports.
fn exported(metrics: &str) -> (BTreeSet<String>, BTreeSet<String>) {
    let series = metrics.lines().filter_map(|line| line.strip_prefix(PREFIX));
    let series = series.filter_map(|line| line.split(['{', ' ']).next()).map(str::to_owned);
    let types = metrics.lines().filter_map(|line| line.strip_prefix("# TYPE "));
    let families = types.filter_map(|line| line.split(' ').next()?.strip_prefix(PREFIX));
    (series.collect(), families.map(str::to_owned).collect())
}

fn family(series: &str) -> &str {
    let suffixes = ["_total", "_bucket", "_sum", "_count"];
    suffixes.iter().find_map(|suffix| series.strip_suffix(suffix)).unwrap_or(series)
}

#[tokio::test]
async fn the_dashboard_shows_what_a_running_operator_exports() {
    let Some(shop) = Shop::open("dashboard").await else { return };
    shop.deployment("checkout", 1).await;
    shop.uses("checkout-0", "490m", "100Mi").await;
    let mut busy = spec("checkout", "Auto");
    busy["goals"] =
        json!({ "metrics": [{ "resource": { "name": "cpu", "averageUtilization": 50 } }] });
    busy["recommenders"] = json!([{ "name": "aware" }]);
    shop.autoscaler("checkout", busy).await.expect("taken");
    let config = OperatorConfig { arguments: &["--no-webhook"], copy: "" };
    let operator = Operator::start(shop.cluster, &shop.namespace, &config);
    let metrics = eventually("a pod more", async || {
        operator.get("/metrics").filter(|text| text.contains("rescales_total"))
    })
    .await;
    let desired = r#"object_replicas{namespace="dashboard",name="checkout",kind="desired"} 2"#;
    assert!(metrics.contains(desired), "{metrics}");
    let (mut series, mut families) = exported(&metrics);
    let broken = Telemetry::default();
    let gone = kube::runtime::watcher::Error::NoResourceVersion;
    broken.watch_error("pods", &gone);
    broken.server_error("status", &kube::Error::LinesCodecMaxLineLengthExceeded);
    broken.admitted("sized");
    broken.stage_changed(&homeostat_aware::StageChange {
        from: homeostat_aware::Stage::Initialised,
        to: homeostat_aware::Stage::Offline,
        cause: homeostat_aware::Cause::Bootstrapping,
    });
    broken.resized(&homeostat_autoscaler::update::PodStep::Evict("x".to_owned()));
    let (more, more_families) = exported(&broken.text());
    for name in ONLY_AFTER_ERRORS.iter().chain(&ONLY_AFTER_PODS) {
        assert!(more_families.contains(*name), "{name} does not exist");
    }
    series.extend(more);
    families.extend(more_families);

    let asked: BTreeSet<String> = queries().iter().flat_map(|query| names(query)).collect();
    for name in &asked {
        assert!(series.contains(name), "the dashboard queries {name}, which is not exported");
    }
    let shown: BTreeSet<&str> = asked.iter().map(|name| family(name)).collect();
    for family in &families {
        assert!(shown.contains(&family[..]), "{family} is exported and not shown");
    }
}

#[tokio::test]
async fn metrics_of_an_object_are_removed_with_it() {
    let Some(shop) = Shop::open("figures").await else { return };
    shop.deployment("checkout", 1).await;
    shop.uses("checkout-0", "200m", "100Mi").await;
    shop.autoscaler("checkout", spec("checkout", "Recommend")).await.expect("taken");
    let config = OperatorConfig { arguments: &["--no-webhook"], copy: "" };
    let operator = Operator::start(shop.cluster, &shop.namespace, &config);
    let metrics = async || operator.get("/metrics");
    eventually("figures", async || {
        metrics().await.filter(|text| text.contains(r#"mode="Recommend",kind="Deployment""#))
    })
    .await;
    shop.autoscaler("checkout", spec("checkout", "Off")).await.expect("taken");
    eventually("the new mode, and no allocations", async || {
        let text = metrics().await?;
        (text.contains(r#"mode="Off""#)
            && !text.contains(r#"mode="Recommend""#)
            && !text.contains(r#"kind="desired""#))
        .then_some(())
    })
    .await;
    let api: kube::Api<homeostat_autoscaler::api::MultidimPodAutoscaler> = shop.api();
    api.delete("checkout", &kube::api::DeleteParams::default()).await.expect("deleted");
    eventually("no metrics of it", async || {
        metrics().await.filter(|text| !text.contains(r#"name="checkout""#))
    })
    .await;
}
