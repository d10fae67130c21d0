package shmem

import (
	"sync/atomic"
	"unsafe"
)

// WordSize is the size of a Word, bytes. Words are aligned to it.
const WordSize = 8

// Word is the 8-byte word at the start of b, for what the processor does in one step, whoever else has the memory
// mapped; nil where b is shorter or not aligned. Its number is in the byte order of the host, which is little-endian.
func Word(b []byte) *atomic.Uint64 {
	p := unsafe.Pointer(unsafe.SliceData(b))
	if len(b) < WordSize || uintptr(p)%WordSize != 0 {
		return nil
	}
	return (*atomic.Uint64)(p)
}
