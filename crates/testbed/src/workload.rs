//! The service as a Deployment with a Service in front of it.

use k8s_openapi::api::admissionregistration::v1::MutatingWebhookConfiguration;
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::{Namespace, Service};
use kube::api::PostParams;
use kube::{Api, Client};
use serde_json::json;

use crate::image::SERVICE_IMAGE;

/// The service as somebody would run it.
pub struct Workload<'a> {
    /// Its namespace.
    pub namespace: &'a str,
    /// Name of deployment, container and service.
    pub name: &'a str,
    /// Pods to begin with.
    pub replicas: u32,
    /// CPU of a pod, such as `250m`.
    pub cpu: &'a str,
    /// Memory of a pod, such as `64Mi`.
    pub memory: &'a str,
    /// Work of a request.
    pub iterations: u64,
    /// Whether limits equal requests, so that a request is all that a pod gets; else a pod may use
    /// idle CPU.
    pub has_cpu_limit: bool,
}

impl Workload<'_> {
    /// Makes the namespace and all that is in it.
    pub async fn create(&self, client: &Client) {
        let object: Namespace = serde_json::from_value(
            json!({ "metadata": { "name": self.namespace, "labels": { "sized": "yes" } } }),
        )
        .expect("valid");
        Api::all(client.clone()).create(&PostParams::default(), &object).await.expect("created");
        self.add(client).await;
    }

    /// Makes it in a namespace that is there.
    pub async fn add(&self, client: &Client) {
        let Self { namespace, name, .. } = *self;
        let params = PostParams::default();
        let labels = json!({ "app": name });
        let size = json!({ "cpu": self.cpu, "memory": self.memory });
        let limits = match self.has_cpu_limit {
            true => size.clone(),
            false => json!({ "memory": self.memory }),
        };
        let container = json!({
            "name": name, "image": SERVICE_IMAGE, "imagePullPolicy": "Never",
            "env": [{ "name": "WORK_ITERATIONS", "value": self.iterations.to_string() }],
            "resources": { "requests": size, "limits": limits },
            "ports": [{ "containerPort": 8080 }],
            "readinessProbe": {
                "httpGet": { "path": "/ready", "port": 8080 },
                "periodSeconds": 1, "timeoutSeconds": 5, "failureThreshold": 3,
            },
            "lifecycle": { "preStop": { "httpGet": { "path": "/drain", "port": 8080 } } },
        });
        let deployment: Deployment = serde_json::from_value(json!({
            "metadata": { "name": name },
            "spec": {
                "replicas": self.replicas, "selector": { "matchLabels": labels },
                "template": {
                    "metadata": { "labels": labels },
                    "spec": { "containers": [container], "automountServiceAccountToken": false },
                },
            },
        }))
        .expect("valid");
        let deployments = Api::namespaced(client.clone(), namespace);
        deployments.create(&params, &deployment).await.expect("created");
        let service: Service = serde_json::from_value(json!({
            "metadata": { "name": name },
            "spec": { "selector": labels, "ports": [{ "port": 80, "targetPort": 8080 }] },
        }))
        .expect("valid");
        let services = Api::namespaced(client.clone(), namespace);
        services.create(&params, &service).await.expect("created");
    }
}

/// Sends pods of every [`Workload`] to a webhook on a port of loopback.
pub fn webhook_configuration(name: &str, port: u16) -> MutatingWebhookConfiguration {
    serde_json::from_value(json!({
        "metadata": { "name": name },
        "webhooks": [{
            "name": "pods.homeostat.dev", "admissionReviewVersions": ["v1"], "sideEffects": "None",
            "failurePolicy": "Ignore", "timeoutSeconds": 5,
            "namespaceSelector": { "matchLabels": { "sized": "yes" } },
            "clientConfig": { "url": format!("https://127.0.0.1:{port}/mutate") },
            "rules": [{
                "apiGroups": [""], "apiVersions": ["v1"],
                "operations": ["CREATE"], "resources": ["pods"],
            }],
        }],
    }))
    .expect("valid")
}
