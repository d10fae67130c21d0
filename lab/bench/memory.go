package bench

// Remote memory as its users have it: an owner and a user, linked by a carrier, in one process. What stands beside it
// is of the same run: memorybeside.go.

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"ringlet/memory"
	"ringlet/node/certs"
	"ringlet/node/config"
	"ringlet/shmem"
	"ringlet/transport"
	"ringlet/transport/quic"
)

// MemoryConfig says what is written and read.
type MemoryConfig struct {
	NodesConfig
	Sizes       []config.Bytes
	Duration    time.Duration // of each measurement
	Concurrency int           // transactions side by side, for throughput
	MPI         bool          // OpenMPI's one-sided operations stand beside it
}

const (
	memorySize     = 16 << 20
	maxConcurrency = 64 // most
)

// Validate says what of the settings cannot be, as a *UsageError.
func (c *MemoryConfig) Validate() error {
	if len(c.Sizes) == 0 {
		return usageErrorf("sizes", "there is none to measure")
	}
	for _, size := range c.Sizes {
		if size < 1 || size > memorySize {
			return usageErrorf("sizes", "%s is not between 1 B and %s", size, config.Bytes(memorySize))
		}
	}
	if c.Concurrency < 1 || c.Concurrency > maxConcurrency {
		return usageErrorf("lanes", "%d is not between 1 and %d", c.Concurrency, maxConcurrency)
	}
	return c.valid(c.Duration)
}

// MemoryReport is what was measured, as `ringlet bench memory --json` prints it. Times are medians, µs, of one
// transaction at a time.
type MemoryReport struct {
	nodesReport
	Concurrency  int                   `json:"lanes"`
	UDPRoundTrip float64               `json:"udp_trip_us"` // of 128 B
	AddTime      float64               `json:"add_us"`
	Rows         []MemoryRow           `json:"sizes"`
	References   []MemoryReferenceRows `json:"beside"`
}

// MemoryRow is one size. What a reference does not have is 0.
type MemoryRow struct {
	Size        int     `json:"size"`
	PutTime     float64 `json:"put_us,omitempty"`
	GetTime     float64 `json:"get_us,omitempty"`
	MessageTime float64 `json:"message_us,omitempty"` // from a put with a notice behind it until the other side is awake
	PutGbps     float64 `json:"put_gbps,omitempty"`
	GetGbps     float64 `json:"get_gbps,omitempty"`
}

// memoryPair is an owner and a user of a segment.
type memoryPair struct {
	nets        [2]*quic.Network
	tables      [2]*shmem.Table
	spaces      [2]*memory.Space
	segment     *shmem.Segment
	userImport  *memory.Import // the user's
	ownerImport *memory.Import // the owner's
	concurrency int
}

// Memory measures remote memory.
func Memory(ctx context.Context, cfg MemoryConfig) (r *MemoryReport, err error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	r = &MemoryReport{
		nodesReport: cfg.report(),
		Concurrency: cfg.Concurrency,
		Rows:        []MemoryRow{},
		References:  []MemoryReferenceRows{},
	}
	p := &memoryPair{concurrency: cfg.Concurrency}
	defer func() { err = errors.Join(err, p.close()) }()
	if err := p.open(ctx, &cfg); err != nil {
		return nil, fmt.Errorf("bench: memory: %w", err)
	}
	err = cfg.measure(ctx, p, r)
	if r.Interrupted = ctx.Err() != nil; r.Interrupted {
		return r, nil
	}
	if err != nil {
		err = fmt.Errorf("bench: memory: %w", err)
	}
	return r, err
}

func (c *MemoryConfig) measure(ctx context.Context, p *memoryPair, r *MemoryReport) (err error) {
	if r.UDPRoundTrip, err = c.udpTrip(ctx); err != nil {
		return err
	}
	access, end, err := p.openAccess(ctx)
	if err != nil {
		return err
	}
	err = c.measureAccess(ctx, access, &r.AddTime, &r.Rows)
	end()
	if err == nil {
		err = c.measureReferences(ctx, p.segment.Bytes(), r)
	}
	return err
}

// memoryAccess is a way to memory that is measured: transactions of 16 workers and more, each of which has one under
// way.
type memoryAccess struct {
	put, get func(ctx context.Context, worker int, at int64, b []byte) error
	add      func(ctx context.Context) error // nil: there is none
	// message puts and tells the other side. It gives the time from the call until that is awake. Nil: there is none.
	message     func(ctx context.Context, b []byte) (time.Duration, error)
	maxSize     int // bytes at a time; 0: any
	concurrency int // side by side, for throughput; 0: that is not measured
}

// measureAccess measures one way to memory, and puts what there is, also after an error.
func (c *MemoryConfig) measureAccess(ctx context.Context, m *memoryAccess, add *float64,
	rows *[]MemoryRow) (err error) {
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

func (c *MemoryConfig) row(ctx context.Context, m *memoryAccess, size int) (row MemoryRow, err error) {
	row.Size = size
	buffers := make([][]byte, max(1, m.concurrency))
	for worker := range buffers {
		buffers[worker] = bytes.Repeat([]byte{1}, size) // a page that was never written would be one page for all
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

// medianTime does one thing after the other, and returns the median, µs.
func (c *MemoryConfig) medianTime(ctx context.Context, do func(i int) error) (µs float64, err error) {
	return c.medianReportedTime(ctx, func(i int) (time.Duration, error) {
		began := time.Now()
		err := do(i)
		return time.Since(began), err
	})
}

// medianReportedTime does one thing after the other, once at least, that says how long it took, and returns the median,
// µs.
func (c *MemoryConfig) medianReportedTime(ctx context.Context, do func(i int) (time.Duration,
	error)) (µs float64, err error) {
	h := newTimes()
	err = runFor(c.Duration, func(over *atomic.Bool) error {
		for i := 0; (i == 0 || !over.Load()) && ctx.Err() == nil; i++ { // on a busy machine it may begin when it is over
			took, err := do(i)
			if err != nil {
				return err
			}
			_ = h.RecordValue(int64(max(took, clockStep()))) // longer than 10 s it cannot be
		}
		return ctx.Err()
	})
	return float64(h.ValueAtQuantile(50)) / 1e3, err
}

// clockStep is the least time that the clock of this machine tells from none, with the reading of it. What is shorter
// is told of as this long, which it is at most.
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

// measureThroughput does many things side by side, and returns Gbit/s.
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

// openAccess is the user's way to the memory. The owner waits for notices until end is called.
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
				return // it has measured enough
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

// udpTrip is the median of raw UDP there and back, µs.
func (c *MemoryConfig) udpTrip(ctx context.Context) (float64, error) {
	conn, err := listenUDP(c.Host)
	if err != nil {
		return 0, err
	}
	far := startJob(conn.LocalAddr(), conn.Close, nothingSent, func() { echo(conn, c.Spin) })
	f, err := measureRoundTrips(ctx, far.addr, c.Spin, c.Duration)
	return f["trip_us.p50"], errors.Join(err, far.close())
}

// open makes both sides. What there is must be closed, also where it fails.
func (p *memoryPair) open(ctx context.Context, c *MemoryConfig) error {
	view, err := p.listen(c)
	if err != nil {
		return err
	}
	if err := p.link(ctx, c, view); err != nil {
		return err
	}
	if p.segment, err = shmem.Create(segmentName("memory"), memorySize); err != nil {
		return err
	}
	_, err = p.spaces[0].Export("memory", p.segment, memory.Pages{
		Count: memorySize / memory.PageSize,
		Peer:  memory.Everybody,
		Allow: memory.AllowAll,
	})
	if err == nil {
		p.userImport, err = p.spaces[1].Import(ctx, "memory@n0")
	}
	if err == nil {
		p.ownerImport, err = p.spaces[0].Import(ctx, "memory@n0")
	}
	return err
}

// listen opens a network for each side, and returns the view of both.
func (p *memoryPair) listen(c *MemoryConfig) (transport.View, error) {
	view := transport.View{Number: 1}
	for rank := range p.nets {
		name := fmt.Sprintf("n%d", rank)
		id, err := c.Identity(name)
		if err != nil {
			return view, err
		}
		p.nets[rank], err = quic.Listen(quic.Config{
			Addr:      net.JoinHostPort(c.Host, "0"),
			ServerTLS: id.Server(),
			ClientTLS: id.Client,
			PeerName: func(state tls.ConnectionState) (string, error) {
				peer, err := certs.PeerIdentity(state)
				return peer.Name, err
			},
			Spin: c.Spin,
		})
		if err != nil {
			return view, err
		}
		view.Members = append(view.Members, transport.Member{Name: name, Addr: p.nets[rank].Addr().String()})
	}
	return view, nil
}

// link makes the spaces of both sides, and links them to each other.
func (p *memoryPair) link(ctx context.Context, c *MemoryConfig, view transport.View) (err error) {
	carrier, _ := carrierOf(c.Carrier)
	for rank := range p.spaces {
		if p.tables[rank], err = newTable(carrier, 1024); err != nil {
			return err
		}
		p.spaces[rank], err = memory.New(memory.Config{Transport: transport.Config{
			Network: p.nets[rank],
			Table:   p.tables[rank],
			View:    view,
			Rank:    rank,
			Carrier: carrier.Carrier,
			Spin:    localSpin(c.Spin),
		}})
		if err != nil {
			return err
		}
	}
	ctx, cancel := context.WithTimeout(ctx, connectTimeout)
	defer cancel()
	var g errgroup.Group
	for rank, s := range p.spaces {
		g.Go(func() error { return s.Connect(ctx, []int{1 - rank}) })
	}
	return g.Wait()
}

func (p *memoryPair) close() error {
	var errs []error
	for rank := range p.spaces {
		if p.spaces[rank] != nil {
			errs = append(errs, p.spaces[rank].Close())
		}
	}
	for rank := range p.nets {
		if p.nets[rank] != nil {
			errs = append(errs, p.nets[rank].Close())
		}
		if p.tables[rank] != nil {
			errs = append(errs, p.tables[rank].Close())
		}
	}
	if p.segment != nil {
		errs = append(errs, p.segment.Close())
	}
	return errors.Join(errs...)
}
