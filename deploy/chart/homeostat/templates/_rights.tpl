{{/*
Made from the list in crates/operator/src/install/rights.rs. Do not edit:
HOMEOSTAT_WRITE=1 cargo test -p homeostat-operator --test it rights_of_the_chart
*/}}
{{- define "homeostat.rights.workloads" -}}
# Objects are followed; what people wrote in them is never changed.
- apiGroups: ["homeostat.dev"]
  resources: ["multidimpodautoscalers"]
  verbs: ["list", "watch"]
# Recommendations, reasons and conditions.
- apiGroups: ["homeostat.dev"]
  resources: ["multidimpodautoscalers/status"]
  verbs: ["patch"]
# What is remembered of an object, so that a restart loses nothing.
- apiGroups: ["homeostat.dev"]
  resources: ["multidimpodautoscalercheckpoints"]
  verbs: ["get", "create", "patch"]
# Pods of the workloads: sizes, readiness, age.
- apiGroups: [""]
  resources: ["pods"]
  verbs: ["list", "watch"]
# What a namespace lets a container request: a pod beyond it would be refused.
- apiGroups: [""]
  resources: ["limitranges"]
  verbs: ["list"]
# Policy files that objects name; no other config map is asked for.
- apiGroups: [""]
  resources: ["configmaps"]
  verbs: ["get"]
# A pod of the wrong size is made anew; disruption budgets hold.
- apiGroups: [""]
  resources: ["pods/eviction"]
  verbs: ["create"]
# Servers from 1.33 on resize a pod where it runs.
- apiGroups: [""]
  resources: ["pods/resize"]
  verbs: ["patch"]
# The number of pods of a workload, and nothing else of it.
- apiGroups: [""]
  resources: ["replicationcontrollers/scale"]
  verbs: ["get", "patch"]
# The number of pods of a workload, and nothing else of it.
- apiGroups: ["apps"]
  resources: ["deployments/scale", "replicasets/scale", "statefulsets/scale"]
  verbs: ["get", "patch"]
# What pods use.
- apiGroups: ["metrics.k8s.io"]
  resources: ["pods"]
  verbs: ["list"]
# Who else scales a workload: two that act would fight.
- apiGroups: ["autoscaling"]
  resources: ["horizontalpodautoscalers"]
  verbs: ["list"]
# Who else sizes a workload.
- apiGroups: ["autoscaling.k8s.io"]
  resources: ["verticalpodautoscalers"]
  verbs: ["list"]
# Events of the objects; one that repeats is counted up.
- apiGroups: ["events.k8s.io"]
  resources: ["events"]
  verbs: ["create", "patch"]
{{- end }}
{{- define "homeostat.rights.own" -}}
# Who leads. To create cannot be limited to a name.
- apiGroups: ["coordination.k8s.io"]
  resources: ["leases"]
  verbs: ["create"]
# Who leads.
- apiGroups: ["coordination.k8s.io"]
  resources: ["leases"]
  resourceNames: ["homeostat-operator{{ with .Values.onlyNamespace }}-{{ . }}{{ end }}"]
  verbs: ["get", "update"]
{{- if .Values.webhook.enabled }}
# The webhook's certificate: this secret is installed empty, no other is ever read.
- apiGroups: [""]
  resources: ["secrets"]
  resourceNames: ["homeostat-webhook"]
  verbs: ["get", "update"]
{{- end }}
{{- end }}
{{- define "homeostat.rights.cluster" -}}
{{- if .Values.webhook.enabled }}
# The API server is told which authority to believe.
- apiGroups: ["admissionregistration.k8s.io"]
  resources: ["mutatingwebhookconfigurations"]
  resourceNames: [{{ include "homeostat.clusterName" . | quote }}]
  verbs: ["get", "patch"]
{{- end }}
{{- end }}
