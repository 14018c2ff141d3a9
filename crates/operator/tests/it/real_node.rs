//! On one real node: real pods under real load, a real Prometheus, real control groups.

use std::fs;
use std::path::Path;

use homeostat_autoscaler::api::MultidimPodAutoscalerStatus;
use homeostat_operator::install::definitions;
use homeostat_testbed::{RealCluster, define, free_port, own_control_group, webhook_configuration};
use k8s_openapi::api::core::v1::Pod;
use kube::api::PostParams;
use kube::{Api, ResourceExt};

use super::operator::{Operator, OperatorConfig, eventually_within};
use super::real_shop::{PATIENCE, RealShop, SHOP, on_a_real_node};

const THIS: &str = "real_node::a_real_service_under_load_gets_real_pods_until_its_slo_is_met";

#[test]
fn a_real_service_under_load_gets_real_pods_until_its_slo_is_met() {
    on_a_real_node(THIS, follow_the_load);
}

async fn follow_the_load(real: &RealCluster) {
    let shop = RealShop::open(real).await;
    define(&shop.client, &definitions()).await;
    let port = free_port();
    let configuration = webhook_configuration("homeostat", port);
    let params = PostParams::default();
    Api::all(shop.client.clone()).create(&params, &configuration).await.expect("created");
    shop.autoscaler("Auto").await;
    let listen = format!("127.0.0.1:{port}");
    let arguments = [
        "--prometheus",
        &real.prometheus_url,
        "--prometheus-any-namespace",
        "--listen",
        &listen,
        "--webhook-name",
        "127.0.0.1",
    ];
    let config = OperatorConfig { arguments: &arguments, copy: "" };
    let _operator = Operator::start(&real.cluster, SHOP, &config);

    shop.is_relieved().await;
    eventually_within(PATIENCE, "a pod with the recommended size in the kernel", async || {
        let status = shop.status().await;
        let pods = shop.serving().await;
        pods.iter().any(|pod| runs_as_recommended(pod, &status)).then_some(())
    })
    .await;
    let status = shop.status().await;
    let mut sources: Vec<_> = status.current_metrics.iter().map(|one| &one.source[..]).collect();
    sources.sort();
    sources.dedup();
    assert_eq!(sources, ["metrics.k8s.io", "prometheus"]);
    shop.close();
}

/// Whether the webhook sized a pod, and the kernel limits its container to the current
/// recommendation: limits equal requests in its template, so the recommendation is the quota.
fn runs_as_recommended(pod: &Pod, status: &MultidimPodAutoscalerStatus) -> bool {
    let recommended = || {
        let recommendation = status.recommendation.as_ref()?;
        let target = &recommendation.container_recommendations.first()?.target;
        let millicores = target.cpu.as_ref()?.0.strip_suffix('m')?.parse::<u64>().ok()?;
        let mebibytes = target.memory.as_ref()?.0.strip_suffix("Mi")?.parse::<u64>().ok()?;
        // A hundred milliseconds of 1000m are 100000 microseconds; shares are 1024 for 1000m.
        Some((millicores * 100, millicores * 1024 / 1000, mebibytes * 1024 * 1024))
    };
    let enforced = || {
        let group = own_control_group()?;
        let container = pod.status.as_ref()?.container_statuses.as_ref()?.first()?;
        let container = container.container_id.as_ref()?.strip_prefix("containerd://")?;
        let place = format!("{group}/kubepods/pod{}/{container}", pod.metadata.uid.as_ref()?);
        let read = |controller: &str, file: &str| {
            let path = Path::new("/sys/fs/cgroup").join(controller).join(&place).join(file);
            fs::read_to_string(path).ok()?.trim().parse::<u64>().ok()
        };
        Some((
            read("cpu", "cpu.cfs_quota_us")?,
            read("cpu", "cpu.shares")?,
            read("memory", "memory.limit_in_bytes")?,
        ))
    };
    let was_sized = pod.annotations().contains_key("homeostat.dev/sized-by");
    was_sized && recommended().is_some() && recommended() == enforced()
}
