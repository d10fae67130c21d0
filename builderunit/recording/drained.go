package recording

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"time"

	"ringlet/internal/crc32c"
)

// A backlog is a recording that a second filter drains (docs/backlog.md). What became of its segments is in a file
// beside them, drained.log, which only grows: lines of a CRC-32C as eight hexadecimal digits, a space, and JSON. The
// first line says where the events go. Each other line is of a segment whose events all have the second filter's
// decision, and are safe where they go. A line without its end is that of a process that was killed: it does not count.

// drainedName is the name of the file that says which segments of a backlog are drained.
const drainedName = "drained.log"

// Decided is how many events a second filter decided about, by decision.
type Decided struct {
	Accepted uint64 `json:"accepted"`
	Rejected uint64 `json:"rejected"`
	TimedOut uint64 `json:"timed_out"`
	Failed   uint64 `json:"failed"`
	// Found is events that a process which was killed had put into the output: they were kept, and nobody knows why.
	Found uint64 `json:"found"`
	// Copies is events that were there again, built twice since a builder unit was lost. One copy is decided about.
	Copies uint64 `json:"copies"`
	// Damaged is events whose bytes are not those that were written. Their segment is never removed.
	Damaged uint64 `json:"damaged"`
}

// Add adds the events of another segment.
func (d *Decided) Add(o Decided) {
	d.Accepted, d.Rejected, d.TimedOut = d.Accepted+o.Accepted, d.Rejected+o.Rejected, d.TimedOut+o.TimedOut
	d.Failed, d.Found, d.Copies = d.Failed+o.Failed, d.Found+o.Found, d.Copies+o.Copies
	d.Damaged += o.Damaged
}

// Events is how many there are in all.
func (d *Decided) Events() uint64 {
	return d.Accepted + d.Rejected + d.TimedOut + d.Failed + d.Found + d.Copies + d.Damaged
}

// Drained is a segment whose events all have a decision.
type Drained struct {
	Segment string `json:"segment"` // name of the data
	CRC     string `json:"crc32c"`  // as in the manifest
	MEPs    uint64 `json:"meps"`
	Decided
	At  time.Time `json:"at"`
	Set [][]byte  `json:"set"` // its MEPs, as Set.Pieces gives them

	meps *Set // the same
}

// set is the MEPs of the segment.
func (d *Drained) set(m *Manifest) (*Set, error) {
	r := NewSetReader(m.Packing, maxEvent)
	if m.Live {
		r = NewLiveSetReader(m.Packing, maxEvent)
	}
	for _, piece := range d.Set {
		if err := r.Add(piece); err != nil {
			return nil, fmt.Errorf("%s, segment %s: %w", drainedName, d.Segment, err)
		}
	}
	return r.Set()
}

// maxEvent is beyond all events of a segment. The checksum of a line has vouched for its numbers.
const maxEvent = 1 << 62

// Place is an output of a second filter.
type Place struct {
	Directory string `json:"directory"` // what its manifest calls it; empty: it is no recording
	Path      string `json:"path"`      // for people
}

// drainedLine is a line of the file: where the events go, or a segment.
type drainedLine struct {
	To      []Place  `json:"to,omitempty"`
	Segment *Drained `json:"drained,omitempty"`
}

// Ledger is what is known of a backlog's drained segments, by its file. One goroutine uses it.
type Ledger struct {
	dir      string
	to       []Place
	segments map[string]Drained // by name
	total    Decided
	manifest *Manifest
	end      int64    // behind the last whole line
	f        *os.File // with its lock; nil: it is only read
}

// NewLedger makes the ledger of the run in runDir, with that manifest. Nothing is read yet.
func NewLedger(runDir string, m *Manifest) *Ledger {
	return &Ledger{dir: runDir, manifest: m, segments: map[string]Drained{}}
}

// Look reads what has come since the last time. It is no error that there is no file.
func (l *Ledger) Look() error {
	path := filepath.Join(l.dir, drainedName)
	f, err := os.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	} else if err != nil {
		return err
	}
	defer func() { _ = f.Close() }() // it was read
	st, err := f.Stat()
	if err != nil || st.Size() <= l.end {
		return err
	}
	b := make([]byte, st.Size()-l.end)
	n, err := f.ReadAt(b, l.end)
	if n < len(b) && errors.Is(err, io.EOF) {
		return nil // it has become shorter: half a line was cut off
	} else if n < len(b) {
		return err
	}
	for {
		line, rest, whole := bytes.Cut(b, []byte("\n"))
		if !whole {
			return nil
		}
		if err := l.take(line); err != nil {
			if len(rest) == 0 { // it never counted: Open cuts it off, and writes the next at this moment
				return nil
			}
			return fmt.Errorf("%s is damaged at byte %d: %w: nothing is removed, and nothing drained, until it is put right",
				path, l.end, err)
		}
		l.end += int64(len(line)) + 1
		b = rest
	}
}

// sumDigits is how many digits stand before a line.
const sumDigits = 8

// take takes a line.
func (l *Ledger) take(line []byte) error {
	if len(line) <= sumDigits || line[sumDigits] != ' ' {
		return errors.New("a line has no checksum")
	}
	said, err := strconv.ParseUint(string(line[:sumDigits]), 16, 32)
	text := line[sumDigits+1:]
	if err != nil || uint32(said) != crc32c.Sum(text) {
		return errors.New("the checksum of a line is wrong")
	}
	var of drainedLine
	if err := json.Unmarshal(text, &of); err != nil {
		return err
	}
	if of.To != nil {
		l.to = of.To
	}
	if of.Segment == nil {
		return nil
	}
	return l.count(of.Segment)
}

// count takes a segment up.
func (l *Ledger) count(d *Drained) error {
	var err error
	if d.meps, err = d.set(l.manifest); err != nil {
		return err
	}
	l.total.Add(d.Decided)
	d.Set = nil
	l.segments[d.Segment] = *d
	return nil
}

// DrainingError says that a backlog is in the hand of another process, or goes elsewhere.
type DrainingError struct{ Dir, Reason string }

func (e *DrainingError) Error() string { return e.Dir + ": " + e.Reason }

// Open takes the ledger for this process alone, until Close, and reads it. The error is a *DrainingError if another
// process has it.
func (l *Ledger) Open() error {
	f, err := seize(filepath.Join(l.dir, drainedName))
	if errors.Is(err, errLocked) {
		return &DrainingError{l.dir, "another process filters this backlog: wait for it, or end it"}
	} else if err != nil {
		return err
	}
	l.f = f
	if err := l.mend(); err != nil {
		return errors.Join(err, l.Close())
	}
	return nil
}

// To is where the events go; nil: nobody has begun.
func (l *Ledger) To() []Place { return l.to }

// Begin says where the events go, once and for all.
func (l *Ledger) Begin(to []Place) error { return l.append(drainedLine{To: to}) }

// mend reads the file, and cuts off what a killed process left behind its last whole line: that never counted.
func (l *Ledger) mend() error {
	if err := l.Look(); err != nil {
		return err
	}
	st, err := l.f.Stat()
	if err == nil && st.Size() > l.end {
		err = l.f.Truncate(l.end)
	}
	return err
}

// append writes a line, and has it on the disk. What was written of it before an error does not count.
func (l *Ledger) append(of drainedLine) error {
	text, err := json.Marshal(of)
	if err != nil {
		return err
	}
	line := fmt.Appendf(nil, "%08x %s\n", crc32c.Sum(text), text)
	if _, err = l.f.WriteAt(line, l.end); err == nil {
		err = l.f.Sync()
	}
	if err == nil {
		err = SyncDir(l.dir)
	}
	if err != nil {
		return errors.Join(err, l.f.Truncate(l.end))
	}
	l.end += int64(len(line))
	if of.To != nil {
		l.to = of.To
	}
	return nil
}

// Append says that a segment is drained, with all its MEPs. When it returns the disk has it.
func (l *Ledger) Append(d Drained, meps *Set) error {
	for piece := range meps.Pieces() {
		d.Set = append(d.Set, slices.Clone(piece))
	}
	if err := l.append(drainedLine{Segment: &d}); err != nil {
		return err
	}
	return l.count(&d)
}

// Close gives the ledger back to others.
func (l *Ledger) Close() error {
	if l.f == nil {
		return nil
	}
	err := l.f.Close()
	l.f = nil
	return err
}

// Of is what became of a segment; false: it is not drained. One that has the name of a drained segment and other bytes
// is not: a manifest that was lost and made anew gives the numbers of removed segments out again.
func (l *Ledger) Of(s Segment) (Drained, bool) {
	d, ok := l.segments[s.Name]
	return d, ok && d.CRC == s.CRC && d.MEPs == s.MEPs
}

// Named tells whether a segment of that name was drained.
func (l *Ledger) Named(name string) bool {
	_, ok := l.segments[name]
	return ok
}

// Set is the MEPs of all drained segments.
func (l *Ledger) Set() *Set {
	all := l.manifest.newSet()
	for _, d := range l.segments {
		all.Union(d.meps)
	}
	return all
}

// Total is the sum of all drained segments.
func (l *Ledger) Total() Decided { return l.total }

// Each gives the drained segments of a builder unit, or with -1 of all, in any order.
func (l *Ledger) Each(builder int) func(func(Drained) bool) {
	return func(yield func(Drained) bool) {
		for name, d := range l.segments {
			id, _, _ := ParseSegment(name)
			if (builder < 0 || id.Builder == builder) && !yield(d) {
				return
			}
		}
	}
}

// Remove takes the files of a drained segment away. The ledger stands for them from now on. A segment with damaged
// MEPs stays.
func (l *Ledger) Remove(s Segment) error {
	d, ok := l.Of(s)
	id, _, isSegment := ParseSegment(s.Name)
	if !ok || !isSegment || d.Damaged > 0 || l.f == nil {
		return fmt.Errorf("%s is not to be removed", filepath.Join(l.dir, s.Name))
	}
	for _, file := range []string{id.Name(), id.Index()} { // an index alone is known to be of a drained segment
		if err := removeFile(filepath.Join(l.dir, file)); err != nil {
			return err
		}
	}
	return SyncDir(l.dir)
}
