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

// markSuffix is behind the name of the file that holds the highest run number ever taken. It stands beside the records,
// so that no number comes again when they are removed, damaged or put back from an older copy.
const markSuffix = ".last-run"

// saveMark notes a number that the records have, before anybody else hears of it.
func (s *Store) saveMark(n uint32) error {
	s.marking.Lock()
	defer s.marking.Unlock()
	if s.mark == "" || n <= s.marked {
		return nil
	}
	temp := s.mark + ".new"
	err := safeopen.WriteNoFollow(temp, strings.NewReader(strconv.FormatUint(uint64(n), 10)+"\n"), 0o600)
	if err == nil {
		err = os.Rename(temp, s.mark)
	}
	if err == nil {
		err = syncDir(filepath.Dir(s.mark))
	}
	if err != nil {
		return fmt.Errorf("record: the run number %d cannot be kept in %s: %w", n, s.mark, err)
	}
	s.marked = n
	return nil
}

// applyMark makes the next number higher than the one that was noted.
func (s *Store) applyMark() error {
	text, err := safeopen.ReadNoFollow(s.mark, safeopen.MaxText)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	n, bad := strconv.ParseUint(strings.TrimSpace(string(text)), 10, 32)
	if err = errors.Join(err, bad); err != nil {
		return &DamagedError{s.mark, "the highest run number", err.Error()}
	}
	if n == math.MaxUint32 {
		return &DamagedError{s.mark, "the highest run number", "no number is left behind it: remove this file if it is wrong"}
	}
	return s.RaiseNextNumber(uint32(n) + 1)
}
