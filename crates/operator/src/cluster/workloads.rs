//! Lists the workloads of the cluster, with or without an autoscaler object.

use homeostat_autoscaler::workload::{HpaBounds, Workload};
use k8s_openapi::api::apps::v1::{Deployment, ReplicaSet, StatefulSet};
use k8s_openapi::api::autoscaling::v1::HorizontalPodAutoscaler;
use k8s_openapi::api::core::v1::Pod;
use kube::api::ListParams;
use kube::{Api, Client};

/// Lists Deployments, StatefulSets, and ReplicaSets without an owner.
pub async fn workloads(client: &Client, namespace: Option<&str>) -> kube::Result<Vec<Workload>> {
    let params = ListParams::default();
    let mut all = Vec::new();
    for deployment in api::<Deployment>(client, namespace).list(&params).await? {
        let spec = deployment.spec;
        let pod = spec.template.spec;
        all.extend(Workload::new(
            "Deployment",
            deployment.metadata,
            spec.replicas,
            spec.selector,
            pod,
        ));
    }
    for stateful_set in api::<StatefulSet>(client, namespace).list(&params).await? {
        let spec = stateful_set.spec;
        let (meta, pod) = (stateful_set.metadata, spec.template.spec);
        all.extend(Workload::new("StatefulSet", meta, spec.replicas, spec.selector, pod));
    }
    for replica_set in api::<ReplicaSet>(client, namespace).list(&params).await? {
        let owners = replica_set.metadata.owner_references.iter().flatten();
        let is_owned = owners.into_iter().any(|owner| owner.controller == Some(true));
        if is_owned {
            continue;
        }
        let spec = replica_set.spec;
        let pod = spec.template.and_then(|pod| pod.spec);
        all.extend(Workload::new(
            "ReplicaSet",
            replica_set.metadata,
            spec.replicas,
            spec.selector,
            pod,
        ));
    }
    let key = |workload: &Workload| (workload.namespace.clone(), workload.target.clone());
    all.sort_by_key(key);
    Ok(all)
}

/// Lists the pods of a namespace, or of all namespaces.
pub async fn pods(client: &Client, namespace: Option<&str>) -> kube::Result<Vec<Pod>> {
    Ok(api::<Pod>(client, namespace).list(&ListParams::default()).await?.items)
}

/// Lists the HorizontalPodAutoscalers of a namespace, or of all namespaces.
pub async fn horizontal_autoscalers(
    client: &Client,
    namespace: Option<&str>,
) -> kube::Result<Vec<HpaBounds>> {
    let api = api::<HorizontalPodAutoscaler>(client, namespace);
    let list = api.list(&ListParams::default()).await?;
    Ok(list.items.into_iter().map(HpaBounds::from).collect())
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
