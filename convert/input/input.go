package input

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"time"

	"ringlet/event"
	"ringlet/internal/safeopen"
	"ringlet/lab/inspect"
	"ringlet/recording"
)

// Options are the options of Open.
type Options struct {
	Format  inspect.Format // of files; zero means FormatAuto
	Banks   bool           // unfold containers into banks
	Run     uint32         // run number for data without one
	MaxUnit int            // largest record or packet, bytes
	Once    bool           // leave out fragments that an earlier input has; takes several runs
}

// Inputs are the inputs of a conversion: files, or one recording; with Once any number of both.
type Inputs struct {
	Bytes int64 // of all
	// Print is a fingerprint: it differs for other inputs, and for the same ones when they have changed.
	Print []string
	// Runs are the runs of those inputs that are recordings.
	Runs []Run

	opts Options
	list []inputEntry
}

// inputEntry is a file or a recording.
type inputEntry struct {
	path string
	// Of a file.
	format inspect.Format
	size   int64 // bytes that are read
	// Of a recording: its fingerprint. Only the first input has its contents in memory.
	print    string
	contents *recording.Contents
}

// A Run is what a recording says of its run (docs/outputs.md).
type Run struct {
	Run               uint32     `json:"run"`
	Key               string     `json:"key"`
	Program           string     `json:"program"` // version
	ConfigurationHash string     `json:"configuration_hash,omitempty"`
	Created           time.Time  `json:"created"`
	Concluded         *time.Time `json:"concluded,omitempty"` // with the next two: absent where the run did not conclude
	Verdict           string     `json:"verdict,omitempty"`
	EndCause          string     `json:"end_cause,omitempty"`
}

// runOf is what a manifest says.
func runOf(m *recording.Manifest) Run {
	r := Run{
		Run:               m.Run,
		Key:               m.Key.String(),
		Program:           m.Program,
		ConfigurationHash: m.ConfigurationHash,
		Created:           m.Created,
	}
	if v := m.Verdict; v != nil {
		r.Concluded, r.Verdict, r.EndCause = &v.ConcludedAt, v.Verdict, v.EndCause
	}
	return r
}

// A LiveError is a recording that a process is still writing.
type LiveError struct{ Path string }

func (e *LiveError) Error() string {
	return fmt.Sprintf("a live process still writes %s: convert it when the run has ended, or name one of its files",
		e.Path)
}

// Open opens the inputs: files, or one directory of a run; with Once any number of both. The error is a *LiveError, a
// *BadError for a file of no known format, or an error of the system.
func Open(ctx context.Context, paths []string, opts Options) (*Inputs, error) {
	in := &Inputs{opts: opts}
	for _, path := range paths {
		st, err := os.Stat(path)
		switch {
		case err != nil:
			return nil, err
		case !st.IsDir():
			err = in.openFile(ctx, path, st)
		case len(paths) > 1 && !opts.Once:
			err = fmt.Errorf("%s is a directory: convert it alone, each run makes an output of its own; or join runs "+
				"of one measurement by --once", path)
		default:
			err = in.openRuns(ctx, path)
		}
		if err != nil {
			return nil, err
		}
	}
	return in, nil
}

// openRuns opens the directory of a run, or of outputs with one run in it; with Once any number of runs.
func (in *Inputs) openRuns(ctx context.Context, path string) error {
	runs, err := recording.Runs(path)
	switch {
	case err != nil:
		return err
	case len(runs) == 0:
		runs = []string{path}
	case len(runs) > 1 && !in.opts.Once:
		return fmt.Errorf("%s has %d runs: name one of them, as %s; or join runs of one measurement by --once",
			path, len(runs), runs[0])
	}
	for _, run := range runs {
		c, print, err := openRun(ctx, run)
		if err != nil {
			return err
		}
		in.Runs = append(in.Runs, runOf(c.Manifest))
		if len(in.list) > 0 {
			c = nil
		}
		in.Bytes += print.bytes
		in.Print = append(in.Print, print.text)
		in.list = append(in.list, inputEntry{path: run, print: print.text, contents: c})
	}
	return nil
}

// printed is the fingerprint of a recording, and its size.
type printed struct {
	text  string
	bytes int64
}

// openRun reads the manifest and the indexes of a recording.
func openRun(ctx context.Context, path string) (*recording.Contents, printed, error) {
	c, err := recording.Read(ctx, path)
	if err != nil {
		return nil, printed{}, err
	}
	for p := range c.AllProblems {
		if p.Kind == recording.BeingWritten {
			return nil, printed{}, &LiveError{Path: path}
		}
	}
	var p printed
	held := func(s *recording.SegmentContents) { p.bytes += s.Bytes }
	if c.Merged != nil {
		held(c.Merged)
	}
	for b := range c.Builders {
		for s := range c.Builders[b].Segments {
			held(&c.Builders[b].Segments[s])
		}
	}
	p.text = fmt.Sprintf("run %d %s: %d MEPs, %d events, %d bytes", c.Manifest.Run, c.Manifest.Key, c.MEPSet.MEPs(),
		c.MEPSet.Events(), p.bytes)
	return c, p, nil
}

// openFile determines the format and the size of a file.
func (in *Inputs) openFile(ctx context.Context, path string, st fs.FileInfo) error {
	f, err := safeopen.Open(path)
	if err != nil {
		return err
	}
	defer func() { _ = f.Close() }() // only read from
	size := st.Size()
	o, open, err := recording.ReadOpenSegment(ctx, path)
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
	if in.opts.Once && format == inspect.FormatMDF {
		return fmt.Errorf("%s has MDF records, which do not say the number of their event, so --once cannot tell what "+
			"an earlier input has: name the directory of the run", path)
	}
	in.Bytes += size
	in.Print = append(in.Print, fmt.Sprintf("%s %s: %d bytes, %d", path, format, size, st.ModTime().UnixNano()))
	in.list = append(in.list, inputEntry{path: path, format: format, size: size})
	return nil
}

// Each passes all rows from a position on to the Consumer. The error is the Consumer's, of ctx, or of the system. With
// Once it first reads the input before the position again, to know its fragments.
func (in *Inputs) Each(ctx context.Context, from Position, to Consumer) error {
	u := &unfolder{to: to, banks: in.opts.Banks}
	if in.opts.Once {
		u.once = newOnce()
	}
	if in.opts.Once && from != (Position{}) {
		u.to = &passed{until: from}
		switch err := in.each(ctx, Position{}, u); {
		case err == nil:
			return errors.New("the inputs are not as they were when the conversion was begun: --force begins anew")
		case !errors.Is(err, errPassed):
			return err
		}
		u.to = to
	}
	return in.each(ctx, from, u)
}

// each goes through the inputs from a position on.
func (in *Inputs) each(ctx context.Context, from Position, u *unfolder) error {
	for at := from; at.File < len(in.list); {
		if u.once != nil {
			u.once.begin(at.File)
		}
		var err error
		next := at
		if in.list[at.File].print != "" {
			err = in.eachMEP(ctx, at, u)
		} else {
			next, err = in.eachUnit(ctx, at, u)
		}
		if err != nil {
			return err
		}
		at = Position{File: at.File + 1, Event: next.Event}
	}
	return nil
}

// eachUnit goes through one file.
func (in *Inputs) eachUnit(ctx context.Context, from Position, u *unfolder) (Position, error) {
	this := &in.list[from.File]
	u.file, u.run = this.path, in.opts.Run
	f, err := safeopen.Open(this.path)
	if err != nil {
		return from, err
	}
	defer func() { _ = f.Close() }() // only read from
	r := event.NewUnitReader(io.NewSectionReader(f, from.Offset, this.size-from.Offset), event.UnitReaderOptions{
		Format:       string(this.format),
		MaxUnitBytes: in.opts.MaxUnit,
		Verify:       true,
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

// skip reports a unit that the reader has refused, skips it, and returns the number of bytes skipped.
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

// unit passes on the rows of one unit.
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
