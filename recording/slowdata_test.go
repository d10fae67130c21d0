package recording

import (
	"errors"
	"io/fs"
	"os"
	"strings"
	"testing"
	"time"

	"ringlet/event/slowdata"
	"ringlet/testkit/must"
)

// slowLines are lines of slow data, one for each value.
func slowLines(t *testing.T, values ...string) (lines []byte) {
	t.Helper()
	for i, text := range values {
		v, err := slowdata.New("temp", text, time.Date(2026, 11, 29, 12, 0, i, 0, time.UTC))
		must.OK(t, err)
		lines = v.AppendJSON(lines)
	}
	return lines
}

func TestSlowDataOfARun(t *testing.T) {
	dir := t.TempDir()
	if err := AppendSlowData(dir, "n0", slowLines(t, "1")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a directory without a run: %v", err)
	}
	must.OK(t, os.WriteFile(manifestPath(dir), []byte("{}"), 0o600))
	if s, err := readSlowData(dir); s != nil || err != nil {
		t.Errorf("no values: %v, %v", s, err)
	}
	must.OK(t, AppendSlowData(dir, "n0", slowLines(t, "1", "2")))
	// A killed process leaves a line that is not whole; the next one does not continue it.
	whole := slowLines(t, "3")
	f, err := os.OpenFile(slowDataPath(dir, "n0"), os.O_WRONLY|os.O_APPEND, 0)
	must.OK(t, err)
	_, err = f.Write(whole[:20])
	must.OK(t, errors.Join(err, f.Close()))
	checkSlow(t, dir, "1 2", 1)
	must.OK(t, AppendSlowData(dir, "n0", slowLines(t, "4")))
	must.OK(t, AppendSlowData(dir, "n1", slowLines(t, "5")))
	checkSlow(t, dir, "1 2 4 5", 1)
	s, err := readSlowData(dir)
	must.OK(t, err)
	const want = "slow data: 4 values of 1 name, from 2026-11-29T12:00:00Z to 2026-11-29T12:00:01Z; " +
		"1 line is no values: a process that is killed leaves one that is not whole"
	if s.String() != want {
		t.Errorf("it says %s", s)
	}
}

func checkSlow(t *testing.T, dir, want string, wantBroken uint64) {
	t.Helper()
	var got []string
	broken, err := EachSlowValue(dir, func(v *slowdata.Value) error {
		got = append(got, v.String())
		return nil
	})
	if text := strings.Join(got, " "); err != nil || text != want || broken != wantBroken {
		t.Errorf("there is %s, %d broken, %v; want %s, %d", text, broken, err, want, wantBroken)
	}
}

func TestSlowDataHaveABound(t *testing.T) {
	dir := t.TempDir()
	must.OK(t, os.WriteFile(manifestPath(dir), []byte("{}"), 0o600))
	path := slowDataPath(dir, "n0")
	must.OK(t, os.WriteFile(path, []byte(strings.Repeat("x", slowdata.MaxLine+5)+"\n"), 0o600))
	checkSlow(t, dir, "", 1)
	must.OK(t, os.Truncate(path, maxSlowDataBytes-1))
	var full *SlowDataFullError
	if err := AppendSlowData(dir, "n0", slowLines(t, "1")); !errors.As(err, &full) {
		t.Errorf("a full file takes more: %v", err)
	}
	must.OK(t, AppendSlowData(dir, "n1", slowLines(t, "1")))
	must.OK(t, os.Remove(path))
	must.OK(t, os.Symlink("elsewhere", path))
	if err := AppendSlowData(dir, "n0", slowLines(t, "1")); err == nil {
		t.Error("a link is followed")
	}
}
