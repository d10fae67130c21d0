package transport_test

import (
	"context"
	"errors"
	"os"
	"strings"
	"testing"

	"ringlet/shmem"
	"ringlet/testkit/patiently"
	"ringlet/transport"
	"ringlet/transport/link"
)

// These tests run in real time: a goroutine that sleeps in the kernel is nothing virtual time knows of.

// oneHost gives all nodes one directory of shared memory, apart gives each its own, as on hosts of their own.
func oneHost(t *testing.T) func(int) string { dir := shmDir(t); return func(int) string { return dir } }
func apart(t *testing.T) func(int) string {
	dirs := []string{shmDir(t), shmDir(t), shmDir(t)}
	return func(rank int) string { return dirs[rank] }
}

func shmDir(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp(shmem.DefaultDir, "transport-test-")
	if err != nil {
		return t.TempDir()
	}
	t.Cleanup(func() {
		if remaining, err := os.ReadDir(dir); err != nil || len(remaining) > 0 {
			t.Errorf("left behind: %v %v", remaining, err)
		}
		_ = os.RemoveAll(dir)
	})
	return dir
}

func carrier(c transport.Carrier) func(*transport.Config) {
	return func(cfg *transport.Config) { cfg.Carrier = c }
}

func TestMeshInMemory(t *testing.T) {
	for seed, c := range []transport.Carrier{transport.CarrierLocal, transport.CarrierAuto} {
		w := newSharedWorld(t, 3, oneHost(t), carrier(c))
		w.connect()
		mesh(w, uint64(seed))
		for _, n := range w.nodes {
			s := n.ep.Stats()
			if s.Links[transport.CarrierLocal] != 2 || s.DatagramsSent != 0 {
				t.Errorf("%v: node %d: %+v", c, n.rank, s)
			}
		}
		w.close()
	}
}

// TestAutoBetweenHosts: where memory cannot be reached the network carries.
func TestAutoBetweenHosts(t *testing.T) {
	dirs := apart(t)
	// n1 and n2 share a host
	w := newSharedWorld(t, 3, func(rank int) string { return dirs(min(rank, 1)) }, carrier(transport.CarrierAuto))
	defer w.close()
	w.connect()
	mesh(w, 3)
	for rank, want := range []uint64{0, 1, 1} {
		if got := w.nodes[rank].ep.Stats().Links; got[transport.CarrierLocal] != want ||
			got[transport.CarrierQUICGo] != 2-want {
			t.Errorf("node %d: links %v", rank, got)
		}
	}
}

func TestLocalBetweenHostsIsRefused(t *testing.T) {
	w := newSharedWorld(t, 2, apart(t), carrier(transport.CarrierLocal))
	defer w.close()
	ctx, cancel := context.WithTimeout(context.Background(), patiently.LongTimeout)
	defer cancel()
	go func() { _ = w.nodes[1].ep.Connect(ctx, []int{0}) }()
	err := w.nodes[0].ep.Connect(ctx, []int{1})
	var refused *transport.PeerRefusedError
	if !errors.As(err, &refused) || refused.Code != transport.RefuseMemory ||
		!strings.Contains(err.Error(), "use auto or a network carrier") {
		t.Errorf("the dialler was told %v", err)
	}
	n := w.nodes[1]
	n.await("who was turned away", func() bool { return len(n.away) == 1 })
	if s := n.ep.Stats(); s.RefusedMemory != 1 || s.PeersRefused != 1 {
		t.Errorf("%+v", s)
	}
}

// TestLocalPeerGoesAway: the connection finds it, the handler is told once, and no grant of the dead one is waited for.
func TestLocalPeerGoesAway(t *testing.T) {
	w := newSharedWorld(t, 2, oneHost(t), carrier(transport.CarrierAuto))
	defer w.close()
	w.connect()
	a, b := w.nodes[0], w.nodes[1]
	if err := b.ep.Close(); err != nil {
		t.Fatal(err)
	}
	a.await("the link's end", func() bool { return len(a.down) == 1 })
	var down *transport.LinkError
	if !errors.As(a.down[0], &down) || down.Rank != 1 {
		t.Errorf("told %v", a.down)
	}
	for _, err := range []error{a.ep.Write(1, link.Write{Ref: b.ref[0]}), a.ep.Signal(1, nil), a.ep.Fence(1, 0)} {
		if !errors.As(err, &down) {
			t.Errorf("after its end: %v", err)
		}
	}
	if n := a.table.RevokePeer(1); n != 1 {
		t.Errorf("%d grants of the peer revoked", n)
	}
}
