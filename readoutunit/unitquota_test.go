package readoutunit

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"ringlet/event/pattern"
	"ringlet/event/placing"
	"ringlet/readoutunit/source"
	"ringlet/tagnet"
	"ringlet/transport/link"
)

// byQuota makes a rig's unit place by quota, in the given number of rooms.
func byQuota(t *testing.T, src source.Source, streams, rooms int) func(*rig, *Config) {
	return func(_ *rig, c *Config) {
		stride := placing.Quota(streams, src.MaxBlock())
		r, err := NewRooms(make([]byte, rooms*stride), stride)
		if err != nil {
			t.Fatal(err)
		}
		c.Retention, c.Rooms, c.Streams = nil, r, streams
	}
}

// TestRunByQuota takes a unit alone through a whole run, with and without a fence, in pieces and in large writes.
func TestRunByQuota(t *testing.T) {
	for _, streams := range []int{1, 3, 40} {
		for _, free := range []bool{false, true} {
			t.Run(fmt.Sprintf("%d streams, free %v", streams, free), func(t *testing.T) {
				src := generator(t, streams)
				change := byQuota(t, src, streams, 8)
				r := newRig(t, src, func(r *rig, c *Config) { c.Free = free; r.net.byQuota = true; change(r, c) })
				r.until("the end of the input", func() bool { return r.sched.last().End })
				if diff := cmp.Diff(tagnet.Update{Read: 5, Events: 10, End: true}, r.sched.last()); diff != "" {
					t.Error(diff)
				}
				r.sched.send(0, 0, []tagnet.Token{tok(0, 0), tok(1, 1), tok(2, 0)}, []tagnet.Token{tok(3, 1), none, tok(4, 1)})
				r.until("all writes", func() bool { return r.unit.Stats().Writes == 5 })
				r.sched.send(2, 5)
				close(r.sched.tokens)
				r.until("six phases and the release", func() bool {
					s := r.unit.Stats()
					return s.Phases == 6 && s.Retained == 0
				})
				if err := r.unit.Drain(t.Context()); err != nil {
					t.Error(err)
				}
				r.close()
				want := []string{
					"MEP 0 to rank 5, slot 0", "MEP 1 to rank 6, slot 1", "MEP 2 to rank 7, slot 0", "MEP 3 to rank 5, slot 1",
					"MEP 4 to rank 7, slot 1",
				}
				if free { // a burst for each builder unit
					want = []string{want[0], want[3], want[1], want[2], want[4]}
				}
				if diff := cmp.Diff(want, r.net.order); diff != "" {
					t.Error(diff)
				}
				written := 0
				for mep := range uint64(5) {
					part := r.net.written[mep]
					if !bytes.Equal(part[streams*placing.EntrySize:], block(t, streams, mep)) {
						t.Errorf("MEP %d was not written as it was read", mep)
					}
					written += len(part)
				}
				s := r.unit.Stats()
				if s.MFPsRead != uint64(5*streams) || s.Tokens != 5 || s.BytesWritten != uint64(written) || s.Dummies != 1 || s.Open != 0 ||
					s.Refused != 0 || s.BadRecords != 0 || s.Conducting <= 0 || r.net.signals != 3 {
					t.Errorf("%+v, %d signals", s, r.net.signals)
				}
				if epochs := s.Barriers.TotalCount(); free && epochs != 0 || !free && epochs != 6 {
					t.Errorf("%d epochs of the barrier", epochs)
				}
			})
		}
	}
}

// TestFailuresByQuota holds that whatever a unit cannot go on after is told in a sentence.
func TestFailuresByQuota(t *testing.T) {
	broken := errors.New("the wire is cut")
	cycle := []tagnet.Token{tok(0, 0), tok(1, 0), none}
	for name, tc := range map[string]struct {
		src    *scripted
		change func(*rig, *Config)
		cycles []tagnet.Token
		says   string
		is     error
	}{
		"source":                 {src: &scripted{blocks: 2, end: broken}, says: "reading the source: the wire is cut", is: broken},
		"source out of sequence": {src: &scripted{blocks: 3, end: io.EOF, skip: true}, says: "the source gave MEP 2 where 1 follows"},
		"streams":                {change: func(_ *rig, c *Config) { c.Streams = 2 }, says: "MEP 0 came with 1 MFPs where each has 2"},
		"update":                 {change: func(r *rig, _ *Config) { r.sched.refuse = broken }, says: "the wire is cut", is: broken},
		"write not taken": {
			change: func(r *rig, _ *Config) { r.net.write = func(int) error { return broken } }, cycles: cycle,
			says: "writing 1 parts to builder unit 0: the wire is cut", is: broken,
		},
		"write failed": {
			change: func(r *rig, _ *Config) {
				r.net.completion = func(n int) error { return map[int]error{2: broken}[n] }
			},
			cycles: cycle, says: "writing to builder unit 1: the wire is cut", is: broken,
		},
		"question not taken": {
			change: func(r *rig, _ *Config) { r.net.signal = func(n int) error { return map[int]error{2: broken}[n] } },
			cycles: cycle, says: "asking builder unit 1 for its windows: the wire is cut", is: broken,
		},
		"token for what is not held": {
			cycles: []tagnet.Token{none, tok(77, 1), none}, says: "block is not retained: MEP 77, for builder unit 1; those from 0 up to 2 are",
			is: ErrRetention,
		},
		"token for a slot that is not there": {
			cycles: []tagnet.Token{none, tok(0, 2), none}, says: "MEP 0, slot 2 of builder unit 1: there are 2 slots",
		},
		"cycle of another view": {
			cycles: []tagnet.Token{none, none}, says: "cycle 0 of 2 places came where cycle 0 of 3 follows",
		},
	} {
		for _, free := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, free %v", name, free), func(t *testing.T) {
				src := &scripted{blocks: 2, end: io.EOF}
				if tc.src != nil {
					*src = *tc.src
				}
				quota := byQuota(t, src, 1, 8)
				r := newRig(t, src, func(r *rig, c *Config) {
					quota(r, c)
					c.Free = free
					if tc.change != nil {
						tc.change(r, c)
					}
				})
				if tc.cycles != nil {
					r.until("the end of the input", func() bool { return r.sched.last().End })
					r.sched.send(0, 0, tc.cycles)
				}
				if err := r.failure(); !strings.Contains(err.Error(), tc.says) || tc.is != nil && !errors.Is(err, tc.is) {
					t.Errorf("it says %q, not %q", err, tc.says)
				}
				r.close()
			})
		}
	}
}

// TestSignalsOfTheOtherWay holds that grants of the other way of placing are refused and counted.
func TestSignalsOfTheOtherWay(t *testing.T) {
	src := &scripted{blocks: 1, end: io.EOF}
	r := newRig(t, src, byQuota(t, src, 1, 2))
	g := placing.Grant{Slot: 0, Attempt: 1, Window: 5, Gen: 1, Length: 40}
	s := placing.Standing{Refs: []placing.Ref{{Window: 1, Gen: 1}}}
	errs := []error{
		r.unit.Grant(5, g.Append(nil)), r.unit.Standing(4, s.Append(nil)), r.unit.Standing(5, []byte{byte(placing.KindStanding)}),
	}
	for i, says := range []string{"where all are granted beforehand", "rank 4, which is no builder unit", "malformed"} {
		if errs[i] == nil || !strings.Contains(errs[i].Error(), says) {
			t.Errorf("%v, it should say %q", errs[i], says)
		}
	}
	if n := r.unit.Stats().Refused; n != 3 {
		t.Errorf("%d are counted", n)
	}
	other := newRig(t, &scripted{blocks: 1, end: io.EOF}, nil)
	if err := other.unit.Standing(5, s.Append(nil)); err == nil || other.unit.Stats().Refused != 1 {
		t.Error("standing grants are taken where placing is by announcement")
	}
}

// TestCloseAtAnyMomentByQuota closes a unit after each of the steps of a run that the network sees.
func TestCloseAtAnyMomentByQuota(t *testing.T) {
	for _, free := range []bool{false, true} {
		for step := range 12 {
			src := generator(t, 1)
			quota := byQuota(t, src, 1, 2)
			r := newRig(t, src, func(r *rig, c *Config) { c.Free = free; quota(r, c) })
			if step > 0 {
				r.until("two blocks", func() bool { return r.sched.last().Read == 2 })
				r.sched.send(0, 0, []tagnet.Token{tok(0, 0), tok(1, 1), none})
				for range step {
					select {
					case <-r.net.progress:
					case <-time.After(time.Millisecond):
					}
				}
			}
			if step%2 == 0 {
				r.close()
			} else if err := r.unit.Close(); err != nil {
				t.Error(err)
			}
		}
	}
}

// atOnce is a network that completes each write before it returns.
type atOnce struct {
	unit *Unit
	refs int
}

func (n *atOnce) Write(rank int, w link.Write) error {
	n.unit.Completed(rank, w.Cookie, nil)
	return nil
}
func (n *atOnce) WriteMany(rank int, _ []link.Piece, cookie uint64) error {
	n.unit.Completed(rank, cookie, nil)
	return nil
}

func (n *atOnce) Signal(rank int, _ []byte) error {
	for first := 0; first < n.refs; first += placing.MaxStanding {
		m := placing.Standing{First: uint32(first)}
		for i := range min(placing.MaxStanding, n.refs-first) {
			m.Refs = append(m.Refs, placing.Ref(standingRef(rank, uint32(first+i))))
		}
		if err := n.unit.Standing(rank, m.Append(nil)); err != nil {
			return err
		}
	}
	return nil
}

// quotaLoop is a unit that is driven by hand: the reader's and the server's work of some cycles at a time, the scheduler being the test.
type quotaLoop struct {
	u     *Unit
	batch tagnet.Tokens
	mep   uint64
}

const loopCycles, loopBUs, loopSlots = 512, 2, 4096

func newQuotaLoop(t testing.TB, prepared bool) *quotaLoop {
	g := source.GeneratorConfig{RUs: 2, Streams: 1, Packing: 1, FragmentSize: 128, Model: pattern.Constant}
	gen, err := source.NewGenerator(g)
	if err != nil {
		t.Fatal(err)
	}
	const rooms = 4 * loopCycles * loopBUs
	var src source.Source = gen
	if prepared {
		if src, err = source.NewPrepared(g, rooms, rooms); err != nil {
			t.Fatal(err)
		}
	}
	stride := placing.Quota(1, gen.MaxBlock())
	r, err := NewRooms(make([]byte, rooms*stride), stride)
	if err != nil {
		t.Fatal(err)
	}
	net := &atOnce{refs: loopSlots}
	u := New(Config{
		RUs: 2, BURanks: []int{1, 2}, Slots: loopSlots, Source: src, Streams: 1, Rooms: r, Network: net, Free: true,
		Fail: func(err error) { t.Error(err) },
	})
	net.unit = u
	if err := u.ask(); err != nil {
		t.Fatal(err)
	}
	l := &quotaLoop{u: u}
	for range loopCycles * loopBUs {
		l.batch.MEPs, l.batch.Slots = append(l.batch.MEPs, 0), append(l.batch.Slots, 0)
	}
	l.batch.Places = loopBUs
	return l
}

func (l *quotaLoop) turn(t testing.TB) {
	n := loopCycles * loopBUs
	for left := n; left > 0; {
		_, strip, sizes, err := l.u.cfg.Rooms.Reserve(t.Context(), left)
		if err != nil {
			t.Fatal(err)
		}
		run, err := l.u.quota.source.NextMany(t.Context(), strip, sizes[:min(left, len(sizes))])
		if err != nil {
			t.Fatal(err)
		}
		l.u.cfg.Rooms.Commit(run.Blocks)
		left -= run.Blocks
	}
	l.batch.Released = l.mep
	for i := range n {
		l.batch.MEPs[i], l.batch.Slots[i] = l.mep, 1<<24|uint32(i/loopBUs)
		l.mep++
	}
	if err := l.u.take(&l.batch); err != nil {
		t.Fatal(err)
	}
	if err := l.u.serveBatch(&l.batch.Batch); err != nil {
		t.Fatal(err)
	}
	if err := l.u.flushAll(); err != nil {
		t.Fatal(err)
	}
	l.batch.First += loopCycles
}

func TestQuotaAllocatesNothing(t *testing.T) {
	l := newQuotaLoop(t, false)
	l.turn(t)
	if n := testing.AllocsPerRun(20, func() { l.turn(t) }); n > 0 {
		t.Errorf("%v allocations for %d tokens", n, loopCycles*loopBUs)
	}
	if s := l.u.Stats(); s.Writes != l.mep || s.Tokens != l.mep || s.Open != 0 {
		t.Errorf("%+v", s)
	}
}

// BenchmarkQuotaUnit is a readout unit of one stream of 128 bytes, packing 1, with two builder units: reading, sorting tokens into
// bursts, and their completion; the network and the scheduler cost nothing.
func BenchmarkQuotaUnit(b *testing.B) {
	for _, prepared := range []bool{false, true} {
		b.Run(fmt.Sprintf("prepared %v", prepared), func(b *testing.B) {
			l := newQuotaLoop(b, prepared)
			b.ReportAllocs()
			for n := 0; n < b.N; n += loopCycles * loopBUs {
				l.turn(b)
			}
			b.ReportMetric(float64(b.N)/b.Elapsed().Seconds()/1e6, "Mevents/s")
		})
	}
}
