package gcm

import (
	"slices"
	"unsafe"
)

// sliceForAppend returns dst with n more bytes, and those bytes.
func sliceForAppend(dst []byte, n int) (head, tail []byte) {
	head = slices.Grow(dst, n)[:len(dst)+n]
	return head, head[len(dst):]
}

// inexactOverlap reports whether two slices share bytes without beginning at the same one: a cipher that passes over
// them once would overwrite input.
func inexactOverlap(x, y []byte) bool {
	return anyOverlap(x, y) && unsafe.SliceData(x) != unsafe.SliceData(y)
}

func anyOverlap(x, y []byte) bool {
	if len(x) == 0 || len(y) == 0 {
		return false
	}
	a, b := uintptr(unsafe.Pointer(unsafe.SliceData(x))), uintptr(unsafe.Pointer(unsafe.SliceData(y)))
	return a < b+uintptr(len(y)) && b < a+uintptr(len(x))
}
