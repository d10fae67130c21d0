package builderunit

import (
	"bytes"
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"ringlet/builderunit/sink"
	"ringlet/event/pattern"
	"ringlet/event/placing"
	"ringlet/internal/crc32c"
	"ringlet/shmem"
	"ringlet/testkit/patiently"
	"ringlet/transport"
)

const rigPacking = 3

// rigDivision is the sources of a rig's readout units: each has another number.
var rigDivision = placing.NewDivision(2, 3, 1)

// rig is a builder unit with real slots and a real export table, whose readout units the test plays.
type rig struct {
	t       *testing.T
	b       *Builder
	slots   *shmem.Slots
	table   *shmem.Table
	ranks   []int
	rule    *pattern.Pattern
	net     *fakeSignaler
	sink    *catcher
	results chan MEPResult
	failed  chan error
}

// newRig makes a builder unit with three readout units, at ranks that are not their indices, and two slots of a page.
func newRig(t *testing.T, change func(*rig, *Config)) *rig {
	t.Helper()
	return newRigWithSlots(t, 2, change)
}

func newRigWithSlots(t *testing.T, slots int, change func(*rig, *Config)) *rig {
	t.Helper()
	r := &rig{
		t:       t,
		ranks:   []int{3, 1, 4},
		table:   shmem.NewTable(max(16, 3*slots)),
		net:     &fakeSignaler{},
		sink:    &catcher{},
		results: make(chan MEPResult, 1000),
		failed:  make(chan error, 1),
	}
	var err error
	if r.slots, err = shmem.CreateSlots("ringlet-test-slots", slots, shmem.PageSize,
		shmem.WithDir(t.TempDir())); err != nil {
		t.Fatal(err)
	}
	r.rule, err = pattern.New(pattern.Config{Seed: 3, Sources: rigDivision.Sources(), FragmentSize: 50})
	if err != nil {
		t.Fatal(err)
	}
	r.b, err = New(r.config(change))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		r.close()
		if err := r.slots.Close(); err != nil {
			t.Error(err)
		}
	})
	return r
}

func (r *rig) config(change func(*rig, *Config)) Config {
	cfg := Config{
		Slots:    r.slots,
		Table:    r.table,
		Signaler: r.net,
		RURanks:  r.ranks,
		Run:      9,
		Verify:   VerifyFull,
		Pattern:  r.rule,
		Sink:     r.sink,
		OnResults: func(results []MEPResult) error {
			for _, res := range results {
				r.results <- res
			}
			return nil
		},
		Fail: func(err error) { r.failed <- err },
	}
	if change != nil {
		change(r, &cfg)
	}
	return cfg
}

// close closes the unit, and holds that no grant is left and every slot is free.
func (r *rig) close() {
	r.t.Helper()
	if err := r.b.Close(); err != nil {
		r.t.Error(err)
	}
	if s := r.table.Stats(); s.Live != 0 || s.Revoking != 0 || s.UnbalancedReleases != 0 {
		r.t.Errorf("windows left: %+v", s)
	}
	if s := r.slots.Stats(); s.Free != s.Slots {
		r.t.Errorf("slots left: %+v", s)
	}
}

var testTimeout = patiently.LongTimeout

func (r *rig) result() MEPResult {
	r.t.Helper()
	select {
	case res := <-r.results:
		return res
	case err := <-r.failed:
		r.t.Fatalf("the unit failed: %v", err)
	case <-time.After(testTimeout):
		r.t.Fatalf("no MEP was built: %+v", r.b.Stats())
	}
	return MEPResult{}
}

func (r *rig) failure() error {
	r.t.Helper()
	return patiently.Receive(r.t, r.failed, "the unit did not fail")
}

// piece is what one readout unit has for one MEP.
type piece struct {
	ru      int
	data    []byte
	entries []placing.Entry
}

// piece makes the generator's data of a readout unit for the packing events from first.
func (r *rig) piece(ru int, first uint64) *piece {
	r.t.Helper()
	p := &piece{ru: ru}
	for s := range rigDivision.SourceCount(ru) {
		source := uint16(rigDivision.FirstSource(ru) + s)
		b := make([]byte, r.rule.MaxMFP(source, rigPacking))
		n, crc, err := r.rule.FillMFP(b, source, first, rigPacking, true)
		if err != nil {
			r.t.Fatal(err)
		}
		p.entries = append(p.entries, placing.Entry{Size: uint32(n), CRC: crc})
		p.data = append(p.data, b[:n]...)
		p.data = append(p.data, make([]byte, paddedBytes(uint32(n))-n)...)
	}
	return p
}

// recount makes the announced CRCs agree with the data, whatever it is.
func (p *piece) recount() {
	off := 0
	for i := range p.entries {
		e := &p.entries[i]
		e.CRC = crc32c.Sum(p.data[off : off+int(e.Size)])
		off += paddedBytes(e.Size)
	}
}

func (p *piece) announcement(slot int, mep uint64, attempt uint32) []byte {
	a := placing.Announce{
		RU:          uint16(p.ru),
		StreamCount: uint16(len(p.entries)),
		Slot:        uint32(slot),
		Attempt:     attempt,
		MEP:         mep,
		Entries:     p.entries,
	}
	return a.Append(nil)
}

func (r *rig) announce(p *piece, slot int, mep uint64) {
	r.t.Helper()
	if err := r.b.HandleAnnounce(r.ranks[p.ru], p.announcement(slot, mep, 1)); err != nil {
		r.t.Fatal(err)
	}
}

// write places n bytes of a piece from off, as a link's receiver does. It reports what the export table has against it.
func (r *rig) write(p *piece, g placing.Grant, off, n int) shmem.Violation {
	ref, rank := shmem.Ref{Window: g.Window, Gen: g.Gen}, r.ranks[p.ru]
	dst, v := r.table.Acquire(shmem.Peer(rank), ref, uint32(off), uint32(n), shmem.AccessNwrite)
	if v != 0 {
		return v
	}
	copy(dst, p.data[off:off+n])
	r.table.Release(ref)
	r.b.Placed(rank, transport.Placement{
		Ref:    ref,
		Offset: uint32(off),
		Length: uint32(n),
		Imm:    placing.Immediate(g.MEP, uint8(g.Attempt), g.Slot),
	})
	return 0
}

// build takes one MEP through the unit, its pieces written in the order given.
func (r *rig) build(pieces []*piece, slot int, mep uint64) {
	r.t.Helper()
	for _, p := range pieces {
		r.announce(p, slot, mep)
	}
	for _, p := range pieces {
		g := r.net.grant(r.ranks[p.ru], mep)
		if int(g.Length) != len(p.data) || int(g.Slot) != slot || g.Attempt != 1 {
			r.t.Fatalf("%+v for a piece of %d bytes in slot %d", g, len(p.data), slot)
		}
		if v := r.write(p, g, 0, len(p.data)); v != 0 {
			r.t.Fatal(v)
		}
	}
}

// fakeSignaler keeps the grants.
type fakeSignaler struct {
	fail error                      // outcome of Signal
	to   map[int]chan placing.Grant // by rank: who wants to be told; with room for all

	mu     sync.Mutex
	grants map[[2]uint64]placing.Grant // by rank and MEP
}

func (f *fakeSignaler) Signal(rank int, payload []byte) error {
	var g placing.Grant
	if err := g.Parse(payload); err != nil {
		return err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.grants == nil {
		f.grants = map[[2]uint64]placing.Grant{}
	}
	f.grants[[2]uint64{uint64(rank), g.MEP}] = g
	if c := f.to[rank]; c != nil {
		c <- g
	}
	return f.fail
}

func (f *fakeSignaler) grant(rank int, mep uint64) placing.Grant {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.grants[[2]uint64{uint64(rank), mep}]
}

// catcher is a sink that keeps a copy of what it is given.
type catcher struct {
	sink.Discard
	err          error
	blocked      chan struct{} // told when Write waits for its context, if not nil
	notListening chan struct{} // what Write waits for beyond its context, if not nil

	mu    sync.Mutex
	metas []sink.Meta
	meps  [][]byte
}

func (c *catcher) Write(ctx context.Context, m sink.Meta, mep []byte) error {
	if c.err != nil {
		return c.err
	}
	if c.blocked != nil {
		c.blocked <- struct{}{}
		patiently.Hold(ctx.Done())
		if c.notListening != nil {
			patiently.Hold(c.notListening)
		}
		return fmt.Errorf("writing: %w", ctx.Err())
	}
	c.mu.Lock()
	c.metas, c.meps = append(c.metas, m), append(c.meps, bytes.Clone(mep))
	c.mu.Unlock()
	return c.Discard.Write(ctx, m, mep)
}

// checkComplete holds what the sink was told of the MEP that it got as number i.
func (r *rig) checkComplete(i int) {
	r.t.Helper()
	got := r.sink.metas[i]
	if age := time.Since(got.CompletedAt); age < 0 || age > time.Hour {
		r.t.Errorf("the last byte of MEP %d came %v ago", i, age)
	}
	got.CompletedAt = time.Time{}
	want := sink.Meta{
		Run:        9,
		MEP:        uint64(i),
		FirstEvent: uint64(i) * rigPacking,
		Events:     rigPacking,
		Attempt:    1,
	}
	if diff := cmp.Diff(want, got); diff != "" {
		r.t.Error(diff)
	}
}
