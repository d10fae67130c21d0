// Package e2e deploys Ringlet on real systems and drives runs there with `ringlet ctl`, as operators would: on a
// Kubernetes cluster, on two hosts under systemd, in containers on two networks. The tests disturb a run and check that
// it ends, or goes on, as the policy says; that the record names the cause; and that the recorded data are in the
// files.
//
// It has tests only. `make e2e-k8s`, `make e2e-baremetal` and `make e2e-docker` set RINGLET_E2E to the name of the test
// for the machine; without it the tests are skipped, with a message. A test prints the times and rates that it has
// measured, and leaves nothing behind. Its figures depend on the machine and its load.
package e2e
