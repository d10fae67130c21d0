package ejfat

import (
	"bytes"
	"math/rand/v2"
	"testing"
	"time"

	"pgregory.net/rapid"

	"ringlet/event"
	"ringlet/event/ejfat"
)

// content is the fragment of an event in tests.
func content(number uint64, n int) []byte {
	b := make([]byte, n)
	for i := range b {
		b[i] = byte(number)*7 + byte(i)
	}
	return b
}

// cut is a fragment in segments of at most most bytes.
func cut(number uint64, data []byte, most int) []ejfat.Segment {
	var out []ejfat.Segment
	for at := 0; at < len(data) || at == 0; at += most {
		out = append(out, ejfat.Segment{
			DataID: 3,
			Offset: uint32(at),
			Length: uint32(len(data)),
			Event:  number,
			Data:   data[at:min(at+most, len(data))],
		})
	}
	return out
}

// TestEveryFragmentHasOneEnd sends the segments of some events in any order, some twice, some not at all: a fragment
// all of whose segments came is handed out once with its bytes, each other one is counted as lost.
func TestEveryFragmentHasOneEnd(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		r, now := newReassembly(event.MaxNarrowFragment), time.Unix(1000, 0)
		random := rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 1))
		events := rapid.IntRange(1, 30).Draw(t, "events")
		var all []ejfat.Segment
		wholes, incomplete := map[uint64][]byte{}, 0
		for number := range uint64(events) {
			data := content(number, rapid.IntRange(0, 400).Draw(t, "size"))
			segments := cut(number, data, rapid.IntRange(10, 100).Draw(t, "segment"))
			missing := 0
			for _, s := range segments {
				switch rapid.IntRange(0, 19).Draw(t, "fate") {
				case 0:
					missing++
				case 1:
					all = append(all, s, s)
				default:
					all = append(all, s)
				}
			}
			if missing == 0 {
				wholes[number] = data
			} else if missing < len(segments) {
				incomplete++
			}
		}
		random.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
		for _, s := range all {
			if v := r.addSegment(s, now); v == segmentRefused || v == segmentDropped {
				t.Fatalf("segment %+v: verdict %d", s, v)
			}
		}
		r.expire(now.Add(partialTimeout))
		for {
			p, ok := r.nextCompleted()
			if !ok {
				break
			}
			if want, ok := wholes[p.event]; !ok || !bytes.Equal(p.data, want) {
				t.Fatalf("event %d: % x", p.event, p.data)
			}
			delete(wholes, p.event)
			r.release(1)
		}
		if len(wholes) > 0 || int(r.stats.lost) != incomplete || len(r.byEvent) > 0 || len(r.pending) > 0 {
			t.Fatalf("%d not handed out, %d lost of %d, %d in parts", len(wholes), r.stats.lost, incomplete, len(r.byEvent))
		}
	})
}

func TestContradictions(t *testing.T) {
	now := time.Unix(1, 0)
	data := content(1, 100)
	for name, c := range map[string]struct {
		second ejfat.Segment
		want   segmentVerdict
	}{
		"another length":    {ejfat.Segment{Offset: 50, Length: 101, Event: 1, Data: data[:10]}, segmentRefused},
		"overlap before":    {ejfat.Segment{Offset: 35, Length: 100, Event: 1, Data: data[:10]}, segmentRefused},
		"overlap behind":    {ejfat.Segment{Offset: 55, Length: 100, Event: 1, Data: data[:10]}, segmentRefused},
		"around":            {ejfat.Segment{Offset: 30, Length: 100, Event: 1, Data: data[:40]}, segmentRefused},
		"inside":            {ejfat.Segment{Offset: 45, Length: 100, Event: 1, Data: data[:10]}, segmentRepeated},
		"larger than a u16": {ejfat.Segment{Length: event.MaxNarrowFragment + 1, Event: 2, Data: data}, segmentRefused},
		"touches":           {ejfat.Segment{Offset: 60, Length: 100, Event: 1, Data: data[:40]}, segmentStored},
	} {
		r := newReassembly(event.MaxNarrowFragment)
		if v := r.addSegment(ejfat.Segment{Offset: 40, Length: 100, Event: 1, Data: data[:20]}, now); v != segmentStored {
			t.Fatalf("the first: %d", v)
		}
		if v := r.addSegment(c.second, now); v != c.want {
			t.Errorf("%s: verdict %d, want %d", name, v, c.want)
		}
	}
}

// TestBounds lets senders forge what they like: what is held stays bounded.
func TestBounds(t *testing.T) {
	r, now := newReassembly(event.MaxNarrowFragment), time.Unix(1, 0)
	random := rand.New(rand.NewPCG(1, 2))
	data := make([]byte, event.MaxNarrowFragment)
	for i := range 200_000 {
		length := random.IntN(len(data)) + 1
		offset := random.IntN(length)
		n := random.IntN(length-offset) + 1
		if i%3 == 0 {
			offset, n = 0, length // whole, and nobody takes it
		}
		r.addSegment(ejfat.Segment{
			Offset: uint32(offset),
			Length: uint32(length),
			Event:  random.Uint64N(50_000),
			Data:   data[offset : offset+n],
		}, now)
		if len(r.pending) > maxPartials || len(r.completedFragments) > maxCompleted || r.heldBytes > minHeldBytes {
			t.Fatalf("%d parts, %d whole, %d bytes", len(r.pending), len(r.completedFragments), r.heldBytes)
		}
	}
	if r.stats.lost == 0 || r.stats.repeated == 0 || r.stats.refused == 0 || len(r.completedFragments) == 0 {
		t.Errorf("%+v, %d whole", r.stats, len(r.completedFragments))
	}
	held := 0
	for _, list := range [][]*partialFragment{r.spare, r.completedFragments, r.pending} {
		for _, p := range list {
			held += cap(p.data)
		}
	}
	if held != r.heldBytes {
		t.Errorf("%d bytes are held, %d counted", held, r.heldBytes)
	}
}

func TestGaps(t *testing.T) {
	r, now := newReassembly(event.MaxNarrowFragment), time.Unix(1, 0)
	for i := range maxRanges + 1 {
		v := r.addSegment(ejfat.Segment{Offset: uint32(2 * i), Length: 1000, Event: 5, Data: []byte{1}}, now)
		if want := map[bool]segmentVerdict{true: segmentStored, false: segmentRefused}[i < maxRanges]; v != want {
			t.Fatalf("gap %d: verdict %d", i, v)
		}
	}
}

func TestTakingDoesNotAllocate(t *testing.T) {
	r, now := newReassembly(event.MaxNarrowFragment), time.Unix(1, 0)
	data := content(1, 4000)
	number := uint64(0)
	round := func() {
		number++
		for at := 0; at < len(data); at += 1000 {
			r.addSegment(ejfat.Segment{Offset: uint32(at), Length: 4000, Event: number, Data: data[at : at+1000]}, now)
		}
		if _, ok := r.nextCompleted(); !ok {
			t.Fatal("it is not whole")
		}
		r.release(1)
	}
	for range 2 * rememberedEvents {
		round()
	}
	if n := testing.AllocsPerRun(1000, round); n > 0 {
		t.Errorf("%v allocations", n)
	}
}

// TestLargeFragments: a fragment as large as is declared comes whole, however long that takes, while forged segments
// begin others of the largest size; what is held stays bounded, and a larger one is refused.
func TestLargeFragments(t *testing.T) {
	const most = 4 << 20
	r, now := newReassembly(most), time.Unix(1, 0)
	data := make([]byte, most)
	for i := range data {
		data[i] = byte(i >> 12)
	}
	for i, s := range cut(7, data, 1<<16) {
		now = now.Add(partialTimeout / 4)
		r.addSegment(s, now)
		r.expire(now)
		forged := ejfat.Segment{Offset: most - 1, Length: most, Event: uint64(100 + i), Data: []byte{1}}
		r.addSegment(forged, now)
		if r.heldBytes > HeldBytes(most) {
			t.Fatalf("%d bytes are held", r.heldBytes)
		}
	}
	p, ok := r.nextCompleted()
	if !ok || p.event != 7 || !bytes.Equal(p.data, data) {
		t.Fatal("the fragment is not whole")
	}
	if v := r.addSegment(ejfat.Segment{Length: most + 1, Event: 8, Data: data[:10]}, now); v != segmentRefused {
		t.Errorf("verdict %d", v)
	}
}
