package sweep

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"time"

	"golang.org/x/sys/unix"

	"ringlet/internal/safeopen"
	"ringlet/lab/page"
	"ringlet/lab/trial"
)

// Kinds of lines in results.jsonl.
const (
	kindSweep     = "sweep"
	kindRun       = "run"
	kindReference = "reference"
)

// startLine is written when a sweep begins or is resumed.
type startLine struct {
	Kind     string        `json:"kind"`
	Name     string        `json:"name"`
	File     string        `json:"file"`
	Command  string        `json:"command,omitempty"`
	Hash     string        `json:"hash"`           // SHA-256 of the file
	BedsHash string        `json:"beds,omitempty"` // SHA-256 of the files of its test beds, if any
	Text     string        `json:"text"`
	Rounds   int           `json:"rounds"`
	Cells    []string      `json:"cells"` // in the order of the file
	Started  time.Time     `json:"started"`
	Machine  page.Machine  `json:"machine"`
	Bounds   []trial.Bound `json:"bounds,omitempty"`
}

// runLine is the line of one run.
type runLine struct {
	Kind      string          `json:"kind"`
	Series    string          `json:"series"`
	Cell      string          `json:"cell"`
	Round     int             `json:"round"`
	Varied    []Value         `json:"varied"`
	Fixed     []Value         `json:"fixed"`
	Setup     setup           `json:"setup"`
	Args      []string        `json:"args"`
	Started   time.Time       `json:"started"`
	WallS     float64         `json:"wall_s"`                // of the process, from start to end
	OtherCPUs *float64        `json:"others_cpus,omitempty"` // processors that other programs used; nil: not known
	ExitCode  int             `json:"exit_code"`
	Error     string          `json:"error,omitempty"` // a sentence, if the run failed
	Report    json.RawMessage `json:"report,omitempty"`
}

// referenceLine is the line of a reference, measured between runs.
type referenceLine struct {
	Kind      string        `json:"kind"`
	Name      string        `json:"name"`
	Series    string        `json:"series,omitempty"` // of the series in whose bed it was measured
	Started   time.Time     `json:"started"`
	Gbps      float64       `json:"gbps"`
	OtherCPUs *float64      `json:"others_cpus,omitempty"` // as for a run
	Error     string        `json:"error,omitempty"`
	Round     int           `json:"round,omitempty"`   // for a reference that the file names: the round that it belongs to
	Figures   trial.Figures `json:"figures,omitempty"` // for a reference that the file names
}

// results is the content of a results.jsonl.
type results struct {
	Starts     []startLine
	Runs       []runLine
	References []referenceLine
}

// doneTurns says which turns have a result. A resumed sweep repeats those that failed.
func (r *results) doneTurns() map[turnKey]bool {
	out := map[turnKey]bool{}
	for i := range r.Runs {
		one := &r.Runs[i]
		out[turnKey{one.Cell, one.Round}] = one.Error == ""
	}
	for _, ref := range r.References {
		out[turnKey{ref.Name, ref.Round}] = ref.Error == ""
	}
	return out
}

// latestRuns lists each run once: after a failure and a repetition, only the latest.
func (r *results) latestRuns() []*runLine {
	at := map[turnKey]int{}
	var out []*runLine
	for i := range r.Runs {
		one := &r.Runs[i]
		k := turnKey{one.Cell, one.Round}
		if j, again := at[k]; again {
			out[j] = one
			continue
		}
		at[k] = len(out)
		out = append(out, one)
	}
	return out
}

type turnKey struct {
	name  string // of a cell or of a reference
	round int
}

// A ResultsError is a results.jsonl that cannot be used or continued.
type ResultsError struct {
	File string
	Line int // 0 = the whole file
	Why  string
}

func (e *ResultsError) Error() string {
	if e.Line > 0 {
		return fmt.Sprintf("%s:%d: %s", e.File, e.Line, e.Why)
	}
	return e.File + ": " + e.Why
}

// parseResults reads lines. The last line may be torn, if the machine went down during the write: completeLen is the
// length of all complete lines, in bytes.
func parseResults(file string, text []byte) (out *results, completeLen int, err error) {
	out = &results{}
	for n := 1; len(text) > 0; n++ {
		line, rest, complete := bytes.Cut(text, []byte{'\n'})
		if !complete {
			break
		}
		if err := out.line(line); err != nil {
			return nil, 0, &ResultsError{file, n, err.Error()}
		}
		text, completeLen = rest, completeLen+len(line)+1
	}
	return out, completeLen, nil
}

func (r *results) line(text []byte) error {
	var kind struct{ Kind string }
	if err := json.Unmarshal(text, &kind); err != nil {
		return fmt.Errorf("this is no line of a sweep: %w", err)
	}
	switch kind.Kind {
	case kindSweep:
		return appendLine(&r.Starts, text)
	case kindRun:
		return appendLine(&r.Runs, text)
	case kindReference:
		return appendLine(&r.References, text)
	}
	return fmt.Errorf("a line of kind %q is not known here: it is of another version", kind.Kind)
}

func appendLine[T any](to *[]T, text []byte) error {
	var one T
	if err := json.Unmarshal(text, &one); err != nil {
		return fmt.Errorf("this is no line of a sweep: %w", err)
	}
	*to = append(*to, one)
	return nil
}

// resultsLog is a results.jsonl that is being written. Each line is on the disk before the next run begins.
type resultsLog struct{ file *os.File }

// openLog creates the file for a sweep, or opens it to continue. It locks the file until close: two sweeps would
// overwrite each other's lines, and disturb each other's runs.
func openLog(path string, of *Sweep, resume bool) (*resultsLog, *results, error) {
	how := os.O_RDWR
	if !resume {
		how |= os.O_CREATE
	}
	f, err := safeopen.OpenFileNoFollow(path, how, 0o666)
	if errors.Is(err, os.ErrNotExist) && resume {
		return nil, nil, &ResultsError{File: path, Why: "is not there: leave out --resume to begin"}
	} else if err != nil {
		return nil, nil, err
	}
	l := &resultsLog{f}
	was, err := l.readExisting(path, of, resume)
	if err != nil {
		return nil, nil, errors.Join(err, l.close())
	}
	return l, was, nil
}

// readExisting locks the file and reads its content. An empty file is left by a sweep that was killed before its first
// line.
func (l *resultsLog) readExisting(path string, of *Sweep, resume bool) (*results, error) {
	if err := unix.Flock(int(l.file.Fd()), unix.LOCK_EX|unix.LOCK_NB); errors.Is(err, unix.EWOULDBLOCK) {
		return nil, &ResultsError{File: path,
			Why: "is being written by another sweep: wait for its end, or give another --out"}
	} else if err != nil {
		return nil, fmt.Errorf("%s cannot be locked: %w", path, err)
	}
	text, err := io.ReadAll(l.file)
	switch {
	case err != nil:
		return nil, err
	case len(text) == 0:
		return &results{}, nil
	case !resume:
		return nil, &ResultsError{File: path, Why: "is there already: continue it with --resume, or give another --out"}
	}
	was, completeLen, err := parseResults(path, text)
	if err == nil {
		err = was.checkContinues(path, of)
	}
	if err != nil {
		return nil, err
	}
	if err := l.file.Truncate(int64(completeLen)); err != nil { // a torn last line
		return nil, err
	}
	_, err = l.file.Seek(int64(completeLen), io.SeekStart)
	return was, err
}

// checkContinues says why the results are not of this sweep, or returns nil.
func (r *results) checkContinues(path string, s *Sweep) error {
	if len(r.Starts) == 0 {
		return &ResultsError{File: path, Why: "has no first line that says which sweep it is of"}
	}
	const changed = "the results are of %s with the hash %.12s…, now it has %.12s…: it was changed, so give another --out"
	for i := range r.Starts {
		switch was := &r.Starts[i]; {
		case was.Hash != s.Hash:
			return &ResultsError{File: path, Why: fmt.Sprintf(changed, "a sweep file", was.Hash, s.Hash)}
		case was.BedsHash != "" && was.BedsHash != s.BedsHash: // results from before 2026-11-21 lack BedsHash
			return &ResultsError{File: path, Why: fmt.Sprintf(changed, "a test bed's file", was.BedsHash, s.BedsHash)}
		}
	}
	return nil
}

// add writes a line and syncs it to the disk.
func (l *resultsLog) add(text []byte) error {
	if _, err := l.file.Write(append(slices.Clip(text), '\n')); err != nil {
		return err
	}
	return l.file.Sync()
}

func (l *resultsLog) close() error { return l.file.Close() }
