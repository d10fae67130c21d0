package ring

import (
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"math"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"ringlet/shmem"
	"ringlet/testkit/must"
)

// newMemory is that of a ring of the smallest size.
func newMemory(t must.TB) []byte {
	t.Helper()
	mem := make([]byte, HeaderSize+MinCapacity)
	must.OK(t, Init(mem, Settings{Use: Fragments, Source: 0x0203, Run: 77, PID: 5}))
	return mem
}

func pair(t must.TB) ([]byte, *Producer, *Consumer) {
	t.Helper()
	mem := newMemory(t)
	c, err := OpenConsumer("test", mem, Fragments)
	must.OK(t, err)
	p, err := AttachProducer("test", mem, ProducerInfo{PID: 9, Name: "calo"})
	must.OK(t, err)
	return mem, p, c
}

func put(t must.TB, p *Producer, event uint64, kind uint8, data []byte) bool {
	t.Helper()
	place, ok, err := p.Reserve(len(data))
	must.OK(t, err)
	if ok {
		copy(place, data)
		must.OK(t, p.Commit(event, kind, len(data)))
	}
	return ok
}

// image is what docs/format/ring.md says of a ring after one fragment of 3 bytes, one dropped, and one of 17.
const image = `
0000 52 4E 47 4C 52 49 4E 47  01 00 00 00  03 02 00 00   # magic, version 1, source 0x0203
0010 00 10 00 00 00 00 00 00  00 00 04 00 00 00 00 00    # data offset, capacity 256 KiB
0020 4D 00 00 00 00 00 00 00  FF FF 00 00  01 00 00 00   # run 77, largest fragment, revision 2 is kept
0040 01 00 00 00  09 00 00 00  01 00 00 00 00 00 00 00   # attached, pid 9, the first
0050 00 00 00 00  02 00 00 00  01 00 00 00 00 00 00 00   # it rings, revision 2, said by the first
0080 50 00 00 00 00 00 00 00  01 00 00 00 00 00 00 00    # written 80, dropped 1
0090 20 00 00 00 00 00 00 00  0C 00 00 00 00 00 00 00    # mark: at 32 comes event 12 (11 was dropped)
00A0 50 00 00 00 00 00 00 00  0D 00 00 00 00 00 00 00    # mark: at 80 comes event 13
00C0 20 00 00 00 00 00 00 00  0B 00 00 00 00 00 00 00    # taken 32, safe below 11
00D0 00 00 00 00 00 00 00 00  20 00 00 00 00 00 00 00    # no wake, judged up to 32
00E0 08 00 00 00 00 00 00 00                            # whoever comes now sends from 7
0100 01 00 00 00  05 00 00 00  01 00 00 00 00 00 00 00   # reading, pid 5, the end is taken
0200 01 00 00 00 00 00 00 00  02 00 00 00 00 00 00 00    # one range given up, of two fragments
0240 63 61 6C 6F                                        # the front-end's name
0400 08 00 00 00 00 00 00 00  0A 00 00 00 00 00 00 00    # events 8 and 9
0410 01 00 00 00  02 00 00 00  01 00 00 00 00 00 00 00   # late, two fragments, the first range
1000 0A 00 00 00 00 00 00 00  03 00 00 00  33 00 00 00   # event 10, 3 bytes, type 51
1010 61 62 63
1020 0C 00 00 00 00 00 00 00  11 00 00 00  07 00 00 00   # event 12, 17 bytes, type 7
1030 11 11 11 11 11 11 11 11  11 11 11 11 11 11 11 11 11
`

func TestGolden(t *testing.T) {
	want := make([]byte, HeaderSize+MinCapacity)
	for line := range strings.Lines(image) {
		line, _, _ = strings.Cut(line, "#")
		b, err := hex.DecodeString(strings.Join(strings.Fields(line), ""))
		must.OK(t, err)
		if len(b) > 2 {
			copy(want[int(b[0])<<8|int(b[1]):], b[2:])
		}
	}
	mem, p, c := pair(t)
	put(t, p, 10, DefaultType, []byte("abc"))
	must.OK(t, p.Drop(11))
	put(t, p, 12, 7, bytes.Repeat([]byte{0x11}, 17))
	if _, ok, err := c.Next(); !ok || err != nil {
		t.Fatal(ok, err)
	}
	c.Done(1)
	c.ReportGivenUp(8, 10, Late)
	c.SetSafe(11)
	c.PublishResume(7, true)
	c.AckEnd()
	for i := range want {
		if mem[i] != want[i] {
			t.Fatalf("byte %#x is %#x, the page says %#x", i, mem[i], want[i])
		}
	}
	// And the other way: what was written by hand is read.
	r, err := OpenConsumer("golden", want, Fragments)
	must.OK(t, err)
	r.publishedTaken, r.position, r.offset, r.seenWritten = 32, 32, 32, 32
	f, ok, err := r.Next()
	if err != nil || !ok || f.Number != 12 || f.Kind != 7 || len(f.Data) != 17 {
		t.Fatalf("%+v, %v, %v", f, ok, err)
	}
}

// TestLargeRecords: a ring that declares it takes fragments of 1 MiB, three of them whatever the place, and refuses
// larger ones on both sides.
func TestLargeRecords(t *testing.T) {
	const largest = 1 << 20
	mem := make([]byte, HeaderSize+3*largest+shmem.PageSize)
	must.OK(t, Init(mem, Settings{Use: Fragments, LargestRecord: largest}))
	c, err := OpenConsumer("test", mem, Fragments)
	must.OK(t, err)
	p, err := AttachProducer("test", mem, ProducerInfo{})
	must.OK(t, err)
	for event := range uint64(20) {
		if _, _, err := p.Reserve(largest + 1); !errors.Is(err, ErrTooLarge) {
			t.Fatal(err)
		}
		if !put(t, p, event, 1, bytes.Repeat([]byte{byte(event)}, largest-int(event)*1000)) {
			t.Fatalf("no room for event %d", event)
		}
		r, ok, err := c.Next()
		if err != nil || !ok || len(r.Data) != largest-int(event)*1000 || r.Data[len(r.Data)-1] != byte(event) {
			t.Fatalf("event %d: %d bytes, %v", event, len(r.Data), err)
		}
		c.Done(1)
	}
	for _, most := range []int{largest + 4096, maxLargest + 1} {
		if Init(make([]byte, len(mem)), Settings{Use: Fragments, LargestRecord: most}) == nil {
			t.Errorf("made a ring for %d bytes", most)
		}
	}
	binary.LittleEndian.PutUint32(mem[0x28:], maxLargest+1)
	var broken *BrokenError
	if _, err := OpenConsumer("test", mem, Fragments); !errors.As(err, &broken) {
		t.Error(err)
	}
}

// TestModel: whatever producer and consumer do in whatever order, and wherever a producer dies, the fragments that were
// committed come out once, in order, as they were put in; and the next producer knows the event that comes next.
func TestModel(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		mem, p, c := pair(t)
		var in, out []Record // committed and not read; read and not given back
		var next, dropped uint64
		sizes := rapid.OneOf(rapid.IntRange(0, 64), rapid.IntRange(0, minLargest), rapid.Just(minLargest))
		reserve := func(t *rapid.T) []byte {
			place, ok, err := p.Reserve(sizes.Draw(t, "size"))
			must.OK(t, err)
			if !ok && len(in)+len(out) == 0 {
				t.Fatal("an empty ring is full")
			}
			return place
		}
		t.Repeat(map[string]func(*rapid.T){
			"put": func(t *rapid.T) {
				place := reserve(t)
				if place == nil {
					return
				}
				for i := range place {
					place[i] = byte(next) + byte(i)
				}
				size := rapid.IntRange(0, len(place)).Draw(t, "used")
				next += rapid.Uint64Range(0, 3).Draw(t, "gap")
				must.OK(t, p.Commit(next, uint8(next), size))
				in = append(in, Record{Number: next, Kind: uint8(next), Data: bytes.Clone(place[:size])})
				next++
			},
			"cancel": func(t *rapid.T) {
				if reserve(t) != nil {
					p.Cancel()
				}
			},
			"drop": func(t *rapid.T) {
				must.OK(t, p.Drop(next))
				next, dropped = next+1, dropped+1
			},
			"die": func(t *rapid.T) {
				if place := reserve(t); place != nil && rapid.Bool().Draw(t, "while it writes") {
					clear(place)
				}
				var err error
				p, err = AttachProducer("again", mem, ProducerInfo{PID: 1})
				must.OK(t, err)
			},
			"next": func(t *rapid.T) {
				f, ok, err := c.Next()
				must.OK(t, err)
				if ok != (len(in) > 0) {
					t.Fatalf("a fragment: %v, with %d in the ring", ok, len(in))
				}
				if ok {
					if want := in[0]; f.Number != want.Number || f.Kind != want.Kind || !bytes.Equal(f.Data, want.Data) {
						t.Fatalf("event %d of %d bytes, want %d of %d", f.Number, len(f.Data), want.Number, len(want.Data))
					}
					in, out = in[1:], append(out, f)
				}
			},
			"done": func(t *rapid.T) {
				n := rapid.IntRange(0, len(out)).Draw(t, "n")
				c.Done(n)
				out = out[n:]
			},
			"": func(t *rapid.T) {
				if p.Expected() != next || c.Dropped() != dropped || c.RefusedRecords() != 0 {
					t.Fatalf("expected %d, %d dropped; want %d and %d", p.Expected(), c.Dropped(), next, dropped)
				}
			},
		})
	})
}

// TestDeathBetweenTwoStores: a producer that dies while it tells which event comes next leaves the answer as it was.
func TestDeathBetweenTwoStores(t *testing.T) {
	for _, dropped := range []bool{false, true} {
		for stores := range 3 {
			mem, p, _ := pair(t)
			put(t, p, 4, 1, []byte("x"))
			want := uint64(5)
			if dropped {
				must.OK(t, p.Drop(5))
				want = 6
			}
			other := &p.marks[p.currentMark^1]
			if stores > 0 {
				other.position.Store(p.position + 64)
			}
			if stores > 1 {
				other.nextEvent.Store(9)
			}
			q, err := AttachProducer("again", mem, ProducerInfo{PID: 1})
			must.OK(t, err)
			if q.Expected() != want {
				t.Errorf("dropped %v, %d stores: event %d comes next, want %d", dropped, stores, q.Expected(), want)
			}
		}
	}
}

func TestStates(t *testing.T) {
	mem, p, c := pair(t)
	if s, n := c.ProducerState(); s != Attached || n != 1 {
		t.Errorf("state %d, %d attached", s, n)
	}
	p.Detach(false)
	p, err := AttachProducer("again", mem, ProducerInfo{PID: 1})
	must.OK(t, err)
	if s, n := c.ProducerState(); s != Attached || n != 2 {
		t.Errorf("state %d, %d attached", s, n)
	}
	p.Detach(true)
	if _, err := AttachProducer("late", mem, ProducerInfo{PID: 1}); !errors.Is(err, ErrEnded) {
		t.Errorf("after the end: %v", err)
	}
	for broken, want := range map[bool]error{false: ErrClosed, true: ErrRefused} {
		mem, p, c := pair(t)
		c.Close(broken)
		if _, _, err := p.Reserve(1); !errors.Is(err, want) {
			t.Errorf("reserve: %v", err)
		}
		if _, err := AttachProducer("late", mem, ProducerInfo{PID: 1}); !errors.Is(err, want) {
			t.Errorf("attach: %v", err)
		}
	}
}

func TestRefusedSteps(t *testing.T) {
	_, p, _ := pair(t)
	step := func(what string, err, want error) {
		t.Helper()
		if !errors.Is(err, want) {
			t.Errorf("%s: %v, want %v", what, err, want)
		}
	}
	_, _, err := p.Reserve(minLargest + 1)
	step("too large", err, ErrTooLarge)
	_, _, err = p.Reserve(-1)
	step("negative", err, ErrTooLarge)
	step("commit of nothing", p.Commit(1, 1, 0), errReservation)
	_, _, err = p.Reserve(8)
	must.OK(t, err)
	_, _, err = p.Reserve(8)
	step("two places", err, errReservation)
	step("more than the place", p.Commit(1, 1, 9), errReservation)
	step("no event", p.Commit(math.MaxUint64, 1, 8), errEventReserved)
	step("no event to drop", p.Drop(math.MaxUint64), errEventReserved)
	must.OK(t, p.Commit(1, 1, 8))
	step("twice", p.Commit(1, 1, 8), errReservation)
}

func TestNoAllocations(t *testing.T) {
	_, p, c := pair(t)
	data := make([]byte, 1000)
	event := uint64(0)
	if n := testing.AllocsPerRun(2000, func() {
		for range 10 {
			put(t, p, event, 1, data)
			event++
		}
		for range 10 {
			if _, ok, err := c.Next(); !ok || err != nil {
				t.Fatal(ok, err)
			}
		}
		c.Done(4)
		c.Done(6)
	}); n != 0 {
		t.Errorf("%v allocations for ten fragments", n)
	}
}
