package readoutunit

import (
	"context"
	"io"
	"slices"
	"sync"
	"testing"
	"time"

	"ringlet/barrier"
	"ringlet/event"
	"ringlet/event/placing"
	"ringlet/source"
	"ringlet/tagnet"
	tagcore "ringlet/tagnet/core"
	"ringlet/testkit/patiently"
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
		CoreConfig: CoreConfig{RU: 0, RUs: 1, Streams: 1},
		BURanks:    []int{5, 6, 7},
		Source:     src,
		Network:    r.net,
		Scheduler:  r.sched,
		Barrier:    barrier.New(core, nil, barrier.Options{}),
		Fail:       func(err error) { r.failed <- err },
	}
	if change != nil {
		change(r, &cfg)
	}
	if cfg.Retention == nil {
		cfg.Retention = newRetention(t, cfg.Streams, src.MaxBlock(), 16)
	}
	if cfg.Transfers == nil {
		cfg.Transfers = newShift(cfg.RU, SeatsInOrder(cfg.RUs, len(cfg.BURanks)), len(cfg.BURanks), 2, !cfg.UnheldPhases)
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

var timeout = patiently.LongTimeout

// failure waits for the unit's Fail.
func (r *rig) failure() error {
	r.t.Helper()
	return patiently.Receive(r.t, r.failed, "the unit did not fail")
}

// until waits for a condition that the network's or the scheduler's progress brings about.
func (r *rig) until(what string, ok func() bool) {
	r.t.Helper()
	limit := time.After(timeout)
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

// fakeScheduler gives the tokens that the test sends, and remembers the updates.
type fakeScheduler struct {
	tokens   chan tagnet.Tokens
	progress chan struct{}
	refuse   error // outcome of Update
	broken   error // outcome of Next once tokens is closed; nil is io.EOF

	mu       sync.Mutex
	updates  []tagcore.Update
	quiesced []uint64
}

func newFakeScheduler() *fakeScheduler {
	return &fakeScheduler{tokens: make(chan tagnet.Tokens, 100), progress: make(chan struct{}, 1)}
}

func (s *fakeScheduler) Update(u tagcore.Update) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.updates = append(s.updates, u)
	notify(s.progress)
	return s.refuse
}

func (s *fakeScheduler) ReportReach(tagcore.Reach) error { return nil }

func (s *fakeScheduler) ReportStop(uint64) error { return nil }

func (s *fakeScheduler) ReportCleared(uint64) error { return nil }

func (s *fakeScheduler) ConfirmExclusion(exclusion uint64) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.quiesced = append(s.quiesced, exclusion)
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

// last is the newest update.
func (s *fakeScheduler) last() tagcore.Update {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.updates) == 0 {
		return tagcore.Update{}
	}
	return s.updates[len(s.updates)-1]
}

// send gives cycles, the first of them numbered first, and the released watermark.
func (s *fakeScheduler) send(first, released uint64, cycles ...[]tagcore.Token) {
	t := tagnet.Tokens{Released: released, State: tagcore.Running}
	if len(cycles) > 0 {
		t.Batch = *batch(first, cycles...)
	}
	s.tokens <- t
}

// generator makes the source of a readout unit alone: 10 events, two to a MEP.
func generator(t *testing.T, streams int) *source.Generator {
	t.Helper()
	g, err := source.NewGenerator(source.GeneratorConfig{
		Division:     placing.NewDivision(streams),
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
	event.PutMFPHeader(dst, event.MFPHeader{NumFragments: 0, Size: uint32(n)})
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
