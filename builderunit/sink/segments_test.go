package sink

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/sys/unix"
	"pgregory.net/rapid"

	"ringlet/event"
	"ringlet/recording"
	"ringlet/testkit/must"
	"ringlet/testkit/patiently"
)

var formats = []recording.Format{recording.FormatMEP, recording.FormatMDF, recording.FormatMFP}

var durabilities = []recording.Durability{recording.DurabilityMemory, recording.DurabilityFile,
	recording.DurabilityDisk}

// TestSegments writes MEPs of all sizes in any order, some twice, by several builders, flushes now and then, and reads
// them all back as the manifest lists them.
func TestSegments(t *testing.T) {
	p := testPattern(t)
	parent := must.MemoryDir(t)
	rapid.Check(t, func(rt *rapid.T) {
		dir, err := os.MkdirTemp(parent, "")
		must.OK(rt, err)
		defer os.RemoveAll(dir)
		r := newRun(rt, dir, rapid.SampledFrom(formats).Draw(rt, "format"))
		outs := make([]*Segments, rapid.IntRange(1, 3).Draw(rt, "builders"))
		for bu := range outs {
			c := r.config(bu, rapid.SampledFrom(durabilities).Draw(rt, "durability"))
			c.MaxSegmentBytes = rapid.SampledFrom([]int64{0, 1, 3000, 1 << 20}).Draw(rt, "segment bytes")
			outs[bu], err = NewSegments(c)
			must.OK(rt, err)
			defer func() { _ = outs[bu].Abort() }()
		}
		want := map[mepAt][]byte{}
		for k := range rapid.IntRange(0, 30).Draw(rt, "MEPs") {
			gap := rapid.SampledFrom([]int{0, 0, 0, 100, 10_000, 30_000}).Draw(rt, "gap")
			m, mep := buildMEP(rt, p, uint64(k/2), testPacking, gap)
			m.Attempt = uint32(k % 2)
			out := rapid.SampledFrom(outs).Draw(rt, "builder")
			must.OK(rt, out.Write(rt.Context(), m, mep))
			want[mepAt{m.MEP, m.Attempt}] = encoded(rt, r.format, m, mep)
			if rapid.IntRange(0, 4).Draw(rt, "flush") == 0 {
				must.OK(rt, out.Flush())
			}
		}
		var total Result
		for bu, out := range outs {
			res, err := out.Finish()
			again, err2 := out.Finish()
			if err := errors.Join(err, err2, out.Abort()); err != nil || again != res || res.Path != r.runDir {
				rt.Fatal(err, res, again)
			}
			total.MEPs += res.MEPs
			total.Events += res.Events
			total.Segments += res.Segments
			if s := out.Stats(); s.MEPs != res.MEPs || s.Bytes != res.Bytes || s.Segments != uint64(res.Segments) {
				rt.Fatalf("%+v %+v", s, res)
			}
			if got := r.state(rt, bu); got != recording.StateFinished {
				rt.Fatal(got)
			}
		}
		got := r.readBack(rt)
		if len(got) != len(want) || int(total.MEPs) != len(want) || int(total.Events) != testPacking*len(want) {
			rt.Fatalf("%d MEPs read, %d written, %+v", len(got), len(want), total)
		}
		for k := range want {
			if !bytes.Equal(got[k], want[k]) {
				rt.Fatalf("MEP %+v is not what was written", k)
			}
			if r.format != recording.FormatMDF {
				continue
			}
			if ids := checkMDF(rt, p, got[k]); len(ids) != testPacking || ids[0] != testPacking*k.mep || !slices.IsSorted(ids) {
				rt.Fatalf("MEP %+v has the events %v", k, ids)
			}
		}
	})
}

// TestOpenSegmentIsReadable reads the segment that is being written as anybody may.
func TestOpenSegmentIsReadable(t *testing.T) {
	p := testPattern(t)
	for _, d := range []recording.Durability{recording.DurabilityFile, recording.DurabilityDisk} {
		r := newRun(t, filepath.Join(t.TempDir(), "out"), recording.FormatMEP)
		s := newTestSegments(t, r.config(0, d), hook{})
		var want []byte
		for k := range uint64(20) {
			m, mep := buildMEP(t, p, k, testPacking, int(k%5)*30_000)
			must.OK(t, errors.Join(s.Write(t.Context(), m, mep), s.Flush()))
			want = append(want, mep...)
			data, index := read(t, r.runDir, "bu0-00001.mep.open"), read(t, r.runDir, "bu0-00001.idx")
			var e recording.Entry
			if at := recording.HeaderBytes + int(k)*recording.EntryBytes; len(index) < at || !e.Parse(index[at:]) {
				t.Fatalf("MEP %d has no entry after its flush", k)
			}
			if e.MEP != k || !bytes.Equal(data[:e.End()], want) {
				t.Fatalf("MEP %d is not there after its flush", k)
			}
		}
		if st := s.Stats(); st.Flushes != 20 || (st.Syncs != 0) != (d == recording.DurabilityDisk) {
			t.Errorf("%v: %+v", d, st)
		}
	}
}

// TestSegmentsInTime holds that a MEP nobody flushes is written soon, and that a segment ends in time without another
// MEP.
func TestSegmentsInTime(t *testing.T) {
	p := testPattern(t)
	for _, d := range durabilities {
		dir := t.TempDir()
		synctest.Test(t, func(t *testing.T) {
			r := newRun(t, dir, recording.FormatMEP)
			c := r.config(0, d)
			c.MaxSegmentAge = 10 * time.Second
			s := newTestSegments(t, c, hook{})
			m, mep := buildMEP(t, p, 0, testPacking, 0)
			must.OK(t, s.Write(t.Context(), m, mep))
			time.Sleep(maxBlockIdle + time.Millisecond)
			synctest.Wait()
			if got := read(t, r.runDir, "bu0-00001.mep.open"); !bytes.Equal(got, mep) {
				t.Fatalf("%v: after %v there are %d of %d bytes in the file", d, maxBlockIdle, len(got), len(mep))
			}
			time.Sleep(c.MaxSegmentAge)
			synctest.Wait()
			if got := r.readBack(t); !bytes.Equal(got[mepAt{0, 0}], mep) {
				t.Fatalf("%v: the segment has not ended: %s", d, namesIn(t, r.runDir))
			}
			time.Sleep(time.Hour) // nothing more comes of it
			if res, err := s.Finish(); err != nil || res.Segments != 1 || res.MEPs != 1 {
				t.Fatal(err, res)
			}
		})
	}
}

// TestBackgroundWaitsForNobody holds that whoever closes segments does not wait until they are closed.
func TestBackgroundWaitsForNobody(t *testing.T) {
	p := testPattern(t)
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		r := newRun(t, dir, recording.FormatMEP)
		c := r.config(0, recording.DurabilityFile)
		c.MaxSegmentAge = time.Second
		s := newTestSegments(t, c, hook{})
		m, mep := buildMEP(t, p, 0, testPacking, 0)
		must.OK(t, s.Write(t.Context(), m, mep))
		s.mu.Lock()
		for range maxClosing { // as if Flush had just written them
			s.closingSegments = append(s.closingSegments, &segment{closed: true})
		}
		s.mu.Unlock()
		time.Sleep(3 * c.MaxSegmentAge)
		synctest.Wait()
		if got := r.readBack(t); len(got) != 1 {
			t.Errorf("the segment that was due is not closed: %s", namesIn(t, r.runDir))
		}
	})
}

// TestFailedSegmentIsNotForgotten holds that an error of synchronising is there before the segment is not.
func TestFailedSegmentIsNotForgotten(t *testing.T) {
	p := testPattern(t)
	r := newRun(t, t.TempDir(), recording.FormatMEP)
	d := &faultyDisk{capacity: 1 << 30}
	s := newTestSegments(t, r.config(0, recording.DurabilityDisk), d.hook())
	m, mep := buildMEP(t, p, 0, testPacking, 0)
	must.OK(t, s.Write(t.Context(), m, mep))
	if err := s.finishSegment(s.openSegments[0]); err == nil || s.failure() == nil || s.Flush() == nil {
		t.Error("a segment that could not be synchronised was closed", err)
	}
}

// TestAbortKeeps holds that giving up keeps every MEP, at every durability.
func TestAbortKeeps(t *testing.T) {
	p := testPattern(t)
	for _, d := range durabilities {
		r := newRun(t, t.TempDir(), recording.FormatMDF)
		s := newTestSegments(t, r.config(3, d), hook{})
		m, mep := buildMEP(t, p, 0, testPacking, 0)
		must.OK(t, errors.Join(s.Write(t.Context(), m, mep), s.Abort(), s.Abort()))
		if got := r.readBack(t); len(got) != 1 || r.state(t, 3) != recording.StateGivenUp {
			t.Errorf("%v: %d MEPs, %v", d, len(got), r.state(t, 3))
		}
		if err := s.Write(t.Context(), m, mep); !errors.Is(err, errClosed) {
			t.Error(err)
		}
		if res, err := s.Finish(); err != nil || res.MEPs != 1 || r.state(t, 3) != recording.StateGivenUp {
			t.Error(res, err)
		}
	}
	r := newRun(t, t.TempDir(), recording.FormatMDF)
	if res, err := newTestSegments(t, r.config(0, recording.DurabilityFile), hook{}).Finish(); err != nil ||
		res.Segments != 0 {
		t.Error(err, res)
	}
	if r.readBack(t); r.state(t, 0) != recording.StateFinished {
		t.Error("a builder without MEPs is not listed as finished")
	}
}

func TestSegmentsRefuse(t *testing.T) {
	r := newRun(t, t.TempDir(), recording.FormatMDF)
	for name, change := range map[string]func(c *SegmentsConfig){
		"format(0) is not a format":    func(c *SegmentsConfig) { c.Format = 0 },
		"the directory holds run 9":    func(c *SegmentsConfig) { c.Key[3]++ },
		"is to hold run 10 with key":   func(c *SegmentsConfig) { c.Run++ },
		"as mdf, and is to hold run 9": func(c *SegmentsConfig) { c.Format = recording.FormatMEP },
		"no such file or directory":    func(c *SegmentsConfig) { c.Dir += "-not" },
	} {
		c := r.config(0, recording.DurabilityFile)
		change(&c)
		var se *SinkError
		if _, err := NewSegments(c); !errors.As(err, &se) || !strings.Contains(err.Error(), name) {
			t.Errorf("%v, want %q", err, name)
		}
	}
}

// TestBadMEPs holds that a MEP which is none ends the output, and that what came before it is kept.
func TestBadMEPs(t *testing.T) {
	p := testPattern(t)
	for name, bad := range map[string]func(m *Meta, mep []byte) []byte{
		"events":  func(m *Meta, mep []byte) []byte { m.Events++; return mep },
		"first":   func(m *Meta, mep []byte) []byte { m.FirstEvent++; return mep },
		"longer":  func(_ *Meta, mep []byte) []byte { return append(mep, 0, 0, 0, 0) },
		"cut":     func(_ *Meta, mep []byte) []byte { return mep[:len(mep)-4] },
		"damaged": func(_ *Meta, mep []byte) []byte { mep[0] ^= 1; return mep },
		"a container that is none": func(_ *Meta, mep []byte) []byte {
			at := binary.LittleEndian.Uint32(mep[16:]) * 4 // offset of the first MFP
			mep[at+event.MFPFixedSize] = byte(event.FragmentContainer)
			return mep
		},
	} {
		for _, before := range []int{0, 1, 5} {
			t.Run(fmt.Sprint(name, before), func(t *testing.T) {
				r := newRun(t, t.TempDir(), recording.FormatMDF)
				s := newTestSegments(t, r.config(0, recording.DurabilityFile), hook{})
				for k := range before {
					m, mep := buildMEP(t, p, uint64(k), 2, 0)
					must.OK(t, s.Write(t.Context(), m, mep))
				}
				m, mep := buildMEP(t, p, 77, 2, 0)
				err := s.Write(t.Context(), m, bad(&m, mep))
				if err == nil || !strings.Contains(err.Error(), "MEP 77") {
					t.Fatal(err)
				}
				m, mep = buildMEP(t, p, 78, 2, 0)
				if again := s.Write(t.Context(), m, mep); !errors.Is(again, err) {
					t.Errorf("the error is not final: %v", again)
				}
				res, finErr := s.Finish()
				if !errors.Is(finErr, err) || !errors.Is(s.Flush(), err) || int(res.MEPs) != before {
					t.Errorf("%v, %+v", finErr, res)
				}
				if got := r.readBack(t); len(got) != before || r.state(t, 0) != recording.StateGivenUp {
					t.Errorf("%d MEPs of %d, %s", len(got), before, r.state(t, 0))
				}
			})
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	r := newRun(t, t.TempDir(), recording.FormatMDF)
	s := newTestSegments(t, r.config(0, recording.DurabilityFile), hook{})
	if err := s.Write(ctx, Meta{}, nil); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
}

// TestNamesAreNotUsedAgain holds that whatever stands under the name of a segment stays.
func TestNamesAreNotUsedAgain(t *testing.T) {
	p := testPattern(t)
	r := newRun(t, t.TempDir(), recording.FormatMEP)
	taken := []string{"bu0-00001.mep", "bu0-00002.mep.open", "bu0-00003.mep.tail", "bu0-00004.idx"}
	for _, name := range taken {
		must.OK(t, os.WriteFile(filepath.Join(r.runDir, name), []byte(name), 0o600))
	}
	s := newTestSegments(t, r.config(0, recording.DurabilityFile), hook{})
	m, mep := buildMEP(t, p, 0, 2, 0)
	must.OK(t, s.Write(t.Context(), m, mep))
	if _, err := s.Finish(); err != nil {
		t.Fatal(err)
	}
	if got := r.readBack(t, taken...); len(got) != 1 {
		t.Errorf("%d MEPs in %s", len(got), namesIn(t, r.runDir))
	}
	for _, name := range taken {
		if got := read(t, r.runDir, name); string(got) != name {
			t.Errorf("%s was written to: %q", name, got)
		}
	}
	if _, err := os.Stat(filepath.Join(r.runDir, "bu0-00005.mep")); err != nil {
		t.Error(err)
	}
	// A builder unit that comes back goes on behind its own segments.
	s = newTestSegments(t, r.config(0, recording.DurabilityFile), hook{})
	must.OK(t, s.Write(t.Context(), m, mep))
	if _, err := s.Finish(); err != nil || !slices.Contains(strings.Fields(namesIn(t, r.runDir)), "bu0-00006.mep") {
		t.Error(err, namesIn(t, r.runDir))
	}
	// Nor is one used that was closed by Recover, drained and removed after this writer had begun.
	s = newTestSegments(t, r.config(0, recording.DurabilityFile), hook{})
	must.OK(t, recording.UpdateManifest(r.runDir, func(m *recording.Manifest) error {
		m.Builder(0).AddSegment(recording.Segment{Name: "bu0-00007.mep", Number: 7, CRC: "00000000"})
		return nil
	}))
	must.OK(t, s.Write(t.Context(), m, mep))
	if _, err := s.Finish(); err != nil || !slices.Contains(strings.Fields(namesIn(t, r.runDir)), "bu0-00008.mep") {
		t.Error(err, namesIn(t, r.runDir))
	}
}

// TestFlushBesideWrite has several goroutines flush while one writes, over many segments.
func TestFlushBesideWrite(t *testing.T) {
	p := testPattern(t)
	for _, d := range durabilities {
		r := newRun(t, must.MemoryDir(t), recording.FormatMEP)
		c := r.config(0, d)
		c.MaxSegmentBytes = 1 << 20
		s := newTestSegments(t, c, hook{})
		stop := make(chan struct{})
		var wg sync.WaitGroup
		for range 3 {
			wg.Go(func() {
				for {
					select {
					case <-stop:
						return
					case <-time.After(100 * time.Microsecond):
					}
					if err := s.Flush(); err != nil {
						t.Error(err)
						return
					}
				}
			})
		}
		const n = 150
		for k := range uint64(n) {
			m, mep := buildMEP(t, p, k, testPacking, int(k%7)*15_000)
			must.OK(t, s.Write(t.Context(), m, mep))
		}
		close(stop)
		patiently.Wait(t, wg.Wait)
		if res, err := s.Finish(); err != nil || res.MEPs != n || res.Segments < 10 || len(r.readBack(t)) != n {
			t.Error(err, res)
		}
	}
}

func TestSegmentsDoNotAllocate(t *testing.T) {
	p := testPattern(t)
	for _, format := range formats {
		t.Run(fmt.Sprint(format), func(t *testing.T) {
			r := newRun(t, t.TempDir(), format)
			s := newTestSegments(t, r.config(0, recording.DurabilityFile), hook{})
			m, mep := buildMEP(t, p, 0, testPacking, 0)
			ctx := t.Context()
			write := func() {
				if err := s.Write(ctx, m, mep); err != nil {
					t.Error(err)
				}
				m.MEP++
			}
			for range 10_000 { // both blocks and their entries become warm
				write()
			}
			if a := testing.AllocsPerRun(5000, write); a != 0 {
				t.Errorf("%g allocations per MEP", a)
			}
		})
	}
}

// BenchmarkSegments is MEPs of 1000 events of 1.6 kB, each of 12 fragments, becoming segments: without a disk, and in
// files below TMPDIR. The rate is that of the bytes of the output, with all that is done until they are closed, which a
// disk takes part in: let it write a gigabyte.
func BenchmarkSegments(b *testing.B) {
	for _, to := range []string{"nowhere", "files"} {
		for _, format := range formats {
			for _, d := range []recording.Durability{recording.DurabilityMemory, recording.DurabilityFile,
				recording.DurabilityDisk} {
				b.Run(fmt.Sprintf("%s/%v/%v", to, format, d), func(b *testing.B) {
					r := newRun(b, b.TempDir(), format)
					c := r.config(0, d)
					c.MaxSegmentBytes = 1 << 40
					var h hook
					if to == "nowhere" {
						h.wrap = func(f *os.File) storage { return &nowhere{storage: file{f}} }
					}
					benchmarkSegments(b, newTestSegments(b, c, h))
				})
			}
		}
	}
}

// benchmarkSegments writes MEPs, and has every fourth of them reported as built: some 6 MB.
func benchmarkSegments(b *testing.B, s *Segments) {
	m, mep := fragmentsMEP(b, 12, 133, 1000)
	for b.Loop() {
		must.OK(b, s.Write(b.Context(), m, mep))
		if m.MEP++; m.MEP%4 == 0 {
			must.OK(b, s.Flush())
		}
	}
	result, err := s.Finish()
	must.OK(b, err)
	b.SetBytes(int64(result.Bytes) / int64(b.N))
}

// nowhere takes all that is written, so that the benchmark does not fill a disk.
type nowhere struct {
	storage
	bytes int64
}

func (n *nowhere) WriteAt(p []byte, at int64) (int, error) {
	n.bytes = max(n.bytes, at+int64(len(p)))
	return len(p), nil
}

// Stat says that all of it is there.
func (n *nowhere) Stat(at *unix.Stat_t) error {
	err := n.storage.Stat(at)
	at.Size = n.bytes
	return err
}
