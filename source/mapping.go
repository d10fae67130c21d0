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

// mapFile maps a regular file, as package safeopen opens it. Pages come as they are touched; the kernel is told that
// they are read in order.
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

// faulted says whether what was recovered is a fault at an address of the mapping: the file behind it was cut short.
// The caller must have set debug.SetPanicOnFault.
func (m *mapping) faulted(recovered any) bool {
	fault, ok := recovered.(interface{ Addr() uintptr })
	return ok && fault.Addr()-m.base < uintptr(len(m.data))
}

// faultOffset is the offset in the file of a fault that faulted has recognised.
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
