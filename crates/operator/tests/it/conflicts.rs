//! Concurrent writers, and objects that are deleted while they are processed.

use std::time::Duration;

use homeostat_autoscaler::api::MultidimPodAutoscaler;
use homeostat_operator::cluster::{ReplicaChange, Targets};
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::{Namespace, Pod};
use kube::Api;
use kube::api::{DeleteParams, ListParams, Patch, PatchParams};
use serde_json::json;

use super::operator::{Operator, OperatorConfig, eventually};
use super::shop::{Shop, spec};

const NO_WEBHOOK: OperatorConfig<'static> =
    OperatorConfig { arguments: &["--no-webhook"], copy: "" };

/// A workload under load whose object controls only the number of pods.
async fn busy(shop: &Shop, name: &str, pods: u32, most: u32) {
    shop.deployment(name, pods).await;
    for place in 0..pods {
        shop.uses(&format!("{name}-{place}"), "490m", "100Mi").await;
    }
    let mut object = spec(name, "Auto");
    object["goals"] =
        json!({ "metrics": [{ "resource": { "name": "cpu", "averageUtilization": 50 } }] });
    object["constraints"] = json!({
        "containerControlledResources": [],
        "global": { "minReplicas": 1, "maxReplicas": most },
    });
    shop.autoscaler(name, object).await.expect("taken");
}

#[tokio::test]
async fn a_number_that_another_client_changed_is_not_overwritten() {
    let Some(shop) = Shop::open("other-hands").await else { return };
    shop.deployment("checkout", 3).await;
    let targets = Targets::new(shop.client.clone());
    let target = spec("checkout", "Auto")["scaleTargetRef"].clone();
    let target = serde_json::from_value(target).expect("valid");
    let set = async |from, to| {
        targets.set_replicas("other-hands", &target, ReplicaChange { from, to }).await
    };
    // An outdated decision: from two pods to four, while another client has set three.
    let refused = set(2, 4).await.expect_err("they are three").to_string();
    assert!(refused.contains("from 2 to 3 pods meanwhile"), "{refused}");
    assert_eq!(shop.replicas("checkout").await, 3);

    // Writes to other fields do not prevent it.
    let deployments: Api<Deployment> = shop.api();
    let params = PatchParams::default();
    let others = async {
        for round in 0..60 {
            let change = json!({ "metadata": { "annotations": { "round": round.to_string() } } });
            deployments.patch("checkout", &params, &Patch::Merge(change)).await.expect("patched");
        }
    };
    let ours = async {
        for replicas in 3..9 {
            // After several conflicts in a row it gives up and has to be repeated.
            while let Err(error) = set(replicas, replicas + 1).await {
                assert!(error.to_string().contains("changes faster"), "{error}");
            }
        }
    };
    futures::future::join(others, ours).await;
    assert_eq!(shop.replicas("checkout").await, 9);
}

#[tokio::test]
async fn writers_of_the_same_objects_do_not_stop_each_other() {
    let Some(shop) = Shop::open("writers").await else { return };
    busy(&shop, "checkout", 2, 10).await;
    let operator = Operator::start(shop.cluster, &shop.namespace, &NO_WEBHOOK);
    let (api, deployments): (Api<MultidimPodAutoscaler>, Api<Deployment>) =
        (shop.api(), shop.api());
    let params = PatchParams::default();
    for round in 0..100 {
        let change = json!({ "metadata": { "annotations": { "round": round.to_string() } } });
        api.patch("checkout", &params, &Patch::Merge(&change)).await.expect("patched");
        deployments.patch("checkout", &params, &Patch::Merge(&change)).await.expect("patched");
    }
    eventually("more pods", async || (shop.replicas("checkout").await == 4).then_some(())).await;
    // The next reconcile corrects what another client writes into the status.
    let nonsense = json!({ "status": { "desiredReplicas": 1, "currentReplicas": 1 } });
    api.patch_status("checkout", &params, &Patch::Merge(nonsense)).await.expect("patched");
    eventually("the status to be corrected", async || {
        let status = api.get("checkout").await.expect("there").status?;
        (status.desired_replicas == Some(4)).then_some(())
    })
    .await;
    assert_eq!(shop.replicas("checkout").await, 4);
    assert_eq!(operator.metric("homeostat_operator_panics_total", ""), 0.0);
}

#[tokio::test]
async fn a_thousandfold_load_is_followed_step_by_step() {
    let Some(shop) = Shop::open("jump").await else { return };
    busy(&shop, "checkout", 1, 1000).await;
    shop.uses("checkout-0", "500", "100Mi").await;
    let _operator = Operator::start(shop.cluster, &shop.namespace, &NO_WEBHOOK);
    let first = eventually("more pods", async || {
        Some(shop.replicas("checkout").await).filter(|pods| *pods > 1)
    })
    .await;
    assert!(first <= 5, "no step adds more than four or a doubling: {first}");
    let api: Api<MultidimPodAutoscaler> = shop.api();
    let status = api.get("checkout").await.expect("there").status.unwrap_or_default();
    assert!(status.alternatives.is_some_and(|both| both.hpa_replicas.is_some()));
}

#[tokio::test]
async fn deletions_in_the_middle_do_not_affect_the_rest() {
    let Some(shop) = Shop::open("goes").await else { return };
    for name in ["object", "target"] {
        shop.deployment(name, 6).await;
        let mut object = spec(name, "Auto");
        object["policy"] = json!({ "disruption": { "maxUnavailable": "1", "minPodAge": "1s" } });
        let size = json!({ "cpu": "700m", "memory": "400Mi" });
        object["constraints"] = json!({
            "global": { "minReplicas": 6, "maxReplicas": 6 },
            "container": [{ "name": "app", "requests": { "minAllowed": size, "maxAllowed": size } }],
        });
        shop.autoscaler(name, object).await.expect("taken");
    }
    busy(&shop, "steady", 2, 4).await;
    let mut operator = Operator::start(shop.cluster, &shop.namespace, &NO_WEBHOOK);
    let pods: Api<Pod> = shop.api();
    let count = async |name: &str| {
        let ours = ListParams::default().labels(&format!("app={name}"));
        pods.list(&ours).await.expect("listed").items.len()
    };
    for name in ["object", "target"] {
        eventually("an eviction", async || (count(name).await == 5).then_some(())).await;
    }
    let api: Api<MultidimPodAutoscaler> = shop.api();
    let now = DeleteParams::default();
    api.delete("object", &now).await.expect("deleted");
    shop.api::<Deployment>().delete("target", &now).await.expect("deleted");
    // No controller creates pods here. The test does, so that another eviction would be possible.
    shop.pod("object", "object-new").await;
    shop.pod("target", "target-new").await;
    let message = shop.condition("target", "Ready", "TargetNotFound").await;
    assert!(message.contains("\"target\""), "{message}");
    let note = shop.event("target", "TargetNotFound").await;
    assert!(note.contains("no Deployment named"), "{note}");
    tokio::time::sleep(Duration::from_secs(6)).await;
    assert_eq!((count("object").await, count("target").await), (6, 6));
    assert_eq!(shop.replicas("steady").await, 4);
    let gone = operator.get("/metrics").expect("it answers");
    assert!(!gone.contains("name=\"object\""), "{gone}");
    assert_eq!(
        operator
            .metric("homeostat_operator_object_condition", "name=\"target\",condition=\"Ready\""),
        0.0
    );

    // A namespace that is deleted removes its objects and accepts no new ones.
    let namespaces: Api<Namespace> = Api::all(shop.client.clone());
    namespaces.delete(&shop.namespace, &now).await.expect("asked");
    tokio::time::sleep(Duration::from_secs(3)).await;
    assert!(operator.is_running());
    assert_eq!(operator.metric("homeostat_operator_panics_total", ""), 0.0);
    assert_eq!(shop.replicas("steady").await, 4);
}
