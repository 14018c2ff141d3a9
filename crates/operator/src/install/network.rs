//! Service, network policy, disruption budget and webhook configuration of the operator.

use serde_json::{Value, json};

use super::manifests::{Installation, NAME, labels, selector};

/// The service that the API server and Prometheus call.
pub(super) fn service(installation: &Installation) -> Value {
    json!({
        "apiVersion": "v1", "kind": "Service", "metadata": installation.metadata(NAME),
        "spec": {
            "type": "ClusterIP",
            "selector": selector(),
            "ports": [{ "name": "https", "port": 443, "targetPort": "https", "protocol": "TCP" }],
        },
    })
}

/// At most one replica is unavailable when nodes are drained.
pub(super) fn disruption_budget(installation: &Installation) -> Value {
    let version = if installation.has_policy_v1 { "policy/v1" } else { "policy/v1beta1" };
    json!({
        "apiVersion": version, "kind": "PodDisruptionBudget",
        "metadata": installation.metadata(NAME),
        "spec": { "maxUnavailable": 1, "selector": { "matchLabels": selector() } },
    })
}

/// Ingress: webhook and metrics. Egress: DNS, the API server and Prometheus.
pub(super) fn network_policy(installation: &Installation) -> Value {
    let tcp = |port: u16| json!({ "protocol": "TCP", "port": port });
    let mut egress = vec![
        json!({ "ports": [{ "protocol": "UDP", "port": 53 }, tcp(53)] }),
        // A policy applies to the port behind the service: 6443 on most clusters.
        json!({ "ports": [tcp(443), tcp(6443)] }),
    ];
    if let Some(url) = &installation.prometheus {
        egress.push(json!({ "ports": [tcp(port_of(url))] }));
    }
    json!({
        "apiVersion": "networking.k8s.io/v1", "kind": "NetworkPolicy",
        "metadata": installation.metadata(NAME),
        "spec": {
            "podSelector": { "matchLabels": selector() },
            "policyTypes": ["Ingress", "Egress"],
            // No selector matches the addresses of the API server and the kubelet.
            "ingress": [{ "ports": [{ "protocol": "TCP", "port": "https" }] }],
            "egress": egress,
        },
    })
}

/// The port of a URL, or the default one of its scheme.
fn port_of(url: &str) -> u16 {
    let uri: Option<http::Uri> = url.parse().ok();
    let port = uri.as_ref().and_then(http::Uri::port_u16);
    let is_secure = uri.as_ref().and_then(http::Uri::scheme_str) == Some("https");
    port.unwrap_or(if is_secure { 443 } else { 80 })
}

/// The webhook configuration. The operator adds the authority's certificate.
pub(super) fn webhook_configuration(installation: &Installation) -> Value {
    let own_name = "kubernetes.io/metadata.name";
    let selector = match &installation.only_namespace {
        Some(only) => json!([{ "key": own_name, "operator": "In", "values": [only] }]),
        None => {
            // Pods of the control plane and of the operator must not depend on the webhook.
            let others = ["kube-system", &installation.namespace];
            json!([{ "key": own_name, "operator": "NotIn", "values": others }])
        }
    };
    json!({
        "apiVersion": "admissionregistration.k8s.io/v1", "kind": "MutatingWebhookConfiguration",
        "metadata": { "name": installation.cluster_name(), "labels": labels() },
        "webhooks": [{
            "name": "pods.homeostat.dev",
            "admissionReviewVersions": ["v1"],
            "sideEffects": "None",
            "failurePolicy": "Ignore",
            "timeoutSeconds": 5,
            "clientConfig": {
                "service": {
                    "name": NAME, "namespace": installation.namespace, "path": "/mutate", "port": 443,
                },
            },
            "namespaceSelector": { "matchExpressions": selector },
            "rules": [{
                "apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"],
                "resources": ["pods"], "scope": "Namespaced",
            }],
        }],
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_port_of_prometheus_is_open() {
        assert_eq!(port_of("http://prometheus.monitoring:9090"), 9090);
        assert_eq!(port_of("http://prometheus.monitoring/prefix"), 80);
        assert_eq!(port_of("https://prometheus.monitoring.svc"), 443);
    }
}
