//! Who scales.

use std::path::Path;

use clap::ValueEnum;
use homeostat_testbed::{RealCluster, Server};
use kube::Client;
use serde::Serialize;
use serde_json::{Value, json};

use crate::settings::Settings;

/// Who scales the workload.
#[derive(ValueEnum, Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Arm {
    /// The stock HPA at 50 % CPU.
    Hpa50,
    /// The stock HPA at 60 % CPU.
    Hpa60,
    /// The stock HPA at 70 % CPU.
    Hpa70,
    /// Ours, in mode `Auto` with its default recommender.
    Ours,
}

impl Arm {
    pub(crate) const HPA: [Self; 3] = [Self::Hpa50, Self::Hpa60, Self::Hpa70];

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Hpa50 => "hpa50",
            Self::Hpa60 => "hpa60",
            Self::Hpa70 => "hpa70",
            Self::Ours => "ours",
        }
    }

    fn target(self) -> Option<u32> {
        match self {
            Self::Hpa50 => Some(50),
            Self::Hpa60 => Some(60),
            Self::Hpa70 => Some(70),
            Self::Ours => None,
        }
    }
}

/// Puts an arm in charge of a workload of that name; the operator if it is ours.
pub(crate) async fn install(
    arm: Arm,
    cluster: &RealCluster,
    operator: &Operator<'_>,
    settings: &Settings,
) -> Option<Server> {
    let client = cluster.cluster.client().await;
    let Operator { namespace, name, .. } = *operator;
    let Some(target) = arm.target() else {
        create_object(&client, operator, settings, "Auto").await;
        return Some(operator.start(cluster, settings));
    };
    let object = json!({
        "apiVersion": "autoscaling/v2beta2", "kind": "HorizontalPodAutoscaler",
        "metadata": { "name": name },
        "spec": {
            "scaleTargetRef": { "apiVersion": "apps/v1", "kind": "Deployment", "name": name },
            "minReplicas": settings.min_replicas, "maxReplicas": settings.max_replicas,
            "metrics": [{ "type": "Resource", "resource": {
                "name": "cpu", "target": { "type": "Utilization", "averageUtilization": target },
            }}],
        },
    });
    let path = format!("/apis/autoscaling/v2beta2/namespaces/{namespace}/horizontalpodautoscalers");
    post(&client, &path, &object).await;
    None
}

/// Our operator for one workload.
pub(crate) struct Operator<'a> {
    pub(crate) program: &'a Path,
    pub(crate) namespace: &'a str,
    pub(crate) name: &'a str,
    /// The run's name, which its latencies carry.
    pub(crate) run: &'a str,
    /// Where its webhook listens.
    pub(crate) webhook_port: u16,
}

impl Operator<'_> {
    /// The real program, as people start it.
    pub(crate) fn start(&self, cluster: &RealCluster, settings: &Settings) -> Server {
        let namespace = self.namespace;
        let arguments = [
            format!("KUBECONFIG={}", cluster.cluster.admin_kubeconfig().display()),
            self.program.display().to_string(),
            "run".to_owned(),
            format!("--interval={}s", settings.sync_s),
            format!("--prometheus={}", cluster.prometheus_url),
            format!("--only-namespace={namespace}"),
            format!("--namespace={namespace}"),
            format!("--listen=127.0.0.1:{}", self.webhook_port),
            "--listen-plain=127.0.0.1:8080".to_owned(),
            "--webhook-name=127.0.0.1".to_owned(),
        ];
        let log = cluster.cluster.file(&format!("operator-{}.log", self.run));
        Server::start(Path::new("env"), arguments, &log)
    }
}

/// Writes our object. All that it says beside the objective is what the stock HPA is told, too.
pub(crate) async fn create_object(
    client: &Client,
    operator: &Operator<'_>,
    settings: &Settings,
    mode: &str,
) {
    let Operator { namespace, name, run, .. } = *operator;
    let range = settings.query_range_s;
    let query = format!(
        "histogram_quantile(0.99, sum by (le) (rate(ingress_request_duration_seconds_bucket{{run=\"{run}\"}}[{range}s])))"
    );
    let window = json!({ "stabilizationWindowSeconds": settings.stabilization_s });
    let object = json!({
        "apiVersion": "homeostat.dev/v1alpha1", "kind": "MultidimPodAutoscaler",
        "metadata": { "name": name },
        "spec": {
            "scaleTargetRef": { "apiVersion": "apps/v1", "kind": "Deployment", "name": name },
            "mode": mode,
            "goals": { "slo": { "latency": {
                "percentile": "99", "threshold": format!("{}ms", settings.threshold_ms),
                "query": query,
            }}},
            "constraints": { "global": {
                "minReplicas": settings.min_replicas, "maxReplicas": settings.max_replicas,
                "behavior": { "scaleDown": window },
            }},
        },
    });
    let path =
        format!("/apis/homeostat.dev/v1alpha1/namespaces/{namespace}/multidimpodautoscalers");
    post(client, &path, &object).await;
}

async fn post(client: &Client, path: &str, object: &Value) {
    let request = http::Request::post(path)
        .header(http::header::CONTENT_TYPE, "application/json")
        .body(object.to_string().into_bytes())
        .expect("a request");
    client.request::<Value>(request).await.unwrap_or_else(|error| panic!("{path}: {error}"));
}
