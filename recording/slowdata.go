package recording

import (
	"bufio"
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"ringlet/event/slowdata"
	"ringlet/internal/safeopen"
)

// Names of the files of slow data in the directory of a run: one for each node that wrote values.
const (
	slowDataPrefix = "slow-"
	slowDataSuffix = ".jsonl"
)

// slowDataPath is the file in which a node writes slow data.
func slowDataPath(runDir, node string) string {
	return filepath.Join(runDir, slowDataPrefix+node+slowDataSuffix)
}

// maxSlowDataBytes bounds the file of slow data that a node writes: some 2.5 million values.
const maxSlowDataBytes = 256 << 20

// A SlowDataFullError says that the file of slow data has no room for more values.
type SlowDataFullError struct{ Path string }

func (e *SlowDataFullError) Error() string {
	return fmt.Sprintf("%s has %d bytes, as many as it may have: the slow data of this run that come from now on are not "+
		"kept; send values more seldom, or begin a new run", e.Path, int64(maxSlowDataBytes))
}

// AppendSlowData appends whole lines of slow data, which end in a line feed, to the file of a node in the directory of
// a run. When it returns without an error, they are on the disk; after an error none is, unless the disk fails there,
// too. The error is a *SlowDataFullError, fs.ErrNotExist if there is no such run, or of the disk.
func AppendSlowData(runDir, node string, lines []byte) (err error) {
	if _, err := os.Lstat(manifestPath(runDir)); err != nil {
		return err
	}
	path := slowDataPath(runDir, node)
	f, err := safeopen.OpenFileNoFollow(path, os.O_RDWR|os.O_CREATE|os.O_APPEND, 0o666)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	if err := waitLock(f); err != nil {
		return err
	}
	st, err := f.Stat()
	if err != nil {
		return err
	}
	size := st.Size()
	if size+int64(len(lines)) > maxSlowDataBytes {
		return &SlowDataFullError{path}
	}
	last := []byte{'\n'}
	if size > 0 {
		if _, err := f.ReadAt(last, size-1); err != nil {
			return err
		}
	}
	if last[0] != '\n' { // a killed process left a line that is not whole
		lines = append([]byte{'\n'}, lines...)
	}
	if size == 0 { // a file with lines has its name on the disk
		if err := SyncDir(runDir); err != nil {
			return err
		}
	}
	if _, err = f.Write(lines); err == nil {
		err = f.Sync()
	}
	if err != nil {
		return errors.Join(err, f.Truncate(size))
	}
	return nil
}

// SlowData is what a reader finds of slow data in the directory of a run.
type SlowData struct {
	Values uint64    `json:"values"` // lines, each of which is a value; one may stand twice
	Names  []string  `json:"names"`  // in order
	First  time.Time `json:"first"`  // time of the earliest value, by its sender's clock
	Last   time.Time `json:"last"`   // time of the latest
	// BrokenLines are lines that are no values: a killed process leaves one that is not whole.
	BrokenLines uint64 `json:"broken_lines,omitempty"`
}

// String says in a sentence what there is.
func (s *SlowData) String() string {
	text := "no value of slow data is whole"
	if s.Values > 0 {
		text = fmt.Sprintf("slow data: %s of %s, from %s to %s", formatCount(s.Values, "value"),
			formatCount(len(s.Names), "name"), s.First.Format(time.RFC3339), s.Last.Format(time.RFC3339))
	}
	if s.BrokenLines > 0 {
		text += fmt.Sprintf("; %s no values: a process that is killed leaves one that is not whole",
			cmp.Or(map[uint64]string{1: "1 line is"}[s.BrokenLines], fmt.Sprintf("%d lines are", s.BrokenLines)))
	}
	return text
}

// readSlowData reads what there is of slow data in the directory of a run; nil if there is none.
func readSlowData(runDir string) (*SlowData, error) {
	out, names := &SlowData{}, map[string]bool{}
	broken, err := EachSlowValue(runDir, func(v *slowdata.Value) error {
		out.Values++
		if len(names) < maxSlowNames && !names[v.Name] {
			names[v.Name] = true
			out.Names = append(out.Names, v.Name)
		}
		if out.Values == 1 || v.Time.Before(out.First) {
			out.First = v.Time
		}
		if v.Time.After(out.Last) {
			out.Last = v.Time
		}
		return nil
	})
	out.BrokenLines = broken
	slices.Sort(out.Names)
	if err != nil || out.Values == 0 && broken == 0 {
		return nil, err
	}
	return out, nil
}

// maxSlowNames bounds how many names a reader lists: a control takes fewer, several controls may have written.
const maxSlowNames = 10_000

// EachSlowValue calls each with the values of slow data in the directory of a run, file by file, in the order in which
// they were written, and returns how many lines are no values. It passes on an error of each.
func EachSlowValue(runDir string, each func(*slowdata.Value) error) (broken uint64, err error) {
	names, err := slowDataFiles(runDir)
	if err != nil {
		return 0, err
	}
	for _, name := range names {
		n, err := eachSlowValueOf(filepath.Join(runDir, name), each)
		broken += n
		if err != nil {
			return broken, err
		}
	}
	return broken, nil
}

// slowDataFiles returns the names of the files of slow data in the directory of a run.
func slowDataFiles(runDir string) (names []string, err error) {
	entries, err := os.ReadDir(runDir)
	for _, e := range entries {
		if strings.HasPrefix(e.Name(), slowDataPrefix) && strings.HasSuffix(e.Name(), slowDataSuffix) {
			names = append(names, e.Name())
		}
	}
	return names, err
}

func eachSlowValueOf(path string, each func(*slowdata.Value) error) (broken uint64, err error) {
	f, err := safeopen.OpenNoFollow(path)
	if errors.Is(err, fs.ErrNotExist) {
		return 0, nil
	}
	if err != nil {
		return 0, err
	}
	defer func() { _ = f.Close() }() // it was only read
	lines := bufio.NewReaderSize(f, slowdata.MaxLine+1)
	for {
		line, err := lines.ReadSlice('\n')
		isLine := err == nil
		for errors.Is(err, bufio.ErrBufferFull) { // too long to be a value
			_, err = lines.ReadSlice('\n')
		}
		isValue := false
		if isLine {
			v, wrong := slowdata.ParseJSON(bytes.TrimSuffix(line, []byte{'\n'}))
			if isValue = wrong == nil; isValue {
				if err := each(&v); err != nil {
					return broken, err
				}
			}
		}
		if !isValue && (err == nil || len(line) > 0) {
			broken++
		}
		if errors.Is(err, io.EOF) {
			return broken, nil
		}
		if err != nil {
			return broken, err
		}
	}
}
