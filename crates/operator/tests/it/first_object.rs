//! What the first object of somebody who tries it meets.

use k8s_openapi::api::events::v1::Event;
use kube::Api;
use kube::api::ListParams;

use super::operator::{Operator, OperatorConfig, eventually};
use super::shop::{Shop, spec};

#[test]
fn without_a_cluster_it_says_which_file_is_missing_and_nothing_else() {
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
    // As somebody starts it outside a cluster, for whom the namespace of the kubeconfig does. With
    // an interval that no test waits for: what happens, happens because the object was written.
    let mut command = std::process::Command::new(env!("CARGO_BIN_EXE_homeostat-operator"));
    command.args(["run", "--no-webhook", "--interval", "10m"]);
    command.args(["--only-namespace", &shop.namespace]).env_remove("POD_NAMESPACE");
    command.env("KUBECONFIG", shop.cluster.admin_kubeconfig());
    let operator = Operator::spawn(shop.cluster, &shop.namespace, &mut command);
    eventually("the first pass, over nothing", async || {
        operator.get("/metrics").filter(|text| text.contains("homeostat_operator_passes_total 1"))
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
async fn asking_whether_it_is_ready_does_not_keep_it_from_starting() {
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
