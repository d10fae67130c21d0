package transport_test

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"ringlet/transport"
	"ringlet/transport/link"
	"ringlet/transport/simnet"
)

// TestALinkThatMovesNothingEnds: the connection lives, and nothing arrives. Whoever writes learns it in bounded time,
// with what to look for.
func TestALinkThatMovesNothingEnds(t *testing.T) {
	inBubble(t, 2, simnet.Faults{Loss: 1}, func(w *world) {
		n := w.nodes[0]
		begin := time.Now()
		if err := n.ep.Write(1, link.Write{Ref: w.nodes[1].ref[0], Data: []byte("lost"), Cookie: 1}); err != nil {
			t.Fatal(err)
		}
		n.await("the end of the link", func() bool { return len(n.down) > 0 })
		var stuck *transport.StuckError
		if !errors.As(n.down[0], &stuck) || time.Since(begin) > 20*time.Second {
			t.Errorf("after %v: %v", time.Since(begin), n.down[0])
		}
	})
}

// TestFenceOnAnIdleLink: nothing is to be sent for it, and nothing arrives; it is told all the same.
func TestFenceOnAnIdleLink(t *testing.T) {
	inBubble(t, 2, simnet.Faults{}, func(w *world) {
		n := w.nodes[0]
		synctest.Wait()
		if err := n.ep.Fence(1, 7); err != nil {
			t.Fatal(err)
		}
		if err := n.outcome(7); err != nil {
			t.Error(err)
		}
	})
}
