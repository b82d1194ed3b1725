{{- define "holdfast.name" -}}
{{- .Release.Name | trunc 40 | trimSuffix "-" -}}
{{- end -}}

{{- define "holdfast.selector" -}}
app.kubernetes.io/name: holdfast
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end -}}

{{- define "holdfast.labels" -}}
{{ include "holdfast.selector" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version }}
{{- end -}}

{{- define "holdfast.image" -}}
{{ .Values.image.repository }}:{{ .Values.image.tag | default .Chart.AppVersion }}
{{- end -}}

{{- define "holdfast.peerSecret" -}}
{{- .Values.peerSecret.existingSecret | default (printf "%s-peer" (include "holdfast.name" .)) -}}
{{- end -}}

{{/* What would come up and not work is refused here, with what to do. */}}
{{- define "holdfast.check" -}}
{{- if not .Values.home.endpoints -}}
{{- fail "home.endpoints: name the etcd cluster that holds the shard map" -}}
{{- end -}}
{{- if and (not .Values.peerSecret.existingSecret) (not .Values.peerSecret.value) -}}
{{- fail "peerSecret: give existingSecret (a Secret with a key peer.secret) or value (openssl rand -hex 32)" -}}
{{- end -}}
{{- if and (eq .Values.auth.mode "tokens") (not .Values.auth.principalsSecret) -}}
{{- fail "auth.principalsSecret: name a Secret with principals.toml, or set auth.mode to none" -}}
{{- end -}}
{{- if and (or .Values.etcd.ca .Values.etcd.clientCertificate .Values.home.user) (not .Values.etcd.secret) -}}
{{- fail "etcd.secret: name the Secret with ca.pem, client.pem, client.key or password" -}}
{{- end -}}
{{- end -}}
