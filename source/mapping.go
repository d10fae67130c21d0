package source

import (
	"fmt"
	"math"
	"os"
	"reflect"

	"golang.org/x/sys/unix"

	"ringlet/internal/safeopen"
)

// mapping is a file mapped for reading.
type mapping struct {
	data []byte
	base uintptr
}

// mapFile maps a regular file that package safeopen opened. The kernel loads pages as they are touched, and is advised
// that they are read in order.
func mapFile(f *os.File, path string) (*mapping, error) {
	st, err := f.Stat()
	if err != nil {
		return nil, err
	}
	switch {
	case !st.Mode().IsRegular():
		return nil, &safeopen.NotRegularError{Path: path, Mode: st.Mode()}
	case st.Size() > math.MaxInt:
		return nil, fmt.Errorf("%s has %d bytes, more than can be mapped", path, st.Size())
	case st.Size() == 0:
		return &mapping{}, nil // nothing can be mapped, nothing needs to be
	}
	data, err := unix.Mmap(int(f.Fd()), 0, int(st.Size()), unix.PROT_READ, unix.MAP_SHARED)
	if err != nil {
		return nil, &os.PathError{Op: "mmap", Path: path, Err: err}
	}
	_ = unix.Madvise(data, unix.MADV_SEQUENTIAL) // advice: a refusal changes nothing but speed
	return &mapping{data: data, base: reflect.ValueOf(data).Pointer()}, nil
}

// faulted says whether the recovered value is a fault at an address of the mapping: a process cut the file short. The
// caller must have set debug.SetPanicOnFault.
func (m *mapping) faulted(recovered any) bool {
	fault, ok := recovered.(interface{ Addr() uintptr })
	return ok && fault.Addr()-m.base < uintptr(len(m.data))
}

// faultOffset returns the offset in the file of a fault for which faulted returned true.
func (m *mapping) faultOffset(fault any) int64 {
	return int64(fault.(interface{ Addr() uintptr }).Addr() - m.base)
}

func (m *mapping) close() error {
	if m.data == nil {
		return nil
	}
	data := m.data
	m.data = nil
	return unix.Munmap(data)
}
