package input

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"

	"ringlet/builderunit/recording"
	"ringlet/event"
	"ringlet/internal/regular"
	"ringlet/lab/inspect"
)

// Options say how to read.
type Options struct {
	Format  inspect.Format // of files; zero means FormatAuto
	Banks   bool           // unfold containers into banks
	Run     uint32         // number for data that have none
	MaxUnit int            // largest record or packet, bytes
}

// Inputs are what is to be converted: files, or one recording.
type Inputs struct {
	Bytes int64 // of all
	// Print tells these inputs from others, and from themselves when they have changed.
	Print []string

	opts     Options
	files    []file
	contents *recording.Contents
}

// file is an input that is a file.
type file struct {
	path   string
	format inspect.Format
	size   int64 // of what is read of it
}

// A LiveError is a recording that a run still writes.
type LiveError struct{ Path string }

func (e *LiveError) Error() string {
	return fmt.Sprintf("a live process still writes %s: convert it when the run has ended, or name one of its files",
		e.Path)
}

// Open looks at the inputs: files, or one directory of a run. The error is a *LiveError, a *BadError for a file of no
// known format, or of the system.
func Open(ctx context.Context, paths []string, opts Options) (*Inputs, error) {
	in := &Inputs{opts: opts}
	for _, path := range paths {
		st, err := os.Stat(path)
		switch {
		case err != nil:
			return nil, err
		case st.IsDir() && len(paths) > 1:
			return nil, fmt.Errorf("%s is a directory: convert it alone, each run makes an output of its own", path)
		case st.IsDir():
			return in, in.openRun(ctx, path)
		}
		if err := in.openFile(ctx, path, st); err != nil {
			return nil, err
		}
	}
	return in, nil
}

// openRun reads manifest and indexes of a recording: the directory of a run, or of outputs with one run in it.
func (in *Inputs) openRun(ctx context.Context, path string) error {
	runs, err := recording.Runs(path)
	switch {
	case err != nil:
		return err
	case len(runs) > 1:
		return fmt.Errorf("%s has %d runs: name one of them, as %s", path, len(runs), runs[0])
	case len(runs) == 1:
		path = runs[0]
	}
	c, err := recording.Read(ctx, path)
	if err != nil {
		return err
	}
	for p := range c.All {
		if p.Kind == recording.BeingWritten {
			return &LiveError{Path: path}
		}
	}
	in.contents = c
	held := func(s *recording.SegmentContents) { in.Bytes += s.Bytes }
	if c.Merged != nil {
		held(c.Merged)
	}
	for b := range c.Builders {
		for s := range c.Builders[b].Segments {
			held(&c.Builders[b].Segments[s])
		}
	}
	in.Print = []string{fmt.Sprintf("run %d %s: %d MEPs, %d events, %d bytes", c.Manifest.Run, c.Manifest.Key,
		c.Set.MEPs(), c.Set.Events(), in.Bytes)}
	return nil
}

// openFile finds out what is in a file.
func (in *Inputs) openFile(ctx context.Context, path string, st fs.FileInfo) error {
	f, err := regular.Open(path)
	if err != nil {
		return err
	}
	defer func() { _ = f.Close() }() // it was read
	size := st.Size()
	o, open, err := recording.ReadOpened(ctx, path)
	if err != nil {
		return err
	}
	if open {
		size = o.Bytes
	}
	format := in.opts.Format
	if format == "" || format == inspect.FormatAuto {
		format, err = inspect.Detect(bufio.NewReader(f), path)
	}
	var bad *inspect.BadInputError
	if errors.As(err, &bad) {
		return &BadError{
			File:   path,
			Record: event.NoRecord,
			Offset: 0,
			Err:    bad.First,
		}
	}
	if err != nil {
		return err
	}
	in.Bytes += size
	in.Print = append(in.Print, fmt.Sprintf("%s %s: %d bytes, %d", path, format, size, st.ModTime().UnixNano()))
	in.files = append(in.files, file{path: path, format: format, size: size})
	return nil
}

// Each gives all rows from a position on to the Taker. The error is the Taker's, of ctx, or of the system.
func (in *Inputs) Each(ctx context.Context, from Position, to Taker) error {
	u := &unfolder{to: to, banks: in.opts.Banks, run: in.opts.Run}
	if in.contents != nil {
		return in.eachMEP(ctx, from, u)
	}
	for at := from; at.File < len(in.files); {
		next, err := in.eachUnit(ctx, at, u)
		if err != nil {
			return err
		}
		at = Position{File: at.File + 1, Event: next.Event}
	}
	return nil
}

// eachUnit goes through one file.
func (in *Inputs) eachUnit(ctx context.Context, from Position, u *unfolder) (Position, error) {
	this := &in.files[from.File]
	u.file = this.path
	f, err := regular.Open(this.path)
	if err != nil {
		return from, err
	}
	defer func() { _ = f.Close() }() // it was read
	r := event.NewUnitReader(io.NewSectionReader(f, from.Offset, this.size-from.Offset), event.UnitReaderOptions{
		Format:  string(this.format),
		MaxUnit: in.opts.MaxUnit,
		Verify:  true,
	})
	next := from
	for {
		if err := ctx.Err(); err != nil {
			return next, err
		}
		b, err := r.Next()
		if errors.Is(err, io.EOF) {
			return next, nil
		}
		record, offset := from.Record+r.Index(), from.Offset+r.Offset()
		size := int64(len(b))
		if err == nil {
			err = u.unit(this.format, b, from.Event+uint64(r.Index()), record, offset)
		} else {
			size, err = u.skip(r, err, from)
		}
		if err != nil {
			return next, err
		}
		next.Offset, next.Record, next.Event = offset+size, record+1, from.Event+uint64(r.Index())
		if len(b) > 0 {
			next.Event++
		}
		if err := u.to.Done(next, size); err != nil {
			return next, err
		}
	}
}

// skip reports a unit that the reader refused, and goes past it.
func (u *unfolder) skip(r *event.UnitReader, err error, from Position) (int64, error) {
	var fe *event.FormatError
	if !errors.As(err, &fe) {
		return 0, err
	}
	if err := u.bad(fe, from.Record+fe.Record, from.Offset); err != nil {
		return 0, err
	}
	return r.Skip()
}

// unit gives the rows of one unit.
func (u *unfolder) unit(format inspect.Format, b []byte, number uint64, record, offset int64) error {
	switch format {
	case inspect.FormatMEP:
		m, err := event.ParseMEP(b)
		if err != nil {
			return u.bad(err, record, offset)
		}
		return u.mep(m, record, offset)
	case inspect.FormatMFP:
		p, err := event.ParseMFP(b)
		if err != nil {
			return u.bad(err, record, offset)
		}
		u.mfps = append(u.mfps[:0], p)
		return u.packets(record, offset)
	default:
		return u.record(b, number)
	}
}
