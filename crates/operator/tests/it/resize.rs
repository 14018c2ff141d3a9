//! Resizes in place, on a server with `pods/resize`.

use std::time::Duration;

use homeostat_autoscaler::api::MultidimPodAutoscaler;
use k8s_openapi::api::core::v1::Pod;
use kube::Api;
use kube::api::ListParams;
use serde_json::json;

use super::newer_server::{Fate, NewerServer};
use super::operator::{Operator, OperatorConfig, eventually};
use super::shop::{Shop, spec};

/// A workload of four pods that get another size.
async fn workload(shop: &Shop, name: &str, update_mode: &str) {
    shop.deployment(name, 4).await;
    let mut object = spec(name, "Auto");
    object["policy"] = json!({
        "updateMode": update_mode,
        "disruption": { "maxUnavailable": "1", "minPodAge": "1s" },
    });
    let size = json!({ "cpu": "600m", "memory": "300Mi" });
    object["constraints"] = json!({
        "global": { "minReplicas": 4, "maxReplicas": 4 },
        "container": [{ "name": "app", "requests": { "minAllowed": size, "maxAllowed": size } }],
    });
    shop.autoscaler(name, object).await.expect("taken");
}

#[tokio::test]
async fn pods_are_resized_in_place_and_evicted_only_if_that_fails_and_the_mode_allows() {
    let Some(shop) = Shop::open("resize").await else { return };
    let fates = vec![
        ("infeasible", Fate::Infeasible),
        ("stays", Fate::Infeasible),
        ("deferred", Fate::Deferred(600)),
        ("waits", Fate::Deferred(5)),
        ("refused", Fate::Refused),
        ("unmoved", Fate::Refused),
    ];
    let server = NewerServer::start(shop.client.clone(), fates).await;
    let kubeconfig = server.kubeconfig(&super::cluster::fresh_folder("newer"));
    for name in ["done", "infeasible", "deferred", "waits", "refused"] {
        workload(&shop, name, "InPlaceOrRecreate").await;
    }
    for name in ["stays", "unmoved"] {
        workload(&shop, name, "InPlace").await;
    }
    let config = OperatorConfig { arguments: &["--no-webhook"], copy: "" };
    let operator = Operator::start_with(shop.cluster, &shop.namespace, &config, |command| {
        command.env("KUBECONFIG", kubeconfig);
    });
    let pods: Api<Pod> = shop.api();
    let count = async |name: &str| {
        let ours = ListParams::default().labels(&format!("app={name}"));
        pods.list(&ours).await.expect("listed").items.len()
    };
    let api: Api<MultidimPodAutoscaler> = shop.api();
    eventually("all pods to be resized", async || {
        let rollout = api.get("done").await.expect("there").status?.rollout?;
        (rollout.updated == 4).then_some(())
    })
    .await;
    // Each was requested once, in the format of the subresource.
    let asked = server.asked("done");
    assert_eq!(asked.len(), 4);
    let expect = json!({ "spec": { "containers": [{
        "name": "app", "resources": { "requests": { "cpu": "600m", "memory": "300Mi" } },
    }]}});
    assert_eq!(asked[0], expect);
    shop.event("done", "Resized").await;

    // One may be unavailable, and no controller replaces it here, so there is one eviction.
    for name in ["infeasible", "deferred", "refused"] {
        eventually(&format!("an eviction of {name}"), async || {
            (count(name).await == 3).then_some(())
        })
        .await;
    }
    for name in ["stays", "unmoved"] {
        let message = shop.condition(name, "Acting", "ResizeRefused").await;
        assert!(message.contains("update mode InPlace does not evict them"), "{message}");
        shop.event(name, "ResizeRefused").await;
    }
    tokio::time::sleep(Duration::from_secs(6)).await;
    for (name, left) in [
        ("done", 4),
        ("infeasible", 3),
        ("deferred", 3),
        ("refused", 3),
        ("waits", 4),
        ("stays", 4),
        ("unmoved", 4),
    ] {
        assert_eq!(count(name).await, left, "{name}");
    }
    // Refused resizes are not repeated all the time.
    assert_eq!(server.asked("unmoved").len(), 4);
    assert_eq!(operator.metric("homeostat_operator_resizes_total", "evicted"), 3.0);
    assert!(operator.metric("homeostat_operator_resizes_total", "resized") >= 4.0);
}
