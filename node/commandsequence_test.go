package node

import (
	"errors"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"ringlet/node/config"
	nodev1 "ringlet/proto/ringlet/node/v1"
	"ringlet/testkit/must"
)

// TestALateCommandIsRefused: what a cut network has held back is not obeyed when it comes at last.
func TestALateCommandIsRefused(t *testing.T) {
	var o commandSequence
	for _, tc := range []struct {
		term, order uint64
		accepted    bool
	}{
		{1, 0, true}, // of whoever does not count
		{1, 5, true},
		{1, 7, true},
		{1, 6, false}, // held up
		{1, 7, true},  // given twice
		{1, 0, true},
		{1, 8, true},
		{2, 1, true}, // another control counts anew
		{2, 3, true},
		{2, 2, false},
	} {
		req := &nodev1.CommandRequest{Term: &nodev1.Term{Number: tc.term}, Order: tc.order}
		if err := o.accept(req); (err == nil) != tc.accepted {
			t.Errorf("command %d of term %d: %v", tc.order, tc.term, err)
		}
	}
}

// TestAHeldUpStopDoesNotEndTheNextRun: a run goes on when the stop of an earlier one arrives at last.
func TestAHeldUpStopDoesNotEndTheNextRun(t *testing.T) {
	t.Parallel()
	p := newPair(t)
	c := config.Default()
	c.Nodes, c.Packing, c.FragmentSize, c.Duration = 2, 10, 20, time.Hour
	must.OK(t, errors.Join(c.Complete(), c.FitSlot()))
	s := p.begin(c)
	p.more(s, 100)
	p.must(&nodev1.CommandRequest{Command: nodev1.Command_COMMAND_PAUSE, Order: 5})
	p.must(&nodev1.CommandRequest{Command: nodev1.Command_COMMAND_RESUME, Order: 6})
	for i, err := range p.command(&nodev1.CommandRequest{Command: nodev1.Command_COMMAND_STOP, Abandon: true, Order: 4}) {
		if status.Code(err) != codes.FailedPrecondition {
			t.Errorf("n%d: the stop of an earlier run: %v", i, err)
		}
	}
	p.more(s, 100)
	p.end(s)
}
