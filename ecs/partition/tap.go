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
	// tapEvery is how often a viewer is sent what has come.
	tapEvery = 250 * time.Millisecond
	// tapLook is how often it is looked which builder units there are, and those asked again that could not be.
	tapLook = 500 * time.Millisecond
	// tapWaiting is how many messages of builder units wait for one viewer.
	tapWaiting = 64
)

// Tap sends a viewer a sample of what is built, run after run, until ctx ends or send fails, and returns why. One
// goroutine calls send.
func (p *Partition) Tap(ctx context.Context, req *tapv1.Selection, send func(*tapv1.Samples) error) error {
	sel, err := selection.Parse(node.SpecOf(req))
	if wrong := (*selection.FieldError)(nil); errors.As(err, &wrong) {
		return &api.ArgumentError{Name: wrong.Field, Why: wrong.Error()}
	}
	ctx, cancel := context.WithCancel(ctx)
	defer context.AfterFunc(p.ctx, cancel)()
	t := &tapping{
		ctx:   ctx,
		sel:   req,
		rate:  sel.Rate(),
		merge: merging.New(sel, time.Now()),
		in:    make(chan piece, tapWaiting),
		stop:  func() {},
	}
	defer t.streams.Wait()
	defer cancel()
	sending := time.NewTicker(tapEvery)
	defer sending.Stop()
	look := time.NewTicker(tapLook)
	defer look.Stop()
	t.look(p.now().crew)
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case x := <-t.in:
			t.take(x)
		case <-look.C:
			t.look(p.now().crew)
		case <-sending.C:
			t.merge.Lose(int(t.lost.Swap(0)))
			if m := t.merge.Next(time.Now()); m != nil {
				if err := send(m); err != nil {
					return err
				}
			}
		}
	}
}

// tapping is what one viewer has of builder units.
type tapping struct {
	// immutable
	ctx  context.Context
	sel  *tapv1.Selection
	rate float64
	in   chan piece

	lost    atomic.Uint64 // events that the channel had no room for
	streams sync.WaitGroup

	// owned by the viewer's goroutine
	merge  *merging.Merge
	crew   *nodes.Crew // that is asked
	asked  []string    // its builder units
	number uint64      // grows whenever all are asked anew
	wanted context.Context
	stop   func() // ends wanted, and with it the streams of asked
	ended  map[string]bool
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
	t.streams.Go(func() {
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
