package hugepages

import (
	"os"
	"reflect"

	"golang.org/x/sys/unix"
)

// minBytes is the smallest memory for which Advise asks: less has few faults.
const minBytes = 4 << 20

// Advise asks for huge pages under mem, which must not have been touched for that to help. It returns mem.
func Advise(mem []byte) []byte {
	page := os.Getpagesize()
	if len(mem) < max(minBytes, 2*page) {
		return mem
	}
	from := -int(reflect.ValueOf(mem).Pointer()) & (page - 1)
	to := from + (len(mem)-from)&^(page-1)
	_ = unix.Madvise(mem[from:to], unix.MADV_HUGEPAGE) // advice: a refusal changes nothing but speed
	return mem
}
