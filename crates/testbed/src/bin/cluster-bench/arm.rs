//! The arms of the benchmark: which autoscaler scales the workload.

use std::path::Path;

use clap::ValueEnum;
use homeostat_testbed::{RealCluster, Server};
use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::{ObjectMeta, PostParams};
use kube::{Api, Client};
use serde::Serialize;
use serde_json::{Value, json};

use crate::run::Programs;
use crate::settings::Settings;

/// The autoscaler of the workload.
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
    /// Ours with a policy file.
    Policy,
}

/// What our object does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Mode {
    /// It only recommends.
    Recommend,
    /// It acts, with its default recommender.
    Auto,
    /// It acts, with the policy file.
    AutoByPolicy,
}

impl Arm {
    pub(crate) const HPA: [Self; 3] = [Self::Hpa50, Self::Hpa60, Self::Hpa70];

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Hpa50 => "hpa50",
            Self::Hpa60 => "hpa60",
            Self::Hpa70 => "hpa70",
            Self::Ours => "ours",
            Self::Policy => "policy",
        }
    }

    /// The target of the stock HPA, or what our object does.
    fn scaled_by(self) -> Result<u32, Mode> {
        match self {
            Self::Hpa50 => Ok(50),
            Self::Hpa60 => Ok(60),
            Self::Hpa70 => Ok(70),
            Self::Ours => Err(Mode::Auto),
            Self::Policy => Err(Mode::AutoByPolicy),
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
    let target = match arm.scaled_by() {
        Ok(target) => target,
        Err(mode) => {
            create_object(&client, operator, settings, mode).await;
            return Some(operator.start(cluster, settings));
        }
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
    pub(crate) programs: Programs<'a>,
    pub(crate) namespace: &'a str,
    pub(crate) name: &'a str,
    /// The run's name, which its latencies carry.
    pub(crate) run: &'a str,
    /// Where its webhook listens.
    pub(crate) webhook_port: u16,
}

impl Operator<'_> {
    /// The real program, started as users start it.
    pub(crate) fn start(&self, cluster: &RealCluster, settings: &Settings) -> Server {
        let namespace = self.namespace;
        let arguments = [
            format!("KUBECONFIG={}", cluster.cluster.admin_kubeconfig().display()),
            self.programs.operator.display().to_string(),
            "run".to_owned(),
            format!("--interval={}s", settings.sync_s),
            format!("--prometheus={}", cluster.prometheus_url),
            // Its series have no label of a namespace.
            "--prometheus-any-namespace".to_owned(),
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

/// Writes our object. Except for the SLO it has the same settings as the stock HPA.
pub(crate) async fn create_object(
    client: &Client,
    operator: &Operator<'_>,
    settings: &Settings,
    mode: Mode,
) {
    let Operator { namespace, name, run, .. } = *operator;
    let range = settings.query_range_s;
    let rate = |series: &str| {
        format!("rate(ingress_request_duration_seconds_{series}{{run=\"{run}\"}}[{range}s])")
    };
    let query = format!("histogram_quantile(0.99, sum by (le) ({}))", rate("bucket"));
    let window = json!({ "stabilizationWindowSeconds": settings.stabilization_s });
    let mut object = json!({
        "apiVersion": "homeostat.dev/v1alpha1", "kind": "MultidimPodAutoscaler",
        "metadata": { "name": name },
        "spec": {
            "scaleTargetRef": { "apiVersion": "apps/v1", "kind": "Deployment", "name": name },
            "mode": if mode == Mode::Recommend { "Recommend" } else { "Auto" },
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
    if mode == Mode::AutoByPolicy {
        object["spec"]["load"] = json!({
            "requestRateQuery": format!("sum({})", rate("count")),
            "meanLatencyQuery": format!("sum({}) / sum({})", rate("sum"), rate("count")),
        });
        object["spec"]["recommenders"] = json!([{
            "name": "policy", "policyFile": { "configMap": POLICY, "key": POLICY },
        }]);
        create_policy(client, operator).await;
    }
    let path =
        format!("/apis/homeostat.dev/v1alpha1/namespaces/{namespace}/multidimpodautoscalers");
    post(client, &path, &object).await;
}

/// Config map and key of the policy file.
const POLICY: &str = "policy";

async fn create_policy(client: &Client, operator: &Operator<'_>) {
    let path = operator.programs.policy.expect("it is checked at the start");
    let file = std::fs::read(path).unwrap_or_else(|why| panic!("{}: {why}", path.display()));
    let map = ConfigMap {
        metadata: ObjectMeta { name: Some(POLICY.to_owned()), ..ObjectMeta::default() },
        binary_data: Some([(POLICY.to_owned(), ByteString(file))].into()),
        ..ConfigMap::default()
    };
    let maps = Api::namespaced(client.clone(), operator.namespace);
    maps.create(&PostParams::default(), &map).await.expect("created");
}

async fn post(client: &Client, path: &str, object: &Value) {
    let request = http::Request::post(path)
        .header(http::header::CONTENT_TYPE, "application/json")
        .body(object.to_string().into_bytes())
        .expect("a request");
    client.request::<Value>(request).await.unwrap_or_else(|error| panic!("{path}: {error}"));
}
