//go:build !libcrc

package crc32c

import "golang.org/x/sys/cpu"

// hasFold says that the processor can do what fold does, and the operating system saves its registers.
var hasFold = cpu.X86.HasAVX512VPCLMULQDQ && cpu.X86.HasAVX512F && cpu.X86.HasAVX512VL && cpu.X86.HasSSE42
