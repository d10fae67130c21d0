package express

import (
	"bytes"
	"encoding/hex"
	"errors"
	"os"
	"strings"
	"testing"
)

// golden reads bytes written by hand: hex digits, with comments from # to the end of the line.
func golden(t testing.TB, name string) []byte {
	t.Helper()
	text, err := os.ReadFile("testdata/" + name + ".hex")
	if err != nil {
		t.Fatal(err)
	}
	var digits strings.Builder
	for line := range strings.Lines(string(text)) {
		line, _, _ = strings.Cut(line, "#")
		digits.WriteString(strings.Join(strings.Fields(line), ""))
	}
	b, err := hex.DecodeString(digits.String())
	if err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	return b
}

const (
	goldenSession = 0x0badcafe
	goldenNumber  = keyLife + 1
)

// goldenSuite has the key material of the golden bytes: different in every epoch.
func goldenSuite(open bool) Suite {
	return Suite{Open: open, Keyed: 0x1122334455667788, Derive: func(epoch uint32) ([]byte, error) {
		m := make([]byte, MaterialSize)
		for i := range m {
			m[i] = byte(i) ^ byte(epoch) ^ byte(epoch>>8)
		}
		return m, nil
	}}
}

var seals = map[string]bool{"sealed": false, "open": true}

func TestGoldenBytesAreWhatIsSealed(t *testing.T) {
	for name, open := range seals {
		x := newSealer(t, goldenSuite(open), goldenNumber)
		got := seal(t, x, Datagram, []byte("in clear"), []byte("ringlet"))
		if want := golden(t, name); !bytes.Equal(got, want) {
			t.Errorf("%s:\n got %x\nwant %x", name, got, want)
		}
	}
}

func TestGoldenBytesAreUnderstood(t *testing.T) {
	for name, open := range seals {
		p := golden(t, name)
		var h Header
		if err := h.Parse(p); err != nil || h != (Header{Datagram, 8, 1, goldenSession, goldenNumber}) {
			t.Fatalf("%s: %+v, %v", name, h, err)
		}
		body, v := take(t, newOpener(t, goldenSuite(open)), p)
		if v != Fresh || string(body) != "ringlet" {
			t.Errorf("%s: verdict %d, %q", name, v, body)
		}
	}
}

func TestMalformedPacketsAreNamed(t *testing.T) {
	change := func(at int, b byte) []byte {
		p := golden(t, "sealed")
		p[at] = b
		return p
	}
	for name, tc := range map[string]struct {
		p    []byte
		want string
	}{
		"nothing":          {nil, "shorter than the 32 bytes"},
		"a header":         {golden(t, "sealed")[:HeaderSize], "shorter than the 32 bytes"},
		"no seal":          {golden(t, "sealed")[:Overhead-1], "shorter than the 32 bytes"},
		"version 0":        {change(0, 0x00), "another version"},
		"version 2":        {change(0, 0x20), "another version"},
		"kind 3":           {change(0, 0x13), "unknown kind"},
		"clear to the end": {change(1, 16), "clear part is longer"},
		"all clear":        {change(1, 255), "clear part is longer"},
	} {
		var h Header
		err := h.Parse(tc.p)
		var format *formatError
		if !errors.As(err, &format) || !strings.Contains(err.Error(), tc.want) ||
			!strings.HasPrefix(err.Error(), "express packet is malformed: ") {
			t.Errorf("%s: %v, want %q", name, err, tc.want)
		}
	}
	var h Header
	if err := h.Parse(change(1, 15)); err != nil { // the body may be empty
		t.Error(err)
	}
}

// TestPacketsAreNotTakenForQUIC: RFC 9000 has one of the two highest bits set in each of its packets.
func TestPacketsAreNotTakenForQUIC(t *testing.T) {
	for first := range 256 {
		if got, want := Is([]byte{byte(first), 1}), first < 64; got != want {
			t.Errorf("first byte %#02x: ours %v, want %v", first, got, want)
		}
	}
	if Is(nil) {
		t.Error("nothing is one of ours")
	}
	for k := range Kind(kinds) {
		if !Is(seal(t, newSealer(t, goldenSuite(false), 0), k, nil, nil)) {
			t.Errorf("a packet of kind %d is taken for QUIC", k)
		}
	}
}

// FuzzParse: what is accepted is what put would write, and all that the header speaks of lies in the packet.
func FuzzParse(f *testing.F) {
	for name := range seals {
		f.Add(golden(f, name))
	}
	f.Add(make([]byte, Overhead))
	f.Fuzz(func(t *testing.T, in []byte) {
		var h Header
		if h.Parse(in) != nil {
			return
		}
		if n := BodySize(in, &h); n < 0 || HeaderSize+h.Head+n+trailer != len(in) {
			t.Fatalf("%d bytes hold a head of %d and a body of %d", len(in), h.Head, n)
		}
		var out [HeaderSize]byte
		h.put(out[:])
		if !bytes.Equal(out[:], in[:HeaderSize]) || !Is(in) {
			t.Fatalf("%x parsed as %+v, which is %x", in[:HeaderSize], h, out)
		}
	})
}

// FuzzOpen gives openers of both kinds whatever comes: nothing opens that was not sealed, and nothing is written beyond
// its place.
func FuzzOpen(f *testing.F) {
	for name := range seals {
		f.Add(golden(f, name), false)
		f.Add(golden(f, name), true)
	}
	f.Add(golden(f, "sealed")[:Overhead+9], false)
	f.Fuzz(func(t *testing.T, in []byte, open bool) {
		name := "sealed"
		if open {
			name = "open"
		}
		o := newOpener(t, goldenSuite(open))
		var h Header
		if h.Parse(in) != nil || o.Look(&h) != Fresh {
			return
		}
		const room, mark = 64, 0xA5
		n := BodySize(in, &h)
		memory := bytes.Repeat([]byte{mark}, room+n+room)
		packet := bytes.Clone(in)
		v := o.Open(memory[room:room+n:room+n], packet, &h)
		if bytes.Count(memory[:room], []byte{mark}) != room || bytes.Count(memory[room+n:], []byte{mark}) != room {
			t.Fatal("bytes beside the place were written")
		}
		if !bytes.Equal(packet, in) {
			t.Fatal("the packet was changed")
		}
		if v != Fresh && v != Forged {
			t.Fatalf("verdict %d", v)
		}
		// An open packet may well be made by who knows the session's number, as the fuzzer does; a sealed one may not.
		if v == Fresh && !open && !bytes.Equal(in, golden(t, name)) {
			t.Fatalf("%x opened", in)
		}
		if again := o.Look(&h); v == Fresh && again != Replayed || v == Forged && again != Fresh {
			t.Fatalf("verdict %d, and then %d", v, again)
		}
	})
}
