//! The first steps of a new user.

use k8s_openapi::api::events::v1::Event;
use kube::Api;
use kube::api::ListParams;

use super::operator::{Operator, OperatorConfig, eventually};
use super::shop::{Shop, spec};

#[test]
fn without_a_cluster_the_error_names_the_missing_file_and_nothing_else() {
    let output = std::process::Command::new(env!("CARGO_BIN_EXE_homeostat-operator"))
        .args(["explain", "checkout"])
        .env("KUBECONFIG", "/nowhere/config")
        .env_remove("KUBERNETES_SERVICE_HOST")
        .output()
        .expect("it starts");
    assert_eq!(output.status.code(), Some(1));
    let said = String::from_utf8(output.stderr).expect("text");
    assert!(said.starts_with("error: no cluster is configured, set KUBECONFIG"), "{said}");
    assert_eq!(said.matches("/nowhere/config").count(), 1, "{said}");
    assert!(!said.contains("in-cluster"), "{said}");
}

#[tokio::test]
async fn the_first_object_of_a_namespace_gets_its_recommendation_without_a_warning() {
    let Some(shop) = Shop::open("first-object").await else { return };
    shop.deployment("checkout", 1).await;
    shop.uses("checkout-0", "200m", "100Mi").await;
    // Outside a cluster, with the namespace of the kubeconfig. The interval is longer than the test:
    // only the change of the object triggers a reconcile.
    let mut command = std::process::Command::new(env!("CARGO_BIN_EXE_homeostat-operator"));
    command.args(["run", "--no-webhook", "--interval", "10m"]);
    command.args(["--only-namespace", &shop.namespace]).env_remove("POD_NAMESPACE");
    command.env("KUBECONFIG", shop.cluster.admin_kubeconfig());
    let operator = Operator::spawn(shop.cluster, &shop.namespace, &mut command);
    eventually("the first resync, without objects", async || {
        operator.get("/metrics").filter(|text| text.contains("homeostat_operator_resyncs_total 1"))
    })
    .await;
    shop.autoscaler("checkout", spec("checkout", "Recommend")).await.expect("taken");
    shop.condition("checkout", "Ready", "AsPlanned").await;
    shop.condition("checkout", "MetricsFresh", "AsPlanned").await;
    let events: Api<Event> = shop.api();
    let events = events.list(&ListParams::default()).await.expect("listed").items;
    assert!(events.is_empty(), "{events:#?}");
}

#[tokio::test]
async fn frequent_readiness_probes_do_not_prevent_the_start() {
    let Some(shop) = Shop::open("impatient").await else { return };
    shop.deployment("checkout", 1).await;
    shop.uses("checkout-0", "200m", "100Mi").await;
    shop.autoscaler("checkout", spec("checkout", "Recommend")).await.expect("taken");
    let config = OperatorConfig { arguments: &["--no-webhook"], copy: "" };
    let operator = Operator::start(shop.cluster, &shop.namespace, &config);
    let is_not_ready = || operator.get("/readyz").is_none_or(|answer| answer != "ok\n");
    while is_not_ready() {}
    shop.condition("checkout", "Ready", "AsPlanned").await;
}
