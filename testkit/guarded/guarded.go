package guarded

import (
	"os"
	"testing"

	"golang.org/x/sys/unix"
)

// Pages returns that many pages of zeroed memory, valid until the test ends.
func Pages(t testing.TB, pages int) []byte {
	t.Helper()
	page := os.Getpagesize()
	m, err := unix.Mmap(-1, 0, (pages+2)*page, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_ANON|unix.MAP_PRIVATE)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = unix.Munmap(m) })
	end := len(m) - page
	for _, guard := range [][]byte{m[:page], m[end:]} {
		if err := unix.Mprotect(guard, unix.PROT_NONE); err != nil {
			t.Fatal(err)
		}
	}
	return m[page:end:end]
}
