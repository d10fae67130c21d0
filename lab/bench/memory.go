package bench

// Remote memory through its interface for users: an owner and a user, linked by a carrier, in one process. The
// references of the same run are in memorybeside.go.

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"ringlet/memory"
	"ringlet/node/config"
	"ringlet/shmem"
	"ringlet/transport/quic"
)

// MemoryConfig says which sizes are written and read.
type MemoryConfig struct {
	NodesConfig
	Sizes       []config.Bytes
	Duration    time.Duration // of each measurement
	Concurrency int           // transactions at a time, for throughput
	MPI         bool          // measure OpenMPI's one-sided operations as well
}

const (
	memorySize     = 16 << 20
	maxConcurrency = 64
)

// Validate returns a *UsageError that names a setting with an impossible value; nil if all are possible.
func (c *MemoryConfig) Validate() error {
	if len(c.Sizes) == 0 {
		return usageErrorf("sizes", "no size is given")
	}
	for _, size := range c.Sizes {
		if size < 1 || size > memorySize {
			return usageErrorf("sizes", "%s is not between 1 B and %s", size, config.Bytes(memorySize))
		}
	}
	return cmp.Or(checkRange("lanes", c.Concurrency, 1, maxConcurrency), c.validate(c.Duration))
}

// memoryReport has the results; `ringlet bench memory --json` prints it. Times are medians, µs, of one transaction at a
// time.
type memoryReport struct {
	nodesReport
	Concurrency  int                   `json:"lanes"`
	UDPRoundTrip float64               `json:"udp_trip_us"` // of 128 B
	AddTime      float64               `json:"add_us"`
	Rows         []memoryRow           `json:"sizes"`
	References   []memoryReferenceRows `json:"beside"`
}

// memoryRow is one size. A figure that a reference does not have is 0.
type memoryRow struct {
	Size        int     `json:"size"`
	PutTime     float64 `json:"put_us,omitempty"`
	GetTime     float64 `json:"get_us,omitempty"`
	MessageTime float64 `json:"message_us,omitempty"` // from a put with a notice until the other side is awake
	PutGbps     float64 `json:"put_gbps,omitempty"`
	GetGbps     float64 `json:"get_gbps,omitempty"`
}

// memoryNode is the owner's or the user's node.
type memoryNode struct {
	network *quic.Network
	table   *shmem.Table
	space   *memory.Space
	rank    int
}

// memoryPair is an owner and a user of a segment.
type memoryPair struct {
	nodes       []*memoryNode
	segment     *shmem.Segment
	userImport  *memory.Import
	ownerImport *memory.Import
	concurrency int
}

// prepare measures remote memory, and its references.
func (c *MemoryConfig) prepare() (*memoryReport, []point, func() error, error) {
	r := &memoryReport{
		nodesReport: c.report(),
		Concurrency: c.Concurrency,
		Rows:        []memoryRow{},
		References:  []memoryReferenceRows{},
	}
	p := &memoryPair{concurrency: c.Concurrency}
	points := []point{{"memory: raw UDP", func(ctx context.Context, _ uint64) (err error) {
		r.UDPRoundTrip, err = c.udpTrip(ctx)
		return err
	}}, {"memory over " + c.Carrier, func(ctx context.Context, view uint64) error {
		if err := p.open(ctx, &c.NodesConfig, view); err != nil {
			return err
		}
		access, end, err := p.openAccess(ctx)
		if err != nil {
			return err
		}
		defer end()
		return c.measureAccess(ctx, access, &r.AddTime, &r.Rows)
	}}}
	for _, ref := range memoryReferences {
		points = append(points, point{"memory: " + ref.name, func(ctx context.Context, _ uint64) error {
			b := memoryReferenceRows{Name: ref.name, What: ref.what, Rows: []memoryRow{}}
			if err := ref.measure(ctx, c, p.segment.Bytes(), &b); err != nil && ctx.Err() == nil {
				b.WhyLeftOut = err.Error()
			}
			r.References = append(r.References, b)
			return nil
		}})
	}
	return r, points, p.close, nil
}

// memoryAccess is a way to access memory: at least 16 workers, each with one transaction under way.
type memoryAccess struct {
	put, get func(ctx context.Context, worker int, at int64, b []byte) error
	add      func(ctx context.Context) error // nil: there is none
	// message puts, and wakes the other side. It returns the time from the call until that side is awake. Nil: there is
	// none.
	message     func(ctx context.Context, b []byte) (time.Duration, error)
	maxSize     int // bytes at a time; 0: any
	concurrency int // transactions at a time, for throughput; 0: no throughput
}

// measureAccess measures one way to access memory, and keeps the figures so far also after an error.
func (c *MemoryConfig) measureAccess(ctx context.Context, m *memoryAccess, add *float64,
	rows *[]memoryRow) (err error) {
	if m.add != nil {
		if *add, err = c.medianTime(ctx, func(int) error { return m.add(ctx) }); err != nil {
			return err
		}
	}
	for _, size := range c.Sizes {
		if m.maxSize != 0 && int(size) > m.maxSize {
			continue
		}
		row, err := c.row(ctx, m, int(size))
		if err != nil {
			return err
		}
		*rows = append(*rows, row)
	}
	return nil
}

func (c *MemoryConfig) row(ctx context.Context, m *memoryAccess, size int) (row memoryRow, err error) {
	row.Size = size
	buffers := make([][]byte, max(1, m.concurrency))
	for worker := range buffers {
		buffers[worker] = bytes.Repeat([]byte{1}, size) // without a write, all pages would be one zero page
	}
	at := func(i int) int64 { return int64(i % (memorySize / size) * size) }
	putAt := func(worker, i int) error { return m.put(ctx, worker, at(i), buffers[worker]) }
	get := func(worker, i int) error { return m.get(ctx, worker, at(i), buffers[worker]) }
	if row.PutTime, err = c.medianTime(ctx, func(i int) error { return putAt(0, i) }); err != nil {
		return row, err
	}
	if row.GetTime, err = c.medianTime(ctx, func(i int) error { return get(0, i) }); err != nil {
		return row, err
	}
	if m.message != nil {
		row.MessageTime, err = c.medianReportedTime(ctx, func(int) (time.Duration,
			error) {
			return m.message(ctx, buffers[0])
		})
		if err != nil {
			return row, err
		}
	}
	if m.concurrency == 0 {
		return row, nil
	}
	if row.PutGbps, err = c.measureThroughput(ctx, m.concurrency, size, putAt); err != nil {
		return row, err
	}
	row.GetGbps, err = c.measureThroughput(ctx, m.concurrency, size, get)
	return row, err
}

// medianTime calls do again and again, and returns the median time, µs.
func (c *MemoryConfig) medianTime(ctx context.Context, do func(i int) error) (µs float64, err error) {
	return c.medianReportedTime(ctx, func(i int) (time.Duration, error) {
		began := time.Now()
		err := do(i)
		return time.Since(began), err
	})
}

// medianReportedTime calls do again and again, at least once, and returns the median of the times that do reports, µs.
func (c *MemoryConfig) medianReportedTime(ctx context.Context, do func(i int) (time.Duration,
	error)) (µs float64, err error) {
	h := newTimes()
	err = runFor(c.Duration, func(over *atomic.Bool) error {
		for i := 0; (i == 0 || !over.Load()) && ctx.Err() == nil; i++ { // the time may be over at the first call
			took, err := do(i)
			if err != nil {
				return err
			}
			_ = h.RecordValue(int64(max(took, clockStep()))) // at most 10 s
		}
		return ctx.Err()
	})
	return microsAt(h, 50), err
}

// clockStep is the shortest time that this machine's clock can measure, with the cost of reading it. A shorter time
// counts as this long.
var clockStep = sync.OnceValue(func() time.Duration {
	least := time.Second
	for range 100 {
		began := time.Now()
		took := time.Since(began)
		for tries := 0; took <= 0 && tries < 1e6; tries++ {
			took = time.Since(began)
		}
		if took > 0 {
			least = min(least, took)
		}
	}
	return least
})

// measureThroughput has several workers call do, and returns Gbit/s.
func (c *MemoryConfig) measureThroughput(ctx context.Context, workers, size int, do func(worker,
	i int) error) (float64, error) {
	var n atomic.Uint64
	began := time.Now()
	err := runFor(c.Duration, func(over *atomic.Bool) error {
		g, ctx := errgroup.WithContext(ctx)
		for worker := range workers {
			g.Go(func() error {
				for i := worker; (i == worker || !over.Load()) && ctx.Err() == nil; i += workers { // once at least
					if err := do(worker, i); err != nil {
						return err
					}
					n.Add(1)
				}
				return nil
			})
		}
		return g.Wait()
	})
	return gbps(n.Load()*uint64(size), time.Since(began)), errors.Join(err, ctx.Err())
}

// openAccess makes the user's access to the memory. The owner waits for notices until end is called.
func (p *memoryPair) openAccess(ctx context.Context) (m *memoryAccess, end func(), err error) {
	known, err := p.userImport.Notify(ctx, 0)
	if err != nil {
		return nil, nil, err
	}
	waiting, stop := context.WithCancel(ctx)
	awake := make(chan time.Time, 1)
	var wg sync.WaitGroup
	wg.Go(func() {
		for last := known; ; {
			n, err := p.ownerImport.Wait(waiting, 0, last)
			if err != nil {
				return // the measurement has ended
			}
			last = n
			select {
			case awake <- time.Now():
			case <-waiting.Done():
			}
		}
	})
	var in [16]*memory.Import // ordering contexts
	for i := range in {
		in[i] = p.userImport.InContext(i)
	}
	m = &memoryAccess{
		put: func(ctx context.Context, worker int, at int64, b []byte) error {
			return in[worker%len(in)].Write(ctx, at, b)
		},
		get: func(ctx context.Context, worker int, at int64, b []byte) error {
			return in[worker%len(in)].Read(ctx, at, b)
		},
		add: func(ctx context.Context) error {
			_, err := p.userImport.Add(ctx, 0, 1)
			return err
		},
		concurrency: p.concurrency,
	}
	m.message = func(ctx context.Context, b []byte) (time.Duration, error) {
		began := time.Now()
		if err := p.userImport.Write(ctx, 0, b); err != nil {
			return 0, err
		}
		if _, err := p.userImport.Notify(ctx, 0); err != nil {
			return 0, err
		}
		select {
		case at := <-awake:
			return at.Sub(began), nil
		case <-ctx.Done():
			return 0, ctx.Err()
		}
	}
	return m, func() { stop(); wg.Wait() }, nil
}

// udpTrip is the median round trip of raw UDP, µs.
func (c *MemoryConfig) udpTrip(ctx context.Context) (float64, error) {
	conn, err := listenUDP(c.Host)
	if err != nil {
		return 0, err
	}
	far := startJob(conn.LocalAddr(), conn.Close, nothingSent, func() { echo(conn, c.Spin) })
	f, err := measureRoundTrips(ctx, far.addr, c.Spin, c.Duration)
	return f["trip_us.p50"], errors.Join(err, far.close())
}

// open makes both nodes. The caller closes the pair, also after an error.
func (p *memoryPair) open(ctx context.Context, c *NodesConfig, view uint64) (err error) {
	if p.nodes, err = openNodes(ctx, c, view, 2, openMemoryNode); err != nil {
		return err
	}
	if p.segment, err = shmem.Create(segmentName("memory"), memorySize); err != nil {
		return err
	}
	if p.userImport, err = p.export(ctx, "memory", p.segment, 0); err != nil {
		return err
	}
	p.ownerImport, err = p.nodes[0].space.Import(ctx, "memory@n0")
	return err
}

// export exports a segment to all peers, and imports it at the user.
func (p *memoryPair) export(ctx context.Context, name string, segment *shmem.Segment, with memory.Attributes) (
	*memory.Import, error) {
	_, err := p.nodes[0].space.Export(name, segment, memory.Pages{
		Count:      memorySize / memory.PageSize,
		Peer:       memory.Everybody,
		Allow:      memory.AllowAll,
		Attributes: with,
	})
	if err != nil {
		return nil, err
	}
	return p.nodes[1].space.Import(ctx, name+"@n0")
}

func openMemoryNode(c linkConfig) (n *memoryNode, err error) {
	n = &memoryNode{rank: c.rank}
	if n.network, err = c.listen(); err == nil {
		n.table, err = newTable(c.carrier, 1024)
	}
	if err == nil {
		c.members[c.rank].Addr = n.address()
		n.space, err = memory.New(memory.Config{Transport: c.transport(n.network, n.table, nil)})
	}
	if err != nil {
		return nil, errors.Join(err, n.close())
	}
	return n, nil
}

func (n *memoryNode) address() string { return n.network.Addr().String() }

func (n *memoryNode) connect(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, connectTimeout)
	defer cancel()
	return n.space.Connect(ctx, []int{1 - n.rank})
}

// close frees the node's socket and table.
func (n *memoryNode) close() (err error) {
	if n.network != nil {
		err = n.network.Close()
	}
	if n.table != nil {
		err = errors.Join(err, n.table.Close())
	}
	return err
}

// close frees everything. All links end before memory is freed.
func (p *memoryPair) close() (err error) {
	nodes := slices.DeleteFunc(p.nodes, func(n *memoryNode) bool { return n == nil })
	for _, n := range nodes {
		err = errors.Join(err, n.space.Close())
	}
	for _, n := range nodes {
		err = errors.Join(err, n.close())
	}
	if p.segment != nil {
		err = errors.Join(err, p.segment.Close())
	}
	return err
}
