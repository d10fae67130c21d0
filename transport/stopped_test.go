package transport_test

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/sys/unix"

	"ringlet/node/certs"
	"ringlet/shmem"
	"ringlet/testkit/issuer"
	"ringlet/testkit/must"
	"ringlet/testkit/patiently"
	"ringlet/transport"
	"ringlet/transport/link"
	"ringlet/transport/simnet"
)

// A node writes to eight others, one of which is stopped by the kernel: what do the other seven lose (NIC-crossbar
// §2.1)?

const (
	spokes     = 8
	spokeEnv   = "RINGLET_TEST_SPOKE" // set in a process that is written to: carrier, directory, rank
	spokeWrite = 64 << 10             // bytes of a write
	spokePhase = time.Second          // of writing, with the last one stopped or left alone
)

// spoke is one end of the star: the hub, of rank 0, or a process that it writes to.
type spoke struct {
	*party
	refs [spokes + 1]atomic.Uint64 // what each rank grants us
}

func (s *spoke) Signal(peer int, b []byte) { s.refs[peer].Store(binary.LittleEndian.Uint64(b)) }
func (s *spoke) LinkDown(int, error)       {}

// star joins an end to the others.
func (s *spoke) star(ctx context.Context, addrs []string, c transport.Carrier) error {
	view := transport.View{Number: 7}
	for i := range spokes + 1 {
		view.Members = append(view.Members, transport.Member{Name: fmt.Sprintf("n%d", i), Addr: addrs[i]})
	}
	s.ep = transport.New(transport.Config{
		Network: s.net,
		Handler: s,
		Table:   s.table,
		View:    view,
		Rank:    s.rank,
		Carrier: c,
	})
	if s.rank == 0 {
		return s.ep.Connect(ctx, []int{1, 2, 3, 4, 5, 6, 7, 8})
	}
	if err := s.ep.Connect(ctx, []int{0}); err != nil {
		return err
	}
	seg, err := s.table.ExportSegment(s.seg, shmem.PageRule{PageCount: victimSize / shmem.PageSize,
		Access: shmem.AccessNwrite})
	if err != nil {
		return err
	}
	ref, err := s.table.Grant(0, seg, 0, victimSize, shmem.AccessNwrite)
	if err != nil {
		return err
	}
	return s.ep.Signal(0, binary.LittleEndian.AppendUint64(nil, uint64(ref.Window)<<32|uint64(ref.Gen)))
}

// beSpoke is a process that is written to, until it is killed.
func beSpoke() error {
	id, _, err := certs.ReadBundle(os.Stdin)
	if err != nil {
		return err
	}
	var name, dir string
	var rank int
	if _, err := fmt.Sscan(os.Getenv(spokeEnv), &name, &dir, &rank); err != nil {
		return err
	}
	by, err := transport.ParseChoice(name)
	if err != nil {
		return err
	}
	p, err := newParty(id, rank, dir)
	if err != nil {
		return err
	}
	fmt.Println(p.net.Addr())
	ctx, cancel := context.WithTimeout(context.Background(), timeout)
	defer cancel()
	if err := (&spoke{party: p}).star(ctx, make([]string, spokes+1), by.Carrier); err != nil {
		return err
	}
	time.Sleep(10 * time.Minute) // it is killed before that, or with its parent
	return nil
}

// TestTryWriteGoesPastAPeerThatIsCutOff: a node writes to eight in turn, as fast as it may, while all listen and then
// while one is cut off. The queue of that one fills up, and the others lose nothing.
func TestTryWriteGoesPastAPeerThatIsCutOff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, spokes+1, simnet.Faults{Delay: 100 * time.Microsecond}, nil)
		defer w.close()
		w.connect()
		hub, data, full := w.nodes[0], make([]byte, 4096), 0
		moved := func(d time.Duration) (n uint64) {
			for rank := 1; rank < spokes; rank++ {
				n -= hub.ep.LinkStats(rank).WritesCompleted
			}
			for end := time.Now().Add(d); time.Now().Before(end); time.Sleep(100 * time.Microsecond) {
				for rank := 1; rank <= spokes; rank++ {
					err := hub.ep.TryWrite(rank, link.Write{Ref: w.nodes[rank].ref[0], Data: data})
					var why *transport.FullError
					if errors.As(err, &why) {
						full++
						if why.Rank != spokes || why.Peer != "n8" || !strings.Contains(err.Error(), "link to n8") {
							t.Fatalf("rank %d: %v", rank, err)
						}
					} else {
						must.OK(t, err)
					}
				}
			}
			for rank := 1; rank < spokes; rank++ {
				n += hub.ep.LinkStats(rank).WritesCompleted
			}
			return n
		}
		alone := moved(200 * time.Millisecond)
		w.fabric.Partition("n0", "n8", true)
		cut := moved(200 * time.Millisecond)
		if float64(cut) < 0.95*float64(alone) || full == 0 {
			t.Errorf("%d writes to the seven while all listen, %d while one is cut off, which was full %d times", alone, cut,
				full)
		}
		last := link.Write{Ref: w.nodes[spokes].ref[0], Data: data}
		many := []link.Piece{{Ref: last.Ref, Data: data}}
		if err := hub.ep.TryWriteMany(spokes, many, 0); err == nil || !strings.Contains(err.Error(), "link to n8") {
			t.Errorf("pieces to the one that is cut off: %v", err)
		}
		if n := testing.AllocsPerRun(100, func() { _ = hub.ep.TryWrite(spokes, last) }); n > 0 {
			t.Errorf("%v allocations where the queue is full", n)
		}
	})
}

// TestMoveGivesMemoryBack: what was written to a peer that is cut off is moved, and its memory used for something else.
// When the peer is there again it gets what was to be written. A write that is over, or goes by memory, is not moved.
func TestMoveGivesMemoryBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, 2, simnet.Faults{Delay: 100 * time.Microsecond}, nil)
		defer w.close()
		w.connect()
		hub, far, data := w.nodes[0], w.nodes[1], bytes.Repeat([]byte{7}, 3000)
		w.fabric.Partition("n0", "n1", true)
		must.OK(t, hub.ep.WriteMany(1, []link.Piece{{Ref: far.ref[0], Data: data}}, 5))
		time.Sleep(time.Second)
		if !hub.ep.RelocateWrite(1, 5, func(int) []byte { return bytes.Clone(data) }) {
			t.Fatal("nothing was moved")
		}
		clear(data)
		w.fabric.Partition("n0", "n1", false)
		must.OK(t, hub.outcome(5))
		if want := bytes.Repeat([]byte{7}, 3000); !bytes.Equal(far.mem[0][shmem.PageSize:][:3000], want) {
			t.Error("other bytes came than were written")
		}
		must.OK(t, hub.ep.WriteMany(0, []link.Piece{{Ref: hub.ref[0], Data: data}}, 6))
		for rank, cookie := range []uint64{6, 5, 5} { // to itself, by then over, and to nobody
			if hub.ep.RelocateWrite(rank, cookie, nil) {
				t.Errorf("what was written to rank %d was moved", rank)
			}
		}
	})
}

// BenchmarkStoppedPeer tells how much of their rate seven peers keep when the eighth, which is written to, is stopped:
// beside their rate while nobody writes to it. Each peer has a writer of its own, or one writer goes round, which waits
// where a queue is full or goes on with the next.
func BenchmarkStoppedPeer(b *testing.B) {
	for _, carrier := range []string{"quic", "local"} {
		for _, how := range []string{"a writer each", "one writer that waits", "one writer in turn"} {
			b.Run(carrier+", "+how, func(b *testing.B) { stoppedPeer(b, carrier, how) })
		}
	}
}

func stoppedPeer(b *testing.B, carrier, how string) {
	oneWriter, put := how != "a writer each", (*transport.Endpoint).Write
	if how == "one writer in turn" {
		put = (*transport.Endpoint).TryWrite
	}
	by, err := transport.ParseChoice(carrier)
	must.OK(b, err)
	issue := issuer.New(b)
	dir, err := os.MkdirTemp(shmem.DefaultDir, "transport-test-")
	must.OK(b, err)
	b.Cleanup(func() { must.OK(b, os.RemoveAll(dir)) })
	p, err := newParty(issue("n0", certs.RoleNode), 0, dir)
	must.OK(b, err)
	hub := &spoke{party: p}
	addrs := []string{p.net.Addr().String()}
	var last *exec.Cmd
	for rank := 1; rank <= spokes; rank++ {
		cmd, addr := startPeer(b, issue(fmt.Sprintf("n%d", rank), certs.RoleNode), spokeEnv,
			fmt.Sprint(carrier, " ", dir, " ", rank))
		addrs, last = append(addrs, addr), cmd
	}
	ctx, cancel := context.WithTimeout(b.Context(), timeout)
	defer cancel()
	must.OK(b, hub.star(ctx, addrs, by.Carrier))
	for rank := 1; rank <= spokes; rank++ {
		for hub.refs[rank].Load() == 0 {
			if ctx.Err() != nil {
				b.Fatalf("rank %d grants nothing", rank)
			}
			time.Sleep(time.Millisecond)
		}
	}
	var toLast, over atomic.Bool
	write := func(rank int) bool {
		v := hub.refs[rank].Load()
		if rank == spokes && !toLast.Load() {
			return false
		}
		return put(hub.ep, rank, link.Write{Ref: shmem.Ref{Window: uint32(v >> 32), Gen: uint32(v)}, Data: spokeData}) == nil
	}
	writers := startWriters(&over, oneWriter, write)
	var alone, stopped uint64
	for b.Loop() {
		alone += hub.moved(spokePhase)
		must.OK(b, last.Process.Signal(unix.SIGSTOP))
		toLast.Store(true)
		hub.full(spokes)
		stopped += hub.moved(spokePhase)
		toLast.Store(false)
		must.OK(b, last.Process.Signal(unix.SIGCONT))
		time.Sleep(200 * time.Millisecond) // what it waits for comes
	}
	b.ReportMetric(float64(stopped)/float64(alone), "kept")
	b.ReportMetric(float64(alone)*8/1e9/spokePhase.Seconds()/float64(b.N), "Gbit/s")
	over.Store(true)
	must.OK(b, p.close())
	writers()
}

var spokeData = make([]byte, spokeWrite)

// startWriters starts who writes, and returns what waits for them. A round in which nothing went makes them sleep.
func startWriters(over *atomic.Bool, oneWriter bool, write func(rank int) bool) (wait func()) {
	ended, n := make(chan struct{}, spokes), 0
	start := func(first, last int) {
		n++
		go func() {
			for !over.Load() {
				some := false
				for rank := first; rank <= last; rank++ {
					some = write(rank) || some
				}
				if !some {
					time.Sleep(20 * time.Microsecond)
				}
			}
			ended <- struct{}{}
		}()
	}
	if oneWriter {
		start(1, spokes)
	} else {
		for rank := 1; rank <= spokes; rank++ {
			start(rank, rank)
		}
	}
	return func() {
		for range n {
			patiently.Hold(ended)
		}
	}
}

// full waits until a writer waits for room on the path to a rank.
func (s *spoke) full(rank int) {
	before := s.ep.LinkStats(rank).StallsQueue
	for end := time.Now().Add(2 * time.Second); s.ep.LinkStats(rank).StallsQueue == before && time.Now().Before(end); {
		time.Sleep(time.Millisecond)
	}
}

// moved is how many bytes reach the peers but the last in a time.
func (s *spoke) moved(d time.Duration) (n uint64) {
	for rank := 1; rank < spokes; rank++ {
		n -= s.ep.LinkStats(rank).WritesCompleted * spokeWrite
	}
	time.Sleep(d)
	for rank := 1; rank < spokes; rank++ {
		n += s.ep.LinkStats(rank).WritesCompleted * spokeWrite
	}
	return n
}
