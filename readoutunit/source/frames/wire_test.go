package frames

import (
	"bytes"
	"encoding/binary"
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"ringlet/event"
	"ringlet/internal/crc32c"
	"ringlet/testkit/golden"
	"ringlet/testkit/must"
)

// appendHello is what a front-end says first.
func appendHello(dst []byte, h hello) []byte {
	dst = append(dst, helloMagic...)
	dst = append(dst, h.Version, h.Type)
	dst = binary.LittleEndian.AppendUint16(dst, h.Source)
	dst = binary.LittleEndian.AppendUint64(dst, h.Run)
	dst = binary.LittleEndian.AppendUint64(dst, uint64(len(h.Name)))
	return append(dst, h.Name...)
}

// appendFrame is a frame with its checksum, if its flags do not say that it has none.
func appendFrame(dst []byte, f frame) []byte {
	at := len(dst)
	dst = binary.LittleEndian.AppendUint64(dst, f.Event)
	dst = binary.LittleEndian.AppendUint32(dst, uint32(len(f.Data)))
	dst = append(dst, f.Flags, f.Type)
	dst = binary.LittleEndian.AppendUint16(dst, frameMark)
	sum := uint32(0)
	if f.Flags&flagUnchecked == 0 {
		sum = crc32c.Add(crc32c.Sum(dst[at:]), f.Data)
	}
	return append(binary.LittleEndian.AppendUint32(dst, sum), f.Data...)
}

var goldenHello = hello{
	Version: 1,
	Type:    51,
	Source:  0x0107,
	Run:     42,
	Name:    "tpc",
}

var goldenFrames = []frame{
	{Event: 7, Data: []byte("hello")},
	{Event: 8, Flags: flagUnchecked, Data: []byte{0xab, 0xcd}},
	{
		Event: 9,
		Flags: flagTyped,
		Type:  uint8(event.FragmentMissing),
		Data:  []byte{0xff},
	},
	{Event: 10, Flags: flagEnd, Data: []byte{}},
}

// TestStreamGolden holds that the bytes of the document are read as what they say.
func TestStreamGolden(t *testing.T) {
	b := golden.Hex(t, "stream")
	h, n, err := parseHello(b)
	must.OK(t, err)
	if diff := cmp.Diff(goldenHello, h); diff != "" {
		t.Error(diff)
	}
	made := appendHello(nil, h)
	for _, want := range goldenFrames {
		var got frame
		if err := parseFrame(&got, b[n:]); err != nil {
			t.Fatalf("event %d: %v", want.Event, err)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Error(diff)
		}
		n += got.size()
		made = appendFrame(made, got)
	}
	if n != len(b) || !bytes.Equal(made, b) {
		t.Errorf("%d of %d bytes; made anew:\n%x\nwant\n%x", n, len(b), made, b)
	}
}

// TestAnswersGolden holds that what Ringlet says is what the document says.
func TestAnswersGolden(t *testing.T) {
	got := appendAnswer(nil, answer{
		Code:    accepted,
		Event:   7,
		Window:  storeSize,
		Largest: event.MaxFragment,
	})
	got = appendAnswer(got, answer{Code: acknowledged, Event: 10})
	got = appendAnswer(got, answer{Code: busy, Sentence: "busy"})
	if want := golden.Hex(t, "answers"); !bytes.Equal(got, want) {
		t.Errorf("got\n%x\nwant\n%x", got, want)
	}
	if long := appendAnswer(nil, answer{Sentence: strings.Repeat("x", 1000)}); len(long) != answerSize+maxSentence {
		t.Errorf("a long sentence makes %d bytes", len(long))
	}
}

// TestBrokenFrames: each way to break a frame has its sentence, and is found as early as it can be.
func TestBrokenFrames(t *testing.T) {
	good := appendFrame(nil, goldenFrames[0])
	for name, c := range map[string]struct {
		change func(b []byte)
		want   string
		early  bool // in the header
	}{
		"mark":     {func(b []byte) { b[14]++ }, "mark", true},
		"flags":    {func(b []byte) { b[12] = 0x80 }, "unknown flags", true},
		"size":     {func(b []byte) { b[10] = 1 }, "65535 are the most", true},
		"event":    {func(b []byte) { copy(b, "\xff\xff\xff\xff\xff\xff\xff\xff") }, "no event number", true},
		"end":      {func(b []byte) { b[12] = flagEnd }, "has 5 bytes of data", true},
		"data":     {func(b []byte) { b[22] ^= 4 }, "changed on the way", false},
		"number":   {func(b []byte) { b[0]++ }, "changed on the way", false},
		"type":     {func(b []byte) { b[13]++ }, "changed on the way", false},
		"absent":   {func(b []byte) { b[12] = flagUnchecked }, "says that it has none", false},
		"checksum": {func(b []byte) { b[16]++ }, "changed on the way", false},
	} {
		b := bytes.Clone(good)
		c.change(b)
		if c.early {
			b = b[:frameSize]
		}
		var f frame
		err := parseFrame(&f, b)
		var broken *formatError
		if !errors.As(err, &broken) || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v", name, err)
		}
	}
	for n := range good {
		var f frame
		if err := parseFrame(&f, good[:n]); !errors.Is(err, errShort) {
			t.Errorf("%d of %d bytes: %v", n, len(good), err)
		}
	}
}

// TestBrokenHellos: as frames.
func TestBrokenHellos(t *testing.T) {
	good := appendHello(nil, goldenHello)
	for name, c := range map[string]struct {
		change func(b []byte) []byte
		want   string
	}{
		"another protocol": {func([]byte) []byte { return []byte("GET / HTTP/1.1\r\n") }, `not with "GET `},
		"first byte":       {func([]byte) []byte { return []byte{'S'} }, `begins with "RLFH"`},
		"reserved":         {func(b []byte) []byte { b[20] = 1; return b }, "not zero"},
		"beside the name":  {func(b []byte) []byte { b[17] = 1; return b }, "not zero"},
		"name":             {func(b []byte) []byte { b[16] = maxName + 1; return b }, "64 are the most"},
	} {
		_, _, err := parseHello(c.change(bytes.Clone(good)))
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v", name, err)
		}
	}
	for n := range good {
		if _, _, err := parseHello(good[:n]); !errors.Is(err, errShort) {
			t.Errorf("%d of %d bytes: %v", n, len(good), err)
		}
	}
	if h, _, err := parseHello([]byte("RLFH\x09")); err != nil || h.Version != 9 {
		t.Errorf("a hello of version 9: %v, %v", h, err)
	}
}

// FuzzHello: no bytes break the parser, and what it reads is written as it was.
func FuzzHello(f *testing.F) {
	f.Add(appendHello(nil, goldenHello))
	f.Add([]byte("RLFH\x02"))
	f.Fuzz(func(t *testing.T, b []byte) {
		h, n, err := parseHello(b)
		if err == nil && h.Version == version && !bytes.Equal(appendHello(nil, h), b[:n]) {
			t.Errorf("%x is read as %+v", b, h)
		}
	})
}

// FuzzFrame: as FuzzHello; and a header that is not refused never asks for more than a frame may have.
func FuzzFrame(f *testing.F) {
	for _, g := range goldenFrames {
		f.Add(appendFrame(nil, g))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		var fr frame
		err := parseFrame(&fr, b)
		if n := need(b); n < frameSize || n > frameSize+event.MaxFragment || errors.Is(err, errShort) && n <= len(b) {
			t.Errorf("%d bytes are needed for %x", n, b)
		}
		if err == nil && !bytes.Equal(appendFrame(nil, fr), b[:fr.size()]) {
			t.Errorf("%x is read as %+v", b, fr)
		}
	})
}
