//! What the controllers make of an object.

use homeostat_operator::api::MultidimPodAutoscaler;
use kube::Api;
use kube::api::{DeleteParams, Patch, PatchParams};
use serde_json::json;

use super::operator::{Operator, OperatorConfig, eventually};
use super::shop::{Shop, spec};

const NO_WEBHOOK: OperatorConfig<'static> =
    OperatorConfig { arguments: &["--no-webhook"], copy: "" };

#[tokio::test]
async fn bad_objects_each_end_in_a_clear_condition() {
    let Some(shop) = Shop::open("bad-objects").await else { return };
    shop.deployment("checkout", 2).await;
    let _operator = Operator::start(shop.cluster, &shop.namespace, &NO_WEBHOOK);

    shop.autoscaler("lost", spec("nobody", "Auto")).await.expect("taken");
    let message = shop.condition("lost", "Ready", "TargetNotFound").await;
    assert!(message.contains("there is no Deployment named \"nobody\""), "{message}");

    let mut upside_down = spec("checkout", "Auto");
    upside_down["constraints"]["global"] = json!({ "minReplicas": 5, "maxReplicas": 2 });
    shop.autoscaler("upside-down", upside_down).await.expect("taken");
    let message = shop.condition("upside-down", "Ready", "InvalidSpec").await;
    assert!(message.contains("minReplicas 5 is above maxReplicas 2"), "{message}");

    let mut unknown_kind = spec("checkout", "Auto");
    unknown_kind["scaleTargetRef"]["kind"] = json!("Deploiement");
    shop.autoscaler("unknown-kind", unknown_kind).await.expect("taken");
    shop.condition("unknown-kind", "Ready", "TargetNotScalable").await;

    let mut not_scalable = spec("checkout", "Auto");
    not_scalable["scaleTargetRef"] = json!({ "apiVersion": "v1", "kind": "ConfigMap", "name": "x" });
    shop.autoscaler("not-scalable", not_scalable).await.expect("taken");
    let message = shop.condition("not-scalable", "Ready", "TargetNotScalable").await;
    assert!(message.contains("no scale subresource"), "{message}");

    let mut slip = spec("checkout", "Recommend");
    slip["constraints"]["container"] = json!([{ "name": "ap" }]);
    shop.autoscaler("slip", slip).await.expect("taken");
    let message = shop.condition("slip", "Ready", "InvalidSpec").await;
    assert!(message.contains("no container \"ap\", they have app"), "{message}");
}

#[tokio::test]
async fn of_two_objects_on_one_target_the_older_works() {
    let Some(shop) = Shop::open("two-objects").await else { return };
    shop.deployment("checkout", 1).await;
    shop.uses("checkout-0", "200m", "100Mi").await;
    shop.autoscaler("first", spec("checkout", "Recommend")).await.expect("taken");
    tokio::time::sleep(std::time::Duration::from_millis(1100)).await;
    shop.autoscaler("second", spec("checkout", "Recommend")).await.expect("taken");
    let _operator = Operator::start(shop.cluster, &shop.namespace, &NO_WEBHOOK);
    shop.condition("first", "Ready", "AsPlanned").await;
    let message = shop.condition("second", "Ready", "TargetTaken").await;
    assert!(message.contains("the older object \"first\""), "{message}");

    let api: Api<MultidimPodAutoscaler> = shop.api();
    api.delete("first", &DeleteParams::default()).await.expect("deleted");
    shop.condition("second", "Ready", "AsPlanned").await;
}

#[tokio::test]
async fn load_brings_pods_and_recommend_changes_nothing() {
    let Some(shop) = Shop::open("load").await else { return };
    for name in ["checkout", "cart"] {
        shop.deployment(name, 2).await;
        for place in 0..2 {
            shop.uses(&format!("{name}-{place}"), "480m", "100Mi").await;
        }
    }
    let at_half = json!([{ "resource": { "name": "cpu", "averageUtilization": 50 } }]);
    for (name, mode) in [("checkout", "Auto"), ("cart", "Recommend")] {
        let mut spec = spec(name, mode);
        spec["goals"] = json!({ "metrics": at_half });
        shop.autoscaler(name, spec).await.expect("taken");
    }
    let operator = Operator::start(shop.cluster, &shop.namespace, &NO_WEBHOOK);
    eventually("checkout to get more pods", async || {
        (shop.replicas("checkout").await == 4).then_some(())
    })
    .await;
    shop.condition("cart", "Acting", "NotInMode").await;
    let api: Api<MultidimPodAutoscaler> = shop.api();
    let status = api.get("cart").await.expect("there").status.unwrap_or_default();
    assert_eq!(status.desired_replicas, Some(4));
    assert_eq!(shop.replicas("cart").await, 2);
    let metrics = operator.get("/metrics").expect("it answers");
    assert!(metrics.contains("homeostat_operator_rescales_total{what=\"up\"} 1"), "{metrics}");
}

#[tokio::test]
async fn nothing_goes_down_on_silence() {
    let Some(shop) = Shop::open("silence").await else { return };
    shop.deployment("checkout", 4).await;
    shop.autoscaler("checkout", spec("checkout", "Auto")).await.expect("taken");
    let arguments = ["--no-webhook", "--fall-back-after", "3s"];
    let config = OperatorConfig { arguments: &arguments, copy: "" };
    let _operator = Operator::start(shop.cluster, &shop.namespace, &config);
    let message = shop.condition("checkout", "MetricsFresh", "MetricsMissing").await;
    assert!(message.contains("held as it is"), "{message}");
    eventually("the fallback", async || {
        let message = shop.condition("checkout", "MetricsFresh", "MetricsMissing").await;
        message.contains("fallen back").then_some(())
    })
    .await;
    let old = k8s_openapi::jiff::Timestamp::now() - k8s_openapi::jiff::SignedDuration::from_mins(5);
    for place in 0..4 {
        shop.uses_at(&format!("checkout-{place}"), "1m", "10Mi", old).await;
    }
    shop.condition("checkout", "MetricsFresh", "MetricsStale").await;
    assert_eq!(shop.replicas("checkout").await, 4);
    shop.silence().await;
    shop.condition("checkout", "MetricsFresh", "MetricsMissing").await;
    assert_eq!(shop.replicas("checkout").await, 4);
}

#[tokio::test]
async fn a_pause_holds_and_its_end_lets_go() {
    let Some(shop) = Shop::open("pause").await else { return };
    shop.deployment("checkout", 1).await;
    shop.uses("checkout-0", "490m", "100Mi").await;
    let api: Api<MultidimPodAutoscaler> = shop.api();
    let mut busy = spec("checkout", "Auto");
    busy["goals"] = json!({ "metrics": [{ "resource": { "name": "cpu", "averageUtilization": 50 } }] });
    shop.autoscaler("checkout", busy).await.expect("taken");
    let pause = |value: serde_json::Value| {
        json!({ "metadata": { "annotations": { "homeostat.dev/paused": value } } })
    };
    let params = PatchParams::default();
    api.patch("checkout", &params, &Patch::Merge(pause(json!("all")))).await.expect("patched");
    let _operator = Operator::start(shop.cluster, &shop.namespace, &NO_WEBHOOK);
    shop.condition("checkout", "Acting", "Paused").await;
    assert_eq!(shop.replicas("checkout").await, 1);
    api.patch("checkout", &params, &Patch::Merge(pause(json!(null)))).await.expect("patched");
    eventually("the pause to end", async || (shop.replicas("checkout").await == 2).then_some(()))
        .await;
}

#[tokio::test]
async fn a_killed_operator_goes_on_where_it_was() {
    let Some(shop) = Shop::open("killed").await else { return };
    shop.deployment("checkout", 2).await;
    for place in 0..2 {
        shop.uses(&format!("checkout-{place}"), "300m", "100Mi").await;
    }
    shop.autoscaler("checkout", spec("checkout", "Recommend")).await.expect("taken");
    let operator = Operator::start(shop.cluster, &shop.namespace, &NO_WEBHOOK);
    let api: Api<homeostat_operator::api::MultidimPodAutoscalerCheckpoint> = shop.api();
    let first = eventually("a checkpoint", async || api.get_opt("checkout").await.expect("asked")).await;
    operator.kill();
    let again = OperatorConfig { copy: "-again", ..NO_WEBHOOK };
    let operator = Operator::start(shop.cluster, &shop.namespace, &again);
    eventually("a later checkpoint", async || {
        let later = api.get("checkout").await.expect("asked");
        (later.spec.taken_at.0 > first.spec.taken_at.0).then_some(())
    })
    .await;
    assert!(!operator.log().contains("beginning anew"), "{}", operator.log());
}
