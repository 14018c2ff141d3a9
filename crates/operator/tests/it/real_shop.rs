//! One real service under real load on one real node, for tests of the operator there.

use std::fs;
use std::path::PathBuf;
use std::time::Duration;

use homeostat_autoscaler::api::{MultidimPodAutoscaler, MultidimPodAutoscalerStatus};
use homeostat_operator::measure::{Prometheus, PrometheusAddress};
use homeostat_test_skip::skip;
use homeostat_testbed::{
    Ingress, IngressConfig, IngressMetrics, Load, RealCluster, RealClusterConfig, Workload,
    iterations_per_millisecond, own_control_group, run_inside,
};
use k8s_openapi::api::core::v1::Pod;
use kube::api::{ListParams, PostParams};
use kube::{Api, Client};
use serde_json::json;

use super::cluster;
use super::operator::eventually_within;

/// Namespace and name of the service.
pub(crate) const SHOP: &str = "shop";
/// Patience on a machine that is busy with other work.
pub(crate) const PATIENCE: Duration = Duration::from_secs(90);

/// The SLO. Twice as many pods meet it easily; two violate it all the time.
const THRESHOLD_S: f64 = 1.0;
const LATENCY: &str =
    "histogram_quantile(0.99, sum by (le) (rate(ingress_request_duration_seconds_bucket[10s])))";

/// Runs a test, given by its full name, on a cluster with a real node: it starts the test again as a
/// process in namespaces of its own. Prints a message where that is not possible.
pub(crate) fn on_a_real_node(test: &str, work: impl AsyncFnOnce(&RealCluster)) {
    let Some(binaries) = cluster::binaries() else { return };
    if own_control_group().is_none() {
        let arguments = [test, "--exact", "--nocapture"].map(str::to_owned);
        match run_inside(&arguments) {
            Ok(status) => assert!(status.success(), "it failed inside its machine: see above"),
            Err(why) => skip(&format!("no real node: {why}")),
        }
        return;
    }
    let folder = PathBuf::from("/run/containerd/test");
    fs::create_dir_all(&folder).expect("a folder");
    let _logs = LogsOnPanic(folder.clone());
    let real = RealClusterConfig {
        binaries: &binaries,
        directory: &folder,
        controller_manager_arguments: &[],
        metrics_interval: Duration::from_secs(2),
        scrape_interval: Duration::from_secs(1),
    }
    .build();
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build();
    runtime.expect("a runtime").block_on(work(&real));
}

/// An overloaded service.
pub(crate) struct RealShop {
    pub(crate) client: Client,
    prometheus: Prometheus,
    ingress: Ingress,
}

impl RealShop {
    /// Two pods of 80m that get 40 requests per second of 5 ms each, a quarter more than they can
    /// process, as soon as the SLO is violated.
    pub(crate) async fn open(real: &RealCluster) -> Self {
        let client = real.cluster.client().await;
        let workload = Workload {
            namespace: SHOP,
            name: SHOP,
            replicas: 2,
            cpu: "80m",
            memory: "64Mi",
            iterations: 5 * iterations_per_millisecond(&real.service),
            has_cpu_limit: true,
        };
        workload.create(&client).await;
        let metrics = IngressMetrics::serve(real.ingress_port);
        metrics.begin(SHOP);
        let ingress = IngressConfig {
            kubeconfig: real.cluster.admin_kubeconfig(),
            namespace: SHOP.to_owned(),
            service: SHOP.to_owned(),
            run: SHOP.to_owned(),
            metrics,
        };
        let ingress = ingress.start(Load::steady(40.0, 600.0).arrivals(1));
        let address = PrometheusAddress { url: real.prometheus_url.clone(), ..Default::default() };
        let prometheus = Prometheus::new(&address).expect("an address");
        let shop = Self { client, prometheus, ingress };
        eventually_within(PATIENCE, "an SLO violation", async || {
            let is_broken = shop.latency_s().await? > THRESHOLD_S;
            (is_broken && shop.serving().await.len() >= 2).then_some(())
        })
        .await;
        shop
    }

    /// Creates an autoscaler object with its SLO, in a mode.
    pub(crate) async fn autoscaler(&self, mode: &str) {
        let latency = json!({
            "percentile": "99", "threshold": format!("{THRESHOLD_S}s"), "query": LATENCY,
        });
        let object: MultidimPodAutoscaler = serde_json::from_value(json!({
            "apiVersion": "homeostat.dev/v1alpha1", "kind": "MultidimPodAutoscaler",
            "metadata": { "name": SHOP },
            "spec": {
                "scaleTargetRef": { "apiVersion": "apps/v1", "kind": "Deployment", "name": SHOP },
                "mode": mode,
                "goals": { "slo": { "latency": latency } },
                "constraints": { "global": { "minReplicas": 2, "maxReplicas": 6 } },
            },
        }))
        .expect("valid");
        self.objects().create(&PostParams::default(), &object).await.expect("taken");
    }

    /// The API of its autoscaler object.
    pub(crate) fn objects(&self) -> Api<MultidimPodAutoscaler> {
        Api::namespaced(self.client.clone(), SHOP)
    }

    /// The status of its autoscaler object.
    pub(crate) async fn status(&self) -> MultidimPodAutoscalerStatus {
        self.objects().get(SHOP).await.expect("there").status.unwrap_or_default()
    }

    /// Pods that are ready.
    pub(crate) async fn serving(&self) -> Vec<Pod> {
        let pods: Api<Pod> = Api::namespaced(self.client.clone(), SHOP);
        let mut pods = pods.list(&ListParams::default()).await.expect("listed").items;
        pods.retain(is_ready);
        pods
    }

    /// Waits until there are more pods than at the start, and the SLO is met.
    pub(crate) async fn is_relieved(&self) {
        eventually_within(PATIENCE, "more ready pods", async || {
            (self.serving().await.len() > 2).then_some(())
        })
        .await;
        eventually_within(PATIENCE, "an SLO that is met", async || {
            let is_said = is_true(&self.status().await, "SloMet");
            (is_said && self.latency_s().await? <= THRESHOLD_S).then_some(())
        })
        .await;
    }

    /// Stops the load; the last requests were answered.
    pub(crate) fn close(self) {
        let answered = self.ingress.stop();
        assert!(answered.iter().rev().take(50).all(|one| one.is_ok), "the last ones are answered");
    }

    async fn latency_s(&self) -> Option<f64> {
        self.prometheus.instant(LATENCY).await.ok().map(|reading| reading.value)
    }
}

/// Whether a pod is ready and not being deleted.
pub(crate) fn is_ready(pod: &Pod) -> bool {
    let conditions = pod.status.as_ref().and_then(|status| status.conditions.as_ref());
    pod.metadata.deletion_timestamp.is_none()
        && conditions
            .is_some_and(|all| all.iter().any(|one| one.type_ == "Ready" && one.status == "True"))
}

pub(crate) fn is_true(status: &MultidimPodAutoscalerStatus, kind: &str) -> bool {
    status.conditions.iter().any(|one| one.type_ == kind && one.status == "True")
}

/// The logs are lost with the namespaces, so their last lines are printed when a test fails.
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
