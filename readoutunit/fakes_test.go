package readoutunit

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"slices"
	"sync"
	"testing"
	"time"

	"ringlet/barrier"
	"ringlet/event"
	"ringlet/event/placing"
	"ringlet/readoutunit/source"
	"ringlet/shmem"
	"ringlet/tagnet"
	"ringlet/testkit/must"
	"ringlet/transport/link"
)

// rig is a readout unit with a network and a scheduler that the test plays.
type rig struct {
	t      *testing.T
	unit   *Unit
	net    *fakeNetwork
	sched  *fakeScheduler
	failed chan error
	closed bool
}

// newRig makes a unit with three builder units of two slots at ranks 5, 6 and 7. change may change the configuration.
func newRig(t *testing.T, src source.Source, change func(*rig, *Config)) *rig {
	t.Helper()
	r := &rig{
		t:      t,
		net:    newFakeNetwork(),
		sched:  newFakeScheduler(),
		failed: make(chan error, 1),
	}
	core, err := barrier.NewCore(barrier.None, 1, 0)
	if err != nil {
		t.Fatal(err)
	}
	cfg := Config{
		RU:        0,
		RUs:       1,
		BURanks:   []int{5, 6, 7},
		Slots:     2,
		Source:    src,
		Streams:   1,
		Network:   r.net,
		Scheduler: r.sched,
		Barrier:   barrier.New(core, nil, barrier.Options{}),
		Fail:      func(err error) { r.failed <- err },
	}
	if change != nil {
		change(r, &cfg)
	}
	if cfg.Retention == nil {
		cfg.Retention = newRetention(t, cfg.Streams, src.MaxBlock(), 16)
	}
	if cfg.Order == nil {
		cfg.Order = NewShift(cfg.RU, InOrder(cfg.RUs, len(cfg.BURanks)), len(cfg.BURanks), cfg.Slots, !cfg.Free)
	}
	r.unit = New(cfg)
	r.net.unit = r.unit
	r.unit.Start()
	r.net.wg.Go(r.net.serve)
	t.Cleanup(r.close)
	return r
}

// newRetention makes buffers for so many blocks.
func newRetention(t testing.TB, streams, block, n int) *Retention {
	t.Helper()
	stride := placing.PartSize(streams, block)
	r, err := NewRetention(make([]byte, n*stride), stride)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func (r *rig) close() {
	if !r.closed {
		r.closed = true
		r.net.close()
		if err := r.unit.Close(); err != nil {
			r.t.Error(err)
		}
	}
}

const patience = must.Patience

// failure waits for the unit's Fail.
func (r *rig) failure() error {
	r.t.Helper()
	return must.Receive(r.t, r.failed, "the unit did not fail")
}

// until waits for a condition that the network's or the scheduler's progress brings about.
func (r *rig) until(what string, ok func() bool) {
	r.t.Helper()
	limit := time.After(patience)
	for !ok() {
		select {
		case err := <-r.failed:
			r.t.Fatalf("while waiting for %s the unit failed: %v", what, err)
		case <-limit:
			r.t.Fatalf("%s did not come: %+v", what, r.unit.Stats())
		case <-r.net.progress:
		case <-r.sched.progress:
		case <-time.After(time.Millisecond): // what the unit does after its last call
		}
	}
}

func notify(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// fakeNetwork answers announcements with grants, and writes with completions, on a goroutine of its own.
type fakeNetwork struct {
	unit     *Unit
	progress chan struct{}
	wg       sync.WaitGroup

	// set before the unit runs
	length     func(n uint32) uint32 // of a grant, given what was announced
	signal     func(n int) error     // outcome of signal number n
	write      func(n int) error     // outcome of calling Write, by number
	completion func(n int) error     // outcome of write number n
	mute       bool                  // no grants at all

	mu      sync.Mutex
	ready   *sync.Cond
	queue   []func()
	over    bool
	sizes   map[[2]uint64]uint32 // announced so far, by rank and MEP
	written map[uint64][]byte    // by MEP
	order   []string             // of writes
	signals int
	writes  int
	settled [][2]int // ranks that were told, and of how many exclusions
}

func newFakeNetwork() *fakeNetwork {
	n := &fakeNetwork{progress: make(chan struct{}, 1), sizes: map[[2]uint64]uint32{}, written: map[uint64][]byte{}}
	n.ready = sync.NewCond(&n.mu)
	return n
}

func (n *fakeNetwork) push(f func()) {
	n.queue = append(n.queue, f)
	n.ready.Signal()
}

func (n *fakeNetwork) serve() {
	for {
		n.mu.Lock()
		for len(n.queue) == 0 && !n.over {
			n.ready.Wait()
		}
		if n.over {
			n.mu.Unlock()
			return
		}
		f := n.queue[0]
		n.queue = n.queue[1:]
		n.mu.Unlock()
		f()
		notify(n.progress)
	}
}

func (n *fakeNetwork) close() {
	n.mu.Lock()
	n.over = true
	n.ready.Broadcast()
	n.mu.Unlock()
	n.wg.Wait()
}

// signalled counts a signal, which the test may refuse. mu is held.
func (n *fakeNetwork) signalled() error {
	n.signals++
	notify(n.progress)
	if n.signal == nil {
		return nil
	}
	return n.signal(n.signals)
}

func (n *fakeNetwork) Signal(rank int, payload []byte) error {
	if times, err := placing.ParseSettled(payload); err == nil {
		n.mu.Lock()
		defer n.mu.Unlock()
		n.settled = append(n.settled, [2]int{rank, int(times)})
		return nil
	}
	if placing.ParseAsk(payload) == nil {
		n.mu.Lock()
		defer n.mu.Unlock()
		err := n.signalled()
		if err == nil {
			n.stand(rank)
		}
		return err
	}
	var a placing.Announce
	if err := a.Parse(payload); err != nil {
		return err
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	if err := n.signalled(); err != nil {
		return err
	}
	key := [2]uint64{uint64(rank), a.MEP}
	for _, e := range a.Entries {
		n.sizes[key] += (e.Size + 3) &^ 3
	}
	if int(a.First)+len(a.Entries) < int(a.Streams) || n.mute {
		return nil
	}
	g := placing.Grant{
		Slot:    a.Slot,
		Attempt: a.Attempt,
		MEP:     a.MEP,
		Window:  uint32(rank),
		Gen:     uint32(a.MEP) + 1,
		Length:  n.sizes[key],
	}
	if n.length != nil {
		g.Length = n.length(g.Length)
	}
	message := g.Append(nil)
	n.push(func() {
		if err := n.unit.Grant(rank, message); err != nil {
			n.mu.Lock()
			defer n.mu.Unlock()
			n.order = append(n.order, err.Error()) // no test expects it
		}
	})
	return nil
}

// begin counts a write, which the test may refuse; complete is the outcome that the test gives it. mu is held.
func (n *fakeNetwork) begin() (complete func() error, err error) {
	n.writes++
	number := n.writes
	notify(n.progress)
	if n.write != nil {
		err = n.write(number)
	}
	return func() error {
		if n.completion == nil {
			return nil
		}
		return n.completion(number)
	}, err
}

// WriteMany remembers the parts by MEP, and completes them together.
func (n *fakeNetwork) WriteMany(rank int, pieces []link.Piece, cookie uint64) error {
	n.mu.Lock()
	defer n.mu.Unlock()
	complete, err := n.begin()
	if err != nil {
		return err
	}
	for _, p := range pieces {
		mep, err := n.take(rank, p.Ref, p.Imm)
		if err != nil {
			return err
		}
		n.written[mep] = bytes.Clone(p.Data)
	}
	n.push(func() { n.unit.Completed(rank, cookie, complete()) })
	return nil
}

// take notes which MEP is written, and holds that it goes through the window that was granted for it or that stands.
func (n *fakeNetwork) take(rank int, ref shmem.Ref, imm uint64) (uint64, error) {
	mep, _, slot := placing.ParseImmediate(imm)
	if granted := (shmem.Ref{Window: uint32(rank), Gen: mep + 1}); ref != granted && ref != standingRef(rank, slot) {
		return 0, fmt.Errorf("slot %d of rank %d is written through %v", slot, rank, ref)
	}
	n.order = append(n.order, fmt.Sprintf("MEP %d to rank %d, slot %d", mep, rank, slot))
	return uint64(mep), nil
}

// standingRef is the window that a rank grants in a slot.
func standingRef(rank int, slot uint32) shmem.Ref { return shmem.Ref{Window: slot, Gen: uint32(rank)} }

// stand answers a question for standing grants, of two slots.
func (n *fakeNetwork) stand(rank int) {
	if n.mute {
		return
	}
	m := placing.Standing{Refs: []placing.Ref{placing.Ref(standingRef(rank, 0)), placing.Ref(standingRef(rank, 1))}}
	message := m.Append(nil)
	n.push(func() {
		if err := n.unit.Standing(rank, message); err != nil {
			n.mu.Lock()
			defer n.mu.Unlock()
			n.order = append(n.order, err.Error()) // no test expects it
		}
	})
}

// wrote is how many MEPs were written so far.
func (n *fakeNetwork) wrote() int {
	n.mu.Lock()
	defer n.mu.Unlock()
	return len(n.written)
}

// fakeScheduler gives the tokens that the test sends, and remembers the updates.
type fakeScheduler struct {
	tokens   chan tagnet.Tokens
	progress chan struct{}
	refuse   error // outcome of Update
	broken   error // outcome of Next once tokens is closed; nil is io.EOF

	mu      sync.Mutex
	updates []tagnet.Update
	settled []uint64
}

func newFakeScheduler() *fakeScheduler {
	return &fakeScheduler{tokens: make(chan tagnet.Tokens, 100), progress: make(chan struct{}, 1)}
}

func (s *fakeScheduler) Update(u tagnet.Update) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.updates = append(s.updates, u)
	notify(s.progress)
	return s.refuse
}

func (s *fakeScheduler) Settle(exclusion uint64) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.settled = append(s.settled, exclusion)
	notify(s.progress)
	return s.refuse
}

func (s *fakeScheduler) Next(ctx context.Context) (tagnet.Tokens, error) {
	select {
	case t, ok := <-s.tokens:
		if ok {
			return t, nil
		}
		if s.broken != nil {
			return t, s.broken
		}
		return t, io.EOF
	case <-ctx.Done():
		return tagnet.Tokens{}, context.Cause(ctx)
	}
}

func (s *fakeScheduler) TryNext() (tagnet.Tokens, bool) {
	select {
	case t, ok := <-s.tokens:
		return t, ok
	default:
		return tagnet.Tokens{}, false
	}
}

// last is the newest update.
func (s *fakeScheduler) last() tagnet.Update {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.updates) == 0 {
		return tagnet.Update{}
	}
	return s.updates[len(s.updates)-1]
}

// send gives cycles, the first of them numbered first, and the released watermark.
func (s *fakeScheduler) send(first, released uint64, cycles ...[]tagnet.Token) {
	t := tagnet.Tokens{Released: released, State: tagnet.Running}
	if len(cycles) > 0 {
		t.Batch = *batch(first, cycles...)
	}
	s.tokens <- t
}

// generator makes the source of a readout unit alone: 10 events, two to a MEP.
func generator(t *testing.T, streams int) *source.Generator {
	t.Helper()
	g, err := source.NewGenerator(source.GeneratorConfig{
		Division:     placing.Of(streams),
		Packing:      2,
		FragmentSize: 21,
		Events:       10,
		CRC:          true,
		Seed:         7,
	})
	if err != nil {
		t.Fatal(err)
	}
	return g
}

// block is what the generator has for a MEP.
func block(t *testing.T, streams int, mep uint64) []byte {
	t.Helper()
	g := generator(t, streams)
	b := make([]byte, g.MaxBlock())
	for {
		var d source.Block
		if err := g.Next(t.Context(), b, &d); err != nil {
			t.Fatal(err)
		}
		if d.MEP == mep {
			return b[:d.Size]
		}
	}
}

// scripted is a source of a few blocks that then ends with an error.
type scripted struct {
	blocks int
	end    error
	size   int // of a block; zero is 40
	mep    uint64
	skip   bool // leaves a MEP out
}

func (s *scripted) Next(ctx context.Context, dst []byte, b *source.Block) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if s.mep == uint64(s.blocks) {
		return s.end
	}
	n := s.MaxBlock()
	clear(dst[:n])
	event.PutMFPHeader(dst, event.MFPHeader{N: 0, Size: uint32(n)})
	*b = source.Block{
		MEP:    s.mep,
		Events: 1,
		Size:   n,
		MFPs:   slices.Grow(b.MFPs[:0], 1),
	}
	b.MFPs = append(b.MFPs, source.MFPInfo{Size: n})
	s.mep++
	if s.skip {
		b.MEP *= 2
	}
	return nil
}

func (s *scripted) MaxBlock() int {
	if s.size == 0 {
		return 40
	}
	return s.size
}
func (s *scripted) Stats() source.Stats { return source.Stats{} }
func (s *scripted) Close() error        { return nil }
