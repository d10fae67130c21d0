package source

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"ringlet/event"
)

// eudaqEvent serialises an event of EUDAQ 2 with one block, and with sub-events.
func eudaqEvent(name string, stream, number uint32, block []byte, subs ...[]byte) []byte {
	put := binary.LittleEndian.AppendUint32
	var b []byte
	for _, word := range []uint32{0x8026656D, 2, 0, stream, 1, number, number, 0, 0, 0, 0, 0, uint32(len(name))} {
		b = put(b, word)
	}
	b = put(append(b, name...), 0) // no tags
	if len(subs) > 0 {
		b = put(b, 0)
	} else {
		b = append(put(put(put(b, 1), 0), uint32(len(block))), block...)
	}
	return append(put(b, uint32(len(subs))), bytes.Join(subs, nil)...)
}

// openEudaq opens the replay of a file with all readout units.
func openEudaq(data []byte, c ReplayConfig) ([]*eudaqFile, error) {
	var rus []*eudaqFile
	for ru := range c.RUs {
		c.RU = ru
		r := &eudaqFile{replayLoop: replayLoop{cfg: c, file: &mapping{data: data}}}
		if err := r.scanFile(context0); err != nil {
			return nil, err
		}
		rus = append(rus, r)
	}
	return rus, nil
}

// worded sets the flags, the trigger number and the begin of a serialised event.
func worded(b []byte, flags, trigger uint32, begin uint64) []byte {
	binary.LittleEndian.PutUint32(b[8:], flags)
	binary.LittleEndian.PutUint32(b[24:], trigger)
	binary.LittleEndian.PutUint64(b[32:], begin)
	return b
}

// readFragments reads to the end: by event and source, the type, the words if it has some, and the bytes.
func readFragments(t must, rus []*eudaqFile) (all []map[uint16]string, err error) {
	var b Block
	for _, r := range rus {
		dst := make([]byte, r.MaxBlock())
		for {
			if err = r.Next(context0, dst, &b); err != nil {
				break
			}
			for len(all) < int(b.FirstEvent)+b.Events {
				all = append(all, map[uint16]string{})
			}
			for _, info := range b.MFPs {
				m, err := event.ParseMFP(dst[info.Offset : info.Offset+info.Size])
				if err != nil || m.Source() != info.Source || m.NumFragments() != b.Events || m.FirstEvent() != b.FirstEvent {
					t.Fatal(err, info)
				}
				for i, data := range m.Fragments() {
					said := ""
					if w := m.Words(i); w != (event.Words{}) {
						said = fmt.Sprint(w) + " "
					}
					all[int(b.FirstEvent)+i][m.Source()] = fmt.Sprintf("%d %s%s", m.FragmentType(i), said, data)
				}
			}
		}
	}
	return all, err
}

// TestEudaq replays events of which each has some of the producers.
func TestEudaq(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		d := divided(rt, 3)
		rus, sources := d.Units(), d.Sources()
		events := rapid.IntRange(1, 20).Draw(rt, "events")
		var file []byte
		want := make([]map[uint16]string, events)
		for e := range events {
			want[e] = map[uint16]string{}
			var subs [][]byte
			for s := range sources {
				want[e][uint16(s)] = "92 " // FragmentMissing
				if e == 0 || rapid.Bool().Draw(rt, "there") {
					block := rapid.SliceOfN(rapid.Byte(), 0, 9).Draw(rt, "block")
					if rapid.IntRange(0, 19).Draw(rt, "large") == 0 {
						block = append(block, make([]byte, 1<<16)...)
					}
					sub := eudaqEvent("P", uint32(s), uint32(e), block)
					said := ""
					if rapid.IntRange(0, 3).Draw(rt, "words") == 0 {
						sub = worded(sub, 48, uint32(e), 1<<40)
						said = fmt.Sprint(event.Words{HasTrigger: true, Trigger: uint64(e), HasStamp: true, Stamp: 1 << 40}) + " "
					}
					subs, want[e][uint16(s)] = append(subs, sub), "51 "+said+string(sub)
				}
			}
			if len(subs) == 0 {
				subs = append(subs, eudaqEvent("P", 0, uint32(e), nil))
				want[e][0] = "51 " + string(subs[0])
			}
			file = append(file, eudaqEvent("Collector", 0, uint32(e), nil, subs...)...)
		}
		c := ReplayConfig{
			Path:    "x.raw",
			RUs:     rus,
			Packing: rapid.IntRange(1, 9).Draw(rt, "packing"),
			CRC:     true,
		}
		if rapid.Bool().Draw(rt, "told") {
			c.Division = d
		}
		open, err := openEudaq(file, c)
		if err != nil {
			rt.Fatal(err)
		}
		got, err := readFragments(rt, open)
		if !errors.Is(err, io.EOF) || fmt.Sprint(got) != fmt.Sprint(want) {
			rt.Fatal(err, got, want)
		}
	})
}

func TestBadEudaq(t *testing.T) {
	one := func(n uint32) []byte { return eudaqEvent("A", 0, n, []byte("abc")) }
	collected := func(n uint32, subs ...[]byte) []byte { return eudaqEvent("C", 0, n, nil, subs...) }
	for _, tc := range []struct {
		name   string
		third  []byte
		says   string
		events int // with skip, of five
	}{
		{"twice", collected(2, one(2), one(2)), `"A", device 0, is in it twice`, 4},
		{"twice, and new", collected(2, eudaqEvent("B", 0, 2, nil), eudaqEvent("B", 0, 2, nil)), `"B", device 0, is in`, 4},
		{"again", one(1), "event 1 again", 4},
		{"gap", nil, "events 2 to 2 are not in the file", 4},
		{"class", append([]byte{0}, one(2)[1:]...), "is not RawEvent", 2},
	} {
		file := bytes.Join([][]byte{one(0), one(1), tc.third, one(3), one(4)}, nil)
		for _, mode := range []OnBadRecord{StopAtBadRecord, SkipBadRecord} {
			rus, err := openEudaq(file, ReplayConfig{
				Path:        "x.raw",
				RUs:         1,
				Packing:     2,
				OnBadRecord: mode,
			})
			if err != nil {
				t.Fatal(err)
			}
			got, err := readFragments(t, rus)
			var bad *BadRecordError
			if mode == StopAtBadRecord && (!errors.As(err, &bad) || len(got) != 2 || bad.Record != 2 ||
				!strings.Contains(err.Error(), tc.says)) {
				t.Errorf("%s: %v after %d events", tc.name, err, len(got))
			}
			if mode == SkipBadRecord && (!errors.Is(err, io.EOF) || len(got) != tc.events ||
				rus[0].Stats().SkippedRecords != 1) {
				t.Errorf("%s: %v after %d events", tc.name, err, len(got))
			}
		}
	}
}

// TestEudaqOfAChangedFile writes to a file that is replayed.
func TestEudaqOfAChangedFile(t *testing.T) {
	var file []byte
	for n := range uint32(10) {
		file = append(file, eudaqEvent("C", 0, n, nil, worded(eudaqEvent("A", 0, n, []byte("ab")), n&1*48, n, 7),
			eudaqEvent("B", 0, n, nil))...)
	}
	for at := range file {
		data := bytes.Clone(file)
		rus, err := openEudaq(data, ReplayConfig{Path: "x.raw", RUs: 2, Packing: 3})
		if err != nil {
			t.Fatal(err)
		}
		data[at] ^= 0x41
		if _, err := readFragments(t, rus); !errors.Is(err, io.EOF) && !errors.Is(err, ErrFileChanged) {
			t.Fatal(err)
		}
	}
}

func TestEudaqDoesNotAllocate(t *testing.T) {
	var file []byte
	for n := range uint32(10) {
		file = append(file, eudaqEvent("C", 0, n, nil, worded(eudaqEvent("A", 0, n, []byte("ab")), n&1*48, n, 7),
			eudaqEvent("B", 0, n, nil))...)
	}
	s, err := openRecorded(context0, ReplayConfig{
		Path:    writeFile(t, file),
		RUs:     1,
		Packing: 3,
		Loop:    true,
	})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	dst := make([]byte, s.MaxBlock())
	var b Block
	if a := testing.AllocsPerRun(20, func() {
		if err := s.Next(context0, dst, &b); err != nil {
			t.Error(err)
		}
	}); a != 0 {
		t.Errorf("%g allocations per block", a)
	}
}

// FuzzEudaq replays damaged files: nothing may panic, hang, or come out that is no MFP.
func FuzzEudaq(f *testing.F) {
	var complete []byte
	for n := range uint32(3) {
		a, b := worded(eudaqEvent("A", 0, n, []byte("ab")), 16*n, n, 7), eudaqEvent("B", 0, n, nil)
		complete = append(complete, eudaqEvent("C", 0, n, nil, a, b)...)
	}
	f.Add(complete, uint8(0), uint8(2))
	f.Add(complete[:len(complete)-5], uint8(1), uint8(0))
	f.Fuzz(func(t *testing.T, data []byte, rus, packing uint8) {
		for _, mode := range []OnBadRecord{StopAtBadRecord, SkipBadRecord} {
			open, err := openEudaq(data, ReplayConfig{
				Path:        "fuzz",
				RUs:         int(rus%3) + 1,
				Packing:     int(packing%7) + 1,
				OnBadRecord: mode,
			})
			if err == nil {
				_, err = readFragments(t, open)
			}
			var bad *BadRecordError
			var config *ConfigError
			if !errors.Is(err, io.EOF) && !errors.As(err, &config) && !(mode == StopAtBadRecord && errors.As(err, &bad)) {
				t.Fatal(err)
			}
		}
	})
}
