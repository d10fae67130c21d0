// Command gcm generates gcm_amd64.s and stub_amd64.go of ringlet/transport/gcm: AES-128-GCM with VAES and VPCLMULQDQ.
// It is a module of its own, so that Ringlet does not depend on the generator. docs/design/011-quic.md says how the
// generated code works.
package main
