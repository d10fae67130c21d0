package recording

import (
	"bufio"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"slices"
	"time"

	"golang.org/x/sys/unix"

	"ringlet/internal/crc32c"
	"ringlet/internal/safeopen"
)

// A backlog is a recording that a second filter drains (docs/backlog.md). What became of its segments is in a file
// beside them, drained.log, which only grows: lines of a CRC-32C as eight hexadecimal digits, a space, and JSON. The
// first line says where the events go. Each other line is of a segment whose events all have the second filter's
// decision, and are safe where they go. A line without its end is that of a process that was killed: it does not count.

// drainedName is the name of the file that says which segments of a backlog are drained.
const drainedName = "drained.log"

// Decisions is how many events a second filter decided about, by decision.
type Decisions struct {
	Accepted uint64 `json:"accepted"`
	Rejected uint64 `json:"rejected"`
	// RejectedKept is how many of the rejected ones were kept all the same: another event of their MEP was.
	RejectedKept uint64 `json:"rejected_kept"`
	TimedOut     uint64 `json:"timed_out"`
	Failed       uint64 `json:"failed"`
	// FoundInOutput is events that a process which was killed had put into the output: they were kept, and nobody knows
	// why.
	FoundInOutput uint64 `json:"found"`
	// Copies is events that were there again, built twice since a builder unit was lost. One copy is decided about.
	Copies uint64 `json:"copies"`
	// Damaged is events whose bytes are not those that were written. Their segment is never removed.
	Damaged uint64 `json:"damaged"`
}

// Add adds the events of another segment.
func (d *Decisions) Add(o Decisions) {
	d.Accepted, d.Rejected, d.TimedOut = d.Accepted+o.Accepted, d.Rejected+o.Rejected, d.TimedOut+o.TimedOut
	d.RejectedKept += o.RejectedKept
	d.Failed, d.FoundInOutput, d.Copies = d.Failed+o.Failed, d.FoundInOutput+o.FoundInOutput, d.Copies+o.Copies
	d.Damaged += o.Damaged
}

// Events is how many there are in all.
func (d *Decisions) Events() uint64 {
	return d.Accepted + d.Rejected + d.TimedOut + d.Failed + d.FoundInOutput + d.Copies + d.Damaged
}

// DrainedSegment is a segment whose events all have a decision.
type DrainedSegment struct {
	Segment string `json:"segment"` // name of the data
	CRC     string `json:"crc32c"`  // as in the manifest
	MEPs    uint64 `json:"meps"`
	Decisions
	DrainedAt time.Time `json:"at"`

	lineStart, lineEnd int64 // of its line in the file, which has its MEPs
}

// drainedMEPs is the MEPs of a segment in its line.
type drainedMEPs struct {
	Set [][]byte `json:"set"` // as MEPSet.Pieces gives them
}

// decode reads them.
func (d *drainedMEPs) decode(m *Manifest) (*MEPSet, error) {
	r := NewSetReader(m.NewMEPSet(), maxEvent)
	for _, piece := range d.Set {
		if err := r.Add(piece); err != nil {
			return nil, err
		}
	}
	return r.Set()
}

// maxEvent is beyond all events of a segment. The checksum of a line has vouched for its numbers.
const maxEvent = 1 << 62

// Destination is an output of a second filter.
type Destination struct {
	Directory string `json:"directory"` // what its manifest calls it; empty: it is no recording
	Path      string `json:"path"`      // for people
}

// ledgerLine is a line of the file: where the events go, or a segment.
type ledgerLine struct {
	Destinations []Destination   `json:"to,omitempty"`
	Segment      *DrainedSegment `json:"drained,omitempty"`
}

// Ledger is what is known of a backlog's drained segments, by its file. Of each it holds a small record; the MEPs stay
// in the file until they are asked for. One goroutine uses it.
type Ledger struct {
	dir            string
	destinations   []Destination
	segments       map[string]DrainedSegment // by name
	total          Decisions
	totalByBuilder map[int]builderTotal // by index
	manifest       *Manifest
	lines          int64    // that are read
	lastLine       int64    // where the last whole line begins,
	endOffset      int64    // and where the next one will
	reservedEnd    int64    // as far as the disk has room reserved
	cutOffFile     string   // file with what Open has cut off; empty: nothing
	f              *os.File // with its lock; nil: it is only read
	fsync          func(*os.File) error
	maxLine        int // bytes; tests make it small
}

// builderTotal is the drained segments of a builder unit.
type builderTotal struct {
	Decisions
	segments uint64
}

// NewLedger makes the ledger of the run in runDir, with that manifest. Nothing is read yet.
func NewLedger(runDir string, m *Manifest) *Ledger {
	return &Ledger{
		dir:            runDir,
		manifest:       m,
		segments:       map[string]DrainedSegment{},
		totalByBuilder: map[int]builderTotal{},
		fsync:          (*os.File).Sync,
		maxLine:        maxLedgerLine,
	}
}

func (l *Ledger) path() string { return filepath.Join(l.dir, drainedName) }

// Refresh reads what has come since the last time. It is no error that there is no file.
func (l *Ledger) Refresh() error {
	f, err := safeopen.OpenNoFollow(l.path())
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	} else if err != nil {
		return err
	}
	defer func() { _ = f.Close() }() // it was read
	st, err := f.Stat()
	if err != nil || st.Size() == l.endOffset {
		return err
	}
	if st.Size() < l.endOffset || !l.continuesFrom(f) {
		l.reset()
	}
	return l.readLines(bufio.NewReader(io.NewSectionReader(f, l.endOffset, math.MaxInt64-l.endOffset)))
}

// continuesFrom says that a line ends where this ledger has read to. It does not where lines were taken back that the
// disk would not have: those do not count.
func (l *Ledger) continuesFrom(f io.ReaderAt) bool {
	var b [1]byte
	_, err := f.ReadAt(b[:], max(l.endOffset-1, 0))
	return l.endOffset == 0 || err == nil && b[0] == '\n'
}

// reset makes it a ledger of which nothing is read.
func (l *Ledger) reset() {
	clear(l.segments)
	clear(l.totalByBuilder)
	l.destinations, l.total, l.lines, l.lastLine, l.endOffset = nil, Decisions{}, 0, 0, 0
}

// readLines takes the whole lines from the end on.
func (l *Ledger) readLines(r *bufio.Reader) error {
	for {
		line, err := l.readLine(r)
		if errors.Is(err, io.EOF) {
			return nil
		} else if err != nil {
			return err
		}
		next := l.endOffset + int64(len(line))
		if err := l.applyLine(line[:len(line)-1], next); err != nil {
			if _, more := r.Peek(1); errors.Is(more, io.EOF) { // Open cuts it off, and writes the next at this moment
				return nil
			}
			return fmt.Errorf("%s is damaged at byte %d: %w: nothing is removed, and nothing drained, until it is put right",
				l.path(), l.endOffset, err)
		}
		l.lines++
		l.lastLine, l.endOffset = l.endOffset, next
	}
}

// applyLine takes the line that ends before next.
func (l *Ledger) applyLine(line []byte, next int64) error {
	text, err := lineText(line)
	if err != nil {
		return err
	}
	var of ledgerLine
	if err := json.Unmarshal(text, &of); err != nil {
		return err
	}
	if of.Destinations != nil {
		l.destinations = of.Destinations
	}
	if d := of.Segment; d != nil {
		d.lineStart, d.lineEnd = l.endOffset, next
		l.total.Add(d.Decisions)
		l.segments[d.Segment] = *d
		id, _, _ := ParseSegment(d.Segment)
		of := l.totalByBuilder[id.Builder]
		of.Add(d.Decisions)
		of.segments++
		l.totalByBuilder[id.Builder] = of
	}
	return nil
}

// readMEPs reads the MEPs of a drained segment.
func (l *Ledger) readMEPs(d *DrainedSegment) (_ *MEPSet, err error) {
	defer func() {
		if err != nil {
			err = fmt.Errorf("%s, segment %s: %w", l.path(), d.Segment, err)
		}
	}()
	f, err := safeopen.OpenNoFollow(l.path())
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }() // it was read
	line := make([]byte, d.lineEnd-d.lineStart)
	if _, err := f.ReadAt(line, d.lineStart); err != nil {
		return nil, err
	}
	text, err := lineText(line[:len(line)-1])
	if err != nil {
		return nil, err
	}
	var of struct {
		Segment drainedMEPs `json:"drained"`
	}
	if err := json.Unmarshal(text, &of); err != nil {
		return nil, err
	}
	return of.Segment.decode(l.manifest)
}

// DrainingError says that a backlog is in the hand of another process, or goes elsewhere.
type DrainingError struct{ Dir, Reason string }

func (e *DrainingError) Error() string { return e.Dir + ": " + e.Reason }

// Open takes the ledger for this process alone, until Close, and reads it. The error is a *DrainingError if another
// process has it.
func (l *Ledger) Open() error {
	f, err := openExclusive(l.path())
	if errors.Is(err, errLocked) {
		return &DrainingError{l.dir, "another process filters this backlog: wait for it, or end it"}
	} else if err != nil {
		return err
	}
	l.f = f
	if err := l.repair(); err != nil {
		return errors.Join(err, l.Close())
	}
	return nil
}

// Destinations is where the events go; nil: nobody has begun.
func (l *Ledger) Destinations() []Destination { return l.destinations }

// SetDestinations says where the events go, once and for all.
func (l *Ledger) SetDestinations(to []Destination) error {
	return l.appendLine(ledgerLine{Destinations: to})
}

// repair reads the file, and cuts off what stands behind its last line that counts, after it was put into a file of its
// own: it is the half line of a killed process, or a line that counted and was changed since. The last
// line counts, and the process that wrote it may have been killed before the disk had it. It is written again, since a
// disk that once refused a line may say of it that it has it.
func (l *Ledger) repair() error {
	if err := l.Refresh(); err != nil {
		return err
	}
	st, err := l.f.Stat()
	if err == nil && st.Size() > l.endOffset {
		if l.cutOffFile, err = l.saveCutOff(st.Size()); err == nil {
			err = l.f.Truncate(l.endOffset)
		}
	}
	if err != nil || l.endOffset == 0 {
		return err
	}
	line := make([]byte, l.endOffset-l.lastLine)
	if _, err := l.f.ReadAt(line, l.lastLine); err != nil {
		return err
	}
	return l.writeLine(line, l.lastLine)
}

// cutOffSuffix is behind the ledger's name, before a number, for what was cut off.
const cutOffSuffix = ".cut-"

// maxCutOffFiles bounds how many such files there are.
const maxCutOffFiles = 1000

// saveCutOff copies what stands behind the lines that count to a file with a free name, and has it on the disk.
func (l *Ledger) saveCutOff(size int64) (path string, err error) {
	for n := 1; n <= maxCutOffFiles; n++ {
		path = fmt.Sprintf("%s%s%d", l.path(), cutOffSuffix, n)
		if pathExists(path) {
			continue
		}
		err := safeopen.WriteNoFollow(path+tempSuffix, io.NewSectionReader(l.f, l.endOffset, size-l.endOffset), 0o666)
		if err == nil {
			err = RenameNoReplace(path+tempSuffix, path)
		}
		if !errors.Is(err, fs.ErrExist) {
			return path, cmp.Or(err, SyncDir(l.dir))
		}
	}
	return "", fmt.Errorf("%s has %d files with what was cut off it: move them away", l.path(), maxCutOffFiles)
}

// CutOffFile is the file into which Open has put what stood behind the last line that counts; empty: nothing did.
func (l *Ledger) CutOffFile() string { return l.cutOffFile }

// ledgerReserve is how many bytes are reserved for lines. A disk that a backlog has filled gets room again by removing
// what is drained, and nothing is removed without a line.
const ledgerReserve = 1 << 20

// ReserveLedger makes the ledger of a run that is to be a backlog, without a line, and reserves room for some.
func ReserveLedger(runDir string) error {
	f, err := safeopen.OpenFileNoFollow(filepath.Join(runDir, drainedName), os.O_RDWR|os.O_CREATE, 0o666)
	if err != nil {
		return err
	}
	return errors.Join(reserveLedger(f, 0), f.Close())
}

// reserveLedger has the disk reserve room behind an offset. The size of the file stays.
func reserveLedger(f *os.File, from int64) error {
	err := unix.Fallocate(int(f.Fd()), unix.FALLOC_FL_KEEP_SIZE, from, ledgerReserve)
	if errors.Is(err, unix.EOPNOTSUPP) || errors.Is(err, unix.ENOSYS) {
		return nil // this file system cannot
	}
	return err
}

// writeLine writes a line, and has it on the disk.
func (l *Ledger) writeLine(line []byte, at int64) error {
	_, err := l.f.WriteAt(line, at)
	if err == nil {
		err = l.fsync(l.f)
	}
	if err == nil {
		err = SyncDir(l.dir)
	}
	return err
}

// appendLine writes a line behind the others. What was written of it before an error does not count.
func (l *Ledger) appendLine(of any) error {
	text, err := json.Marshal(of)
	if err != nil {
		return err
	}
	line := fmt.Appendf(nil, "%08x %s\n", crc32c.Sum(text), text)
	if len(line) > l.maxLine {
		return &lineError{Path: l.path(), Line: l.lines + 1, Max: l.maxLine}
	}
	// or else the line may find room all the same
	if l.endOffset+ledgerReserve/2 > l.reservedEnd && reserveLedger(l.f, l.endOffset) == nil {
		l.reservedEnd = l.endOffset + ledgerReserve
	}
	if err := l.writeLine(line, l.endOffset); err != nil {
		return errors.Join(err, l.f.Truncate(l.endOffset))
	}
	next := l.endOffset + int64(len(line))
	if err := l.applyLine(line[:len(line)-1], next); err != nil {
		return err
	}
	l.lines++
	l.lastLine, l.endOffset = l.endOffset, next
	return nil
}

// AppendSegment says that a segment is drained, with all its MEPs. When it returns the disk has it.
func (l *Ledger) AppendSegment(d DrainedSegment, meps *MEPSet) error {
	var of struct {
		Segment struct {
			DrainedSegment
			drainedMEPs
		} `json:"drained"`
	}
	of.Segment.DrainedSegment = d
	for piece := range meps.Pieces() {
		of.Segment.Set = append(of.Segment.Set, slices.Clone(piece))
	}
	return l.appendLine(of)
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

// Lookup is what became of a segment; false: it is not drained. One that has the name of a drained segment and other
// bytes is not: a manifest that was lost and made anew gives the numbers of removed segments out again.
func (l *Ledger) Lookup(s Segment) (DrainedSegment, bool) {
	d, ok := l.segments[s.Name]
	return d, ok && d.CRC == s.CRC && d.MEPs == s.MEPs
}

// HasName tells whether a segment of that name was drained.
func (l *Ledger) HasName(name string) bool {
	_, ok := l.segments[name]
	return ok
}

// MarkMEPsIn marks the MEPs of all drained segments in a set: its numbers count, and nothing else.
func (l *Ledger) MarkMEPsIn(in *MEPSet) error {
	for _, d := range l.segments {
		meps, err := l.readMEPs(&d)
		if err != nil {
			return err
		}
		in.MarkSet(meps)
	}
	return nil
}

// Total is the sum of all drained segments.
func (l *Ledger) Total() Decisions { return l.total }

// BuilderTotal is the sum of a builder unit's drained segments, and how many there are.
func (l *Ledger) BuilderTotal(builder int) (d Decisions, segments uint64) {
	of := l.totalByBuilder[builder]
	return of.Decisions, of.segments
}

// RemoveSegmentFiles takes the files of a drained segment away. The ledger stands for them from now on. A segment with
// damaged MEPs stays.
func (l *Ledger) RemoveSegmentFiles(s Segment) error {
	d, ok := l.Lookup(s)
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
