// Package crc32c computes the CRC-32C that covers every MFP on its way (docs/format/placing.md), and that of
// recordings.
//
// Where the processor has VPCLMULQDQ and registers of 512 bits, 256 bytes are taken at a time: fold multiplies what
// it has by a power of x, adds the next bytes, and so makes a long piece one of 16 bytes that has the same CRC
// (docs/design/011-quic.md; Gopal and others, "Fast CRC Computation for Generic Polynomials Using PCLMULQDQ
// Instruction", Intel, 2009). Otherwise hash/crc32 computes it.
//
// Of small pieces Sums takes three side by side. A processor has an instruction that takes 8 bytes into a CRC. It
// waits for the one before it, for three cycles, but a new one can begin in each cycle. MFPs of small events have 50
// to 300 bytes, and three at a time take little longer than one.
//
// What the caller must do: nothing. All functions may be called by any goroutine, and allocate nothing.
//
// What it does not promise: that it is faster than hash/crc32 where there are no such instructions. go build -tags
// libcrc leaves fold out.
package crc32c
