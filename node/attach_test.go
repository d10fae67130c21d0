package node

import (
	"context"
	"log/slog"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	"ringlet/node/config"
	nodev1 "ringlet/proto/ringlet/node/v1"
	"ringlet/shmem"
	"ringlet/tagnet"
)

// When the last unit of a view attaches, tokens begin to flow, and a readout unit's announcement may come before the
// builder's own node hears of it. A builder that was not in its place by then lost it, and the run stood still.
func TestABuilderIsInItsPlaceBeforeItAttaches(t *testing.T) {
	cfg := config.Default()
	cfg.RUs, cfg.BUs = 1, 1
	if err := cfg.Complete(); err != nil {
		t.Fatal(err)
	}
	slots, err := shmem.CreateSlots("ringlet-attach-test", cfg.Slots, 4096, shmem.WithDir(t.TempDir()))
	if err != nil {
		t.Fatal(err)
	}
	defer slots.Close()
	s := &session{
		node:    &process{cfg: Config{Name: "n1"}, log: slog.New(slog.DiscardHandler)},
		cfg:     cfg,
		self:    &nodev1.Member{Builder: true},
		table:   shmem.NewTable(8),
		slots:   slots,
		ruRanks: []int{0},
	}
	called := false
	attach := func(name string) (tagnet.Scope, []grpc.DialOption) {
		called = true
		if s.bu.Load() == nil {
			t.Error("the builder attaches before it can take announcements")
		}
		return tagnet.Scope{Name: name}, []grpc.DialOption{grpc.WithTransportCredentials(insecure.NewCredentials())}
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel() // nobody is there to attach to
	if err := s.startBuilder(ctx, &nodev1.CommandRequest{Run: 1, TagnetAddress: "127.0.0.1:1"}, attach); err == nil ||
		!called {
		t.Errorf("attached to nobody: error %v, asked %v", err, called)
	}
	if err := s.bu.Load().Close(); err != nil {
		t.Error(err)
	}
}
