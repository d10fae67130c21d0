package recording

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
)

// OpenSegment says how far a segment that has not been closed can be read.
type OpenSegment struct {
	MEPs      uint64 `json:"meps"`         // whole ones
	Bytes     int64  `json:"bytes"`        // to the end of the last of them
	TailBytes int64  `json:"bytes_behind"` // after it: they may be a part of a MEP
	Live      bool   `json:"live"`         // a live process writes it
}

// ReadOpenSegment reads the index of an open segment. Without an index there is no whole MEP. ok is false if path is
// not the name of an open segment.
func ReadOpenSegment(ctx context.Context, path string) (o OpenSegment, ok bool, err error) {
	id, open, ok := ParseSegment(filepath.Base(path))
	if !ok || !open {
		return o, false, nil
	}
	st, err := os.Stat(path)
	if err != nil {
		return o, true, err
	}
	o.TailBytes = st.Size()
	index := filepath.Join(filepath.Dir(path), id.Index())
	o.Live = isInUse(index)
	x, err := openIndex(index)
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, errHeader) {
		return o, true, nil
	}
	if err != nil {
		return o, true, err
	}
	defer func() { _ = x.close() }() // it was only read
	in := &segmentScan{index: x, size: st.Size()}
	err = in.scan(ctx, 0, x.entries, func(e *scannedEntry) error {
		if e.state != entryGood {
			return errStop
		}
		o.MEPs++
		return nil
	})
	o.Bytes, o.TailBytes = in.end, st.Size()-in.end
	return o, true, err
}
