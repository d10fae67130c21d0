package external

import (
	"context"
	"encoding/binary"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"ringlet/event"
	"ringlet/event/pattern"
	"ringlet/event/selection"
	"ringlet/filter"
	"ringlet/shmem"
	"ringlet/shmem/ring"
	"ringlet/testkit/logged"
	"ringlet/testkit/must"
	"ringlet/testkit/patiently"
)

const sources = 3

func testPattern(t must.TB) *pattern.Pattern {
	t.Helper()
	p, err := pattern.New(pattern.Config{
		Seed:         1,
		Sources:      sources,
		FragmentSize: 50,
		Align:        2,
	})
	must.OK(t, err)
	return p
}

// entryOf is a MEP of n events from first on, and its mark.
func entryOf(t must.TB, p *pattern.Pattern, mep, first uint64, n int) []byte {
	t.Helper()
	buf := make([]byte, event.MEPHeaderSize(sources))
	var ids []uint16
	var offsets []uint32
	for s := range uint16(sources) {
		mfp := make([]byte, p.MaxMFP(s, n))
		size, _, err := p.FillMFP(mfp, s, first, n, false)
		must.OK(t, err)
		ids, offsets = append(ids, s), append(offsets, uint32(len(buf)/4))
		buf = append(buf, mfp[:size]...)
	}
	_, err := event.PutMEPHeader(buf, ids, offsets, uint32(len(buf)/4))
	must.OK(t, err)
	buf = binary.LittleEndian.AppendUint64(buf, mep)
	buf = binary.LittleEndian.AppendUint64(buf, first)
	buf = binary.LittleEndian.AppendUint32(buf, uint32(n))
	buf = binary.LittleEndian.AppendUint32(buf, 1)
	return binary.LittleEndian.AppendUint64(buf, 9)
}

// desk is a pool that serves, and what it gave back.
type desk struct {
	*Pool
	t     *testing.T
	log   *logged.Buffer
	cases chan *filter.Case
	free  chan struct{}
	stop  func()
	p     *pattern.Pattern

	mu  sync.Mutex
	got map[uint64]filter.Verdict // by event
	bad string
}

// open has a pool serve until the end of the test. So many cases may be under way.
func open(t *testing.T, deadline time.Duration, jobs int) *desk {
	t.Helper()
	return openAs(t, fmt.Sprintf("test%d", time.Now().UnixNano()), deadline, jobs)
}

// openAs is open under a name.
func openAs(t *testing.T, name string, deadline time.Duration, jobs int) *desk {
	t.Helper()
	d := &desk{
		t:     t,
		log:   &logged.Buffer{},
		cases: make(chan *filter.Case, jobs),
		free:  make(chan struct{}, jobs),
		p:     testPattern(t),
		got:   map[uint64]filter.Verdict{},
	}
	d.Pool = New(Config{
		Name:       name,
		Builder:    3,
		Run:        9,
		Deadline:   deadline,
		MaxMEPSize: 64 << 10,
		Log:        slog.New(slog.NewTextHandler(d.log, nil)),
	})
	ctx, cancel := context.WithCancel(context.Background())
	served := make(chan struct{})
	go func() {
		defer close(served)
		d.Serve(ctx, d.cases, d.finish)
	}()
	d.stop = sync.OnceFunc(func() {
		cancel()
		patiently.Receive(t, served, "the pool does not end")
	})
	t.Cleanup(d.stop)
	return d
}

func (d *desk) finish(c *filter.Case) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for i, v := range c.Verdicts {
		if _, twice := d.got[c.FirstEvent+uint64(i)]; twice || !v.Decision.Valid() {
			d.bad = fmt.Sprintf("event %d: %+v, twice %v", c.FirstEvent+uint64(i), v, twice)
		}
		d.got[c.FirstEvent+uint64(i)] = v
	}
	patiently.Receive(d.t, d.free)
}

// put gives n MEPs from MEP first on to the pool.
func (d *desk) put(first uint64, n, packing int) {
	d.t.Helper()
	for k := first; k < first+uint64(n); k++ {
		select {
		case d.free <- struct{}{}:
		case <-time.After(patiently.LongTimeout):
			d.t.Fatal("no case comes back")
		}
		d.cases <- &filter.Case{
			Meta:       selection.Meta{Run: 9, MEP: k, Attempt: 1},
			FirstEvent: k * uint64(packing),
			Events:     packing,
			Entry:      entryOf(d.t, d.p, k, k*uint64(packing), packing),
			Verdicts:   make([]filter.Verdict, packing),
		}
	}
}

// wait waits until so many events have a verdict, and returns how many have which decision.
func (d *desk) wait(events int) (count [filter.Decisions]int) {
	d.t.Helper()
	until(d.t, fmt.Sprintf("%d verdicts", events), func() bool {
		d.mu.Lock()
		defer d.mu.Unlock()
		return len(d.got) >= events
	})
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, v := range d.got {
		count[v.Decision]++
	}
	if d.bad != "" || len(d.got) != events {
		d.t.Fatalf("%d verdicts of %d events; %s", len(d.got), events, d.bad)
	}
	return count
}

func until(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for begun := time.Now(); !ok(); time.Sleep(time.Millisecond) {
		if time.Since(begun) > patiently.LongTimeout {
			t.Fatalf("not in time: %s", what)
		}
	}
}

// client is a filter process of this process: its lock is another open of the memory's file.
type client struct {
	t   *testing.T
	seg *shmem.Segment
	mem *shmem.Segment // of the events
	put *ring.Producer
	get *shmem.Reader
}

// attach takes a place, the lowest that is free.
func (d *desk) attach() *client {
	d.t.Helper()
	c := &client{t: d.t}
	until(d.t, "a place", func() bool {
		for i := range maxWorkers {
			if c.tryAttach(d.workerName(i)) {
				return true
			}
		}
		return false
	})
	d.t.Cleanup(c.crash)
	return c
}

// workerName is the name of one.
func (d *desk) workerName(i int) string {
	return fmt.Sprintf("%s%s-3-%d", segmentPrefix, d.cfg.Name, i)
}

func (c *client) tryAttach(name string) bool {
	seg, err := shmem.Open(name + answersSuffix)
	if err != nil {
		return false
	}
	ours, err := seg.ClaimByte(ring.ProducerByte)
	if err == nil && ours {
		c.put, err = ring.AttachProducer(name, seg.Bytes(), ring.ProducerInfo{PID: 77})
	}
	if err == nil && ours {
		c.get, err = shmem.OpenReader(name)
	}
	if err == nil && ours {
		if c.mem, err = shmem.Open(name); err != nil {
			_ = c.get.Close()
		}
	}
	if err != nil || !ours {
		_ = seg.Close()
		return false
	}
	c.seg = seg
	return true
}

// crash drops the lock, as the kernel does for a process that dies.
func (c *client) crash() {
	if c.seg == nil {
		return
	}
	_ = c.seg.Close()
	c.seg = nil
	_ = c.mem.Close()
	_ = c.get.Close()
}

// scribble writes a byte somewhere into the buffer of events.
func (c *client) scribble(r *rand.Rand) {
	b := c.mem.Bytes()
	b[r.IntN(min(len(b), 0x1800))] = byte(r.Uint32())
}

// soon is next that does not wait for long.
func (c *client) soon() (first uint64, n int, ok bool) {
	ctx, cancel := context.WithTimeout(c.t.Context(), 30*time.Millisecond)
	defer cancel()
	e, err := c.get.Next(ctx)
	if err != nil || len(e.Data) < 32 {
		return 0, 0, false
	}
	first, n = binary.LittleEndian.Uint64(e.Data[len(e.Data)-32:][8:]), 1
	_ = c.get.Ack(e)
	return first, n, true
}

// next is the number of the first event of the next MEP, and of its events; false: nothing comes any more.
func (c *client) next() (first uint64, n int, ok bool) {
	ctx, cancel := context.WithTimeout(c.t.Context(), patiently.LongTimeout)
	defer cancel()
	e, err := c.get.Next(ctx)
	if err != nil {
		return 0, 0, false
	}
	mark := e.Data[len(e.Data)-32:]
	first, n = binary.LittleEndian.Uint64(mark[8:]), int(binary.LittleEndian.Uint32(mark[16:]))
	must.OK(c.t, c.get.Ack(e))
	return first, n, true
}

// say puts bytes about an event into the ring.
func (c *client) say(event uint64, b []byte) {
	place, ok, err := c.put.Reserve(len(b))
	if err == nil && ok {
		copy(place, b)
		err = c.put.Commit(event, 0, len(b))
	}
	_ = err // a ring that was closed takes nothing
}

// judge answers all that comes: it accepts odd events.
func (c *client) judge() {
	for {
		first, n, ok := c.next()
		if !ok {
			return
		}
		for e := first; e < first+uint64(n); e++ {
			c.say(e, resultOf(e, filter.Decision(2-e%2), uint16(e)))
		}
	}
}

// start has a client judge in the background, to the end of the test.
func (d *desk) start() { d.judges(d.attach()) }

// judges has a client judge in the background; it is over before its memory goes.
func (d *desk) judges(c *client) {
	judged := make(chan struct{})
	go func() {
		defer close(judged)
		c.judge()
	}()
	d.t.Cleanup(func() {
		d.stop()
		patiently.Receive(d.t, judged, "a client does not end")
	})
}
