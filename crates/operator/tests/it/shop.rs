//! A namespace with a workload, its pods and their usage, created by the test: no kubelet runs here.

use std::time::{Duration, Instant};

use k8s_openapi::api::admissionregistration::v1::MutatingWebhookConfiguration;
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::coordination::v1::{Lease, LeaseSpec};
use k8s_openapi::api::core::v1::{Namespace, Pod};
use k8s_openapi::api::events::v1::Event;
use k8s_openapi::jiff::Timestamp;
use kube::api::{DeleteParams, DynamicObject, ListParams, Patch, PatchParams, PostParams};
use kube::{Api, Client};
use serde_json::{Value, json};

use homeostat_autoscaler::api::MultidimPodAutoscaler;
use homeostat_operator::install::definitions;
use homeostat_operator::lease::lease_name;
use homeostat_testbed::{Cluster, define, define_written_use, write_use, written_use};

use super::cluster;
use super::operator::{PATIENCE, eventually};

/// A namespace of one test.
pub(crate) struct Shop {
    pub(crate) cluster: &'static Cluster,
    pub(crate) client: Client,
    pub(crate) namespace: String,
}

impl Shop {
    /// The lease of the operators for this namespace.
    pub(crate) async fn lease(&self) -> Option<LeaseSpec> {
        let leases: Api<Lease> = self.api();
        leases.get_opt(&lease_name(Some(&self.namespace))).await.ok()??.spec
    }

    /// The leader.
    pub(crate) async fn leader(&self) -> Option<String> {
        self.lease().await?.holder_identity
    }

    /// A new namespace on the shared cluster, with everything defined; none if there is no
    /// cluster.
    pub(crate) async fn open(name: &str) -> Option<Self> {
        Some(Self::open_on(cluster::shared()?, name).await)
    }

    /// A new namespace on a cluster, with everything defined.
    pub(crate) async fn open_on(cluster: &'static Cluster, name: &str) -> Self {
        let client = cluster.client().await;
        define(&client, &definitions()).await;
        define_written_use(&client).await;
        let namespaces: Api<Namespace> = Api::all(client.clone());
        // Newer servers set the label with the name automatically.
        let labels = json!({ "shop": name, "kubernetes.io/metadata.name": name });
        let namespace = json!({ "metadata": { "name": name, "labels": labels } });
        let namespace: Namespace = serde_json::from_value(namespace).expect("valid");
        namespaces.create(&PostParams::default(), &namespace).await.expect("created");
        Self { cluster, client, namespace: name.to_owned() }
    }

    /// Objects of a kind in this namespace.
    pub(crate) fn api<K>(&self) -> Api<K>
    where
        K: kube::Resource<Scope = kube::core::NamespaceResourceScope>,
        K::DynamicType: Default,
    {
        Api::namespaced(self.client.clone(), &self.namespace)
    }

    /// Creates a Deployment and its ready pods of 500m and 256Mi.
    pub(crate) async fn deployment(&self, name: &str, pods: u32) {
        let labels = json!({ "app": name });
        let spec = json!({ "containers": [container()] });
        let deployment = json!({
            "apiVersion": "apps/v1", "kind": "Deployment", "metadata": { "name": name },
            "spec": {
                "replicas": pods, "selector": { "matchLabels": labels },
                "template": { "metadata": { "labels": labels }, "spec": spec },
            },
        });
        let deployment: Deployment = serde_json::from_value(deployment).expect("valid");
        self.api().create(&PostParams::default(), &deployment).await.expect("created");
        for place in 0..pods {
            self.pod(name, &format!("{name}-{place}")).await;
        }
    }

    /// Creates a pod of a workload that has been ready for long.
    pub(crate) async fn pod(&self, workload: &str, name: &str) {
        let pods: Api<Pod> = self.api();
        let pod = json!({
            "apiVersion": "v1", "kind": "Pod",
            "metadata": { "name": name, "labels": { "app": workload } },
            "spec": { "containers": [container()] },
        });
        let pod: Pod = serde_json::from_value(pod).expect("valid");
        pods.create(&PostParams::default(), &pod).await.expect("created");
        let since =
            (Timestamp::now() - k8s_openapi::jiff::SignedDuration::from_hours(13)).to_string();
        let status = json!({ "status": {
            "phase": "Running", "startTime": since,
            "conditions": [{ "type": "Ready", "status": "True", "lastTransitionTime": since }],
        }});
        let params = PatchParams::default();
        pods.patch_status(name, &params, &Patch::Merge(status)).await.expect("patched");
    }

    /// Sets the current usage of a pod.
    pub(crate) async fn uses(&self, pod: &str, cpu: &str, memory: &str) {
        self.uses_at(pod, cpu, memory, Timestamp::now()).await;
    }

    /// Sets the usage of a pod at some time.
    pub(crate) async fn uses_at(&self, pod: &str, cpu: &str, memory: &str, at: Timestamp) {
        write_use(&self.metrics(), pod, cpu, memory, at).await;
    }

    /// Deletes all usage.
    pub(crate) async fn delete_usage(&self) {
        let (delete, list) = (DeleteParams::default(), ListParams::default());
        self.metrics().delete_collection(&delete, &list).await.expect("deleted");
    }

    fn metrics(&self) -> Api<DynamicObject> {
        written_use(&self.client, &self.namespace)
    }

    /// Writes an object; fails if the server refuses it.
    pub(crate) async fn autoscaler(&self, name: &str, spec: Value) -> kube::Result<()> {
        let object = json!({
            "apiVersion": "homeostat.dev/v1alpha1", "kind": "MultidimPodAutoscaler",
            "metadata": { "name": name }, "spec": spec,
        });
        let api: Api<MultidimPodAutoscaler> = self.api();
        let params = PatchParams::apply("test").force();
        api.patch(name, &params, &Patch::Apply(object)).await.map(|_| ())
    }

    /// Creates a webhook configuration for pods of this namespace. Each replica of the operator has an
    /// address of its own here, where a cluster has one service for all.
    pub(crate) async fn webhook(&self, ports: &[u16]) {
        let webhook = |port: &u16| {
            json!({
                "name": format!("copy{port}.homeostat.dev"), "admissionReviewVersions": ["v1"],
                "sideEffects": "None", "failurePolicy": "Ignore", "timeoutSeconds": 5,
                "namespaceSelector": { "matchLabels": { "shop": self.namespace } },
                "clientConfig": { "url": format!("https://127.0.0.1:{port}/mutate") },
                "rules": [{ "apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["pods"] }],
            })
        };
        let webhooks: Vec<Value> = ports.iter().map(webhook).collect();
        let object = json!({ "metadata": { "name": self.namespace }, "webhooks": webhooks });
        let object: MutatingWebhookConfiguration = serde_json::from_value(object).expect("valid");
        let api: Api<MutatingWebhookConfiguration> = Api::all(self.client.clone());
        api.create(&PostParams::default(), &object).await.expect("created");
    }

    /// Waits until a condition has a reason; returns its message.
    pub(crate) async fn condition(&self, name: &str, kind: &str, reason: &str) -> String {
        let api: Api<MultidimPodAutoscaler> = self.api();
        let started = Instant::now();
        loop {
            let object = api.get(name).await.expect("it is there");
            let conditions = object.status.unwrap_or_default().conditions;
            let found = conditions.iter().find(|found| found.type_ == kind);
            if let Some(found) = found.filter(|found| found.reason == reason) {
                return found.message.clone();
            }
            assert!(
                started.elapsed() < PATIENCE,
                "{kind} of {name} should be {reason}, but its conditions are {conditions:#?}"
            );
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }

    /// Waits for an event of an object with a reason; returns its note.
    pub(crate) async fn event(&self, name: &str, reason: &str) -> String {
        let events: Api<Event> = self.api();
        eventually(&format!("an event {reason} of {name}"), async || {
            let all = events.list(&ListParams::default()).await.expect("listed").items;
            let is_it = |event: &Event| {
                let regarding = event.regarding.as_ref().and_then(|about| about.name.as_deref());
                regarding == Some(name) && event.reason.as_deref() == Some(reason)
            };
            all.into_iter().find(is_it)?.note
        })
        .await
    }

    /// Checks that an object has no event with a reason.
    pub(crate) async fn assert_no_event(&self, name: &str, reason: &str) {
        let events: Api<Event> = self.api();
        let all = events.list(&ListParams::default()).await.expect("listed").items;
        let is_it = |event: &&Event| {
            let regarding = event.regarding.as_ref().and_then(|about| about.name.as_deref());
            regarding == Some(name) && event.reason.as_deref() == Some(reason)
        };
        let found = all.iter().find(is_it);
        assert!(found.is_none(), "{found:#?}");
    }

    /// Replicas of a Deployment.
    pub(crate) async fn replicas(&self, name: &str) -> i32 {
        let api: Api<Deployment> = self.api();
        api.get(name).await.expect("it is there").spec.replicas.unwrap_or(0)
    }
}

/// A valid spec for a Deployment.
pub(crate) fn spec(target: &str, mode: &str) -> Value {
    json!({
        "scaleTargetRef": { "apiVersion": "apps/v1", "kind": "Deployment", "name": target },
        "mode": mode,
        "constraints": { "global": { "minReplicas": 1, "maxReplicas": 10 } },
    })
}

fn container() -> Value {
    json!({
        "name": "app", "image": "example.invalid/app:1",
        "resources": { "requests": { "cpu": "500m", "memory": "256Mi" } },
    })
}
