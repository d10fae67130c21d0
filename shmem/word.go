package shmem

import (
	"sync/atomic"
	"unsafe"
)

// WordSize is the size and the alignment of a Word, bytes.
const WordSize = 8

// Word is the 8-byte word at the start of b, for atomic operations on memory that other processes have mapped, too; nil
// if b is shorter or not aligned. It has the host's byte order, little-endian.
func Word(b []byte) *atomic.Uint64 {
	p := unsafe.Pointer(unsafe.SliceData(b))
	if len(b) < WordSize || uintptr(p)%WordSize != 0 {
		return nil
	}
	return (*atomic.Uint64)(p)
}
