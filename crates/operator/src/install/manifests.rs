//! Everything to install, as YAML for `kubectl apply`.

use serde_json::{Value, json};

use super::definition::definitions;
use super::network::{disruption_budget, network_policy, service, webhook_configuration};
use super::rights::{Place, rules};
use super::workload::deployment;

/// The name of all installed objects.
pub(super) const NAME: &str = "homeostat";

/// How the operator is installed.
#[derive(Debug, Clone)]
pub struct Installation {
    /// Namespace of the operator.
    pub namespace: String,
    /// The image.
    pub image: String,
    /// The Prometheus server, if there is one.
    pub prometheus: Option<String>,
    /// The only namespace whose workloads are scaled; all namespaces if there is none.
    pub only_namespace: Option<String>,
    /// Whether the webhook is installed.
    pub has_webhook: bool,
    /// Whether the server knows `policy/v1`, which is new in 1.21.
    pub has_policy_v1: bool,
}

impl Installation {
    /// Name of cluster-wide objects, different for installations of single namespaces.
    pub fn cluster_name(&self) -> String {
        match &self.only_namespace {
            Some(only) => format!("{NAME}-{only}"),
            None => NAME.to_owned(),
        }
    }

    /// Metadata of an object in the operator's namespace.
    pub(super) fn metadata(&self, name: &str) -> Value {
        json!({ "name": name, "namespace": self.namespace, "labels": labels() })
    }

    fn roles(&self) -> Vec<Value> {
        let mut objects = Vec::new();
        let workloads = rules(Place::Workloads, self);
        let name = self.cluster_name();
        match &self.only_namespace {
            Some(only) => {
                let metadata = json!({ "name": NAME, "namespace": only, "labels": labels() });
                objects.extend(role("Role", metadata, workloads, &self.namespace));
            }
            None => {
                let metadata = json!({ "name": name, "labels": labels() });
                objects.extend(role("ClusterRole", metadata, workloads, &self.namespace));
            }
        }
        let own = rules(Place::Own, self);
        let metadata = self.metadata(&format!("{NAME}-own"));
        objects.extend(role("Role", metadata, own, &self.namespace));
        if self.has_webhook {
            let cluster = rules(Place::Cluster, self);
            let metadata = json!({ "name": format!("{name}-webhook"), "labels": labels() });
            objects.extend(role("ClusterRole", metadata, cluster, &self.namespace));
        }
        objects
    }

    /// Everything except the definitions, in the order of creation.
    fn objects(&self) -> Vec<Value> {
        let mut objects = vec![
            json!({
                "apiVersion": "v1", "kind": "Namespace",
                "metadata": { "name": self.namespace, "labels": labels() },
            }),
            json!({
                "apiVersion": "v1", "kind": "ServiceAccount", "metadata": self.metadata(NAME),
                "automountServiceAccountToken": false,
            }),
        ];
        objects.extend(self.roles());
        if self.has_webhook {
            // Installed empty: the operator writes it, and has no right to any other secret.
            objects.push(json!({
                "apiVersion": "v1", "kind": "Secret", "type": "Opaque",
                "metadata": self.metadata("homeostat-webhook"),
            }));
        }
        objects.push(service(self));
        objects.push(deployment(self));
        objects.push(disruption_budget(self));
        objects.push(network_policy(self));
        if self.has_webhook {
            objects.push(webhook_configuration(self));
        }
        objects
    }
}

/// Everything to install, as YAML.
pub fn manifests(installation: &Installation) -> String {
    let mut text = definitions();
    for object in installation.objects() {
        let object = serde_saphyr::to_string(&object).expect("JSON can be written as YAML");
        text.push_str("---\n");
        text.push_str(&object);
    }
    text
}

/// Labels that select the operator's pods.
pub(super) fn selector() -> Value {
    json!({ "app.kubernetes.io/name": NAME, "app.kubernetes.io/instance": NAME })
}

/// Labels of all installed objects.
pub(super) fn labels() -> Value {
    let mut labels = selector();
    labels["app.kubernetes.io/version"] = json!(env!("CARGO_PKG_VERSION"));
    labels
}

/// A role and its binding to the operator's service account.
fn role(kind: &str, metadata: Value, rules: Vec<Value>, account_namespace: &str) -> [Value; 2] {
    let api_version = "rbac.authorization.k8s.io/v1";
    let name = metadata["name"].clone();
    let binding = json!({
        "apiVersion": api_version, "kind": format!("{kind}Binding"), "metadata": metadata,
        "roleRef": { "apiGroup": "rbac.authorization.k8s.io", "kind": kind, "name": name },
        "subjects": [{ "kind": "ServiceAccount", "name": NAME, "namespace": account_namespace }],
    });
    let role =
        json!({ "apiVersion": api_version, "kind": kind, "metadata": metadata, "rules": rules });
    [role, binding]
}
