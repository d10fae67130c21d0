package node

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"ringlet/event/slowdata"
	nodev1 "ringlet/proto/ringlet/node/v1"
	"ringlet/recording"
)

// TestSlowDataBesideTheEvents: a node keeps values of the run that it is in, on the disk when it answers, and refuses
// those of other runs, and what is no value.
func TestSlowDataBesideTheEvents(t *testing.T) {
	t.Parallel()
	p := newPair(t)
	out := t.TempDir() + "/"
	c := testConfig(t, out)
	sched, address := p.scheduler(c)
	p.bringUp(&nodev1.CommandRequest{Configuration: c.Effective(), View: p.view, TagnetAddress: address})
	v, err := slowdata.New("temp", "21.5", time.Now())
	if err != nil {
		t.Fatal(err)
	}
	key := make([]byte, len(recording.Key{}))
	for i := range key {
		key[i] = byte(p.run)
	}
	good := &nodev1.KeepSlowDataRequest{Run: p.run, RunKey: key, Lines: v.AppendJSON(nil)}
	if _, err := p.nodes[1].KeepSlowData(p.ctx, good); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(recording.RunDir(out, p.run), "slow-n1.jsonl")
	if text, err := os.ReadFile(path); err != nil || string(text) != string(good.GetLines()) {
		t.Errorf("the file has %s, %v", text, err)
	}
	lines := good.GetLines()
	for name, x := range map[string]struct {
		run   uint32
		key   []byte
		lines []byte
		want  codes.Code
	}{
		"another run": {p.run + 1, key, lines, codes.FailedPrecondition},
		"another key": {p.run, nil, lines, codes.FailedPrecondition},
		"half a line": {p.run, key, []byte(`{"name":"a"`), codes.InvalidArgument},
		"other lines": {p.run, key, []byte("a\n"), codes.InvalidArgument},
		"a long call": {p.run, key, make([]byte, maxSlowDataLines+1), codes.InvalidArgument},
	} {
		req := &nodev1.KeepSlowDataRequest{Run: x.run, RunKey: x.key, Lines: x.lines}
		if _, err := p.nodes[1].KeepSlowData(p.ctx, req); status.Code(err) != x.want {
			t.Errorf("%s: %v, not %v", name, err, x.want)
		}
	}
	select {
	case <-sched.Drained():
	case <-p.ctx.Done():
		t.Fatal("the run does not end")
	}
	p.must(&nodev1.CommandRequest{Command: nodev1.Command_COMMAND_STOP})
	p.must(&nodev1.CommandRequest{Command: nodev1.Command_COMMAND_RESET})
	if _, err := p.nodes[1].KeepSlowData(p.ctx, good); status.Code(err) != codes.FailedPrecondition {
		t.Errorf("without a run: %v", err)
	}
}
