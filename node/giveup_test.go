package node

import (
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	nodev1 "ringlet/proto/ringlet/node/v1"
	"ringlet/testkit/patiently"
)

// A node that waits for links to one that never gets ready can be told to give up, and is then good for another run.
func TestGivenUpWhileConfiguring(t *testing.T) {
	t.Parallel()
	p := newPair(t)
	c := testConfig(t, "")
	p.scheduler(c)
	p.must(&nodev1.CommandRequest{Command: nodev1.Command_COMMAND_LOAD})
	alone := make(chan error, 1)
	req := func(c nodev1.Command) *nodev1.CommandRequest {
		return &nodev1.CommandRequest{Protocol: ProtocolVersion, Run: p.run, Command: c}
	}
	configure := req(nodev1.Command_COMMAND_CONFIGURE)
	configure.Configuration, configure.View = c.Effective(), p.view
	watch, err := p.nodes[0].Watch(p.ctx, &nodev1.WatchRequest{IntervalMs: 5})
	if err != nil {
		t.Fatal(err)
	}
	go func() {
		_, err := p.nodes[0].Command(p.ctx, configure)
		alone <- err
	}()
	for state := ""; state != "Configuring"; {
		rep, err := watch.Recv()
		if err != nil {
			t.Fatal(err)
		}
		state = rep.GetStatus().GetState()
	}
	stop := req(nodev1.Command_COMMAND_STOP)
	stop.Abandon = true
	if _, err := p.nodes[0].Command(p.ctx, stop); status.Code(err) != codes.FailedPrecondition {
		t.Errorf("stop in Error: %v", err)
	}
	if err := patiently.Receive(t, alone); status.Code(err) != codes.Aborted {
		t.Errorf("configure ended with %v", err)
	}
	if st := p.report(0).GetStatus(); st.GetState() != "Error" {
		t.Errorf("n0 is in %v", st)
	}
	if _, err := p.nodes[0].Command(p.ctx, req(nodev1.Command_COMMAND_RECOVER)); err != nil {
		t.Error(err)
	}
	p.must(configure)
	p.must(&nodev1.CommandRequest{Command: nodev1.Command_COMMAND_RESET})
}
