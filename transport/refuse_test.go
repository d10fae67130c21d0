package transport_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"ringlet/transport"
	"ringlet/transport/link"
	"ringlet/transport/simnet"
)

// sayHello is a hello of version 5 in view 7, as docs/format/wire.md lists it.
func sayHello() []byte {
	return []byte{
		'R', 'N', 'G', 'L', 5, 2, 0, 0,
		7, 0, 0, 0, 0, 0, 0, 0,
		0x87, 5, 88, 0, 0, 2, 0, 0,
	}
}

// TestWhoIsTurnedAway: a bad hello, or a good one of somebody who has no business here, to a node that awaits n0 and
// n1.
func TestWhoIsTurnedAway(t *testing.T) {
	change := func(at int, v byte) []byte { b := sayHello(); b[at] = v; return b }
	for _, tc := range []struct {
		name, as string
		hello    []byte
		code     transport.RefuseCode
		says     string
	}{
		{"version", "n1", change(4, 9), transport.RefuseVersion, "version 9, this node speaks 5"},
		{"version of another length", "n1", change(4, 1)[:6], transport.RefuseVersion, "version 1"},
		{"view", "n1", change(8, 8), transport.RefuseView, "it is in view 8, this node in view 7"},
		{"stranger", "x", sayHello(), transport.RefuseStranger, `"x" is not to link to this node in view 7`},
		{"higher rank", "n3", sayHello(), transport.RefuseStranger, `"n3" is not to link`},
		{"another node of a process", "n1", change(6, 1), transport.RefuseStranger, `"n1.1" is not to link`},
		{"a node beyond the most", "n1", change(6, 200), transport.RefuseStranger, `"n1.200" is not to link`},
		{"for another node of this process", "n1", change(7, 3), transport.RefuseView, "it dials node 3 of the process"},
		{"linked already", "n0", sayHello(), transport.RefuseStranger, `"n0" is linked already`},
		{"no hello", "n1", nil, transport.RefuseHello, "no hello of Ringlet"},
		{"bad magic", "n1", change(0, 'X'), transport.RefuseHello, "no hello of Ringlet"},
		{"cut", "n1", sayHello()[:23], transport.RefuseHello, "23 bytes long, but states another length"},
		{"long", "n1", append(sayHello(), 0), transport.RefuseHello, "25 bytes long, but states another length"},
		{"no credit", "n1", change(18, 0), transport.RefuseHello, "cannot work"},
	} {
		synctest.Test(t, func(t *testing.T) {
			w := newWorld(t, 4, simnet.Faults{}, nil)
			defer w.close()
			n := w.nodes[2]
			ctx, cancel := context.WithCancel(context.Background())
			defer cancel()
			go func() { _ = n.ep.Connect(ctx, []int{0, 1}) }()
			go func() { _ = w.nodes[0].ep.Connect(ctx, []int{2}) }()
			synctest.Wait()
			from := w.stranger(tc.as)
			conn, answer, err := from.Dial(ctx, "n2", "n2", tc.hello)
			var refused *transport.PeerRefusedError
			if !errors.As(err, &refused) || refused.Code != tc.code || refused.Peer != "n2" ||
				!strings.Contains(refused.Reason, tc.says) {
				t.Fatalf("%s: dialler got %v %x %v, want %v, %q", tc.name, conn, answer, err, tc.code, tc.says)
			}
			n.await("who was turned away", func() bool { return len(n.away) == 1 })
			if a := n.away[0]; a.Peer != tc.as || a.Code != tc.code || !strings.Contains(a.Error(), tc.says) {
				t.Errorf("%s: this node says %v", tc.name, a)
			}
			s := n.ep.Stats()
			by := map[transport.RefuseCode]uint64{
				transport.RefuseVersion: s.RefusedVersion, transport.RefuseView: s.RefusedView,
				transport.RefuseStranger: s.RefusedStranger, transport.RefuseHello: s.RefusedHello,
			}
			if s.PeersRefused != 1 || by[tc.code] != 1 {
				t.Errorf("%s: counted as %+v", tc.name, s)
			}
			var version *link.VersionError
			if tc.code == transport.RefuseVersion && !errors.As(n.away[0], &version) {
				t.Errorf("%s: %v is no VersionError", tc.name, n.away[0])
			}
			_ = from.Close()
		})
	}
}

// stranger takes the place of a node, or makes one that is in no view.
func (w *world) stranger(name string) *simnet.Network {
	for _, n := range w.nodes {
		if n.net.Addr().String() == name {
			return n.net
		}
	}
	net, err := w.fabric.Node(name)
	if err != nil {
		w.t.Fatal(err)
	}
	return net
}

// TestRefusedDiallerGivesUpAtOnce, but not for another view: the peer may be on its way into this one.
func TestRefusedDiallerGivesUpAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, 2, simnet.Faults{}, func(c *transport.Config) {
			if c.Rank == 1 {
				c.View.Number = 8
			}
		})
		defer w.close()
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		go func() { _ = w.nodes[1].ep.Connect(ctx, []int{0}) }()
		err := w.nodes[0].ep.Connect(ctx, []int{1})
		if !errors.Is(err, context.DeadlineExceeded) && !strings.Contains(err.Error(),
			"it is in view 7, this node in view 8") {
			t.Errorf("other view: %v", err)
		}
		if s := w.nodes[1].ep.Stats(); s.RefusedView < 10 {
			t.Errorf("dialled %d times in a second", s.RefusedView)
		}
	})
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, 2, simnet.Faults{}, nil)
		defer w.close()
		go func() {
			in, err := w.nodes[1].net.Accept(context.Background())
			if err == nil {
				in.Refuse(transport.RefuseVersion, "too old")
			}
		}()
		begin := time.Now()
		err := w.nodes[0].ep.Connect(context.Background(), []int{1})
		var refused *transport.PeerRefusedError
		if !errors.As(err, &refused) || refused.Code != transport.RefuseVersion || time.Since(begin) > time.Second {
			t.Errorf("other version: %v after %v", err, time.Since(begin))
		}
	})
}

// TestAnswersThatMakeNoSense: the dialler looks at the answer as the other side looked at the hello.
func TestAnswersThatMakeNoSense(t *testing.T) {
	old := sayHello()
	old[4] = 2
	for name, answer := range map[string][]byte{"nothing": nil, "version": old, "cut": sayHello()[:20]} {
		synctest.Test(t, func(t *testing.T) {
			w := newWorld(t, 2, simnet.Faults{}, nil)
			defer w.close()
			closed := make(chan error, 1)
			go func() {
				in, err := w.nodes[1].net.Accept(context.Background())
				if err != nil {
					t.Error(err)
					return
				}
				conn, err := in.Answer(answer)
				if err == nil {
					_, err = conn.Recv(make([][]byte, 1))
					_ = conn.Close("done")
				}
				closed <- err
			}()
			err := w.nodes[0].ep.Connect(context.Background(), []int{1})
			if err == nil || !strings.Contains(err.Error(), "hello of n1") {
				t.Errorf("%s: %v", name, err)
			}
			var version *link.VersionError
			if name == "version" && !errors.As(err, &version) {
				t.Errorf("%v is no VersionError", err)
			}
			var bye *simnet.ClosedError
			if err := <-closed; !errors.As(err, &bye) {
				t.Errorf("%s: the other side saw %v", name, err)
			}
		})
	}
}

func TestLatePeersAreDialledAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, 2, simnet.Faults{Delay: time.Millisecond}, nil)
		w.view.Members = append(w.view.Members, transport.Member{Name: "late", Addr: "late"})
		for _, n := range w.nodes { // nodes that know of the third
			_ = n.ep.Close()
		}
		for i, n := range w.nodes {
			w.nodes[i] = w.node(i, n.net, nil)
		}
		defer w.close()
		done := make(chan error, 2)
		for _, n := range w.nodes {
			go func() { done <- n.ep.Connect(context.Background(), []int{1 - n.rank, 2}) }()
		}
		time.Sleep(20 * time.Second)
		net, err := w.fabric.Node("late")
		if err != nil {
			t.Fatal(err)
		}
		w.nodes = append(w.nodes, w.node(2, net, nil))
		if err := w.nodes[2].ep.Connect(context.Background(), []int{0, 1}); err != nil {
			t.Error(err)
		}
		for range 2 {
			if err := <-done; err != nil {
				t.Error(err)
			}
		}
		mesh(w, 5)
	})
}

func TestConnectNamesWhoIsMissing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, 3, simnet.Faults{}, nil)
		defer w.close()
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		err := w.nodes[2].ep.Connect(ctx, []int{0, 1})
		if err == nil || !errors.Is(err, context.DeadlineExceeded) || !strings.Contains(err.Error(), "n0, n1") {
			t.Errorf("awaiting: %v", err)
		}
		for _, rank := range []int{-1, 0, 3} {
			if err := w.nodes[0].ep.Connect(ctx, []int{rank}); err == nil {
				t.Errorf("rank 0 linked to rank %d", rank)
			}
		}
	})
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, 2, simnet.Faults{}, func(c *transport.Config) {
			c.View.Members = []transport.Member{{Name: "n0", Addr: "n0"}, {Name: "somebody", Addr: "n1"}}
		})
		defer w.close()
		var handshake *transport.HandshakeError
		if err := w.nodes[0].ep.Connect(context.Background(), []int{1}); !errors.As(err, &handshake) ||
			handshake.Peer != "somebody" {
			t.Errorf("a node of another name was dialled: %v", err)
		}
	})
}

// TestSubstituteIsAwaited: a node that substitutes for a peer links in its place, and the peer itself does not any
// more.
func TestSubstituteIsAwaited(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, 3, simnet.Faults{}, nil)
		defer w.close()
		ctx, cancel := context.WithCancel(context.Background())
		defer cancel()
		n := w.nodes[2].ep
		n.SetSubstitute(1, "spare")
		go func() { _ = n.Connect(ctx, []int{1}) }()
		synctest.Wait()
		_, _, err := w.stranger("n1").Dial(ctx, "n2", "n2", sayHello())
		var refused *transport.PeerRefusedError
		if !errors.As(err, &refused) || refused.Code != transport.RefuseStranger {
			t.Errorf("a peer for which another node substitutes: %v", err)
		}
		if _, _, err := w.stranger("spare").Dial(ctx, "n2", "n2", sayHello()); err != nil {
			t.Errorf("the substitute: %v", err)
		}
	})
}
