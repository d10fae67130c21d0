package source

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"testing"

	"pgregory.net/rapid"

	"ringlet/event"
	"ringlet/event/placing"
	"ringlet/internal/crc32c"
)

// samplePath finds the real events of shared/data, or skips aloud.
func samplePath(t testing.TB) string {
	path := cmp.Or(os.Getenv("RINGLET_MDF_SAMPLE"), "../../shared/data/minbias-10.mdf")
	if _, err := os.Stat(path); err != nil {
		t.Skipf("SKIPPED: the sample of real events is not here (RINGLET_MDF_SAMPLE): %v", err)
	}
	return path
}

// system replays one file with all its readout units at once.
type system struct {
	rus    []*Replay
	blocks []Block
	dst    [][]byte
}

func openSystem(t testing.TB, c ReplayConfig) *system {
	t.Helper()
	s := &system{}
	for ru := range c.RUs {
		c.RU = ru
		r, err := OpenReplay(context0, c)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = r.Close() })
		s.rus = append(s.rus, r)
		s.dst = append(s.dst, make([]byte, r.MaxBlock()))
	}
	s.blocks = make([]Block, c.RUs)
	return s
}

// next reads the next block of every RU, checks that they belong together, and appends the records rebuilt from them to
// out.
func (s *system) next(out []byte) ([]byte, error) {
	errs := make([]error, len(s.rus))
	for i, r := range s.rus {
		errs[i] = r.Next(context0, s.dst[i], &s.blocks[i])
		if fmt.Sprint(errs[i]) != fmt.Sprint(errs[0]) {
			return out, fmt.Errorf("RU %d says %q, RU 0 says %q", i, fmt.Sprint(errs[i]), fmt.Sprint(errs[0]))
		}
	}
	if errs[0] != nil {
		return out, errs[0]
	}
	var mfps []event.MFP
	total := 0
	for i, b := range s.blocks {
		if b.MEP != s.blocks[0].MEP || b.FirstEvent != s.blocks[0].FirstEvent || b.Events != s.blocks[0].Events ||
			b.Size > s.rus[i].MaxBlock() {
			return out, fmt.Errorf("block of RU %d is %+v, that of RU 0 %+v", i, b, s.blocks[0])
		}
		total += b.Size
		for _, info := range b.MFPs {
			m, err := event.ParseMFP(s.dst[i][info.Offset:b.Size])
			if err != nil {
				return out, err
			}
			crc := crc32c.Sum(m.Bytes())
			if int(m.Source()) != len(mfps) || m.Source() != info.Source || int(m.Size()) != info.Size ||
				m.FirstEvent() != b.FirstEvent || m.NumFragments() != b.Events || info.CRC != crc {
				return out, fmt.Errorf("MFP of source %d does not agree with %+v", m.Source(), info)
			}
			mfps = append(mfps, m)
		}
	}
	if total > s.rus[0].maxMEP {
		return out, fmt.Errorf("MEP of %d bytes, the bound is %d", total, s.rus[0].maxMEP)
	}
	for e := range s.blocks[0].Events {
		fragments := make([][]byte, len(mfps))
		for i, m := range mfps {
			if m.FragmentType(e) != event.FragmentContainer {
				return out, fmt.Errorf("fragment of type %v", m.FragmentType(e))
			}
			fragments[i] = m.Fragment(e)
		}
		var err error
		if out, err = new(event.Rebuilder).Append(out, fragments); err != nil {
			return out, fmt.Errorf("event %d: %w", s.blocks[0].FirstEvent+uint64(e), err)
		}
	}
	return out, nil
}

// readAll reads to the end and returns what was rebuilt, with the error that ended it.
func (s *system) readAll() ([]byte, error) {
	var out []byte
	for {
		var err error
		if out, err = s.next(out); err != nil {
			return out, err
		}
	}
}

func TestReplaySample(t *testing.T) {
	path := samplePath(t)
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for _, rus := range []int{1, 2, 3, 4} {
		for _, packing := range []int{1, 4, 10, 100} {
			t.Run(fmt.Sprintf("rus=%d/packing=%d", rus, packing), func(t *testing.T) {
				s := openSystem(t, ReplayConfig{
					Path:    path,
					RUs:     rus,
					Packing: packing,
					CRC:     true,
				})
				got, err := s.readAll()
				if !errors.Is(err, io.EOF) || !bytes.Equal(got, want) {
					t.Fatalf("%v; %d bytes rebuilt, the file has %d", err, len(got), len(want))
				}
				r := s.rus[0]
				if n, endless := r.events(); n != 10 || endless {
					t.Errorf("Events says %d, %v", n, endless)
				}
				if st := r.Stats(); st.Events != 10 || st.Blocks != uint64((10+packing-1)/packing) {
					t.Errorf("%+v", st)
				}
				if least, most := r.cablingOf().division.SourceRange(); least != most || least < minStreams || rus*least > 20 {
					t.Errorf("%d to %d streams per RU", least, most)
				}
				t.Logf("%d streams, blocks ≤ %d, MEPs ≤ %d bytes", r.cablingOf().streamCount(), r.MaxBlock(), r.maxMEP)
			})
		}
	}
}

func TestReplayTooFewStreams(t *testing.T) {
	path := samplePath(t)
	_, err := OpenReplay(context0, ReplayConfig{
		Path:     path,
		RUs:      1,
		Division: placing.NewDivision(2),
		Packing:  1,
	})
	var ce *ConfigError
	if !errors.As(err, &ce) {
		t.Fatal(err)
	}
	t.Log(err)
	var least int
	if _, scanErr := fmt.Sscanf(ce.Reason, "2 in all are too few for this file: its events need at least %d",
		&least); scanErr != nil {
		t.Fatal(err)
	}
	r, err := OpenReplay(context0, ReplayConfig{
		Path:     path,
		RUs:      1,
		Division: placing.NewDivision(least),
		Packing:  1,
	})
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	if _, err := OpenReplay(context0, ReplayConfig{
		Path:     path,
		RUs:      1,
		Division: placing.NewDivision(least - 1),
		Packing:  1,
	}); !errors.As(err,
		&ce) {
		t.Errorf("one stream less is accepted: %v", err)
	}
}

func TestReplayLoops(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		records := rapid.IntRange(1, 7).Draw(rt, "records")
		packing := rapid.IntRange(1, 9).Draw(rt, "packing")
		events := rapid.IntRange(1, 40).Draw(rt, "events")
		d := divided(rt, 4)
		file, pieces := writeMDF(t, genRecords(rt, records))
		c := ReplayConfig{
			Path:    file,
			RUs:     d.Units(),
			Packing: packing,
			Loop:    true,
			Events:  uint64(events),
			CRC:     true,
		}
		if rapid.Bool().Draw(rt, "told") {
			c.Division = d
		}
		s := openSystem(t, c)
		got, err := s.readAll()
		if !errors.Is(err, io.EOF) {
			rt.Fatal(err)
		}
		var want []byte
		for i := range events {
			want = append(want, pieces[i%records]...)
		}
		if !bytes.Equal(got, want) {
			rt.Fatal("the records that came are not those of the file, again and again")
		}
		if st := s.rus[0].Stats(); st.Events != uint64(events) || st.Loops != uint64((events-1)/records) {
			rt.Fatalf("%+v", st)
		}
		if n, endless := s.rus[0].events(); n != uint64(events) || endless {
			rt.Fatal(n, endless)
		}
		for _, r := range s.rus {
			_ = r.Close()
		}
	})
}

func TestReplayDoesNotAllocate(t *testing.T) {
	r, err := OpenReplay(context0, ReplayConfig{
		Path:    samplePath(t),
		RUs:     1,
		Packing: 4,
		Loop:    true,
		CRC:     true,
	})
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	dst := make([]byte, r.MaxBlock())
	var b Block
	if a := testing.AllocsPerRun(10, func() {
		if err := r.Next(context0, dst, &b); err != nil {
			t.Error(err)
		}
	}); a != 0 {
		t.Errorf("%g allocations per block", a)
	}
}

func BenchmarkReplay(b *testing.B) {
	r, err := OpenReplay(context0, ReplayConfig{
		Path:    samplePath(b),
		RUs:     1,
		Packing: 10,
		Loop:    true,
	})
	if err != nil {
		b.Fatal(err)
	}
	defer r.Close()
	dst := make([]byte, r.MaxBlock())
	var blk Block
	for b.Loop() {
		if err := r.Next(context0, dst, &blk); err != nil {
			b.Fatal(err)
		}
	}
	b.SetBytes(int64(blk.Size))
}

func BenchmarkOpenReplay(b *testing.B) {
	path := samplePath(b)
	for b.Loop() {
		r, err := OpenReplay(context0, ReplayConfig{Path: path, RUs: 4, Packing: 10})
		if err != nil {
			b.Fatal(err)
		}
		b.SetBytes(int64(len(r.file.data)))
		_ = r.Close()
	}
}

// writeMDF writes records into a file and returns its name.
func writeMDF(t testing.TB, records [][]byte) (string, [][]byte) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "x.mdf")
	if err := os.WriteFile(path, bytes.Join(records, nil), 0o600); err != nil {
		t.Fatal(err)
	}
	return path, records
}

// TestReplayOfChains: records with large fragments, which are chains of banks, are rebuilt byte for byte, in wide MFPs
// where a stream has so much, whatever the number of readout units.
func TestReplayOfChains(t *testing.T) {
	path := filepath.Join(t.TempDir(), "x.mdf")
	var want []byte
	for e, sizes := range [][]int{{100, 10, 0}, {65_527, 200_000, 65_528}, {3, 300_001, 5}, {65_000, 65_000, 2}} {
		var fragments []event.SourceFragment
		for s, n := range sizes {
			fragments = append(fragments, event.SourceFragment{
				Type:   event.TestDet,
				Source: uint16(s),
				Data:   bytes.Repeat([]byte{byte(e + s)}, n),
			})
		}
		var err error
		if want, err = event.AppendRecordFromFragments(want, event.MDFHeader{Run: 1}, fragments); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(path, want, 0o666); err != nil {
		t.Fatal(err)
	}
	for rus := range 4 {
		for _, packing := range []int{1, 2, 9} {
			s := openSystem(t, ReplayConfig{
				Path:    path,
				RUs:     rus + 1,
				Packing: packing,
				CRC:     true,
			})
			if got, err := s.readAll(); !errors.Is(err, io.EOF) || !bytes.Equal(got, want) {
				t.Fatalf("%d RUs, packing %d: %v; %d bytes rebuilt of %d", rus+1, packing, err, len(got), len(want))
			}
		}
	}
}
