package quic

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"errors"
	"io"
	"testing"
	"testing/iotest"

	"pgregory.net/rapid"
)

func TestRecordsComeBackWhole(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		const most = 9000
		records := rapid.SliceOfN(rapid.SliceOfN(rapid.Byte(), 1, most), 0, 8).Draw(t, "records")
		var stream []byte
		buf := make([]byte, recordHeader+most)
		for _, d := range records {
			stream = append(stream, buf[:putRecord(buf, d)]...)
		}
		var in io.Reader = bytes.NewReader(stream)
		if rapid.Bool().Draw(t, "in pieces") {
			in = iotest.HalfReader(in)
		}
		r := bufio.NewReaderSize(in, maxQuickDatagram)
		for i, want := range records {
			n, err := readRecord(r, buf[:most])
			if err != nil || !bytes.Equal(buf[:n], want) {
				t.Fatalf("record %d: %d bytes of %d, %v", i, n, len(want), err)
			}
		}
		if _, err := readRecord(r, buf[:most]); !errors.Is(err, io.EOF) {
			t.Fatalf("at the end: %v", err)
		}
	})
}

func TestRecordsThatCannotBe(t *testing.T) {
	for name, c := range map[string]struct {
		stream string
		want   error
	}{
		"nothing":           {"", io.EOF},
		"part of a length":  {"\x05\x00", io.ErrUnexpectedEOF},
		"no bytes":          {"\x00\x00\x00\x00", errRecordLength},
		"one too long":      {"\x11\x00\x00\x00", errRecordLength},
		"garbage":           {"\xde\xad\xbe\xef", errRecordLength},
		"a length alone":    {"\x05\x00\x00\x00", io.ErrUnexpectedEOF},
		"part of a record":  {"\x05\x00\x00\x00abcd", io.ErrUnexpectedEOF},
		"as long as can be": {"\x10\x00\x00\x00" + "0123456789abcdef", nil},
	} {
		_, err := readRecord(bufio.NewReader(bytes.NewReader([]byte(c.stream))), make([]byte, 16))
		if !errors.Is(err, c.want) {
			t.Errorf("%s: %v, not %v", name, err, c.want)
		}
	}
}

func TestRecordsAllocateNothing(t *testing.T) {
	buf, d := make([]byte, recordHeader+streamDatagram), make([]byte, streamDatagram)
	var stream []byte
	for range 8 {
		stream = append(stream, buf[:putRecord(buf, d)]...)
		stream = append(stream, buf[:putRecord(buf, d[:40])]...)
	}
	in := bytes.NewReader(stream)
	r := bufio.NewReaderSize(in, maxQuickDatagram)
	if n := testing.AllocsPerRun(100, func() {
		in.Reset(stream)
		r.Reset(in)
		for range 16 {
			if _, err := readRecord(r, d); err != nil {
				t.Fatal(err)
			}
			putRecord(buf, d)
		}
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

// FuzzRecords: whatever comes on a stream ends in whole records and then in a typed error.
func FuzzRecords(f *testing.F) {
	f.Add([]byte("\x05\x00\x00\x00hello\x01\x00\x00\x00!"))
	f.Add([]byte("\x00\x00\x00\x00"))
	f.Add([]byte("\xff\xff\xff\xff"))
	f.Add([]byte("\x64\x00\x00\x00short"))
	f.Fuzz(func(t *testing.T, stream []byte) {
		const most = 100
		r := bufio.NewReaderSize(bytes.NewReader(stream), 16)
		buf, again := make([]byte, most), make([]byte, recordHeader+most)
		var back []byte
		for {
			n, err := readRecord(r, buf)
			if err == nil {
				back = append(back, again[:putRecord(again, buf[:n])]...)
				continue
			}
			rest := stream[len(back):]
			switch {
			case errors.Is(err, io.EOF) && len(rest) == 0:
			case errors.Is(err, io.ErrUnexpectedEOF) && len(rest) > 0 && len(rest) < recordHeader+most:
			case errors.Is(err, errRecordLength) && len(rest) >= recordHeader:
				if n := binary.LittleEndian.Uint32(rest); n > 0 && n <= most {
					t.Errorf("a record of %d bytes was refused", n)
				}
			default:
				t.Errorf("%v with %d bytes left", err, len(rest))
			}
			break
		}
		if !bytes.HasPrefix(stream, back) {
			t.Error("the records are not those of the stream")
		}
	})
}
