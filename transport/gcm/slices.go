package gcm

import (
	"slices"
	"unsafe"
)

// grow is dst with n more bytes, and these bytes.
func grow(dst []byte, n int) (whole, more []byte) {
	whole = slices.Grow(dst, n)[:len(dst)+n]
	return whole, whole[len(dst):]
}

// overlaps says whether two slices share bytes without beginning together, which a cipher that goes over them once
// cannot take.
func overlaps(x, y []byte) bool {
	return overlapsAtAll(x, y) && unsafe.SliceData(x) != unsafe.SliceData(y)
}

func overlapsAtAll(x, y []byte) bool {
	if len(x) == 0 || len(y) == 0 {
		return false
	}
	a, b := uintptr(unsafe.Pointer(unsafe.SliceData(x))), uintptr(unsafe.Pointer(unsafe.SliceData(y)))
	return a < b+uintptr(len(y)) && b < a+uintptr(len(x))
}
