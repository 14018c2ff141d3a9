//! Workloads of the cluster, with or without an autoscaler object.

use std::fmt;

use k8s_openapi::api::apps::v1::{Deployment, ReplicaSet, StatefulSet};
use k8s_openapi::api::autoscaling::v1::HorizontalPodAutoscaler;
use k8s_openapi::api::core::v1::{Pod, PodSpec};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use kube::api::ListParams;
use kube::core::{ObjectMeta, Selector};
use kube::{Api, Client};

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

/// As `kubectl` writes it: `deployment/checkout`.
impl fmt::Display for Workload {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.target.kind.to_lowercase(), self.target.name)
    }
}

/// Lists Deployments, StatefulSets, and ReplicaSets without an owner.
pub async fn workloads(client: &Client, namespace: Option<&str>) -> kube::Result<Vec<Workload>> {
    let params = ListParams::default();
    let mut all = Vec::new();
    for deployment in api::<Deployment>(client, namespace).list(&params).await? {
        let spec = deployment.spec;
        let pod = spec.template.spec;
        all.extend(workload("Deployment", deployment.metadata, spec.replicas, spec.selector, pod));
    }
    for stateful_set in api::<StatefulSet>(client, namespace).list(&params).await? {
        let spec = stateful_set.spec;
        let (meta, pod) = (stateful_set.metadata, spec.template.spec);
        all.extend(workload("StatefulSet", meta, spec.replicas, spec.selector, pod));
    }
    for replica_set in api::<ReplicaSet>(client, namespace).list(&params).await? {
        let owners = replica_set.metadata.owner_references.iter().flatten();
        let is_owned = owners.into_iter().any(|owner| owner.controller == Some(true));
        if is_owned {
            continue;
        }
        let spec = replica_set.spec;
        let pod = spec.template.and_then(|pod| pod.spec);
        all.extend(workload("ReplicaSet", replica_set.metadata, spec.replicas, spec.selector, pod));
    }
    let key = |workload: &Workload| (workload.namespace.clone(), workload.target.clone());
    all.sort_by_key(key);
    Ok(all)
}

/// Lists the pods of a namespace, or of all namespaces.
pub async fn pods(client: &Client, namespace: Option<&str>) -> kube::Result<Vec<Pod>> {
    Ok(api::<Pod>(client, namespace).list(&ListParams::default()).await?.items)
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

/// Lists the HorizontalPodAutoscalers of a namespace, or of all namespaces.
pub async fn horizontal_autoscalers(
    client: &Client,
    namespace: Option<&str>,
) -> kube::Result<Vec<HpaBounds>> {
    let api = api::<HorizontalPodAutoscaler>(client, namespace);
    let list = api.list(&ListParams::default()).await?;
    let bounds = |hpa: HorizontalPodAutoscaler| {
        let spec = hpa.spec;
        let number = |replicas: i32| u32::try_from(replicas).unwrap_or(0).max(1);
        HpaBounds {
            namespace: hpa.metadata.namespace.unwrap_or_default(),
            name: hpa.metadata.name.unwrap_or_default(),
            target: (spec.scale_target_ref.kind, spec.scale_target_ref.name),
            replicas: (number(spec.min_replicas.unwrap_or(1)), number(spec.max_replicas)),
        }
    };
    Ok(list.items.into_iter().map(bounds).collect())
}

fn workload(
    kind: &str,
    meta: ObjectMeta,
    replicas: Option<i32>,
    selector: LabelSelector,
    pod: Option<PodSpec>,
) -> Option<Workload> {
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
    Some(Workload {
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

/// Kubernetes uses the limit as the request of a container that has only a limit.
fn with_default_requests(container: ContainerRecord) -> ContainerRecord {
    ContainerRecord {
        cpu_request: container.cpu_request.or(container.cpu_limit),
        memory_request: container.memory_request.or(container.memory_limit),
        ..container
    }
}

fn api<K>(client: &Client, namespace: Option<&str>) -> Api<K>
where
    K: kube::Resource<Scope = kube::core::NamespaceResourceScope>,
    K::DynamicType: Default,
{
    match namespace {
        Some(namespace) => Api::namespaced(client.clone(), namespace),
        None => Api::all(client.clone()),
    }
}
