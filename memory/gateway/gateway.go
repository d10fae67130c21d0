package gateway

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"sync"
	"time"

	"ringlet/memory"
	"ringlet/shmem"
)

// Config of a Gateway.
type Config struct {
	Space *memory.Space // connected; for this gateway alone, since its ordering contexts are the client's
	Name  string        // the card is /dev/shm/ringlet-door-NAME
	Data  int           // bytes of the data area, minData to maxData
	Log   *slog.Logger
	Dir   string // directory of the card; "": /dev/shm
}

// Gateway serves one client at a time.
type Gateway struct {
	cfg Config

	mu    sync.Mutex
	stats Stats // guarded by mu
}

// Stats counts clients and their descriptors.
type Stats struct {
	Clients  uint64 // clients that have attached
	Detached uint64 // clients that have detached
	Died     uint64
	Broken   uint64 // clients with an impossible count of descriptors
	Counts
}

// Counts counts the outcomes of descriptors.
type Counts struct {
	Descriptors uint64 // descriptors taken
	Done        uint64
	Refused     uint64
	Unknown     uint64
	Causes      [numCauses]uint64 // why they were not done, by the number in the completion word
}

func (c *Counts) add(o *Counts) {
	c.Descriptors += o.Descriptors
	c.Done += o.Done
	c.Refused += o.Refused
	c.Unknown += o.Unknown
	for i, n := range o.Causes {
		c.Causes[i] += n
	}
}

func (c *Counts) count(a answer, n int) {
	c.Descriptors += uint64(n)
	switch a.outcome {
	case outcomeDone:
		c.Done += uint64(n)
		return
	case outcomeUnknown:
		c.Unknown += uint64(n)
	default:
		c.Refused += uint64(n)
	}
	c.Causes[min(a.cause, numCauses-1)] += uint64(n)
}

// logValue lists the counters for the log, with the text of each cause.
func (c *Counts) logValue() slog.Value {
	out := []slog.Attr{
		slog.Uint64("descriptors", c.Descriptors),
		slog.Uint64("done", c.Done),
		slog.Uint64("refused", c.Refused),
		slog.Uint64("unknown", c.Unknown),
	}
	for cause, n := range c.Causes {
		if n > 0 {
			out = append(out, slog.Uint64(Cause(cause).String(), n))
		}
	}
	return slog.GroupValue(out...)
}

// New makes a Gateway. Call Serve next.
func New(cfg Config) (*Gateway, error) {
	if cfg.Data < minData || cfg.Data > maxData {
		return nil, fmt.Errorf("the data area of a gateway must have %d bytes to 1 GiB, not %d", minData, cfg.Data)
	}
	if cfg.Log == nil {
		cfg.Log = slog.New(slog.DiscardHandler)
	}
	return &Gateway{cfg: cfg}, nil
}

// snapshot returns the counters, those of the present client included.
func (d *Gateway) snapshot() Stats {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.stats
}

// Times of a gateway.
const (
	attachPoll   = 10 * time.Millisecond  // the longest wait to see a client attach that does not ring
	livenessPoll = 100 * time.Millisecond // how often a client's lock is checked
)

// Serve serves one client after the other, until ctx is done. It makes new memory for each, so that no client finds
// bytes of an earlier one. It fails if it cannot make the memory: the name is in use, or there is too little memory.
func (d *Gateway) Serve(ctx context.Context) error {
	for ctx.Err() == nil {
		s, err := d.open(ctx)
		if err != nil {
			return err
		}
		why, came := endCancelled, s.await(ctx) == nil
		if came {
			d.logClient(s, func(st *Stats) { st.Clients++ }, slog.LevelInfo, "a client has come")
			why = s.serve()
		}
		if err := s.close(why == endBroken); err != nil {
			return err
		}
		switch why {
		case endDetached:
			d.logClient(s, func(st *Stats) { st.Detached++ }, slog.LevelInfo, "a client has left")
		case endDied:
			d.logClient(s, func(st *Stats) { st.Died++ }, slog.LevelWarn, "a client has died: what it had under way is ended")
		case endBroken:
			d.logClient(s, func(st *Stats) { st.Broken++ }, slog.LevelWarn,
				"closed the gateway of a client that broke its layout: "+s.brokenErr.Error())
		case endCancelled:
			if came {
				d.logClient(s, func(*Stats) {}, slog.LevelInfo, "the gateway is closed while a client is there")
			}
		}
	}
	return nil
}

func (d *Gateway) logClient(s *session, note func(*Stats), level slog.Level, what string) {
	d.mu.Lock()
	note(&d.stats)
	counts := s.counts
	d.mu.Unlock()
	log := d.cfg.Log.With("gateway", d.cfg.Name, "pid", s.pid)
	if counts.Descriptors > 0 {
		log = log.With("its", counts.logValue())
	}
	log.Log(context.Background(), level, what)
}

// endReason is why the gateway stops serving a client.
type endReason int

const (
	endCancelled endReason = iota // the gateway's context is done
	endDetached                   // the client has detached
	endDied                       // the client's process has died
	endBroken                     // its count of descriptors is impossible
)

// session is the service of one client, in memory of its own.
type session struct {
	*sharedMemory
	gateway   *Gateway
	seg       *shmem.Segment
	core      core
	ctx       context.Context
	stop      context.CancelCauseFunc
	workers   [numContexts]*contextWorker
	wg        sync.WaitGroup
	wake      shmem.WakeWord
	pid       uint64
	brokenErr error

	batch          []request      // requests taken, all for batchWorker
	batchWorker    *contextWorker // nil: this goroutine carries them out
	inlineExecutor executor
	contextsIdle   [numContexts]bool // no transaction of the context is under way; false: there may be one

	counts Counts // guarded by gateway.mu
}

// open makes the memory for a client.
func (d *Gateway) open(ctx context.Context) (*session, error) {
	name, dir := segmentPrefix+d.cfg.Name, shmem.WithDir(d.cfg.Dir)
	if _, err := shmem.Reclaim(name, dir); err != nil {
		return nil, err
	}
	const page = shmem.PageSize
	size := dataAt + (d.cfg.Data+page-1)/page*page
	seg, err := shmem.CreateWith(name, size, func(seg *shmem.Segment) error {
		makeHeader(seg.Bytes(), os.Getpid())
		_, err := seg.ClaimByte(gatewayByte)
		return err
	}, dir)
	if err != nil {
		return nil, err
	}
	s := &session{
		sharedMemory: mapMemory(seg.Bytes()),
		gateway:      d,
		seg:          seg,
		batch:        make([]request, 0, maxBatch),
	}
	s.wake = shmem.WakeWordAt(s.wakeWord)
	s.ctx, s.stop = context.WithCancelCause(ctx)
	s.core.dataSize = uint64(len(s.data))
	s.inlineExecutor.session = s
	return s, nil
}

// close ends all transactions of the client, and removes the memory.
func (s *session) close(refused bool) error {
	s.stop(memory.ErrClosed)
	s.wg.Wait()
	for _, l := range s.workers {
		if l != nil {
			l.drainQueue() // requests taken after the worker had ended
		}
	}
	for i := range s.core.rows {
		if t := s.core.rows[i].target.Load(); t != nil {
			(*t).(*segment).close()
		}
	}
	state := uint64(gatewayClosed)
	if refused {
		state = gatewayRefused
	}
	s.gatewayState.Store(state)
	s.completedBell.ForceWake()
	return s.seg.Close()
}

// await waits until a client attaches.
func (s *session) await(ctx context.Context) error {
	err := s.workBell.Await(ctx, attachPoll, func() (bool, error) { return s.attached.Load() > 0, nil },
		func() error { return nil })
	s.pid = s.clientPID.Load()
	return err
}

// errDied says that the client's process has died.
var errDied = errors.New("the client has died")

// serve carries out the client's requests until the client leaves or must be closed.
func (s *session) serve() endReason {
	for {
		n, err := s.core.countNew(s.startedCount.Load())
		switch {
		case err != nil:
			s.brokenErr = err
			return endBroken
		case s.ctx.Err() != nil:
			return endCancelled
		case s.clientState.Load() != clientAttached:
			return endDetached
		case n > 0:
			s.acceptDescriptors(min(n, maxBatch))
			continue
		}
		if err := s.workBell.Await(s.ctx, livenessPoll, s.poll, s.checkAlive); errors.Is(err, errDied) {
			return endDied
		}
	}
}

// poll reports whether there is something to do. If not, it asks the client to ring once, at its next descriptor.
func (s *session) poll() (bool, error) {
	if s.startedCount.Load() == s.core.consumedDescriptors {
		s.wake.Arm(s.core.consumedDescriptors + 1)
	}
	return s.startedCount.Load() != s.core.consumedDescriptors || s.clientState.Load() != clientAttached, nil
}

func (s *session) checkAlive() error {
	if lives, err := s.seg.IsByteClaimed(clientByte); err != nil || !lives {
		if s.clientState.Load() == clientAttached {
			return errDied
		}
	}
	return nil
}
