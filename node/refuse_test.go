package node

import (
	"strings"
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"ringlet/node/config"
	nodev1 "ringlet/proto/ringlet/node/v1"
)

// Views and configurations that make no sense are refused with a cause, and the node can be recovered each time.
func TestRefusedConfigurations(t *testing.T) {
	t.Parallel()
	p := newPair(t)
	c := testConfig(t, "")
	p.must(&nodev1.CommandRequest{Command: nodev1.Command_COMMAND_LOAD})
	for name, bad := range map[string]struct {
		view func(v *nodev1.View)
		text string // of the configuration; "" is a good one
		want string
	}{
		"not a member": {func(v *nodev1.View) { v.Members[0].Name, v.Members[1].Name = "x", "y" }, "",
			"has no member called n"},
		"wrong rank":      {func(v *nodev1.View) { v.Members[1].Rank = 5 }, "", "of rank 5, at place 1"},
		"unit missing":    {func(v *nodev1.View) { v.Members[1].Readout = false }, "", "1 readout and 2 builder units"},
		"same unit twice": {func(v *nodev1.View) { v.Members[1].BuIndex = 0 }, "", "2 readout and 1 builder units"},
		"index too large": {func(v *nodev1.View) { v.Members[1].RuIndex = 77 }, "", "1 readout and 2 builder units"},
		"unknown setting": {func(*nodev1.View) {}, "pakcing: 4", "the nearest one is \"packing\""},
		"not YAML":        {func(*nodev1.View) {}, "\x00", "the configuration sent by the control"},
		"no memory for it": {func(*nodev1.View) {}, "nodes: 2\nslots: 65535\nslot-size: 16GiB\n",
			"shared memory"},
	} {
		view := proto.Clone(p.view).(*nodev1.View)
		bad.view(view)
		text := []byte(bad.text)
		if bad.text == "" {
			text = c.Effective()
		}
		for i, err := range p.command(&nodev1.CommandRequest{Command: nodev1.Command_COMMAND_CONFIGURE, View: view,
			Configuration: text}) {
			if status.Code(err) != codes.Aborted || !strings.Contains(err.Error(), bad.want) {
				t.Errorf("%s: n%d says %v", name, i, err)
			}
			details := status.Convert(err).Details()
			if len(details) != 1 {
				t.Errorf("%s: %d details", name, len(details))
			} else if cause, ok := details[0].(*nodev1.Cause); !ok || cause.GetWhat() == "" || cause.GetComponent() == "" {
				t.Errorf("%s: the cause is %v", name, details[0])
			}
			if st := p.report(i).GetStatus(); st.GetState() != "Error" {
				t.Errorf("%s: n%d is in %v", name, i, st)
			}
		}
		p.must(&nodev1.CommandRequest{Command: nodev1.Command_COMMAND_RECOVER})
	}
}

func TestRefusedCommands(t *testing.T) {
	t.Parallel()
	p := newPair(t)
	for name, c := range map[string]struct {
		req  *nodev1.CommandRequest
		code codes.Code
		want string
	}{
		"another protocol": {&nodev1.CommandRequest{Protocol: 9, Command: nodev1.Command_COMMAND_LOAD},
			codes.FailedPrecondition, "run the same release everywhere"},
		"no command": {&nodev1.CommandRequest{Protocol: ProtocolVersion}, codes.InvalidArgument, "is no command of a node"},
		"not now": {&nodev1.CommandRequest{Protocol: ProtocolVersion, Command: nodev1.Command_COMMAND_START},
			codes.FailedPrecondition, "Offline"},
		"the end of another run": {&nodev1.CommandRequest{Protocol: ProtocolVersion, Command: nodev1.Command_COMMAND_STOP,
			Run: 9},
			codes.FailedPrecondition, "not in run 9"},
	} {
		_, err := p.nodes[0].Command(p.ctx, c.req)
		if status.Code(err) != c.code || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestOutputNames(t *testing.T) {
	for _, c := range []struct{ output, format, want string }{
		{"/d/x.mdf", "mdf", "/d/x.mdf.segments"},
		{"/d/", "mep", "/d"},
	} {
		var cfg config.Completed
		cfg.Output, cfg.Format = c.output, c.format
		if got := OutputDir(cfg); got != c.want {
			t.Errorf("%s %s: %s", c.output, c.format, got)
		}
	}
	var cfg config.Completed
	cfg.Output = "events"
	if got := bufferName(cfg, 2); got != "ringlet-events-2" {
		t.Error(got)
	}
}
