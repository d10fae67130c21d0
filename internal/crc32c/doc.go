// Package crc32c computes the CRC-32C that protects every MFP on its way (docs/format/placing.md), and that of
// recordings.
//
// If the processor has VPCLMULQDQ and registers of 512 bits, fold takes 256 bytes at a time: it multiplies its state by
// a power of x and adds the next bytes, and so reduces a long piece to 16 bytes with the same CRC
// (docs/design/011-quic.md; Gopal and others, "Fast CRC Computation for Generic Polynomials Using PCLMULQDQ
// Instruction", Intel, 2009). Otherwise hash/crc32 computes it.
//
// Sums computes small pieces three at a time. The processor's CRC instruction takes 8 bytes and needs the result of the
// one before, which takes three cycles; but it can start a new one in each cycle. MFPs of small events have 50 to 300
// bytes, and three of them take little longer than one.
//
// Any goroutine may call all functions; they allocate nothing.
//
// What it does not promise: that it is faster than hash/crc32 on a processor without these instructions. go build -tags
// libcrc leaves fold out.
package crc32c
