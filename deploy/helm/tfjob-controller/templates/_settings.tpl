{{- define "tfjob-controller.settings" -}}
{{- if .Values.namespaced }}
- name: TFJOB_NAMESPACE
  valueFrom:
    fieldRef:
      fieldPath: metadata.namespace
{{- end }}
{{- if and (not .Values.namespaced) (not (kindIs "invalid" .Values.settings.namespace)) }}
- name: TFJOB_NAMESPACE
  value: {{ .Values.settings.namespace | toJson | trimAll "\"" | quote }}
{{- end }}
{{- if not (kindIs "invalid" .Values.settings.cluster) }}
- name: TFJOB_CLUSTER
  value: {{ .Values.settings.cluster | toJson | trimAll "\"" | quote }}
{{- end }}
{{- if not (kindIs "invalid" .Values.settings.takeover) }}
- name: TFJOB_TAKEOVER
  value: {{ .Values.settings.takeover | toJson | trimAll "\"" | quote }}
{{- end }}
{{- if not (kindIs "invalid" .Values.settings.observe) }}
- name: TFJOB_OBSERVE
  value: {{ .Values.settings.observe | toJson | trimAll "\"" | quote }}
{{- end }}
{{- if not (kindIs "invalid" .Values.settings.defaultCleanPodPolicy) }}
- name: TFJOB_DEFAULT_CLEAN_POD_POLICY
  value: {{ .Values.settings.defaultCleanPodPolicy | toJson | trimAll "\"" | quote }}
{{- end }}
{{- if not (kindIs "invalid" .Values.settings.clusterDomain) }}
- name: TFJOB_CLUSTER_DOMAIN
  value: {{ .Values.settings.clusterDomain | toJson | trimAll "\"" | quote }}
{{- end }}
{{- if not (kindIs "invalid" .Values.settings.gangScheduler) }}
- name: TFJOB_GANG_SCHEDULER
  value: {{ .Values.settings.gangScheduler | toJson | trimAll "\"" | quote }}
{{- end }}
{{- if not (kindIs "invalid" .Values.settings.podFinalizer) }}
- name: TFJOB_POD_FINALIZER
  value: {{ .Values.settings.podFinalizer | toJson | trimAll "\"" | quote }}
{{- end }}
{{- if not (kindIs "invalid" .Values.settings.leaderElect) }}
- name: TFJOB_LEADER_ELECT
  value: {{ .Values.settings.leaderElect | toJson | trimAll "\"" | quote }}
{{- end }}
{{- if not (kindIs "invalid" .Values.settings.leaseNamespace) }}
- name: TFJOB_LEASE_NAMESPACE
  value: {{ .Values.settings.leaseNamespace | toJson | trimAll "\"" | quote }}
{{- end }}
{{- if not (kindIs "invalid" .Values.settings.leaseName) }}
- name: TFJOB_LEASE_NAME
  value: {{ .Values.settings.leaseName | toJson | trimAll "\"" | quote }}
{{- end }}
{{- if not (kindIs "invalid" .Values.settings.leaseSeconds) }}
- name: TFJOB_LEASE_SECONDS
  value: {{ .Values.settings.leaseSeconds | toJson | trimAll "\"" | quote }}
{{- end }}
{{- if not (kindIs "invalid" .Values.settings.leaseRetrySeconds) }}
- name: TFJOB_LEASE_RETRY_SECONDS
  value: {{ .Values.settings.leaseRetrySeconds | toJson | trimAll "\"" | quote }}
{{- end }}
{{- if not (kindIs "invalid" .Values.settings.httpAddress) }}
- name: TFJOB_HTTP_ADDRESS
  value: {{ .Values.settings.httpAddress | toJson | trimAll "\"" | quote }}
{{- end }}
{{- if not (kindIs "invalid" .Values.settings.apiQps) }}
- name: TFJOB_API_QPS
  value: {{ .Values.settings.apiQps | toJson | trimAll "\"" | quote }}
{{- end }}
{{- if not (kindIs "invalid" .Values.settings.apiBurst) }}
- name: TFJOB_API_BURST
  value: {{ .Values.settings.apiBurst | toJson | trimAll "\"" | quote }}
{{- end }}
{{- if not (kindIs "invalid" .Values.settings.apiWorkers) }}
- name: TFJOB_API_WORKERS
  value: {{ .Values.settings.apiWorkers | toJson | trimAll "\"" | quote }}
{{- end }}
{{- if not (kindIs "invalid" .Values.settings.inboxBytes) }}
- name: TFJOB_INBOX_BYTES
  value: {{ .Values.settings.inboxBytes | toJson | trimAll "\"" | quote }}
{{- end }}
{{- if not (kindIs "invalid" .Values.settings.redactionKeyFile) }}
- name: TFJOB_REDACTION_KEY_FILE
  value: {{ .Values.settings.redactionKeyFile | toJson | trimAll "\"" | quote }}
{{- end }}
{{- if not (kindIs "invalid" .Values.settings.logFormat) }}
- name: TFJOB_LOG_FORMAT
  value: {{ .Values.settings.logFormat | toJson | trimAll "\"" | quote }}
{{- end }}
{{- if not (kindIs "invalid" .Values.settings.logLevel) }}
- name: TFJOB_LOG_LEVEL
  value: {{ .Values.settings.logLevel | toJson | trimAll "\"" | quote }}
{{- end }}
{{- end -}}
