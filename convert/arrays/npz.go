package arrays

import (
	"archive/zip"
	"fmt"
	"hash/crc32"
	"io"
	"os"
	"strings"
)

const (
	bulkName       = "data.npy"
	aboutName      = "about"
	zipHeaderBytes = 30  // of a member, before its name
	npyHeaderBytes = 128 // of an array: a multiple of 64, as NumPy has it
	dataDescriptor = 8   // flag of a member: sizes and checksum stand behind its bytes
)

// placed writes to a file from an offset on. With skip it leaves the bytes there as they are.
type placed struct {
	f    *os.File
	at   int64
	skip bool
}

func (p *placed) Write(b []byte) (n int, err error) {
	if n = len(b); !p.skip {
		n, err = p.f.WriteAt(b, p.at)
	}
	p.at += int64(n)
	return n, err
}

// completeNPZ writes the archive around the bulk array, whose bytes are in their place, and the other arrays behind it.
func (f *File) completeNPZ() error {
	if err := f.describeNPZ(); err != nil {
		return err
	}
	to := &placed{f: f.file}
	z := zip.NewWriter(to)
	for _, a := range f.arrays {
		if a.bulk {
			if err := a.writeBulk(z, to); err != nil {
				return err
			}
		}
	}
	for _, a := range f.arrays {
		if !a.bulk {
			if err := a.copyTo(z); err != nil {
				return err
			}
		}
	}
	if err := z.Close(); err != nil {
		return err
	}
	return f.file.Truncate(to.at)
}

// describeNPZ adds the description, if there is one.
func (f *File) describeNPZ() error {
	if f.about == "" {
		return nil
	}
	if err := f.AddTexts("", aboutName, []string{f.about}); err != nil {
		return err
	}
	return f.arrays[len(f.arrays)-1].finish()
}

// writeBulk writes what stands before and behind the bytes of a bulk array.
func (a *Array) writeBulk(z *zip.Writer, to *placed) error {
	header := a.npyHeader()
	size := uint64(len(header)) + uint64(a.total)
	w, err := z.CreateRaw(&zip.FileHeader{
		Name:               bulkName,
		Method:             zip.Store,
		Flags:              dataDescriptor,
		CRC32:              joinedCRC(crc32.ChecksumIEEE(header), a.crc, a.total),
		CompressedSize64:   size,
		UncompressedSize64: size,
	})
	if err != nil {
		return err
	}
	if _, err := w.Write(header); err != nil {
		return err
	}
	if err := z.Flush(); err != nil {
		return err
	}
	to.skip = true
	none := make([]byte, blockBytes)
	for left := a.total; left > 0; left -= min(left, blockBytes) {
		if _, err := w.Write(none[:min(left, blockBytes)]); err != nil {
			return err
		}
	}
	err = z.Flush()
	to.skip = false
	return err
}

// copyTo copies an array from the spool.
func (a *Array) copyTo(z *zip.Writer) error {
	w, err := z.CreateHeader(&zip.FileHeader{Name: a.name + ".npy", Method: zip.Store})
	if err != nil {
		return err
	}
	if _, err := w.Write(a.npyHeader()); err != nil {
		return err
	}
	buf := make([]byte, a.size)
	for i, at := range a.places {
		n := min(int64(a.size), a.total-int64(i)*int64(a.size))
		if _, err := a.in.f.ReadAt(buf[:n], at); err != nil {
			return fmt.Errorf("the columns cannot be read back: %w", err)
		}
		if _, err := w.Write(buf[:n]); err != nil {
			return err
		}
	}
	return nil
}

// npyHeader is what stands before the elements of an array (NumPy Enhancement Proposal 1, version 1.0).
func (a *Array) npyHeader() []byte {
	descr := map[class]string{boolean: "|b", unsigned: "<u", signed: "<i", float: "<f", text: "<U"}[a.of.class]
	size := a.of.size
	switch {
	case a.of.class == text:
		size /= 4
	case size == 1:
		descr = "|" + descr[1:]
	}
	text := fmt.Sprintf("{'descr': '%s%d', 'fortran_order': False, 'shape': (%d,), }", descr, size,
		a.total/int64(a.of.size))
	const before = 10 // magic, version, length
	text += strings.Repeat(" ", npyHeaderBytes-before-len(text)-1) + "\n"
	return append([]byte{0x93, 'N', 'U', 'M', 'P', 'Y', 1, 0, npyHeaderBytes - before, 0}, text...)
}

var _ io.Writer = (*placed)(nil)

// joinedCRC is the CRC-32 of two texts, one behind the other, of which a and b are the CRCs. It is a times x to the
// power of the bits of the second text, and b, both modulo the polynomial (as in zlib's crc32_combine).
func joinedCRC(a, b uint32, bytesOfB int64) uint32 {
	power := uint32(1) << 31                                            // x^0: the lowest power is the highest bit
	for square := uint32(1) << (31 - 8); bytesOfB > 0; bytesOfB >>= 1 { // x^8
		if bytesOfB&1 > 0 {
			power = product(power, square)
		}
		square = product(square, square)
	}
	return product(power, a) ^ b
}

// product multiplies two polynomials modulo that of CRC-32.
func product(a, b uint32) (p uint32) {
	for bit := uint32(1) << 31; bit > 0; bit >>= 1 {
		if a&bit > 0 {
			p ^= b
		}
		b = b>>1 ^ crc32.IEEE&-(b&1)
	}
	return p
}
