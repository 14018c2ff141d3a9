//! On one real node: real pods under real load, a real Prometheus, real control groups.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use homeostat_operator::api::{MultidimPodAutoscaler, MultidimPodAutoscalerStatus, definitions};
use homeostat_operator::measure::{Prometheus, PrometheusAddress};
use homeostat_testbed::{
    IngressConfig, IngressMetrics, Load, RealCluster, RealClusterConfig, Workload, define,
    free_port, iterations_per_millisecond, own_control_group, run_inside, webhook_configuration,
};
use k8s_openapi::api::core::v1::Pod;
use kube::api::{ListParams, PostParams};
use kube::{Api, Client, ResourceExt};
use serde_json::json;

use super::cluster;
use super::operator::{Operator, OperatorConfig, eventually_within};

const THIS: &str =
    "real_node::a_real_service_under_load_gets_real_pods_until_its_objective_is_kept";
/// Namespace and name of the service.
const SHOP: &str = "shop";
/// The objective. Twice as many pods keep it easily; two do not keep it at all.
const THRESHOLD_S: f64 = 1.0;
/// Long enough for a machine that does a lot besides.
const PATIENCE: Duration = Duration::from_secs(90);

#[test]
fn a_real_service_under_load_gets_real_pods_until_its_objective_is_kept() {
    let Some(binaries) = cluster::binaries() else { return };
    if own_control_group().is_some() {
        return scale_a_service(&binaries);
    }
    // This test again, as a process of its own in a machine of its own.
    let arguments = [THIS, "--exact", "--nocapture"].map(str::to_owned);
    match run_inside(&arguments) {
        Ok(status) => assert!(status.success(), "it failed inside its machine: see above"),
        Err(why) => eprintln!("SKIPPED: THE OPERATOR ON A REAL NODE: {why}"),
    }
}

fn scale_a_service(binaries: &Path) {
    let folder = PathBuf::from("/run/containerd/test");
    fs::create_dir_all(&folder).expect("a folder");
    let _logs = LogsOnPanic(folder.clone());
    let real = RealClusterConfig {
        binaries,
        folder: &folder,
        controller_manager_arguments: &[],
        metrics_interval: Duration::from_secs(2),
        scrape_interval: Duration::from_secs(1),
    }
    .build();
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build();
    runtime.expect("a runtime").block_on(follow_the_load(&real));
}

/// Two pods of 80m get 40 requests a second of 5 ms each: a quarter more than they can do.
async fn follow_the_load(real: &RealCluster) {
    let client = real.cluster.client().await;
    define(&client, &definitions()).await;
    let port = free_port();
    let configuration = webhook_configuration("homeostat", port);
    let params = PostParams::default();
    Api::all(client.clone()).create(&params, &configuration).await.expect("created");
    let workload = Workload {
        namespace: SHOP,
        name: SHOP,
        replicas: 2,
        cpu: "80m",
        memory: "64Mi",
        iterations: 5 * iterations_per_millisecond(&real.service),
    };
    workload.create(&client).await;
    let metrics = IngressMetrics::serve(real.ingress_port);
    metrics.begin(SHOP);
    let ingress = IngressConfig {
        kubeconfig: real.cluster.admin_kubeconfig(),
        namespace: SHOP.to_owned(),
        service: SHOP.to_owned(),
        metrics,
    };
    let ingress = ingress.start(Load::steady(40.0, 600.0).arrivals(1));
    let latency = "histogram_quantile(0.99, sum by (le) (rate(ingress_request_duration_seconds_bucket[10s])))";
    let address = PrometheusAddress { url: real.prometheus_url.clone(), ..Default::default() };
    let prometheus = Prometheus::new(&address).expect("an address");
    let p99 = async || prometheus.instant(latency).await.ok().map(|reading| reading.value);
    eventually_within(PATIENCE, "an objective that is broken", async || {
        (serving(&client).await.len() >= 2 && p99().await? > THRESHOLD_S).then_some(())
    })
    .await;

    create_object(&client, latency).await;
    let listen = format!("127.0.0.1:{port}");
    let arguments =
        ["--prometheus", &real.prometheus_url, "--listen", &listen, "--webhook-name", "127.0.0.1"];
    let config = OperatorConfig { arguments: &arguments, copy: "" };
    let _operator = Operator::start(&real.cluster, SHOP, &config);

    let objects: Api<MultidimPodAutoscaler> = Api::namespaced(client.clone(), SHOP);
    let status = async || objects.get(SHOP).await.expect("there").status.unwrap_or_default();
    eventually_within(PATIENCE, "more pods that serve", async || {
        (serving(&client).await.len() > 2).then_some(())
    })
    .await;
    eventually_within(PATIENCE, "a pod that has what is recommended, in the kernel", async || {
        let status = status().await;
        let pods = serving(&client).await;
        pods.iter().any(|pod| runs_as_recommended(pod, &status)).then_some(())
    })
    .await;
    eventually_within(PATIENCE, "an objective that is kept", async || {
        let kept = is_true(&status().await, "ObjectiveKept");
        (kept && p99().await? <= THRESHOLD_S).then_some(())
    })
    .await;
    let status = status().await;
    let mut sources: Vec<_> = status.current_metrics.iter().map(|one| &one.source[..]).collect();
    sources.sort();
    sources.dedup();
    assert_eq!(sources, ["metrics.k8s.io", "prometheus"]);
    let answered = ingress.stop();
    assert!(answered.iter().rev().take(50).all(|one| one.is_ok), "the last ones are answered");
}

async fn create_object(client: &Client, query: &str) {
    let latency = json!({
        "percentile": "99", "threshold": format!("{THRESHOLD_S}s"), "query": query,
    });
    let object: MultidimPodAutoscaler = serde_json::from_value(json!({
        "apiVersion": "homeostat.dev/v1alpha1", "kind": "MultidimPodAutoscaler",
        "metadata": { "name": SHOP },
        "spec": {
            "scaleTargetRef": { "apiVersion": "apps/v1", "kind": "Deployment", "name": SHOP },
            "mode": "Auto",
            "goals": { "slo": { "latency": latency } },
            "constraints": { "global": { "minReplicas": 2, "maxReplicas": 6 } },
        },
    }))
    .expect("valid");
    let objects = Api::namespaced(client.clone(), SHOP);
    objects.create(&PostParams::default(), &object).await.expect("taken");
}

/// Pods that are ready.
async fn serving(client: &Client) -> Vec<Pod> {
    let pods: Api<Pod> = Api::namespaced(client.clone(), SHOP);
    let is_ready = |pod: &Pod| {
        let conditions = pod.status.as_ref().and_then(|status| status.conditions.as_ref());
        pod.metadata.deletion_timestamp.is_none()
            && conditions.is_some_and(|all| {
                all.iter().any(|one| one.type_ == "Ready" && one.status == "True")
            })
    };
    let mut pods = pods.list(&ListParams::default()).await.expect("listed").items;
    pods.retain(is_ready);
    pods
}

fn is_true(status: &MultidimPodAutoscalerStatus, kind: &str) -> bool {
    status.conditions.iter().any(|one| one.type_ == kind && one.status == "True")
}

/// Whether the webhook sized a pod, and the kernel holds its container to what is recommended
/// now: limits equal requests in its template, so the recommendation is the quota.
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

/// The logs are gone with the machine: the ends of them are printed when something fails.
struct LogsOnPanic(PathBuf);

impl Drop for LogsOnPanic {
    fn drop(&mut self) {
        if !std::thread::panicking() {
            return;
        }
        for name in ["kubelet.log", "containerd.log", "kube-controller-manager.log"] {
            let text = fs::read_to_string(self.0.join(name)).unwrap_or_default();
            let lines: Vec<_> = text.lines().collect();
            let last = &lines[lines.len().saturating_sub(30)..];
            eprintln!("--- the end of {name}\n{}", last.join("\n"));
        }
    }
}
