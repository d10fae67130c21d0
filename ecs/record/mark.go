package record

import (
	"errors"
	"fmt"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"ringlet/internal/safeopen"
)

// lastRunSuffix ends the name of the file with the highest run number ever taken. The file is beside the records, so
// that no number comes again when the records are removed, damaged or restored from an older copy.
const lastRunSuffix = ".last-run"

// saveLastRun writes a run number to that file, before NextRun returns it.
func (s *Store) saveLastRun(n uint32) error {
	s.lastRunMu.Lock()
	defer s.lastRunMu.Unlock()
	if s.lastRunPath == "" || n <= s.savedLastRun {
		return nil
	}
	temp := s.lastRunPath + ".new"
	err := safeopen.WriteNoFollow(temp, strings.NewReader(strconv.FormatUint(uint64(n), 10)+"\n"), 0o600)
	if err == nil {
		err = os.Rename(temp, s.lastRunPath)
	}
	if err == nil {
		err = syncDir(filepath.Dir(s.lastRunPath))
	}
	if err != nil {
		return fmt.Errorf("record: the run number %d cannot be kept in %s: %w", n, s.lastRunPath, err)
	}
	s.savedLastRun = n
	return nil
}

// applyLastRun makes the next number higher than the one in that file.
func (s *Store) applyLastRun() error {
	text, err := safeopen.ReadNoFollow(s.lastRunPath, safeopen.MaxTextSize)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	n, bad := strconv.ParseUint(strings.TrimSpace(string(text)), 10, 32)
	if err = errors.Join(err, bad); err != nil {
		return &DamagedError{s.lastRunPath, "the highest run number", err.Error()}
	}
	if n == math.MaxUint32 {
		return &DamagedError{s.lastRunPath, "the highest run number",
			"no number is left behind it: remove this file if it is wrong"}
	}
	return s.RaiseNextNumber(uint32(n) + 1)
}
