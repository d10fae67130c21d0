package transport_test

import (
	"context"
	"errors"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"ringlet/shmem"
	"ringlet/testkit/patiently"
	"ringlet/transport"
	"ringlet/transport/link"
	"ringlet/transport/simnet"
)

func TestWritesOutsideTheGrantAreRefused(t *testing.T) {
	inBubble(t, 3, simnet.Faults{}, func(w *world) {
		stale, err := w.nodes[1].table.Grant(2, w.nodes[1].seg[2], 0, 0, shmem.AccessNwrite)
		_ = stale
		if err == nil {
			t.Fatal("a grant on a closed page")
		}
		old := w.nodes[1].ref[0]
		cookie := uint64(1)
		try := func(to int, want shmem.Violation, wr link.Write) {
			t.Helper()
			n, peer := w.nodes[0], w.nodes[to]
			cookie++
			wr.Cookie = cookie
			before := len(peer.refused)
			if err := n.ep.Write(to, wr); err != nil {
				t.Fatal(err)
			}
			if err := n.outcome(cookie); !isRefused(err, want) {
				t.Errorf("write to %d: outcome %v, want %v", to, err, want)
			}
			peer.await("the refusal", func() bool { return len(peer.refused) > before })
			if !isRefused(peer.refused[before], want) {
				t.Errorf("node %d was told %v", to, peer.refused[before])
			}
		}
		for _, to := range []int{1, 0} { // a peer, and itself
			peer := w.nodes[to]
			try(to, shmem.OutOfRange, link.Write{Ref: peer.ref[0], Offset: exported - 2*shmem.PageSize - 3,
				Data: []byte("abcd")})
			try(to, shmem.OutOfRange, link.Write{Ref: peer.ref[0], Offset: 1<<32 - 4, Data: []byte("abcd")})
			try(to, shmem.WrongPeer, link.Write{Ref: peer.ref[2], Data: []byte("abcd")})
			try(to, shmem.NoWindow, link.Write{Ref: shmem.Ref{Window: 999, Gen: 1}, Data: []byte("abcd")})
		}
		if err := w.nodes[1].table.Revoke(old); err != nil {
			t.Fatal(err)
		}
		try(1, shmem.StaleGen, link.Write{Ref: old, Data: []byte("abcd")})
		if err := w.nodes[0].ep.Write(1, link.Write{Offset: 1<<32 - 3, Data: []byte("abcd")}); err == nil {
			t.Error("a write past 4 GiB was queued")
		}
		for _, n := range w.nodes {
			for p, mem := range n.mem {
				if strings.Trim(string(mem), "\x00") != "" {
					t.Errorf("node %d: memory of peer %d was written", n.rank, p)
				}
			}
		}
		if s := w.nodes[0].ep.Stats(); s.WritesRefused != 9 {
			t.Errorf("%d writes refused, want 9", s.WritesRefused)
		}
	})
}

func TestRequestsThatCannotBe(t *testing.T) {
	inBubble(t, 2, simnet.Faults{}, func(w *world) {
		ep := w.nodes[0].ep
		for to := range 2 {
			if err := ep.Signal(to, make([]byte, link.MaxSignal+1)); err == nil {
				t.Errorf("a signal of %d bytes to %d was taken", link.MaxSignal+1, to)
			}
			if err := ep.Signal(to, make([]byte, link.MaxSignal)); err != nil {
				t.Error(err)
			}
		}
		for _, to := range []int{-1, 2} {
			if ep.Write(to, link.Write{}) == nil || ep.Fence(to, 1) == nil || ep.Signal(to, nil) == nil {
				t.Errorf("rank %d took a request", to)
			}
		}
		if err := ep.Connect(t.Context(), nil); !errors.Is(err, transport.ErrClosed) {
			t.Errorf("second Connect: %v", err)
		}
	})
}

func TestCloseUnblocksWriters(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, 2, simnet.Faults{}, nil)
		defer w.close()
		w.connect()
		w.fabric.Partition("n0", "n1", true)
		var wg sync.WaitGroup
		for to := range 2 {
			wg.Go(func() {
				if to == 0 {
					w.nodes[0].onPlaced = func(int, transport.Placement) { time.Sleep(time.Hour) }
				}
				for {
					err := w.nodes[0].ep.Write(to, link.Write{Ref: w.nodes[to].ref[0], Data: make([]byte, 100)})
					if err == nil {
						continue
					}
					if !errors.Is(err, transport.ErrClosed) {
						t.Errorf("writer to %d: %v", to, err)
					}
					return
				}
			})
		}
		time.Sleep(time.Second) // both queues are full now
		synctest.Wait()
		if err := w.nodes[0].ep.Close(); err != nil {
			t.Error(err)
		}
		wg.Wait()
		if len(w.nodes[0].down) != 0 {
			t.Errorf("Close was told as %v", w.nodes[0].down)
		}
		if err := w.nodes[0].ep.Signal(1, nil); !errors.Is(err, transport.ErrClosed) {
			t.Errorf("signal after Close: %v", err)
		}
		if err := w.nodes[0].ep.Connect(context.Background(), nil); !errors.Is(err, transport.ErrClosed) {
			t.Errorf("Connect after Close: %v", err)
		}
	})
}

// TestEveryCloseWaits holds that no Close returns while another is under way: memory is taken back after it.
func TestEveryCloseWaits(t *testing.T) {
	inBubble(t, 2, simnet.Faults{}, func(w *world) {
		n := w.nodes[1]
		busy, release := make(chan struct{}), make(chan struct{})
		n.onPlaced = func(int, transport.Placement) {
			close(busy)
			patiently.Hold(release)
		}
		if err := w.nodes[0].ep.Write(1, link.Write{Ref: n.ref[0], Data: []byte("x")}); err != nil {
			t.Fatal(err)
		}
		patiently.Receive(t, busy)
		var closed atomic.Int32
		for range 2 {
			go func() {
				_ = n.ep.Close()
				closed.Add(1)
			}()
		}
		synctest.Wait()
		if got := closed.Load(); got != 0 {
			t.Errorf("%d of 2 returned while a handler was called", got)
		}
		close(release)
		synctest.Wait()
		if got := closed.Load(); got != 2 {
			t.Errorf("%d of 2 returned", got)
		}
	})
}

func TestLinkDownIsReportedOnce(t *testing.T) {
	for name, kill := range map[string]func(*world){
		"peer closes": func(w *world) { _ = w.nodes[1].ep.Close() },
		"peer's node": func(w *world) { _ = w.nodes[1].net.Close() },
		"partition":   func(w *world) { w.fabric.Partition("n0", "n1", true) },
	} {
		inBubble(t, 3, simnet.Faults{Delay: time.Millisecond}, func(w *world) {
			n := w.nodes[0]
			kill(w)
			for i := 0; ; i++ { // a busy writer finds out too
				err := n.ep.Write(1, link.Write{Ref: w.nodes[1].ref[0], Data: make([]byte, 5000), Cookie: uint64(i)})
				var down *transport.LinkError
				if errors.As(err, &down) && down.Rank == 1 && down.Peer == "n1" {
					break
				}
				if err != nil {
					t.Fatalf("%s: %v", name, err)
				}
			}
			n.await("LinkDown", func() bool { return len(n.down) > 0 })
			time.Sleep(time.Minute)
			if len(n.down) != 1 {
				t.Errorf("%s: told %d times", name, len(n.down))
			}
			if err := n.ep.Signal(2, []byte("still there")); err != nil {
				t.Errorf("%s: the other link: %v", name, err)
			}
			w.nodes[2].await("a signal", func() bool { return len(w.nodes[2].signals[0]) == 1 })
		})
	}
}

func TestShortPartitionIsSurvived(t *testing.T) {
	inBubble(t, 2, simnet.Faults{Delay: time.Millisecond}, func(w *world) {
		w.fabric.Partition("n0", "n1", true)
		if err := w.nodes[0].ep.Signal(1, []byte("patience")); err != nil {
			t.Fatal(err)
		}
		time.Sleep(3 * time.Second)
		w.fabric.Partition("n0", "n1", false)
		w.nodes[1].await("the signal", func() bool { return len(w.nodes[1].signals[0]) == 1 })
		if len(w.nodes[0].down)+len(w.nodes[1].down) != 0 {
			t.Error("the link went down")
		}
	})
}

// TestPeersThatComeBackOftenHoldUpNobody: whoever takes a peer in again waits for nobody, so that Close ends.
func TestPeersThatComeBackOftenHoldUpNobody(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		back := func(c *transport.Config) { c.MayRejoin = func(int) bool { return true } }
		w := newWorld(t, 2, simnet.Faults{}, back)
		w.connect()
		for range 8 {
			old := w.nodes[1]
			if err := errors.Join(old.ep.Close(), old.net.Close()); err != nil {
				t.Fatal(err)
			}
			net, err := w.fabric.Node("n1")
			if err != nil {
				t.Fatal(err)
			}
			w.nodes[1] = w.node(1, net, back)
			ctx, cancel := context.WithTimeout(context.Background(), patiently.LongTimeout)
			if err := w.nodes[1].ep.Reconnect(ctx, []int{0}); err != nil {
				t.Fatal(err)
			}
			cancel()
		}
		w.close()
	})
}
