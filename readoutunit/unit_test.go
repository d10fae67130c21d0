package readoutunit

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"ringlet/barrier"
	"ringlet/event/placing"
	"ringlet/source"
	tagcore "ringlet/tagnet/core"
	"ringlet/testkit/patiently"
)

// fiveMEPs takes the unit through a run of five MEPs to three builder units, in two cycles, until all are released.
func (r *rig) fiveMEPs() {
	r.t.Helper()
	r.until("the end of the input", func() bool { return r.sched.last().InputEnded })
	if diff := cmp.Diff(tagcore.Update{ReadBelow: 5, Events: 10, InputEnded: true}, r.sched.last()); diff != "" {
		r.t.Error(diff)
	}
	r.sched.send(0, 0, []tagcore.Token{newToken(0, 0), newToken(1, 1), newToken(2, 0)},
		[]tagcore.Token{newToken(3, 1), none, newToken(4, 1)})
	r.until("all writes", func() bool { return r.unit.Stats().PartsWritten == 5 })
	r.sched.send(2, 5)
	close(r.sched.tokens)
	r.until("six phases and the release", func() bool {
		s := r.unit.Stats()
		return s.PhasesPassed == 6 && s.RetainedBlocks == 0
	})
}

// TestRun takes a unit alone through a whole run: five MEPs to three builder units, with more streams than one
// announcement holds, with and without a fence.
func TestRun(t *testing.T) {
	const streams = 130
	for _, free := range []bool{false, true} {
		t.Run(fmt.Sprintf("free %v", free), func(t *testing.T) {
			r := newRig(t, generator(t, streams), func(_ *rig, c *Config) { c.UnheldPhases, c.Streams = free, streams })
			r.fiveMEPs()
			r.close()
			want := []string{
				"MEP 0 to rank 5, slot 0", "MEP 1 to rank 6, slot 1", "MEP 2 to rank 7, slot 0", "MEP 3 to rank 5, slot 1",
				"MEP 4 to rank 7, slot 1",
			}
			if diff := cmp.Diff(want, r.net.order); diff != "" {
				t.Error(diff)
			}
			written := 0
			for mep := range uint64(5) {
				if !bytes.Equal(r.net.written[mep], block(t, streams, mep)) {
					t.Errorf("MEP %d was not written as it was read", mep)
				}
				written += len(r.net.written[mep])
			}
			s := r.unit.Stats()
			if s.MFPsRead != 5*streams || s.TokensReceived != 5 || s.BytesWritten != uint64(written) || s.DummyPhases != 1 ||
				s.OpenTransfers != 0 ||
				s.RefusedGrants != 0 || s.BadRecords != 0 || s.RetainedBytesHigh < written || s.ConductingTime <= 0 ||
				r.net.signals != 10 {
				t.Errorf("%+v, %d signals", s, r.net.signals)
			}
			var to uint64
			for _, n := range s.BytesByBU {
				to += n
			}
			if len(s.BytesByBU) != 3 || to != s.BytesWritten || s.BytesByBU[0] == 0 {
				t.Errorf("%d bytes were written, of which %v to each builder unit", s.BytesWritten, s.BytesByBU)
			}
			if epochs := s.BarrierWaits.TotalCount(); free && epochs != 0 || !free && epochs != 6 {
				t.Errorf("%d epochs of the barrier", epochs)
			}
			if err := r.unit.Close(); err != nil {
				t.Error(err)
			}
		})
	}
}

// TestReadsAheadUntilRetentionIsFull holds that the source waits for the release of memory, and only for that.
func TestReadsAheadUntilRetentionIsFull(t *testing.T) {
	r := newRig(t, &scripted{blocks: 10, end: io.EOF}, func(_ *rig, c *Config) { c.Retention = newRetention(t, 1, 40, 3) })
	for below := range uint64(7) {
		r.until("three blocks", func() bool { return r.sched.last().ReadBelow == below+3 })
		if n, _ := r.unit.cfg.Retention.usage(); n != 3 {
			t.Fatalf("%d blocks are held with all below %d released", n, below)
		}
		r.sched.send(0, below+1)
	}
	// The source says only when asked for one more that there is none, and to ask takes room.
	r.sched.send(0, 8)
	r.until("the end", func() bool { return r.sched.last().InputEnded })
}

// TestFailures holds that whatever a unit cannot go on after is told, once, in a sentence that names what and where.
func TestFailures(t *testing.T) {
	broken := errors.New("the wire is cut")
	cycle := []tagcore.Token{newToken(0, 0), newToken(1, 0), none}
	for name, tc := range map[string]struct {
		src    source.Source
		change func(*rig, *Config)
		cycles []tagcore.Token
		says   string
		is     error
	}{
		"source": {src: &scripted{blocks: 2, end: broken}, says: "reading the source: the wire is cut", is: broken},
		"source out of sequence": {
			src: &scripted{blocks: 3, end: io.EOF, skip: true}, says: "the source gave MEP 2 where 1 follows",
		},
		"streams": {change: func(_ *rig, c *Config) { c.Streams = 2 }, says: "MEP 0 came with 1 MFPs where each has 2"},
		"update":  {change: func(r *rig, _ *Config) { r.sched.refuse = broken }, says: "the wire is cut", is: broken},
		"grant too long": {
			change: func(r *rig, _ *Config) { r.net.length = func(n uint32) uint32 { return n + 4 } }, cycles: cycle,
			says: "builder unit 0 granted 44 bytes for MEP 0, but the MFPs of this readout unit have 40",
		},
		"grant too short": {
			change: func(r *rig, _ *Config) { r.net.length = func(n uint32) uint32 { return n - 4 } }, cycles: cycle,
			says: "builder unit 0 granted 36 bytes for MEP 0, but the MFPs of this readout unit have 40",
		},
		"write not taken": {
			change: func(r *rig, _ *Config) { r.net.write = func(int) error { return broken } }, cycles: cycle,
			says: "writing 1 parts to builder unit 0: the wire is cut", is: broken,
		},
		"write failed": {
			change: func(r *rig, _ *Config) {
				r.net.completion = func(n int) error { return map[int]error{2: broken}[n] }
			},
			cycles: cycle, says: "writing MEP 1 to slot 0 of builder unit 1: the wire is cut", is: broken,
		},
		"announcement not taken": {
			change: func(r *rig, _ *Config) { r.net.signal = func(n int) error { return map[int]error{2: broken}[n] } },
			cycles: cycle, says: "announcing MEP 1 to builder unit 1: the wire is cut", is: broken,
		},
		"token for what is not held": {
			cycles: []tagcore.Token{none, newToken(77, 1),
				none}, says: "announcing MEP 77 to builder unit 1: the readout unit does not hold its part",
			is: errNotRetained,
		},
		"token for a slot that is not there": {
			cycles: []tagcore.Token{none, newToken(0, 2), none}, says: "MEP 0, slot 2 of builder unit 1: there are 2 slots",
		},
		"cycle of another view": {
			cycles: []tagcore.Token{none, none}, says: "cycle 0 of 2 places came where cycle 0 of 3 follows",
		},
		"barrier closed": {
			change: func(_ *rig, c *Config) { _ = c.Barrier.Close() }, cycles: cycle, says: barrier.ErrClosed.Error(),
			is: barrier.ErrClosed,
		},
	} {
		t.Run(name, func(t *testing.T) {
			src := tc.src
			if src == nil {
				src = &scripted{blocks: 2, end: io.EOF}
			}
			r := newRig(t, src, tc.change)
			if tc.cycles != nil {
				r.until("the end of the input", func() bool { return r.sched.last().InputEnded })
				r.sched.send(0, 0, tc.cycles)
			}
			err := r.failure()
			if !strings.Contains(err.Error(), tc.says) || tc.is != nil && !errors.Is(err, tc.is) {
				t.Errorf("it says %q, not %q", err, tc.says)
			}
			r.close()
			select {
			case err := <-r.failed:
				t.Errorf("it failed twice: %v", err)
			default:
			}
		})
	}
}

func TestSchedulerGone(t *testing.T) {
	gone := errors.New("the scheduler is gone")
	r := newRig(t, &scripted{blocks: 1, end: io.EOF}, func(r *rig, _ *Config) { r.sched.broken = gone })
	close(r.sched.tokens)
	if err := r.failure(); !errors.Is(err, gone) {
		t.Error(err)
	}
}

// TestBadRecord holds that input that turns bad ends the input and not the run.
func TestBadRecord(t *testing.T) {
	bad := &source.BadRecordError{
		File:   "x.mdf",
		Record: 3,
		Offset: 400,
		Reason: "magic",
	}
	r := newRig(t, &scripted{blocks: 3, end: bad}, nil)
	r.until("the end of the input", func() bool { return r.sched.last().InputEnded })
	if u := r.sched.last(); u.ReadBelow != 3 || u.Events != 3 {
		t.Errorf("%+v", u)
	}
	r.sched.send(0, 0, []tagcore.Token{newToken(0, 0), newToken(1, 0), newToken(2, 0)})
	r.until("what came before", func() bool { return r.net.wrote() == 3 })
	if got := r.unit.BadRecord(); got != bad || r.unit.Stats().BadRecords != 1 {
		t.Errorf("%v, %+v", got, r.unit.Stats())
	}
}

// TestGrantsThatMakeNoSense holds that they are refused, counted, and change nothing.
func TestGrantsThatMakeNoSense(t *testing.T) {
	r := newRig(t, &scripted{blocks: 2, end: io.EOF}, func(r *rig, _ *Config) { r.net.mute = true })
	r.until("the end of the input", func() bool { return r.sched.last().InputEnded })
	r.sched.send(0, 0, []tagcore.Token{newToken(0, 0), newToken(1, 0), none})
	r.until("the announcements", func() bool { return r.unit.Stats().TokensReceived == 2 })
	good := placing.Grant{
		Slot:    0,
		Attempt: 1,
		MEP:     0,
		Window:  5,
		Gen:     1,
		Length:  40,
	}
	other := good
	other.MEP = 1
	if err := r.unit.HandleGrant(5, []byte{byte(placing.KindGrant)}); !errors.Is(err, placing.ErrBadMessage) {
		t.Error(err)
	}
	if err := r.unit.HandleGrant(4, good.Append(nil)); err == nil || !strings.Contains(err.Error(),
		"rank 4 granted a window") {
		t.Error(err)
	}
	var token *tokenError
	if err := r.unit.HandleGrant(5, other.Append(nil)); !errors.As(err, &token) || token.MEP != 1 || token.BU != 0 {
		t.Error(err)
	}
	if n := r.unit.Stats().RefusedGrants; n != 3 {
		t.Errorf("%d refused", n)
	}
	if err := r.unit.HandleGrant(5, good.Append(nil)); err != nil {
		t.Error(err)
	}
	r.until("the write", func() bool { return r.net.wrote() == 1 })
}

// TestCompletionOfNothing holds that an outcome nobody waits for is a failure with a sentence, not a crash.
func TestCompletionOfNothing(t *testing.T) {
	r := newRig(t, &scripted{blocks: 2, end: io.EOF}, nil)
	r.unit.HandleCompletion(5, 12, nil)
	if err := r.failure(); !strings.Contains(err.Error(), "not under way: number 12") {
		t.Error(err)
	}
}

// TestCloseAtAnyMoment closes a unit after each of the steps of a run that the network sees; goleak looks for what is
// left.
func TestCloseAtAnyMoment(t *testing.T) {
	for _, free := range []bool{false, true} {
		for step := range 24 {
			r := newRig(t, generator(t, 1), func(_ *rig, c *Config) { c.UnheldPhases = free })
			cycles := [][]tagcore.Token{{newToken(0, 0), newToken(1, 1), newToken(2, 0)}, {newToken(3, 1), none, newToken(4, 1)}}
			if step > 0 {
				r.until("the end of the input", func() bool { return r.sched.last().InputEnded })
				r.sched.send(0, 0, cycles...)
				for range step {
					select {
					case <-r.net.progress:
					case <-time.After(time.Millisecond): // the run is over sooner
					}
				}
			}
			if step%2 == 0 { // the transport goes first, or not
				r.close()
				continue
			}
			if err := r.unit.Close(); err != nil {
				t.Error(err)
			}
		}
	}
}

// TestEveryCloseWaits holds that no Close returns while another is under way: the unit's memory is taken away after it.
func TestEveryCloseWaits(t *testing.T) {
	inside, release := make(chan struct{}), make(chan struct{})
	r := newRig(t, &scripted{blocks: 2, end: io.EOF}, func(_ *rig, c *Config) {
		c.Fail = func(error) {
			close(inside)
			patiently.Hold(release)
		}
	})
	r.unit.HandleCompletion(5, 12, nil)
	patiently.Receive(t, inside)
	var released atomic.Bool
	var wg sync.WaitGroup
	for range 2 {
		wg.Go(func() {
			if err := r.unit.Close(); err != nil || !released.Load() {
				t.Errorf("returned with %v while a call was under way: %v", err, !released.Load())
			}
		})
	}
	time.Sleep(10 * time.Millisecond) // for one that does not wait to show
	released.Store(true)
	close(release)
	patiently.Wait(t, wg.Wait)
}

// TestBarrier holds that a unit which waits for another in the barrier can be closed; and that if it is left
// waiting it fails with who is missing.
func TestBarrier(t *testing.T) {
	for _, tc := range []struct {
		name    string
		timeout time.Duration
	}{{"closed inside", 0}, {"timed out", time.Minute}} {
		t.Run(tc.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				core, err := barrier.NewCore(barrier.Central, 2, 0)
				if err != nil {
					t.Fatal(err)
				}
				b := barrier.New(core, deaf{}, barrier.Options{Timeout: tc.timeout})
				r := newRig(t, &scripted{blocks: 3, end: io.EOF}, func(_ *rig, c *Config) { c.RUs, c.Barrier = 2, b })
				r.sched.send(0, 0, []tagcore.Token{none, none, none})
				synctest.Wait()
				if tc.timeout > 0 {
					var missing *barrier.TimeoutError
					if err := <-r.failed; !errors.As(err, &missing) || len(missing.Missing) != 1 || missing.Missing[0] != 1 {
						t.Error(err)
					}
				}
				r.close()
				if s := r.unit.Stats(); s.PhasesPassed != 0 || s.DummyPhases != 1 {
					t.Errorf("%+v", s)
				}
			})
		})
	}
}

// deaf takes messages and does nothing with them.
type deaf struct{}

func (deaf) Signal(int, []byte) error { return nil }
