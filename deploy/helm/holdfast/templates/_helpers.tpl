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

{{/* Whether clients may show certificates. */}}
{{- define "holdfast.certificates" -}}
{{- if has .Values.auth.mode (list "mtls" "tokens_or_mtls") }}yes{{ end -}}
{{- end -}}

{{/* The Secrets with files for TLS, by the folders that they are mounted at. */}}
{{- define "holdfast.tlsSecrets" -}}
{{- with .Values.tls -}}
{{- dict "clients" .clients.secret "clients-ca" .clients.caSecret "admin" .admin.secret "peers" .peers.secret | toYaml -}}
{{- end -}}
{{- end -}}

{{/* What would come up and not work is refused here, with what to do. */}}
{{- define "holdfast.check" -}}
{{- if not .Values.home.endpoints -}}
{{- fail "home.endpoints: name the etcd cluster that holds the shard map" -}}
{{- end -}}
{{- if and (not .Values.peerSecret.existingSecret) (not .Values.peerSecret.value) -}}
{{- fail "peerSecret: give existingSecret (a Secret with a key peer.secret) or value (openssl rand -hex 32)" -}}
{{- end -}}
{{- if and (ne .Values.auth.mode "none") (not .Values.auth.principalsSecret) -}}
{{- fail "auth.principalsSecret: name a Secret with principals.toml, or set auth.mode to none" -}}
{{- end -}}
{{- $certificates := include "holdfast.certificates" . -}}
{{- if and $certificates (not (and .Values.tls.clients.secret .Values.tls.clients.caSecret)) -}}
{{- fail "tls.clients: auth.mode needs secret (tls.crt, tls.key) and caSecret (ca.crt, the authority of clients)" -}}
{{- end -}}
{{- if and .Values.tls.clients.caSecret (not $certificates) -}}
{{- fail "tls.clients.caSecret: is of use only with auth.mode mtls or tokens_or_mtls" -}}
{{- end -}}
{{- if and (or .Values.etcd.ca .Values.etcd.clientCertificate .Values.home.user) (not .Values.etcd.secret) -}}
{{- fail "etcd.secret: name the Secret with ca.pem, client.pem, client.key or password" -}}
{{- end -}}
{{- end -}}
