package sink

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"go.uber.org/goleak"

	"ringlet/event"
	"ringlet/internal/pattern"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// tb is what testing.TB and *rapid.T have in common.
type tb interface {
	Helper()
	Fatal(args ...any)
	Fatalf(format string, args ...any)
}

const testSources, testPacking = 3, 4

func testPattern(t tb) *pattern.Pattern {
	t.Helper()
	p, err := pattern.New(pattern.Config{Seed: 1, Sources: testSources, FragmentSize: 50, Align: 2})
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// buildMEP makes MEP k of n events, with a gap of gap words before each MFP.
func buildMEP(t tb, p *pattern.Pattern, k uint64, n, gap int) (Meta, []byte) {
	t.Helper()
	first := k * testPacking
	buf := make([]byte, event.MEPHeaderSize(testSources))
	var sources []uint16
	var offsets []uint32
	for s := range uint16(testSources) {
		buf = append(buf, bytes.Repeat([]byte{0xEE}, 4*gap)...)
		mfp := make([]byte, p.MaxMFP(s, n))
		size, _, err := p.FillMFP(mfp, s, first, n, false)
		if err != nil {
			t.Fatal(err)
		}
		sources = append(sources, s)
		offsets = append(offsets, uint32(len(buf)/4))
		buf = append(buf, mfp[:size]...)
	}
	if _, err := event.PutMEPHeader(buf, sources, offsets, uint32(len(buf)/4)); err != nil {
		t.Fatal(err)
	}
	return Meta{Run: 9, MEP: k, FirstEvent: first, Events: n}, buf
}

// checkMDF reads a generated MDF and returns the event ids in it, from orbit and bunch.
func checkMDF(t tb, p *pattern.Pattern, data []byte) (ids []uint64) {
	t.Helper()
	c := event.NewMDFCursor(data, true)
	for {
		r, err := c.Next()
		if r == nil {
			if err == nil || err.Error() != "EOF" {
				t.Fatal(err)
			}
			return ids
		}
		h := r.Decoded()
		id := uint64(h.Orbit)*bunchesPerOrbit + uint64(h.Bunch)
		ids = append(ids, id)
		banks, err := r.Banks()
		if err != nil || h.Run != 9 {
			t.Fatal(err, h.Run)
		}
		for s := range uint16(testSources) {
			if !banks.Next() || banks.Bank().SourceID() != int16(s) || banks.Bank().Type() != p.FragmentType(s) {
				t.Fatalf("event %d: source %d: %v", id, s, banks.Err())
			}
			if err := p.CheckFragment(s, id, banks.Bank().Data()); err != nil {
				t.Fatal(err)
			}
		}
	}
}

// left lists what is in a directory, for tests that nothing stays behind.
func left(t tb, dir string) string {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, e := range entries {
		names = append(names, e.Name())
	}
	return strings.Join(names, " ")
}

// memoryDir is a directory where synchronising costs nothing, for properties that finish hundreds of files.
func memoryDir(t testing.TB) string {
	dir, err := os.MkdirTemp("/dev/shm", "ringlet-sink-test-")
	if err != nil {
		return t.TempDir()
	}
	t.Cleanup(func() {
		if err := os.RemoveAll(dir); err != nil {
			t.Error(err)
		}
	})
	return dir
}

func read(t tb, elem ...string) []byte {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(elem...))
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func newFile(t testing.TB, c FileConfig) *File {
	t.Helper()
	f, err := NewFile(c)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := f.Abort(); err != nil {
			t.Error(err)
		}
	})
	return f
}
