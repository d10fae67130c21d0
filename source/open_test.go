package source

import (
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"ringlet/event"
	"ringlet/event/placing"
	"ringlet/internal/safeopen"
)

// TestOpenReplayOfAPipe opens a named pipe that nobody writes to. On an OpenReplay that waits for a writer, this test
// does not end.
func TestOpenReplayOfAPipe(t *testing.T) {
	path := filepath.Join(t.TempDir(), "pipe")
	if err := unix.Mkfifo(path, 0o600); err != nil {
		t.Fatal(err)
	}
	var other *safeopen.NotRegularError
	_, err := OpenReplay(t.Context(), ReplayConfig{Path: path, RUs: 1, Packing: 1})
	if !errors.As(err, &other) || !strings.Contains(err.Error(), path+" is a named pipe, not a regular file") {
		t.Errorf("%v", err)
	}
}

func openFile(t *testing.T, path string) *os.File {
	t.Helper()
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { f.Close() })
	return f
}

// allocated is how many bytes a function allocates, those that it gave back included.
func allocated(f func()) uint64 {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	f()
	runtime.ReadMemStats(&after)
	return after.TotalAlloc - before.TotalAlloc
}

// TestMemoryIsBoundedByTheFile opens 10,000 small events with as many streams as there can be. A table of streams ×
// events would be 1.3 GB.
func TestMemoryIsBoundedByTheFile(t *testing.T) {
	const events = 10_000
	records := bytes.Repeat(record(t, 5, 9), events)
	path, _ := writeMDF(t, [][]byte{records})
	c := ReplayConfig{
		Path:     path,
		RUs:      1,
		Division: placing.NewDivision(maxSources),
		Packing:  10,
	}
	// Constants: rows of the table of keys, 256 KiB for each of two types; per stream some tens of bytes.
	const bound = 8 << 20
	var needs RunNeeds
	var err error
	if got := allocated(func() { needs, err = measureMDF(t.Context(), openFile(t, path), c) }); err != nil ||
		got > bound+4*uint64(len(records)) {
		t.Errorf("a file of %d bytes was measured with %d bytes of memory, %v", len(records), got, err)
	}
	fragments := len(record(t, 5, 9)) - event.MDFHeaderSize + recordBankSize(event.MDFHeaderSize, 2)
	want := maxSources*event.MFPHeaderSize(10) + 10*fragments
	if needs.Division.Units() != 1 || needs.Division.Sources() != maxSources || needs.MaxMEPBytes != want {
		t.Errorf("%+v, want %d bytes", needs, want)
	}
	var r *Replay
	if got := allocated(func() { r, err = OpenReplay(t.Context(), c) }); err != nil || got > bound+4*uint64(len(records)) {
		t.Fatalf("a file of %d bytes was opened with %d bytes of memory, %v", len(records), got, err)
	}
	if err := r.Close(); err != nil {
		t.Error(err)
	}
}

// TestMeasureIsWhatTheUnitsFind holds measure against the readout units themselves.
func TestMeasureIsWhatTheUnitsFind(t *testing.T) {
	var records [][]byte
	for i := range 23 {
		records = append(records, record(t, 7*i, 900-30*i, 5))
	}
	path, _ := writeMDF(t, records)
	for _, c := range []ReplayConfig{
		{Packing: 1}, {Packing: 4}, {Packing: 4, Loop: true}, {Packing: 50, Loop: true},
		{Packing: 50, Division: placing.NewDivision(10, 8)},
		{Packing: 5, Events: 7},
	} {
		c.Path, c.RUs = path, 2
		needs, err := measureMDF(t.Context(), openFile(t, path), c)
		if err != nil {
			t.Fatal(err)
		}
		r, err := OpenReplay(t.Context(), c)
		if err != nil {
			t.Fatal(err)
		}
		if !slices.Equal(needs.Division.Counts(), r.cablingOf().division.Counts()) || needs.MaxMEPBytes != r.maxMEP {
			t.Errorf("%+v: %+v, and a unit finds %v and %d bytes", c, needs, r.cablingOf().division, r.maxMEP)
		}
		r.Close()
	}
}

// countdown is a context that ends when it was asked a number of times.
type countdown struct {
	context.Context
	remaining int
}

func (c *countdown) Err() error {
	if c.remaining--; c.remaining < 0 {
		return context.Canceled
	}
	return nil
}
func (c *countdown) Value(any) any { return nil }

// TestOpeningEndsWithItsContext ends the context wherever it is asked: while good events are checked, while the next
// event is looked for in rubbish, while streams are sought, and while fragments are measured.
func TestOpeningEndsWithItsContext(t *testing.T) {
	large := bytes.Repeat(record(t, 30000, 30000, 30000, 30000), 100) // 12 MB
	for name, k := range map[string]struct {
		file   []byte
		c      ReplayConfig
		checks int // at least
	}{
		"good":    {large, ReplayConfig{}, 4}, // two passes
		"rubbish": {bytes.Repeat([]byte("rubbish "), 2<<20), ReplayConfig{OnBadRecord: SkipBadRecord}, 3},
	} {
		t.Run(name, func(t *testing.T) {
			path, _ := writeMDF(t, [][]byte{k.file})
			k.c.Path, k.c.RUs, k.c.Packing = path, 1, 1
			complete := &countdown{Context: context0, remaining: 1 << 30}
			r, err := OpenReplay(complete, k.c)
			if err != nil {
				t.Fatal(err)
			}
			r.Close()
			made := 1<<30 - complete.remaining
			if made < k.checks {
				t.Errorf("the context was asked %d times over %d bytes", made, len(k.file))
			}
			for _, end := range []int{0, 1, made / 2, made - 1} {
				if r, err := OpenReplay(&countdown{Context: context0, remaining: end}, k.c); !errors.Is(err, context.Canceled) ||
					r != nil {
					t.Fatalf("ended at question %d of %d: %v", end, made, err)
				}
			}
		})
	}
}
