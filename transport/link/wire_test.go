package link

import (
	"bytes"
	"strings"
	"testing"

	"ringlet/shmem"
	"ringlet/testkit/golden"
)

const goldenSeq = 0x0a0b0c0d

// goldenWrite is what write.hex and dmove.hex say.
func goldenWrite(dmove bool) Write {
	return Write{
		Ref:    shmem.Ref{Window: 2, Gen: 7},
		Offset: 16,
		Data:   []byte("ringlet"),
		Imm:    0x1122334455667788,
		Dmove:  dmove,
		Cookie: 5,
	}
}

// goldenPieces are what pieces.hex says.
func goldenPieces() []Piece {
	w := goldenWrite(false)
	return []Piece{{w.Ref, w.Offset, w.Imm, w.Data}, {Ref: w.Ref, Data: []byte("abc")}}
}

func goldenDuo(t testing.TB) *duo {
	d := newDuo(t, Config{})
	StartSpaces(goldenSeq, d.core[0], d.core[1])
	return d
}

func next(c *Core) []byte {
	buf := make([]byte, c.cfg.MaxDatagram)
	return buf[:c.Next(1e9, buf)]
}

func TestGoldenBytesAreWhatIsSent(t *testing.T) {
	request := func(w Write) func(*duo) []byte {
		return func(d *duo) []byte { d.core[0].Write(w); return next(d.core[0]) }
	}
	answer := func(w Write) func(*duo) []byte {
		return func(d *duo) []byte {
			d.core[0].Write(w)
			d.deliver(1, next(d.core[0]))
			return next(d.core[1])
		}
	}
	beyond := goldenWrite(false)
	beyond.Offset = duoGrant
	for name, build := range map[string]func(*duo) []byte{
		"write": request(goldenWrite(false)),
		"dmove": request(goldenWrite(true)),
		"pieces": func(d *duo) []byte {
			d.core[0].WriteMany(goldenPieces(), 5)
			return next(d.core[0])
		},
		"done":    answer(goldenWrite(false)),
		"refused": answer(beyond),
		"signal": func(d *duo) []byte {
			d.core[0].Signal([]byte("hello"))
			d.core[0].Signal(nil)
			return next(d.core[0])
		},
		"echo": func(d *duo) []byte {
			for i := range 3 { // the middle one is lost
				d.core[0].Write(goldenWrite(true))
				if b := next(d.core[0]); i != 1 {
					d.deliver(1, b)
				}
			}
			d.core[1].EndBatch()
			return next(d.core[1])
		},
	} {
		if got, want := build(goldenDuo(t)), golden.Hex(t, name); !bytes.Equal(got, want) {
			t.Errorf("%s:\n got %x\nwant %x", name, got, want)
		}
	}
}

func TestGoldenBytesAreUnderstood(t *testing.T) {
	for _, name := range []string{"write", "dmove"} {
		d := goldenDuo(t)
		d.deliver(1, golden.Hex(t, name))
		w := goldenWrite(false)
		want := Event{Kind: EventPlaced, Placement: Placement{w.Ref, w.Offset, 7, w.Imm}}
		if got := d.events[1]; len(got) != 1 || !sameEvent(got[0], want) {
			t.Errorf("%s: events %+v, want %+v", name, got, want)
		}
		if got := d.memory[1][shmem.PageSize+16:][:7]; string(got) != "ringlet" {
			t.Errorf("%s: placed %q", name, got)
		}
	}
	d := goldenDuo(t)
	d.deliver(1, golden.Hex(t, "pieces"))
	if got := d.eventsOf(1, EventPlacedMany); len(got) != 1 || len(got[0].Placements) != 2 ||
		got[0].Placements[0].Offset != 16 || got[0].Placements[1].Length != 3 {
		t.Errorf("pieces: %+v", got)
	}
	if got := d.memory[1][shmem.PageSize:]; string(got[16:23]) != "ringlet" || string(got[:3]) != "abc" {
		t.Errorf("pieces: placed %q", got[:23])
	}
	d = goldenDuo(t)
	d.deliver(0, golden.Hex(t, "signal"))
	if got := d.eventsOf(0, EventSignal); len(got) != 2 || string(got[0].Data) != "hello" || len(got[1].Data) != 0 {
		t.Errorf("signal: %+v", got)
	}
	for name, reason := range map[string]Reason{"done": 0, "refused": Reason(shmem.OutOfRange)} {
		d := goldenDuo(t)
		d.core[0].Write(goldenWrite(false))
		next(d.core[0])
		d.deliver(0, golden.Hex(t, name))
		if got := d.events[0]; len(got) != 1 || !sameEvent(got[0],
			Event{
				Kind:      EventCompleted,
				Reason:    reason,
				Cookie:    5,
				Placement: Placement{Length: 7},
			}) {
			t.Errorf("%s: %+v", name, got)
		}
	}
	d = goldenDuo(t)
	for range 3 {
		d.core[0].Write(goldenWrite(true))
		next(d.core[0])
	}
	d.deliver(0, golden.Hex(t, "echo"))
	if s := &d.core[0].recovery.send[spaceRequests]; s.inFlight != 1 || s.oldestLive != goldenSeq+1 ||
		s.creditLimit != goldenSeq+90 {
		t.Errorf("ack: %d live, low %#x, limit %#x", s.inFlight, s.oldestLive, s.creditLimit)
	}
}

func sameEvent(a, b Event) bool {
	return a.Kind == b.Kind && a.Reason == b.Reason && a.Ref == b.Ref && a.Offset == b.Offset && a.Length == b.Length &&
		a.Cookie == b.Cookie && a.Imm == b.Imm && bytes.Equal(a.Data, b.Data)
}

// with returns a golden datagram with bytes replaced from off on.
func with(t *testing.T, name string, off int, b ...byte) []byte {
	g := golden.Hex(t, name)
	copy(g[off:], b)
	return g
}

func TestMalformedDatagramsAreNamed(t *testing.T) {
	for _, tc := range []struct {
		name string
		d    []byte
		want string
	}{
		{"empty", nil, "malformed at byte 0: shorter than a header"},
		{"short header", golden.Hex(t, "write")[:7], "malformed at byte 7: shorter than a header"},
		{"version", with(t, "write", 0, 9), "version 9, this node speaks 5"},
		{"kind", with(t, "write", 1, 4), "malformed at byte 1: unknown kind"},
		{"frame type", with(t, "signal", 8, 77), "malformed at byte 8: unknown type"},
		{"second frame", with(t, "signal", 21, 77), "malformed at byte 21: unknown type"},
		{"write header cut", golden.Hex(t, "write")[:40], "a write's header is cut off"},
		{"write data cut", golden.Hex(t, "write")[:50], "a write's data is cut off"},
		{"write among responses", with(t, "write", 1, 1), "a write among the responses"},
		{"signal among requests", with(t, "signal", 1, 0), "a response among the requests"},
		{"chunk beyond", with(t, "write", 32, 1), "chunk lies beyond its transaction"},
		{"chunk size", with(t, "write", 28, 8), "chunk 0 of a write of 8 bytes is 7 bytes, not 8"},
		{"past 4 GiB", with(t, "write", 24, 0xfc, 0xff, 0xff, 0xff), "a write reaches past 4 GiB"},
		{"too many chunks", with(t, "write", 28, 0xff, 0xff, 0xff, 0xff), "chunk lies beyond its transaction"},
		{"response cut", golden.Hex(t, "done")[:12], "a response is cut off"},
		{"signal cut", golden.Hex(t, "signal")[:20], "a signal is cut off or too long"},
		{"signal far ahead", with(t, "signal", 12, 0, 1, 0, 0), "numbered too far ahead"},
		{"done to nothing", golden.Hex(t, "done"), "a transaction that is not open"},
		{"refused to nothing", golden.Hex(t, "refused"), "a transaction that is not open"},
		{"refused without reason", with(t, "refused", 9, 0), "a refusal without a reason"},
		{"fragment cut", golden.Hex(t, "part")[:16], "a fragment is cut off"},
		{"fragment's data cut", golden.Hex(t, "part")[:20], "a fragment is cut off"},
		{"fragment of no space", with(t, "part", 8, 2), "a fragment whose datagram cannot exist"},
		{"fragment beyond the last", with(t, "part", 9, 3), "a fragment whose datagram cannot exist"},
		{"fragment of too many", with(t, "part", 10, 65), "a fragment whose datagram cannot exist"},
		{"fragment of none", with(t, "part", 10, 0), "a fragment whose datagram cannot exist"},
		{"fragment of too much", with(t, "part", 12, 0xff, 0xff), "a fragment whose datagram cannot exist"},
		{"fragment beyond the credit", with(t, "part", 4, 0x65), "numbered beyond the credit"},
		{"beyond the credit", with(t, "write", 4, 0x65), "numbered beyond the credit"},
		{"ack cut", golden.Hex(t, "echo")[:30], "an ack is cut off"},
		{"ack of nothing sent", golden.Hex(t, "echo"), "datagrams never sent"},
	} {
		c := goldenDuo(t).core[0]
		err := c.Receive(1, tc.d)
		if err == nil || !strings.Contains(err.Error(), tc.want) {
			t.Errorf("%s: error %v, want %q", tc.name, err, tc.want)
		}
		if s := c.Stats(); s.DatagramsMalformed+s.DatagramsBeyondCredit != 1 || s.ChunksPlaced+s.ChunksRefused != 0 {
			t.Errorf("%s: counted as %+v", tc.name, s)
		}
	}
}

func TestAnotherViewIsDroppedAndCounted(t *testing.T) {
	d := goldenDuo(t)
	d.deliver(1, with(t, "write", 2, 4))
	if s := d.core[1].Stats(); s.DatagramsStale != 1 || len(d.events[1]) != 0 {
		t.Errorf("events %+v, stats %+v", d.events[1], s)
	}
}

// TestTarget: the first window of a write or of pieces, behind an ack or not, and of nothing else.
func TestTarget(t *testing.T) {
	want := goldenWrite(false).Ref
	write := golden.Hex(t, "write")
	ack := make([]byte, ackFrameSize)
	ack[0] = frameAck
	behind := append(append(append([]byte(nil), write[:headerSize]...), ack...), write[headerSize:]...)
	pieces := golden.Hex(t, "pieces")
	for name, d := range map[string][]byte{"write": write, "behind an ack": behind, "pieces": pieces} {
		if r, ok := FirstTarget(d); !ok || r != want {
			t.Errorf("%s: %v, %v", name, r, ok)
		}
		for n := range d {
			if r, ok := FirstTarget(d[:n]); ok && r != want {
				t.Errorf("%d bytes of %s: %v", n, name, r)
			}
		}
	}
	for _, name := range []string{"done", "refused", "signal", "echo", "part"} {
		if r, ok := FirstTarget(golden.Hex(t, name)); ok {
			t.Errorf("%s: %v", name, r)
		}
	}
}
