// Package manifests checks the repository's files for deployment with the code of the programs that read them: the
// objects that kustomize makes of k8s/ with the Kubernetes API server's own decoding, defaults and validation; units
// with systemd; the compose file with its format; alert rules and the dashboard with Prometheus' parsers and the list
// of metrics. It also compares flags, ports, probes, volumes and configurations in all of them with the program.
//
// It has tests only. They need bin/ringlet, which `make check-deploy` builds, and systemd-analyze for units; a test
// without its program is skipped, with a message.
//
// It does not check whether a cluster has space for the pods, or the right storage: `make e2e-k8s` applies the objects
// to a cluster.
package manifests
