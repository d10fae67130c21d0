package recording

import "context"

// Found is what Recover found of one segment, or of a manifest, and what it did.
type Found struct {
	Dir       string // of the run
	Name      string // of the segment as it is called now, or run.json
	Segment   SegmentID
	Closed    bool // it is closed and listed now
	MEPs      uint64
	Events    uint64
	Bytes     int64
	TailBytes int64  // behind the last whole MEP, kept in a file .tail
	What      string // a sentence
}

// Recover closes what killed processes left in dir, which is an output directory or the directory of a run.
func Recover(ctx context.Context, dir string) ([]Found, error) { return nil, ctx.Err() }

func readHeader(path string) (Header, error) { return Header{}, nil }
