package arrays

import (
	"encoding/binary"
	"errors"
	"hash/crc32"
	"os"
	"path/filepath"
	"unicode/utf8"
)

// A Format is a kind of file.
type Format int

// The formats.
const (
	HDF5 Format = iota
	NPZ
)

// A Type is the type of an array's elements.
type Type struct {
	class class
	size  int // bytes of an element
}

type class byte

const (
	boolean class = iota
	unsigned
	signed
	float
	text
)

// Types of elements. Integers and floats are little-endian.
var (
	Bool    = Type{boolean, 1}
	Uint8   = Type{unsigned, 1}
	Uint16  = Type{unsigned, 2}
	Uint32  = Type{unsigned, 4}
	Uint64  = Type{unsigned, 8}
	Int64   = Type{signed, 8}
	Float64 = Type{float, 8}
)

// An Array is an array of a File.
type Array struct {
	table, name string
	of          Type
	bulk        bool
	crc         uint32 // of the bytes of a bulk array
	blocks
}

// A File is a file that is being written.
type File struct {
	format Format
	file   *os.File
	main   space
	spool  space // of npz: a file without a name, for the arrays that are not written where they stay
	arrays []*Array
	about  string
}

// Create creates a file.
func Create(path string, format Format) (*File, error) {
	file, err := os.Create(path)
	if err != nil {
		return nil, err
	}
	f := &File{format: format, file: file, main: space{file, superblockBytes}}
	if format == HDF5 {
		return f, nil
	}
	f.main.end = zipHeaderBytes + int64(len(bulkName)) + npyHeaderBytes
	spool, err := os.CreateTemp(filepath.Dir(path), filepath.Base(path)+".*.columns")
	if err != nil {
		return nil, errors.Join(err, file.Close())
	}
	f.spool = space{spool, 0}
	if err := os.Remove(spool.Name()); err != nil {
		f.Abandon()
		return nil, err
	}
	return f, nil
}

// Describe sets the description of the whole file, a text.
func (f *File) Describe(about string) { f.about = about }

// Add adds an array.
func (f *File) Add(table, name string, of Type) *Array {
	a := &Array{table: table, name: name, of: of, blocks: blocks{in: &f.main, size: max(1, blockBytes/of.size) * of.size}}
	if f.format == NPZ {
		a.in = &f.spool
	}
	f.arrays = append(f.arrays, a)
	return a
}

// AddBulk adds the array of bytes that has most of the bytes of the file. There may be one. Its name is data.
func (f *File) AddBulk(table string) *Array {
	a := f.Add(table, "data", Uint8)
	a.in, a.bulk = &f.main, true
	return a
}

// AddTexts adds an array of texts, all as wide as the longest.
func (f *File) AddTexts(table, name string, texts []string) error {
	width := 1
	for _, s := range texts {
		width = max(width, f.width(s))
	}
	a := f.Add(table, name, Type{text, width})
	element := make([]byte, 0, width)
	for _, s := range texts {
		element = element[:0]
		if f.format == HDF5 {
			element = append(element, s...)
		} else {
			for _, r := range s {
				element = binary.LittleEndian.AppendUint32(element, uint32(r))
			}
		}
		element = element[:width:width]
		if err := a.append(element); err != nil {
			return err
		}
		clear(element)
	}
	return nil
}

// width is how many bytes a text has: of UTF-8, or in NumPy 4 for each character.
func (f *File) width(s string) int {
	if f.format == NPZ {
		return 4 * max(1, utf8.RuneCountInString(s))
	}
	return len(s)
}

// Append adds bytes: whole elements, little-endian.
func (a *Array) Append(b []byte) error {
	if a.bulk {
		a.crc = crc32.Update(a.crc, crc32.IEEETable, b)
	}
	return a.append(b)
}

// AppendUint adds an element, the lowest bits of v.
func (a *Array) AppendUint(v uint64) error {
	var b [8]byte
	binary.LittleEndian.PutUint64(b[:], v)
	return a.append(b[:a.of.size])
}

// Buffered is how many bytes of memory the buffers take.
func (f *File) Buffered() (bytes int) {
	for _, a := range f.arrays {
		bytes += cap(a.buf)
	}
	return bytes
}

// Flush writes the buffers and gives back their memory.
func (f *File) Flush() error {
	for _, a := range f.arrays {
		if err := a.flush(); err != nil {
			return err
		}
		a.buf = nil
	}
	return nil
}

// Close completes the file and syncs it. After an error the file is not complete.
func (f *File) Close() error {
	complete := f.completeHDF5
	if f.format == NPZ {
		complete = f.completeNPZ
	}
	var err error
	for _, a := range f.arrays {
		err = errors.Join(err, a.finish())
	}
	if err == nil {
		err = complete()
	}
	if err == nil {
		err = f.file.Sync()
	}
	return errors.Join(err, f.close())
}

// Abandon frees the resources of a file that will not be completed.
func (f *File) Abandon() { _ = f.close() }

func (f *File) close() error {
	err := f.file.Close()
	if f.spool.f != nil {
		err = errors.Join(err, f.spool.f.Close())
	}
	return err
}
