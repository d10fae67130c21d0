package local

import (
	"bytes"
	"encoding/binary"
	"errors"
	"os"
	"strings"
	"testing"

	"ringlet/shmem"
	"ringlet/shmem/ring"
	"ringlet/testkit/must"
	"ringlet/transport/link"
)

// newTestRing is a mailbox in ordinary memory, with both of its ends.
func newTestRing(t testing.TB) (mem []byte, out *ring.Producer, in *inbox) {
	t.Helper()
	mem = make([]byte, ring.HeaderSize+minRing)
	err := ring.Init(mem, ring.Settings{Use: ring.Messages, LargestRecord: largestRecord})
	in = &inbox{}
	var writing, reading error
	in.Consumer, reading = ring.OpenConsumer("test", mem, ring.Messages)
	out, writing = ring.OpenProducer("test", mem)
	must.OK(t, errors.Join(err, reading, writing))
	return mem, out, in
}

// FuzzMailbox gives a receiver a mailbox in which another process wrote anything: it reads records or says what is
// wrong, and comes to an end.
func FuzzMailbox(f *testing.F) {
	head := func(k kind, flags byte, size int) []byte {
		b := make([]byte, 64)
		binary.LittleEndian.PutUint32(b[8:], uint32(size))
		b[12], b[13] = byte(k), flags
		return b
	}
	f.Add(uint64(32), head(kindPlaced, 0, placementSize))
	f.Add(uint64(minRing-16), head(kindPlaced, 1, 0)) // a wrap record
	f.Add(uint64(64), head(kindPlacedMany, 0, 2*pieceSize))
	f.Add(uint64(64), head(kindSignal, 0, 3))
	f.Add(uint64(1<<40), head(kindGoodbye, 0, 0))
	f.Add(uint64(16), head(kindSignal, 0, 60000))
	f.Add(uint64(64), head(kindPlacedMany, 0, 0))
	f.Add(uint64(64), head(kindPlaced, 0, 0))
	f.Add(uint64(48), head(kindRefused, 0, refusedSize))
	f.Fuzz(func(t *testing.T, written uint64, data []byte) {
		mem, _, in := newTestRing(t)
		copy(mem[ring.HeaderSize:], data)
		binary.LittleEndian.PutUint64(mem[0x80:], written)
		for n := 0; ; n++ {
			m, err := in.next()
			var broken *ring.BrokenError
			if err != nil && !errors.As(err, &broken) && !strings.HasPrefix(err.Error(), "mailbox: ") {
				t.Fatal(err)
			}
			if m == nil || err != nil {
				return
			}
			if n > minRing/16 {
				t.Fatal("more records than a ring holds")
			}
			if len(m.signal) > link.MaxSignal || len(m.placements) > maxPlacements {
				t.Fatalf("%d bytes, %d placements", len(m.signal), len(m.placements))
			}
		}
	})
}

// FuzzRing holds that what one end writes the other reads, wherever in the ring and however full it is.
func FuzzRing(f *testing.F) {
	f.Add([]byte{1, 2, 3, 4, 5, 255, 0, 128})
	f.Add(bytes.Repeat([]byte{254, 63, 64}, 300))
	f.Fuzz(func(t *testing.T, steps []byte) {
		_, out, in := newTestRing(t)
		var sent []int
		read := func() {
			m, err := in.next()
			if err != nil || (m == nil) != (len(sent) == 0) {
				t.Fatalf("%+v %v with %d sent", m, err, len(sent))
			}
			if m == nil {
				return
			}
			want := sent[0]
			sent = sent[1:]
			switch {
			case want < 128:
				if m.kind != kindPlacedMany || len(m.placements) != want%maxPlacements+1 ||
					m.placements[want%maxPlacements].Imm != uint64(want) {
					t.Fatalf("%+v, want %d", m, want)
				}
			default:
				if m.kind != kindSignal || !bytes.Equal(m.signal, bytes.Repeat([]byte{byte(want)}, 8*want%link.MaxSignal)) {
					t.Fatalf("%+v, want %d", m, want)
				}
			}
			in.ReleaseAll()
		}
		for _, s := range steps {
			var b []byte
			var ok bool
			var err error
			if s < 128 {
				ps := make([]link.Placement, int(s)%maxPlacements+1)
				for j := range ps {
					ps[j].Imm = uint64(s)
				}
				if b, ok, err = out.Allocate(placementsSize(kindPlacedMany, len(ps))); ok {
					out.Publish(encodePlacements(b, kindPlacedMany, 0, ps), uint8(kindPlacedMany))
				}
			} else {
				n := 8 * int(s) % link.MaxSignal
				if b, ok, err = out.Allocate(n); ok {
					copy(b, bytes.Repeat([]byte{s}, n))
					out.Publish(0, uint8(kindSignal))
				}
			}
			if err != nil {
				t.Fatal(err)
			}
			if !ok {
				if len(sent) == 0 {
					t.Fatal("an empty ring is full")
				}
				read()
				continue
			}
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
		nonce:       ring.Nonce{2},
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
		mem, out, _ := newTestRing(t)
		binary.LittleEndian.PutUint64(mem[0xC0:], tail)
		var err error
		for n := 0; err == nil && n < minRing; n++ {
			var ok bool
			if _, ok, err = out.Allocate(placementSize); ok {
				out.Publish(0, uint8(kindPlaced))
			} else if err == nil {
				t.Fatalf("tail %d: full at record %d", tail, n)
			}
		}
		var broken *ring.BrokenError
		if !errors.As(err, &broken) || broken.What != "taken position" {
			t.Errorf("tail %d: %v", tail, err)
		}
	}
}

// TestMailboxGolden holds the layout of docs/format/ring.md, and of the records of mailboxes there.
func TestMailboxGolden(t *testing.T) {
	dir := testDir(t)
	seg, c, nonce, err := createMailbox("ringlet-t-door", dir, minRing)
	must.OK(t, err)
	defer func() { _ = seg.Close() }()
	peer, out, err := openMailbox("ringlet-t-door", dir, nonce)
	must.OK(t, err)
	defer func() { _ = peer.Close() }()
	placements := []link.Placement{{
		Ref:    shmem.Ref{Window: 0x11121314, Gen: 0x21222324},
		Offset: 0x31323334,
		Length: 0x41424344,
		Imm:    0x5152535455565758,
	}}
	for _, k := range []kind{kindRefused, kindPlacedMany} {
		b, ok, err := out.Allocate(placementsSize(k, 1))
		if !ok || err != nil {
			t.Fatal(ok, err)
		}
		out.Publish(encodePlacements(b, k, 4, placements), uint8(k))
	}
	got := seg.Bytes()
	want := make([]byte, ring.HeaderSize+minRing)
	copy(want, "RNGLRING\x02")
	copy(want[0x10:], "\x00\x10\x00\x00\x00\x00\x00\x00\x00\x20")
	copy(want[0x28:], "\x00\x06\x00\x00\x01") // 1536 bytes at most
	copy(want[0x80:], []byte{96})
	want[0x100] = 1
	binary.LittleEndian.PutUint32(want[0x104:], uint32(os.Getpid()))
	copy(want[0x300:], got[0x300:0x310])
	const placed = "\x14\x13\x12\x11\x24\x23\x22\x21\x34\x33\x32\x31\x44\x43\x42\x41"
	copy(want[0x1000:], "\x58\x57\x56\x55\x54\x53\x52\x51\x11\x00\x00\x00\x03\x00\x00\x00"+placed+"\x04")
	copy(want[0x1030:], "\x00\x00\x00\x00\x00\x00\x00\x00\x18\x00\x00\x00\x02\x00\x00\x00"+placed+
		"\x58\x57\x56\x55\x54\x53\x52\x51")
	if !bytes.Equal(got, want) {
		t.Errorf("% x\n% x", got[:0x110], got[0x1000:0x1060])
	}
	if nonce == (ring.Nonce{}) || binary.LittleEndian.Uint64(got[0xC0:]) != 0 {
		t.Error("no nonce, or a tail")
	}
	in := inbox{Consumer: c}
	for _, k := range []kind{kindRefused, kindPlacedMany} {
		m, err := in.next()
		if err != nil || m.kind != k || (m.reason == 4) != (k == kindRefused) || m.placements[0] != placements[0] {
			t.Errorf("%+v %v", m, err)
		}
	}
	for off, v := range map[int]byte{0: 'X', 8: 1, 0x11: 0x40, 0x18: 1, 0x2A: 1} {
		bad := bytes.Clone(got)
		bad[off] = v
		if _, err := ring.OpenProducer("bad", bad); err == nil {
			t.Errorf("byte %#x taken as %#x", off, v)
		}
	}
	if _, err := ring.OpenProducer("short", got[:ring.HeaderSize]); err == nil {
		t.Error("a mailbox without a ring was accepted")
	}
}
