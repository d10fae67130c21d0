package gcm

import (
	"slices"
	"unsafe"
)

// sliceForAppend is dst with n more bytes, and these bytes.
func sliceForAppend(dst []byte, n int) (head, tail []byte) {
	head = slices.Grow(dst, n)[:len(dst)+n]
	return head, head[len(dst):]
}

// inexactOverlap says whether two slices share bytes without beginning together, which a cipher that goes over them
// once cannot take.
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
