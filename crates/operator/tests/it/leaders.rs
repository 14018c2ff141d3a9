//! Several copies of the operator, of which one acts.

use std::time::Duration;

use k8s_openapi::api::coordination::v1::Lease;
use kube::Api;
use serde_json::json;

use super::operator::{Operator, OperatorConfig, eventually};
use super::shop::{Shop, spec};

#[tokio::test]
async fn a_leader_that_was_stopped_does_not_act_when_it_goes_on() {
    let Some(shop) = Shop::open("stopped").await else { return };
    shop.deployment("checkout", 2).await;
    let mut object = spec("checkout", "Auto");
    object["goals"] =
        json!({ "metrics": [{ "resource": { "name": "cpu", "averageUtilization": 50 } }] });
    object["constraints"]["containerControlledResources"] = json!([]);
    shop.autoscaler("checkout", object).await.expect("taken");
    let start = |copy: &str| {
        let arguments = ["--no-webhook", "--identity", copy];
        let config = OperatorConfig { arguments: &arguments, copy };
        Operator::start(shop.cluster, &shop.namespace, &config)
    };
    let leases: Api<Lease> = shop.api();
    let holder = async || leases.get_opt("homeostat-operator").await.ok()??.spec?.holder_identity;
    let first = start("first");
    eventually("the first to lead", async || holder().await.filter(|name| name == "first")).await;
    let second = start("second");
    eventually("the second to wait", async || second.get("/readyz").filter(|text| text == "ok\n"))
        .await;
    first.pause();
    for place in 0..2 {
        shop.uses(&format!("checkout-{place}"), "490m", "100Mi").await;
    }
    eventually("the second to act", async || (shop.replicas("checkout").await == 4).then_some(()))
        .await;
    first.resume();
    tokio::time::sleep(Duration::from_secs(3)).await;
    assert_eq!(holder().await.as_deref(), Some("second"));
    let acts = |operator: &Operator| {
        let leads = operator.metric("homeostat_operator_leads", "");
        (leads, operator.metric("homeostat_operator_rescales_total", ""))
    };
    assert_eq!(acts(&first), (0.0, 0.0));
    assert_eq!(acts(&second), (1.0, 1.0));
}
