package memory

import (
	"bytes"
	"cmp"
	"context"
	"flag"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"ringlet/shmem"
	"ringlet/testkit/cases"
	"ringlet/testkit/must"
	"ringlet/testkit/patiently"
	"ringlet/transport/simnet"
)

var schedules = flag.Int("schedules", 0,
	"random schedules of reads and writes that race with the end of what they are for; 0: 400, or 120 in the short form")

// A world that fails says its number, and is played again alone with -schedules 20.
var firstWorld = flag.Uint64("first-world", 0, "number of the first world of schedules")

// A schedule is one export, from its beginning to what ends it, while two other nodes import, write, read and change
// words. Their imports may be of exports that are over, and some have tables that they have made up.

const (
	schedulePages = 8
	rounds        = 20 // schedules of one world
)

// disturbances are what may end an export.
var disturbances = []string{"withdrawn", "the owner dies", "an importer dies", "a cut", "a new view"}

// TestNothingOutsideAGrant holds for each schedule: a byte that changes was open for writing to who wrote it, in this
// export and no other; a byte that is read was open for reading; nothing changes once the export is closed.
func TestNothingOutsideAGrant(t *testing.T) {
	dir := t.TempDir()
	var sum Stats
	all := uint64(cmp.Or(*schedules, cases.Count(400, 120)))
	for seed := *firstWorld; (seed-*firstWorld)*rounds < all; seed++ {
		synctest.Test(t, func(t *testing.T) {
			s := newScene(t, seed, dir)
			s.play()
			sum.TransactionsDone += s.sum.TransactionsDone
			sum.RequestsRefused += s.sum.RequestsRefused
			sum.WritesRefused += s.sum.WritesRefused
			sum.TransactionsUnknown += s.sum.TransactionsUnknown
		})
		if t.Failed() {
			t.Fatalf("world %d", seed)
		}
	}
	t.Logf("%d done, %d requests and %d writes refused by owners, %d unknown", sum.TransactionsDone, sum.RequestsRefused,
		sum.WritesRefused, sum.TransactionsUnknown)
	if sum.TransactionsDone == 0 || sum.RequestsRefused == 0 || sum.WritesRefused == 0 || sum.TransactionsUnknown == 0 {
		t.Error("the test tries too little")
	}
}

type scene struct {
	*world
	rng  *rand.Rand
	seg  *shmem.Segment
	sum  Stats
	stop chan struct{}

	mu    sync.Mutex         // guards what follows
	rules map[uint64][]Pages // by epoch
}

func newScene(t *testing.T, seed uint64, dir string) *scene {
	rng := rand.New(rand.NewPCG(seed, 61))
	s := &scene{
		rng:   rng,
		rules: map[uint64][]Pages{},
		stop:  make(chan struct{}),
		world: newWorld(t, 3, simnet.Faults{
			Loss:      0.1 * rng.Float64(),
			Duplicate: 0.1 * rng.Float64(),
			Reorder:   0.3 * rng.Float64(),
			Delay:     time.Duration(rng.IntN(500)) * time.Microsecond,
		}, seed, dir),
	}
	s.connect()
	s.seg = s.segment(schedulePages * PageSize)
	return s
}

func (s *scene) space(rank int) *Space {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.spaces[rank]
}

func (s *scene) play() {
	var wg sync.WaitGroup
	for rank := 1; rank < 3; rank++ {
		for range 2 {
			seed := s.rng.Uint64()
			wg.Go(func() { s.client(rank, rand.New(rand.NewPCG(seed, 1))) })
		}
	}
	for range rounds {
		s.round()
	}
	close(s.stop)
	patiently.Wait(s.t, wg.Wait)
	for rank := range s.spaces {
		s.end(rank)
	}
	must.OK(s.t, s.seg.Close())
}

// end stops a process, and keeps its counters.
func (s *scene) end(rank int) {
	n := s.spaces[rank].Stats()
	s.sum.TransactionsDone += n.TransactionsDone
	s.sum.RequestsRefused += n.RequestsRefused
	s.sum.WritesRefused += n.WritesRefused
	s.sum.TransactionsUnknown += n.TransactionsUnknown
	must.OK(s.t, s.spaces[rank].Close())
	must.OK(s.t, s.nets[rank].Close())
}

// again starts a process of a rank that others know to be gone.
func (s *scene) again(rank int) {
	s.mu.Lock()
	s.start(rank)
	s.mu.Unlock()
	ctx, cancel := context.WithTimeout(context.Background(), patiently.LongTimeout)
	defer cancel()
	must.OK(s.t, s.spaces[rank].Reconnect(ctx, s.others(rank)))
}

func fillOf(page int) byte { return 0xC0 + byte(page) }

func tagOf(epoch uint64, rank int) byte { return byte(1 + epoch%60*3 + uint64(rank)) }

// round plays one schedule.
func (s *scene) round() {
	mem := s.seg.Bytes()
	for page := range schedulePages {
		copy(mem[page*PageSize:], bytes.Repeat([]byte{fillOf(page)}, PageSize))
	}
	var rules []Pages
	for range 1 + s.rng.IntN(10) {
		first := s.rng.IntN(schedulePages)
		rules = append(rules, Pages{
			First:      first,
			Count:      1 + s.rng.IntN(schedulePages-first),
			Peer:       s.rng.IntN(4) - 1,
			Allow:      Allow(s.rng.IntN(16)),
			Attributes: Attributes(s.rng.IntN(8)),
		})
	}
	x, err := s.spaces[0].Export("segment", s.seg, rules...)
	must.OK(s.t, err)
	s.mu.Lock()
	s.rules[x.e.epoch] = rules
	s.mu.Unlock()
	time.Sleep(time.Duration(s.rng.IntN(8000)) * time.Microsecond)
	how := s.rng.IntN(len(disturbances) + 4) // most are only withdrawn
	if how >= len(disturbances) {
		how = 0
	}
	victim := 1 + s.rng.IntN(2)
	switch disturbances[how] {
	case "the owner dies":
		s.end(0)
		defer s.again(0)
	case "an importer dies":
		s.end(victim)
		must.OK(s.t, x.Close())
		defer s.again(victim)
	case "a cut":
		s.fabric.Partition("n0", s.view.Members[victim].Name, true)
		time.Sleep(time.Duration(s.rng.IntN(20)) * time.Millisecond)
		must.OK(s.t, x.Close())
		defer s.fabric.Partition("n0", s.view.Members[victim].Name, false)
	case "a new view":
		for rank := range s.spaces {
			s.end(rank)
		}
		s.mu.Lock()
		s.view.Number++
		for rank := range s.spaces {
			s.start(rank)
		}
		s.mu.Unlock()
		s.connect()
	default:
		must.OK(s.t, x.Close())
	}
	s.check(x.e.epoch, rules, disturbances[how])
}

// check looks at the memory of an export that is closed, twice.
func (s *scene) check(epoch uint64, rules []Pages, how string) {
	before := bytes.Clone(s.seg.Bytes())
	for page := range schedulePages {
		var may [256]bool // a map would take a fifth of the test's time
		may[fillOf(page)] = true
		words := false
		for rank := 1; rank < 3; rank++ {
			r, _ := ruleAt(rules, rank, page, schedulePages)
			if r != nil && r.Allow&AllowWrite != 0 {
				may[tagOf(epoch, rank)] = true
			}
			words = words || r != nil && r.Allow&AllowLock != 0
		}
		for i, b := range before[page*PageSize:][:PageSize] {
			if !may[b] && !(words && i < 8) {
				s.t.Fatalf("%s: byte %d of page %d is %#x; open was %+v", how, i, page, b, rules)
			}
		}
	}
	time.Sleep(time.Duration(s.rng.IntN(4000)) * time.Microsecond)
	if !bytes.Equal(before, s.seg.Bytes()) {
		s.t.Fatalf("%s: bytes changed after the export was closed", how)
	}
}

// client imports, uses what it has imported for a while, whatever becomes of it, and imports again.
func (s *scene) client(rank int, rng *rand.Rand) {
	for {
		select {
		case <-s.stop:
			return
		case <-time.After(time.Duration(1+rng.IntN(500)) * time.Microsecond):
		}
		ctx, cancel := context.WithTimeout(context.Background(), 20*time.Millisecond)
		im, err := s.space(rank).Import(ctx, "segment@n0")
		cancel()
		if err != nil {
			continue
		}
		im = im.InContext(rng.IntN(numContexts))
		if rng.IntN(3) == 0 {
			im = lie(im, rng)
		}
		for range 1 + rng.IntN(20) {
			if err := s.use(im, rank, rng); err != nil {
				s.t.Error(err)
				return
			}
		}
		if rng.IntN(2) == 0 {
			im.Close()
		}
	}
}

// lie makes up a table: everything is open, in windows that reach further, or are others.
func lie(im *Import, rng *rand.Rand) *Import {
	mad := &imported{
		space: im.space,
		peer:  im.peer,
		rank:  im.rank,
		node:  im.node,
		name:  im.name,
		epoch: im.epoch,
		size:  im.size,
	}
	for page := range schedulePages {
		r := pageRun{first: page, count: 1, allow: AllowAll, attributes: Attributes(rng.IntN(8))}
		if len(im.runs) > 0 {
			r.ref = im.runs[rng.IntN(len(im.runs))].ref
		}
		if rng.IntN(3) == 0 {
			r.ref = shmem.Ref{Window: uint32(rng.IntN(8)), Gen: r.ref.Gen + uint32(rng.IntN(2))}
		}
		mad.runs = append(mad.runs, r)
	}
	return &Import{imported: mad, context: im.context}
}

// use does one thing with an import. What is refused is no error; what is read wrong is.
func (s *scene) use(im *Import, rank int, rng *rand.Rand) error {
	ctx, cancel := context.WithTimeout(context.Background(), time.Duration(1+rng.IntN(10000))*time.Microsecond)
	defer cancel()
	off := int64(rng.IntN(schedulePages * PageSize))
	n := min(1+rng.IntN(1<<rng.IntN(15)), int(im.size-off))
	switch rng.IntN(7) {
	case 0:
		for range 1 + rng.IntN(20) { // more than an owner that is cut off has room for
			_ = im.Post(off, bytes.Repeat([]byte{tagOf(im.epoch, rank)}, min(n, int(PageSize-off%PageSize))))
		}
	case 1:
		_ = im.Write(ctx, off, bytes.Repeat([]byte{tagOf(im.epoch, rank)}, n))
	case 2:
		_, _ = im.Add(ctx, off/PageSize*PageSize, rng.Uint64())
	case 3:
		_ = im.Fence(ctx)
	case 4:
		_, _ = im.Notify(ctx, off)
	case 5:
		b := make([]byte, n)
		if im.Read(ctx, off, b) != nil {
			return nil
		}
		return s.mayHaveRead(im.epoch, rank, b)
	case 6:
		var pieces []Piece
		for range 1 + rng.IntN(100) {
			off := int64(rng.IntN(schedulePages * PageSize))
			n := min(1+rng.IntN(256), int(im.size-off))
			pieces = append(pieces, Piece{off, bytes.Repeat([]byte{tagOf(im.epoch, rank)}, n)})
		}
		_ = im.WriteMany(ctx, pieces)
	}
	return nil
}

// mayHaveRead holds that a client which reads fills reads those of pages that are open to it. A client that lies does
// not know which page it reads, but the fills tell.
func (s *scene) mayHaveRead(epoch uint64, rank int, b []byte) error {
	s.mu.Lock()
	rules := s.rules[epoch]
	s.mu.Unlock()
	var open [256]bool
	for page := range schedulePages {
		r, _ := ruleAt(rules, rank, page, schedulePages)
		open[fillOf(page)] = r != nil && r.Allow&AllowRead != 0
	}
	for i, v := range b {
		if v >= fillOf(0) && v < fillOf(schedulePages) && !open[v] && len(b) > 8 && i+8 < len(b) && b[i+8] == v {
			return fmt.Errorf("rank %d has read %#x, of a page that is closed to it: %+v", rank, v, rules)
		}
	}
	return nil
}
