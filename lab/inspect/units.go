package inspect

import (
	"errors"
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
func (u *unit) locate(err error) error { return event.LocateError(err, u.index, u.offset) }

// unitReader gives the units of a file in turn.
type unitReader struct {
	r       *event.UnitReader
	format  Format
	current unit
}

func newUnits(format Format, in io.Reader) *unitReader {
	opts := event.UnitReaderOptions{Format: string(format), MaxUnitBytes: maxUnit}
	return &unitReader{r: event.NewUnitReader(in, opts), format: format}
}

// next gives the next unit. A *event.FormatError says that it is bad; skip then
// goes past it.
func (s *unitReader) next() (*unit, error) {
	b, err := s.r.Next()
	s.current = unit{index: s.r.Index(), offset: s.r.Offset()}
	if err != nil {
		return &s.current, err
	}
	switch s.format {
	case FormatMEP:
		s.current.mep, err = event.ParseMEP(b)
	case FormatMFP:
		s.current.mfp, err = event.ParseMFP(b)
	default:
		s.current.record = b
	}
	return &s.current, err
}

func (s *unitReader) skip() (int64, error) { return s.r.Skip() }

// isBadInput tells what is wrong in the file from what is wrong with reading.
func isBadInput(err error) bool {
	var fe *event.FormatError
	return errors.As(err, &fe)
}

// maxUnit is the largest record or packet taken, 2 GiB: beyond it, a size is
// more likely spoiled than meant.
const maxUnit = 2 << 30
