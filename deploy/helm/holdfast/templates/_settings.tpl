{{/* gateway.toml as environment variables. */}}
{{- define "holdfast.settings" -}}
HOLDFAST_LISTEN: "0.0.0.0:8080"
HOLDFAST_ADMIN_LISTEN: "0.0.0.0:9090"
HOLDFAST_PEER_LISTEN: "0.0.0.0:7070"
HOLDFAST_STATE_DIR: /var/lib/holdfast
HOLDFAST_PEER_SECRET_FILE: /etc/holdfast/peer/peer.secret
HOLDFAST_HOME_ENDPOINTS: {{ join "," .Values.home.endpoints | quote }}
{{- if .Values.etcd.ca }}
HOLDFAST_HOME_CACERT: /etc/holdfast/etcd/ca.pem
{{- end }}
{{- if .Values.etcd.clientCertificate }}
HOLDFAST_HOME_CERT: /etc/holdfast/etcd/client.pem
HOLDFAST_HOME_KEY: /etc/holdfast/etcd/client.key
{{- end }}
{{- with .Values.home.user }}
HOLDFAST_HOME_USER: {{ . | quote }}
HOLDFAST_HOME_PASSWORD_FILE: /etc/holdfast/etcd/password
{{- end }}
HOLDFAST_AUTH_MODE: {{ .Values.auth.mode }}
{{- if eq .Values.auth.mode "none" }}
HOLDFAST_AUTH_INSECURE: "true"
{{- else }}
HOLDFAST_AUTH_PRINCIPALS_FILE: /etc/holdfast/principals/principals.toml
{{- end }}
{{- if .Values.tls.clients.secret }}
HOLDFAST_TLS_CERT: /etc/holdfast/tls/clients/tls.crt
HOLDFAST_TLS_KEY: /etc/holdfast/tls/clients/tls.key
{{- end }}
{{- if .Values.tls.clients.caSecret }}
HOLDFAST_TLS_CLIENT_CA: /etc/holdfast/tls/clients-ca/ca.crt
{{- end }}
{{- if .Values.tls.admin.secret }}
HOLDFAST_ADMIN_TLS_CERT: /etc/holdfast/tls/admin/tls.crt
HOLDFAST_ADMIN_TLS_KEY: /etc/holdfast/tls/admin/tls.key
{{- end }}
{{- if .Values.tls.peers.secret }}
HOLDFAST_PEER_CERT: /etc/holdfast/tls/peers/tls.crt
HOLDFAST_PEER_KEY: /etc/holdfast/tls/peers/tls.key
HOLDFAST_PEER_CACERT: /etc/holdfast/tls/peers/ca.crt
{{- end }}
HOLDFAST_SHUTDOWN_DRAIN_MS: {{ .Values.shutdown.drainMs | quote }}
HOLDFAST_SHUTDOWN_HAND_OVER_MS: {{ .Values.shutdown.handOverMs | quote }}
HOLDFAST_SHUTDOWN_FINISH_MS: {{ .Values.shutdown.finishMs | quote }}
HOLDFAST_LOG_FORMAT: json
{{- with .Values.log.filter }}
HOLDFAST_LOG_FILTER: {{ . | quote }}
{{- end }}
{{- range $key, $value := .Values.settings }}
{{ $key }}: {{ $value | quote }}
{{- end }}
{{- end -}}
