// Package manifests checks what the repository offers for deployment against what would take it: the objects that
// kustomize makes of k8s/ against the Kubernetes API server's own decoding, defaults and validation; units against
// systemd; the compose file against its format; alert rules and the dashboard against Prometheus' parsers and the list
// of metrics; and flags, ports, probes, volumes and configurations in all of them against the program. It stands for
// the documents' demand that a system be put to work as described.
//
// It has tests only. They need bin/ringlet (make build) and, for units, systemd-analyze; `make check-deploy` sees to
// the first, and what is missing is skipped aloud.
//
// It does not promise that a cluster has space for the pods, or the right storage: `make e2e-k8s` applies them to
// one.
package manifests
