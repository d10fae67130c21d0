package source

import (
	"bytes"
	"errors"
	"io"
	"testing"

	"ringlet/event"
)

// FuzzReplay replays damaged files. With Stop, what is rebuilt must be a prefix of the file, cut at the record the
// error names; with Skip, it must be the file without the stretches that were counted. Nothing may panic, hang, or be
// written outside a block.
func FuzzReplay(f *testing.F) {
	var complete []byte
	for i := range 5 {
		complete = append(complete, record(f, i, 7, 30*i)...)
	}
	f.Add(complete, uint8(2), uint8(2))
	f.Add(complete[:len(complete)-5], uint8(1), uint8(3))
	for _, at := range []int{0, 4, 12, 16, 17, 18, 48, 50, 52, 54, 60, 300} {
		bent := bytes.Clone(complete)
		bent[at] ^= 0x11
		f.Add(bent, uint8(3), uint8(4))
	}
	f.Add(append([]byte("rubbish"), complete...), uint8(1), uint8(1))
	f.Fuzz(func(t *testing.T, data []byte, rus, packing uint8) {
		for _, mode := range []OnBadRecord{StopAtBadRecord, SkipBadRecord} {
			s := &system{}
			for ru := range int(rus%3) + 1 {
				r := &Replay{replayLoop: replayLoop{cfg: ReplayConfig{
					Path:        "fuzz",
					RU:          ru,
					RUs:         int(rus%3) + 1,
					Packing:     int(packing%7) + 1,
					OnBadRecord: mode,
					CRC:         true,
				}, file: &mapping{data: data}}}
				if err := r.read(context0); err != nil {
					t.Fatal(err)
				}
				if err := r.measureBlocks(context0); err != nil {
					t.Fatal(err)
				}
				s.rus = append(s.rus, r)
				s.dst = append(s.dst, make([]byte, r.MaxBlock()))
			}
			s.blocks = make([]Block, len(s.rus))
			got, err := s.readAll()
			st := s.rus[0].Stats()
			var bad *BadRecordError
			switch {
			case mode == StopAtBadRecord && errors.As(err, &bad):
				if !bytes.HasPrefix(data, got) || len(got) == len(data) || bad.Record != int64(st.Events) ||
					bad.Offset < int64(len(got)) {
					t.Fatalf("%v after %d events in %d bytes", err, st.Events, len(got))
				}
			case mode == StopAtBadRecord && errors.Is(err, io.EOF):
				if !bytes.Equal(got, data) {
					t.Fatal("a sound file came out changed")
				}
			case mode == SkipBadRecord && errors.Is(err, io.EOF):
				if len(got)+int(st.SkippedBytes) != len(data) {
					t.Fatalf("%d bytes rebuilt and %d skipped of %d", len(got), st.SkippedBytes, len(data))
				}
			default:
				t.Fatal(err)
			}
			for c := event.NewMDFCursor(got, true); ; {
				if _, err := c.Next(); errors.Is(err, io.EOF) {
					break
				} else if err != nil {
					t.Fatalf("a bad record was delivered: %v", err)
				}
			}
		}
	})
}
