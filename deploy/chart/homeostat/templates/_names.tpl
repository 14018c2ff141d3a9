{{/* Name of everything in the release's namespace. */}}
{{- define "homeostat.fullname" -}}
{{- if contains .Chart.Name .Release.Name -}}
{{- .Release.Name | trunc 50 | trimSuffix "-" -}}
{{- else -}}
{{- printf "%s-%s" .Release.Name .Chart.Name | trunc 50 | trimSuffix "-" -}}
{{- end -}}
{{- end }}

{{/* Name of what belongs to no namespace: installations for single namespaces stand beside each other. */}}
{{- define "homeostat.clusterName" -}}
{{- include "homeostat.fullname" . }}{{ with .Values.onlyNamespace }}-{{ . }}{{ end -}}
{{- end }}

{{- define "homeostat.serviceAccount" -}}
{{- .Values.serviceAccount.name | default (include "homeostat.fullname" .) -}}
{{- end }}

{{- define "homeostat.selector" -}}
app.kubernetes.io/name: {{ .Chart.Name }}
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}

{{- define "homeostat.labels" -}}
{{ include "homeostat.selector" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version }}
{{- end }}

{{- define "homeostat.image" -}}
{{- $repository := required "image.repository is required: no image is published, build one from deploy/image/Containerfile" .Values.image.repository -}}
{{- if .Values.image.digest -}}
{{- printf "%s@%s" $repository .Values.image.digest -}}
{{- else -}}
{{- printf "%s:%s" $repository (.Values.image.tag | default .Chart.AppVersion) -}}
{{- end -}}
{{- end }}

{{- define "homeostat.collectorSelector" -}}
app.kubernetes.io/name: homeostat-collector
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}

{{- define "homeostat.collectorLabels" -}}
{{ include "homeostat.collectorSelector" . }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version }}
{{- end }}

{{- define "homeostat.collectorImage" -}}
{{- $repository := required "collector.image.repository is required: no image is published, build one from deploy/image/Containerfile.collector" .Values.collector.image.repository -}}
{{- printf "%s:%s" $repository (.Values.collector.image.tag | default .Chart.AppVersion) -}}
{{- end }}

{{/* The address of the collector for the operator. */}}
{{- define "homeostat.collectorUrl" -}}
{{- if and (not .Values.collector.tlsSecret) (not .Values.collector.allowPlain) -}}
{{- fail "collector.tlsSecret: the secret with the collector's certificate, or collector.allowPlain if the network is trusted" -}}
{{- end -}}
{{- $scheme := ternary "https" "http" (ne .Values.collector.tlsSecret "") -}}
{{- printf "%s://%s-collector.%s.svc:8445" $scheme (include "homeostat.fullname" .) .Release.Namespace -}}
{{- end }}

{{/* The port of an address, or the usual one of its scheme. */}}
{{- define "homeostat.portOf" -}}
{{- $url := urlParse . -}}
{{- $port := regexFind ":[0-9]+$" $url.host | trimPrefix ":" -}}
{{- $port | default (ternary "443" "80" (eq $url.scheme "https")) -}}
{{- end }}

{{/* Not empty if the pods need any volume. */}}
{{- define "homeostat.mounts" -}}
{{- if or .Values.learners.enabled .Values.collector.enabled (and .Values.prometheus.url (or .Values.prometheus.tokenSecret .Values.prometheus.caConfigMap)) -}}
yes
{{- end -}}
{{- end -}}
