//! Servers of the cluster that crash or hang, and recover.

use std::io::{Read, Write};
use std::time::Duration;

use homeostat_autoscaler::api::{MultidimPodAutoscaler, MultidimPodAutoscalerCheckpoint};
use homeostat_testbed::Cluster;
use kube::Api;
use serde_json::{Value, json};

use super::cluster::OwnCluster;
use super::operator::{Operator, OperatorConfig, eventually};
use super::shop::{Shop, spec};

const NO_WEBHOOK: OperatorConfig<'static> =
    OperatorConfig { arguments: &["--no-webhook"], copy: "" };

/// Longer than the time after which the API server counts as unavailable.
const OUTAGE: Duration = Duration::from_secs(9);

/// A workload whose number of pods fits its load, and its object.
async fn steady(shop: &Shop, name: &str, pods: u32) {
    shop.deployment(name, pods).await;
    let mut object = spec(name, "Auto");
    object["goals"] =
        json!({ "metrics": [{ "resource": { "name": "cpu", "averageUtilization": 50 } }] });
    object["constraints"]["containerControlledResources"] = json!([]);
    object["constraints"]["global"]["behavior"] =
        json!({ "scaleDown": { "stabilizationWindowSeconds": 0 } });
    all_use(shop, name, pods, "250m").await;
    shop.autoscaler(name, object).await.expect("taken");
}

async fn all_use(shop: &Shop, name: &str, pods: u32, cpu: &str) {
    for place in 0..pods {
        shop.uses(&format!("{name}-{place}"), cpu, "100Mi").await;
    }
}

/// Checks that the outage is reported by condition, event and metrics.
async fn is_reported(shop: &Shop, operator: &Operator, name: &str) {
    eventually("a condition that mentions the outage", async || {
        let message = shop.condition(name, "Ready", "AsPlanned").await;
        message.contains("the API server did not answer for").then_some(())
    })
    .await;
    let note = shop.event(name, "ServerUnavailable").await;
    assert!(note.contains("nothing was changed meanwhile"), "{note}");
    assert!(operator.metric("homeostat_operator_server_outages_total", "") >= 1.0);
    assert!(operator.metric("homeostat_operator_server_errors_total", "") >= 1.0);
}

/// Sends a request to etcd, which accepts JSON.
fn etcd(cluster: &Cluster, path: &str, question: &Value) -> Value {
    let mut stream = std::net::TcpStream::connect(("127.0.0.1", cluster.etcd_port())).expect("up");
    let body = question.to_string();
    let length = body.len();
    write!(stream, "POST {path} HTTP/1.0\r\nContent-Length: {length}\r\n\r\n{body}").expect("sent");
    let mut answer = String::new();
    stream.read_to_string(&mut answer).expect("answered");
    let (_, body) = answer.split_once("\r\n\r\n").expect("an answer");
    serde_json::from_str(body).unwrap_or_else(|_| panic!("{answer}"))
}

#[tokio::test]
async fn watches_recover_after_a_crash_of_the_api_server_and_a_compaction() {
    let Some(own) = OwnCluster::start("falls") else { return };
    let cluster = own.0;
    let shop = Shop::open_on(cluster, "falls").await;
    steady(&shop, "checkout", 4).await;
    let mut operator = Operator::start(cluster, &shop.namespace, &NO_WEBHOOK);
    shop.condition("checkout", "MetricsFresh", "AsPlanned").await;
    let api: Api<MultidimPodAutoscalerCheckpoint> = shop.api();
    let before = eventually("a checkpoint", async || api.get_opt("checkout").await.ok()?).await;

    // While the operator is stopped, objects change and old versions are compacted: its watches request
    // versions that no longer exist.
    operator.pause();
    steady(&shop, "cart", 2).await;
    all_use(&shop, "cart", 2, "450m").await;
    let revision = etcd(cluster, "/v3/kv/range", &json!({ "key": "YQ==" }));
    let revision = revision["header"]["revision"].as_str().expect("a number").to_owned();
    let compacted = etcd(cluster, "/v3/kv/compaction", &json!({ "revision": revision }));
    assert!(compacted.get("error").is_none(), "{compacted}");
    cluster.api_server.kill();
    operator.resume();
    tokio::time::sleep(OUTAGE).await;
    let silent = operator.get("/readyz").expect("it answers");
    assert!(silent.contains("the API server has not answered for"), "{silent}");
    assert!(operator.metric("homeostat_operator_server_silence_seconds", "") > 6.0);
    cluster.api_server.restart();
    cluster.ready().await;

    eventually("readiness", async || operator.get("/readyz").filter(|text| text == "ok\n")).await;
    is_reported(&shop, &operator, "checkout").await;
    // Changes during the outage are found.
    eventually("cart to get more pods", async || (shop.replicas("cart").await == 4).then_some(()))
        .await;
    assert_eq!(shop.replicas("checkout").await, 4);
    eventually("a later checkpoint", async || {
        let later = api.get("checkout").await.expect("there");
        (later.spec.taken_at.0 > before.spec.taken_at.0).then_some(())
    })
    .await;
    assert!(operator.metric("homeostat_operator_watch_errors_total", "") >= 1.0);
    shop.assert_no_event("checkout", "CheckpointUnreadable").await;
    assert!(operator.is_running());
}

#[tokio::test]
async fn while_etcd_hangs_nothing_changes_and_afterwards_everything_continues() {
    let Some(own) = OwnCluster::start("still") else { return };
    let cluster = own.0;
    let shop = Shop::open_on(cluster, "still").await;
    steady(&shop, "checkout", 2).await;
    let mut operator = Operator::start(cluster, &shop.namespace, &NO_WEBHOOK);
    shop.condition("checkout", "MetricsFresh", "AsPlanned").await;
    let holder = async || shop.leader().await;
    let leader = eventually("a leader", holder).await;

    all_use(&shop, "checkout", 2, "450m").await;
    cluster.etcd.pause();
    tokio::time::sleep(OUTAGE).await;
    let silent = operator.get("/readyz").expect("it answers");
    // A replica that cannot renew its lease does not lead.
    let leads = operator.metric("homeostat_operator_leads", "");
    cluster.etcd.resume();
    assert!(silent.contains("the API server has not answered for"), "{silent}");
    assert_eq!(leads, 0.0);
    cluster.ready().await;

    eventually("readiness", async || operator.get("/readyz").filter(|text| text == "ok\n")).await;
    is_reported(&shop, &operator, "checkout").await;
    eventually("more pods", async || (shop.replicas("checkout").await == 4).then_some(())).await;
    assert_eq!(holder().await, Some(leader));
    // Scaled once, however many attempts there were.
    assert_eq!(operator.metric("homeostat_operator_rescales_total", "up"), 1.0);
    let api: Api<MultidimPodAutoscaler> = shop.api();
    let status = api.get("checkout").await.expect("there").status.unwrap_or_default();
    let changes = status.decisions.iter().filter(|record| record.from != record.applied).count();
    assert!(changes <= 1, "{:#?}", status.decisions);
    assert!(operator.is_running());
}
