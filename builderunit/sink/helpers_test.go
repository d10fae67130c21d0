package sink

import (
	"bytes"
	"fmt"
	"hash/crc32"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"

	"ringlet/event"
	"ringlet/event/pattern"
	"ringlet/recording"
	"ringlet/testkit/must"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const testSources, testPacking = 3, 4

func testPattern(t must.TB) *pattern.Pattern {
	t.Helper()
	p, err := pattern.New(pattern.Config{
		Seed:         1,
		Sources:      testSources,
		FragmentSize: 50,
		Align:        2,
	})
	must.OK(t, err)
	return p
}

// buildMEP makes MEP k of n events, with a gap of gap words before each MFP.
func buildMEP(t must.TB, p *pattern.Pattern, k uint64, n, gap int) (Meta, []byte) {
	t.Helper()
	return manyEvents(t, p, k, k*testPacking, n, gap)
}

// manyEvents makes MEP k of n events from first on.
func manyEvents(t must.TB, p *pattern.Pattern, k, first uint64, n, gap int) (Meta, []byte) {
	t.Helper()
	buf := make([]byte, event.MEPHeaderSize(testSources))
	var sources []uint16
	var offsets []uint32
	for s := range uint16(testSources) {
		buf = append(buf, bytes.Repeat([]byte{0xEE}, 4*gap)...)
		mfp := make([]byte, p.MaxMFP(s, n))
		size, _, err := p.FillMFP(mfp, s, first, n, false)
		must.OK(t, err)
		sources = append(sources, s)
		offsets = append(offsets, uint32(len(buf)/4))
		buf = append(buf, mfp[:size]...)
	}
	if _, err := event.PutMEPHeader(buf, sources, offsets, uint32(len(buf)/4)); err != nil {
		t.Fatal(err)
	}
	return Meta{
		Run:        9,
		MEP:        k,
		FirstEvent: first,
		Events:     n,
	}, buf
}

// checkMDF reads a generated MDF and returns the event ids in it, from orbit and bunch.
func checkMDF(t must.TB, p *pattern.Pattern, data []byte) (ids []uint64) {
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
		h := r.HeaderFields()
		id := uint64(h.Orbit)*event.BunchesPerOrbit + uint64(h.Bunch)
		ids = append(ids, id)
		banks, err := r.Banks()
		if err != nil || h.Run != 9 {
			t.Fatal(err, h.Run)
		}
		for s := range uint16(testSources) {
			if !banks.Next() || banks.Bank().SourceID() != int16(s) || banks.Bank().Type() != p.FragmentType(s) {
				t.Fatalf("event %d: source %d: %v", id, s, banks.Err())
			}
			must.OK(t, p.CheckFragment(s, id, banks.Bank().Data()))
		}
	}
}

// namesIn lists what is in a directory, for tests that nothing stays behind.
func namesIn(t must.TB, dir string) string {
	t.Helper()
	entries, err := os.ReadDir(dir)
	must.OK(t, err)
	var names []string
	for _, e := range entries {
		names = append(names, e.Name())
	}
	return strings.Join(names, " ")
}

func read(t must.TB, elem ...string) []byte {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(elem...))
	must.OK(t, err)
	return b
}

// encoded is what a MEP becomes in a format.
func encoded(t must.TB, format recording.Format, m Meta, mep []byte) []byte {
	t.Helper()
	c := &collector{}
	c.stream = newStream("memory", c)
	var e encoder
	must.OK(t, e.write(&c.stream, format, m, mep))
	return append(c.data, c.stream.buf...)
}

// collector is an outlet in memory.
type collector struct {
	stream stream
	data   []byte
}

func (c *collector) flushBuffer() error {
	c.data = append(c.data, c.stream.buf...)
	c.stream.buf = c.stream.buf[:0]
	return nil
}

func (c *collector) writeLarge(p []byte) error {
	c.data = append(c.data, p...)
	return nil
}

// testRun is a run in a directory of its own.
type testRun struct {
	dir, runDir string
	key         recording.Key
	format      recording.Format
}

func newRun(t must.TB, dir string, format recording.Format) *testRun {
	t.Helper()
	r := &testRun{dir: dir, key: recording.NewKey(), format: format}
	var err error
	about := recording.Manifest{
		Run:     9,
		Key:     r.key,
		Format:  format,
		Packing: testPacking,
		Program: "test",
	}
	r.runDir, err = recording.OpenRun(dir, about, false)
	must.OK(t, err)
	return r
}

func (r *testRun) config(builder int, d recording.Durability) SegmentsConfig {
	return SegmentsConfig{
		Dir:        r.runDir,
		Run:        9,
		Key:        r.key,
		Builder:    builder,
		Format:     r.format,
		Node:       fmt.Sprint("n", builder),
		Host:       "here",
		Durability: d,
	}
}

// mepAt is one of the MEPs that a run holds.
type mepAt struct {
	mep     uint64
	attempt uint32
}

// readBack reads the closed segments of a run as the manifest lists them, and checks everything that a reader can. It
// gives the bytes of each MEP. Nothing else may be in the directory but what may names.
func (r *testRun) readBack(t must.TB, may ...string) map[mepAt][]byte {
	t.Helper()
	m, err := recording.Load(r.runDir)
	must.OK(t, err)
	all := map[mepAt][]byte{}
	known := slices.Concat(may, []string{recording.ManifestName, recording.LockName, recording.ReserveName})
	for _, b := range m.Builders {
		for _, s := range b.Segments {
			id, _, _ := recording.ParseSegment(s.Name)
			known = append(known, id.Name(), id.Index())
			r.readSegment(t, id, s, all)
		}
	}
	for _, name := range strings.Fields(namesIn(t, r.runDir)) {
		if !slices.Contains(known, name) {
			t.Fatalf("%s is left in %s", name, namesIn(t, r.runDir))
		}
	}
	return all
}

func (r *testRun) readSegment(t must.TB, id recording.SegmentID, s recording.Segment, all map[mepAt][]byte) {
	t.Helper()
	data, index := read(t, r.runDir, id.Name()), read(t, r.runDir, id.Index())
	var h recording.Header
	if err := h.Parse(index); err != nil || h.Key != r.key || h.Segment != id || h.Run != 9 {
		t.Fatalf("%+v: %v", h, err)
	}
	got := recording.Segment{Recovered: s.Recovered, TailBytes: s.TailBytes}
	for index = index[recording.HeaderBytes:]; len(index) > 0; index = index[recording.EntryBytes:] {
		var e recording.Entry
		if !e.Parse(index) || e.Offset != got.Bytes || e.End() > int64(len(data)) {
			t.Fatalf("an entry of %s is wrong: %+v", id.Index(), e)
		}
		if crc := crc32.Checksum(data[:e.End()], crc32.MakeTable(crc32.Castagnoli)); crc != e.CRC {
			t.Fatalf("%s: the checksum up to MEP %d is %x, not %x", id.Name(), e.MEP, crc, e.CRC)
		}
		got.Add(e)
		all[mepAt{e.MEP, e.Attempt}] = data[e.Offset:e.End()]
	}
	if got.MEPs == 0 || got.Bytes != int64(len(data)) {
		t.Fatalf("%s has %d bytes, its index proves %+v", id.Name(), len(data), got)
	}
	got.SetClosed(id, s.Closed)
	got.RunningCRC = 0 // the manifest has it as CRC
	if diff := cmp.Diff(got, s); diff != "" {
		t.Fatal(diff)
	}
}

// state is that of a builder unit in the manifest.
func (r *testRun) state(t must.TB, builder int) recording.State {
	t.Helper()
	m, err := recording.Load(r.runDir)
	must.OK(t, err)
	return m.Builder(builder).State
}

// newTestSegments makes a sink that is ended with the test.
func newTestSegments(t testing.TB, c SegmentsConfig, h hook) *Segments {
	t.Helper()
	s, err := newSegments(c, h)
	must.OK(t, err)
	t.Cleanup(func() { _ = s.Abort() })
	return s
}
