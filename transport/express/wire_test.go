package express

import (
	"bytes"
	"testing"

	"ringlet/testkit/golden"
)

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
		if want := golden.Hex(t, name); !bytes.Equal(got, want) {
			t.Errorf("%s:\n got %x\nwant %x", name, got, want)
		}
	}
}

func TestGoldenBytesAreUnderstood(t *testing.T) {
	for name, open := range seals {
		p := golden.Hex(t, name)
		var h Header
		if !h.Parse(p) || h != (Header{Datagram, 8, 1, goldenSession, goldenNumber}) {
			t.Fatalf("%s: %+v", name, h)
		}
		body, v := take(t, newOpener(t, goldenSuite(open)), p)
		if v != Fresh || string(body) != "ringlet" {
			t.Errorf("%s: verdict %d, %q", name, v, body)
		}
	}
}

func TestPacketsThatDoNotParse(t *testing.T) {
	change := func(at int, b byte) []byte {
		p := golden.Hex(t, "sealed")
		p[at] = b
		return p
	}
	for name, p := range map[string][]byte{
		"nothing":          nil,
		"a header":         golden.Hex(t, "sealed")[:HeaderSize],
		"no seal":          golden.Hex(t, "sealed")[:Overhead-1],
		"version 0":        change(0, 0x00),
		"version 2":        change(0, 0x20),
		"kind 3":           change(0, 0x13),
		"clear to the end": change(1, 16),
		"all clear":        change(1, 255),
	} {
		if h := (Header{}); h.Parse(p) {
			t.Errorf("%s: parsed as %+v", name, h)
		}
	}
	if h := (Header{}); !h.Parse(change(1, 15)) { // the body may be empty
		t.Error("a packet without a body does not parse")
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
		f.Add(golden.Hex(f, name))
	}
	f.Add(make([]byte, Overhead))
	f.Fuzz(func(t *testing.T, in []byte) {
		var h Header
		if !h.Parse(in) {
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
		f.Add(golden.Hex(f, name), false)
		f.Add(golden.Hex(f, name), true)
	}
	f.Add(golden.Hex(f, "sealed")[:Overhead+9], false)
	f.Fuzz(func(t *testing.T, in []byte, open bool) {
		name := "sealed"
		if open {
			name = "open"
		}
		o := newOpener(t, goldenSuite(open))
		var h Header
		if !h.Parse(in) || o.Look(&h) != Fresh {
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
		if v == Fresh && !open && !bytes.Equal(in, golden.Hex(t, name)) {
			t.Fatalf("%x opened", in)
		}
		if again := o.Look(&h); v == Fresh && again != Replayed || v == Forged && again != Fresh {
			t.Fatalf("verdict %d, and then %d", v, again)
		}
	})
}
