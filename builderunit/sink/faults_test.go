package sink

import (
	"bytes"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"golang.org/x/sys/unix"
	"pgregory.net/rapid"

	"ringlet/event/pattern"
	"ringlet/recording"
	"ringlet/testkit/must"
)

// faultyDisk fails at some point, for good.
type faultyDisk struct {
	mu       sync.Mutex
	capacity int // bytes that may still be written
	syncs    int // that may still succeed
	cuts     int // truncations that may still succeed
	cause    error
}

func (d *faultyDisk) hook() hook {
	return hook{wrap: func(f *os.File) storage { return &faulty{storage: file{f}, d: d} }}
}

// faulty is a file on a faultyDisk. As on a real one, what is in a page that it has already takes no room: a full disk
// takes an entry of an index, and not the data that it tells of.
type faulty struct {
	storage
	d       *faultyDisk
	written int // bytes of pages
}

const page = 4096

func (f *faulty) WriteAt(p []byte, at int64) (int, error) {
	f.d.mu.Lock()
	defer f.d.mu.Unlock()
	end := int(at) + len(p)
	if need := end - f.written; need <= f.d.capacity {
		f.d.capacity -= max(0, need)
		f.written = max(f.written, (end+page-1)/page*page)
		return f.storage.WriteAt(p, at)
	}
	n, _ := f.storage.WriteAt(p[:max(0, f.written+f.d.capacity-int(at))], at)
	f.written += f.d.capacity
	f.d.capacity = 0
	return n, f.d.cause
}

// TestEntryOfDataThatDidNotFit has the disk become full within a MEP whose bytes are handed over before its entry.
func TestEntryOfDataThatDidNotFit(t *testing.T) {
	p := testPattern(t)
	r := newRun(t, t.TempDir(), recording.FormatMEP)
	d := &faultyDisk{
		capacity: 1_000_000,
		syncs:    100,
		cuts:     100,
		cause:    unix.ENOSPC,
	}
	s := newTestSegments(t, r.config(0, recording.DurabilityFile), d.hook())
	var err error
	for k := uint64(0); err == nil && k < 5; k++ { // the fifth makes the buffer full
		m, mep := buildMEP(t, p, k, testPacking, 20_000)
		err = s.Write(t.Context(), m, mep)
	}
	if _, finErr := s.Finish(); finErr == nil {
		t.Error("the disk was full, and nobody says so: ", err)
	}
	if all := r.readBack(t); len(all) != 4 {
		t.Errorf("%d MEPs are there", len(all))
	}
}

func (f *faulty) Sync() error {
	f.d.mu.Lock()
	defer f.d.mu.Unlock()
	if f.d.syncs--; f.d.syncs < 0 {
		return unix.EIO
	}
	return f.storage.Sync()
}

func (f *faulty) Truncate(size int64) error {
	f.d.mu.Lock()
	defer f.d.mu.Unlock()
	if f.d.cuts--; f.d.cuts < 0 {
		return unix.EIO
	}
	return f.storage.Truncate(size)
}

// TestFaultyDisk has a disk fail at any byte, any synchronisation and any truncation. Every MEP whose Flush returned is
// there afterwards: at once, or when the run has been recovered.
func TestFaultyDisk(t *testing.T) {
	p := testPattern(t)
	parent := must.MemoryDir(t)
	rapid.Check(t, func(rt *rapid.T) {
		dir, err := os.MkdirTemp(parent, "")
		must.OK(rt, err)
		defer os.RemoveAll(dir)
		r := newRun(rt, dir, rapid.SampledFrom(formats).Draw(rt, "format"))
		d := &faultyDisk{
			capacity: rapid.OneOf(rapid.IntRange(0, 400_000), rapid.IntRange(0, 3_000_000)).Draw(rt, "room"),
			syncs:    rapid.IntRange(0, 60).Draw(rt, "syncs"),
			cuts:     rapid.SampledFrom([]int{0, 1, 100}).Draw(rt, "cuts"),
			cause: rapid.SampledFrom([]error{unix.ENOSPC, unix.EIO, unix.EDQUOT, unix.EFBIG, io.ErrShortWrite}).Draw(rt,
				"cause"),
		}
		c := r.config(0, rapid.SampledFrom(durabilities).Draw(rt, "durability"))
		c.MaxSegmentBytes = rapid.SampledFrom([]int64{1, 3000, 300_000, 1 << 30}).Draw(rt, "segment bytes")
		s, err := newSegments(c, d.hook())
		must.OK(rt, err)
		defer func() { _ = s.Abort() }()
		want, flushed := map[mepAt][]byte{}, 0
		for k := 0; err == nil && k < 40; k++ {
			m, mep := buildMEP(rt, p, uint64(k), testPacking, rapid.SampledFrom([]int{0, 0, 500, 20_000, 30_000}).Draw(rt,
				"gap"))
			want[mepAt{m.MEP, 0}] = encoded(rt, r.format, m, mep)
			if err = s.Write(rt.Context(), m, mep); err == nil && rapid.Bool().Draw(rt, "flush") {
				if err = s.Flush(); err == nil && c.Durability != recording.DurabilityMemory {
					flushed = k + 1
				}
			}
		}
		res, finErr := s.Finish()
		var se *SinkError
		if err != nil && (!errors.As(err, &se) || finErr == nil || se.isDiskFull() &&
			!strings.Contains(err.Error(), ": cannot ")) {
			rt.Fatalf("%v, then %v", err, finErr)
		}
		if m, loadErr := recording.Load(r.runDir); loadErr != nil ||
			finErr != nil && m.Builder(0).State != recording.StateGivenUp {
			rt.Fatal(loadErr, m.Builder(0).State)
		}
		if _, err := recording.Recover(rt.Context(), dir); err != nil {
			rt.Fatal(err)
		}
		got := r.readBack(rt, tails(rt, r.runDir)...)
		if len(got) < flushed || len(got) < int(res.MEPs) || finErr == nil && len(got) != len(want) {
			rt.Fatalf("%d MEPs, %d were flushed, %d are in the result, %d were written", len(got), flushed, res.MEPs, len(want))
		}
		for k := range uint64(len(got)) { // without gaps, from the first on
			if !bytes.Equal(got[mepAt{k, 0}], want[mepAt{k, 0}]) {
				rt.Fatalf("MEP %d is not what was written", k)
			}
		}
	})
}

// tails are the files .tail in a directory.
func tails(t must.TB, dir string) (names []string) {
	for _, n := range strings.Fields(namesIn(t, dir)) {
		if strings.HasSuffix(n, recording.TailSuffix) {
			names = append(names, n)
		}
	}
	return names
}

func TestErrorsOfFullDisks(t *testing.T) {
	for cause, want := range map[error]string{
		unix.ENOSPC: "disk full: cannot write: ",
		unix.EDQUOT: "disk quota used up",
		unix.EFBIG:  "larger than is allowed",
		unix.EIO:    "cannot write: input/output error",
	} {
		err := &SinkError{Path: "x", Op: "write", Cause: cause}
		if !strings.Contains(err.Error(), want) || err.isDiskFull() == errors.Is(cause, unix.EIO) {
			t.Error(err, err.isDiskFull())
		}
	}
}

// TestFullDisk fills a real file system: what was whole stays, and the rest of the run can be recorded when there is
// room again.
func TestFullDisk(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("SKIPPED: mounting a small tmpfs needs root")
	}
	p := testPattern(t)
	for _, d := range durabilities {
		for _, format := range formats {
			fillDisk(t, p, d, format)
		}
	}
}

func fillDisk(t *testing.T, p *pattern.Pattern, d recording.Durability, format recording.Format) {
	dir := t.TempDir()
	if err := unix.Mount("ringlet-test", dir, "tmpfs", 0, "size=2m"); err != nil {
		t.Skipf("SKIPPED: a small tmpfs cannot be mounted here: %v", err)
	}
	defer func() {
		if err := unix.Unmount(dir, 0); err != nil {
			t.Error(err)
		}
	}()
	r := newRun(t, filepath.Join(dir, "out"), format)
	c := r.config(0, d)
	c.MaxSegmentBytes = 700_000
	s := newTestSegments(t, c, hook{})
	flushed, err := 0, error(nil)
	for k := 0; err == nil; k++ {
		m, mep := buildMEP(t, p, uint64(k), 1000, 0)
		if err = s.Write(t.Context(), m, mep); err == nil {
			if err = s.Flush(); err == nil && d != recording.DurabilityMemory {
				flushed = k + 1
			}
		}
	}
	var se *SinkError
	if !errors.As(err, &se) || !se.isDiskFull() || !strings.Contains(err.Error(), "disk full") {
		t.Fatal(err)
	}
	res, finErr := s.Finish()
	if finErr == nil {
		t.Error("a full disk made a whole output")
	}
	t.Logf("%v %v: %d MEPs kept, %d were flushed: %v", d, format, res.MEPs, flushed, finErr)
	if _, err := recording.Recover(t.Context(), dir+"/out"); err != nil {
		t.Fatal(err)
	}
	if got := r.readBack(t, tails(t, r.runDir)...); len(got) < flushed || len(got) == 0 {
		t.Errorf("%d MEPs, %d were flushed", len(got), flushed)
	}
}
