package ring

import (
	"bytes"
	"errors"
	"math"
	"testing"

	"pgregory.net/rapid"

	"ringlet/testkit/must"
)

// largestMessage is that of the tests, bytes: three of it and their headers just fit into two pages.
const largestMessage = 2704

func messages(t must.TB) ([]byte, *Producer, *Consumer) {
	t.Helper()
	mem := make([]byte, HeaderSize+8192)
	must.OK(t, Init(mem, Settings{Use: Messages, LargestRecord: largestMessage, Nonce: Nonce{1, 2}}))
	c, err := OpenConsumer("test", mem, Messages)
	must.OK(t, err)
	p, err := OpenProducer("test", mem)
	must.OK(t, err)
	return mem, p, c
}

// TestMessages: whatever both sides do in whatever order, messages come out once, in order, as they were put in; what
// was promised is there; and a consumer that sleeps is woken by the first message, and by no other.
func TestMessages(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		_, p, c := messages(t)
		var in []Record // published and not read
		out, promises, armed := 0, []int(nil), false
		sizes := rapid.OneOf(rapid.IntRange(0, 64), rapid.IntRange(0, largestMessage))
		publish := func(t *rapid.T, size int) bool {
			place, ok, err := p.Allocate(size)
			must.OK(t, err)
			if !ok {
				return false
			}
			for i := range place {
				place[i] = byte(i + size)
			}
			r := Record{
				Number: rapid.Uint64().Draw(t, "number"),
				Kind:   rapid.Uint8().Draw(t, "kind"),
				Data:   bytes.Clone(place),
			}
			if wake := p.Publish(r.Number, r.Kind); wake != armed {
				t.Fatalf("to be woken: %v, asleep: %v", wake, armed)
			}
			in, armed = append(in, r), false
			return true
		}
		t.Repeat(map[string]func(*rapid.T){
			"publish": func(t *rapid.T) {
				size := sizes.Draw(t, "size")
				if !publish(t, size) && len(in)+out+len(promises) == 0 {
					t.Fatal("an empty ring is full")
				}
			},
			"promise": func(t *rapid.T) {
				size := rapid.IntRange(0, 256).Draw(t, "size")
				ok, err := p.Promise(size)
				must.OK(t, err)
				if ok {
					promises = append(promises, size)
				}
			},
			"redeem": func(t *rapid.T) {
				if len(promises) == 0 {
					return
				}
				size := promises[0]
				promises = promises[1:]
				p.Redeem(size)
				if !publish(t, size) {
					t.Fatalf("there is no space for the %d bytes that were promised", size)
				}
			},
			"next": func(t *rapid.T) {
				if c.HasRecord() != (len(in) > 0) {
					t.Fatalf("there is a record: %v, with %d in the ring", c.HasRecord(), len(in))
				}
				r, ok, err := c.Next()
				must.OK(t, err)
				if ok != (len(in) > 0) {
					t.Fatalf("a record: %v, with %d in the ring", ok, len(in))
				}
				if !ok {
					c.ArmWake()
					if !armed {
						armed = !c.HasRecord()
						c.RecordsBell.AddWaiter()
					}
					return
				}
				if r.Number != in[0].Number || r.Kind != in[0].Kind || !bytes.Equal(r.Data, in[0].Data) {
					t.Fatalf("%d of %d bytes, want %d of %d", r.Number, len(r.Data), in[0].Number, len(in[0].Data))
				}
				in, out = in[1:], out+1
			},
			"release": func(t *rapid.T) {
				c.ReleaseAll()
				if out = 0; p.IsEmpty() != (len(in) == 0) {
					t.Fatalf("empty: %v, with %d in the ring", p.IsEmpty(), len(in))
				}
			},
			"": func(t *rapid.T) {
				if c.RefusedRecords() != 0 || p.Nonce() != (Nonce{1, 2}) {
					t.Fatalf("%d refused, nonce %v", c.RefusedRecords(), p.Nonce())
				}
			},
		})
	})
}

// TestUsesAreApart: a ring of one use is none of the other, and a size that holds no three of the largest is refused.
func TestUsesAreApart(t *testing.T) {
	var broken *BrokenError
	mem, _, c := messages(t)
	_, attached := AttachProducer("test", mem, ProducerInfo{})
	_, opened := OpenConsumer("test", mem, Fragments)
	_, other := OpenProducer("test", newMemory(t))
	for _, err := range []error{attached, opened, other} {
		if !errors.As(err, &broken) || broken.What != "version" {
			t.Error(err)
		}
	}
	if err := Init(make([]byte, len(mem)), Settings{Use: Messages, LargestRecord: largestMessage + 16}); err == nil {
		t.Error("made a ring that is too small for three of the largest records")
	}
	c.largestRecord = math.MaxUint32
	if _, err := OpenProducer("test", mem); !errors.As(err, &broken) || broken.What != "size" {
		t.Error(err)
	}
}

// FuzzMessages: whatever stands in a ring of messages, each side gives slices of the ring or refuses.
func FuzzMessages(f *testing.F) {
	f.Add(uint64(48), uint64(0), []byte{1, 0, 0, 0, 0, 0, 0, 0, 3, 0, 0, 0, 51, 0, 0, 0})
	f.Add(uint64(8192), uint64(8192), []byte{0, 0, 0, 0, 0, 0, 0, 0, 0xF0, 0x1F, 0, 0, 0, 1, 0, 0})
	f.Add(uint64(1<<63), uint64(8), []byte{})
	f.Fuzz(func(t *testing.T, written, taken uint64, records []byte) {
		mem, p, c := messages(t)
		copy(mem[HeaderSize:], records)
		c.written.Store(written)
		for n := 0; ; n++ {
			r, ok, err := c.Next()
			var broken *BrokenError
			if err != nil && !errors.As(err, &broken) {
				t.Fatal(err)
			}
			if !ok {
				break
			}
			if len(r.Data) > largestMessage || cap(r.Data) != len(r.Data) || n > 8192/16 {
				t.Fatalf("record %d of %d bytes", n, len(r.Data))
			}
			c.ReleaseAll()
		}
		p.words.taken.Store(taken)
		for range 8192 / 16 {
			place, ok, err := p.Allocate(largestMessage)
			var broken *BrokenError
			if err != nil && !errors.As(err, &broken) {
				t.Fatal(err)
			}
			if !ok {
				break
			}
			if len(place) != largestMessage || cap(place) != len(place) {
				t.Fatalf("%d bytes", len(place))
			}
			p.Publish(1, 1)
		}
	})
}

func TestMessagesAllocateNothing(t *testing.T) {
	_, p, c := messages(t)
	if n := testing.AllocsPerRun(2000, func() {
		for range 10 {
			if _, ok, err := p.Allocate(100); !ok || err != nil {
				t.Fatal(ok, err)
			}
			p.Publish(1, 1)
		}
		for range 10 {
			if _, ok, err := c.Next(); !ok || err != nil {
				t.Fatal(ok, err)
			}
		}
		c.ReleaseAll()
	}); n != 0 {
		t.Errorf("%v allocations for ten messages", n)
	}
}

// BenchmarkMessages is what a ring costs beside the copy: 16 bytes in and out, in one thread.
func BenchmarkMessages(b *testing.B) {
	_, p, c := messages(b)
	for i := uint64(0); b.Loop(); i++ {
		if _, ok, err := p.Allocate(16); !ok || err != nil {
			b.Fatal(ok, err)
		}
		p.Publish(i, 1)
		if _, ok, err := c.Next(); !ok || err != nil {
			b.Fatal(ok, err)
		}
		c.ReleaseAll()
	}
}
