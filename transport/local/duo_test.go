package local

import (
	"errors"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"ringlet/shmem"
	"ringlet/testkit/patiently"
	"ringlet/transport/link"
)

// end is one process's part in a test: its table, its memory, its link, and what its handler was told.
type end struct {
	dir   string
	self  shmem.Peer
	table *shmem.Table
	mem   *shmem.Segment
	id    shmem.SegmentID
	link  *Link

	mu        sync.Mutex
	placed    []link.Placement
	signals   []string
	completed map[uint64][]error
	refused   []error
	down      error

	onPlaced func(link.Placement)
	onMany   func([]link.Placement)
	onSignal func([]byte)
}

func (e *end) Placed(_ int, p link.Placement) {
	if e.onPlaced != nil {
		e.onPlaced(p)
		return
	}
	e.record(func() { e.placed = append(e.placed, p) })
}

func (e *end) PlacedMany(_ int, ps []link.Placement) {
	if e.onMany != nil {
		e.onMany(ps)
		return
	}
	e.record(func() { e.placed = append(e.placed, ps...) })
}

func (e *end) Signal(_ int, p []byte) {
	if e.onSignal != nil {
		e.onSignal(p)
		return
	}
	e.record(func() { e.signals = append(e.signals, string(p)) })
}

func (e *end) Completed(_ int, cookie uint64, err error) {
	if e.onPlaced == nil { // who counts allocations or time wants no list of outcomes
		e.record(func() { e.completed[cookie] = append(e.completed[cookie], err) })
	}
}
func (e *end) Refused(_ int, _ link.Placement, err error) {
	e.record(func() { e.refused = append(e.refused, err) })
}
func (e *end) onDown(err error) { e.record(func() { e.down = err }) }

func (e *end) record(f func()) {
	e.mu.Lock()
	defer e.mu.Unlock()
	f()
}

func (e *end) await(t testing.TB, what string, ok func() bool) {
	t.Helper()
	for end := time.Now().Add(patiently.LongTimeout); ; time.Sleep(100 * time.Microsecond) {
		e.mu.Lock()
		done := ok()
		e.mu.Unlock()
		if done {
			return
		}
		if time.Now().After(end) {
			t.Fatalf("no %s", what)
		}
	}
}

const windows = 256

// newEnd makes a process's memory and its half of a link. Its name tells the processes apart.
func newEnd(dir, name string, self shmem.Peer, memory int, cfg Config) (e *end, err error) {
	e = &end{dir: dir, self: self, completed: map[uint64][]error{}}
	if e.table, err = shmem.NewSharedTable("ringlet-t-"+name+"-table", windows, shmem.TableDir(dir)); err != nil {
		return nil, err
	}
	if e.mem, err = shmem.Create("ringlet-t-"+name+"-memory", memory, shmem.WithDir(dir)); err != nil {
		return nil, err
	}
	rule := shmem.PageRule{PageCount: memory / shmem.PageSize, Peer: shmem.AnyPeer,
		Access: shmem.AccessNwrite | shmem.AccessDmove}
	if e.id, err = e.table.ExportSegment(e.mem, rule); err != nil {
		return nil, err
	}
	cfg.Table, cfg.Self, cfg.Peer, cfg.PeerName = e.table, self, 1-self, "the peer"
	cfg.Handler, cfg.OnDown = e, e.onDown
	e.link, err = New(cfg)
	return e, err
}

func (e *end) close() error {
	return errors.Join(e.link.Close(), e.table.Close(), e.mem.Close())
}

func (e *end) grant(t testing.TB, off, n int) shmem.Ref {
	t.Helper()
	r, err := e.table.Grant(1-e.self, e.id, off, n, shmem.AccessNwrite)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// testDir is a directory on the shared memory file system where there is one.
func testDir(t testing.TB) string {
	t.Helper()
	dir, err := os.MkdirTemp(shmem.DefaultDir, "local-test-")
	if err != nil {
		return t.TempDir()
	}
	t.Cleanup(func() {
		remaining, err := os.ReadDir(dir)
		if err != nil || len(remaining) > 0 {
			t.Errorf("left behind: %v %v", remaining, err)
		}
		_ = os.RemoveAll(dir)
	})
	return dir
}

// duo is two ends in one process, joined once setup has had its say. The race detector does not follow what goes
// through shared memory, so that nothing else may be handed over by it.
func duo(t testing.TB, memory int, cfg Config, setup func(a, b *end)) (a, b *end) {
	t.Helper()
	dir := testDir(t)
	ends := [2]*end{}
	for i := range ends {
		var err error
		if ends[i], err = newEnd(dir, string(rune('a'+i)), shmem.Peer(i), memory, cfg); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			if err := ends[i].close(); err != nil {
				t.Error(err)
			}
		})
	}
	a, b = ends[0], ends[1]
	if setup != nil {
		setup(a, b)
	}
	for _, err := range []error{b.link.Join(a.link.Offer()), a.link.Join(b.link.Offer())} {
		if err != nil {
			t.Fatal(err)
		}
	}
	a.link.Start()
	b.link.Start()
	return a, b
}

// mapped counts this process's mappings and open files whose path holds part.
func mapped(t testing.TB, substring string) (maps, fds int) {
	t.Helper()
	b, err := os.ReadFile("/proc/self/maps")
	if err != nil {
		t.Skip(err)
	}
	for _, l := range strings.Split(string(b), "\n") {
		if strings.Contains(l, substring) {
			maps++
		}
	}
	open, _ := os.ReadDir("/proc/self/fd")
	for _, f := range open {
		if to, err := os.Readlink("/proc/self/fd/" + f.Name()); err == nil && strings.Contains(to, substring) {
			fds++
		}
	}
	return maps, fds
}
