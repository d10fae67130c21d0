package tagnet

import (
	"context"
	"errors"
	"sync"
	"time"

	hdrhistogram "github.com/HdrHistogram/hdrhistogram-go"

	tagnetv1 "ringlet/proto/ringlet/tagnet/v1"
)

// Role of a unit.
type Role uint8

// The roles.
const (
	Readout Role = iota
	Builder
)

func (r Role) String() string { return enumName(int(r), "readout unit", "builder unit") }

// Incident is what can be wrong with a unit.
type Incident uint8

// The incidents.
const (
	UnitLost       Incident = iota // its stream broke before the view was drained, and was not resumed in time
	UnitMissing                    // it has not attached within AttachTimeout
	UnitMisbehaved                 // it told what cannot be; its stream is cut, except for EndMismatch
)

func (i Incident) String() string { return enumName(int(i), "lost", "missing", "misbehaved") }

// UnitError reports an incident with a unit. The scheduler only reports: whether to exclude the unit or to end the run
// is the run control's decision.
type UnitError struct {
	Role     Role
	Unit     string
	Incident Incident
	Err      error // what it was seen by; nil for Missing
}

func (e *UnitError) Error() string {
	s := "tagnet: " + e.Role.String() + " " + e.Unit
	switch e.Incident {
	case UnitMissing:
		return s + " has not attached to the scheduler in time"
	case UnitMisbehaved:
		return s + " told the scheduler what cannot be: " + e.Err.Error()
	}
	if errors.Is(e.Err, context.Canceled) { // gRPC's word for a connection that is gone
		return s + " is lost to the scheduler: its connection is gone"
	}
	return s + " is lost to the scheduler: " + e.Err.Error()
}

// Unwrap gives what the incident was seen by.
func (e *UnitError) Unwrap() error { return e.Err }

// serverConfig describes a run's view to the service.
type serverConfig struct {
	Core Config
	Run  uint32 // number of the run; streams of another run are refused
	View uint64 // number of the view; streams of another view are refused

	// AttachTimeout is how long the units may take to attach before those missing are reported. Zero means for ever.
	AttachTimeout time.Duration
	// ResumeTimeout is how long a unit whose stream broke may take to resume its session before it is reported
	// as lost. Zero means DefaultResumeTimeout. Less than zero means no time at all.
	ResumeTimeout time.Duration
	// Access says who is let in. Its zero value believes everybody.
	Access Access
}

// Server serves the scheduler of one view, by the service of its Host.
//
// Pipeline, with the goroutine that runs each stage:
//
//  1. receive: one goroutine per stream decodes updates or feedback; gRPC allocates the message. (parallel)
//  2. own: one goroutine applies what has come in since its last turn to the Core, issues what can be issued, stamps
//     the tokens with the time and appends them to the log. Nothing is allocated per token. (sequential)
//  3. send: one goroutine per stream takes everything between its position and the end of the log into one message of
//     its own and hands it to gRPC, which owns it from then on. (parallel)
type Server struct {
	// Immutable after newServer.

	cfg          serverConfig // with defaults
	ruIndex      map[string]int
	buIndex      map[string]int
	began        time.Time // the zero of all nanoseconds below
	tokenLog     *tokenLog
	authorizer   *authorizer
	inbox        chan ownerInput
	quit         chan struct{} // closed by Close
	stopped      chan struct{} // closed when the owner has returned
	drained      chan struct{} // closed by the owner
	notices      *notices
	beginRequest *tagnetv1.BeginRequest // that it was begun with
	attachTimer  *time.Timer            // nil without AttachTimeout

	// Owned by the owner goroutine, and by mu's holder once stopped is closed.

	core                   *Core
	batch                  Batch
	firstCycleIncompleteAt int64            // when the first cycle could have been issued, but was not full; 0 before
	launchedTags           []Tag            // that set out in this turn
	exclusionsPublished    int              // exclusions that the log knows
	returnedPublished      uint64           // returned tags that the log knows
	reportedState          State            // that has been reported last
	readmissions           []readmission    // by builder unit
	rejoinAllowed          []bool           // by readout unit: it is excluded, and may attach again
	streams                [2][]*stream     // by Role and index; nil if not attached
	sessions               [2][]unitSession // likewise
	issueTimes             []int64          // ns when the token for slot s of builder unit j was issued, at j·Slots + s
	timing                 timing

	absenceTimes []int64 // ns since the Unix epoch, of each change of the readout units

	refusals struct {
		mu        sync.Mutex
		byRefusal map[Refusal]uint64
	}
	mu sync.Mutex // guards closed, and the owner's fields after it has stopped

	closed bool
	wg     sync.WaitGroup // handlers and their goroutines, the owner
}

// timing is what the owner knows of time. All nanoseconds count from Server.began.
type timing struct {
	firstTokenAt     int64 // 0: none
	lastMEPAt        int64
	latency          *hdrhistogram.Histogram // µs from token issued to MEP complete
	clippedLatencies uint64                  // latencies that did not fit the histogram, or were negative
}

// maxLatencyUs bounds the latency histogram: ten minutes, three digits. It takes some 200 KiB.
const maxLatencyUs = 600_000_000

// newServer makes the scheduler for one view and starts its goroutines; Close ends them.
func newServer(cfg serverConfig) (*Server, error) {
	core, err := NewCore(cfg.Core)
	if err != nil {
		return nil, err
	}
	cfg.Core = core.cfg
	if cfg.ResumeTimeout == 0 {
		cfg.ResumeTimeout = DefaultResumeTimeout
	}
	s := &Server{
		cfg:     cfg,
		ruIndex: indexOf(cfg.Core.RUs),
		buIndex: indexOf(cfg.Core.BUs),
		began:   time.Now(),
		tokenLog: newTokenLog(len(cfg.Core.BUs), core.maxCyclesBehind(), batchStep(core.maxInFlight()), cfg.Core.FirstMEP,
			core.maxTags()),
		inbox:         make(chan ownerInput, 256),
		reportedState: Idle,
		quit:          make(chan struct{}),
		stopped:       make(chan struct{}),
		drained:       make(chan struct{}),
		notices:       newNotices(),
		core:          core,
		issueTimes:    make([]int64, len(cfg.Core.BUs)*cfg.Core.Slots),
	}
	s.timing.latency = hdrhistogram.New(1, maxLatencyUs, 3)
	s.readmissions, s.rejoinAllowed = make([]readmission, len(cfg.Core.BUs)), make([]bool, len(cfg.Core.RUs))
	s.tokenLog.cuts.live = cfg.Core.Live
	s.refusals.byRefusal = make(map[Refusal]uint64)
	s.authorizer = newAuthorizer(cfg.Access, s.countRefused)
	for role, n := range [2]int{len(cfg.Core.RUs), len(cfg.Core.BUs)} {
		s.streams[role], s.sessions[role] = make([]*stream, n), make([]unitSession, n)
	}
	s.notices.addState(Idle)
	s.wg.Go(s.ownerLoop)
	if cfg.AttachTimeout > 0 {
		s.attachTimer = time.AfterFunc(cfg.AttachTimeout, func() { s.post(nil, ownerInput{call: s.reportMissing}) })
	}
	return s, nil
}

func indexOf(names []string) map[string]int {
	m := make(map[string]int, len(names))
	for i, name := range names {
		m[name] = i
	}
	return m
}

// Drained is closed when every issued MEP has its outcome and no other will be issued.
func (s *Server) Drained() <-chan struct{} { return s.drained }

// Close ends all streams with Unavailable, unless they have ended by themselves, and waits for every goroutine of the
// Server. Registers may still be called. Close the Server before the gRPC server is stopped.
func (s *Server) Close() {
	s.mu.Lock()
	if s.closed {
		s.mu.Unlock()
		return
	}
	s.closed = true
	s.mu.Unlock()
	if s.attachTimer != nil {
		s.attachTimer.Stop()
	}
	close(s.quit)
	s.wg.Wait()
	s.notices.close()
}

// enterHandler counts a handler in, unless the Server is closed.
func (s *Server) enterHandler() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return false
	}
	s.wg.Add(1)
	return true
}

// notify leaves a mark in a channel of capacity one.
func notify(c chan<- struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}
