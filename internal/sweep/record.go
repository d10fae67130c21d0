package sweep

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"time"
)

// Kinds of lines in results.jsonl.
const (
	kindSweep     = "sweep"
	kindRun       = "run"
	kindReference = "reference"
)

// Start is the line that a sweep writes when it begins or is resumed.
type Start struct {
	Kind    string    `json:"kind"`
	Name    string    `json:"name"`
	File    string    `json:"file"`
	Hash    string    `json:"hash"` // SHA-256 of the file
	Text    string    `json:"text"`
	Rounds  int       `json:"rounds"`
	Cells   []string  `json:"cells"` // in the order of the file
	Started time.Time `json:"started"`
	Machine Machine   `json:"machine"`
}

// Record is the line of one run.
type Record struct {
	Kind     string          `json:"kind"`
	Series   string          `json:"series"`
	Cell     string          `json:"cell"`
	Round    int             `json:"round"`
	Varied   []Value         `json:"varied"`
	Fixed    []Value         `json:"fixed"`
	Setup    Setup           `json:"setup"`
	Args     []string        `json:"args"`
	Started  time.Time       `json:"started"`
	WallS    float64         `json:"wall_s"` // of the process, from start to end
	ExitCode int             `json:"exit_code"`
	Error    string          `json:"error,omitempty"` // a sentence: the run is no result
	Report   json.RawMessage `json:"report,omitempty"`
}

// Reference is the line of a reference, measured between runs.
type Reference struct {
	Kind    string    `json:"kind"`
	Name    string    `json:"name"`
	Series  string    `json:"series,omitempty"` // whose bed it was measured in
	Started time.Time `json:"started"`
	Gbps    float64   `json:"gbps"`
	Error   string    `json:"error,omitempty"`
}

// Results is everything in a results.jsonl.
type Results struct {
	Starts     []Start
	Runs       []Record
	References []Reference
}

// done says which runs have a result. One that failed is run again when its sweep is resumed.
func (r *Results) done() map[turnKey]bool {
	out := map[turnKey]bool{}
	for i := range r.Runs {
		one := &r.Runs[i]
		out[turnKey{one.Cell, one.Round}] = one.Error == ""
	}
	return out
}

// last leaves of the runs that were repeated after a failure the latest.
func (r *Results) last() []*Record {
	at := map[turnKey]int{}
	var out []*Record
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
	cell  string
	round int
}

// A ResultsError is a results.jsonl that cannot be used or continued.
type ResultsError struct {
	File string
	Line int // 0 = the whole
	Why  string
}

func (e *ResultsError) Error() string {
	if e.Line > 0 {
		return fmt.Sprintf("%s:%d: %s", e.File, e.Line, e.Why)
	}
	return e.File + ": " + e.Why
}

// parseResults reads lines. The last may be torn, by a machine that went down while it was written: whole is how many bytes are
// complete lines.
func parseResults(file string, text []byte) (out *Results, whole int, err error) {
	out = &Results{}
	for n := 1; len(text) > 0; n++ {
		line, rest, complete := bytes.Cut(text, []byte{'\n'})
		if !complete {
			break
		}
		if err := out.line(line); err != nil {
			return nil, 0, &ResultsError{file, n, err.Error()}
		}
		text, whole = rest, whole+len(line)+1
	}
	return out, whole, nil
}

func (r *Results) line(text []byte) error {
	var kind struct{ Kind string }
	if err := json.Unmarshal(text, &kind); err != nil {
		return fmt.Errorf("this is no line of a sweep: %w", err)
	}
	switch kind.Kind {
	case kindSweep:
		return appendLine(&r.Starts, text)
	case kindRun:
		if err := appendLine(&r.Runs, text); err != nil {
			return err
		}
		if last := &r.Runs[len(r.Runs)-1]; last.Setup.Credits == 0 {
			last.Setup.Credits = last.credits()
		}
		return nil
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

// log is a results.jsonl that is being written. Each line is on the disk before the next run begins.
type log struct{ file *os.File }

// openLog creates the file, or continues one that has the hash.
func openLog(path, hash string, resume bool) (*log, *Results, error) {
	if !resume {
		f, err := os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o666)
		if errors.Is(err, os.ErrExist) {
			return nil, nil, &ResultsError{File: path, Why: "is there already: continue it with --resume, or give another --out"}
		} else if err != nil {
			return nil, nil, err
		}
		return &log{f}, &Results{}, nil
	}
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	if errors.Is(err, os.ErrNotExist) {
		return nil, nil, &ResultsError{File: path, Why: "is not there: leave out --resume to begin"}
	} else if err != nil {
		return nil, nil, err
	}
	was, err := resumeLog(f, path, hash)
	if err != nil {
		return nil, nil, errors.Join(err, f.Close())
	}
	return &log{f}, was, nil
}

// resumeLog reads what is there and cuts off a torn last line.
func resumeLog(f *os.File, path, hash string) (*Results, error) {
	text, err := io.ReadAll(f)
	if err != nil {
		return nil, err
	}
	was, whole, err := parseResults(path, text)
	if err != nil {
		return nil, err
	}
	if len(was.Starts) == 0 {
		return nil, &ResultsError{File: path, Why: "has no first line that says which sweep it is of"}
	}
	if first := was.Starts[0]; first.Hash != hash {
		return nil, &ResultsError{File: path, Line: 1, Why: fmt.Sprintf(
			"the results are of a sweep file with the hash %.12s…, the file now has %.12s…: it was changed, so give another --out", first.Hash, hash)}
	}
	if err := f.Truncate(int64(whole)); err != nil {
		return nil, err
	}
	_, err = f.Seek(int64(whole), io.SeekStart)
	return was, err
}

// add writes a line and waits until it is on the disk.
func (l *log) add(line any) error {
	text, err := json.Marshal(line)
	if err != nil {
		return err
	}
	if _, err := l.file.Write(append(text, '\n')); err != nil {
		return err
	}
	return l.file.Sync()
}

func (l *log) close() error { return l.file.Close() }
