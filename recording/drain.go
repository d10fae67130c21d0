package recording

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"ringlet/internal/safeopen"
)

// EachMEP visits the MEPs of a closed segment of the run in runDir, in the order of its index. A MEP whose bytes were
// changed has an Err. It ends with the error of visit or of ctx, or with a *Problem if a file cannot be opened or read
// any further.
func EachMEP(ctx context.Context, runDir string, m *Manifest, s Segment, visit func(*RecordedMEP) error) (err error) {
	id, open, ok := ParseSegment(s.Name)
	if !ok || open {
		return fmt.Errorf("%q is not the name of a closed segment", s.Name)
	}
	unreadable := func(file string, err error) error {
		return &Problem{Kind: Unreadable, File: file, Text: err.Error()}
	}
	x, err := openIndex(filepath.Join(runDir, id.Index()))
	if err != nil {
		return unreadable(id.Index(), err)
	}
	defer func() { _ = x.close() }() // it was only read
	if h := &x.header; h.Key != m.Key || h.Segment != id {
		return &Problem{Kind: ForeignFile, File: id.Index(), Text: "it is of another run, or of another segment"}
	}
	f, err := safeopen.OpenNoFollow(filepath.Join(runDir, s.Name))
	if err != nil {
		return unreadable(s.Name, err)
	}
	defer func() { _ = f.Close() }() // it was only read
	in := &segmentScan{index: x, m: m, size: s.Bytes, data: f}
	current := &RecordedMEP{File: f.Name(), Format: id.Format}
	var visitErr error
	err = in.scan(ctx, 0, x.entries, func(e *scannedEntry) error {
		if e.state != entryGood {
			return &Problem{Kind: DamagedIndex, File: id.Index(), Text: fmt.Sprintf("entry %d is damaged", e.number)}
		}
		current.Entry, current.Err = e.Entry, nil
		var crc uint32
		var err error
		if current.Data, crc, err = in.read(ctx, &e.Entry); err != nil && ctx.Err() == nil {
			return unreadable(s.Name, err)
		} else if err != nil {
			return err
		}
		if crc != e.CRC {
			current.Data, current.Err = nil, &Problem{
				Kind:   DamagedData,
				File:   s.Name,
				Events: e.eventRange(),
				Text:   fmt.Sprintf("the bytes of MEP %d have been changed", e.MEP),
			}
		}
		visitErr = visit(current)
		return visitErr
	})
	var known *Problem
	switch {
	case visitErr != nil || ctx.Err() != nil || errors.As(err, &known):
		return err
	case err != nil:
		return unreadable(id.Index(), err)
	}
	if x.entries != int64(s.MEPs) {
		return &Problem{Kind: WrongCounts, File: id.Index(),
			Text: fmt.Sprintf("it has %d MEPs, the manifest says %d", x.entries, s.MEPs)}
	}
	return nil
}

// DataFile is the data file of a segment.
type DataFile struct {
	Bytes   int64
	Written time.Time // when the last write was
}

// Files are the data files in the directory of a run, by name.
type Files struct {
	ClosedFiles map[string]DataFile
	OpenFiles   map[string]DataFile // being written, or left by a killed process
	Indexes     map[string]bool     // names of the indexes that are there
	LiveFiles   int                 // of the open ones, those that a live process writes
}

// BuilderTotal returns how many bytes of a builder unit there are, and in how many files.
func (f *Files) BuilderTotal(builder int) (bytes int64, segments int) {
	for _, of := range []map[string]DataFile{f.ClosedFiles, f.OpenFiles} {
		for name, one := range of {
			if id, _, _ := ParseSegment(name); id.Builder == builder {
				bytes += one.Bytes
				segments++
			}
		}
	}
	return bytes, segments
}

// ReadFiles reads the directory of a run.
func ReadFiles(runDir string) (Files, error) {
	f := Files{ClosedFiles: map[string]DataFile{}, OpenFiles: map[string]DataFile{}, Indexes: map[string]bool{}}
	names, err := os.ReadDir(runDir)
	if err != nil {
		return f, err
	}
	for _, n := range names {
		id, open, ok := ParseSegment(n.Name())
		if _, isIndex := parseIndex(n.Name()); isIndex {
			f.Indexes[n.Name()] = true
		}
		if !ok {
			continue
		}
		st, err := n.Info()
		switch {
		case errors.Is(err, fs.ErrNotExist): // it was removed, or renamed by closing, since ReadDir
		case err != nil:
			return f, err
		case !open:
			f.ClosedFiles[n.Name()] = DataFile{st.Size(), st.ModTime()}
		default:
			f.OpenFiles[n.Name()] = DataFile{st.Size(), st.ModTime()}
			if isInUse(filepath.Join(runDir, id.Index())) {
				f.LiveFiles++
			}
		}
	}
	return f, nil
}
