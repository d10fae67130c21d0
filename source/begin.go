package source

import (
	"context"
	"errors"
	"fmt"
	"io"
)

// mepSeeker is a source that can begin at another MEP than the first.
type mepSeeker interface {
	// beginAtMEP has the next block be that of the MEP. io.EOF says that there is none.
	beginAtMEP(ctx context.Context, mep uint64) error
}

// BeginAtMEP has a source, of which nothing was read, give its blocks from that of a MEP on: that of a readout unit
// which comes back in a run. Generated data are computed from the number. Files are passed over, in time that grows
// with the number. Live sources take what comes for the events that the scheduler tells.
func BeginAtMEP(ctx context.Context, src Source, mep uint64) error {
	s, ok := src.(mepSeeker)
	if !ok {
		return fmt.Errorf("the input cannot begin with MEP %d: its source, a %T, begins with the first", mep, src)
	}
	err := s.beginAtMEP(ctx, mep)
	if errors.Is(err, io.EOF) {
		return nil // the first read tells
	}
	return err
}

func (p *pacedSource) beginAtMEP(ctx context.Context, mep uint64) error {
	return BeginAtMEP(ctx, p.src, mep)
}
