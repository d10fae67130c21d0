package gateway

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"ringlet/memory"
	"ringlet/shmem"
	"ringlet/testkit/must"
	"ringlet/transport"
	"ringlet/transport/simnet"
)

// directSession is a gateway of the first of two members on a simulated network, in virtual time. The test is the
// client, and the goroutine that takes descriptors.
type directSession struct {
	*session
	t      *testing.T
	fabric *simnet.Fabric
	spaces [2]*memory.Space
	stop   context.CancelFunc
}

// withDirectSession runs a test at such a gateway. Each member exports a page, "n0" and "n1"; the first has its own one
// mapped.
func withDirectSession(t *testing.T, test func(*directSession)) {
	t.Helper()
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		k := &directSession{t: t, fabric: simnet.NewFabric(simnet.Faults{Delay: time.Millisecond}, 1)}
		view := transport.View{Number: 1, Members: []transport.Member{{Name: "n0", Addr: "n0"}, {Name: "n1", Addr: "n1"}}}
		connected := make(chan error, len(k.spaces))
		for rank, m := range view.Members {
			net, err := k.fabric.Node(m.Name)
			must.OK(t, err)
			defer net.Close()
			k.spaces[rank], err = memory.New(memory.Config{
				Transport: transport.Config{Network: net, Table: shmem.NewTable(16), View: view, Rank: rank},
			})
			must.OK(t, err)
			defer k.spaces[rank].Close()
			go func() { connected <- k.spaces[rank].Connect(context.Background(), []int{1 - rank}) }()
			seg, err := shmem.Create("ringlet-t-"+m.Name, memory.PageSize, shmem.WithDir(dir))
			must.OK(t, err)
			defer seg.Close()
			_, err = k.spaces[rank].Export(m.Name, seg, memory.Pages{Count: 1, Peer: memory.Everybody, Allow: memory.AllowAll})
			must.OK(t, err)
		}
		for range k.spaces {
			must.OK(t, <-connected)
		}
		d, err := New(Config{Space: k.spaces[0], Name: "taken", Data: minData, Dir: dir})
		must.OK(t, err)
		var ctx context.Context
		ctx, k.stop = context.WithCancel(context.Background())
		defer k.stop()
		k.session, err = d.open(ctx)
		must.OK(t, err)
		test(k)
	})
}

// submit has the gateway take requests, and returns the position of the first.
func (k *directSession) submit(rs ...request) (first uint64) {
	first = k.core.consumedDescriptors
	for i, r := range rs {
		d := put(r)
		copy(k.bytes[ringAt+(first+uint64(i))%ringDescriptors*descriptorSize:], d[:])
	}
	k.acceptDescriptors(uint64(len(rs)))
	return first
}

// outcome is that of a position; 0: it has none.
func (k *directSession) outcome(position uint64) uint8 {
	at := int(wordsAt + position%ringDescriptors*completionSize)
	if w := shmem.Word64(k.bytes, at+8).Load(); w>>16 == position+1 {
		return uint8(w)
	}
	return 0
}

// imported is the handle of a name.
func (k *directSession) imported(name string) uint32 {
	k.t.Helper()
	p := k.submit(request{op: opImport, piece: piece{length: uint32(copy(k.data, name))}})
	for k.outcome(p) == 0 {
		time.Sleep(time.Millisecond)
	}
	if k.outcome(p) != outcomeDone {
		k.t.Fatalf("%s cannot be imported", name)
	}
	return uint32(shmem.Word64(k.bytes, int(wordsAt+p%ringDescriptors*completionSize)).Load())
}

// TestLostTransactionHoldsUpItsContextAlone: what an earlier transaction of its context keeps waiting, though it is
// about mapped memory, does not keep the gateway from what others ask, be it this client's or the next one's; nor do
// writes that have not left yet.
func TestLostTransactionHoldsUpItsContextAlone(t *testing.T) {
	withDirectSession(t, func(k *directSession) {
		local, far := k.imported("n0"), k.imported("n1")
		k.fabric.Partition("n0", "n1", true)
		lost := k.submit(request{op: opAdd, handle: far, a: 1, timeoutMillis: 5})
		time.Sleep(6 * time.Millisecond)
		if o := k.outcome(lost); o != outcomeUnknown {
			k.t.Fatalf("the outcome of an add that nobody answers is %d", o)
		}
		start := time.Now()
		first := k.submit(request{op: opAdd, handle: local, a: 1}, request{op: opAdd, context: 1, handle: local, a: 1})
		synctest.Wait()
		if d := time.Since(start); d != 0 || k.outcome(first) != 0 || k.outcome(first+1) != outcomeDone {
			k.t.Errorf("after %v the context has outcome %d, and the other one %d", d, k.outcome(first), k.outcome(first+1))
		}
		must.OK(k.t, k.close(false))
		next, err := k.gateway.open(context.Background())
		must.OK(k.t, err)
		k.session = next
		local = k.imported("n0")
		start = time.Now()
		k.submit(request{op: opAdd, handle: local, a: 1})
		if d := time.Since(start); d != 0 {
			k.t.Errorf("the next client is held up for %v by what the former has left", d)
		}
		must.OK(k.t, k.close(false))
	})
}

// TestNothingIsTakenInVain: what is taken as the gateway's process ends is carried out or refused, and counted, though
// its worker has ended before.
func TestNothingIsTakenInVain(t *testing.T) {
	withDirectSession(t, func(k *directSession) {
		local := k.imported("n0")
		k.stop()
		synctest.Wait() // the worker has ended
		k.submit(request{op: opFence, handle: local}, request{op: opLeave, handle: local})
		must.OK(k.t, k.close(false))
		if n := k.gateway.snapshot(); n.Descriptors != k.core.consumedDescriptors || n.Done != 2 || n.Refused != 1 {
			k.t.Errorf("%d descriptors were taken: %v", k.core.consumedDescriptors, n.logValue())
		}
		synctest.Wait()
		if n := k.spaces[0].Stats().EndMessages; n != 1 {
			k.t.Errorf("%d imports were given back", n)
		}
	})
}
