//! The operator as a Deployment: two unprivileged replicas, of which one leads.

use serde_json::{Value, json};

use super::manifests::{Installation, NAME, labels, selector};

/// The port of the webhook, health and metrics.
pub(super) const PORT: u16 = 8443;

/// The Deployment of the operator.
pub(super) fn deployment(installation: &Installation) -> Value {
    let spread = |key: &str| {
        json!({
            "maxSkew": 1, "topologyKey": key, "whenUnsatisfiable": "ScheduleAnyway",
            "labelSelector": { "matchLabels": selector() },
        })
    };
    json!({
        "apiVersion": "apps/v1", "kind": "Deployment",
        "metadata": installation.metadata(NAME),
        "spec": {
            "replicas": 2,
            "selector": { "matchLabels": selector() },
            "template": {
                "metadata": { "labels": labels() },
                "spec": {
                    "serviceAccountName": NAME,
                    "automountServiceAccountToken": true,
                    "terminationGracePeriodSeconds": 30,
                    "securityContext": {
                        "runAsNonRoot": true, "runAsUser": 65532, "runAsGroup": 65532,
                        "seccompProfile": { "type": "RuntimeDefault" },
                    },
                    "topologySpreadConstraints": [
                        spread("kubernetes.io/hostname"), spread("topology.kubernetes.io/zone"),
                    ],
                    "containers": [container(installation)],
                },
            },
        },
    })
}

fn container(installation: &Installation) -> Value {
    let from_field = |name: &str, field: &str| json!({ "name": name, "valueFrom": { "fieldRef": { "fieldPath": field } } });
    let probe = |path: &str, period: u32, failures: u32| {
        json!({
            "httpGet": { "path": path, "port": "https", "scheme": "HTTPS" },
            "periodSeconds": period, "timeoutSeconds": 5, "failureThreshold": failures,
        })
    };
    json!({
        "name": "operator",
        "image": installation.image,
        "imagePullPolicy": "IfNotPresent",
        "args": arguments(installation),
        "env": [
            from_field("POD_NAME", "metadata.name"),
            from_field("POD_NAMESPACE", "metadata.namespace"),
        ],
        "ports": [{ "name": "https", "containerPort": PORT, "protocol": "TCP" }],
        "startupProbe": probe("/healthz", 2, 30),
        "livenessProbe": probe("/healthz", 10, 6),
        "readinessProbe": probe("/readyz", 5, 3),
        "resources": {
            "requests": { "cpu": "100m", "memory": "128Mi" }, "limits": { "memory": "256Mi" },
        },
        "securityContext": {
            "allowPrivilegeEscalation": false, "readOnlyRootFilesystem": true,
            "capabilities": { "drop": ["ALL"] },
        },
    })
}

fn arguments(installation: &Installation) -> Vec<String> {
    let mut arguments = vec![
        "run".to_owned(),
        format!("--listen=0.0.0.0:{PORT}"),
        "--log=info".to_owned(),
        "--log-json".to_owned(),
        "--interval=15s".to_owned(),
    ];
    if installation.has_webhook {
        arguments.push(format!("--webhook-name={NAME}.{}.svc", installation.namespace));
        arguments.push(format!("--webhook-configuration={}", installation.cluster_name()));
    } else {
        arguments.push("--no-webhook".to_owned());
    }
    if let Some(only) = &installation.only_namespace {
        arguments.push(format!("--only-namespace={only}"));
    }
    if let Some(url) = &installation.prometheus {
        arguments.push(format!("--prometheus={url}"));
    }
    arguments
}
