package nodes

import (
	"context"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"ringlet/ecs/partition/fault"
	"ringlet/node/config"
	nodev1 "ringlet/proto/ringlet/node/v1"
	"ringlet/testkit/patiently"
)

// scripted is a node that answers after a time; with a negative time it waits for as long as it is waited for.
type scripted struct {
	nodev1.NodeClient
	after time.Duration
	blame string // the component it says is at fault; empty: it carries the command out
}

func (s scripted) Command(ctx context.Context, _ *nodev1.CommandRequest,
	_ ...grpc.CallOption) (*nodev1.CommandResponse, error) {
	if s.after < 0 {
		<-ctx.Done() // bounded by who calls
		return nil, status.FromContextError(ctx.Err()).Err()
	}
	time.Sleep(s.after)
	if s.blame == "" {
		return &nodev1.CommandResponse{}, nil
	}
	st, err := status.New(codes.Aborted, "failed").WithDetails(&nodev1.Cause{Component: s.blame, What: "no memory"})
	if err != nil {
		return nil, err
	}
	return nil, st.Err()
}

// A stream that ends with its node strikes before the node has said why; what it says is the cause all the same.
func TestTogetherWhenStruck(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := &NodeSet{faults: usualFaults(false)}
		r.nodes = []*member{{name: "n0", client: scripted{after: time.Second, blame: "n0"}},
			{name: "n1", client: scripted{after: -1}}}
		r.faults.observe(fault.Observation{Kind: fault.Disconnected,
			Fault: fault.Fault{Component: "n0", What: "its stream ended"}})
		err := r.commandTogether(t.Context(), &nodev1.CommandRequest{Command: nodev1.Command_COMMAND_START})
		if got := r.FaultOf(err, "").Error(); got != "n0: no memory" {
			t.Errorf("the cause is %q", got)
		}
	})
}

func TestTogether(t *testing.T) {
	for name, c := range map[string]struct {
		nodes []scripted
		took  time.Duration
		want  string // empty: no error
	}{
		"all of them": {[]scripted{{after: time.Second}, {after: 9 * time.Second}}, 9 * time.Second, ""},
		"one fails, one waits on": {[]scripted{{after: -1}, {after: time.Second, blame: "n1"}},
			time.Second + fault.SessionWitnessTimeout, "n1: no memory"},
		"a closer witness comes yet": {[]scripted{{blame: "n2"}, {after: -1}, {after: time.Second, blame: "n2"}},
			fault.SessionWitnessTimeout, "n2: no memory"},
		"blamed, and silent": {[]scripted{{after: -1}, {blame: "n0"}}, fault.SessionWitnessTimeout, "n0: no memory"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := &NodeSet{faults: usualFaults(false)}
				for i, s := range c.nodes {
					r.nodes = append(r.nodes, &member{name: "n" + string(rune('0'+i)), client: s})
				}
				began := time.Now()
				err := r.commandTogether(t.Context(), &nodev1.CommandRequest{Command: nodev1.Command_COMMAND_CONFIGURE})
				if took := time.Since(began); took != c.took {
					t.Errorf("it took %v, not %v", took, c.took)
				}
				switch {
				case err == nil && c.want != "":
					t.Errorf("no error, not %q", c.want)
				case err != nil && c.want == "":
					t.Error(err)
				case err != nil:
					if got := r.FaultOf(err, "").Error(); got != c.want {
						t.Errorf("the cause is %q, not %q", got, c.want)
					}
				}
			})
		})
	}
}

// TestAllButWhoIsLost: a command that a node does not answer any more ends when the run goes on without it, and is no
// mistake of anybody's; one that stands still without being lost is waited for.
func TestAllButWhoIsLost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := &NodeSet{faults: usualFaults(false)}
		r.nodes = []*member{{name: "n0", client: scripted{after: time.Second}}, {name: "n1", client: scripted{after: -1}}}
		began := time.Now()
		time.AfterFunc(3*time.Second, func() {
			r.faults.updateCore(func(c *fault.Core) { c.AdoptUnit("n1", true, false, true) })
		})
		err := r.commandAll(t.Context(), &nodev1.CommandRequest{Command: nodev1.Command_COMMAND_STOP})
		if took := time.Since(began); err != nil || took < 3*time.Second || took > 3*time.Second+linkPollInterval {
			t.Errorf("after %v: %v", took, err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), patiently.LongTimeout)
		defer cancel()
		r.nodes = []*member{{name: "n2", client: scripted{after: -1}}}
		if err := r.commandAll(ctx, &nodev1.CommandRequest{Command: nodev1.Command_COMMAND_STOP}); err == nil {
			t.Error("a node that does not answer is left behind")
		}
	})
}

// TestClearLeavesBehindWhoIsGone: a node that ended at rest is not waited for, though gossip says so only after it is
// asked: by its new address, or since its watch has ended.
func TestClearLeavesBehindWhoIsGone(t *testing.T) {
	for name, end := range map[string]func(c *NodeSet, at *atomic.Value){
		"started anew": func(_ *NodeSet, at *atomic.Value) { at.Store("127.0.0.1:2") },
		"ended": func(c *NodeSet, _ *atomic.Value) {
			c.faults.observe(fault.Observation{Kind: fault.ProcessEndSeen, Fault: fault.Fault{Component: "n1"}})
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var at atomic.Value
				at.Store("")
				c := NewNodeSet(Options{AddressOf: func(string) string { return at.Load().(string) }},
					config.Completed{Config: config.Default()})
				for i, s := range []scripted{{after: time.Millisecond}, {after: -1}} {
					c.nodes = append(c.nodes, &member{name: "n" + string(rune('0'+i)), client: s,
						firstEntry: &nodev1.Member{GrpcAddress: "127.0.0.1:1"}, faults: c.faults})
				}
				time.AfterFunc(3*time.Second, func() { end(c, &at) })
				began := time.Now()
				ctx, cancel := context.WithTimeout(t.Context(), patiently.LongTimeout)
				defer cancel()
				if err := c.Clear(ctx); err != nil || time.Since(began) > 3*time.Second+2*linkPollInterval {
					t.Errorf("after %v: %v", time.Since(began), err)
				}
			})
		})
	}
}
