//! Clocks that are two minutes wrong.

use std::path::Path;
use std::time::Duration;

use homeostat_test_skip::skip;
use k8s_openapi::api::core::v1::Pod;
use kube::Api;
use serde_json::json;

use super::operator::{Operator, OperatorConfig, eventually};
use super::shop::{Shop, spec};
use homeostat_testbed::free_port;

const LIBRARY: &str = "/usr/lib/x86_64-linux-gnu/faketime/libfaketimeMT.so.1";

/// An operator whose clock is wrong by some seconds.
fn start(shop: &Shop, copy: &str, skew: &str, port: u16) -> Operator {
    let listen = format!("127.0.0.1:{port}");
    let arguments = [
        "--identity",
        copy,
        "--listen",
        &listen,
        "--webhook-name",
        "127.0.0.1",
        "--webhook-configuration",
        &shop.namespace,
    ];
    let config = OperatorConfig { arguments: &arguments, copy };
    Operator::start_with(shop.cluster, &shop.namespace, &config, |command| {
        if !skew.is_empty() {
            command.env("LD_PRELOAD", LIBRARY).env("FAKETIME", skew);
        }
    })
}

#[tokio::test]
async fn with_clocks_two_minutes_apart_one_replica_leads_and_stale_metrics_are_refused() {
    if !Path::new(LIBRARY).exists() {
        skip("no wrong clocks; apt-get install faketime");
        return;
    }
    let Some(shop) = Shop::open("clocks").await else { return };
    shop.deployment("checkout", 4).await;
    let mut object = spec("checkout", "Auto");
    object["goals"] =
        json!({ "metrics": [{ "resource": { "name": "cpu", "averageUtilization": 50 } }] });
    object["policy"] = json!({ "updateMode": "Initial" });
    let size = json!({ "cpu": "600m", "memory": "300Mi" });
    object["constraints"] = json!({
        "global": {
            "minReplicas": 1, "maxReplicas": 8,
            "behavior": { "scaleDown": { "stabilizationWindowSeconds": 0 } },
        },
        "container": [{ "name": "app", "requests": { "minAllowed": size, "maxAllowed": size } }],
    });
    shop.autoscaler("checkout", object).await.expect("taken");
    let all_use = async |cpu: &str| {
        for place in 0..4 {
            shop.uses(&format!("checkout-{place}"), cpu, "100Mi").await;
        }
    };
    let lease = async || shop.lease().await;
    let holder = async || shop.leader().await;
    let ports = [free_port(), free_port(), free_port()];
    shop.webhook(&ports).await;

    // Ahead: current metrics seem two minutes old, and an idle workload is not scaled down.
    all_use("10m").await;
    let ahead = start(&shop, "ahead", "+120s", ports[0]);
    eventually("it to lead", async || holder().await.filter(|name| name == "ahead")).await;
    let message = shop.condition("checkout", "MetricsFresh", "MetricsStale").await;
    assert!(message.contains("s old, at most 90s are allowed"), "{message}");
    shop.event("checkout", "MetricsStale").await;
    let metrics = ahead.get("/metrics").expect("it answers");
    assert!(metrics.contains("condition=\"MetricsFresh\"} 0"), "{metrics}");
    let renewed = lease().await.and_then(|lease| lease.renew_time).expect("renewed").0;
    let off = renewed.duration_since(k8s_openapi::jiff::Timestamp::now()).as_secs();
    assert!((110..=121).contains(&off), "the clock is not wrong: {off}s");
    // Its certificate is valid by the server's clock.
    let pods: Api<Pod> = shop.api();
    let mut made = 0;
    let mut is_sized = async || {
        made += 1;
        let name = format!("sized-{made}");
        shop.pod("checkout", &name).await;
        let pod = pods.get(&name).await.expect("there").spec.expect("it has one");
        pods.delete(&name, &kube::api::DeleteParams::default()).await.expect("deleted");
        let requests = pod.containers[0].resources.clone()?.requests?;
        (requests["cpu"].0 == "600m").then_some(())
    };
    eventually("a pod to be sized", &mut is_sized).await;

    // Behind: it waits, although the lease was renewed in its future.
    let behind = start(&shop, "behind", "-120s", ports[1]);
    eventually("it to be ready", async || behind.get("/readyz").filter(|text| text == "ok\n"))
        .await;
    tokio::time::sleep(Duration::from_secs(3)).await;
    assert_eq!(holder().await.as_deref(), Some("ahead"));
    let leads = |operator: &Operator| operator.metric("homeostat_operator_leads", "");
    assert_eq!((leads(&ahead), leads(&behind)), (1.0, 0.0));
    ahead.kill();
    let killed = std::time::Instant::now();
    eventually("it to follow", async || holder().await.filter(|name| name == "behind")).await;
    assert!(killed.elapsed() < Duration::from_secs(15), "{:?}", killed.elapsed());
    // The checkpoint of the replica before and the current metrics are from the future.
    all_use("10m").await;
    let told = async || {
        let message = shop.condition("checkout", "MetricsFresh", "MetricsStale").await;
        message.contains("ahead of the operator's clock: one of them is wrong").then_some(())
    };
    eventually("metrics from the future to be reported", told).await;
    assert_eq!(shop.replicas("checkout").await, 4);
    assert_eq!(behind.metric("homeostat_operator_panics_total", ""), 0.0);
    behind.kill();

    // On time: metrics are used again, in spite of the earlier state.
    let on_time = start(&shop, "on-time", "", ports[2]);
    all_use("10m").await;
    eventually("it to follow", async || holder().await.filter(|name| name == "on-time")).await;
    shop.condition("checkout", "MetricsFresh", "AsPlanned").await;
    eventually("it to shrink", async || (shop.replicas("checkout").await == 1).then_some(())).await;
    assert_eq!(on_time.metric("homeostat_operator_panics_total", ""), 0.0);
}
