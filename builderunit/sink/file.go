package sink

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"sync/atomic"
)

// Format is what a file holds.
type Format uint32

const (
	// MEP is MEPs, each as it was built, gaps between its MFPs included.
	MEP Format = 1
	// MDF is MDF records, one per event.
	MDF Format = 2
	// MFP is the MFPs of the MEPs, without MEP headers and gaps.
	MFP Format = 3
)

var formatNames = map[Format]string{MEP: "mep", MDF: "mdf", MFP: "mfp"}

func (f Format) valid() bool { return formatNames[f] != "" }

func (f Format) String() string {
	if n := formatNames[f]; n != "" {
		return n
	}
	return fmt.Sprintf("format(%d)", uint32(f))
}

// ParseFormat returns the format named s: mep, mdf or mfp.
func ParseFormat(s string) (Format, error) {
	for f, n := range formatNames {
		if s == n {
			return f, nil
		}
	}
	return 0, fmt.Errorf("output format %q is not known: it is one of mep, mdf, mfp", s)
}

// FileConfig describes a file to write.
type FileConfig struct {
	Path   string // destination; what stands there is replaced when the new file is whole
	Format Format // no default
	// Part makes it one builder's share of an output: the MEPs stay in the order they came, an index is written beside it,
	// and Merge makes the output of all parts. Path is then one of PartPath.
	Part bool
}

// PartPath is the name of builder bu's part of the output dst: in the same directory, so that Merge's rename works, hidden,
// and recognised by RemoveTemporaries.
func PartPath(dst string, bu int) string {
	dir, base := filepath.Split(dst)
	return filepath.Join(dir, fmt.Sprintf(".%s%sbu%d%s", base, tempInfix, bu, tempSuffix))
}

// File is the sink that writes a file.
type File struct {
	// immutable after NewFile
	cfg FileConfig

	// owned by the goroutine that uses the sink
	out    *tempFile
	enc    encoder
	index  []entry
	closed bool

	written atomic.Uint64
}

// Written is how many bytes were written so far, those of a file that is put in order once more. Any goroutine may ask.
func (f *File) Written() uint64 { return f.written.Load() }

// NewFile creates the temporary file of c.Path. The error is a *SinkError.
func NewFile(c FileConfig) (*File, error) {
	if !c.Format.valid() {
		return nil, &SinkError{Path: c.Path, Op: "create it", Cause: fmt.Errorf("%v is not a format of files", c.Format)}
	}
	out, err := createTemp(c.Path)
	if err != nil {
		return nil, err
	}
	f := &File{cfg: c, out: out}
	out.written = &f.written
	return f, nil
}

// Write appends the MEP. It allocates nothing once its buffers are warm, except that the index grows by doubling. A MEP that
// cannot be written in the format, or that does not hold the events of m, is an error and ends the file like a full disk does.
func (f *File) Write(ctx context.Context, m Meta, mep []byte) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if f.closed {
		return &SinkError{Path: f.cfg.Path, Op: "write", Cause: ErrClosed}
	}
	if f.out.err != nil {
		return f.out.err
	}
	start := f.out.end()
	if err := f.enc.write(f.out, f.cfg.Format, m, mep); err != nil {
		return err
	}
	f.index = append(f.index, entry{
		mep: m.MEP, offset: start, length: f.out.end() - start, events: uint32(m.Events), attempt: m.Attempt,
	})
	return nil
}

// Finish puts the MEPs in order if they are not, and gives the file its name. The error is a *SinkError; the destination is
// then as it was, and Abort removes the rest.
func (f *File) Finish() (Result, error) {
	if f.closed {
		return Result{}, &SinkError{Path: f.cfg.Path, Op: "finish", Cause: ErrClosed}
	}
	if err := f.out.flush(); err != nil {
		return Result{}, err
	}
	r := Result{Path: f.cfg.Path}
	written := len(f.index)
	sorted, inOrder := order(f.index)
	f.index = sorted
	r.Superseded = uint64(written - len(sorted))
	next := uint64(0)
	for _, e := range sorted {
		r.tally(e, &next)
	}
	var err error
	switch {
	case f.cfg.Part:
		err = f.finishPart(r.Superseded)
	case inOrder:
		err = f.out.commit()
	default:
		r.Reordered = true
		err = f.rewrite()
	}
	if err != nil {
		return Result{}, err
	}
	f.closed = true
	return r, nil
}

// finishPart writes the index and gives both files their names, the part first: an index is never without its part.
func (f *File) finishPart(superseded uint64) (err error) {
	x, err := createTemp(f.cfg.Path + indexSuffix)
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			_ = x.remove()
		}
	}()
	if err = writeIndex(x, f.cfg.Format, f.out.size, superseded, f.index); err != nil {
		return err
	}
	if err = f.out.commit(); err != nil {
		return err
	}
	if err = x.commit(); err != nil {
		return errors.Join(err, RemoveParts([]Part{{Path: f.cfg.Path}}))
	}
	return nil
}

// rewrite copies the MEPs in order into a second temporary file, which becomes the output.
func (f *File) rewrite() error {
	sorted, err := createTemp(f.cfg.Path)
	if err != nil {
		return err
	}
	sorted.written = &f.written
	from := window{r: f.out.f, size: f.out.size}
	for _, e := range f.index {
		if err := from.copy(sorted, e); err != nil {
			_ = sorted.remove()
			return err
		}
	}
	if err := sorted.commit(); err != nil {
		_ = sorted.remove()
		return err
	}
	return f.out.remove()
}

// Abort removes the temporary file.
func (f *File) Abort() error {
	if f.closed {
		return nil
	}
	f.closed = true
	return f.out.remove()
}
