package builderunit

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"ringlet/event"
	"ringlet/event/placing"
	"ringlet/shmem"
	"ringlet/tagnet/core"
	"ringlet/testkit/patiently"
	"ringlet/transport"
)

// TestBuilds takes MEPs through the unit, two at a time, in real memory.
func TestBuilds(t *testing.T) {
	r := newRig(t, nil)
	bytesWant := uint64(0)
	for mep := uint64(0); mep < 6; mep += 2 {
		var pieces [2][]*piece
		for slot := range pieces {
			for ru := range r.ranks {
				p := r.piece(ru, (mep+uint64(slot))*rigPacking)
				pieces[slot] = append(pieces[slot], p)
				for _, e := range p.entries {
					bytesWant += uint64(e.Size)
				}
			}
			slices.Reverse(pieces[slot][slot:]) // in another order than the sources'
			r.build(pieces[slot], slot, mep+uint64(slot))
		}
		for slot := range pieces {
			got := r.result()
			if age := time.Since(got.CompletedAt); age < 0 || age > time.Hour {
				t.Errorf("done %v ago", age)
			}
			got.CompletedAt = time.Time{}
			want := MEPResult{
				Feedback: core.Feedback{
					Slot:    uint32(slot),
					MEP:     mep + uint64(slot),
					Attempt: 1,
					Outcome: core.Built,
					Events:  rigPacking,
				},
				FirstEvent: (mep + uint64(slot)) * rigPacking,
			}
			if got != want {
				t.Errorf("%+v, not %+v", got, want)
			}
		}
	}
	for i, b := range r.sink.meps {
		checkMEP(t, b, uint64(i), rigDivision.Sources())
		r.checkComplete(i)
	}
	s := r.b.Stats()
	if s.BuiltMEPs != 6 || s.PlacedMFPs != 36 || s.BuiltBytes != bytesWant || s.IncompleteMEPs != 0 ||
		s.RefusedAnnouncements != 0 || s.RejectedPlacements != 0 || s.RejectedMessages != 0 ||
		s.Announcements != 18 || s.WindowsGranted != 18 || s.Slots.Builds != 6 || s.Slots.Offered != 2 {
		t.Errorf("%+v, %d bytes expected", s, bytesWant)
	}
	r.close()

	// The same memory serves the next run.
	var err error
	if r.b, err = New(r.config(nil)); err != nil {
		t.Fatal(err)
	}
	r.build([]*piece{r.piece(2, 0), r.piece(1, 0), r.piece(0, 0)}, 1, 0)
	if got := r.result(); got.Outcome != core.Built || got.Slot != 1 {
		t.Errorf("%+v", got)
	}
}

// checkMEP holds that b is a valid MEP of the generator's events.
func checkMEP(t *testing.T, b []byte, mep uint64, sources int) {
	t.Helper()
	m, err := event.ParseMEP(b)
	if err == nil {
		err = m.Verify()
	}
	if err != nil {
		t.Fatalf("MEP %d: %v", mep, err)
	}
	if m.NumMFPs() != sources || len(m.Bytes()) != len(b) {
		t.Errorf("MEP %d has %d MFPs in %d bytes of %d", mep, m.NumMFPs(), len(m.Bytes()), len(b))
	}
	i := 0
	for f, err := range m.MFPs() {
		if err != nil {
			t.Fatalf("MEP %d: %v", mep, err)
		}
		if int(f.Source()) != i || f.FirstEvent() != mep*rigPacking || f.NumFragments() != rigPacking {
			t.Errorf("MEP %d holds source %d, events from %d, at place %d", mep, f.Source(), f.FirstEvent(), i)
		}
		i++
	}
}

// TestWrittenInPieces holds that a write may come as several, as links cut it.
func TestWrittenInPieces(t *testing.T) {
	r := newRig(t, nil)
	var pieces []*piece
	for ru := range r.ranks {
		pieces = append(pieces, r.piece(ru, 0))
		r.announce(pieces[ru], 0, 0)
	}
	for off := 0; off < 1<<12; off += 100 {
		for _, p := range pieces {
			if n := min(100, len(p.data)-off); n > 0 {
				if v := r.write(p, r.net.grant(r.ranks[p.ru], 0), off, n); v != 0 {
					t.Fatal(v)
				}
			}
		}
	}
	r.result()
	checkMEP(t, r.sink.meps[0], 0, rigDivision.Sources())
}

// TestVerify holds what each kind of verification finds, and what it does not.
func TestVerify(t *testing.T) {
	const off, crc, full = 1 << VerifyOff, 1 << VerifyCRC, 1 << VerifyFull
	data := event.MFPHeaderSize(rigPacking) // offset of the first fragment
	for name, tc := range map[string]struct {
		found  int // by which kinds
		rules  bool
		damage func(r *rig, p *piece)
		says   string
	}{
		"nothing":           {0, true, func(*rig, *piece) {}, ""},
		"a byte on its way": {crc | full, true, func(_ *rig, p *piece) { p.data[data] ^= 1 }, "CRC-32C is"},
		"a byte at the source": {full, true, func(_ *rig, p *piece) { p.data[data] ^= 1; p.recount() },
			"source 2, event 0: byte 0 of the fragment is"},
		"a size": {full, true, func(_ *rig, p *piece) {
			sizes := p.data[event.MFPFixedSize+4:]
			sizes[0], sizes[2] = sizes[0]+1, sizes[2]-1 // same total
			p.recount()
		}, "fragment size is"},
		"another event range": {full, true, func(r *rig, p *piece) { *p = *r.piece(p.ru, 1) },
			"the MFP has 3 events from 1, that of source 0 has 3 from 0"},
		"another source": {full, true, func(_ *rig, p *piece) { p.data[16] = 77; p.recount() }, "the MFP is of source 77"},
		"not banks":      {full, false, func(*rig, *piece) {}, "magic"},
	} {
		for _, kind := range []Verify{VerifyOff, VerifyCRC, VerifyFull} {
			t.Run(fmt.Sprintf("%s, %d", name, kind), func(t *testing.T) {
				r := newRig(t, func(_ *rig, c *Config) {
					c.Verify = kind
					if !tc.rules {
						c.Pattern = nil
					}
				})
				var pieces []*piece
				for ru := range r.ranks {
					pieces = append(pieces, r.piece(ru, 0))
				}
				tc.damage(r, pieces[1])
				r.build(pieces, 0, 0)
				if tc.found&(1<<kind) == 0 {
					r.result()
					return
				}
				err := r.failure()
				var fault *DataError
				if !errors.As(err, &fault) || fault.MEP != 0 || tc.rules && (fault.Source != 2 || fault.RU != 1) ||
					!strings.Contains(err.Error(), tc.says) {
					t.Errorf("it says %q, not %q", err, tc.says)
				}
			})
		}
	}
}

func TestParseVerify(t *testing.T) {
	for name, want := range map[string]Verify{"off": VerifyOff, "crc": VerifyCRC, "full": VerifyFull} {
		if v, err := ParseVerify(name); v != want || err != nil {
			t.Error(name, v, err)
		}
	}
	if _, err := ParseVerify("some"); err == nil || err.Error() != `verify is "some": it can be off, crc or full` {
		t.Error(err)
	}
}

// TestFailures holds that whatever a unit cannot go on after is told, once.
func TestFailures(t *testing.T) {
	full := errors.New("the disk is full")
	for name, tc := range map[string]struct {
		change func(*rig, *Config)
		damage func(*piece)
		says   string
		is     error
	}{
		"sink": {change: func(r *rig, _ *Config) { r.sink.err = full }, says: "the disk is full", is: full},
		"feedback": {change: func(_ *rig, c *Config) { c.OnResults = func([]MEPResult) error { return full } },
			says: "the disk is full", is: full},
		"grant not sent": {
			change: func(r *rig, _ *Config) { r.net.fail = full }, is: full,
			says: "granting MEP 8 to readout unit 0: the disk is full",
		},
		"slot too small": {
			damage: func(p *piece) { p.entries[0].Size += shmem.PageSize },
			says:   "bytes, but a slot holds 4096: raise --slot-size or lower --packing",
		},
		"no window left": {
			change: func(_ *rig, c *Config) { c.Table = shmem.NewTable(2) }, says: "MEP 8: grant", is: shmem.ErrTableFull,
		},
		"not an MFP": {
			change: func(_ *rig, c *Config) { c.Verify = VerifyOff }, damage: func(p *piece) { p.data[0] = 0 },
			says: "MEP 8, source 0: ", is: event.ErrMagic,
		},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, tc.change)
			var pieces []*piece
			for ru := range r.ranks {
				pieces = append(pieces, r.piece(ru, 0))
				if ru == 0 && tc.damage != nil {
					tc.damage(pieces[0])
				}
				r.announce(pieces[ru], 1, 8)
			}
			for _, p := range pieces {
				if g := r.net.grant(r.ranks[p.ru], 8); int(g.Length) == len(p.data) {
					r.write(p, g, 0, len(p.data))
				}
			}
			err := r.failure()
			if !strings.Contains(err.Error(), tc.says) || tc.is != nil && !errors.Is(err, tc.is) {
				t.Errorf("it says %q, not %q", err, tc.says)
			}
			r.close()
			if len(r.failed) > 0 {
				t.Errorf("it failed twice: %v", patiently.Receive(t, r.failed))
			}
		})
	}
}

// TestRefuses holds that what comes from the wrong rank, or makes no sense, is refused, counted, and does no harm.
func TestRefuses(t *testing.T) {
	r := newRig(t, nil)
	p := r.piece(0, 0)
	var refused *announceError
	for name, tc := range map[string]struct {
		rank    int
		payload []byte
		says    string
		is      error
		as      any
	}{
		"in another's name": {rank: 1, payload: p.announcement(0, 0, 1),
			says: "rank 1 announced MEP 0 in the name of readout unit 0"},
		"from nobody": {rank: 2, payload: p.announcement(0, 0, 1),
			says: "rank 2 announced MEP 0 in the name of readout unit 0"},
		"malformed":    {rank: 3, payload: []byte{2, 1}, says: "an announcement of 2 bytes", is: placing.ErrBadMessage},
		"no such slot": {rank: 3, payload: p.announcement(2, 0, 1), says: "there are 2 slots", as: &refused},
	} {
		err := r.b.HandleAnnounce(tc.rank, tc.payload)
		if err == nil || !strings.Contains(err.Error(), tc.says) || tc.is != nil && !errors.Is(err, tc.is) || tc.as != nil &&
			!errors.As(err, tc.as) {
			t.Errorf("%s: it says %v, not %q", name, err, tc.says)
		}
	}
	r.b.Placed(2, transport.Placement{Ref: shmem.Ref{Window: 1, Gen: 1}, Imm: 0, Length: 4})
	r.b.Placed(3, transport.Placement{Ref: shmem.Ref{Window: 1, Gen: 1}, Imm: 1 << 63, Length: 4})
	if s := r.b.Stats(); s.RejectedMessages != 4 || s.RefusedAnnouncements != 1 || s.RejectedPlacements != 1 ||
		s.Announcements != 0 {
		t.Errorf("%+v", s)
	}
	r.build([]*piece{p, r.piece(1, 0), r.piece(2, 0)}, 0, 0)
	r.result()
	g := r.net.grant(r.ranks[0], 0)
	if v := r.write(p, g, 0, 4); v != shmem.StaleGen {
		t.Errorf("a late write is met by %v", v)
	}
	r.close()
	if err := r.b.HandleAnnounce(3, p.announcement(0, 5, 1)); !errors.Is(err, errClosed) {
		t.Error(err)
	}
	r.b.Placed(3, transport.Placement{Ref: shmem.Ref{Window: 1, Gen: 1}, Imm: 0, Length: 4})
	if s := r.b.Stats(); s.RejectedMessages != 6 {
		t.Errorf("%+v", s)
	}
}

// TestCloseWithUnfinishedMEP closes the unit with one MEP that waits for sizes and one that waits for bytes.
func TestCloseWithUnfinishedMEP(t *testing.T) {
	r := newRig(t, nil)
	r.announce(r.piece(1, 0), 0, 0)
	pieces := []*piece{r.piece(0, 3), r.piece(1, 3), r.piece(2, 3)}
	for _, p := range pieces {
		r.announce(p, 1, 1)
	}
	r.write(pieces[0], r.net.grant(r.ranks[0], 1), 0, 10)
	if s := r.table.Stats(); s.Live != 3 {
		t.Errorf("%+v", s)
	}
	r.close()
	if s := r.b.Stats(); s.IncompleteMEPs != 2 || s.BuiltMEPs != 0 || s.Slots.Abandons != 1 || s.Slots.Withdraws != 1 {
		t.Errorf("%+v", s)
	}
	if v := r.write(pieces[0], r.net.grant(r.ranks[0], 1), 10, 10); v != shmem.StaleGen {
		t.Errorf("a late write is met by %v", v)
	}
}

// TestCloseWhileTheSinkWaits holds that a sink that nobody empties does not keep the unit from closing.
func TestCloseWhileTheSinkWaits(t *testing.T) {
	r := newRig(t, func(r *rig, _ *Config) { r.sink.blocked = make(chan struct{}) })
	r.build([]*piece{r.piece(0, 0), r.piece(1, 0), r.piece(2, 0)}, 0, 0)
	r.build([]*piece{r.piece(0, 3), r.piece(1, 3), r.piece(2, 3)}, 1, 1)
	patiently.Receive(t, r.sink.blocked)
	r.close()
	if s := r.b.Stats(); s.IncompleteMEPs != 2 || s.BuiltMEPs != 0 {
		t.Errorf("%+v", s)
	}
	if len(r.failed) > 0 {
		t.Errorf("closing is no failure: %v", patiently.Receive(t, r.failed))
	}
}

// TestEveryCloseWaits holds that no Close returns while another is under way: the slots are taken away after it.
func TestEveryCloseWaits(t *testing.T) {
	release := make(chan struct{})
	r := newRig(t, func(r *rig, _ *Config) { r.sink.blocked, r.sink.notListening = make(chan struct{}), release })
	r.build([]*piece{r.piece(0, 0), r.piece(1, 0), r.piece(2, 0)}, 0, 0)
	patiently.Receive(t, r.sink.blocked)
	var released atomic.Bool
	var wg sync.WaitGroup
	for range 2 {
		wg.Go(func() {
			if err := r.b.Close(); err != nil || !released.Load() {
				t.Errorf("returned with %v while the sink was at work: %v", err, !released.Load())
			}
		})
	}
	time.Sleep(10 * time.Millisecond) // for one that does not wait to show
	released.Store(true)
	close(release)
	patiently.Wait(t, wg.Wait)
}

// TestCloseDuringActivity closes the unit while its readout units announce and write from goroutines of their own.
func TestCloseDuringActivity(t *testing.T) {
	for round := range uint64(20) {
		r := newRig(t, func(r *rig, _ *Config) {
			r.net.to = map[int]chan placing.Grant{}
			for _, rank := range r.ranks {
				r.net.to[rank] = make(chan placing.Grant, 100)
			}
		})
		var wg sync.WaitGroup
		closed := make(chan struct{})
		tokens := make([]chan core.Feedback, len(r.ranks)) // which slot is free for which MEP
		for ru := range r.ranks {
			tokens[ru] = make(chan core.Feedback, 100)
			tokens[ru] <- core.Feedback{Slot: 0, MEP: 0}
			tokens[ru] <- core.Feedback{Slot: 1, MEP: 1}
			wg.Go(func() { r.serve(ru, tokens[ru], closed) })
		}
		for n := range round {
			res := r.result()
			for _, c := range tokens {
				c <- core.Feedback{Slot: res.Slot, MEP: n + 2}
			}
		}
		if err := r.b.Close(); err != nil {
			t.Error(err)
		}
		close(closed)
		patiently.Wait(t, wg.Wait)
		r.close()
		s := r.b.Stats()
		if s.BuiltMEPs < round || s.BuiltMEPs+s.IncompleteMEPs > round+2 || int(s.BuiltMEPs) != len(r.sink.meps) {
			t.Errorf("round %d: %d MEPs, %d in the sink: %+v", round, s.BuiltMEPs, len(r.sink.meps), s)
		}
		if len(r.failed) > 0 {
			t.Errorf("round %d: %v", round, patiently.Receive(t, r.failed))
		}
	}
}

// serve is one readout unit: it announces what it has a token for, and writes what it is granted.
func (r *rig) serve(ru int, tokens <-chan core.Feedback, closed <-chan struct{}) {
	rank := r.ranks[ru]
	pieces := map[uint64]*piece{}
	for {
		select { // bounded by closed, which the test waits for with a bound
		case <-closed:
			return
		case tok := <-tokens:
			p := r.piece(ru, tok.MEP*rigPacking)
			pieces[tok.MEP] = p
			if r.b.HandleAnnounce(rank, p.announcement(int(tok.Slot), tok.MEP, 1)) != nil {
				return
			}
		case g := <-r.net.to[rank]:
			if r.write(pieces[g.MEP], g, 0, len(pieces[g.MEP].data)) != 0 {
				return
			}
		}
	}
}

// TestNewCleansUp holds that a unit which cannot be made leaves the table and the slots as they were.
func TestNewCleansUp(t *testing.T) {
	r := newRig(t, nil)
	r.close()
	if err := r.slots.Offer(1); err != nil {
		t.Fatal(err)
	}
	if _, err := New(r.config(nil)); !errors.Is(err, shmem.ErrSlotState) {
		t.Fatal(err)
	}
	if err := r.slots.Withdraw(1); err != nil {
		t.Fatal(err)
	}
	var err error
	if r.b, err = New(r.config(nil)); err != nil {
		t.Fatal(err)
	}
	if _, err := New(r.config(nil)); !errors.Is(err, shmem.ErrOverlap) {
		t.Errorf("the same slots twice: %v", err)
	}
}
