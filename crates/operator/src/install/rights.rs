//! The rights of the operator in a cluster, with reasons. The roles that `manifests` prints and the
//! chart's `_rights.tpl` are generated from this list; a test runs the operator with these rights only,
//! and fails if a request is forbidden or a verb is never used.

use serde_json::{Value, json};

use super::manifests::Installation;
use crate::lease::lease_name;

/// Where a right applies.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Place {
    /// In all namespaces, or in the only one whose workloads are scaled.
    Workloads,
    /// In the operator's own namespace.
    Own,
    /// In the whole cluster, and only with the webhook.
    Cluster,
}

/// The objects that a right applies to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Named {
    /// All objects of the kind.
    All,
    /// One object with a fixed name.
    Always(&'static str),
    /// The lease of this installation.
    Lease,
    /// The webhook configuration of this installation.
    WebhookConfiguration,
}

/// A right of the operator.
#[derive(Debug, Clone, Copy)]
pub struct Right {
    /// Where it applies.
    pub place: Place,
    /// API group.
    pub group: &'static str,
    /// Resources.
    pub resources: &'static [&'static str],
    /// Verbs.
    pub verbs: &'static [&'static str],
    /// Resource names.
    pub named: Named,
    /// The reason.
    pub why: &'static str,
}

/// All rights of the operator.
pub const RIGHTS: &[Right] = &[
    Right {
        place: Place::Workloads,
        group: "homeostat.dev",
        resources: &["multidimpodautoscalers"],
        verbs: &["list", "watch"],
        named: Named::All,
        why: "Objects are watched; their spec is never changed.",
    },
    Right {
        place: Place::Workloads,
        group: "homeostat.dev",
        resources: &["multidimpodautoscalers/status"],
        verbs: &["patch"],
        named: Named::All,
        why: "Recommendations, reasons and conditions.",
    },
    Right {
        place: Place::Workloads,
        group: "homeostat.dev",
        resources: &["multidimpodautoscalercheckpoints"],
        verbs: &["get", "create", "patch"],
        named: Named::All,
        why: "The history of an object, so that a restart does not lose it.",
    },
    Right {
        place: Place::Workloads,
        group: "",
        resources: &["pods"],
        verbs: &["list", "watch"],
        named: Named::All,
        why: "Pods of the workloads: sizes, readiness, age.",
    },
    Right {
        place: Place::Workloads,
        group: "",
        resources: &["limitranges"],
        verbs: &["list"],
        named: Named::All,
        why: "What a namespace allows containers to request: a pod beyond it would be rejected.",
    },
    Right {
        place: Place::Workloads,
        group: "",
        resources: &["configmaps"],
        verbs: &["get"],
        named: Named::All,
        why: "Policy files that objects refer to; no other ConfigMap is read.",
    },
    Right {
        place: Place::Workloads,
        group: "",
        resources: &["pods/eviction"],
        verbs: &["create"],
        named: Named::All,
        why: "A pod of the wrong size is replaced; disruption budgets apply.",
    },
    Right {
        place: Place::Workloads,
        group: "",
        resources: &["pods/resize"],
        verbs: &["patch"],
        named: Named::All,
        why: "Servers from 1.33 on resize a pod in place.",
    },
    Right {
        place: Place::Workloads,
        group: "",
        resources: &["replicationcontrollers/scale"],
        verbs: &["get", "patch"],
        named: Named::All,
        why: "The number of pods of a workload, and no other part of it.",
    },
    Right {
        place: Place::Workloads,
        group: "apps",
        resources: &["deployments/scale", "replicasets/scale", "statefulsets/scale"],
        verbs: &["get", "patch"],
        named: Named::All,
        why: "The number of pods of a workload, and no other part of it.",
    },
    Right {
        place: Place::Workloads,
        group: "metrics.k8s.io",
        resources: &["pods"],
        verbs: &["list"],
        named: Named::All,
        why: "The usage of pods.",
    },
    Right {
        place: Place::Workloads,
        group: "autoscaling",
        resources: &["horizontalpodautoscalers"],
        verbs: &["list"],
        named: Named::All,
        why: "Other autoscalers of a workload, which would conflict.",
    },
    Right {
        place: Place::Workloads,
        group: "autoscaling.k8s.io",
        resources: &["verticalpodautoscalers"],
        verbs: &["list"],
        named: Named::All,
        why: "Other autoscalers of a workload, which would conflict.",
    },
    Right {
        place: Place::Workloads,
        group: "events.k8s.io",
        resources: &["events"],
        verbs: &["create", "patch"],
        named: Named::All,
        why: "Events of the objects; repeated ones are aggregated.",
    },
    Right {
        place: Place::Own,
        group: "coordination.k8s.io",
        resources: &["leases"],
        verbs: &["create"],
        named: Named::All,
        why: "Leader election. The verb create cannot be limited to a name.",
    },
    Right {
        place: Place::Own,
        group: "coordination.k8s.io",
        resources: &["leases"],
        verbs: &["get", "update"],
        named: Named::Lease,
        why: "Leader election.",
    },
    Right {
        place: Place::Own,
        group: "",
        resources: &["secrets"],
        verbs: &["get", "update"],
        named: Named::Always("homeostat-webhook"),
        why: "The webhook's certificate: this secret is installed empty, and no other is read.",
    },
    Right {
        place: Place::Cluster,
        group: "admissionregistration.k8s.io",
        resources: &["mutatingwebhookconfigurations"],
        verbs: &["get", "patch"],
        named: Named::WebhookConfiguration,
        why: "The authority of the webhook's certificate.",
    },
];

impl Right {
    fn is_for(&self, has_webhook: bool) -> bool {
        let is_of_the_webhook = self.resources == ["secrets"] || self.place == Place::Cluster;
        has_webhook || !is_of_the_webhook
    }
}

/// The rules of one of an installation's roles.
pub(super) fn rules(place: Place, installation: &Installation) -> Vec<Value> {
    let rights = RIGHTS.iter().filter(|right| right.place == place);
    let rights = rights.filter(|right| right.is_for(installation.has_webhook));
    let rule = |right: &Right| {
        let mut rule = json!({
            "apiGroups": [right.group], "resources": right.resources, "verbs": right.verbs,
        });
        match right.named {
            Named::All => {}
            Named::Always(name) => rule["resourceNames"] = json!([name]),
            Named::Lease => {
                let name = lease_name(installation.only_namespace.as_deref());
                rule["resourceNames"] = json!([name]);
            }
            Named::WebhookConfiguration => {
                rule["resourceNames"] = json!([installation.cluster_name()]);
            }
        }
        rule
    };
    rights.map(rule).collect()
}

/// The rights as named templates of the chart.
pub fn chart_rights() -> String {
    let mut text = String::from(
        "{{/*\nGenerated from the list in crates/operator/src/install/rights.rs. Do not edit:\n\
         HOMEOSTAT_WRITE=1 cargo test -p homeostat-operator --test it rights_of_the_chart\n*/}}\n",
    );
    for (place, name) in
        [(Place::Workloads, "workloads"), (Place::Own, "own"), (Place::Cluster, "cluster")]
    {
        text.push_str(&format!("{{{{- define \"homeostat.rights.{name}\" -}}}}\n"));
        for right in RIGHTS.iter().filter(|right| right.place == place) {
            text.push_str(&chart_rule(right));
        }
        text.push_str("{{- end }}\n");
    }
    text
}

fn chart_rule(right: &Right) -> String {
    let list = |words: &[&str]| {
        let words: Vec<String> = words.iter().map(|word| format!("{word:?}")).collect();
        format!("[{}]", words.join(", "))
    };
    let mut rule = format!("# {}\n- apiGroups: {}\n", right.why, list(&[right.group]));
    rule.push_str(&format!("  resources: {}\n", list(right.resources)));
    match right.named {
        Named::All => {}
        Named::Always(name) => rule.push_str(&format!("  resourceNames: {}\n", list(&[name]))),
        Named::Lease => {
            let of_one = "{{ with .Values.onlyNamespace }}-{{ . }}{{ end }}";
            rule.push_str(&format!("  resourceNames: [\"{}{of_one}\"]\n", lease_name(None)));
        }
        Named::WebhookConfiguration => {
            rule.push_str("  resourceNames: [{{ include \"homeostat.clusterName\" . | quote }}]\n");
        }
    }
    rule.push_str(&format!("  verbs: {}\n", list(right.verbs)));
    if right.is_for(false) {
        rule
    } else {
        format!("{{{{- if .Values.webhook.enabled }}}}\n{rule}{{{{- end }}}}\n")
    }
}
