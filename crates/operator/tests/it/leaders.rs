//! Several replicas of the operator, of which one acts.

use std::time::{Duration, Instant};

use serde_json::json;

use super::operator::{Operator, OperatorConfig, eventually};
use super::shop::{Shop, spec};

/// Two replicas, of which the first leads and the second waits.
async fn first_and_second(shop: &Shop) -> (Operator, Operator) {
    let start = |copy: &str| {
        let arguments = ["--no-webhook", "--identity", copy];
        let config = OperatorConfig { arguments: &arguments, copy };
        Operator::start(shop.cluster, &shop.namespace, &config)
    };
    let first = start("first");
    eventually("the first to lead", async || shop.leader().await.filter(|name| name == "first"))
        .await;
    let second = start("second");
    eventually("the second to wait", async || second.get("/readyz").filter(|text| text == "ok\n"))
        .await;
    (first, second)
}

#[tokio::test]
async fn a_terminated_leader_is_replaced_at_once() {
    let Some(shop) = Shop::open("asked-to-end").await else { return };
    let (first, _second) = first_and_second(&shop).await;
    first.terminate();
    let ended = Instant::now();
    eventually("the second to lead", async || shop.leader().await.filter(|name| name == "second"))
        .await;
    // Without a release the lease would expire ten seconds after its last renewal.
    assert!(ended.elapsed() < Duration::from_secs(7), "{:?}", ended.elapsed());
}

#[tokio::test]
async fn a_leader_that_was_stopped_does_not_act_when_it_continues() {
    let Some(shop) = Shop::open("stopped").await else { return };
    shop.deployment("checkout", 2).await;
    let mut object = spec("checkout", "Auto");
    object["goals"] =
        json!({ "metrics": [{ "resource": { "name": "cpu", "averageUtilization": 50 } }] });
    object["constraints"]["containerControlledResources"] = json!([]);
    shop.autoscaler("checkout", object).await.expect("taken");
    let (first, second) = first_and_second(&shop).await;
    first.pause();
    for place in 0..2 {
        shop.uses(&format!("checkout-{place}"), "490m", "100Mi").await;
    }
    eventually("the second to act", async || (shop.replicas("checkout").await == 4).then_some(()))
        .await;
    first.resume();
    tokio::time::sleep(Duration::from_secs(3)).await;
    assert_eq!(shop.leader().await.as_deref(), Some("second"));
    let acts = |operator: &Operator| {
        let leads = operator.metric("homeostat_operator_leads", "");
        (leads, operator.metric("homeostat_operator_rescales_total", ""))
    };
    assert_eq!(acts(&first), (0.0, 0.0));
    assert_eq!(acts(&second), (1.0, 1.0));
}
