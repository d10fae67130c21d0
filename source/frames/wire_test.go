package frames

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"strings"
	"testing"
	"unicode/utf8"

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
	if h.Version == version1 {
		dst = binary.LittleEndian.AppendUint64(dst, uint64(len(h.Name)))
		return append(dst, h.Name...)
	}
	var options []byte
	if h.Name != "" {
		options = appendOption(options, optionName, h.Name)
	}
	if h.SourceName != "" {
		options = appendOption(options, optionSource, h.SourceName)
	}
	if h.Follows {
		options = appendOption(options, optionFollow|optionRequired, "")
	}
	return appendOptions(dst, h.MaxFragmentBytes, options)
}

// appendOptions appends the end of a hello of version 2.
func appendOptions(dst []byte, largest uint32, options []byte) []byte {
	dst = binary.LittleEndian.AppendUint16(dst, uint16(len(options)))
	dst = append(dst, 0, 0)
	dst = binary.LittleEndian.AppendUint32(dst, largest)
	return append(dst, options...)
}

func appendOption(dst []byte, kind uint16, value string) []byte {
	dst = binary.LittleEndian.AppendUint16(dst, kind)
	dst = binary.LittleEndian.AppendUint16(dst, uint16(len(value)))
	return append(dst, value...)
}

// appendFrame is a frame with its checksum, if its flags do not say that it has none.
func appendFrame(dst []byte, f frame) []byte {
	at := len(dst)
	dst = binary.LittleEndian.AppendUint64(dst, f.Event)
	dst = binary.LittleEndian.AppendUint32(dst, uint32(len(f.Data)))
	dst = append(dst, f.Flags, f.Type)
	dst = binary.LittleEndian.AppendUint16(dst, frameMark)
	words := bytes.Repeat([]byte{0x5a}, optionalBytes(f.Flags))
	sum := uint32(0)
	if f.Flags&flagUnchecked == 0 {
		sum = crc32c.Add(crc32c.Add(crc32c.Sum(dst[at:]), words), f.Data)
	}
	dst = append(binary.LittleEndian.AppendUint32(dst, sum), words...)
	return append(dst, f.Data...)
}

var goldenHello = hello{
	Version: version1,
	Type:    51,
	Source:  0x0107,
	Run:     42,
	Name:    "tpc",
}

var goldenHello2 = hello{
	Version:          currentVersion,
	Type:             51,
	Source:           0x0107,
	Run:              42,
	Name:             "tpc",
	MaxFragmentBytes: 1000,
	SourceName:       "plane",
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

var goldenFrames2 = []frame{
	goldenFrames[0],
	{
		Event:    8,
		Flags:    flagUnchecked | flagTrigger,
		optional: 8,
		Data:     []byte{0xab, 0xcd},
		Words:    event.Words{HasTrigger: true, Trigger: 0x5a5a5a5a5a5a5a5a},
	},
	{
		Event:    9,
		Flags:    flagTyped | flagTrigger | flagStamp,
		Type:     uint8(event.FragmentMissing),
		optional: 16,
		Data:     []byte{0xff},
		Words: event.Words{
			HasTrigger: true,
			HasStamp:   true,
			Trigger:    0x5a5a5a5a5a5a5a5a,
			Stamp:      0x5a5a5a5a5a5a5a5a,
		},
	},
	goldenFrames[3],
}

// TestStreamGolden holds that the bytes of the document are read as what they say.
func TestStreamGolden(t *testing.T) {
	for name, c := range map[string]struct {
		hello  hello
		frames []frame
		known  uint8
	}{"stream": {goldenHello, goldenFrames, flagsVersion1}, "stream2": {goldenHello2, goldenFrames2, flagsKnown}} {
		b := golden.Hex(t, name)
		h, n, err := parseHello(b)
		must.OK(t, err)
		if diff := cmp.Diff(c.hello, h); diff != "" {
			t.Error(name, diff)
		}
		made := appendHello(nil, h)
		for _, want := range c.frames {
			var got frame
			if err := parseFrame(&got, b[n:], c.known, event.MaxNarrowFragment); err != nil {
				t.Fatalf("%s, event %d: %v", name, want.Event, err)
			}
			if diff := cmp.Diff(want, got, cmp.AllowUnexported(frame{})); diff != "" {
				t.Error(name, diff)
			}
			n += got.size()
			made = appendFrame(made, got)
		}
		if n != len(b) || !bytes.Equal(made, b) {
			t.Errorf("%s: %d of %d bytes; made anew:\n%x\nwant\n%x", name, n, len(b), made, b)
		}
	}
}

// TestAnswersGolden holds that what Ringlet says is what the document says.
func TestAnswersGolden(t *testing.T) {
	yes := answer{
		Code: codeAccepted,
		A:    7,
		B:    42,
		C:    storeSize,
		D:    event.MaxNarrowFragment,
	}
	late := givenUpRange{
		from:   5,
		to:     8,
		count:  3,
		reason: reasonLate,
	}
	no := answer{Code: codeBusy, Sentence: "busy"}
	for name, c := range map[string]struct {
		version uint8
		say     []answer
	}{
		"answers": {version1, []answer{yes, {Code: codeAcknowledged, A: 10}, no}},
		"answers2": {currentVersion, []answer{yes, late.answer(), {Code: codeAcknowledged, A: 10},
			{Code: codeEndReceived, A: 10},
			no}},
	} {
		var got []byte
		for _, a := range c.say {
			got = appendAnswer(got, c.version, a)
		}
		if want := golden.Hex(t, name); !bytes.Equal(got, want) {
			t.Errorf("%s: got\n%x\nwant\n%x", name, got, want)
		}
	}
	long := appendAnswer(nil, currentVersion, answer{Sentence: strings.Repeat("x", 1000)})
	if len(long) != answerSize+maxSentence {
		t.Errorf("a long sentence makes %d bytes", len(long))
	}
	if s := truncateSentence("x" + strings.Repeat("é", maxSentence)); len(s) != maxSentence-1 || !utf8.ValidString(s) {
		t.Errorf("a character is cut: %d bytes", len(s))
	}
}

// TestBrokenFrames: each way to break a frame has its sentence, and is found as early as it can be.
func TestBrokenFrames(t *testing.T) {
	stamped := appendFrame(nil, goldenFrames2[2])
	if err := parseFrame(new(frame), stamped, flagsVersion1, event.MaxNarrowFragment); err == nil ||
		!strings.Contains(err.Error(), "unknown flags") {
		t.Errorf("a time stamp on a connection of the first version: %v", err)
	}
	for n := range stamped {
		err := parseFrame(new(frame), stamped[:n], flagsKnown, event.MaxNarrowFragment)
		if !errors.Is(err, errMoreBytesNeeded) ||
			frameBytesNeeded(stamped[:n], event.MaxNarrowFragment) <= n {
			t.Errorf("%d of %d bytes: %v", n, len(stamped), err)
		}
	}
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
		err := parseFrame(&f, b, flagsKnown, event.MaxNarrowFragment)
		var broken *formatError
		if !errors.As(err, &broken) || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v", name, err)
		}
	}
	for n := range good {
		var f frame
		if err := parseFrame(&f, good[:n], flagsKnown, event.MaxNarrowFragment); !errors.Is(err, errMoreBytesNeeded) {
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
		if _, _, err := parseHello(good[:n]); !errors.Is(err, errMoreBytesNeeded) {
			t.Errorf("%d of %d bytes: %v", n, len(good), err)
		}
	}
	brokenOptions(t)
	if h, _, err := parseHello([]byte("RLFH\x09")); err != nil || h.Version != 9 {
		t.Errorf("a hello of version 9: %v, %v", h, err)
	}
}

// brokenOptions: what a hello of version 2 may not have.
func brokenOptions(t *testing.T) {
	t.Helper()
	head := appendHello(nil, hello{Version: currentVersion})[:16]
	for name, c := range map[string]struct {
		options []byte
		want    string
	}{
		"many":     {make([]byte, maxOptions+1), "1024 are the most"},
		"cut":      {[]byte{1, 0, 1}, "end within one"},
		"short":    {[]byte{1, 0, 9, 0, 'a'}, "has 9 bytes, and 1 are there"},
		"twice":    {appendOption(appendOption(nil, 1, "a"), 1, "b"), "comes twice"},
		"no name":  {appendOption(nil, 1, ""), "UTF-8 of 1 to 64"},
		"long":     {appendOption(nil, 1, strings.Repeat("a", 65)), "UTF-8 of 1 to 64"},
		"no text":  {appendOption(nil, 2, "\xff"), "UTF-8 of 1 to 64"},
		"secret":   {appendOption(nil, 3, strings.Repeat("a", 257)), "256 are the most"},
		"required": {appendOption(nil, 0x8009, "x"), "option 0x8009"},
	} {
		h, _, err := parseHello(appendOptions(bytes.Clone(head), 0, c.options))
		if err == nil || !strings.Contains(err.Error(), c.want) || h.Version != currentVersion {
			t.Errorf("%s: %v, %v", name, h, err)
		}
	}
	h, _, err := parseHello(appendOptions(head, 0, appendOption(appendOption(nil, 9, "later"), 3, "secret")))
	if err != nil || strings.Contains(fmt.Sprint(h), "secret") {
		t.Errorf("an option of later: %v, %v", h, err)
	}
}

// FuzzHello: no bytes break the parser, and what it reads is written as it was.
func FuzzHello(f *testing.F) {
	f.Add(appendHello(nil, goldenHello))
	f.Add(appendHello(nil, goldenHello2))
	f.Add(appendOptions(appendHello(nil, goldenHello2)[:16], 0, appendOption(nil, 9, "later")))
	f.Add([]byte("RLFH\x03"))
	f.Fuzz(func(t *testing.T, b []byte) {
		h, n, err := parseHello(b)
		switch {
		case err != nil:
		case n > len(b) || len(h.Name) > maxName || len(h.SourceName) > maxName:
			t.Errorf("%x is read as %+v", b, h)
		case h.Version == version1 && !bytes.Equal(appendHello(nil, h), b[:n]):
			t.Errorf("%x is read as %+v", b, h)
		case h.Version == currentVersion:
			if again, _, err := parseHello(appendHello(nil, h)); err != nil || again != h {
				t.Errorf("%x is read as %+v, and that as %+v, %v", b, h, again, err)
			}
		}
	})
}

// FuzzFrame: as FuzzHello; and a header that is not refused never asks for more than a frame may have.
func FuzzFrame(f *testing.F) {
	for _, g := range append(goldenFrames, goldenFrames2...) {
		f.Add(appendFrame(nil, g))
	}
	f.Add(appendFrame(nil, frame{Event: 3, Flags: flagMessage, Type: 2, Data: []byte("no gas")}))
	f.Fuzz(func(t *testing.T, b []byte) {
		var fr frame
		err := parseFrame(&fr, b, flagsKnown|flagMessage, event.MaxNarrowFragment)
		if n := frameBytesNeeded(b, event.MaxNarrowFragment); n < frameSize || n > frameSize+16+event.MaxNarrowFragment ||
			errors.Is(err, errMoreBytesNeeded) &&
				n <= len(b) {
			t.Errorf("%d bytes are needed for %x", n, b)
		}
		if err == nil && fr.optional == 0 && !bytes.Equal(appendFrame(nil, fr), b[:fr.size()]) {
			t.Errorf("%x is read as %+v", b, fr)
		}
		if err == nil && fr.size() > len(b) {
			t.Errorf("%d bytes of %d are read", fr.size(), len(b))
		}
	})
}
