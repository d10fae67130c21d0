package crc32c

import "golang.org/x/sys/cpu"

// sumsOfThree is the CRC-32C of three pieces.
func sumsOfThree(a, b, c []byte) (x, y, z uint32) {
	if !cpu.X86.HasSSE42 {
		return Sum(a), Sum(b), Sum(c)
	}
	return sumThree(a, b, c)
}

// sumThree is sumsOfThree for a processor with SSE 4.2.
//
//go:noescape
func sumThree(a, b, c []byte) (x, y, z uint32)
