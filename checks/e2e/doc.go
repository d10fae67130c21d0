// Package e2e puts Ringlet to work on real systems and drives runs there with `ringlet ctl`, as a crew would: a
// Kubernetes cluster, two hosts under systemd, containers on two networks. It stands for the documents' demand that a
// system be operated, disturbed and looked up afterwards; what is asked of it is that each disturbance ends the run, or
// does not, as the policy says, with the cause in the record, and that what was recorded is in the files where it was
// written.
//
// It has tests only, and each is for a machine that has what it needs: `make e2e-k8s`, `make e2e-baremetal` and `make
// e2e-docker` set RINGLET_E2E to its name. Elsewhere they are skipped aloud. A test prints the times and rates it
// measured, and leaves nothing behind.
//
// It does not promise the same figures twice: they are of the machine and of the moment.
package e2e
