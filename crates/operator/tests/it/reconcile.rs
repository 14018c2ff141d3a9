//! The controllers' behaviour for single objects.

use homeostat_autoscaler::api::MultidimPodAutoscaler;
use k8s_openapi::api::autoscaling::v1::HorizontalPodAutoscaler;
use k8s_openapi::api::events::v1::Event;
use kube::Api;
use kube::api::{DeleteParams, ListParams, Patch, PatchParams, PostParams};
use serde_json::json;

use super::operator::{Operator, OperatorConfig, eventually};
use super::shop::{Shop, spec};

const NO_WEBHOOK: OperatorConfig<'static> =
    OperatorConfig { arguments: &["--no-webhook"], copy: "" };

#[tokio::test]
async fn invalid_objects_have_a_clear_condition() {
    let Some(shop) = Shop::open("bad-objects").await else { return };
    shop.deployment("checkout", 2).await;
    let _operator = Operator::start(shop.cluster, &shop.namespace, &NO_WEBHOOK);

    shop.autoscaler("lost", spec("missing", "Auto")).await.expect("taken");
    let message = shop.condition("lost", "Ready", "TargetNotFound").await;
    assert!(message.contains("there is no Deployment named \"missing\""), "{message}");

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
    not_scalable["scaleTargetRef"] =
        json!({ "apiVersion": "v1", "kind": "ConfigMap", "name": "x" });
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
async fn a_change_of_mode_is_no_reason_to_warn() {
    let Some(shop) = Shop::open("modes").await else { return };
    shop.deployment("checkout", 1).await;
    shop.uses("checkout-0", "200m", "100Mi").await;
    shop.autoscaler("checkout", spec("checkout", "Recommend")).await.expect("taken");
    let _operator = Operator::start(shop.cluster, &shop.namespace, &NO_WEBHOOK);
    shop.condition("checkout", "Acting", "NotInMode").await;
    for (mode, reason) in [("Auto", "AsPlanned"), ("Recommend", "NotInMode")] {
        let mut object = spec("checkout", mode);
        // Sizes would cause evictions, which another test covers.
        object["constraints"]["containerControlledResources"] = json!([]);
        shop.autoscaler("checkout", object).await.expect("taken");
        shop.condition("checkout", "Acting", reason).await;
    }
    let events: Api<Event> = shop.api();
    let all = events.list(&ListParams::default()).await.expect("listed").items;
    let warnings = all.iter().filter(|event| event.type_.as_deref() == Some("Warning"));
    let warnings: Vec<_> = warnings.map(|event| (&event.reason, &event.note)).collect();
    assert!(warnings.is_empty(), "{warnings:?}");
}

#[tokio::test]
async fn of_two_objects_with_one_target_the_older_scales_it() {
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
    assert!(metrics.contains("homeostat_operator_rescales_total{direction=\"up\"} 1"), "{metrics}");
}

#[tokio::test]
async fn nothing_is_scaled_down_without_metrics() {
    let Some(shop) = Shop::open("silence").await else { return };
    shop.deployment("checkout", 4).await;
    shop.autoscaler("checkout", spec("checkout", "Auto")).await.expect("taken");
    let arguments = ["--no-webhook", "--fall-back-after", "8s"];
    let config = OperatorConfig { arguments: &arguments, copy: "" };
    let _operator = Operator::start(shop.cluster, &shop.namespace, &config);
    let message = shop.condition("checkout", "MetricsFresh", "MetricsMissing").await;
    assert!(message.contains("nothing is changed"), "{message}");
    let message = shop.condition("checkout", "MetricsFresh", "FallenBack").await;
    assert!(message.contains("nothing is changed except to stay within bounds"), "{message}");
    let old = k8s_openapi::jiff::Timestamp::now() - k8s_openapi::jiff::SignedDuration::from_mins(5);
    for place in 0..4 {
        shop.uses_at(&format!("checkout-{place}"), "1m", "10Mi", old).await;
    }
    eventually("stale metrics to be reported", async || {
        let message = shop.condition("checkout", "MetricsFresh", "FallenBack").await;
        message.contains("s old, at most 90s are allowed").then_some(())
    })
    .await;
    shop.delete_usage().await;
    eventually("missing metrics to be reported", async || {
        let message = shop.condition("checkout", "MetricsFresh", "FallenBack").await;
        message.contains("has no such metric").then_some(())
    })
    .await;
    assert_eq!(shop.replicas("checkout").await, 4);
}

#[tokio::test]
async fn a_pause_stops_changes_until_it_ends() {
    let Some(shop) = Shop::open("pause").await else { return };
    shop.deployment("checkout", 1).await;
    shop.uses("checkout-0", "490m", "100Mi").await;
    let api: Api<MultidimPodAutoscaler> = shop.api();
    let mut busy = spec("checkout", "Auto");
    busy["goals"] =
        json!({ "metrics": [{ "resource": { "name": "cpu", "averageUtilization": 50 } }] });
    shop.autoscaler("checkout", busy).await.expect("taken");
    let pause = |value: serde_json::Value| json!({ "metadata": { "annotations": { "homeostat.dev/paused": value } } });
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
async fn beside_an_hpa_an_object_recommends_but_does_not_act() {
    let Some(shop) = Shop::open("beside-hpa").await else { return };
    shop.deployment("checkout", 1).await;
    shop.uses("checkout-0", "200m", "100Mi").await;
    let hpa: HorizontalPodAutoscaler = serde_json::from_value(json!({
        "metadata": { "name": "checkout" },
        "spec": { "maxReplicas": 4, "scaleTargetRef": spec("checkout", "Auto")["scaleTargetRef"] },
    }))
    .expect("valid");
    shop.api().create(&PostParams::default(), &hpa).await.expect("created");
    shop.autoscaler("checkout", spec("checkout", "Auto")).await.expect("taken");
    let _operator = Operator::start(shop.cluster, &shop.namespace, &NO_WEBHOOK);
    let message = shop.condition("checkout", "Ready", "OtherAutoscaler").await;
    assert!(message.contains("HorizontalPodAutoscaler \"checkout\""), "{message}");
    shop.autoscaler("checkout", spec("checkout", "Recommend")).await.expect("taken");
    shop.condition("checkout", "Ready", "AsPlanned").await;
}

#[tokio::test]
async fn a_crashed_leader_is_replaced_within_fifteen_seconds() {
    let Some(shop) = Shop::open("leader").await else { return };
    let holder = async || shop.leader().await;
    let start = |copy: &str| {
        let arguments = ["--no-webhook", "--identity", copy];
        Operator::start(
            shop.cluster,
            &shop.namespace,
            &OperatorConfig { arguments: &arguments, copy },
        )
    };
    let first = start("first");
    eventually("the first to lead", async || holder().await.filter(|name| name == "first")).await;
    let second = start("second");
    eventually("the second to wait", async || {
        second.get("/readyz").filter(|answer| answer == "ok\n")
    })
    .await;
    assert_eq!(holder().await.as_deref(), Some("first"));
    first.kill();
    let killed = std::time::Instant::now();
    eventually("the second to lead", async || holder().await.filter(|name| name == "second")).await;
    let took = killed.elapsed();
    assert!(took < std::time::Duration::from_secs(15), "{took:?}");
}

#[tokio::test]
async fn a_killed_operator_continues_from_its_checkpoint() {
    let Some(shop) = Shop::open("killed").await else { return };
    shop.deployment("checkout", 2).await;
    for place in 0..2 {
        shop.uses(&format!("checkout-{place}"), "300m", "100Mi").await;
    }
    shop.autoscaler("checkout", spec("checkout", "Recommend")).await.expect("taken");
    let operator = Operator::start(shop.cluster, &shop.namespace, &NO_WEBHOOK);
    let api: Api<homeostat_autoscaler::api::MultidimPodAutoscalerCheckpoint> = shop.api();
    let first =
        eventually("a checkpoint", async || api.get_opt("checkout").await.expect("asked")).await;
    operator.kill();
    let again = OperatorConfig { copy: "-again", ..NO_WEBHOOK };
    let _operator = Operator::start(shop.cluster, &shop.namespace, &again);
    eventually("a later checkpoint", async || {
        let later = api.get("checkout").await.expect("asked");
        (later.spec.taken_at.0 > first.spec.taken_at.0).then_some(())
    })
    .await;
    shop.assert_no_event("checkout", "CheckpointUnreadable").await;
}

#[tokio::test]
async fn the_history_of_one_workload_is_not_used_for_another() {
    let Some(shop) = Shop::open("retargeted").await else { return };
    for (name, memory) in [("large", "3000Mi"), ("small", "100Mi")] {
        shop.deployment(name, 1).await;
        shop.uses(&format!("{name}-0"), "200m", memory).await;
    }
    shop.autoscaler("checkout", spec("large", "Recommend")).await.expect("taken");
    let start = |copy| {
        let config = OperatorConfig { copy, ..NO_WEBHOOK };
        Operator::start(shop.cluster, &shop.namespace, &config)
    };
    let operator = start("");
    let api: Api<MultidimPodAutoscaler> = shop.api();
    // The target of VPA depends on the history alone.
    let memory = async |is_meant: fn(u64) -> bool| {
        eventually("the memory of another workload", async || {
            let status = api.get("checkout").await.expect("there").status?;
            let memory = status.alternatives?.vpa_target.memory?.0;
            let mebibytes = memory.strip_suffix("Mi")?.parse().ok()?;
            is_meant(mebibytes).then_some(())
        })
        .await;
    };
    memory(|mebibytes| mebibytes > 3000).await;
    let aim = async |target: &str| {
        let change = Patch::Merge(json!({ "spec": { "scaleTargetRef": { "name": target } } }));
        api.patch("checkout", &PatchParams::default(), &change).await.expect("patched");
    };
    aim("small").await;
    memory(|mebibytes| mebibytes < 300).await;
    aim("large").await;
    memory(|mebibytes| mebibytes > 3000).await;
    // A new process with the checkpoint does not use it either.
    let checkpoints: Api<homeostat_autoscaler::api::MultidimPodAutoscalerCheckpoint> = shop.api();
    eventually("a checkpoint of the large one", async || {
        let checkpoint = checkpoints.get_opt("checkout").await.expect("asked")?;
        (checkpoint.spec.scale_target_ref?.name == "large").then_some(())
    })
    .await;
    operator.kill();
    aim("small").await;
    let _operator = start("-again");
    memory(|mebibytes| mebibytes < 300).await;
}
