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
	Space *memory.Space // connected, and of this gateway alone: its ordering contexts are the client's
	Name  string        // the card is /dev/shm/ringlet-door-NAME
	Data  int           // bytes of the data area, minData to maxData
	Log   *slog.Logger
	Dir   string // where the card is; "": /dev/shm
}

// Gateway serves one client at a time.
type Gateway struct {
	cfg Config

	mu    sync.Mutex
	stats Stats // guarded by mu
}

// Stats counts what became of clients, and of their descriptors.
type Stats struct {
	Clients  uint64 // that have come
	Detached uint64 // that have left
	Died     uint64
	Broken   uint64 // whose count of descriptors could not be
	Counts
}

// Counts says what became of descriptors.
type Counts struct {
	Descriptors uint64 // that were taken
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

// logValue are what was counted, with each cause by its words.
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

// New makes a Gateway. Serve is next.
func New(cfg Config) (*Gateway, error) {
	if cfg.Data < minData || cfg.Data > maxData {
		return nil, fmt.Errorf("the data area of a gateway has %d bytes to 1 GiB, and not %d", minData, cfg.Data)
	}
	if cfg.Log == nil {
		cfg.Log = slog.New(slog.DiscardHandler)
	}
	return &Gateway{cfg: cfg}, nil
}

// snapshot returns the counters. Those of a client that is there are among them.
func (d *Gateway) snapshot() Stats {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.stats
}

// Times of a gateway.
const (
	attachPoll   = 10 * time.Millisecond  // how soon a client that rings no bell is seen to come
	livenessPoll = 100 * time.Millisecond // how often a client is asked whether it lives
)

// Serve serves one client after the other, until ctx is done. The memory is made anew for each, so nothing of one is
// left to the next. It fails where the memory cannot be made: the name is taken, or there is no room.
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
			d.logClient(s, func(st *Stats) { st.Broken++ }, slog.LevelWarn, "a client's gateway is closed: "+s.brokenErr.Error())
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

// endReason is why a client is served no more.
type endReason int

const (
	endCancelled endReason = iota // the gateway's context is done
	endDetached                   // the client has left
	endDied                       // it has died
	endBroken                     // its counter cannot be
)

// session is one client's time at the gateway, in memory of its own.
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

	batch          []request      // taken, all for the same place
	batchWorker    *contextWorker // that place; nil: this goroutine
	inlineExecutor executor
	contextsIdle   [numContexts]bool // nothing of the context is under way; false: perhaps something is

	counts Counts // guarded by gateway.mu
}

// open makes the memory.
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

// close ends what is under way, and takes the memory away.
func (s *session) close(refused bool) error {
	s.stop(memory.ErrClosed)
	s.wg.Wait()
	for _, l := range s.workers {
		if l != nil {
			l.drainQueue() // what was taken after the worker had ended
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

// await waits until a client has come.
func (s *session) await(ctx context.Context) error {
	err := s.workBell.Await(ctx, attachPoll, func() (bool, error) { return s.attached.Load() > 0, nil },
		func() error { return nil })
	s.pid = s.clientPID.Load()
	return err
}

// errDied is what a wait finds out.
var errDied = errors.New("the client has died")

// serve carries out what the client asks for, until it goes or has to.
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

// poll says whether there is something to do. Else whoever starts the next descriptor is to ring, once.
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
