package transport_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"ringlet/shmem"
	"ringlet/testkit/patiently"
	"ringlet/transport"
	"ringlet/transport/link"
	"ringlet/transport/simnet"
)

const (
	exported = 64 * shmem.PageSize // each node's memory for each peer
)

// node is one endpoint with memory for each of its peers, and a record of what its handler was told.
type node struct {
	t     *testing.T
	rank  int
	net   *simnet.Network
	ep    *transport.Endpoint
	table *shmem.Table
	mem   [][]byte // by peer
	seg   []shmem.SegmentID
	ref   []shmem.Ref // what each peer may write here

	mu        sync.Mutex
	placed    []transport.Placement
	signals   map[int][]string
	completed map[uint64][]error
	refused   []error
	malformed []error
	down      []error
	away      []*transport.TurnedAwayError
	changed   chan struct{} // something was told
	onPlaced  func(peer int, p transport.Placement)
	onSignal  func(peer int, s string)
}

func (n *node) record(f func()) {
	n.mu.Lock()
	f()
	n.mu.Unlock()
	select {
	case n.changed <- struct{}{}:
	default:
	}
}

func (n *node) PlacedMany(peer int, ps []transport.Placement) {
	for _, p := range ps {
		n.Placed(peer, p)
	}
}

func (n *node) Placed(peer int, p transport.Placement) {
	n.record(func() { n.placed = append(n.placed, p) })
	if n.onPlaced != nil {
		n.onPlaced(peer, p)
	}
}

func (n *node) Signal(peer int, b []byte) {
	s := string(b)
	n.record(func() { n.signals[peer] = append(n.signals[peer], s) })
	if n.onSignal != nil {
		n.onSignal(peer, s)
	}
}

func (n *node) Completed(_ int, cookie uint64, err error) {
	n.record(func() { n.completed[cookie] = append(n.completed[cookie], err) })
}

func (n *node) Refused(_ int, _ transport.Placement, err error) {
	n.record(func() { n.refused = append(n.refused, err) })
}
func (n *node) Malformed(_ int, err error) {
	n.record(func() { n.malformed = append(n.malformed, err) })
}
func (n *node) LinkDown(_ int, err error) { n.record(func() { n.down = append(n.down, err) }) }

// await returns when cond, called under the node's lock, holds; it gives up after ten minutes of virtual time.
func (n *node) await(what string, cond func() bool) {
	n.t.Helper()
	limit := time.After(10 * time.Minute)
	for {
		n.mu.Lock()
		ok := cond()
		n.mu.Unlock()
		if ok {
			return
		}
		select { // bounded by limit
		case <-n.changed:
		case <-limit:
			n.t.Fatalf("node %d waits in vain for %s; stats %+v", n.rank, what, n.ep.Stats())
		}
	}
}

// outcome waits for the outcome of a write or fence.
func (n *node) outcome(cookie uint64) error {
	n.t.Helper()
	n.await(fmt.Sprintf("the outcome of %d", cookie), func() bool { return len(n.completed[cookie]) > 0 })
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.completed[cookie][0]
}

// world is a fabric with nodes named n0, n1, …
type world struct {
	t      *testing.T
	fabric *simnet.Fabric
	nodes  []*node
	view   transport.View
	dir    func(rank int) string // of a node's shared memory; nil where it has none
}

// newWorld makes nodes that are not connected yet.
func newWorld(t *testing.T, n int, f simnet.Faults, change func(*transport.Config)) *world {
	t.Helper()
	w := &world{t: t, fabric: simnet.NewFabric(f, 1), view: transport.View{Number: 7}}
	for i := range n {
		name := fmt.Sprintf("n%d", i)
		w.view.Members = append(w.view.Members, transport.Member{Name: name, Addr: name})
	}
	for i := range n {
		net, err := w.fabric.Node(w.view.Members[i].Name)
		if err != nil {
			t.Fatal(err)
		}
		w.nodes = append(w.nodes, w.node(i, net, change))
	}
	return w
}

// newSharedWorld makes nodes whose memory others can map, each in the directory that dir gives for it.
func newSharedWorld(t *testing.T, n int, dir func(rank int) string, change func(*transport.Config)) *world {
	t.Helper()
	w := newWorld(t, n, simnet.Faults{}, nil)
	w.dir = dir
	for i, old := range w.nodes {
		_ = old.ep.Close()
		w.nodes[i] = w.node(i, old.net, change)
	}
	return w
}

// memory is what a node exports to a peer: of its own, or shared.
func (w *world) memory(n *node, peer int, rules ...shmem.PageRule) ([]byte, shmem.SegmentID, error) {
	if w.dir == nil {
		mem := make([]byte, exported)
		id, err := n.table.Export(mem, rules...)
		return mem, id, err
	}
	seg, err := shmem.Create(fmt.Sprintf("ringlet-t-n%d-for-%d", n.rank, peer), exported, shmem.WithDir(w.dir(n.rank)))
	if err != nil {
		return nil, 0, err
	}
	w.t.Cleanup(func() { _ = seg.Close() })
	id, err := n.table.ExportSegment(seg, rules...)
	return seg.Bytes(), id, err
}

func (w *world) node(rank int, net *simnet.Network, change func(*transport.Config)) *node {
	peers := len(w.view.Members)
	n := &node{
		t:         w.t,
		rank:      rank,
		net:       net,
		table:     shmem.NewTable(4 * peers),
		signals:   map[int][]string{},
		completed: map[uint64][]error{},
		changed:   make(chan struct{}, 1),
	}
	if w.dir != nil {
		var err error
		if n.table, err = shmem.NewSharedTable(fmt.Sprintf("ringlet-t-n%d-table", rank), 4*peers,
			shmem.TableDir(w.dir(rank))); err != nil {
			w.t.Fatal(err)
		}
		w.t.Cleanup(func() { _ = n.table.Close() })
	}
	for p := range peers {
		mem, seg, err := w.memory(n, p, shmem.PageRule{
			FirstPage: 1,
			PageCount: exported/shmem.PageSize - 2,
			Peer:      shmem.Peer(p),
			Access:    shmem.AccessNwrite,
		})
		if err != nil {
			w.t.Fatal(err)
		}
		ref, err := n.table.Grant(shmem.Peer(p), seg, shmem.PageSize, exported-2*shmem.PageSize, shmem.AccessNwrite)
		if err != nil {
			w.t.Fatal(err)
		}
		n.mem, n.seg, n.ref = append(n.mem, mem), append(n.seg, seg), append(n.ref, ref)
	}
	cfg := transport.Config{
		Network:      net,
		Handler:      n,
		Table:        n.table,
		View:         w.view,
		Rank:         rank,
		OnTurnedAway: func(err *transport.TurnedAwayError) { n.record(func() { n.away = append(n.away, err) }) },
	}
	if change != nil {
		change(&cfg)
	}
	n.ep = transport.New(cfg)
	return n
}

func (w *world) others(rank int) (ranks []int) {
	for r := range w.nodes {
		if r != rank {
			ranks = append(ranks, r)
		}
	}
	return ranks
}

// connect links all with all.
func (w *world) connect() {
	w.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Minute)
	defer cancel()
	var wg sync.WaitGroup
	for _, n := range w.nodes {
		wg.Go(func() {
			if err := n.ep.Connect(ctx, w.others(n.rank)); err != nil {
				w.t.Errorf("node %d: %v", n.rank, err)
			}
		})
	}
	patiently.Wait(w.t, wg.Wait)
	if w.t.Failed() {
		w.t.FailNow()
	}
}

func (w *world) close() {
	for _, n := range w.nodes {
		if err := n.ep.Close(); err != nil {
			w.t.Error(err)
		}
	}
	for _, n := range w.nodes {
		if err := n.net.Close(); err != nil {
			w.t.Error(err)
		}
	}
}

// inBubble runs a test in virtual time with n nodes linked all with all. Leaving the bubble proves that no goroutine is
// left.
func inBubble(t *testing.T, n int, f simnet.Faults, test func(*world)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, n, f, nil)
		defer w.close()
		w.connect()
		test(w)
	})
}

func isRefused(err error, want shmem.Violation) bool {
	var refused *link.RefusedError
	return errors.As(err, &refused) && refused.Reason == link.Reason(want)
}
