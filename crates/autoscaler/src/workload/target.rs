//! A workload of the cluster, with or without an autoscaler object.

use std::fmt;

use k8s_openapi::api::autoscaling::v1::HorizontalPodAutoscaler;
use k8s_openapi::api::core::v1::{Pod, PodSpec};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use kube::core::{ObjectMeta, Selector};

use super::pods::{ContainerRecord, PodRecord, container_record, record};
use super::selector::selects;
use crate::api::ScaleTargetRef;

/// A workload.
#[derive(Debug, Clone)]
pub struct Workload {
    /// Its namespace.
    pub namespace: String,
    /// Its kind and name.
    pub target: ScaleTargetRef,
    /// Replicas in its spec.
    pub replicas: u32,
    /// Label selector of its pods.
    pub selector: Selector,
    /// Containers of its pod template.
    pub containers: Vec<ContainerRecord>,
}

impl Workload {
    /// Reads a workload; none if it has no name, or no selector of its own pods.
    pub fn new(
        kind: &str,
        meta: ObjectMeta,
        replicas: Option<i32>,
        selector: LabelSelector,
        pod: Option<PodSpec>,
    ) -> Option<Self> {
        let selector = Selector::try_from(selector).ok()?;
        // A selector that matches everything would claim every pod.
        if selector.selects_all() {
            return None;
        }
        let target = ScaleTargetRef {
            api_version: "apps/v1".to_owned(),
            kind: kind.to_owned(),
            name: meta.name?,
        };
        Some(Self {
            namespace: meta.namespace.unwrap_or_default(),
            target,
            replicas: u32::try_from(replicas.unwrap_or(1)).unwrap_or(0),
            selector,
            containers: pod
                .iter()
                .flat_map(|pod| &pod.containers)
                .map(|container| with_default_requests(container_record(container)))
                .collect(),
        })
    }
}

/// As `kubectl` writes it: `deployment/checkout`.
impl fmt::Display for Workload {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.target.kind.to_lowercase(), self.target.name)
    }
}

/// The scale subresource of a workload.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Scaled {
    /// Replicas in its spec.
    pub replicas: u32,
    /// Label selector of its pods.
    pub selector: String,
}

/// The running pods of a workload.
pub fn pods_of_workload(workload: &Workload, pods: &[Pod]) -> Vec<PodRecord> {
    let is_ours = |pod: &&Pod| {
        pod.metadata.namespace.as_deref() == Some(&workload.namespace)
            && selects(&workload.selector, pod.metadata.labels.as_ref())
    };
    let records = pods.iter().filter(is_ours).filter_map(record);
    let mut records: Vec<_> = records.filter(|pod| !pod.is_leaving).collect();
    records.sort_by(|a, b| a.name.cmp(&b.name));
    records
}

/// The target and the bounds of a HorizontalPodAutoscaler.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HpaBounds {
    /// Its namespace.
    pub namespace: String,
    /// Its name.
    pub name: String,
    /// Kind and name of its target.
    pub target: (String, String),
    /// Minimum and maximum number of replicas.
    pub replicas: (u32, u32),
}

impl From<HorizontalPodAutoscaler> for HpaBounds {
    fn from(hpa: HorizontalPodAutoscaler) -> Self {
        let spec = hpa.spec;
        let number = |replicas: i32| u32::try_from(replicas).unwrap_or(0).max(1);
        Self {
            namespace: hpa.metadata.namespace.unwrap_or_default(),
            name: hpa.metadata.name.unwrap_or_default(),
            target: (spec.scale_target_ref.kind, spec.scale_target_ref.name),
            replicas: (number(spec.min_replicas.unwrap_or(1)), number(spec.max_replicas)),
        }
    }
}

/// Kubernetes uses the limit as the request of a container that has only a limit.
fn with_default_requests(container: ContainerRecord) -> ContainerRecord {
    ContainerRecord {
        cpu_request: container.cpu_request.or(container.cpu_limit),
        memory_request: container.memory_request.or(container.memory_limit),
        ..container
    }
}
