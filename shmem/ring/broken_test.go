package ring

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"math"
	"strings"
	"testing"
	"unicode"

	"ringlet/testkit/must"
)

// TestBrokenProducer: every value that a producer writes wrong is refused, for good or by itself.
func TestBrokenProducer(t *testing.T) {
	at := func(off int, v uint64) func([]byte) {
		return func(mem []byte) { binary.LittleEndian.PutUint64(mem[off:], v) }
	}
	const written, first = 0x80, HeaderSize
	for name, c := range map[string]struct {
		harm    func(mem []byte)
		broken  string // the field; empty: only the record is refused
		refused uint64
	}{
		"written beyond the ring":       {harm: at(written, MinCapacity+16), broken: "written position"},
		"written far beyond":            {harm: at(written, math.MaxUint64&^15), broken: "written position"},
		"written not aligned":           {harm: at(written, 40), broken: "written position"},
		"a size beyond what is written": {harm: at(first+8, 4096), broken: "size"},
		"a size of 4 GiB":               {harm: at(first+8, math.MaxUint32), broken: "size"},
		"a wrap at the beginning":       {harm: at(first+8, 1<<40|(MinCapacity-16)), broken: "wrap record's flags"},
		"unknown flags":                 {harm: at(first+8, 8<<40|3), refused: 1},
		"reserved bytes":                {harm: at(first+8, 1<<48|3), refused: 1},
		"the event of no event":         {harm: at(first, math.MaxUint64), refused: 1},
	} {
		t.Run(name, func(t *testing.T) {
			mem, p, consumer := pair(t)
			put(t, p, 1, 1, []byte("abc"))
			put(t, p, 2, 1, []byte("def"))
			c.harm(mem)
			f, ok, err := consumer.Next()
			if c.broken == "" {
				if !ok || err != nil || f.Number != 2 || consumer.RefusedRecords() != c.refused {
					t.Errorf("event %d, %v, %v, %d refused", f.Number, ok, err, consumer.RefusedRecords())
				}
				return
			}
			var broken *BrokenError
			if ok || !errors.As(err, &broken) || broken.What != c.broken {
				t.Errorf("%v, %v, want the %s refused", ok, err, c.broken)
			}
		})
	}
}

func TestFragmentsThatAreTooLarge(t *testing.T) {
	mem, p, c := pair(t)
	for event := range uint64(2) {
		put(t, p, event, 1, make([]byte, minLargest))
	}
	binary.LittleEndian.PutUint32(mem[HeaderSize+8:], minLargest+1) // 65552 bytes of record, as before
	if f, ok, err := c.Next(); !ok || err != nil || f.Number != 1 || c.RefusedRecords() != 1 {
		t.Errorf("event %d, %v, %v, %d refused", f.Number, ok, err, c.RefusedRecords())
	}
	c.Done(1)
	if taken := c.words.taken.Load(); taken != p.position {
		t.Errorf("taken %d of %d", taken, p.position)
	}
}

func TestWrittenThatMovesBack(t *testing.T) {
	_, p, c := pair(t)
	put(t, p, 1, 1, []byte("abc"))
	if _, ok, err := c.Next(); !ok || err != nil {
		t.Fatal(ok, err)
	}
	p.words.written.Store(0)
	var broken *BrokenError
	if _, _, err := c.Next(); !errors.As(err, &broken) {
		t.Errorf("%v", err)
	}
}

// TestBrokenConsumer: a producer refuses, too.
func TestBrokenConsumer(t *testing.T) {
	for name, taken := range map[string]uint64{"ahead": 1 << 20, "odd": 8} {
		mem, p, _ := pair(t)
		for put(t, p, 1, 1, make([]byte, 60000)) {
			continue
		}
		p.words.taken.Store(taken)
		var broken *BrokenError
		if _, _, err := p.Reserve(60000); !errors.As(err, &broken) {
			t.Errorf("%s: %v", name, err)
		}
		if _, err := AttachProducer("again", mem, ProducerInfo{PID: 1}); !errors.As(err, &broken) {
			t.Errorf("%s: %v", name, err)
		}
	}
	mem, p, _ := pair(t)
	p.marks[0].position.Store(8)
	p.marks[1].position.Store(8)
	var broken *BrokenError
	if _, err := AttachProducer("again", mem, ProducerInfo{PID: 1}); !errors.As(err, &broken) || broken.What != "mark" {
		t.Errorf("without marks: %v", err)
	}
}

func TestBrokenHeader(t *testing.T) {
	for _, off := range []int{0, 8, 0x10, 0x18, 0x28} {
		mem := newMemory(t)
		mem[off]++
		var broken *BrokenError
		if _, err := OpenConsumer("test", mem, Fragments); !errors.As(err, &broken) {
			t.Errorf("byte %#x: %v", off, err)
		}
	}
	for _, size := range []int{0, HeaderSize, HeaderSize + MinCapacity + 8} {
		if err := Init(make([]byte, size), Settings{Use: Fragments}); err == nil {
			t.Errorf("made a ring of %d bytes", size)
		}
		var broken *BrokenError
		if _, err := OpenConsumer("test", make([]byte, size), Fragments); !errors.As(err, &broken) {
			t.Errorf("%d bytes: %v", size, err)
		}
	}
}

// TestSleepsArmedBehindRefusedRecords: a consumer that has passed over what is no fragment is woken by the next one.
func TestSleepsArmedBehindRefusedRecords(t *testing.T) {
	mem, p, c := pair(t)
	ctx, cancel := context.WithCancel(t.Context())
	err := c.Wait(ctx, 0, func() (bool, error) {
		if c.RecordsBell.HasWaiters() && ctx.Err() == nil { // this look is the one before it sleeps
			put(t, p, 1, 1, []byte("abc"))
			binary.LittleEndian.PutUint16(mem[HeaderSize+14:], 1) // bytes that must be 0
			cancel()
		}
		_, ok, err := c.Next()
		return ok, err
	}, func() error { return nil })
	if !errors.Is(err, context.Canceled) || c.RefusedRecords() != 1 {
		t.Fatal(err, c.RefusedRecords())
	}
	if want := p.position + 1; c.wakePosition.Load() != want {
		t.Errorf("to be woken at %d, want %d", c.wakePosition.Load(), want)
	}
}

// FuzzRevision: whatever a consumer writes into the words of revision 2, the producer takes a bounded time, and gives
// ranges that have events or refuses; and whatever a producer writes as its name, the consumer gives a line of text.
func FuzzRevision(f *testing.F) {
	f.Add(uint64(1), uint64(0), uint64(0), []byte{1, 0, 0, 0, 0, 0, 0, 0, 2, 0, 0, 0, 0, 0, 0, 0}, []byte("calo"))
	f.Add(uint64(1<<63), uint64(96), uint64(math.MaxUint64), []byte{}, []byte{0xFF, 10, 27})
	f.Add(uint64(200), uint64(32), uint64(5), bytes.Repeat([]byte{9}, 64), []byte{})
	f.Fuzz(func(t *testing.T, ranges, position, resume uint64, table, name []byte) {
		mem, p, c := pair(t)
		put(t, p, 1, 1, []byte("abc"))
		copy(mem[0x400:HeaderSize], table)
		copy(mem[0x240:0x280], name)
		p.givenUpRanges.Store(ranges)
		p.words.resumePosition.Store(position)
		p.words.resumeEvent.Store(resume)
		p.Resume()
		if position != 32 && p.Expected() != 2 {
			t.Fatalf("event %d comes next", p.Expected())
		}
		for n := 0; ; n++ {
			g, ok, err := p.NextGivenUp()
			var broken *BrokenError
			if err != nil && !errors.As(err, &broken) {
				t.Fatal(err)
			}
			if !ok && err == nil {
				break
			}
			if n > givenUpTableSize || err == nil && g.From >= g.To {
				t.Fatalf("range %d: %+v", n, g)
			}
		}
		if who := c.Frontend(); len(who) > MaxName || strings.ContainsFunc(who, unicode.IsControl) {
			t.Fatalf("%q", who)
		}
		if f, ok, err := c.Next(); !ok || err != nil || f.Number != 1 {
			t.Fatal(f, ok, err)
		}
	})
}

// FuzzConsumer: whatever a producer writes, the consumer gives slices of the ring or refuses.
func FuzzConsumer(f *testing.F) {
	f.Add(uint64(64), uint64(96), []byte{1, 0, 0, 0, 0, 0, 0, 0, 3, 0, 0, 0, 51, 0, 0, 0})
	f.Add(uint64(MinCapacity), uint64(MinCapacity), []byte{0, 0, 0, 0, 0, 0, 0, 0, 0xF0, 0xFF, 3, 0, 0, 1, 0, 0})
	f.Add(uint64(1<<63), uint64(0), []byte{})
	f.Fuzz(func(t *testing.T, first, second uint64, records []byte) {
		mem := newMemory(t)
		c, err := OpenConsumer("fuzz", mem, Fragments)
		must.OK(t, err)
		copy(mem[HeaderSize:], records)
		for _, written := range []uint64{first, second} {
			c.words.written.Store(written)
			for {
				r, ok, err := c.Next()
				var broken *BrokenError
				if err != nil && !errors.As(err, &broken) {
					t.Fatal(err)
				}
				if !ok {
					break
				}
				if len(r.Data) > minLargest || cap(r.Data) != len(r.Data) {
					t.Fatalf("%d bytes", len(r.Data))
				}
				c.Done(1)
			}
			if taken := c.words.taken.Load(); taken > written && taken > first {
				t.Fatalf("taken %d of %d", taken, written)
			}
		}
	})
}
