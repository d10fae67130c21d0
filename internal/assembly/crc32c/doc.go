// Command crc32c writes fold_amd64.s and fold_stub_amd64.go of ringlet/internal/crc32c: CRC-32C with VPCLMULQDQ. It
// stands in a module of its own, so that the product does not depend on the generator. docs/design/011-quic.md says
// how the code works.
package main
