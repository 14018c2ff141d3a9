//! Usage of pods, from the metrics API of the cluster.

use homeostat_autoscaler::measure::{PodMetricsList, PodUse, Problem, Source};
use kube::Client;

/// Reads the usage of all pods of a namespace, or of all namespaces, in one request.
pub async fn pod_metrics(client: &Client, namespace: Option<&str>) -> Result<Vec<PodUse>, Problem> {
    let path = match namespace {
        Some(namespace) => format!("/apis/metrics.k8s.io/v1beta1/namespaces/{namespace}/pods"),
        None => "/apis/metrics.k8s.io/v1beta1/pods".to_owned(),
    };
    let unreachable = |why: String| {
        let why = why.lines().next().unwrap_or_default().chars().take(200).collect();
        Problem::Unreachable { source: Source::MetricsApi, why }
    };
    let request = http::Request::get(path).body(Vec::new());
    let request = request.map_err(|why| unreachable(why.to_string()))?;
    let list: PodMetricsList =
        client.request(request).await.map_err(|why| unreachable(why.to_string()))?;
    Ok(list.into_pods())
}
