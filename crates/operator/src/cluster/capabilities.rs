//! Capabilities of the API server, found by discovery. Kubernetes 1.20 and later are supported.

use kube::Client;

/// Capabilities of the API server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Capabilities {
    /// Its version, such as `v1.33.1`.
    pub version: String,
    /// Whether pods can be resized in place.
    pub resizes_pods: bool,
    /// Whether it serves `metrics.k8s.io`.
    pub has_pod_metrics: bool,
    /// The newest version of HorizontalPodAutoscalers that it serves.
    pub autoscaling: Option<&'static str>,
    /// Whether the definition of MultidimPodAutoscalers is installed.
    pub has_definition: bool,
    /// Whether the VerticalPodAutoscaler is installed.
    pub has_vpa: bool,
}

impl Capabilities {
    /// Discovers them.
    pub async fn of(client: &Client) -> kube::Result<Self> {
        let version = client.apiserver_version().await?.git_version;
        let core = client.list_core_api_resources("v1").await?;
        let groups = client.list_api_groups().await?;
        let has_group = |name: &str| groups.groups.iter().any(|group| group.name == name);
        let autoscaling = groups.groups.iter().find(|group| group.name == "autoscaling");
        let newest = ["v2", "v2beta2", "v1"].into_iter().find(|wanted| {
            autoscaling.is_some_and(|group| {
                group.versions.iter().any(|version| version.version == *wanted)
            })
        });
        Ok(Self {
            version,
            resizes_pods: core.resources.iter().any(|resource| resource.name == "pods/resize"),
            has_pod_metrics: has_group("metrics.k8s.io"),
            autoscaling: newest,
            has_definition: has_group(homeostat_autoscaler::api::GROUP),
            has_vpa: has_group("autoscaling.k8s.io"),
        })
    }
}
