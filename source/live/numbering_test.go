package live

import (
	"encoding/binary"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// run builds what the sources of a Matcher give, as a readout unit and a scheduler do. The Ref of a true fragment is
// its event, that of garbage is garbage.
type run struct {
	m       *Matcher
	now     time.Duration
	end     uint64
	packing uint64
	used    []map[uint64]bool // true fragments, by source
	thrown  int               // true ones
	queue   [][]FragmentRef
}

const garbage = 1 << 63

func newRun(r Rules, unordered ...bool) *run {
	names := []string{"a", "b", "c", "d"}[:len(unordered)]
	x := &run{
		m:       NewMatcher(r, names, unordered),
		packing: uint64(r.Packing),
		queue:   make([][]FragmentRef, len(names)),
	}
	for range names {
		x.used = append(x.used, map[uint64]bool{})
	}
	return x
}

// offer has a source send a fragment, behind what it could not send yet.
func (x *run) offer(source int, e, ref uint64) {
	x.queue[source] = append(x.queue[source], FragmentRef{Event: e, Ref: ref, Size: 10})
	x.pump()
}

// pump takes what the sources send, as far as there is room.
func (x *run) pump() {
	for i := range x.queue {
		for len(x.queue[i]) > 0 {
			p := x.queue[i][0]
			v, _ := x.m.Offer(i, p, x.now)
			x.m.SetStalled(i, v == OfferAhead, x.now)
			if v == OfferAhead {
				break
			}
			if v == OfferThrown && p.Ref != garbage {
				x.thrown++
			}
			x.queue[i] = x.queue[i][1:]
		}
	}
}

// step builds what can be, as a scheduler with one readout unit would have it.
func (x *run) step() {
	for {
		r, _ := x.m.Step(x.now)
		first := max(r.FirstUncut, x.end)
		if r.CompleteBelow <= first || r.FlushBelow <= first && r.CompleteBelow-first < x.packing && !r.InputOver {
			break
		}
		c := Cut{first, uint32(min(r.CompleteBelow-first, x.packing))}
		x.m.AddCut(c, x.now)
		x.m.Step(x.now)
		x.m.FinishCut(x.now)
		x.end = c.End()
	}
	for _, d := range x.m.TakeDropped() {
		switch {
		case d.Ref == garbage:
		case d.Fault == 0:
			x.used[d.Source][d.Ref] = true
		default:
			x.thrown++
		}
	}
}

func (x *run) pause(d time.Duration) {
	for until := x.now + d; x.now < until; x.now += 100 * time.Millisecond {
		x.step()
		x.pump()
	}
}

func (x *run) finish(t rapid.TB) {
	t.Helper()
	for range 50 {
		x.pause(100 * time.Millisecond)
	}
	for i := range x.queue {
		if len(x.queue[i]) > 0 {
			t.Fatalf("source %d is held up at event %d", i, x.queue[i][0].Event)
		}
	}
	for i := range x.used {
		x.m.StopSource(i)
	}
	x.pause(3 * time.Second)
}

// TestOneWrongNumberCostsOneFragment: whatever its value and its place, with a pause before and behind it or none, and
// whatever the policy: all others are built, and nothing that is built lacks another source.
func TestOneWrongNumberCostsOneFragment(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		r := rules()
		r.FirstFragmentTimeout = 30 * time.Second
		r.OnMissing = rapid.SampledFrom([]OnMissing{MarkMissing, WaitForMissing}).Draw(t, "policy")
		n := rapid.IntRange(1, 3).Draw(t, "sources")
		kinds := make([]bool, n)
		for i := range kinds {
			kinds[i] = r.OnMissing == MarkMissing && rapid.Bool().Draw(t, "unordered") // with wait it waits for ever
		}
		first := rapid.SampledFrom([]uint64{0, 0, 7, 1 << 40, 1<<63 + 5}).Draw(t, "first number")
		events := rapid.Uint64Range(6, 300).Draw(t, "events")
		at := rapid.Uint64Range(0, events-1).Draw(t, "place")
		value := rapid.Uint64Range(0, NoEvent).Draw(t, "value")
		if rapid.Bool().Draw(t, "near") {
			value = first + rapid.Uint64Range(0, 2*events).Draw(t, "behind the first")
		}
		replaced := rapid.Bool().Draw(t, "in the place of a true one")
		before, behind := rapid.IntRange(0, 3).Draw(t, "s before"), rapid.IntRange(0, 3).Draw(t, "s behind")
		x := newRun(r, kinds...)
		for k := range events {
			for i := range kinds {
				if i > 0 || k != at {
					x.offer(i, first+k, k)
					continue
				}
				x.pause(time.Duration(before) * time.Second)
				x.offer(0, value, garbage)
				if !replaced {
					x.pause(time.Duration(behind) * time.Second)
					x.offer(0, first+k, k)
				}
			}
			if k == at && replaced {
				x.pause(time.Duration(behind) * time.Second)
			}
			if k%7 == 0 {
				x.step()
			}
		}
		x.finish(t)
		for i := range kinds {
			lost := int(events) - len(x.used[i])
			if value >= first && value-first < events {
				lost-- // it may have the number of a true one, which comes again then; or be the very next one, in a pause
			}
			if i > 0 && lost > 0 || lost > 1 {
				t.Fatalf("source %d: %d of %d are not built, %d thrown away: %+v", i, lost, events, x.thrown, x.m.Counts(i))
			}
		}
	})
}

// FuzzMatcherNumbers gives a Matcher numbers from all of 64 bits. The cost of no call may depend on one: a loop as long
// as a number does not end.
func FuzzMatcherNumbers(f *testing.F) {
	f.Add([]byte{0, 5, 1, 5, 3, 2, 0, 250, 2, 3})
	f.Add([]byte{6, 62, 0, 1, 0, 1, 0, 1, 2, 250, 3, 0, 3, 0})
	f.Fuzz(func(t *testing.T, ops []byte) {
		r := rules()
		r.FirstFragmentTimeout = time.Second
		m := NewMatcher(r, []string{"a", "b"}, []bool{false, true})
		now, end := time.Duration(0), uint64(0)
		next := [2]uint64{}
		for i := 0; i+1 < len(ops); i += 2 {
			v := uint64(ops[i+1])
			s := int(ops[i]>>4) & 1
			switch ops[i] & 7 {
			case 0, 1, 4:
				_, _ = m.Offer(s, FragmentRef{Event: next[s], Size: 10}, now)
				next[s] += v % 3
			case 2:
				now += time.Duration(v) * 20 * time.Millisecond
			case 3:
				reach, _ := m.Step(now)
				c := Cut{First: max(end, reach.FirstUncut)}
				if reach.CompleteBelow <= c.First {
					continue
				}
				c.Events = uint32(min(reach.CompleteBelow-c.First, 16))
				end = c.End()
				m.AddCut(c, now)
				m.Step(now)
				if !m.IsCutDecided() {
					t.Fatalf("%+v is not ready at %+v", c, reach)
				}
				m.FinishCut(now)
				m.TakeDropped()
			case 5: // a wild one, and back
				var b [8]byte
				copy(b[:], ops[i+1:])
				_, _ = m.Offer(s, FragmentRef{Event: binary.LittleEndian.Uint64(b[:]) << (v % 40), Size: 10}, now)
			case 6:
				next[s] += 1 << (v % 63)
			}
		}
	})
}
