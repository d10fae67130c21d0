package memory

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"ringlet/shmem"
	"ringlet/testkit/must"
	"ringlet/testkit/patiently"
	"ringlet/transport"
	"ringlet/transport/simnet"
)

// world is spaces on a simulated network, each linked to all others.
type world struct {
	t      testing.TB
	fabric *simnet.Fabric
	view   transport.View
	nets   []*simnet.Network
	tables []*shmem.Table
	spaces []*Space
	dir    string
}

// inBubble runs a test in virtual time.
func inBubble(t *testing.T, n int, f simnet.Faults, test func(*world)) {
	t.Helper()
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, n, f, 1, dir)
		w.connect()
		test(w)
		w.close()
	})
}

func newWorld(t testing.TB, n int, f simnet.Faults, seed uint64, dir string) *world {
	w := &world{t: t, fabric: simnet.NewFabric(f, seed), view: transport.View{Number: 7}, dir: dir}
	for i := range n {
		name := fmt.Sprintf("n%d", i)
		w.view.Members = append(w.view.Members, transport.Member{Name: name, Addr: name})
	}
	w.nets, w.tables, w.spaces = make([]*simnet.Network, n), make([]*shmem.Table, n), make([]*Space, n)
	for i := range n {
		w.start(i)
	}
	return w
}

// start makes a process of a rank.
func (w *world) start(rank int) {
	w.t.Helper()
	var err error
	w.nets[rank], err = w.fabric.Node(w.view.Members[rank].Name)
	must.OK(w.t, err)
	w.tables[rank] = shmem.NewTable(256)
	w.spaces[rank], err = New(Config{
		Transport:   transport.Config{Network: w.nets[rank], Table: w.tables[rank], View: w.view, Rank: rank},
		AllowRejoin: true,
	})
	must.OK(w.t, err)
}

func (w *world) others(rank int) (ranks []int) {
	for r := range w.spaces {
		if r != rank {
			ranks = append(ranks, r)
		}
	}
	return ranks
}

func (w *world) connect() {
	w.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), time.Hour)
	defer cancel()
	var wg sync.WaitGroup
	for rank, s := range w.spaces {
		wg.Go(func() {
			if err := s.Connect(ctx, w.others(rank)); err != nil {
				w.t.Errorf("rank %d: %v", rank, err)
			}
		})
	}
	patiently.Wait(w.t, wg.Wait)
	if w.t.Failed() {
		w.t.FailNow()
	}
}

// stop ends the process of a rank.
func (w *world) stop(rank int) {
	w.t.Helper()
	if w.spaces[rank] == nil {
		return
	}
	must.OK(w.t, w.spaces[rank].Close())
	must.OK(w.t, w.nets[rank].Close())
	w.spaces[rank] = nil
}

func (w *world) close() {
	w.t.Helper()
	for rank := range w.spaces {
		w.stop(rank)
	}
}

// segment makes memory that is gone with the test.
func (w *world) segment(size int) *shmem.Segment {
	w.t.Helper()
	seg, err := shmem.Create(fmt.Sprintf("ringlet-t-m%08x", time.Now().UnixNano()&0xFFFFFFFF), size, shmem.WithDir(w.dir))
	must.OK(w.t, err)
	return seg
}

func allPages(pages int) Pages { return Pages{Count: pages, Peer: Everybody, Allow: AllowAll} }
