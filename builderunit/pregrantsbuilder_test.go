package builderunit

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"ringlet/builderunit/sink"
	"ringlet/event"
	"ringlet/event/placing"
	"ringlet/recording"
	"ringlet/shmem"
	"ringlet/tagnet/core"
	"ringlet/testkit/patiently"
	"ringlet/transport"
)

// TestPreGrantedBuilds takes MEPs through a unit with pre-granted windows, two at a time, in real memory, to a sink
// that keeps them.
func TestPreGrantedBuilds(t *testing.T) {
	r := newPreGrantedRig(t, 2, nil)
	bytesWant := uint64(0)
	for mep := uint64(0); mep < 6; mep += 2 {
		for ru, rank := range r.ranks {
			var ps []transport.Placement
			for slot := range 2 {
				p := r.part(ru, mep+uint64(slot))
				ps = append(ps, r.place(p, slot, mep+uint64(slot), 1))
				for _, e := range p.entries {
					bytesWant += uint64(e.Size)
				}
			}
			r.b.PlacedMany(rank, ps)
		}
		for slot := range 2 {
			got := r.result()
			if want := (MEPResult{
				Feedback: core.Feedback{
					Slot:    uint32(slot),
					MEP:     mep + uint64(slot),
					Attempt: 1,
					Outcome: core.Built,
					Events:  rigPacking,
				},
				FirstEvent:  (mep + uint64(slot)) * rigPacking,
				CompletedAt: got.CompletedAt,
			}); got != want {
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
		s.Announcements != 0 || s.WindowsGranted != 6 || s.PartsInPlace != 18 || s.Slots.Builds != 6 || s.Slots.Offered != 2 {
		t.Errorf("%+v, %d bytes expected", s, bytesWant)
	}
	r.close()

	// The same memory serves the next run, by new grants.
	var err error
	old := slices.Clone(r.windows.refsOfRank(r.ranks[0]))
	if r.b, err = New(r.config(r.configure)); err != nil {
		t.Fatal(err)
	}
	for _, rank := range r.ranks {
		r.requestWindows(rank)
	}
	if _, v := r.table.Acquire(shmem.Peer(r.ranks[0]), old[0], 0, 4, shmem.AccessNwrite); v != shmem.StaleGen {
		t.Errorf("a write by a grant of the run before is met by %v", v)
	}
	r.buildPreGranted(1, 0)
	if got := r.result(); got.Outcome != core.Built || got.Slot != 1 || got.MEP != 0 {
		t.Errorf("%+v", got)
	}
}

// TestPreGrantedInPlace holds that a MEP that nobody keeps is a good one where it lies, and that its slot was recycled.
func TestPreGrantedInPlace(t *testing.T) {
	discard := &sink.Discard{}
	r := newPreGrantedRig(t, 2, func(_ *rig, c *Config) { c.Sink = discard })
	r.buildPreGranted(1, 4)
	if got := r.result(); got.MEP != 4 || got.Slot != 1 || got.Events != rigPacking {
		t.Errorf("%+v", got)
	}
	m, err := event.ParseMEP(r.slots.Bytes(1))
	if err != nil {
		t.Fatal(err)
	}
	checkMEP(t, m.Bytes(), 4, rigDivision.Sources())
	if s := r.slots.Stats(); s.Builds != 1 || s.Offers != 3 || s.Offered != 2 {
		t.Errorf("%+v", s)
	}
	if res, err := discard.Finish(); err != nil || res.MEPs != 1 || res.Events != rigPacking {
		t.Errorf("%+v %v", res, err)
	}
}

// TestPreGrantedFilesAreTheSame holds that a file does not tell how the MEPs in it were placed.
func TestPreGrantedFilesAreTheSame(t *testing.T) {
	for _, format := range []recording.Format{recording.FormatMEP, recording.FormatMDF, recording.FormatMFP} {
		t.Run(format.String(), func(t *testing.T) {
			dir := t.TempDir()
			open := func(name string) *sink.File {
				f, err := sink.NewFile(sink.FileConfig{Path: filepath.Join(dir, name), Format: format})
				if err != nil {
					t.Fatal(err)
				}
				return f
			}
			announced, byPreGrants := open("announced"), open("pregranted")
			a := newRig(t, func(_ *rig, c *Config) { c.Sink = announced })
			q := newPreGrantedRig(t, 2, func(_ *rig, c *Config) { c.Sink = byPreGrants })
			for mep := range uint64(10) {
				a.build([]*piece{a.piece(0, mep*rigPacking), a.piece(1, mep*rigPacking), a.piece(2, mep*rigPacking)}, int(mep%2),
					mep)
				q.buildPreGranted(int(mep%2), mep)
				a.result()
				q.result()
			}
			for _, f := range []*sink.File{announced, byPreGrants} {
				if res, err := f.Finish(); err != nil || res.MEPs != 10 {
					t.Fatal(res, err)
				}
			}
			want, err1 := os.ReadFile(filepath.Join(dir, "announced"))
			got, err2 := os.ReadFile(filepath.Join(dir, "pregranted"))
			if err := errors.Join(err1, err2); err != nil || len(want) == 0 || !bytes.Equal(got, want) {
				t.Errorf("%d bytes by pre-grants, %d announced, not the same (%v)", len(got), len(want), err)
			}
		})
	}
}

// TestPreGrantedFinds holds what each kind of verification finds in a part, and what is found whatever is asked for.
func TestPreGrantedFinds(t *testing.T) {
	const off, crc, full = 1 << VerifyOff, 1 << VerifyCRC, 1 << VerifyFull
	head := rigDivision.SourceCount(0) * placing.EntrySize
	data := head + event.MFPHeaderSize(rigPacking)
	for name, tc := range map[string]struct {
		found  int // by which kinds
		damage func(r *preGrantedRig, p *piece)
		says   string
	}{
		"nothing":       {0, func(*preGrantedRig, *piece) {}, ""},
		"a byte":        {crc | full, func(_ *preGrantedRig, p *piece) { p.data[data] ^= 1 }, "MEP 3, source 0: CRC-32C is"},
		"another event": {off | crc | full, func(r *preGrantedRig, p *piece) { *p = *r.part(p.ru, 5) }, "from 15"},
		"a size too large": {off | crc | full, func(_ *preGrantedRig, p *piece) { p.data[2] = 1 },
			"are left of the part of readout unit 0"},
		"a size too small": {off | crc | full, func(_ *preGrantedRig, p *piece) { clear(p.data[:4]) },
			"its size is told as 0 bytes"},
		"a part too long": {off | crc | full, func(_ *preGrantedRig, p *piece) { p.data = append(p.data, 0, 0, 0, 0) },
			"the sizes of readout unit 0's part add up to"},
		"no MFP": {off | crc | full, func(_ *preGrantedRig, p *piece) { p.data[head] = 0 }, ""},
	} {
		for _, kind := range []Verify{VerifyOff, VerifyCRC, VerifyFull} {
			t.Run(fmt.Sprintf("%s, %d", name, kind), func(t *testing.T) {
				r := newPreGrantedRig(t, 1, func(_ *rig, c *Config) { c.Verify = kind })
				for ru, rank := range r.ranks {
					p := r.part(ru, 3)
					if ru == 0 {
						tc.damage(r, p)
					}
					r.b.Placed(rank, r.place(p, 0, 3, 1))
				}
				if tc.found&(1<<kind) == 0 {
					r.result()
					return
				}
				err := r.failure()
				var fault *DataError
				if !errors.As(err, &fault) || fault.MEP != 3 || fault.RU != 0 || !strings.Contains(err.Error(), tc.says) {
					t.Errorf("it says %q, not %q", err, tc.says)
				}
			})
		}
	}
}

// TestPreGrantsWindows holds that every readout unit gets the same windows whenever it asks, in messages as long as
// they may be.
func TestPreGrantsWindows(t *testing.T) {
	const slots = 2*placing.MaxPreGrants + 5
	r := newPreGrantedRig(t, slots, nil)
	seen := map[shmem.Ref]bool{}
	for _, rank := range r.ranks {
		refs := slices.Clone(r.windows.refsOfRank(rank))
		for _, ref := range refs {
			seen[ref] = true
		}
		r.requestWindows(rank)
		if !slices.Equal(refs, r.windows.refsOfRank(rank)) {
			t.Errorf("rank %d gets other windows the second time", rank)
		}
	}
	if s := r.table.Stats(); len(seen) != slots*len(r.ranks) || s.Live != slots*len(r.ranks) ||
		r.windows.signals != 3*2*len(r.ranks) {
		t.Errorf("%d windows sent in %d signals, %+v", len(seen), r.windows.signals, s)
	}
	last := slots - 1
	r.buildPreGranted(last, 0)
	if got := r.result(); got.Slot != uint32(last) {
		t.Errorf("%+v", got)
	}
}

// TestPreGrantedRefuses holds that what comes from the wrong rank, or makes no sense, is refused, counted, and does no
// harm.
func TestPreGrantedRefuses(t *testing.T) {
	r := newPreGrantedRig(t, 2, nil)
	for name, tc := range map[string]struct {
		do   func() error
		says string
	}{
		"asked by nobody": {func() error { return r.b.AnswerWindowRequest(2, placing.AppendWindowRequest(nil)) },
			"rank 2 requested pre-granted windows, but has none"},
		"asked badly": {func() error { return r.b.AnswerWindowRequest(3, []byte{4}) }, "a window request of 1 bytes"},
		"announced": {func() error { return r.b.HandleAnnounce(3, r.piece(0, 0).announcement(0, 0, 1)) },
			"has granted its windows for all MEPs"},
	} {
		if err := tc.do(); err == nil || !strings.Contains(err.Error(), tc.says) {
			t.Errorf("%s: it says %v, not %q", name, err, tc.says)
		}
	}
	p := r.place(r.part(0, 0), 0, 0, 1)
	r.b.PlacedMany(2, []transport.Placement{p, p})
	r.b.PlacedMany(1, []transport.Placement{p})
	if s := r.b.Stats(); s.RejectedMessages != 5 || s.RejectedPlacements != 1 || s.RejectedByReason[otherWindow] != 1 ||
		s.PartsInPlace != 0 {
		t.Errorf("%+v", s)
	}
	r.buildPreGranted(0, 0)
	r.result()
	r.close()
	if err := r.b.AnswerWindowRequest(3, placing.AppendWindowRequest(nil)); !errors.Is(err, errClosed) {
		t.Error(err)
	}
	r.b.Placed(3, p)
	if s := r.b.Stats(); s.RejectedMessages != 7 {
		t.Errorf("%+v", s)
	}
	if err := newRig(t, nil).b.AnswerWindowRequest(3, placing.AppendWindowRequest(nil)); err == nil ||
		!strings.Contains(err.Error(), "has none") {
		t.Errorf("where sizes are announced: %v", err)
	}
}

// TestPreGrantedFailures holds that what a unit cannot go on after is told, and that MEPs finished before it have their
// outcome.
func TestPreGrantedFailures(t *testing.T) {
	full := errors.New("the disk is full")
	for name, tc := range map[string]struct {
		change func(*rig, *Config)
		damage bool
		is     error
	}{
		"sink":     {change: func(r *rig, _ *Config) { r.sink.err = full }, is: full},
		"feedback": {change: func(_ *rig, c *Config) { c.OnResults = func([]MEPResult) error { return full } }, is: full},
		"a part":   {damage: true},
	} {
		t.Run(name, func(t *testing.T) {
			r := newPreGrantedRig(t, 3, tc.change)
			for ru, rank := range r.ranks {
				var ps []transport.Placement
				for slot := range 3 {
					p := r.part(ru, uint64(slot))
					if slot == 2 && tc.damage {
						p.data[0]++
					}
					ps = append(ps, r.place(p, slot, uint64(slot), 1))
				}
				r.b.PlacedMany(rank, ps)
			}
			err := r.failure()
			if tc.damage && len(r.results) != 2 {
				t.Errorf("%d MEPs have an outcome, 2 were good", len(r.results))
			}
			if tc.is != nil && !errors.Is(err, tc.is) {
				t.Error(err)
			}
			r.close()
			s := r.b.Stats()
			if tc.damage && (s.BuiltMEPs != 2 || s.IncompleteMEPs != 1) || !tc.damage && s.BuiltMEPs+s.IncompleteMEPs != 3 {
				t.Errorf("%+v", s)
			}
		})
	}
	r := newPreGrantedRig(t, 1, nil)
	r.windows.fail = full
	r.requestWindows(r.ranks[1])
	if err := r.failure(); !errors.Is(err, full) || !strings.Contains(err.Error(), "granting windows to readout unit 1") {
		t.Error(err)
	}
}

// TestPreGrantedCloseWithUnfinishedMEP closes the unit with one MEP of which a part is missing.
func TestPreGrantedCloseWithUnfinishedMEP(t *testing.T) {
	r := newPreGrantedRig(t, 2, nil)
	r.b.Placed(r.ranks[0], r.place(r.part(0, 0), 0, 0, 1))
	ref := r.windows.refsOfRank(r.ranks[1])[0]
	r.close()
	if s := r.b.Stats(); s.IncompleteMEPs != 1 || s.BuiltMEPs != 0 || s.Slots.Withdraws != 2 {
		t.Errorf("%+v", s)
	}
	if _, v := r.table.Acquire(shmem.Peer(r.ranks[1]), ref, 0, 4, shmem.AccessNwrite); v != shmem.StaleGen {
		t.Errorf("a late write is met by %v", v)
	}
}

// TestPreGrantedCloseWhileTheSinkWaits holds that a sink that nobody empties does not keep the unit from closing.
func TestPreGrantedCloseWhileTheSinkWaits(t *testing.T) {
	r := newPreGrantedRig(t, 2, func(r *rig, _ *Config) { r.sink.blocked = make(chan struct{}) })
	r.buildPreGranted(0, 0)
	r.buildPreGranted(1, 1)
	patiently.Receive(t, r.sink.blocked)
	r.close()
	if s := r.b.Stats(); s.IncompleteMEPs != 2 || s.BuiltMEPs != 0 {
		t.Errorf("%+v", s)
	}
	if len(r.failed) > 0 {
		t.Errorf("closing is no failure: %v", patiently.Receive(t, r.failed))
	}
}

// TestPreGrantedCloseDuringActivity closes the unit while its readout units write from goroutines of their own.
func TestPreGrantedCloseDuringActivity(t *testing.T) {
	const slots = 8
	for round := range 20 {
		r := newPreGrantedRig(t, slots, nil)
		var wg sync.WaitGroup
		closed := make(chan struct{})
		tokens := make([]chan core.Feedback, len(r.ranks)) // which slot is free for which MEP
		for ru := range r.ranks {
			tokens[ru] = make(chan core.Feedback, 100)
			for slot := range slots {
				tokens[ru] <- core.Feedback{Slot: uint32(slot), MEP: uint64(slot)}
			}
			wg.Go(func() { r.servePreGranted(ru, tokens[ru], closed) })
		}
		for n := range round {
			res := r.result()
			for _, c := range tokens {
				c <- core.Feedback{Slot: res.Slot, MEP: uint64(slots + n)}
			}
		}
		if err := r.b.Close(); err != nil {
			t.Error(err)
		}
		close(closed)
		patiently.Wait(t, wg.Wait)
		r.close()
		s := r.b.Stats()
		if s.BuiltMEPs < uint64(round) || s.BuiltMEPs+s.IncompleteMEPs > uint64(round+slots) ||
			int(s.BuiltMEPs) != len(r.sink.meps) || s.RejectedPlacements != 0 {
			t.Errorf("round %d: %d MEPs, %d in the sink: %+v", round, s.BuiltMEPs, len(r.sink.meps), s)
		}
		if len(r.failed) > 0 {
			t.Errorf("round %d: %v", round, patiently.Receive(t, r.failed))
		}
	}
}

// servePreGranted is one readout unit: it writes what it has tokens for, those at hand together.
func (r *preGrantedRig) servePreGranted(ru int, tokens <-chan core.Feedback, closed <-chan struct{}) {
	rank := r.ranks[ru]
	refs := r.windows.refsOfRank(rank)
	for {
		var ps []transport.Placement
		select { // bounded by closed, which the test waits for with a bound
		case <-closed:
			return
		case tok := <-tokens:
			for more := true; more; {
				p := r.part(ru, tok.MEP)
				dst, v := r.table.Acquire(shmem.Peer(rank), refs[tok.Slot], 0, uint32(len(p.data)), shmem.AccessNwrite)
				if v != 0 {
					return // closed
				}
				copy(dst, p.data)
				r.table.Release(refs[tok.Slot])
				ps = append(ps, transport.Placement{
					Ref: refs[tok.Slot], Length: uint32(len(p.data)), Imm: placing.Immediate(tok.MEP, 1, tok.Slot),
				})
				select {
				case tok = <-tokens:
				default:
					more = false
				}
			}
		}
		r.b.PlacedMany(rank, ps)
	}
}

// TestPreGrantedNewCleansUp holds that a unit which cannot be made leaves the table and the slots as they were.
func TestPreGrantedNewCleansUp(t *testing.T) {
	r := newPreGrantedRig(t, 2, nil)
	r.close()
	for name, tc := range map[string]struct {
		change func(*Config)
		says   string
	}{
		"too few windows": {func(c *Config) { c.Table = shmem.NewTable(5) }, "granting windows in slot 1: "},
		"too few units":   {func(c *Config) { c.RURanks = c.RURanks[:2] }, "for 3 readout units, but there are 2"},
		"slots too small": {func(c *Config) { c.Layout, _ = placing.NewLayout(rigDivision, []int{1, 2, 4096}) },
			"but a slot holds 4096"},
		"a slot in use":     {func(c *Config) { _ = c.Slots.Offer(1) }, "offered"},
		"nothing, after it": {func(*Config) {}, ""},
	} {
		cfg := r.config(r.configure)
		tc.change(&cfg)
		b, err := New(cfg)
		if tc.says == "" {
			if err != nil {
				t.Fatalf("%s: %v", name, err)
			}
			err = b.Close()
		} else if err == nil || !strings.Contains(err.Error(), tc.says) {
			t.Errorf("%s: it says %v, not %q", name, err, tc.says)
			continue
		} else {
			err = nil
		}
		if name == "a slot in use" {
			err = r.slots.Withdraw(1)
		}
		if s := r.slots.Stats(); err != nil || s.Free != 2 || cfg.Table.Stats().Live != 0 {
			t.Errorf("%s: %v, %+v, %+v", name, err, s, cfg.Table.Stats())
		}
	}
}
