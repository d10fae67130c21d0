package decision

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"sync"
	"testing"
	"time"

	"ringlet/filter"
	"ringlet/shmem"
	"ringlet/testkit/patiently"
)

// farm is a decision unit of rank 0 and builder units of ranks 1 to n, with a readout unit of rank n + 1, joined by a
// table and function calls.
type farm struct {
	t       testing.TB
	table   *shmem.Table
	unit    *Unit
	senders []*Sender

	onDecisions func(rank int, b []byte) // takes decisions that are told to a readout unit

	mu      sync.Mutex
	greeted map[int]int // by rank
}

// Signal is the decision unit's.
func (f *farm) Signal(rank int, b []byte) error {
	if KindOf(b) == KindDecisions {
		f.onDecisions(rank, b)
		return nil
	}
	var m Message
	if err := m.Parse(b); err != nil {
		f.t.Error(err)
	}
	if m.Kind == KindOpen {
		f.mu.Lock()
		f.greeted[rank]++
		f.mu.Unlock()
	}
	if rank > len(f.senders) {
		return nil
	}
	return f.senders[rank-1].HandleMessage(m)
}

func newFarm(t testing.TB, builders int, cfg UnitConfig) *farm {
	f := &farm{t: t, table: shmem.NewTable(builders), greeted: map[int]int{}}
	for i := range builders {
		f.senders = append(f.senders, NewSender(i, func(w Write) error { return f.write(i, w) }))
		t.Cleanup(func() { f.senders[i].Close() })
		cfg.BuilderRanks = append(cfg.BuilderRanks, i+1)
	}
	cfg.RingCapacity, cfg.Table, cfg.Signaler = RingCapacityFor(1), f.table, f
	var err error
	name := fmt.Sprintf("ringlet-test-decision-%d-%d", os.Getpid(), time.Now().UnixNano())
	if cfg.Segment, err = shmem.Create(name, SegmentSize(builders, cfg.RingCapacity)); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cfg.Segment.Close() })
	if f.unit, err = NewUnit(cfg); err != nil {
		t.Fatal(err)
	}
	for i := range builders {
		f.unit.Announce(i + 1)
	}
	if err := f.unit.HandleMessage(builders+1, (&Message{Kind: KindRequestOpen}).Append(nil)); err != nil {
		t.Fatal(err)
	}
	if !f.unit.IsRingOf(1, f.unit.ringByRank[1].ref) || f.unit.IsRingOf(0, f.unit.ringByRank[1].ref) {
		t.Error("a result ring is its builder unit's")
	}
	return f
}

func (f *farm) write(builder int, w Write) error {
	to, v := f.table.Acquire(shmem.Peer(builder+1), w.Ref, w.Offset, uint32(len(w.Data)), shmem.AccessNwrite)
	if v != 0 {
		return errors.New(v.String())
	}
	copy(to, w.Data)
	f.table.Release(w.Ref)
	f.senders[builder].WriteCompleted(w.Cookie, nil)
	f.unit.ResultsPlaced(builder+1, w.Ref, w.Offset, uint32(len(w.Data)))
	return nil
}

// kept is an outlet that keeps what it gets.
type kept struct{ all []Result }

func (k *kept) Publish(b []byte) {
	for ; len(b) > 0; b = b[ResultSize:] {
		var r Result
		if err := r.Parse(b[:ResultSize]); err != nil {
			panic(err)
		}
		k.all = append(k.all, r)
	}
}

// Builder units judge events in parallel, some of which are lost: each event has one decision, in order, at every
// subscriber.
func TestFarm(t *testing.T) {
	const builders, each = 5, 4000
	var stats OutletStats
	server, err := Listen("127.0.0.1:0", &stats, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	name := fmt.Sprintf("ringlet-test-decisions-%d", os.Getpid())
	buffer, err := OpenBuffer(name, &stats, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	byTCP, byBuffer := subscribe(t, server), read(t, name)
	var out kept
	f := newFarm(t, builders, UnitConfig{
		Core:    Config{MaxPending: builders * each, Timeout: time.Second, Epoch: 9},
		Outlets: []Outlet{&out, server, buffer},
	})
	if f.greeted[builders+1] != 1 || f.greeted[1] != 1 {
		t.Error(f.greeted)
	}
	var wg sync.WaitGroup
	for i, s := range f.senders {
		wg.Go(func() {
			for k := uint64(i); k < builders*each; k += builders {
				if k%1000 != 77 {
					s.AddVerdict(k, 1, filter.Verdict{Decision: filter.Rejected, Score: uint16(k)}, time.Microsecond)
				}
				if k%64 == 0 {
					time.Sleep(10 * time.Microsecond) // what waits is bounded
				}
			}
		})
	}
	if err := f.unit.HandleMessage(builders+1,
		(&Message{Kind: KindTriggered, Epoch: 9, Number: builders * each}).Append(nil)); err != nil {
		t.Fatal(err)
	}
	patiently.Wait(t, wg.Wait)
	f.end(time.Minute)
	s := f.unit.Stats()
	if s.Decided[filter.Rejected] != builders*each*999/1000 || s.TimedOut != builders*each/1000 || s.Pending != 0 {
		t.Errorf("%+v", s)
	}
	if err := errors.Join(server.Close(), buffer.Close()); err != nil {
		t.Error(err)
	}
	var tcp kept
	tcp.Publish(patiently.Receive(t, byTCP))
	kept := patiently.Receive(t, byBuffer)
	for what, all := range map[string][]Result{"here": out.all, "tcp": tcp.all, "buffer": kept.all} {
		for i := range all {
			if all[i].Event != uint64(i) || (all[i].Decision == filter.TimedOut) != (i%1000 == 77) {
				t.Fatalf("%s: decision %d is %v", what, i, &all[i])
			}
		}
		if len(all) != builders*each {
			t.Errorf("%s: %d decisions", what, len(all))
		}
	}
	if stats.Handed.Load() != 2*builders*each || stats.NoSpace.Load()+stats.SubscribersCutOff.Load() != 0 {
		t.Error(stats.Handed.Load(), stats.NoSpace.Load(), stats.SubscribersCutOff.Load())
	}
	l := f.unit.Latency()
	if l.Total.TotalCount() != builders*each || l.Judging.Max() != 1 || l.Building.TotalCount() != builders*each*999/1000 {
		t.Error(l.Total.TotalCount(), l.Judging.Max(), l.Building.TotalCount())
	}
}

// end flushes the senders and ends the unit.
func (f *farm) end(within time.Duration) {
	f.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), within)
	defer cancel()
	for i, s := range f.senders {
		if err := s.Flush(ctx); err != nil {
			f.t.Error(err)
		}
		f.over(i+1, s.Close())
	}
	f.over(len(f.senders)+1, 0) // who asked
	f.unit.FinishDecisions(ctx)
	if err := f.unit.Close(); err != nil {
		f.t.Error(err)
	}
}

// over tells that a rank has told all.
func (f *farm) over(rank int, results uint64) {
	f.t.Helper()
	m := Message{Kind: KindEnd, Epoch: f.unit.cfg.Core.Epoch, Number: results}
	if err := f.unit.HandleMessage(rank, m.Append(nil)); err != nil {
		f.t.Error(err)
	}
}

// The end waits for who has not told all, though every event has its decision by then: what comes later would be
// counted by nobody.
func TestEndWaitsForWhatIsOnItsWay(t *testing.T) {
	f := newFarm(t, 2, UnitConfig{Core: Config{Epoch: 3, Timeout: time.Microsecond}})
	m := Message{Kind: KindTriggered, Epoch: 3, Number: 10}
	if err := f.unit.HandleMessage(3, m.Append(nil)); err != nil {
		t.Fatal(err)
	}
	f.wait(func(s UnitStats) bool { return s.TimedOut == 10 })
	ended := make(chan struct{})
	go func() {
		f.unit.FinishDecisions(context.Background())
		close(ended)
	}()
	waits := func(why string) {
		t.Helper()
		select {
		case <-ended:
			t.Fatal("it has ended, and ", why)
		case <-time.After(3 * drainPollInterval):
		}
	}
	waits("nobody has told all")
	f.over(3, 0)
	f.unit.RankLost(2)
	f.over(1, 4)
	waits("four results of rank 1 have not come")
	f.senders[0].AddVerdict(0, 4, filter.Verdict{Decision: filter.Accepted}, 0)
	patiently.Receive(t, ended)
	if s := f.unit.Stats(); s.Results[FateLate] != 4 {
		t.Errorf("%+v", s)
	}
	for _, bad := range []struct {
		rank    int
		results uint64
	}{{2, 0}, {7, 0}, {3, 1}} { // lost, unknown, without a ring
		m := Message{Kind: KindEnd, Epoch: 3, Number: bad.results}
		if err := f.unit.HandleMessage(bad.rank, m.Append(nil)); err == nil {
			t.Errorf("rank %d tells its end, with %d results", bad.rank, bad.results)
		}
	}
	if err := f.unit.Close(); err != nil {
		t.Error(err)
	}
}

func subscribe(t *testing.T, server *Server) <-chan []byte {
	conn := dial(t, server)
	out := make(chan []byte, 1)
	go func() {
		defer func() { _ = conn.Close() }()
		all, _ := io.ReadAll(conn)
		out <- all
	}()
	return out
}

// dial connects to a server, which has nobody else yet, and waits until it is subscribed.
func dial(t *testing.T, server *Server) net.Conn {
	conn, err := net.Dial("tcp", server.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	for begun := time.Now(); server.stats.SubscribersJoined.Load() == 0; time.Sleep(time.Millisecond) {
		if time.Since(begun) > patiently.LongTimeout {
			t.Fatal("it is not subscribed")
		}
	}
	return conn
}

func read(t *testing.T, name string) <-chan *kept {
	r, err := shmem.OpenReader(name)
	if err != nil {
		t.Fatal(err)
	}
	out := make(chan *kept, 1)
	go func() {
		defer func() { _ = r.Close() }()
		k := &kept{}
		for {
			e, err := r.Next(context.Background())
			if err != nil {
				out <- k
				return
			}
			if e.Type != entryDecisions {
				panic(e.Type)
			}
			k.Publish(e.Data)
			if err := r.Ack(e); err != nil {
				panic(err)
			}
		}
	}()
	return out
}

// A unit that comes back begins with what is triggered next; what was meant for the one before is counted.
func TestBack(t *testing.T) {
	var out kept
	f := newFarm(t, 1, UnitConfig{
		Core:      Config{Epoch: 2, Timeout: time.Minute},
		Outlets:   []Outlet{&out},
		Rejoining: true,
	})
	v := filter.Verdict{Decision: filter.Accepted}
	f.senders[0].AddVerdict(999, 1, v, 0) // nobody has said where to begin
	f.wait(func(s UnitStats) bool { return s.BeforeFirstEvent == 1 })
	trigger := func(below uint64) {
		m := Message{Kind: KindTriggered, Epoch: 2, Number: below}
		if err := f.unit.HandleMessage(2, m.Append(nil)); err != nil {
			t.Fatal(err)
		}
	}
	trigger(1000)
	f.senders[0].AddVerdict(999, 2, v, 0)
	f.wait(func(s UnitStats) bool { return s.Results[FateLate] == 1 && s.Decisions() == 1 })
	f.unit.ResultsPlaced(7, shmem.Ref{}, 0, 16)
	for _, bad := range [][]byte{
		nil,
		(&Message{Kind: KindCredit, Epoch: 2}).Append(nil),
		(&Message{Kind: KindTriggered, Epoch: 2, Number: maxEventNumber + 1}).Append(nil),
		(&Message{Kind: KindTriggered, Epoch: 2, Number: maxEventNumber}).Append(nil), // it would decide for weeks
	} {
		if err := f.unit.HandleMessage(2, bad); err == nil {
			t.Errorf("% x is used", bad)
		}
	}
	if err := f.unit.HandleMessage(2, (&Message{Kind: KindTriggered, Epoch: 1, Number: 1 << 40}).Append(nil)); err != nil {
		t.Error(err)
	}
	f.end(time.Second)
	if s := f.unit.Stats(); s.FirstEvent != 1000 || s.Triggered != 1 || s.Refused != 5 || len(out.all) != 1 {
		t.Errorf("%+v, %v", s, out.all)
	}
}

func (f *farm) wait(until func(UnitStats) bool) {
	f.t.Helper()
	for begun := time.Now(); !until(f.unit.Stats()); time.Sleep(time.Millisecond) {
		if time.Since(begun) > patiently.LongTimeout {
			f.t.Fatalf("%+v", f.unit.Stats())
		}
	}
}

// A builder unit whose decision unit is gone goes on; its results are accounted for.
func TestLost(t *testing.T) {
	gone := errors.New("the link is down")
	fail := true
	var s *Sender
	s = NewSender(0, func(w Write) error {
		if fail {
			return gone
		}
		s.WriteCompleted(w.Cookie, nil)
		return nil
	})
	defer s.Close()
	v := filter.Verdict{Decision: filter.Accepted}
	s.AddVerdict(0, 10, v, 0)
	if err := s.HandleMessage(open(1, 100)); err != nil {
		t.Fatal(err)
	}
	patiently.Until(t, "ten verdicts are not acknowledged", func() bool { return s.Stats().Unacked == 10 })
	s.AddVerdict(10, 10, v, 0)
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Millisecond)
	defer cancel()
	if err := s.Flush(ctx); err == nil {
		t.Error("flushed to nobody")
	}
	fail = false
	if err := s.HandleMessage(open(2, 100)); err != nil {
		t.Fatal(err)
	}
	if err := s.Flush(context.Background()); err != nil {
		t.Error(err)
	}
	if got := s.Stats(); got.Sent != 10 || got.Judged != 20 || got.Unsent != 0 {
		t.Errorf("%+v", got)
	}
}

// A subscriber by TCP that reads nothing is cut off, and holds nobody up; so a buffer without readers.
func TestSlow(t *testing.T) {
	var stats OutletStats
	server, err := Listen("127.0.0.1:0", &stats, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	conn := dial(t, server)
	defer func() { _ = conn.Close() }()
	buffer, err := OpenBuffer(fmt.Sprintf("ringlet-test-slow-%d", os.Getpid()), &stats, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	batch := make([]byte, maxBatch*ResultSize)
	for i := 0; stats.SubscribersCutOff.Load() == 0 || stats.NoSpace.Load() == 0; i++ {
		server.Publish(batch)
		buffer.Publish(batch)
		if i > 1e5 {
			t.Fatal("never slow")
		}
	}
	if err := errors.Join(server.Close(), buffer.Close()); err != nil {
		t.Error(err)
	}
}

func TestAddresses(t *testing.T) {
	got, err := ParseAddresses("buffer:dec, tcp:127.0.0.1:7001")
	if err != nil || len(got) != 2 || got[0] != (OutletAddress{"buffer", "dec"}) ||
		got[1] != (OutletAddress{"tcp", "127.0.0.1:7001"}) {
		t.Error(got, err)
	}
	for _, bad := range []string{"x", "udp:h:1", "buffer:", "tcp:nowhere", "buffer:a/b", "buffer:a,"} {
		if _, err := ParseAddresses(bad); err == nil {
			t.Errorf("%q is taken", bad)
		}
	}
	if none, err := ParseAddresses(""); err != nil || none != nil {
		t.Error(none, err)
	}
}
