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
func (u *unit) locate(err error) error { return event.Located(err, u.index, u.offset) }

// units gives the units of a file in turn.
type units struct {
	r      *event.UnitReader
	format Format
	u      unit
}

func newUnits(format Format, in io.Reader) *units {
	opts := event.UnitReaderOptions{Format: string(format), MaxUnit: maxUnit}
	return &units{r: event.NewUnitReader(in, opts), format: format}
}

// next gives the next unit. A *event.FormatError says that it is bad; skip then
// goes past it.
func (s *units) next() (*unit, error) {
	b, err := s.r.Next()
	s.u = unit{index: s.r.Index(), offset: s.r.Offset()}
	if err != nil {
		return &s.u, err
	}
	switch s.format {
	case FormatMEP:
		s.u.mep, err = event.ParseMEP(b)
	case FormatMFP:
		s.u.mfp, err = event.ParseMFP(b)
	default:
		s.u.record = b
	}
	return &s.u, err
}

func (s *units) skip() (int64, error) { return s.r.Skip() }

// isBadInput tells what is wrong in the file from what is wrong with reading.
func isBadInput(err error) bool {
	var fe *event.FormatError
	return errors.As(err, &fe)
}

// maxUnit is the largest record or packet taken, 2 GiB: beyond it, a size is
// more likely spoiled than meant.
const maxUnit = 2 << 30
