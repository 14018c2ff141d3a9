{{/*
Generated from the list in crates/operator/src/install/rights.rs. Do not edit:
HOMEOSTAT_WRITE=1 cargo test -p homeostat-operator --test it rights_of_the_chart
*/}}
{{- define "homeostat.rights.workloads" -}}
# Objects are watched; their spec is never changed.
- apiGroups: ["homeostat.dev"]
  resources: ["multidimpodautoscalers"]
  verbs: ["list", "watch"]
# Recommendations, reasons and conditions.
- apiGroups: ["homeostat.dev"]
  resources: ["multidimpodautoscalers/status"]
  verbs: ["patch"]
# The history of an object, so that a restart does not lose it.
- apiGroups: ["homeostat.dev"]
  resources: ["multidimpodautoscalercheckpoints"]
  verbs: ["get", "create", "patch"]
# Pods of the workloads: sizes, readiness, age.
- apiGroups: [""]
  resources: ["pods"]
  verbs: ["list", "watch"]
# What a namespace allows containers to request: a pod beyond it would be rejected.
- apiGroups: [""]
  resources: ["limitranges"]
  verbs: ["list"]
# Policy files that objects refer to; no other ConfigMap is read.
- apiGroups: [""]
  resources: ["configmaps"]
  verbs: ["get"]
# A pod of the wrong size is replaced; disruption budgets apply.
- apiGroups: [""]
  resources: ["pods/eviction"]
  verbs: ["create"]
# Servers from 1.33 on resize a pod in place.
- apiGroups: [""]
  resources: ["pods/resize"]
  verbs: ["patch"]
# The number of pods of a workload, and no other part of it.
- apiGroups: [""]
  resources: ["replicationcontrollers/scale"]
  verbs: ["get", "patch"]
# The number of pods of a workload, and no other part of it.
- apiGroups: ["apps"]
  resources: ["deployments/scale", "replicasets/scale", "statefulsets/scale"]
  verbs: ["get", "patch"]
# The usage of pods.
- apiGroups: ["metrics.k8s.io"]
  resources: ["pods"]
  verbs: ["list"]
# Other autoscalers of a workload, which would conflict.
- apiGroups: ["autoscaling"]
  resources: ["horizontalpodautoscalers"]
  verbs: ["list"]
# Other autoscalers of a workload, which would conflict.
- apiGroups: ["autoscaling.k8s.io"]
  resources: ["verticalpodautoscalers"]
  verbs: ["list"]
# Events of the objects; repeated ones are aggregated.
- apiGroups: ["events.k8s.io"]
  resources: ["events"]
  verbs: ["create", "patch"]
{{- end }}
{{- define "homeostat.rights.own" -}}
# Leader election. The verb create cannot be limited to a name.
- apiGroups: ["coordination.k8s.io"]
  resources: ["leases"]
  verbs: ["create"]
# Leader election.
- apiGroups: ["coordination.k8s.io"]
  resources: ["leases"]
  resourceNames: ["homeostat-operator{{ with .Values.onlyNamespace }}-{{ . }}{{ end }}"]
  verbs: ["get", "update"]
{{- if .Values.webhook.enabled }}
# The webhook's certificate: this secret is installed empty, and no other is read.
- apiGroups: [""]
  resources: ["secrets"]
  resourceNames: ["homeostat-webhook"]
  verbs: ["get", "update"]
{{- end }}
{{- end }}
{{- define "homeostat.rights.cluster" -}}
{{- if .Values.webhook.enabled }}
# The authority of the webhook's certificate.
- apiGroups: ["admissionregistration.k8s.io"]
  resources: ["mutatingwebhookconfigurations"]
  resourceNames: [{{ include "homeostat.clusterName" . | quote }}]
  verbs: ["get", "patch"]
{{- end }}
{{- end }}
