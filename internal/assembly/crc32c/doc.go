// Command crc32c generates fold_amd64.s and fold_stub_amd64.go of ringlet/internal/crc32c: CRC-32C with VPCLMULQDQ. It
// is a module of its own, so that Ringlet does not depend on the generator. docs/design/011-quic.md says how the
// generated code works.
package main
