package shmem

import (
	"bytes"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"unsafe"

	"ringlet/testkit/must"
	"ringlet/testkit/patiently"
)

const (
	peerA = Peer(1)
	peerB = Peer(2)
)

func newTestTable(t testing.TB, windows, pages int) (*Table, SegmentID, []byte) {
	t.Helper()
	table, mem := NewTable(windows), make([]byte, pages*PageSize)
	seg, err := table.Export(mem, PageRule{0, pages, AnyPeer, bothWrites})
	must.OK(t, err)
	return table, seg, mem
}

func TestWindowIsOneCacheLine(t *testing.T) {
	if n := unsafe.Sizeof(window{}); n != 64 {
		t.Errorf("a window has %d bytes", n)
	}
}

type acquireCase struct {
	what   string
	peer   Peer
	ref    Ref
	off, n uint32
	a      Access
	want   Violation
}

// acquireCases are writes of peer A through a grant of 50 bytes to it for nwrite, in a table of windows of which the
// last was never granted; old is a grant that was revoked.
func acquireCases(r, old Ref, windows uint32) []acquireCase {
	return []acquireCase{
		{"all of it", peerA, r, 0, 50, AccessNwrite, 0},
		{"the last byte", peerA, r, 49, 1, AccessNwrite, 0},
		{"nothing at the end", peerA, r, 50, 0, AccessNwrite, 0},
		{"window beyond the table", peerA, Ref{windows, r.Gen}, 0, 1, AccessNwrite, NoWindow},
		{"huge window", peerA, Ref{^uint32(0), r.Gen}, 0, 1, AccessNwrite, NoWindow},
		{"window never granted", peerA, Ref{windows - 1, r.Gen}, 0, 1, AccessNwrite, NoWindow},
		{"other generation", peerA, Ref{r.Window, r.Gen + 1}, 0, 1, AccessNwrite, StaleGen},
		{"revoked", peerA, old, 0, 1, AccessNwrite, StaleGen},
		{"one too many", peerA, r, 0, 51, AccessNwrite, OutOfRange},
		{"begins behind", peerA, r, 51, 0, AccessNwrite, OutOfRange},
		{"wraps around", peerA, r, ^uint32(0), 2, AccessNwrite, OutOfRange},
		{"dmove", peerA, r, 0, 1, AccessDmove, NoAccess},
		{"both", peerA, r, 0, 1, bothWrites, NoAccess},
		{"no access", peerA, r, 0, 1, 0, NoAccess},
		{"unknown access", peerA, r, 0, 1, 0x80, NoAccess},
	}
}

// acquireAll tries all cases; mem is the bytes of the grant, which are 7 where a write was allowed.
func acquireAll(t *testing.T, cases []acquireCase, count *violations, mem []byte, release func(Ref),
	acquire func(acquireCase) ([]byte, Violation)) {
	t.Helper()
	for _, c := range cases {
		before := count.load(c.want)
		b, v := acquire(c)
		if v != c.want {
			t.Errorf("%s: %v, want %v", c.what, v, c.want)
		}
		if v != 0 {
			if b != nil || count.load(v) != before+1 {
				t.Errorf("%s: bytes %v, counter %d after %d", c.what, b, count.load(v), before)
			}
			continue
		}
		for i := range b {
			b[i] = 7
		}
		if len(b) != int(c.n) || cap(b) != int(c.n) || !bytes.Equal(b, mem[c.off:][:c.n]) {
			t.Errorf("%s: wrong bytes: len %d cap %d", c.what, len(b), cap(b))
		}
		release(c.ref)
	}
}

func TestAcquireChecks(t *testing.T) {
	table, seg, mem := newTestTable(t, 4, 2)
	r, err := table.Grant(peerA, seg, 100, 50, AccessNwrite)
	must.OK(t, err)
	old, err := table.Grant(peerA, seg, 200, 50, AccessNwrite)
	must.OK(t, err)
	must.OK(t, table.Revoke(old))
	acquireAll(t, append(acquireCases(r, old, 4), acquireCase{"zero ref", peerA, Ref{}, 0, 1, AccessNwrite, StaleGen},
		acquireCase{"other peer", peerB, r, 0, 1, AccessNwrite, WrongPeer},
		acquireCase{"any peer", AnyPeer, r, 0, 1, AccessNwrite, WrongPeer}),
		&table.violations, mem[100:150], table.Release,
		func(c acquireCase) ([]byte, Violation) { return table.Acquire(c.peer, c.ref, c.off, c.n, c.a) })
	if s := table.Stats(); s.Live != 1 || s.Free != 3 || s.UnbalancedReleases != 0 {
		t.Errorf("stats %+v", s)
	}
}

func TestRevokeWaitsForWriters(t *testing.T) {
	table, seg, _ := newTestTable(t, 2, 1)
	r, _ := table.Grant(peerA, seg, 0, 64, AccessNwrite)
	for range 2 {
		if _, v := table.Acquire(peerA, r, 0, 64, AccessNwrite); v != 0 {
			t.Fatal(v)
		}
	}
	var inside atomic.Int32
	inside.Store(2)
	done := make(chan error)
	go func() {
		err := table.Revoke(r)
		if n := inside.Load(); n != 0 {
			t.Errorf("revoke returned with %d writers inside", n)
		}
		done <- err
	}()
	for table.Stats().Revoking == 0 { // until the window is closed
		select {
		case err := <-done:
			t.Fatalf("revoke did not wait: %v", err)
		default:
		}
	}
	if _, v := table.Acquire(peerA, r, 0, 1, AccessNwrite); v != StaleGen {
		t.Errorf("acquire while revoking: %v", v)
	}
	if err := table.Revoke(r); !errors.Is(err, errStaleRef) {
		t.Errorf("second revoke: %v", err)
	}
	if _, err := table.Grant(peerB, seg, 63, 1, AccessNwrite); !errors.Is(err, ErrOverlap) {
		t.Errorf("bytes granted while a writer is inside: %v", err)
	}
	for range 2 {
		inside.Add(-1)
		table.Release(r)
	}
	if err := patiently.Receive(t, done); err != nil {
		t.Error(err)
	}
	if _, err := table.Grant(peerB, seg, 0, 64, AccessNwrite); err != nil {
		t.Errorf("grant after revoke: %v", err)
	}
}

// TestConcurrentLives lets writers hammer windows that are granted and revoked under them. The
// race detector watches that a writer and the owner of the bytes never meet.
func TestConcurrentLives(t *testing.T) {
	table, seg, mem := newTestTable(t, 2, 1)
	var current [2]atomic.Uint64 // the Ref in force
	var stop atomic.Bool
	var writers sync.WaitGroup
	for range 3 {
		writers.Go(func() {
			for i := 0; !stop.Load(); i++ {
				packed := current[i%2].Load()
				r := Ref{uint32(packed >> 32), uint32(packed)}
				// Each writer its own bytes: two chunks of one transfer never overlap.
				if b, v := table.Acquire(peerA, r, 0, 64, AccessNwrite); v == 0 {
					_ = b[0]
					table.Release(r)
				}
			}
		})
	}
	for i := range 3000 {
		k := i % 2
		r, err := table.Grant(peerA, seg, k*64, 64, AccessNwrite)
		must.OK(t, err)
		current[k].Store(uint64(r.Window)<<32 | uint64(r.Gen))
		must.OK(t, table.Revoke(r))
		mem[k*64]++ // ours again: a reader still inside would be a race
	}
	stop.Store(true)
	patiently.Wait(t, writers.Wait)
	if s := table.Stats(); s.Free != 2 || s.UnbalancedReleases != 0 || s.Granted != s.Revoked {
		t.Errorf("stats %+v", s)
	}
}

func TestHotPathDoesNotAllocate(t *testing.T) {
	table, seg, _ := newTestTable(t, 8, 16)
	r, _ := table.Grant(peerA, seg, 0, 1400, AccessNwrite)
	if n := testing.AllocsPerRun(1000, func() {
		if _, v := table.Acquire(peerA, r, 0, 1400, AccessNwrite); v != 0 {
			t.Fatal(v)
		}
		table.Release(r)
	}); n != 0 {
		t.Errorf("acquire and release: %v allocations", n)
	}
	if n := testing.AllocsPerRun(1000, func() {
		r, err := table.Grant(peerA, seg, PageSize, PageSize, AccessNwrite)
		must.OK(t, err)
		must.OK(t, table.Revoke(r))
	}); n != 0 {
		t.Errorf("grant and revoke: %v allocations", n)
	}
}

func BenchmarkAcquireRelease(b *testing.B) {
	table, seg, _ := newTestTable(b, 64, 64)
	r, _ := table.Grant(peerA, seg, 0, PageSize, AccessNwrite)
	total := 0
	for b.Loop() {
		m, v := table.Acquire(peerA, r, 100, 1400, AccessNwrite)
		if v != 0 {
			b.Fatal(v)
		}
		total += len(m)
		table.Release(r)
	}
	if total != 1400*b.N {
		b.Fatal(total)
	}
}

func BenchmarkAcquireReleaseSameWindow(b *testing.B) {
	table, seg, _ := newTestTable(b, 64, 64)
	r, _ := table.Grant(peerA, seg, 0, PageSize, AccessNwrite)
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			if _, v := table.Acquire(peerA, r, 100, 1400, AccessNwrite); v != 0 {
				b.Error(v)
			}
			table.Release(r)
		}
	})
}

// BenchmarkGrantRevoke keeps 4096 grants live, as 64 slots of 64 readout units.
func BenchmarkGrantRevoke(b *testing.B) {
	const live, size = 4096, 256
	table, seg, _ := newTestTable(b, live+1, live*size/PageSize+1)
	refs := make([]Ref, live)
	grant := func(i int) {
		r, err := table.Grant(peerA, seg, i*size, size, AccessNwrite)
		must.OK(b, err)
		refs[i] = r
	}
	for i := range live {
		grant(i)
	}
	i := 0
	for b.Loop() {
		must.OK(b, table.Revoke(refs[i]))
		grant(i)
		i = (i + 1) % live
	}
	if s := table.Stats(); s.Live != live {
		b.Fatal(s)
	}
}

// bothWrites are the two kinds of remote write.
const bothWrites = AccessNwrite | AccessDmove
