package source

import (
	"context"
	"errors"
	"fmt"
	"io"
)

// mepSeeker is a source that can begin at another MEP than the first one.
type mepSeeker interface {
	// beginAtMEP makes the block of that MEP the next one. io.EOF says that the source has no such MEP.
	beginAtMEP(ctx context.Context, mep uint64) error
}

// BeginAtMEP makes a source that has not been read yet begin with the block of that MEP. A readout unit that rejoins a
// run calls it: the MEPs before were read without it. Generated data are computed from the number. Files are passed
// over, in a time that grows with the number. Live sources take the fragments that come for the events which the
// scheduler assigns to the MEP.
func BeginAtMEP(ctx context.Context, src Source, mep uint64) error {
	s, ok := src.(mepSeeker)
	if !ok {
		return fmt.Errorf("the input cannot begin with MEP %d: its source, a %T, begins with the first", mep, src)
	}
	err := s.beginAtMEP(ctx, mep)
	if errors.Is(err, io.EOF) {
		return nil // the first Next returns io.EOF again
	}
	return err
}

func (p *pacedSource) beginAtMEP(ctx context.Context, mep uint64) error {
	return BeginAtMEP(ctx, p.src, mep)
}
