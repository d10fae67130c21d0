package node

import (
	"context"
	"log/slog"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	"ringlet/builderunit/sink"
	"ringlet/node/config"
	nodev1 "ringlet/proto/ringlet/node/v1"
	"ringlet/shmem"
	"ringlet/tagnet"
)

// When the last unit of a view attaches, tokens begin to flow, and a readout unit's announcement may come before the
// builder's own node hears of it. A builder that was not in its place by then lost it, and the run stood still.
func TestABuilderIsInItsPlaceBeforeItAttaches(t *testing.T) {
	cfg := config.Completed{Config: config.Default()}
	cfg.RUs, cfg.BUs = 1, 1
	if err := cfg.Complete(); err != nil {
		t.Fatal(err)
	}
	slots, err := shmem.CreateSlots("ringlet-attach-test", cfg.Slots, 4096, shmem.WithDir(t.TempDir()))
	if err != nil {
		t.Fatal(err)
	}
	defer slots.Close()
	b := &base{
		assignment: &assignment{cfg: cfg, self: &nodev1.Member{Builder: true}, ruRanks: []int{0}},
		node:       &process{cfg: Config{Name: "n1"}, log: slog.New(slog.DiscardHandler)},
		table:      shmem.NewTable(8),
	}
	out := &output{base: b, slots: slots, writes: &runOutput{sink: &sink.Discard{}}}
	c := newBuilder(b, &handlers{}, out)
	called := false
	attach := func() (string, tagnet.Scope, []grpc.DialOption) {
		called = true
		if c.unit.Load() == nil {
			t.Error("the builder attaches before it can take announcements")
		}
		return "127.0.0.1:1", tagnet.Scope{Name: "n1"},
			[]grpc.DialOption{grpc.WithTransportCredentials(insecure.NewCredentials())}
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel() // nobody is there to attach to
	run := &runStart{&nodev1.CommandRequest{Run: 1}, attach}
	if err := c.start(ctx, run); err == nil || !called {
		t.Errorf("attached to nobody: error %v, asked %v", err, called)
	}
	if c.attachment() != unattached {
		t.Errorf("it is attached: %v", c.attachment())
	}
	if err := c.unit.Load().Close(); err != nil {
		t.Error(err)
	}
}
