package source

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"ringlet/event"
	"ringlet/event/pattern"
	"ringlet/event/placing"
	"ringlet/testkit/mfp"
)

// newMFP makes an MFP by hand: fragment i is of n bytes with the value source+event.
func newMFP(source uint16, first uint64, align uint8, sizes ...int) []byte {
	if slices.Max(append(sizes, 0)) > event.MaxNarrowFragment {
		return newWideMFP(source, first, align, sizes...)
	}
	b := make([]byte, event.MaxMFPSize(len(sizes), slices.Max(append(sizes, 0)), align))
	at := event.MFPHeaderSize(len(sizes))
	types, table := event.MFPTables(b, len(sizes))
	for i, n := range sizes {
		types[i] = 0x40
		table[2*i], table[2*i+1] = uint8(n), uint8(n>>8)
		for k := range n {
			b[at+k] = byte(uint64(source) + first + uint64(i))
		}
		at += (n + 1<<align - 1) &^ (1<<align - 1)
	}
	event.PutMFPHeader(b, event.MFPHeader{
		NumFragments: len(sizes),
		Size:         uint32(at),
		FirstEvent:   first,
		Source:       source,
		Align:        align,
		Version:      5,
	})
	return b[:at]
}

// newWideMFP is newMFP with sizes of 32 bits.
func newWideMFP(source uint16, first uint64, align uint8, sizes ...int) []byte {
	fragments := make([]mfp.Fragment, len(sizes))
	for i, n := range sizes {
		fragments[i] = mfp.Fragment{Type: 0x40, Data: bytes.Repeat([]byte{byte(uint64(source) + first + uint64(i))}, n)}
	}
	h := event.MFPHeader{FirstEvent: first, Source: source, Align: align, Version: 5, Wide: true}
	return mfp.Build(h, fragments...)
}

// newMEP makes a MEP of MFPs, each at a multiple of 4.
func newMEP(t must, mfps ...[]byte) []byte {
	b := make([]byte, event.MEPHeaderSize(len(mfps)))
	var sources []uint16
	var offsets []uint32
	for _, m := range mfps {
		offsets = append(offsets, uint32(len(b)/event.MEPWordBytes))
		sources = append(sources, uint16(m[16])|uint16(m[17])<<8)
		b = append(b, m...)
		b = append(b, make([]byte, roundUpToWord(len(b))-len(b))...)
	}
	if _, err := event.PutMEPHeader(b, sources, offsets, uint32(len(b)/event.MEPWordBytes)); err != nil {
		t.Fatal(err)
	}
	return b
}

type must interface{ Fatal(args ...any) }

// generated is a file of MEPs, or of their MFPs, as a run writes it.
func generated(t must, sources, packing int, events uint64, format string) []byte {
	g, err := NewGenerator(GeneratorConfig{
		Division:     placing.NewDivision(sources),
		Packing:      packing,
		FragmentSize: 40,
		Events:       events,
		Seed:         3,
		Model:        pattern.Poisson,
	})
	if err != nil {
		t.Fatal(err)
	}
	var file []byte
	dst := make([]byte, g.MaxBlock())
	for b := (Block{}); ; {
		if err := g.Next(context0, dst, &b); errors.Is(err, io.EOF) {
			return file
		} else if err != nil {
			t.Fatal(err)
		}
		var mfps [][]byte
		for _, m := range b.MFPs {
			mfps = append(mfps, dst[m.Offset:m.Offset+m.Size])
		}
		if format == event.FormatMEP {
			file = append(file, newMEP(t, mfps...)...)
		} else {
			file = append(file, bytes.Join(mfps, nil)...)
		}
	}
}

func writeFile(t testing.TB, data []byte) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "input")
	if err := os.WriteFile(path, data, 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// replayed is what all readout units together make of data: a file of the same format again, and the counters of the
// first, with the error that ended it.
func replayed(t must, data []byte, c ReplayConfig) ([]byte, Stats, error) {
	format := event.DetectFormat(data)
	var rus []*packetFile
	var dst [][]byte
	for ru := range c.RUs {
		c.RU = ru
		r := &packetFile{replayLoop: replayLoop{cfg: c, file: &mapping{data: data}}}
		if isPackets, err := r.scanFile(context0); err != nil || !isPackets {
			return nil, Stats{}, fmt.Errorf("RU %d does not open it: %v, %w", ru, isPackets, err)
		}
		rus, dst = append(rus, r), append(dst, make([]byte, r.MaxBlock()))
	}
	var out []byte
	blocks := make([]Block, len(rus))
	for {
		var mfps [][]byte
		var first error
		total := 0
		for i, r := range rus {
			err := r.Next(context0, dst[i], &blocks[i])
			if i > 0 && fmt.Sprint(err) != fmt.Sprint(first) {
				t.Fatal("RU", i, "says", err, "and RU 0", first)
			}
			if first = err; err != nil {
				continue
			}
			for _, m := range blocks[i].MFPs {
				p, err := event.ParseMFP(dst[i][m.Offset : m.Offset+m.Size])
				if err != nil || int(p.Source()) != len(mfps) || p.FirstEvent() != blocks[0].FirstEvent ||
					p.NumFragments() != blocks[0].Events || blocks[0].FirstEvent != blocks[0].MEP*uint64(c.Packing) {
					t.Fatal("block of RU", i, blocks[i], err)
				}
				mfps = append(mfps, p.Bytes())
			}
			total += blocks[i].Size
		}
		if first != nil {
			return out, rus[0].Stats(), first
		}
		if total > rus[0].maxMEP {
			t.Fatal("a MEP of", total, "bytes, the bound is", rus[0].maxMEP)
		}
		if format == event.FormatMEP {
			out = append(out, newMEP(t, mfps...)...)
		} else {
			out = append(out, bytes.Join(mfps, nil)...)
		}
	}
}

// TestPacketsComeBack replays files with other divisions over readout units and other packing, and back: the bytes are
// those that the generator makes with the same packing.
func TestPacketsComeBack(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		format := rapid.SampledFrom([]string{event.FormatMEP, event.FormatMFP}).Draw(rt, "format")
		d := divided(rt, 4)
		from, to := rapid.IntRange(1, 9).Draw(rt, "from"), rapid.IntRange(1, 20).Draw(rt, "to")
		events := uint64(rapid.IntRange(1, 40).Draw(rt, "events"))
		file := generated(rt, d.Sources(), from, events, format)
		c := ReplayConfig{
			Path:    "x",
			RUs:     d.Units(),
			Packing: to,
			CRC:     true,
		}
		if rapid.Bool().Draw(rt, "told") {
			c.Division = d
		}
		got, st, err := replayed(rt, file, c)
		if !errors.Is(err, io.EOF) || st.Events != events {
			rt.Fatal(err, st)
		}
		if !bytes.Equal(got, generated(rt, d.Sources(), to, events, format)) {
			rt.Fatal("other bytes than the generator makes with that packing")
		}
	})
}

// TestPacketsLoop replays a file again and again: event k has the fragments of event k modulo the number of events.
func TestPacketsLoop(t *testing.T) {
	file := newMEP(t, newMFP(3, 70, 2, 5, 1), newMFP(9, 70, 0, 0, 2))
	file = append(file, newMEP(t, newMFP(3, 72, 2, 9), newMFP(9, 72, 0, 3))...)
	for _, packing := range []int{1, 2, 3, 4, 7} {
		got, st, err := replayed(t, file, ReplayConfig{
			Path:    "x",
			RUs:     2,
			Packing: packing,
			Loop:    true,
			Events:  8,
		})
		if !errors.Is(err, io.EOF) || st.Loops != 2 || st.Events != 8 {
			t.Fatal(err, st)
		}
		var sizes []int
		for len(got) > 0 {
			p, err := event.ParseMEP(got)
			if err != nil {
				t.Fatal(err)
			}
			m, err := p.MFP(0)
			if err != nil || m.Align() != 2 || m.Version() != 5 || m.Source() != 0 {
				t.Fatal(err, m.Align(), m.Version())
			}
			for i, data := range m.Fragments() {
				sizes = append(sizes, len(data))
				if want := bytes.Repeat([]byte{byte(73 + (m.FirstEvent()+uint64(i))%3)}, len(data)); !bytes.Equal(data, want) {
					t.Fatalf("event %d has % x", m.FirstEvent()+uint64(i), data)
				}
			}
			got = got[len(p.Bytes()):]
		}
		if !slices.Equal(sizes, []int{5, 1, 9, 5, 1, 9, 5, 1}) {
			t.Fatal(sizes)
		}
	}
}

// TestWidePackets replays files whose MFPs have sizes of 16 and of 32 bits, in other packings: each fragment comes out
// as it is, and MFPs that need no wide table, and come from none, have none.
func TestWidePackets(t *testing.T) {
	sizes := []int{5, 70_000, 1, 65_535, 2, 300_000, 4, 0}
	for _, format := range []string{event.FormatMEP, event.FormatMFP} {
		var file []byte
		for first := uint64(0); first < 8; first += 2 {
			mfps := [][]byte{newMFP(0, first, 2, 7, 8), newMFP(1, first, 2, sizes[first:first+2]...)}
			if format == event.FormatMEP {
				file = append(file, newMEP(t, mfps...)...)
			} else {
				file = append(file, bytes.Join(mfps, nil)...)
			}
		}
		for _, packing := range []int{1, 2, 3, 8} {
			got, _, err := replayed(t, file, ReplayConfig{Path: "x", RUs: 2, Packing: packing})
			if !errors.Is(err, io.EOF) {
				t.Fatal(err)
			}
			if packing == 2 && !bytes.Equal(got, file) {
				t.Fatal("other bytes than in the file")
			}
			walk := packetWalk{data: got, format: format}
			seen := 0
			for err = walk.step(); err == nil; err = walk.step() {
				m := walk.mfps[1]
				if walk.mfps[0].IsWide() {
					t.Errorf("packing %d: the MFP of small fragments from %d is wide", packing, m.FirstEvent())
				}
				for i, data := range m.Fragments() {
					want := newMFP(1, m.FirstEvent()+uint64(i), 0, sizes[seen])
					if !bytes.HasSuffix(want, data) || len(data) != sizes[seen] {
						t.Fatalf("packing %d: event %d has %d bytes", packing, seen, len(data))
					}
					seen++
				}
			}
			if !errors.Is(err, io.EOF) || seen != len(sizes) {
				t.Fatal(seen, err)
			}
		}
	}
}

// TestBadPackets damages the third of five rows of a file in many ways.
func TestBadPackets(t *testing.T) {
	row := func(first uint64) [][]byte { return [][]byte{newMFP(0, first, 2, 4, 5), newMFP(1, first, 2, 6, 7)} }
	for _, tc := range []struct {
		name   string
		row    func(r [][]byte) [][]byte
		kind   error
		says   string
		events uint64 // with skip
	}{
		{"size", func(r [][]byte) [][]byte { r[1][4]++; return r }, event.ErrSize, "size", 8},
		{"table", func(r [][]byte) [][]byte { r[1][24] += 8; return r }, event.ErrSize, "packet size", 8},
		{"missing", func(r [][]byte) [][]byte { return r[:1] }, event.ErrOrder, "lack the MFP of source 1", 8},
		{"more", func(r [][]byte) [][]byte { return append(r, newMFP(7, 4, 2, 1, 1)) }, event.ErrOrder, "source 7", 8},
		{"align", func(r [][]byte) [][]byte { return [][]byte{r[0], newMFP(1, 4, 3, 6, 7)} }, event.ErrRange, "align", 8},
		{"no events", func([][]byte) [][]byte { return [][]byte{newMFP(0, 4, 2), newMFP(1, 4, 2)} }, event.ErrRange,
			"without events", 8},
		{"again", func([][]byte) [][]byte { return row(2) }, event.ErrOrder, "event 2 again", 8},
		{"gap", func([][]byte) [][]byte { return nil }, event.ErrOrder, "events 4 to 5 are not in the file", 8},
	} {
		for _, format := range []string{event.FormatMEP, event.FormatMFP} {
			t.Run(tc.name+"/"+format, func(t *testing.T) {
				var file []byte
				at := 0
				for i := range 5 {
					mfps := row(uint64(2 * i))
					if i == 2 {
						at, mfps = len(file), tc.row(mfps)
					}
					if format == event.FormatMEP && len(mfps) > 0 {
						file = append(file, newMEP(t, mfps...)...)
					} else {
						file = append(file, bytes.Join(mfps, nil)...)
					}
				}
				c := ReplayConfig{Path: "x.mep", RUs: 2, Packing: 3}
				_, st, err := replayed(t, file, c)
				var bad *BadRecordError
				if !errors.As(err, &bad) || st.Events != 4 || !errors.Is(err, tc.kind) || !strings.Contains(err.Error(), tc.says) ||
					bad.Offset < int64(at) || bad.Record < 2 {
					t.Fatal(err, st)
				}
				t.Log(err)
				c.OnBadRecord = SkipBadRecord
				_, st, err = replayed(t, file, c)
				if !errors.Is(err, io.EOF) || st.Events != tc.events || st.SkippedRecords == 0 {
					t.Fatal(err, st)
				}
			})
		}
	}
}

// TestOpenFile opens files by what is in them.
func TestOpenFile(t *testing.T) {
	mep := newMEP(t, newMFP(0, 0, 2, 4), newMFP(1, 0, 2, 4), newMFP(2, 0, 2, 4))
	for _, tc := range []struct {
		name string
		data []byte
		rus  int
		want string // kind, or what the error says
	}{
		{"mdf", record(t, 5), 1, "*source.Replay"},
		{"mep", mep, 3, "*source.packetFile"},
		{"mfp", newMFP(0, 0, 2, 4), 1, "*source.packetFile"},
		{"empty", nil, 1, "*source.Replay"},
		{"short", mep[:7], 1, "*source.packetFile"},
		{"uneven", mep, 2, "*source.packetFile"},
		{"one has none", mep, 4, "readout unit 3 of 4 has no source"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			s, err := openRecorded(context0, ReplayConfig{Path: writeFile(t, tc.data), RUs: tc.rus, Packing: 1})
			if got := fmt.Sprintf("%T %v", s, err); !strings.Contains(got, tc.want) {
				t.Fatal(got)
			}
			if s != nil {
				_ = s.Close()
			}
		})
	}
}

// TestPacketsDoNotAllocate reads blocks, passed through and packed anew.
func TestPacketsDoNotAllocate(t *testing.T) {
	path := writeFile(t, generated(t, 4, 50, 200, event.FormatMFP))
	for _, packing := range []int{50, 30} {
		s, err := openRecorded(context0, ReplayConfig{
			Path:    path,
			RU:      1,
			RUs:     2,
			Packing: packing,
			Loop:    true,
			CRC:     true,
		})
		if err != nil {
			t.Fatal(err)
		}
		dst := make([]byte, s.MaxBlock())
		var b Block
		if a := testing.AllocsPerRun(20, func() {
			if err := s.Next(context0, dst, &b); err != nil {
				t.Error(err)
			}
		}); a != 0 {
			t.Errorf("%g allocations per block of %d", a, packing)
		}
		_ = s.Close()
	}
}

// TestPacketsOfAChangedFile writes to a file that is replayed.
func TestPacketsOfAChangedFile(t *testing.T) {
	for at := range 40 {
		data := generated(t, 2, 5, 20, event.FormatMEP)
		r := &packetFile{replayLoop: replayLoop{cfg: ReplayConfig{Path: "x", RUs: 1, Packing: 3}, file: &mapping{data: data}}}
		if _, err := r.scanFile(context0); err != nil {
			t.Fatal(err)
		}
		for i := at; i < len(data); i += 40 {
			data[i] ^= 0xFF
		}
		dst := make([]byte, r.MaxBlock())
		for b := (Block{}); ; {
			err := r.Next(context0, dst, &b)
			if err == nil {
				continue
			}
			if !errors.Is(err, io.EOF) && !errors.Is(err, ErrFileChanged) {
				t.Fatal(err)
			}
			break
		}
	}
}

// FuzzPackets replays damaged files: nothing may panic, hang, or come out that is no MFP.
func FuzzPackets(f *testing.F) {
	for _, format := range []string{event.FormatMEP, event.FormatMFP} {
		complete := generated(f, 4, 3, 8, format)
		f.Add(complete, uint8(1), uint8(2))
		f.Add(complete[:len(complete)-5], uint8(0), uint8(3))
		for _, at := range []int{2, 4, 8, 12, 18, 20, 24, 40, 60, 300} {
			bent := bytes.Clone(complete)
			bent[at] ^= 0x11
			f.Add(bent, uint8(3), uint8(4))
		}
	}
	f.Fuzz(func(t *testing.T, data []byte, rus, packing uint8) {
		if f := event.DetectFormat(data); f != event.FormatMEP && f != event.FormatMFP {
			return
		}
		for _, mode := range []OnBadRecord{StopAtBadRecord, SkipBadRecord} {
			_, _, err := replayed(t, data, ReplayConfig{
				Path:        "fuzz",
				RUs:         int(rus%3) + 1,
				Packing:     int(packing%7) + 1,
				OnBadRecord: mode,
				CRC:         true,
			})
			var bad *BadRecordError
			var config *ConfigError
			if !errors.Is(err, io.EOF) && !errors.As(err, &config) && !(mode == StopAtBadRecord && errors.As(err, &bad)) {
				t.Fatal(err)
			}
		}
	})
}
