package local

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"

	"ringlet/shmem"
	"ringlet/transport/link"
)

// newTestRing is a ring in ordinary memory, with both of its cores.
func newTestRing(size int) (*mailboxWriter, *mailboxReader) {
	d := &mailbox{
		name:        "test",
		data:        make([]byte, size),
		head:        new(atomic.Uint64),
		tail:        new(atomic.Uint64),
		arrivalBell: shmem.BellAt(make([]byte, 8), 0),
		freedBell:   shmem.BellAt(make([]byte, 8), 0),
	}
	return &mailboxWriter{mailbox: d}, &mailboxReader{mailbox: d}
}

// FuzzMailbox gives a receiver a mailbox in which another process wrote anything: it reads records or says what is
// wrong, and comes to an end.
func FuzzMailbox(f *testing.F) {
	head := func(k kind, reason uint8, count, size int) []byte {
		b := make([]byte, 64)
		putHeader(b, k, reason, count, size)
		return b
	}
	f.Add(uint64(0), uint64(32), head(kindPlaced, 0, 1, 32))
	f.Add(uint64(minRing-8), uint64(64), head(kindPad, 0, 0, 8))
	f.Add(uint64(0), uint64(64), head(kindPlacedMany, 0, 2, 56))
	f.Add(uint64(0), uint64(64), head(kindSignal, 0, 3, 16))
	f.Add(uint64(0), uint64(1<<40), head(kindGoodbye, 0, 0, 8))
	f.Add(uint64(0), uint64(16), head(kindSignal, 0, 60000, 16))
	f.Add(uint64(0), uint64(64), head(kindPlacedMany, 0, 0, 8))
	f.Add(uint64(0), uint64(64), head(kindPlaced, 0, 1, 0))
	f.Fuzz(func(t *testing.T, at, written uint64, data []byte) {
		_, i := newTestRing(minRing)
		at &^= 7
		i.pos, i.headSeen = at, at
		for n := range min(len(data), minRing) {
			i.data[(at+uint64(n))%minRing] = data[n]
		}
		i.head.Store(at + written)
		for n := 0; ; n++ {
			r, err := i.next()
			if err != nil && !strings.Contains(err.Error(), "cannot be") {
				t.Fatal(err)
			}
			if r == nil || err != nil {
				return
			}
			if n > minRing/8 {
				t.Fatal("more records than a ring holds")
			}
			if len(r.signal) > link.MaxSignal || len(r.placements) > maxPlacements {
				t.Fatalf("%d bytes, %d placements", len(r.signal), len(r.placements))
			}
		}
	})
}

// FuzzRing holds that what one core writes the other reads, wherever in the ring and however full it is.
func FuzzRing(f *testing.F) {
	f.Add([]byte{1, 2, 3, 4, 5, 255, 0, 128})
	f.Add(bytes.Repeat([]byte{254, 63, 64}, 300))
	f.Fuzz(func(t *testing.T, steps []byte) {
		o, i := newTestRing(minRing)
		o.pos, o.tailSeen, i.pos, i.headSeen = 1<<40, 1<<40, 1<<40, 1<<40
		o.publish()
		i.release()
		var sent []int
		read := func() {
			r, err := i.next()
			if err != nil || (r == nil) != (len(sent) == 0) {
				t.Fatalf("%+v %v with %d sent", r, err, len(sent))
			}
			if r == nil {
				return
			}
			want := sent[0]
			sent = sent[1:]
			switch {
			case want < 128:
				if r.kind != kindPlacedMany || len(r.placements) != want%maxPlacements+1 ||
					r.placements[want%maxPlacements].Imm != uint64(want) {
					t.Fatalf("%+v, want %d", r, want)
				}
			default:
				if r.kind != kindSignal || !bytes.Equal(r.signal, bytes.Repeat([]byte{byte(want)}, 8*want%link.MaxSignal)) {
					t.Fatalf("%+v, want %d", r, want)
				}
			}
			i.release()
		}
		for _, s := range steps {
			var b []byte
			var err error
			if s < 128 {
				n := int(s)%maxPlacements + 1
				if b, err = o.allocate(kindPlacedMany, 0, n, n*placementSize); b != nil {
					for j := range n {
						putPlacement(b[j*placementSize:], &link.Placement{Imm: uint64(s)})
					}
				}
			} else {
				n := 8 * int(s) % link.MaxSignal
				if b, err = o.allocate(kindSignal, 0, n, n); b != nil {
					copy(b, bytes.Repeat([]byte{s}, n))
				}
			}
			if err != nil {
				t.Fatal(err)
			}
			if b == nil {
				if len(sent) == 0 {
					t.Fatal("an empty ring is full")
				}
				read()
				continue
			}
			o.publish()
			sent = append(sent, int(s))
			if s%3 == 0 {
				read()
			}
		}
		for len(sent) > 0 {
			read()
		}
		read()
	})
}

func FuzzOffer(f *testing.F) {
	f.Add(offer{
		tableName:   "ringlet-1-n0-table",
		tableID:     shmem.TableID{1},
		mailboxName: "ringlet-1-n0-table-door-1",
		nonce:       nonce{2},
	}.marshal())
	f.Add([]byte{1})
	f.Fuzz(func(t *testing.T, b []byte) {
		o, err := parseOffer(b)
		if err != nil {
			if !errors.Is(err, errBadOffer) {
				t.Fatal(err)
			}
			return
		}
		if !bytes.Equal(o.marshal(), b) {
			t.Errorf("%x is read as %+v", b, o)
		}
	})
}

// TestSenderRejectsForgedTail: a receiver that says it has read what was never written.
func TestSenderRejectsForgedTail(t *testing.T) {
	for _, tail := range []uint64{1 << 20, ^uint64(0)} {
		o, _ := newTestRing(minRing)
		o.tail.Store(tail)
		var err error
		for n := 0; err == nil && n < minRing; n++ {
			var b []byte
			if b, err = o.allocate(kindPlaced, 0, 1, placementSize); b == nil && err == nil {
				t.Fatalf("tail %d: full at %d", tail, o.pos)
			}
		}
		if want := fmt.Sprintf("the position read cannot be %#x", tail); !strings.Contains(err.Error(), want) {
			t.Errorf("tail %d: %v", tail, err)
		}
	}
}

// TestMailboxGolden holds the layout of docs/format/local.md.
func TestMailboxGolden(t *testing.T) {
	d, err := createMailbox("ringlet-t-door", testDir(t), minRing)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = d.seg.Close() }()
	o, i := &mailboxWriter{mailbox: d}, &mailboxReader{mailbox: d}
	b, err := o.allocate(kindRefused, 4, 1, placementSize)
	if err != nil {
		t.Fatal(err)
	}
	putPlacement(b, &link.Placement{
		Ref:    shmem.Ref{Window: 0x11121314, Gen: 0x21222324},
		Offset: 0x31323334,
		Length: 0x41424344,
		Imm:    0x5152535455565758,
	})
	o.publish()
	got := d.seg.Bytes()
	want := make([]byte, mailboxHeader+minRing)
	copy(want, "RNGLDOOR\x01")
	copy(want[0x10:], "\x00\x20\x00\x00\x00\x00\x00\x00\x00\x10")
	copy(want[0x20:], got[0x20:0x30])
	want[0x40] = 32
	copy(want[0x1000:], "\x20\x00\x00\x00\x03\x04\x01\x00"+
		"\x14\x13\x12\x11\x24\x23\x22\x21\x34\x33\x32\x31\x44\x43\x42\x41\x58\x57\x56\x55\x54\x53\x52\x51")
	if !bytes.Equal(got, want) {
		t.Errorf("% x\n% x", got[:0x110], got[0x1000:0x1020])
	}
	if nonce(got[0x20:0x30]) == (nonce{}) || binary.LittleEndian.Uint64(got[0x80:]) != 0 {
		t.Error("no nonce, or a tail")
	}
	if r, err := i.next(); err != nil || r.kind != kindRefused || r.reason != 4 || r.placements[0].Offset != 0x31323334 {
		t.Errorf("%+v %v", r, err)
	}
	for off, v := range map[int]byte{0: 'X', 8: 2, 0x11: 0x40, 0x18: 1} {
		bad := bytes.Clone(got)
		bad[off] = v
		if err := checkMailbox("bad", bad); err == nil {
			t.Errorf("byte %#x taken as %#x", off, v)
		}
	}
	if checkMailbox("short", got[:mailboxHeader]) == nil {
		t.Error("a mailbox without a ring was accepted")
	}
}
