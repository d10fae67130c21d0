// Package crc32c computes the CRC-32C of several small pieces of memory side by side. It stands for the checksum that
// covers every MFP on its way (docs/format/placing.md).
//
// A processor has an instruction that takes 8 bytes into a CRC. It waits for the one before it, for three cycles, but a
// new one can begin in each cycle. hash/crc32 makes use of that within a piece of 500 bytes or more. Of MFPs of small
// events, which have 50 to 300 bytes, three at a time take little longer than one.
//
// What the caller must do: nothing. All functions may be called by any goroutine, and allocate nothing.
//
// What it does not promise: that it is faster than hash/crc32 where there is no such instruction, or where pieces are
// large. It then is hash/crc32.
package crc32c
