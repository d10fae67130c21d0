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
	// tapSendInterval is the time between two messages to a viewer.
	tapSendInterval = 250 * time.Millisecond
	// tapPollInterval is how often a sample looks for changed builder units, and reopens streams that have ended.
	tapPollInterval = 500 * time.Millisecond
	// tapQueueLength bounds the messages of builder units that wait in a sample.
	tapQueueLength = 64
)

// Tap sends a viewer a sample of the built events, run after run, until ctx ends or send fails, and returns why. One
// goroutine calls send. Viewers with equal requests share one sample.
func (p *Partition) Tap(ctx context.Context, req *tapv1.Selection, send func(*tapv1.Samples) error) error {
	sel, err := selection.Parse(node.SpecOf(req))
	if wrong := (*selection.FieldError)(nil); errors.As(err, &wrong) {
		return &api.ArgumentError{Name: wrong.Field, Why: wrong.Error()}
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(p.ctx, cancel)()
	v, leave := p.taps.join(p.control, req, sel)
	defer leave()
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case m := <-v.queue:
			v.release(m.size)
			if err := send(m.samples); err != nil {
				return err
			}
		}
	}
}

// taps are the samples that have viewers.
type taps struct {
	totals  queueTotals           // of all viewers
	mu      sync.Mutex            // guards what follows, and is held while viewers join and leave
	samples map[string]*tapSample // by the marshalled request
}

// join adds a viewer to the sample of its request. The first viewer begins the sample, and leave of the last ends it.
func (taps *taps) join(p *control, req *tapv1.Selection, sel selection.Selection) (v *viewer, leave func()) {
	words, _ := proto.MarshalOptions{Deterministic: true}.Marshal(req) // a message that was unmarshalled can be marshalled
	key := string(words)
	taps.mu.Lock()
	defer taps.mu.Unlock()
	t := taps.samples[key]
	if t == nil {
		if taps.samples == nil {
			taps.samples = map[string]*tapSample{}
		}
		ctx, cancel := context.WithCancel(p.ctx)
		t = &tapSample{
			ctx:          ctx,
			cancelSample: cancel,
			sel:          req,
			rate:         sel.Rate(),
			merger:       merging.New(sel, time.Now()),
			incoming:     make(chan builderMessage, tapQueueLength),
			totals:       &taps.totals,
			stopStreams:  func() {},
		}
		taps.samples[key] = t
		t.runGroup.Go(func() { t.run(func() *nodes.NodeSet { return p.currentState().nodeSet }) })
	}
	v = t.addViewer()
	return v, func() {
		taps.mu.Lock()
		last := t.removeViewer(v)
		if last {
			delete(taps.samples, key)
		}
		taps.mu.Unlock()
		if last {
			t.cancelSample()
			t.runGroup.Wait()
		}
	}
}

// tapSample merges the streams of all builder units for the viewers of one request.
type tapSample struct {
	// immutable
	ctx          context.Context
	cancelSample context.CancelFunc // of ctx
	sel          *tapv1.Selection
	rate         float64
	incoming     chan builderMessage
	totals       *queueTotals

	eventsLost atomic.Uint64 // events that were dropped since incoming was full
	runGroup   sync.WaitGroup

	mu       sync.Mutex // guards what follows
	viewers  []*viewer
	lastSent *tapv1.Samples // counts of the last message; nil: none was sent

	// owned by run
	merger        *merging.Merger
	nodeSet       *nodes.NodeSet
	builders      []string // nodes of nodeSet with a builder unit
	generation    uint64   // of the streams; grows when all streams are opened anew
	streamContext context.Context
	stopStreams   func()          // cancels streamContext, and so the streams
	endedStreams  map[string]bool // nodes whose stream has ended, and is to be opened
}

// run receives from the builder units and sends to the viewers, until ctx ends.
func (t *tapSample) run(nodeSet func() *nodes.NodeSet) {
	sending := time.NewTicker(tapSendInterval)
	defer sending.Stop()
	look := time.NewTicker(tapPollInterval)
	defer look.Stop()
	t.updateBuilders(nodeSet())
	for {
		select {
		case <-t.ctx.Done():
			return
		case x := <-t.incoming:
			t.receive(x)
		case <-look.C:
			t.updateBuilders(nodeSet())
		case <-sending.C:
			t.merger.CountDropped(int(t.eventsLost.Swap(0)))
			if m := t.merger.Next(time.Now()); m != nil {
				t.broadcast(m)
			}
		}
	}
}

// builderMessage is a message of a builder unit's stream, or its end.
type builderMessage struct {
	generation uint64
	node       string
	samples    *tapv1.Samples // nil: the stream has ended
	err        error
}

// receive merges a message, unless it is of an earlier generation of streams.
func (t *tapSample) receive(x builderMessage) {
	switch {
	case x.generation != t.generation:
	case x.samples == nil:
		t.endedStreams[x.node] = true
		t.merger.EndStream(x.node, status.Convert(x.err).Message())
	default:
		t.merger.Add(time.Now(), x.node, x.samples)
	}
}

// updateBuilders opens the streams that are not open. If the builder units have changed, it opens all streams anew,
// since the rate of each depends on their number.
func (t *tapSample) updateBuilders(nodeSet *nodes.NodeSet) {
	var names []string
	if nodeSet != nil {
		names = nodeSet.Builders()
	}
	if nodeSet != t.nodeSet || !slices.Equal(names, t.builders) {
		t.stopStreams()
		t.streamContext, t.stopStreams = context.WithCancel(t.ctx)
		for _, name := range t.builders {
			t.merger.EndStream(name, "")
		}
		t.nodeSet, t.builders, t.endedStreams = nodeSet, names, map[string]bool{}
		t.generation++
		for _, name := range names {
			t.endedStreams[name] = true
		}
	}
	for _, name := range t.builders {
		if t.endedStreams[name] {
			delete(t.endedStreams, name)
			t.requestStream(name)
		}
	}
}

// requestStream opens the stream of a builder unit.
func (t *tapSample) requestStream(name string) {
	sel := proto.CloneOf(t.sel)
	sel.Rate = merging.PerBuilderRate(t.rate, len(t.builders))
	t.merger.BeginStream(name)
	ctx, nodeSet, number := t.streamContext, t.nodeSet, t.generation
	t.runGroup.Go(func() {
		err := nodeSet.Tap(ctx, name, sel, func(m *tapv1.Samples) {
			select {
			case t.incoming <- builderMessage{generation: number, node: name, samples: m}:
			default: // incoming is full: events are dropped so that the builder unit does not wait
				t.eventsLost.Add(uint64(len(m.GetEvents())))
			}
		})
		select {
		case t.incoming <- builderMessage{generation: number, node: name, err: err}:
		case <-ctx.Done():
		}
	})
}
