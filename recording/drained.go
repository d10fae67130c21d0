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

// A backlog is a recording that a second filter drains (docs/backlog.md). The file drained.log beside its segments
// says which of them are drained. It only grows: each line is a CRC-32C as eight hexadecimal digits, a space, and
// JSON. The first line says to which outputs the events go. Each other line is a segment whose events all have the
// second filter's decision and are safe in the outputs. A last line without its end is left by a killed process and
// does not count.

// drainedName is the name of the ledger in the directory of a run.
const drainedName = "drained.log"

// Decisions counts events by what the second filter decided.
type Decisions struct {
	Accepted uint64 `json:"accepted"`
	Rejected uint64 `json:"rejected"`
	// RejectedKept is how many rejected events are in the output all the same, since another event of their MEP was
	// accepted.
	RejectedKept uint64 `json:"rejected_kept"`
	TimedOut     uint64 `json:"timed_out"`
	Failed       uint64 `json:"failed"`
	// FoundInOutput is events that a killed process had written to the output: they were kept, and their decision is
	// lost.
	FoundInOutput uint64 `json:"found"`
	// Copies is how many events are in further copies of MEPs: a MEP has a second copy if a builder unit was lost and
	// another one built the MEP again. One copy is judged.
	Copies uint64 `json:"copies"`
	// Damaged is events whose bytes were changed. Their segment is never removed.
	Damaged uint64 `json:"damaged"`
}

// Add adds the events of another segment.
func (d *Decisions) Add(o Decisions) {
	d.Accepted, d.Rejected, d.TimedOut = d.Accepted+o.Accepted, d.Rejected+o.Rejected, d.TimedOut+o.TimedOut
	d.RejectedKept += o.RejectedKept
	d.Failed, d.FoundInOutput, d.Copies = d.Failed+o.Failed, d.FoundInOutput+o.FoundInOutput, d.Copies+o.Copies
	d.Damaged += o.Damaged
}

// Events returns how many events there are in all.
func (d *Decisions) Events() uint64 {
	return d.Accepted + d.Rejected + d.TimedOut + d.Failed + d.FoundInOutput + d.Copies + d.Damaged
}

// DrainedSegment is a segment whose events all have a decision.
type DrainedSegment struct {
	Segment string `json:"segment"` // name of the data file
	CRC     string `json:"crc32c"`  // as in the manifest
	MEPs    uint64 `json:"meps"`
	Decisions
	DrainedAt time.Time `json:"at"`

	lineStart, lineEnd int64 // place of its line in the file; the line also has its MEPs
}

// drainedMEPs is the MEPs of a segment as its line has them.
type drainedMEPs struct {
	Set [][]byte `json:"set"` // as MEPSet.Pieces gives them
}

// decode returns the MEPs as a set.
func (d *drainedMEPs) decode(m *Manifest) (*MEPSet, error) {
	r := NewSetReader(m.NewMEPSet(), maxEvent)
	for _, piece := range d.Set {
		if err := r.Add(piece); err != nil {
			return nil, err
		}
	}
	return r.Set()
}

// maxEvent is above all event numbers of a segment. The checksum of the line proves the numbers, so no tighter bound
// is needed.
const maxEvent = 1 << 62

// Destination is an output of a second filter.
type Destination struct {
	Directory string `json:"directory"` // id in its manifest; empty: it is no recording
	Path      string `json:"path"`      // shown to users
}

// ledgerLine is a line of the ledger: the destinations, or a segment.
type ledgerLine struct {
	Destinations []Destination   `json:"to,omitempty"`
	Segment      *DrainedSegment `json:"drained,omitempty"`
}

// Ledger is the drained segments of a backlog, as its file has them. It holds a small record of each in memory; the
// MEPs stay in the file until they are needed. One goroutine uses it.
type Ledger struct {
	dir            string
	destinations   []Destination
	segments       map[string]DrainedSegment // by name
	total          Decisions
	totalByBuilder map[int]builderTotal // by index
	manifest       *Manifest
	lines          int64    // lines read
	lastLine       int64    // offset of the last whole line,
	endOffset      int64    // and of the line after it
	reservedEnd    int64    // the disk has reserved room up to this offset
	cutOffFile     string   // file to which Open moved the cut-off end; empty: there was none
	f              *os.File // locked file; nil: the ledger is only read
	fsync          func(*os.File) error
	maxLine        int // bytes; tests make it small
}

// builderTotal is the sum over the drained segments of a builder unit.
type builderTotal struct {
	Decisions
	segments uint64
}

// NewLedger makes the ledger of the run in runDir, whose manifest is m. It reads nothing yet.
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

// Refresh reads the lines added since the last call. A missing file is no error.
func (l *Ledger) Refresh() error {
	f, err := safeopen.OpenNoFollow(l.path())
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	} else if err != nil {
		return err
	}
	defer func() { _ = f.Close() }() // it was only read
	st, err := f.Stat()
	if err != nil || st.Size() == l.endOffset {
		return err
	}
	if st.Size() < l.endOffset || !l.continuesFrom(f) {
		l.reset()
	}
	return l.readLines(bufio.NewReader(io.NewSectionReader(f, l.endOffset, math.MaxInt64-l.endOffset)))
}

// continuesFrom says that a line ends at endOffset. It does not if a process took back a line, which does not count,
// because the disk refused it.
func (l *Ledger) continuesFrom(f io.ReaderAt) bool {
	var b [1]byte
	_, err := f.ReadAt(b[:], max(l.endOffset-1, 0))
	return l.endOffset == 0 || err == nil && b[0] == '\n'
}

// reset forgets all lines.
func (l *Ledger) reset() {
	clear(l.segments)
	clear(l.totalByBuilder)
	l.destinations, l.total, l.lines, l.lastLine, l.endOffset = nil, Decisions{}, 0, 0, 0
}

// readLines reads the whole lines from endOffset on.
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
			if _, more := r.Peek(1); errors.Is(more, io.EOF) { // Open cuts it off at this moment, and writes the next line
				return nil
			}
			return fmt.Errorf("%s is damaged at byte %d: %w: nothing is removed, and nothing drained, until it is put right",
				l.path(), l.endOffset, err)
		}
		l.lines++
		l.lastLine, l.endOffset = l.endOffset, next
	}
}

// applyLine adds a line to the ledger; next is the offset after it.
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

// readMEPs reads the MEPs of a drained segment from its line.
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
	defer func() { _ = f.Close() }() // it was only read
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

// DrainingError says that another process uses a backlog, or that its events go to other outputs.
type DrainingError struct{ Dir, Reason string }

func (e *DrainingError) Error() string { return e.Dir + ": " + e.Reason }

// Open locks the ledger for this process until Close, and reads it. The error is a *DrainingError if another process
// has the lock.
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

// Destinations returns the outputs to which the events go; nil: no process has begun to drain.
func (l *Ledger) Destinations() []Destination { return l.destinations }

// SetDestinations writes the outputs to which the events go. It is called once for a backlog.
func (l *Ledger) SetDestinations(to []Destination) error {
	return l.appendLine(ledgerLine{Destinations: to})
}

// repair reads the file, and moves everything after its last valid line to a file of its own: a killed process left
// half a line there, or a line was changed since it was written. Then it writes the last valid line again: the process
// that wrote the line may have been killed before the line was on the disk, and a disk that once failed to write a
// line may report it as written.
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

// cutOffSuffix follows the ledger's name, and a number follows it, in the names of files with cut-off bytes.
const cutOffSuffix = ".cut-"

// maxCutOffFiles bounds the number of such files.
const maxCutOffFiles = 1000

// saveCutOff copies the bytes after the last valid line to a file with a free name, and flushes it to the disk.
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

// CutOffFile returns the file to which Open moved the bytes after the last valid line; empty: there were none.
func (l *Ledger) CutOffFile() string { return l.cutOffFile }

// ledgerReserve is how many bytes are reserved on the disk for lines: when a backlog has filled its disk, the Drainer
// gets room by removing drained segments, and it removes none without a line.
const ledgerReserve = 1 << 20

// ReserveLedger makes an empty ledger for a run that is to be a backlog, and reserves room for lines.
func ReserveLedger(runDir string) error {
	f, err := safeopen.OpenFileNoFollow(filepath.Join(runDir, drainedName), os.O_RDWR|os.O_CREATE, 0o666)
	if err != nil {
		return err
	}
	return errors.Join(reserveLedger(f, 0), f.Close())
}

// reserveLedger reserves room on the disk from an offset on. The size of the file stays.
func reserveLedger(f *os.File, from int64) error {
	err := unix.Fallocate(int(f.Fd()), unix.FALLOC_FL_KEEP_SIZE, from, ledgerReserve)
	if errors.Is(err, unix.EOPNOTSUPP) || errors.Is(err, unix.ENOSYS) {
		return nil // this file system cannot reserve
	}
	return err
}

// writeLine writes a line and flushes it to the disk.
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

// appendLine writes a line after the others. After an error it cuts the file back to the lines before.
func (l *Ledger) appendLine(of any) error {
	text, err := json.Marshal(of)
	if err != nil {
		return err
	}
	line := fmt.Appendf(nil, "%08x %s\n", crc32c.Sum(text), text)
	if len(line) > l.maxLine {
		return &lineError{Path: l.path(), Line: l.lines + 1, Max: l.maxLine}
	}
	// without a reservation there may still be room for the line
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

// AppendSegment writes the line of a drained segment with all its MEPs. When it returns, the line is on the disk.
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

// Close unlocks the ledger for other processes.
func (l *Ledger) Close() error {
	if l.f == nil {
		return nil
	}
	err := l.f.Close()
	l.f = nil
	return err
}

// Lookup returns the line of a segment; false: it is not drained. A segment with the name of a drained one and other
// bytes is not drained: a manifest that was lost and made anew gives the numbers of removed segments out again.
func (l *Ledger) Lookup(s Segment) (DrainedSegment, bool) {
	d, ok := l.segments[s.Name]
	return d, ok && d.CRC == s.CRC && d.MEPs == s.MEPs
}

// HasName says whether a segment of that name was drained.
func (l *Ledger) HasName(name string) bool {
	_, ok := l.segments[name]
	return ok
}

// MarkMEPsIn marks the MEPs of all drained segments in a set, by their numbers alone.
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

// Total returns the sum of all drained segments.
func (l *Ledger) Total() Decisions { return l.total }

// BuilderTotal returns the sum over a builder unit's drained segments, and how many there are.
func (l *Ledger) BuilderTotal(builder int) (d Decisions, segments uint64) {
	of := l.totalByBuilder[builder]
	return of.Decisions, of.segments
}

// RemoveSegmentFiles removes the files of a drained segment. From then on only the ledger has it. A segment with
// damaged MEPs stays.
func (l *Ledger) RemoveSegmentFiles(s Segment) error {
	d, ok := l.Lookup(s)
	id, _, isSegment := ParseSegment(s.Name)
	if !ok || !isSegment || d.Damaged > 0 || l.f == nil {
		return fmt.Errorf("%s stays: the ledger does not list it as drained, or it has damaged MEPs",
			filepath.Join(l.dir, s.Name))
	}
	for _, file := range []string{id.Name(), id.Index()} { // an index alone may be left of a drained segment
		if err := removeFile(filepath.Join(l.dir, file)); err != nil {
			return err
		}
	}
	return SyncDir(l.dir)
}
