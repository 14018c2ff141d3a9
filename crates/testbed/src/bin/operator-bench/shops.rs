//! Many workloads, their pods and what they use, made by hand.

use std::path::Path;
use std::time::{Duration, Instant};

use futures::{StreamExt, stream};
use homeostat_core::Stream;
use homeostat_testbed::{Cluster, define_by, define_written_use, write_use, written_use};
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::{Namespace, Pod};
use k8s_openapi::jiff::{SignedDuration, Timestamp};
use kube::api::{DynamicObject, Patch, PatchParams, PostParams};
use kube::core::{ApiResource, GroupVersionKind};
use kube::{Api, Client};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

/// Requests at once while everything is made.
const AT_ONCE: usize = 32;
/// Objects of one namespace.
const PER_NAMESPACE: u32 = 50;

/// Many workloads.
pub(crate) struct Shops {
    client: Client,
    objects: u32,
    pods: u32,
}

impl Shops {
    /// Makes everything.
    pub(crate) async fn open(cluster: &Cluster, operator: &Path, objects: u32, pods: u32) -> Self {
        let client = cluster.client().await;
        define_by(&client, operator).await;
        define_written_use(&client).await;
        let this = Self { client, objects, pods };
        let started = Instant::now();
        eprintln!("bench: writing {objects} objects and {} pods", objects * pods);
        for place in 0..objects.div_ceil(PER_NAMESPACE) {
            let name = format!("shop-{place}");
            let namespace: Namespace = read(json!({ "metadata": { "name": name } }));
            let namespaces: Api<Namespace> = Api::all(this.client.clone());
            namespaces.create(&PostParams::default(), &namespace).await.expect("created");
        }
        let each = stream::iter(0..objects).map(|object| this.workload(object));
        each.buffer_unordered(AT_ONCE).for_each(async |()| {}).await;
        eprintln!("bench: written in {:.0} s", started.elapsed().as_secs_f64());
        this
    }

    /// Lets a tenth of the pods use something else every few seconds.
    pub(crate) async fn live(&self, how_long: Duration) {
        let mut rng = Stream::from_seed(1);
        let ends = Instant::now() + how_long;
        let mut ticks = tokio::time::interval(Duration::from_secs(15));
        loop {
            ticks.tick().await;
            if Instant::now() >= ends {
                return;
            }
            let busy: Vec<(u32, u32, u32)> = (0..self.objects * self.pods / 10)
                .map(|_| {
                    let object = rng.below(self.objects as usize) as u32;
                    let pod = rng.below(self.pods as usize) as u32;
                    (object, pod, 200 + rng.below(100) as u32)
                })
                .collect();
            let each = busy.into_iter().map(|(object, pod, cpu)| self.uses(object, pod, cpu));
            stream::iter(each).buffer_unordered(4).for_each(async |()| {}).await;
        }
    }

    /// Changes objects one after the other, and times each from the write to the status that
    /// tells of it.
    pub(crate) async fn time_changes(&self, how_long: Duration) -> Vec<f64> {
        let mut rng = Stream::from_seed(2);
        let ends = Instant::now() + how_long;
        let mut seconds = Vec::new();
        while Instant::now() < ends {
            let object = rng.below(self.objects as usize) as u32;
            let api = self.autoscalers(object);
            let name = name_of(object);
            let most = 5 + rng.below(20) as u32;
            let change = json!({ "spec": { "constraints": { "global": { "maxReplicas": most }}}});
            let started = Instant::now();
            let params = PatchParams::default();
            let written = api.patch(&name, &params, &Patch::Merge(change)).await.expect("patched");
            let generation = written.metadata.generation;
            loop {
                let found = api.get(&name).await.expect("it is there");
                let seen = found.data.pointer("/status/observedGeneration");
                if seen.and_then(Value::as_i64) >= generation {
                    break;
                }
                assert!(started.elapsed() < Duration::from_secs(60), "{name} is not looked at");
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
            seconds.push(started.elapsed().as_secs_f64());
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
        seconds
    }

    async fn workload(&self, object: u32) {
        let (namespace, name) = (namespace_of(object), name_of(object));
        let labels = json!({ "app": name });
        let container = json!({
            "name": "app", "image": "example.invalid/app:1",
            "resources": { "requests": { "cpu": "500m", "memory": "256Mi" } },
        });
        let deployment: Deployment = read(json!({
            "metadata": { "name": name },
            "spec": {
                "replicas": self.pods, "selector": { "matchLabels": labels },
                "template": {
                    "metadata": { "labels": labels }, "spec": { "containers": [container] },
                },
            },
        }));
        let deployments: Api<Deployment> = Api::namespaced(self.client.clone(), &namespace);
        deployments.create(&PostParams::default(), &deployment).await.expect("created");
        for pod in 0..self.pods {
            self.pod(object, pod, &labels, &container).await;
            self.uses(object, pod, 250).await;
        }
        // No controller would replace what is evicted here.
        let autoscaler: DynamicObject = read(json!({
            "apiVersion": "homeostat.dev/v1alpha1", "kind": "MultidimPodAutoscaler",
            "metadata": { "name": name },
            "spec": {
                "scaleTargetRef": { "apiVersion": "apps/v1", "kind": "Deployment", "name": name },
                "mode": "Auto",
                "policy": { "updateMode": "Initial" },
                "constraints": { "global": { "minReplicas": self.pods, "maxReplicas": 25 } },
            },
        }));
        let api = self.autoscalers(object);
        api.create(&PostParams::default(), &autoscaler).await.expect("created");
    }

    async fn pod(&self, object: u32, pod: u32, labels: &Value, container: &Value) {
        let name = pod_name(object, pod);
        let pods: Api<Pod> = Api::namespaced(self.client.clone(), &namespace_of(object));
        let pod: Pod = read(json!({
            "metadata": { "name": name, "labels": labels },
            "spec": { "containers": [container] },
        }));
        pods.create(&PostParams::default(), &pod).await.expect("created");
        let since = (Timestamp::now() - SignedDuration::from_hours(1)).to_string();
        let status = json!({ "status": {
            "phase": "Running", "startTime": since,
            "conditions": [{ "type": "Ready", "status": "True", "lastTransitionTime": since }],
        }});
        let params = PatchParams::default();
        pods.patch_status(&name, &params, &Patch::Merge(status)).await.expect("patched");
    }

    /// What a pod uses, in millicores.
    async fn uses(&self, object: u32, pod: u32, millicores: u32) {
        let name = pod_name(object, pod);
        let api = written_use(&self.client, &namespace_of(object));
        let cpu = format!("{millicores}m");
        write_use(&api, &name, &cpu, "128Mi", Timestamp::now()).await;
    }

    fn autoscalers(&self, object: u32) -> Api<DynamicObject> {
        let kind = GroupVersionKind::gvk("homeostat.dev", "v1alpha1", "MultidimPodAutoscaler");
        let resource = ApiResource::from_gvk_with_plural(&kind, "multidimpodautoscalers");
        Api::namespaced_with(self.client.clone(), &namespace_of(object), &resource)
    }
}

fn namespace_of(object: u32) -> String {
    format!("shop-{}", object / PER_NAMESPACE)
}

fn name_of(object: u32) -> String {
    format!("web-{object}")
}

fn pod_name(object: u32, pod: u32) -> String {
    format!("web-{object}-{pod}")
}

fn read<T: DeserializeOwned>(value: Value) -> T {
    serde_json::from_value(value).expect("valid")
}
