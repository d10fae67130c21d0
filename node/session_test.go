package node

import (
	"errors"
	"testing"

	"ringlet/builderunit/sink"
	nodev1 "ringlet/proto/ringlet/node/v1"
	"ringlet/testkit/patiently"
)

// slowSink takes its time to finish, as a large file on a slow disk does.
type slowSink struct {
	sink.Discard
	begun, end chan struct{}
}

func (s *slowSink) Finish() (sink.Result, error) {
	close(s.begun)
	patiently.Hold(s.end)
	return sink.Result{MEPs: 3}, nil
}

// TestLinksDoNotWaitForTheOutput holds that a receiver which tells that its link is down gets on while the output is
// completed.
func TestLinksDoNotWaitForTheOutput(t *testing.T) {
	out := &slowSink{begun: make(chan struct{}), end: make(chan struct{})}
	view := &nodev1.View{Members: []*nodev1.Member{{}, {}}}
	s := &session{base: base{assignment: &assignment{view: view}}}
	s.closing.Store(true) // nobody is to be told
	o := &output{base: &s.base, writes: &runOutput{sink: out, closed: make(chan struct{})}}
	s.components = []component{o}
	completed := make(chan error)
	go func() { completed <- s.stop(t.Context(), false) }()
	patiently.Receive(t, out.begun)
	s.LinkDown(1, errors.New("the peer has left"))
	close(out.end)
	if err := patiently.Receive(t, completed); err != nil || o.result.MEPs != 3 || s.counters.LinksDown.Load() != 1 {
		t.Errorf("%v, output %+v, %d links down", err, o.result, s.counters.LinksDown.Load())
	}
	if err := s.stop(t.Context(), false); err != nil {
		t.Errorf("completing twice: %v", err)
	}
}
