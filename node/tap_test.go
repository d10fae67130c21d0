package node

import (
	"context"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	nodev1 "ringlet/proto/ringlet/node/v1"
	tapv1 "ringlet/proto/ringlet/tap/v1"
	"ringlet/testkit/patiently"
)

// TestTapOverRuns looks at both nodes from before the first run, over two of them.
func TestTapOverRuns(t *testing.T) {
	t.Parallel()
	p := newPair(t)
	ctx, cancel := context.WithCancel(p.ctx)
	defer cancel()
	var streams []nodev1.Node_TapClient
	for i, n := range p.nodes {
		in, err := n.Tap(ctx, &nodev1.TapRequest{Selection: &tapv1.Selection{Share: 1, Data: i == 0}})
		if err == nil {
			_, err = in.Header() // it looks
		}
		if err != nil {
			t.Fatal(err)
		}
		streams = append(streams, in)
	}
	for range 2 {
		c := testConfig(t, "")
		sched, address := p.scheduler(c)
		p.bringUp(&nodev1.CommandRequest{Configuration: c.Effective(), View: p.view, TagnetAddress: address})
		select {
		case <-sched.Drained():
		case <-p.ctx.Done():
			t.Fatal("the run does not end")
		}
		p.comesAndGoes()
		p.must(&nodev1.CommandRequest{Command: nodev1.Command_COMMAND_STOP})
		seen := map[uint64]bool{}
		for i, in := range streams {
			want := int(p.report(i).GetCounters()["bu.output_events"])
			for n := 0; n < want; {
				m, err := in.Recv()
				if err != nil {
					t.Fatal(err)
				}
				n += p.check(i, m, seen) + int(m.GetDropped())
			}
		}
		if len(seen) != 1050 {
			t.Errorf("%d different events", len(seen))
		}
		p.must(&nodev1.CommandRequest{Command: nodev1.Command_COMMAND_RESET})
		p.must(&nodev1.CommandRequest{Command: nodev1.Command_COMMAND_UNLOAD})
	}
}

// comesAndGoes has another one look for a moment.
func (p *pair) comesAndGoes() {
	p.t.Helper()
	ctx, cancel := context.WithCancel(p.ctx)
	defer cancel()
	in, err := p.nodes[0].Tap(ctx, &nodev1.TapRequest{})
	if err == nil {
		_, err = in.Header()
	}
	if n := p.tapped(0); err != nil || n != 2 {
		p.t.Fatalf("%d look, %v", n, err)
	}
	cancel()
	for deadline := time.Now().Add(patiently.LongTimeout); p.tapped(0) > 1; time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			p.t.Fatal("a viewer that has gone is still there")
		}
	}
}

// tapped is how many look at a node.
func (p *pair) tapped(i int) uint64 { return p.report(i).GetCounters()["tap.viewers"] }

// check holds samples of a node against what was asked for, and returns how many they are.
func (p *pair) check(i int, m *tapv1.Samples, seen map[uint64]bool) int {
	p.t.Helper()
	for _, e := range m.GetEvents() {
		if e.GetBuilder() != p.view.GetMembers()[i].GetName() || e.GetRun() != p.run || len(e.GetFragments()) == 0 ||
			seen[e.GetEvent()] {
			p.t.Fatalf("n%d: %v", i, e)
		}
		seen[e.GetEvent()] = true
		for _, f := range e.GetFragments() {
			if i == 0 && len(f.GetData()) != int(f.GetSize()) || i != 0 && f.Data != nil {
				p.t.Fatalf("n%d: %d bytes of %d", i, len(f.GetData()), f.GetSize())
			}
		}
	}
	return len(m.GetEvents())
}

func TestTapRefusesWhatItCannotShow(t *testing.T) {
	t.Parallel()
	p := newPair(t)
	in, err := p.nodes[0].Tap(p.ctx, &nodev1.TapRequest{Selection: &tapv1.Selection{Types: []string{"Pixel"}}})
	if err := first(in, new(tapv1.Samples), err); status.Code(err) != codes.InvalidArgument {
		t.Error(err)
	}
}
