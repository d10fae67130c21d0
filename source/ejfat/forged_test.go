package ejfat

import (
	"bytes"
	"context"
	"encoding/binary"
	"flag"
	"math/rand/v2"
	"net"
	"testing"
	"time"

	"ringlet/event"
	"ringlet/event/ejfat"
	"ringlet/source/live"
)

var forged = flag.Int("forged", 20_000, "packets that TestForgedPackets forges; make check-forged has a million")

// outcome is what a packet of a forger must be counted as.
type outcome uint8

const (
	isRefused  outcome = iota
	isRepeated         // it says what is known
	isLost             // it begins a fragment whose rest never comes
	isHanded           // it is a whole fragment: nothing in the format tells it from a detector's
	isSync             // a load balancer's matter, which is not counted
	outcomes
)

// forger makes packets. Its events have odd numbers, the true ones even ones: the format cannot tell a forged part of a
// true event, so none is forged but those that contradict.
type forger struct {
	random *rand.Rand
	number uint64
	sent   [outcomes]uint64
	kinds  map[string]int
}

// fresh is the number of an event that nobody has sent anything of.
func (g *forger) fresh() uint64 {
	g.number += 2
	return g.number
}

// segment is a part of a fresh event that nothing is wrong with.
func (g *forger) segment() ejfat.Segment {
	length := g.random.IntN(event.MaxNarrowFragment) + 1
	offset := g.random.IntN(length)
	return ejfat.Segment{
		DataID: 3,
		Offset: uint32(offset),
		Length: uint32(length),
		Event:  g.fresh(),
		Data:   make([]byte, g.random.IntN(min(length-offset, 1000))+1),
	}
}

// judge says what a packet of a fresh event, or of none, is counted as: written anew from docs/format/ejfat.md.
func (g *forger) judge(b []byte) outcome {
	if len(b) >= 2 && string(b[:2]) == "LC" {
		if len(b) == ejfat.SyncSize && b[2] == 1 {
			return isSync
		}
		return isRefused
	}
	if len(b) >= 16 && string(b[:2]) == "LB" {
		if b[2] != 2 && b[2] != 3 || b[3] != 1 {
			return isRefused
		}
		b = b[16:]
	}
	if len(b) < 20 || b[0]>>4 != 1 || b[2] != 0 || b[3] != 3 {
		return isRefused
	}
	offset, length := uint64(binary.BigEndian.Uint32(b[4:])), uint64(binary.BigEndian.Uint32(b[8:]))
	switch size := uint64(len(b) - 20); {
	case offset+size > length, size == 0 && length > 0, length > event.MaxNarrowFragment:
		return isRefused
	case size < length:
		return isLost
	}
	return isHanded
}

// forgeries are the ways to forge. They are given the true event of which the first of two segments is there.
var forgeries = []struct {
	name string
	make func(g *forger, now ejfat.Segment, before uint64) ([]byte, outcome)
}{
	{"random bytes", func(g *forger, _ ejfat.Segment, _ uint64) ([]byte, outcome) {
		b := make([]byte, g.random.IntN(1400))
		for i := range b {
			b[i] = byte(g.random.Uint32())
		}
		if len(b) >= 4 {
			b[3] = 7 // no data id, protocol or message of ours: what is random must not hit a true event
		}
		return b, isRefused
	}},
	{"truncated in its header", func(g *forger, _ ejfat.Segment, _ uint64) ([]byte, outcome) {
		b := ejfat.AppendSegment(nil, g.segment())
		return b[:g.random.IntN(ejfat.SegmentSize)], isRefused
	}},
	{"truncated in its data", func(g *forger, _ ejfat.Segment, _ uint64) ([]byte, outcome) {
		b := ejfat.AppendSegment(nil, g.segment())
		b = b[:ejfat.SegmentSize+g.random.IntN(len(b)-ejfat.SegmentSize)]
		return b, g.judge(b)
	}},
	{"mutated", func(g *forger, _ ejfat.Segment, _ uint64) ([]byte, outcome) {
		s := g.segment()
		b := ejfat.AppendSegment(nil, s)
		for range 1 + g.random.IntN(4) {
			b[g.random.IntN(12)] ^= 1 << g.random.IntN(8) // not its event number
		}
		return b, g.judge(b)
	}},
	{"mutated behind a load balancer", func(g *forger, _ ejfat.Segment, _ uint64) ([]byte, outcome) {
		s := g.segment()
		b := ejfat.AppendSegment(ejfat.AppendBalancer(nil, s.Event, 9), s)
		for range 1 + g.random.IntN(4) {
			b[2+g.random.IntN(26)] ^= 1 << g.random.IntN(8)
		}
		return b, g.judge(b)
	}},
	{"a whole fragment", func(g *forger, _ ejfat.Segment, _ uint64) ([]byte, outcome) {
		s := g.segment()
		s.Offset, s.Length = 0, uint32(len(s.Data))
		return ejfat.AppendSegment(nil, s), isHanded
	}},
	{"a part of a fragment", func(g *forger, _ ejfat.Segment, _ uint64) ([]byte, outcome) {
		b := ejfat.AppendSegment(nil, g.segment())
		return b, g.judge(b)
	}},
	{"an event that is over", func(g *forger, _ ejfat.Segment, before uint64) ([]byte, outcome) {
		s := g.segment()
		s.Event = before
		return ejfat.AppendSegment(nil, s), isRepeated
	}},
	{"another length", func(_ *forger, now ejfat.Segment, _ uint64) ([]byte, outcome) {
		now.Length++
		return ejfat.AppendSegment(nil, now), isRefused
	}},
	{"an overlap", func(_ *forger, now ejfat.Segment, _ uint64) ([]byte, outcome) {
		now.Offset++
		return ejfat.AppendSegment(nil, now), isRefused
	}},
	{"the same again, with other bytes", func(_ *forger, now ejfat.Segment, _ uint64) ([]byte, outcome) {
		now.Data = make([]byte, len(now.Data))
		return ejfat.AppendSegment(nil, now), isRepeated
	}},
	{"synchronisation", func(g *forger, _ ejfat.Segment, _ uint64) ([]byte, outcome) {
		return ejfat.AppendSync(nil, ejfat.Sync{Event: g.random.Uint64()}), isSync
	}},
}

// flood sends a true event in two segments, and forged packets between them. So few are on the way at a time that the
// kernel has room for all.
func (g *forger) flood(t *testing.T, conn net.Conn, number uint64, packets int) {
	data := content(number, 4+int(number/2)%2000)
	parts := cut(number, data, (len(data)+1)/2)
	send(t, conn, ejfat.AppendSegment(nil, parts[0]))
	for range packets {
		how := &forgeries[g.random.IntN(len(forgeries))]
		b, want := how.make(g, parts[0], number-2)
		g.kinds[how.name]++
		g.sent[want]++
		send(t, conn, b)
	}
	send(t, conn, ejfat.AppendSegment(nil, parts[1]))
}

// TestForgedPackets sends many forged packets to the socket of a feed, and a true event between every few. Each is
// counted as what it is, each true event is handed out whole, and none of it harms the feed.
func TestForgedPackets(t *testing.T) {
	const atOnce = 48
	f, conn := opened(t, "/3")
	g := &forger{random: rand.New(rand.NewPCG(14, 1)), number: 1, kinds: map[string]int{}}
	packets := *forged
	ctx, cancel := context.WithTimeout(t.Context(), 4*time.Minute)
	defer cancel()
	dst := make([]live.Fragment, 64)
	send(t, conn, ejfat.AppendSegment(nil, cut(0, content(0, 5), 5)[0]))
	f.want(t, map[uint64]int{0: 5}, 0)
	number, handed := uint64(0), uint64(0)
	for sent := 0; sent < packets; sent += atOnce {
		number += 2
		g.flood(t, conn, number, min(atOnce, packets-sent))
		for came := false; !came; {
			n, err := f.Next(ctx, dst)
			if err != nil {
				t.Fatalf("%v: event %d does not come; %+v of %+v", err, number, f.Stats(), g.sent)
			}
			for _, got := range dst[:n] {
				if got.Event%2 == 1 {
					handed++
					continue
				}
				if want := content(number, 4+int(number/2)%2000); got.Event != number || !bytes.Equal(got.Data, want) {
					t.Fatalf("event %d of %d bytes, want event %d of %d", got.Event, len(got.Data), number, len(want))
				}
				came = true
			}
			f.ReleaseFragments(n)
		}
	}
	f.untilLost(ctx, t, g.sent[isLost])
	got := f.Stats()
	if got.RefusedMessages != g.sent[isRefused] || got.Repeated != g.sent[isRepeated] ||
		got.LostFragments != g.sent[isLost] || handed != g.sent[isHanded] || got.Fragments != number/2+1+handed {
		t.Errorf("%+v, %d of the forger; it sent %d to be refused, %d repeated, %d lost, %d handed out", got, handed,
			g.sent[isRefused], g.sent[isRepeated], g.sent[isLost], g.sent[isHanded])
	}
	t.Logf("%d packets of %v beside %d true events: %+v", packets, g.kinds, number/2+1, got)
}
