//! Definitions of kinds, ours and one that stands for the metrics server.

use std::path::Path;
use std::process::Command;

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use k8s_openapi::jiff::Timestamp;
use kube::api::{ApiResource, DynamicObject, Patch, PatchParams};
use kube::core::GroupVersionKind;
use kube::runtime::wait::{await_condition, conditions};
use kube::{Api, Client};
use serde_json::{Value, json};

/// Applies definitions in YAML, and waits until the server knows them.
pub async fn define(client: &Client, definitions: &str) {
    let all: Vec<Value> = serde_saphyr::from_multiple(definitions).expect("valid YAML");
    for definition in &all {
        apply(client, definition).await;
    }
}

/// Applies what the operator's program prints as its definitions.
pub async fn define_by(client: &Client, operator: &Path) {
    let printed = Command::new(operator).arg("crd").output().expect("the operator starts");
    define(client, &String::from_utf8(printed.stdout).expect("it prints YAML")).await;
}

/// Lets tests write the resource usage of pods: objects that the API server serves where clients expect
/// the metrics server.
pub async fn define_written_use(client: &Client) {
    let definition = json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {
            "name": "pods.metrics.k8s.io",
            "annotations": { "api-approved.kubernetes.io": "unapproved, for tests" },
        },
        "spec": {
            "group": "metrics.k8s.io", "scope": "Namespaced",
            "names": { "kind": "PodMetrics", "plural": "pods" },
            "versions": [{
                "name": "v1beta1", "served": true, "storage": true,
                "schema": { "openAPIV3Schema": {
                    "type": "object", "x-kubernetes-preserve-unknown-fields": true,
                }},
            }],
        },
    });
    apply(client, &definition).await;
}

async fn apply(client: &Client, definition: &Value) {
    let api: Api<CustomResourceDefinition> = Api::all(client.clone());
    let name = definition["metadata"]["name"].as_str().expect("a name");
    let params = PatchParams::apply("testbed").force();
    api.patch(name, &params, &Patch::Apply(definition)).await.expect("applied");
    let established = conditions::is_crd_established();
    await_condition(api.clone(), name, established).await.expect("established");
}

/// What pods of a namespace use, as objects: see [`define_written_use`].
pub fn written_use(client: &Client, namespace: &str) -> Api<DynamicObject> {
    let kind = GroupVersionKind::gvk("metrics.k8s.io", "v1beta1", "PodMetrics");
    let resource = ApiResource::from_gvk_with_plural(&kind, "pods");
    Api::namespaced_with(client.clone(), namespace, &resource)
}

/// Writes what the container `app` of a pod used at some time.
pub async fn write_use(
    api: &Api<DynamicObject>,
    pod: &str,
    cpu: &str,
    memory: &str,
    at: Timestamp,
) {
    let metrics = json!({
        "apiVersion": "metrics.k8s.io/v1beta1", "kind": "PodMetrics",
        "metadata": { "name": pod },
        "timestamp": at.to_string(), "window": "15s",
        "containers": [{ "name": "app", "usage": { "cpu": cpu, "memory": memory } }],
    });
    let params = PatchParams::apply("testbed").force();
    api.patch(pod, &params, &Patch::Apply(metrics)).await.expect("patched");
}
