package source

import (
	"context"
	"encoding/binary"
	"errors"
	"io"
	"os"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"ringlet/event"
	"ringlet/event/placing"
)

var context0 = context.Background()

// record builds an MDF record of banks of the given sizes, all of one type with ids 0, 1, ….
func record(t testing.TB, sizes ...int) []byte {
	var payload []byte
	for i, n := range sizes {
		var err error
		data := make([]byte, n)
		for k := range data {
			data[k] = byte(k + i + n)
		}
		if payload, err = event.AppendBank(payload, 9, 1, int16(i), data); err != nil {
			t.Fatal(err)
		}
	}
	r, err := event.AppendRecord(nil, event.MDFHeader{DataType: event.MDFTypeBanks, Run: 7}, payload)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// genRecords draws records with odd headers, repeated keys, rubbish in the padding.
func genRecords(t *rapid.T, n int) [][]byte {
	records := make([][]byte, n)
	for i := range records {
		var payload []byte
		for range rapid.IntRange(0, 12).Draw(t, "banks") {
			kind := event.BankType(rapid.SampledFrom([]int{0, 9, 64, 241, 255}).Draw(t, "type"))
			id := int16(rapid.SampledFrom([]int{-32768, -1, 0, 1, 1000, 32767}).Draw(t, "id"))
			data := rapid.SliceOfN(rapid.Byte(), 0, 50).Draw(t, "data")
			payload, _ = event.AppendBank(payload, kind, 3, id, data)
			for k := range (4 - len(data)%4) % 4 {
				payload[len(payload)-1-k] = 0xAA // padding is the detector's business
			}
		}
		records[i], _ = event.AppendRecord(nil, event.MDFHeader{DataType: event.MDFTypeBanks, Orbit: uint32(i)}, payload)
	}
	return records
}

// reseal gives a changed record a right checksum again.
func reseal(r []byte) []byte {
	binary.LittleEndian.PutUint32(r[12:], event.MDFChecksum(r[event.MDFChecksumFrom:]))
	return r
}

func writeSizes(r []byte, n uint32) []byte {
	for at := range 3 {
		binary.LittleEndian.PutUint32(r[4*at:], n)
	}
	return r
}

// TestReplayBadRecords damages record 3 of 6 in every way the format allows.
func TestReplayBadRecords(t *testing.T) {
	many := make([]int, 0, 40000)
	for range cap(many) {
		many = append(many, 0)
	}
	for _, tc := range []struct {
		name    string
		damage  func(r []byte) []byte
		kind    error
		says    string
		skipped int // records left out with Skip; 2 where the bad one reaches into the next by its own account
	}{
		{"checksum", func(r []byte) []byte { r[60] ^= 1; return r }, event.ErrChecksum, "checksum", 1},
		{"bank magic", func(r []byte) []byte { r[48] ^= 1; return reseal(r) }, event.ErrMagic, "magic", 1},
		{"bank length", func(r []byte) []byte { r[51] = 0xFF; return reseal(r) }, event.ErrTruncated, "length", 1},
		{"one size", func(r []byte) []byte { r[4]++; return r }, event.ErrSize, "disagree", 1},
		{"all sizes too small", func(r []byte) []byte { return writeSizes(r, 4) }, event.ErrSize, "header", 1},
		{"all sizes too large", func(r []byte) []byte { return writeSizes(r, 1<<31) }, event.ErrTruncated, "beyond", 1},
		{"cut", func(r []byte) []byte { return r[:30] }, nil, "", 2},
		{"compressed", func(r []byte) []byte { r[16] = 1; return reseal(r) }, event.ErrUnsupported, "compress", 1},
		{"data type", func(r []byte) []byte { r[18] = 2; return reseal(r) }, event.ErrUnsupported, "type", 1},
		{"many banks", func([]byte) []byte { return record(t, many...) }, event.ErrRange, "40000 banks", 1},
	} {
		t.Run(tc.name, func(t *testing.T) {
			var records [][]byte
			for i := range 6 {
				records = append(records, record(t, 10+i, 20, 300))
			}
			want := strings.Join([]string{string(records[0]), string(records[1]), string(records[2])}, "")
			rest := string(records[4]) + string(records[5])
			lost := 0
			if tc.skipped == 2 {
				rest, lost = string(records[5]), len(records[4])
			}
			records[3] = tc.damage(append([]byte(nil), records[3]...))
			file, _ := writeMDF(t, records)

			s := openSystem(t, ReplayConfig{
				Path:    file,
				RUs:     2,
				Packing: 2,
				CRC:     true,
			})
			got, err := s.readAll()
			var bad *BadRecordError
			if !errors.As(err, &bad) || bad.Record != 3 || bad.Offset < int64(len(want)) ||
				bad.Offset >= int64(len(want)+len(records[3])+60) || bad.File != file {
				t.Fatalf("%v", err)
			}
			if tc.kind != nil && (!errors.Is(err, tc.kind) || !strings.Contains(err.Error(), tc.says)) {
				t.Errorf("%v, want %v (%s)", err, tc.kind, tc.says)
			}
			t.Log(err)
			if string(got) != want {
				t.Error("the events before the bad record did not come whole")
			}
			if s.rus[0].badRecord() == nil || s.rus[0].blocks() != 2 {
				t.Error("the last block is not the short one")
			}
			if err := s.rus[0].Next(context0, s.dst[0], &s.blocks[0]); !errors.Is(err, io.EOF) {
				t.Errorf("after the error: %v", err)
			}

			s = openSystem(t, ReplayConfig{
				Path:        file,
				RUs:         2,
				Packing:     2,
				CRC:         true,
				OnBadRecord: SkipBadRecord,
			})
			got, err = s.readAll()
			if !errors.Is(err, io.EOF) || string(got) != want+rest {
				t.Fatalf("with skip: %v, %d bytes of %d", err, len(got), len(want)+len(rest))
			}
			if st := s.rus[1].Stats(); st.SkippedRecords != uint64(tc.skipped) ||
				st.SkippedBytes != uint64(len(records[3])+lost) {
				t.Errorf("%+v, want %d bytes skipped", st, len(records[3])+lost)
			}
		})
	}
}

func (r *Replay) blocks() uint64 { return r.Stats().Blocks }

func TestReplayEnds(t *testing.T) {
	one := record(t, 5)
	for _, tc := range []struct {
		name string
		file [][]byte
		c    ReplayConfig
		want string // of the error that ends it
		n    int
	}{
		{"empty", nil, ReplayConfig{}, "EOF", 0},
		{"rubbish only", [][]byte{[]byte("this is not an MDF file at all")}, ReplayConfig{}, "record 0 at offset 0", 0},
		{"rubbish skipped", [][]byte{[]byte("this is not an MDF file at all")}, ReplayConfig{OnBadRecord: SkipBadRecord},
			"EOF", 0},
		{"cut at the end", [][]byte{one, one[:40]}, ReplayConfig{}, "record 1 at offset 64", 1},
		{"cut at the end, skipped", [][]byte{one, one[:40]}, ReplayConfig{OnBadRecord: SkipBadRecord, Loop: true, Events: 5},
			"EOF",
			5},
		{"loop stops at bad", [][]byte{one, one[:40]}, ReplayConfig{Loop: true}, "record 1", 1},
		{"limit before bad", [][]byte{one, one[:40]}, ReplayConfig{Events: 1}, "EOF", 1},
		{"limit", [][]byte{one, one, one}, ReplayConfig{Events: 2}, "EOF", 2},
		{"no banks", [][]byte{record(t)}, ReplayConfig{}, "EOF", 1},
	} {
		t.Run(tc.name, func(t *testing.T) {
			file, _ := writeMDF(t, tc.file)
			tc.c.Path, tc.c.RUs, tc.c.Packing, tc.c.CRC = file, 2, 3, true
			s := openSystem(t, tc.c)
			got, err := s.readAll()
			if !strings.Contains(err.Error(), tc.want) {
				t.Errorf("%v, want %q", err, tc.want)
			}
			if n := s.rus[1].Stats().Events; n != uint64(tc.n) || tc.n > 0 && len(got) != tc.n*len(tc.file[0]) {
				t.Errorf("%d events, %d bytes", n, len(got))
			}
		})
	}
}

func TestOpenReplayRefuses(t *testing.T) {
	empty, _ := writeMDF(t, nil)
	for _, tc := range []struct {
		c    ReplayConfig
		want string
	}{
		{ReplayConfig{Path: "/nonexistent/x.mdf", RUs: 1, Packing: 1}, "no such file"},
		{ReplayConfig{Path: t.TempDir(), RUs: 1, Packing: 1}, "not a regular file"},
		{ReplayConfig{Path: os.DevNull, RUs: 1, Packing: 1}, "not a regular file"},
		{ReplayConfig{Path: empty, RUs: 1, Packing: 1, Loop: true}, "holds no event"},
		{ReplayConfig{Path: empty, RUs: 1, Packing: 0}, "packing: 0 events"},
		{ReplayConfig{Path: empty, RUs: 1, Packing: 1, Division: placing.NewDivision(-1)}, "has no source"},
		{ReplayConfig{Path: empty, RUs: 2, RU: 2, Packing: 1}, "number 2"},
	} {
		if r, err := OpenReplay(context0, tc.c); err == nil || r != nil || !strings.Contains(err.Error(), tc.want) {
			t.Errorf("%v, want %q", err, tc.want)
		}
	}
	for _, o := range []OnBadRecord{StopAtBadRecord, SkipBadRecord} {
		if back, err := ParseOnBadRecord(o.String()); err != nil || back != o {
			t.Error(o, back, err)
		}
	}
}

// TestReplayFileChanges cuts the file short, and rewrites it in place, while it is replayed.
func TestReplayFileChanges(t *testing.T) {
	records := make([][]byte, 100)
	for i := range records {
		records[i] = record(t, 3000, 3000, 3000)
	}
	for name, change := range map[string]func(path string) error{
		"cut": func(path string) error { return os.Truncate(path, 20000) },
		"rewritten": func(path string) error {
			f, err := os.OpenFile(path, os.O_WRONLY, 0)
			if err != nil {
				return err
			}
			defer f.Close()
			_, err = f.WriteAt([]byte{0xFF, 0x00}, int64(50*len(records[0])+50)) // a length
			return err
		},
	} {
		t.Run(name, func(t *testing.T) {
			file, _ := writeMDF(t, records)
			s := openSystem(t, ReplayConfig{
				Path:    file,
				RUs:     2,
				Packing: 1,
				CRC:     true,
			})
			if _, err := s.next(nil); err != nil {
				t.Fatal(err)
			}
			if err := change(file); err != nil {
				t.Fatal(err)
			}
			for i, r := range s.rus {
				var err error
				for err == nil {
					err = r.Next(context0, s.dst[i], &s.blocks[i])
				}
				var bad *BadRecordError
				if !errors.Is(err, ErrFileChanged) || !errors.As(err, &bad) || bad.File != file {
					t.Fatal(err)
				}
				t.Log(err)
			}
		})
	}
}
