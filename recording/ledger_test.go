package recording

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"ringlet/testkit/must"
)

// liveRun is a run of live data without segments, and its ledger, which is open.
func liveRun(t *testing.T) (*rig, *Ledger) {
	t.Helper()
	r := newRig(t, must.MemoryDir(t), FormatMEP)
	r.m.Live = true
	dir := r.done()
	l := NewLedger(dir, r.m)
	must.OK(t, l.Open())
	t.Cleanup(func() { must.OK(t, l.Close()) })
	must.OK(t, l.SetDestinations([]Destination{{"id", "path"}}))
	return r, l
}

// lineOf puts segment i into a ledger, with a MEP of live data that no other segment is near.
func lineOf(l *Ledger, i uint64) error {
	meps := NewLiveMEPSet(rigPacking)
	meps.Add(Entry{MEP: i << stretchShift, FirstEvent: 1000 * i, Events: 3, Attempt: 2})
	return l.AppendSegment(DrainedSegment{
		Segment:   SegmentID{Number: int(i) + 1, Format: FormatMEP}.Name(),
		CRC:       "00000000",
		MEPs:      1,
		Decisions: Decisions{Accepted: 3},
	}, meps)
}

// TestALedgerHoldsNoMEPs holds that the memory of a ledger, and of the numbers in it, is of segments and numbers: 400
// segments of live data would take 2 KiB each.
func TestALedgerHoldsNoMEPs(t *testing.T) {
	r, l := liveRun(t)
	const segments = 400
	for i := range uint64(segments) {
		must.OK(t, lineOf(l, i))
	}
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	reader, numbers := NewLedger(r.dir, r.m), NewMEPSet(rigPacking)
	must.OK(t, reader.Refresh())
	must.OK(t, reader.MarkMEPsIn(numbers))
	runtime.GC()
	runtime.ReadMemStats(&after)
	if got := int64(after.HeapAlloc) - int64(before.HeapAlloc); got > segments*1500 {
		t.Errorf("%d bytes for %d segments", got, segments)
	}
	if numbers.MEPs() != segments || !numbers.Contains(7<<stretchShift) || numbers.Contains(7<<stretchShift+1) ||
		reader.Total().Accepted != 3*segments {
		t.Errorf("%d MEPs, %+v", numbers.MEPs(), reader.Total())
	}
	runtime.KeepAlive(reader)
}

// TestALineIsAsLongAsItsSegment holds that a segment with few MEPs has a short line.
func TestALineIsAsLongAsItsSegment(t *testing.T) {
	_, l := liveRun(t)
	before := l.endOffset
	must.OK(t, lineOf(l, 1))
	if n := l.endOffset - before; n > 500 {
		t.Errorf("%d bytes for one MEP", n)
	}
}

// TestALineIsOnTheDiskBeforeItCounts holds that what a killed process wrote, and may not have synchronised, is
// synchronised before anything is removed for it.
func TestALineIsOnTheDiskBeforeItCounts(t *testing.T) {
	r, l := liveRun(t)
	must.OK(t, lineOf(l, 0))
	must.OK(t, l.Close())
	for _, fails := range []bool{true, false} {
		synced := 0
		again := NewLedger(r.dir, r.m)
		again.fsync = func(*os.File) error {
			synced++
			if fails {
				return os.ErrInvalid
			}
			return nil
		}
		if err := again.Open(); fails == (err == nil) || synced != 1 {
			t.Errorf("%v; synchronised %d times", err, synced)
		}
		must.OK(t, again.Close())
	}
}

// TestLinesThatAreTakenBack holds that a line counts for nobody when the disk would not have it, not even for a reader
// that had seen it; and that others are read in its place.
func TestLinesThatAreTakenBack(t *testing.T) {
	r, l := liveRun(t)
	must.OK(t, lineOf(l, 0))
	for _, between := range []bool{false, true} { // the reader looks again before there is another line
		reader := NewLedger(r.dir, r.m)
		l.fsync = func(*os.File) error {
			must.OK(t, reader.Refresh())
			return os.ErrInvalid
		}
		if err := lineOf(l, 1); !errors.Is(err, os.ErrInvalid) {
			t.Fatal(err)
		}
		l.fsync = (*os.File).Sync
		want := len(l.segments)
		if between {
			must.OK(t, reader.Refresh())
			if got := fmt.Sprint(len(reader.segments), reader.Total()); got != fmt.Sprint(want, l.Total()) {
				t.Error(got)
			}
		}
		must.OK(t, lineOf(l, 1<<20))
		must.OK(t, lineOf(l, 1<<21))
		must.OK(t, reader.Refresh())
		reported, held := fmt.Sprint(len(reader.segments), reader.Total()), fmt.Sprint(len(l.segments), l.Total())
		if reported != held {
			t.Errorf("%s, and the ledger has %s", reported, held)
		}
	}
}

// TestAnEmptyLedgerIsNoDrain holds that room that was reserved does not look like events that are drained: such a run
// is merged like any other, and nothing stays behind.
func TestAnEmptyLedgerIsNoDrain(t *testing.T) {
	_, dir := drainedRig(t)
	must.OK(t, ReserveLedger(dir))
	if c := read(t, dir); c.ProblemCount() > 0 || c.DrainedDecisions != nil {
		t.Errorf("%+v", c)
	}
	_, err := Merge(t.Context(), dir, filepath.Join(t.TempDir(), "x.mep"), MergeOptions{Remove: true})
	must.OK(t, err)
	if _, err := os.Stat(dir); !errors.Is(err, os.ErrNotExist) {
		t.Error("something is left:", err)
	}
}

// TestALineOfALedgerHasABound holds that no line makes a reader take more memory than the bound, and that nothing
// longer is written.
func TestALineOfALedgerHasABound(t *testing.T) {
	r, l := liveRun(t)
	must.OK(t, lineOf(l, 1))
	l.maxLine = 100
	var long *lineError
	if err := lineOf(l, 2); !errors.As(err, &long) || long.Line != 3 {
		t.Errorf("a line beyond the bound is written: %v", err)
	}
	end := l.endOffset
	for _, tail := range []string{"\n", ""} {
		must.OK(t, os.WriteFile(l.path()+".new", append(readAll(t, l.path())[:end:end],
			strings.Repeat("x", 200<<10)+tail...), 0o600))
		must.OK(t, os.Rename(l.path()+".new", l.path()))
		reader := NewLedger(r.dir, r.m)
		reader.maxLine = 100 << 10
		err := reader.Refresh()
		if !errors.As(err, &long) || long.Path != l.path() || long.Line != 3 || !strings.Contains(err.Error(),
			"line 3 is longer than 102400 bytes") {
			t.Errorf("%v", err)
		}
	}
}

func readAll(t *testing.T, path string) []byte {
	t.Helper()
	b, err := os.ReadFile(path)
	must.OK(t, err)
	return b
}
