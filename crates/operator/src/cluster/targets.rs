//! Workloads by their scale subresource: Deployments, StatefulSets and other kinds that have one.

use std::collections::BTreeMap;
use std::sync::Mutex;

use homeostat_autoscaler::api::ScaleTargetRef;
use homeostat_autoscaler::workload::Scaled;
use kube::api::{Patch, PatchParams};
use kube::core::{ApiResource, DynamicObject, GroupVersionKind};
use kube::{Api, Client};

const NOT_POISONED: &str = "no code panics while it holds this lock";

/// Attempts to write the scale against conflicting writes of other clients.
const ATTEMPTS: usize = 5;

/// A change of the number of replicas.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ReplicaChange {
    /// The number that the decision was made for.
    pub from: u32,
    /// The new number.
    pub to: u32,
}

/// Why a workload cannot be scaled.
#[derive(Debug, thiserror::Error)]
pub enum TargetError {
    /// The server does not know the kind.
    #[error("the server does not know the kind {kind} of {api_version}")]
    UnknownKind {
        /// The kind.
        kind: String,
        /// Its group and version.
        api_version: String,
    },
    /// The kind has no scale subresource.
    #[error("{kind} has no scale subresource: it cannot be scaled")]
    NotScalable {
        /// The kind.
        kind: String,
    },
    /// The workload does not exist.
    #[error("there is no {kind} named {name:?}")]
    NotFound {
        /// The kind.
        kind: String,
        /// The name.
        name: String,
    },
    /// Its scale has no selector.
    #[error("the scale of {name:?} has no selector: its pods cannot be found")]
    NoSelector {
        /// The name.
        name: String,
    },
    /// Another client changed the number of replicas.
    #[error("another client has changed {name:?} from {from} to {replicas} pods meanwhile")]
    Changed {
        /// The name.
        name: String,
        /// The number that the decision was made for.
        from: u32,
        /// The number now.
        replicas: i32,
    },
    /// Every attempt to write conflicted with another client.
    #[error("{name:?} changes faster than it can be scaled")]
    Busy {
        /// The name.
        name: String,
    },
    /// The request failed.
    #[error(transparent)]
    Api(#[from] kube::Error),
}

/// Reads and writes the scale of workloads; each kind is discovered once.
pub struct Targets {
    client: Client,
    kinds: Mutex<BTreeMap<(String, String), ApiResource>>,
}

impl Targets {
    /// Workloads of a cluster.
    pub fn new(client: Client) -> Self {
        Self { client, kinds: Mutex::default() }
    }

    /// Reads the scale of a workload.
    pub async fn scale(
        &self,
        namespace: &str,
        target: &ScaleTargetRef,
    ) -> Result<Scaled, TargetError> {
        let scale = self.api(namespace, target).await?.get_scale(&target.name).await;
        let scale = scale.map_err(|error| not_found(error, target))?;
        let replicas = scale.spec.and_then(|spec| spec.replicas).unwrap_or(0);
        let selector = scale.status.and_then(|status| status.selector).unwrap_or_default();
        if selector.is_empty() {
            return Err(TargetError::NoSelector { name: target.name.clone() });
        }
        Ok(Scaled { replicas: u32::try_from(replicas).unwrap_or(0), selector })
    }

    /// Changes the number of replicas, unless another client has changed it since the decision.
    pub async fn set_replicas(
        &self,
        namespace: &str,
        target: &ScaleTargetRef,
        ReplicaChange { from, to }: ReplicaChange,
    ) -> Result<(), TargetError> {
        let api = self.api(namespace, target).await?;
        let params =
            PatchParams { field_manager: Some("homeostat".to_owned()), ..PatchParams::default() };
        for _ in 0..ATTEMPTS {
            let scale = api.get_scale(&target.name).await;
            let scale = scale.map_err(|error| not_found(error, target))?;
            let replicas = scale.spec.and_then(|spec| spec.replicas).unwrap_or(0);
            if u32::try_from(replicas) != Ok(from) {
                return Err(TargetError::Changed { name: target.name.clone(), from, replicas });
            }
            let change = serde_json::json!({
                "metadata": { "resourceVersion": scale.metadata.resource_version },
                "spec": { "replicas": to },
            });
            match api.patch_scale(&target.name, &params, &Patch::Merge(change)).await {
                Ok(_) => return Ok(()),
                // A change of its status, such as a pod that started, is also a conflict.
                Err(kube::Error::Api(status)) if status.code == 409 => {}
                Err(error) => return Err(not_found(error, target)),
            }
        }
        Err(TargetError::Busy { name: target.name.clone() })
    }

    async fn api(
        &self,
        namespace: &str,
        target: &ScaleTargetRef,
    ) -> Result<Api<DynamicObject>, TargetError> {
        let key = (target.api_version.clone(), target.kind.clone());
        let known = self.kinds.lock().expect(NOT_POISONED).get(&key).cloned();
        let resource = match known {
            Some(resource) => resource,
            None => {
                let resource = self.discover(target).await?;
                let mut kinds = self.kinds.lock().expect(NOT_POISONED);
                kinds.insert(key, resource.clone());
                resource
            }
        };
        Ok(Api::namespaced_with(self.client.clone(), namespace, &resource))
    }

    async fn discover(&self, target: &ScaleTargetRef) -> Result<ApiResource, TargetError> {
        let unknown = || TargetError::UnknownKind {
            kind: target.kind.clone(),
            api_version: target.api_version.clone(),
        };
        let (group, version) =
            target.api_version.split_once('/').unwrap_or(("", &target.api_version));
        let kind = GroupVersionKind::gvk(group, version, &target.kind);
        let found = kube::discovery::pinned_kind(&self.client, &kind).await;
        let (resource, capabilities) = found.map_err(|error| match error {
            kube::Error::Discovery(_) => unknown(),
            kube::Error::Api(status) if status.code == 404 => unknown(),
            other => TargetError::Api(other),
        })?;
        let is_scalable =
            capabilities.subresources.iter().any(|(subresource, _)| subresource.plural == "scale");
        if is_scalable {
            Ok(resource)
        } else {
            Err(TargetError::NotScalable { kind: target.kind.clone() })
        }
    }
}

fn not_found(error: kube::Error, target: &ScaleTargetRef) -> TargetError {
    match error {
        kube::Error::Api(status) if status.code == 404 => {
            TargetError::NotFound { kind: target.kind.clone(), name: target.name.clone() }
        }
        other => TargetError::Api(other),
    }
}
