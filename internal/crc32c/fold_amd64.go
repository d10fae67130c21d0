//go:build !libcrc

package crc32c

import "golang.org/x/sys/cpu"

// hasFold says whether the processor has the instructions of fold, and the operating system saves its registers.
var hasFold = cpu.X86.HasAVX512VPCLMULQDQ && cpu.X86.HasAVX512F && cpu.X86.HasAVX512VL && cpu.X86.HasSSE42
