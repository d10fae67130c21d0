//go:build !amd64 || libcrc

package crc32c

const hasFold = false

func fold(uint32, *byte, int) uint32 { panic("crc32c: no form in assembly") }
