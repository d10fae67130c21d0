package conversion

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"ringlet/convert/output"
	"ringlet/event/slowdata"
	"ringlet/recording"
)

// slowFolder is the folder of the table of slow data in a directory. Readers of data sets ignore names that begin with
// an underscore: its columns are others.
const slowFolder = "_slow"

// slow reads the slow data of all inputs that are directories of runs, by time, each value once.
func (j *job) slow() (rows []output.SlowRow, err error) {
	known := map[[sha256.Size]byte]bool{}
	var dirs []string
	for _, path := range j.o.Inputs {
		if st, err := os.Stat(path); err != nil || !st.IsDir() {
			continue // a file: it has no slow data beside it
		}
		runs, err := recording.Runs(path)
		if err != nil {
			return nil, err
		}
		dirs = append(dirs, runs...)
	}
	for _, dir := range dirs {
		m, err := recording.Load(dir)
		if err != nil {
			return nil, err
		}
		broken, err := recording.EachSlowValue(dir, func(v *slowdata.Value) error {
			key := sha256.Sum256(fmt.Appendf(nil, "%d %s %t %d %s", m.Run, v.Name, v.IsText, v.Time.UnixMicro(), v.String()))
			if !known[key] {
				known[key] = true
				rows = append(rows, output.SlowRow{Run: m.Run, Value: *v})
			}
			return nil
		})
		if err != nil {
			return nil, err
		}
		j.state.SlowBroken += broken
	}
	slices.SortStableFunc(rows, func(a, b output.SlowRow) int { return a.Time.Compare(b.Time) })
	j.state.SlowValues = uint64(len(rows))
	return rows, nil
}

// writeSlow writes the table of slow data, if there is any, into its folder in the directory.
func (j *job) writeSlow() error {
	rows, err := j.slow()
	if err != nil || len(rows) == 0 {
		return err
	}
	folder := filepath.Join(j.dir, slowFolder)
	if err := makeItself(folder); err != nil {
		return err
	}
	if err := j.kind.WriteSlow(filepath.Join(folder, "00000."+j.kind.Name), rows); err != nil {
		return err
	}
	return errors.Join(syncDir(folder), syncDir(j.dir))
}

// placeSlow writes the table of slow data beside a single file.
func (j *job) placeSlow() error {
	rows, err := j.slow()
	if err != nil {
		return err
	}
	path := j.o.slowFile(j.kind)
	if len(rows) == 0 {
		if err := os.Remove(path); j.o.Force && err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("%s, the table of slow data of another conversion, cannot be removed: %w", path, err)
		}
		return nil
	}
	if err := j.kind.WriteSlow(path+partialSuffix, rows); err != nil {
		_ = os.Remove(path + partialSuffix)
		return err
	}
	if err := place(path+partialSuffix, path, j.o.Force); err != nil {
		_ = os.Remove(path + partialSuffix) // the next conversion would replace it
		return fmt.Errorf("%s, the table of slow data, cannot be placed: %w", path, err)
	}
	return nil
}
