package partition

import (
	"context"
	"errors"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"ringlet/ecs/api"
	"ringlet/ecs/partition/merging"
	"ringlet/ecs/partition/nodes"
	"ringlet/event/selection"
	"ringlet/node"
	tapv1 "ringlet/proto/ringlet/tap/v1"
)

const (
	// tapEvery is how often viewers are sent what has come.
	tapEvery = 250 * time.Millisecond
	// tapLook is how often it is looked which builder units there are, and those asked again that could not be.
	tapLook = 500 * time.Millisecond
	// tapWaiting is how many messages of builder units wait for the viewers.
	tapWaiting = 64
)

// Tap sends a viewer a sample of what is built, run after run, until ctx ends or send fails, and returns why. One
// goroutine calls send. Viewers who ask for the same share one sample.
func (p *Partition) Tap(ctx context.Context, req *tapv1.Selection, send func(*tapv1.Samples) error) error {
	sel, err := selection.Parse(node.SpecOf(req))
	if wrong := (*selection.FieldError)(nil); errors.As(err, &wrong) {
		return &api.ArgumentError{Name: wrong.Field, Why: wrong.Error()}
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(p.ctx, cancel)()
	v, leave := p.taps.join(p, req, sel)
	defer leave()
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case m := <-v.out:
			v.took(m.size)
			if err := send(m.of); err != nil {
				return err
			}
		}
	}
}

// taps are the samples that are made, by what was asked for.
type taps struct {
	waits waits      // for all viewers
	mu    sync.Mutex // guards what follows, and who comes and goes
	all   map[string]*tapping
}

// join adds a viewer to the sample that was asked for, which begins with the first and ends with the last.
func (all *taps) join(p *Partition, req *tapv1.Selection, sel selection.Selection) (v *viewer, leave func()) {
	words, _ := proto.MarshalOptions{Deterministic: true}.Marshal(req) // a message that was read can be written
	key := string(words)
	all.mu.Lock()
	defer all.mu.Unlock()
	t := all.all[key]
	if t == nil {
		if all.all == nil {
			all.all = map[string]*tapping{}
		}
		ctx, cancel := context.WithCancel(p.ctx)
		t = &tapping{
			ctx:   ctx,
			end:   cancel,
			sel:   req,
			rate:  sel.Rate(),
			merge: merging.New(sel, time.Now()),
			in:    make(chan piece, tapWaiting),
			waits: &all.waits,
			stop:  func() {},
		}
		all.all[key] = t
		t.work.Go(func() { t.run(func() *nodes.Crew { return p.now().crew }) })
	}
	v = t.admit()
	return v, func() {
		all.mu.Lock()
		last := t.dismiss(v)
		if last {
			delete(all.all, key)
		}
		all.mu.Unlock()
		if last {
			t.end()
			t.work.Wait()
		}
	}
}

// tapping is a sample: what its viewers have of builder units.
type tapping struct {
	// immutable
	ctx   context.Context
	end   context.CancelFunc // of ctx
	sel   *tapv1.Selection
	rate  float64
	in    chan piece
	waits *waits

	lost atomic.Uint64 // events that the channel had no room for
	work sync.WaitGroup

	mu      sync.Mutex // guards what follows
	viewers []*viewer
	said    *tapv1.Samples // last; nil: nothing was

	// owned by run
	merge  *merging.Merge
	crew   *nodes.Crew // that is asked
	asked  []string    // its builder units
	number uint64      // grows whenever all are asked anew
	wanted context.Context
	stop   func() // ends wanted, and with it the streams of asked
	ended  map[string]bool
}

// run takes what builder units send, and tells the viewers, until ctx ends.
func (t *tapping) run(crew func() *nodes.Crew) {
	sending := time.NewTicker(tapEvery)
	defer sending.Stop()
	look := time.NewTicker(tapLook)
	defer look.Stop()
	t.look(crew())
	for {
		select {
		case <-t.ctx.Done():
			return
		case x := <-t.in:
			t.take(x)
		case <-look.C:
			t.look(crew())
		case <-sending.C:
			t.merge.Lose(int(t.lost.Swap(0)))
			if m := t.merge.Next(time.Now()); m != nil {
				t.tell(m)
			}
		}
	}
}

// piece is what comes of a builder unit.
type piece struct {
	number uint64
	node   string
	m      *tapv1.Samples // nil: the stream has ended
	err    error
}

// take takes a piece, if it is of a stream that is still wanted.
func (t *tapping) take(x piece) {
	switch {
	case x.number != t.number:
	case x.m == nil:
		t.ended[x.node] = true
		t.merge.End(x.node, status.Convert(x.err).Message())
	default:
		t.merge.Take(time.Now(), x.node, x.m)
	}
}

// look asks builder units that are there now. Where others are there than before, all are asked anew: their number says
// how much each is asked for.
func (t *tapping) look(crew *nodes.Crew) {
	var names []string
	if crew != nil {
		names = crew.Builders()
	}
	if crew != t.crew || !slices.Equal(names, t.asked) {
		t.stop()
		t.wanted, t.stop = context.WithCancel(t.ctx)
		for _, name := range t.asked {
			t.merge.End(name, "")
		}
		t.crew, t.asked, t.ended = crew, names, map[string]bool{}
		t.number++
		for _, name := range names {
			t.ended[name] = true
		}
	}
	for _, name := range t.asked {
		if t.ended[name] {
			delete(t.ended, name)
			t.ask(name)
		}
	}
}

// ask begins the stream of a builder unit.
func (t *tapping) ask(name string) {
	sel := proto.CloneOf(t.sel)
	sel.Rate = merging.Rate(t.rate, len(t.asked))
	t.merge.Begin(name)
	ctx, crew, number := t.wanted, t.crew, t.number
	t.work.Go(func() {
		err := crew.Tap(ctx, name, sel, func(m *tapv1.Samples) {
			select {
			case t.in <- piece{number: number, node: name, m: m}:
			default: // the viewer is slow, and nobody waits for it
				t.lost.Add(uint64(len(m.GetEvents())))
			}
		})
		select {
		case t.in <- piece{number: number, node: name, err: err}:
		case <-ctx.Done():
		}
	})
}
