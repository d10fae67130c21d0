package inspect

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"

	"ringlet/event"
)

// unit is one record or packet of a file; which of the views is set follows
// from the file's format.
type unit struct {
	index  int64 // from 0
	offset int64 // in the file, bytes
	record event.Record
	mep    event.MEP
	mfp    event.MFP
}

func (u *unit) size() int {
	return len(u.record) + len(u.mep.Bytes()) + len(u.mfp.Bytes())
}

// locate places an error about the unit in the file.
func (u *unit) locate(err error) error { return event.Located(err, u.index, u.offset) }

// units gives the units of a file in turn. A *event.FormatError from next says
// that the unit is bad; skip then goes past it.
type units interface {
	next() (*unit, error)
	skip() (int64, error)
}

func newUnits(format Format, in io.Reader) units {
	if format == FormatMDF {
		return &records{r: event.NewMDFReader(in, event.MDFReaderOptions{MaxRecord: maxUnit})}
	}
	return &packets{in: in, mep: format == FormatMEP}
}

// isBadInput tells what is wrong in the file from what is wrong with reading.
func isBadInput(err error) bool {
	var fe *event.FormatError
	return errors.As(err, &fe)
}

// maxUnit is the largest record or packet taken, 2 GiB: beyond it, a size is
// more likely spoiled than meant.
const maxUnit = 2 << 30

// records are the units of an MDF file.
type records struct {
	r *event.MDFReader
	u unit
}

func (s *records) next() (*unit, error) {
	r, err := s.r.Next()
	s.u = unit{index: s.r.Index(), offset: s.r.Offset(), record: r}
	return &s.u, err
}

func (s *records) skip() (int64, error) { return s.r.Skip() }

// packets are the units of a file of MEPs or MFPs.
type packets struct {
	in    io.Reader
	mep   bool
	buf   []byte // the packet, and no more
	at    int64  // offset of buf in the file
	index int64
	u     unit
}

// next reads the next packet into the buffer and parses it.
func (s *packets) next() (*unit, error) {
	s.at += int64(len(s.buf))
	if len(s.buf) > 0 {
		s.index++
	}
	s.buf = s.buf[:0]
	s.u = unit{index: s.index, offset: s.at}
	fixed := event.MFPFixedSize
	if s.mep {
		fixed = event.MEPFixedSize
	}
	if err := s.fill(fixed); err != nil {
		return nil, err
	}
	if len(s.buf) == 0 {
		return nil, io.EOF
	}
	size, ok := s.claimed()
	if ok && size > maxUnit {
		return nil, s.u.locate(&event.FormatError{
			Format: s.format(), Field: "packet size", Offset: 4, Err: event.ErrRange,
			Reason: fmt.Sprintf("%d bytes are more than the %d that are inspected", size, maxUnit),
		})
	}
	if ok {
		if err := s.fill(size); err != nil {
			return nil, err
		}
	}
	var err error
	if s.mep {
		s.u.mep, err = event.ParseMEP(s.buf)
	} else {
		s.u.mfp, err = event.ParseMFP(s.buf)
	}
	if err != nil {
		return nil, s.u.locate(err)
	}
	return &s.u, nil
}

// claimed is the size in bytes that the header of the packet claims, unless it
// is none that could be: then the parser says why.
func (s *packets) claimed() (int, bool) {
	if len(s.buf) < event.MEPFixedSize { // both formats have magic and size in these
		return 0, false
	}
	magic, size := event.MFPMagic, int64(binary.LittleEndian.Uint32(s.buf[4:]))
	if s.mep {
		magic, size = event.MEPMagic, size*event.MEPWord
	}
	return int(size), binary.LittleEndian.Uint16(s.buf) == magic && size >= event.MEPFixedSize
}

func (s *packets) format() string {
	if s.mep {
		return event.FormatMEP
	}
	return event.FormatMFP
}

// fill reads until the buffer holds n bytes or the file ends. The buffer grows
// with what comes, not with what a header claims.
func (s *packets) fill(n int) error {
	for len(s.buf) < n {
		if len(s.buf) == cap(s.buf) {
			grown := make([]byte, len(s.buf), max(64<<10, 2*cap(s.buf)))
			copy(grown, s.buf)
			s.buf = grown
		}
		end := min(n, cap(s.buf))
		k, err := io.ReadFull(s.in, s.buf[len(s.buf):end])
		s.buf = s.buf[:len(s.buf)+k]
		if err == io.EOF || err == io.ErrUnexpectedEOF {
			return nil
		}
		if err != nil {
			return fmt.Errorf("packet %d at offset %d: cannot read: %w", s.index, s.at, err)
		}
	}
	return nil
}

// skip goes past the packet that next refused: to its end where its header
// gives one, otherwise, since nothing in these formats marks a beginning
// beyond doubt, to the end of the file.
func (s *packets) skip() (int64, error) {
	left := int64(len(s.buf))
	if size, ok := s.claimed(); ok && size == len(s.buf) {
		return left, nil
	}
	n, err := io.Copy(io.Discard, s.in)
	if err != nil {
		return left, fmt.Errorf("packet %d at offset %d: cannot read: %w", s.index, s.at, err)
	}
	s.at += n
	return left + n, nil
}
