package bench

// Remote memory as its users have it: an owner and a user, linked by a carrier, in one process. Beside it, in the same
// run: raw UDP there and back, and copies into the same segment.

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"ringlet/lab/trial"
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
	Sizes    []config.Bytes
	Duration time.Duration // of each measurement
	Lanes    int           // transactions side by side, for throughput
}

const (
	memorySize  = 16 << 20
	memoryLanes = 64 // most
)

// Validate says what of the settings cannot be, as a *UsageError.
func (c *MemoryConfig) Validate() error {
	if len(c.Sizes) == 0 {
		return refuse("sizes", "there is none to measure")
	}
	for _, size := range c.Sizes {
		if size < 1 || size > memorySize {
			return refuse("sizes", "%s is not between 1 B and %s", size, config.Bytes(memorySize))
		}
	}
	if c.Lanes < 1 || c.Lanes > memoryLanes {
		return refuse("lanes", "%d is not between 1 and %d", c.Lanes, memoryLanes)
	}
	return c.valid(c.Duration)
}

// MemoryReport is what was measured, as `ringlet bench memory --json` prints it. Times are medians, µs, of one
// transaction at a time.
type MemoryReport struct {
	nodesReport
	Lanes   int         `json:"lanes"`
	UDPTrip float64     `json:"udp_trip_us"` // of 128 B
	Add     float64     `json:"add_us"`
	Rows    []MemoryRow `json:"sizes"`
}

// MemoryRow is one size.
type MemoryRow struct {
	Size    int     `json:"size"`
	Put     float64 `json:"put_us"`
	Get     float64 `json:"get_us"`
	Message float64 `json:"message_us"` // from a put with a notice behind it until the other side is awake
	PutGbps float64 `json:"put_gbps"`
	GetGbps float64 `json:"get_gbps"`
	Copy    float64 `json:"copy_gbps"` // into the same segment, by one processor
}

// memoryPair is an owner and a user of a segment.
type memoryPair struct {
	nets    [2]*quic.Network
	tables  [2]*shmem.Table
	spaces  [2]*memory.Space
	segment *shmem.Segment
	im      *memory.Import // the user's
	own     *memory.Import // the owner's
}

// Memory measures remote memory.
func Memory(ctx context.Context, cfg MemoryConfig) (r *MemoryReport, err error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	r = &MemoryReport{nodesReport: cfg.report(), Lanes: cfg.Lanes, Rows: []MemoryRow{}}
	p := &memoryPair{}
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
	if r.UDPTrip, err = c.udpTrip(ctx); err != nil {
		return err
	}
	r.Add, err = c.each(ctx, func(int) error {
		_, err := p.im.Add(ctx, 0, 1)
		return err
	})
	for i := 0; i < len(c.Sizes) && err == nil; i++ {
		var row MemoryRow
		if row, err = c.row(ctx, p, int(c.Sizes[i])); err == nil {
			r.Rows = append(r.Rows, row)
		}
	}
	return err
}

func (c *MemoryConfig) row(ctx context.Context, p *memoryPair, size int) (row MemoryRow, err error) {
	row.Size = size
	buffers := make([][]byte, c.Lanes)
	for lane := range buffers {
		buffers[lane] = make([]byte, size)
	}
	at := func(i int) int64 { return int64(i % (memorySize / size) * size) }
	put := func(lane, i int) error { return p.im.In(lane%16).Write(ctx, at(i), buffers[lane]) }
	get := func(lane, i int) error { return p.im.In(lane%16).Read(ctx, at(i), buffers[lane]) }
	if row.Put, err = c.each(ctx, func(i int) error { return put(0, i) }); err != nil {
		return row, err
	}
	if row.Get, err = c.each(ctx, func(i int) error { return get(0, i) }); err != nil {
		return row, err
	}
	if row.Message, err = c.messages(ctx, p, size); err != nil {
		return row, err
	}
	if row.PutGbps, err = c.rate(ctx, size, put); err != nil {
		return row, err
	}
	if row.GetGbps, err = c.rate(ctx, size, get); err != nil {
		return row, err
	}
	one := *c
	one.Lanes = 1
	row.Copy, err = one.rate(ctx, size, func(_, i int) error {
		copy(p.segment.Bytes()[at(i):], buffers[0])
		return nil
	})
	return row, err
}

// each does one thing after the other, and returns the median, µs.
func (c *MemoryConfig) each(ctx context.Context, do func(i int) error) (µs float64, err error) {
	h := newTimes()
	err = during(c.Duration, func(over *atomic.Bool) error {
		for i := 0; !over.Load() && ctx.Err() == nil; i++ {
			began := time.Now()
			if err := do(i); err != nil {
				return err
			}
			_ = h.RecordValue(int64(time.Since(began))) // longer than 10 s it cannot be
		}
		return ctx.Err()
	})
	return float64(h.ValueAtQuantile(50)) / 1e3, err
}

// rate does many things side by side, and returns Gbit/s.
func (c *MemoryConfig) rate(ctx context.Context, size int, do func(lane, i int) error) (float64, error) {
	var n atomic.Uint64
	began := time.Now()
	err := during(c.Duration, func(over *atomic.Bool) error {
		g, ctx := errgroup.WithContext(ctx)
		for lane := range c.Lanes {
			g.Go(func() error {
				for i := lane; !over.Load() && ctx.Err() == nil; i += c.Lanes {
					if err := do(lane, i); err != nil {
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

// messages puts, notifies and waits until the owner, which waits for the notice, is awake.
func (c *MemoryConfig) messages(ctx context.Context, p *memoryPair, size int) (float64, error) {
	ctx, end := context.WithCancel(ctx)
	defer end()
	awake := make(chan time.Time, 1)
	var wg sync.WaitGroup
	known, err := p.im.Notify(ctx, 0)
	if err != nil {
		return 0, err
	}
	wg.Go(func() {
		for last := known; ; {
			n, err := p.own.Wait(ctx, 0, last)
			if err != nil {
				return // it has measured enough
			}
			last = n
			awake <- time.Now()
		}
	})
	h, b := newTimes(), make([]byte, size)
	err = during(c.Duration, func(over *atomic.Bool) error {
		for !over.Load() && ctx.Err() == nil {
			began := time.Now()
			if err := p.im.Write(ctx, 0, b); err != nil {
				return err
			}
			if _, err := p.im.Notify(ctx, 0); err != nil {
				return err
			}
			select {
			case at := <-awake:
				_ = h.RecordValue(int64(at.Sub(began)))
			case <-ctx.Done():
			}
		}
		return ctx.Err()
	})
	end()
	wg.Wait()
	return float64(h.ValueAtQuantile(50)) / 1e3, err
}

// udpTrip is the median of raw UDP there and back, µs.
func (c *MemoryConfig) udpTrip(ctx context.Context) (float64, error) {
	conn, err := listenUDP(c.Host)
	if err != nil {
		return 0, err
	}
	far := working(conn.LocalAddr(), conn.Close, nothingSent, func() { echo(conn, c.Spin) })
	f, err := trips(ctx, far.addr, c.Spin, c.Duration)
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
		p.im, err = p.spaces[1].Import(ctx, "memory@n0")
	}
	if err == nil {
		p.own, err = p.spaces[0].Import(ctx, "memory@n0")
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
			Addr:   net.JoinHostPort(c.Host, "0"),
			Server: id.Server(),
			Client: id.Client,
			Name: func(state tls.ConnectionState) (string, error) {
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
	ctx, cancel := context.WithTimeout(ctx, connectTime)
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

// WriteTable prints the report for people.
func (r *MemoryReport) WriteTable(w io.Writer) error {
	fmt.Fprintf(w, "remote memory over %s, an owner and a user in one process on %d cores\n%s\n", r.Carrier, r.Cores,
		&r.Machine)
	if r.Interrupted {
		fmt.Fprintln(w, "INTERRUPTED: what follows is what was measured until then")
	}
	µs := func(v float64) string { return fmt.Sprintf("%.2f", v) }
	fmt.Fprintf(w, "raw UDP of 128 B there and back: %s µs; add: %s µs\n", µs(r.UDPTrip), µs(r.Add))
	var rows [][]string
	for i := range r.Rows {
		m := &r.Rows[i]
		rows = append(rows, []string{
			config.Bytes(m.Size).String(), µs(m.Put), µs(m.Get), µs(m.Message), trial.Short(m.PutGbps),
			trial.Short(m.GetGbps), trial.Short(m.Copy),
		})
	}
	return trial.Table(w,
		fmt.Sprintf("Medians of one at a time, µs; Gbit/s of %d side by side, and of copies by one processor",
			r.Lanes), []string{"size", "put µs", "get µs", "message µs", "put Gbit/s", "get Gbit/s", "copy Gbit/s"}, rows)
}
