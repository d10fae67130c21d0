package inspect

import (
	"errors"
	"io"

	"ringlet/event"
)

// unit is one record or packet of a file; the file's format decides which of the views is set.
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

// locate adds the unit's place in the file to an error.
func (u *unit) locate(err error) error { return event.LocateError(err, u.index, u.offset) }

// unitReader returns the units of a file in turn.
type unitReader struct {
	r       *event.UnitReader
	format  Format
	current unit
}

func newUnits(format Format, in io.Reader) *unitReader {
	opts := event.UnitReaderOptions{Format: string(format), MaxUnitBytes: maxUnit}
	return &unitReader{r: event.NewUnitReader(in, opts), format: format}
}

// next returns the next unit. A *event.FormatError says that the unit is bad; skip then goes past it.
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

// isBadInput says whether an error is about the file's content, not about reading it.
func isBadInput(err error) bool {
	var fe *event.FormatError
	return errors.As(err, &fe)
}

// maxUnit is the largest record or packet, 2 GiB: a larger size is more likely damage.
const maxUnit = 2 << 30
