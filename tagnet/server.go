package tagnet

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	hdrhistogram "github.com/HdrHistogram/hdrhistogram-go"

	"ringlet/internal/histogram"
	tagnetv1 "ringlet/proto/ringlet/tagnet/v1"
	"ringlet/tagnet/core"
)

// serverConfig configures a Server.
type serverConfig struct {
	Core core.Config
	Run  uint32 // number of the run; streams of another run are refused
	View uint64 // number of the view; streams of another view are refused

	// AttachTimeout is how long the units may take to attach before the Server reports missing ones. Zero means for ever.
	AttachTimeout time.Duration
	// ResumeTimeout is how long a unit may take to resume its session after a broken stream, before the Server reports it
	// as lost. Zero means DefaultResumeTimeout; less than zero means no time at all.
	ResumeTimeout time.Duration
	// Living are the units from which the successor of a lost scheduler hears what that has done, and RecallTimeout is how
	// long it waits for them. Nil: the Server is the first scheduler of the view.
	Living        []core.Unit
	RecallTimeout time.Duration
	FirstTokenNs  int64             // of a successor: as in core.Settings
	Substitutes   map[string]string // of a successor: the substitutes of members
	// Access says which callers the Server serves. Its zero value serves all.
	Access Access
}

// DefaultResumeTimeout is that of the default of the setting silence (config.Timeouts). It is far more than a switch
// takes to forget a port, or than gRPC takes to connect again.
const DefaultResumeTimeout = 3 * time.Second

// Server serves the scheduler of one view, through the service of its Host: it passes messages to a core.Core and
// carries out what Ready returns.
//
// Pipeline, with the goroutine that runs each stage:
//
//  1. receive: one goroutine per stream decodes updates or feedback; gRPC allocates the message. (parallel)
//  2. own: one goroutine, the owner, passes all inputs since its last turn to the Core and carries out what is ready:
//     it appends notices to the log and wakes the senders. Nothing is allocated per token. (sequential)
//  3. send: one goroutine per stream makes one message of the notices between its position and the end of the log, and
//     hands it to gRPC. (parallel)
type Server struct {
	// Immutable after newServer.

	commands
	cfg          serverConfig
	units        [2]map[string]int // by Role and name
	substitutes  substitutes
	began        time.Time // the zero of the Core's times
	log          *noticeLog
	authorizer   *authorizer
	inbox        chan func()
	quit         chan struct{}          // closed by Close
	stopped      chan struct{}          // closed when the owner has returned
	drained      chan struct{}          // closed by the owner
	rebuilt      chan struct{}          // of a successor: closed by the owner when the state is rebuilt
	beginRequest *tagnetv1.BeginRequest // the request that it was made with
	attachTimer  *time.Timer            // nil without AttachTimeout and RecallTimeout
	triggers     *triggerSocket         // nil without a socket for triggers

	// Owned by the owner goroutine, and by mu's holder once stopped is closed.

	core        *core.Core
	streams     map[uint64]*stream // the open ones, by number
	streamCount uint64             // streams so far

	refusals struct {
		mu        sync.Mutex
		byRefusal map[core.Refusal]uint64
	}
	mu sync.Mutex // guards closed, and the owner's fields after it has stopped

	closed bool
	wg     sync.WaitGroup // handlers and their goroutines, the owner
}

// newServer makes the scheduler for one view and starts its goroutines; Close ends them.
func newServer(cfg serverConfig) (*Server, error) {
	if cfg.ResumeTimeout == 0 {
		cfg.ResumeTimeout = DefaultResumeTimeout
	}
	trigger, err := ParseTrigger(cfg.Core.Trigger)
	if err != nil {
		return nil, fmt.Errorf("%q %w", cfg.Core.Trigger, err)
	}
	began, term := time.Now(), max(1, rand.Uint64())
	c, err := core.New(core.Settings{View: cfg.Core, Term: term, Began: began.UnixNano(),
		ResumeTimeout: cfg.ResumeTimeout, Living: cfg.Living, FirstTokenNs: cfg.FirstTokenNs})
	if err != nil {
		return nil, err
	}
	triggers, err := listenTriggers(trigger)
	if err != nil {
		return nil, err
	}
	s := &Server{
		cfg:     cfg,
		units:   [2]map[string]int{indexOf(cfg.Core.RUs), indexOf(cfg.Core.BUs)},
		began:   began,
		log:     newNoticeLog(term, c.CyclesKept()),
		inbox:   make(chan func(), 256),
		quit:    make(chan struct{}),
		stopped: make(chan struct{}),
		drained: make(chan struct{}),
		rebuilt: make(chan struct{}),
		core:    c,
		streams: map[uint64]*stream{},

		triggers: triggers,
	}
	s.commands = func(m *tagnetv1.ControlRequest) (int, error) {
		a := s.operate(m)
		return a.Reissued + int(a.Triggers), a.Err // never both
	}
	for member, by := range cfg.Substitutes {
		s.substitutes.set(member, by)
	}
	s.refusals.byRefusal = make(map[core.Refusal]uint64)
	s.authorizer = newAuthorizer(cfg.Access, s.countRefused)
	s.carryOut(c.Ready(s.now()))
	s.serveInputs()
	return s, nil
}

// serveInputs starts the goroutines and timers that give inputs to the Core.
func (s *Server) serveInputs() {
	s.wg.Go(s.ownerLoop)
	if s.triggers != nil {
		s.wg.Go(func() {
			s.triggers.receive(func() { s.post(nil, func() { s.core.Step(s.now(), s.triggers.claim()) }) })
		})
	}
	switch {
	case s.cfg.Living != nil:
		s.attachTimer = s.after(s.cfg.RecallTimeout, core.RecallOver{})
	case s.cfg.AttachTimeout > 0:
		s.attachTimer = s.after(s.cfg.AttachTimeout, core.AttachOver{})
	}
}

func indexOf(names []string) map[string]int {
	m := make(map[string]int, len(names))
	for i, name := range names {
		m[name] = i
	}
	return m
}

// now is in ns since the Server began, and never 0, which means "not yet".
func (s *Server) now() int64 { return max(1, time.Since(s.began).Nanoseconds()) }

// post passes a function to the owner. It returns false if the owner has gone, or if over, the end of the caller, is
// closed first. A nil over never is.
func (s *Server) post(over <-chan struct{}, do func()) bool {
	select {
	case s.inbox <- do:
		return true
	case <-over:
	case <-s.quit:
	}
	return false
}

// runAsOwner runs fn on the owner goroutine, or after Close under mu, and waits for it.
func (s *Server) runAsOwner(fn func()) {
	ran := make(chan struct{})
	if s.post(nil, func() { fn(); close(ran) }) {
		select {
		case <-ran:
			return
		case <-s.stopped:
		}
	} else {
		<-s.stopped
	}
	select {
	case <-ran: // the owner ran it before it stopped
		return
	default:
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	fn()
}

// step passes an input to the Core, and waits for the answer.
func (s *Server) step(in core.Input) (a core.Answer) {
	s.runAsOwner(func() { a = s.core.Step(s.now(), in) })
	return a
}

// after passes an input to the Core when a time is over.
func (s *Server) after(d time.Duration, in core.Input) *time.Timer {
	return time.AfterFunc(d, func() { s.post(nil, func() { s.core.Step(s.now(), in) }) })
}

// maxInputsPerTurn bounds how long the owner takes inputs before it issues tokens.
const maxInputsPerTurn = 64

// ownerLoop is the owner goroutine: in each turn it applies all inputs that wait, then carries out what is ready.
func (s *Server) ownerLoop() {
	defer close(s.stopped)
	for {
		select {
		case do := <-s.inbox:
			do()
		case <-s.quit:
			return
		}
	more:
		for range maxInputsPerTurn {
			select {
			case do := <-s.inbox:
				do()
			default:
				break more
			}
		}
		s.carryOut(s.core.Ready(s.now()))
	}
}

// carryOut carries out what the Core has ready. The owner calls it.
func (s *Server) carryOut(r *core.Ready) {
	for _, t := range r.Taken {
		if st := s.streams[t.Stream]; st != nil {
			st.taken.Store(t.Entries)
			if st.audience == core.ForBuilders {
				notify(st.wake)
			}
		}
	}
	who := s.log.append(r.Notices)
	for _, a := range r.Admitted {
		if st := s.streams[a.Stream]; st != nil {
			st.admit(s.log, a.Answer)
		}
	}
	if len(r.Admitted) > 0 {
		close(s.rebuilt)
	}
	for _, st := range s.streams {
		if st.audience&who != 0 {
			notify(st.wake)
		}
	}
	for _, e := range r.Ended {
		if st := s.streams[e.Stream]; st != nil {
			delete(s.streams, e.Stream)
			st.close(s.endOf(e.Err))
		}
	}
	for _, b := range r.Broken {
		s.after(s.cfg.ResumeTimeout, core.ResumeOver(b))
	}
	for _, err := range r.Remarks {
		s.authorizer.warn("feedback", "the scheduler refused an outcome, or took it with a remark", "why", err)
	}
	if r.TickAfter > 0 {
		time.AfterFunc(r.TickAfter, func() { s.post(nil, func() {}) }) // a turn without an input
	}
	if n := len(r.Notices); n > 0 && r.Notices[n-1].State == core.Drained && !isClosed(s.drained) {
		close(s.drained)
	}
}

// Drained is closed when every issued MEP has its outcome and no other will be issued.
func (s *Server) Drained() <-chan struct{} { return s.drained }

// operate applies an operation of a control. The answer's error may be errUnknownUnit.
func (s *Server) operate(m *tagnetv1.ControlRequest) core.Answer {
	in, known := core.Command{Operation: m.GetOperation(), End: m.GetEnd(), User: m.GetUser(),
		Count: m.GetCount(), Request: m.GetRequest()}, true
	switch in.Operation {
	case tagnetv1.ControlRequest_OPERATION_EXCLUDE_BU, tagnetv1.ControlRequest_OPERATION_INCLUDE_BU,
		tagnetv1.ControlRequest_OPERATION_LOSE_BU, tagnetv1.ControlRequest_OPERATION_READMIT_BU:
		in.Unit, known = s.units[core.Builder][m.GetTarget()]
	case tagnetv1.ControlRequest_OPERATION_SUBSTITUTE:
		if known = s.hasUnit(m.GetTarget()); known {
			s.substitutes.set(m.GetTarget(), m.GetSubstitute())
			return core.Answer{}
		}
	case tagnetv1.ControlRequest_OPERATION_EXCLUDE_RU, tagnetv1.ControlRequest_OPERATION_INCLUDE_RU:
		in.Unit, known = s.units[core.Readout][m.GetTarget()]
	}
	if !known {
		return core.Answer{Err: errUnknownUnit}
	}
	return s.step(in)
}

// Drain stops the issue of new MEPs from end on; 0 means at once. Drained tells when the view is drained.
func (s *Server) Drain(end uint64) { _ = s.commands.Drain(end) } // it is never refused

// Abandon ends the view at once and returns the number of MEPs that it abandoned.
func (s *Server) Abandon() (meps int) {
	return s.operate(&tagnetv1.ControlRequest{Operation: tagnetv1.ControlRequest_OPERATION_ABANDON}).Reissued
}

// Registers reads all registers at once.
func (s *Server) Registers() (r *core.Registers) {
	var latency *hdrhistogram.Histogram
	s.runAsOwner(func() { r, latency = s.core.Registers() })
	r.Latency = histogram.Encode(latency)
	r.Run, r.View = s.cfg.Run, s.cfg.View
	r.Refused = map[string]uint64{}
	s.refusals.mu.Lock()
	defer s.refusals.mu.Unlock()
	for why, n := range s.refusals.byRefusal {
		r.Refused[string(why)] = n
	}
	return r
}

// Close ends all open streams with Unavailable and waits for every goroutine of the Server. Registers may still be
// called. Close the Server before the gRPC server is stopped.
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
	if s.triggers != nil {
		s.triggers.close()
	}
	s.wg.Wait()
	s.log.close()
}

// enterHandler counts a handler that begins; false if the Server is closed.
func (s *Server) enterHandler() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return false
	}
	s.wg.Add(1)
	return true
}

// serveRegisters returns all figures.
func (s *Server) serveRegisters(ctx context.Context, m *tagnetv1.RegistersRequest) (
	*tagnetv1.RegistersResponse, error,
) {
	if _, err := s.authorizer.authorizeReader(ctx, m.GetScope(), s.isMember); err != nil {
		return nil, err
	}
	if err := s.checkScope(m.GetScope(), true); err != nil {
		return nil, err
	}
	return s.Registers(), nil
}

// isMember tells whether a node has a unit in the view, its own or as a substitute.
func (s *Server) isMember(name string) bool { return s.hasUnit(s.substitutes.memberOf(name)) }

// hasUnit tells whether a member of the view has a unit.
func (s *Server) hasUnit(name string) bool {
	_, ru := s.units[core.Readout][name]
	_, bu := s.units[core.Builder][name]
	return ru || bu
}

// serveControl applies the operation of a remote control.
func (s *Server) serveControl(ctx context.Context, m *tagnetv1.ControlRequest) (*tagnetv1.ControlResponse, error) {
	if _, err := s.authorizer.authorizeControl(ctx, m.GetScope()); err != nil {
		return nil, err
	}
	if !s.enterHandler() {
		return nil, errClosing
	}
	defer s.wg.Done()
	if err := s.checkScope(m.GetScope(), false); err != nil {
		return nil, err
	}
	a := s.operate(m)
	var why *core.SessionError
	switch {
	case errors.Is(a.Err, errUnknownUnit):
		return nil, s.refuse(core.RefusedName, m.GetTarget(), "", "view %d has no unit %q for %s", s.cfg.View, m.GetTarget(),
			m.GetOperation())
	case errors.As(a.Err, &why):
		return nil, s.refusal(a.Err)
	case a.Err != nil:
		return nil, s.refuse(core.RefusedNotNow, m.GetOperation(), "", "%v", a.Err)
	}
	r := &tagnetv1.ControlResponse{State: tagnetv1.State(a.State), Taken: a.Triggers}
	if m.GetOperation() != tagnetv1.ControlRequest_OPERATION_ABANDON {
		r.Reissued = uint64(a.Reissued)
	}
	return r, nil
}

// notify puts a mark into a channel of capacity one, unless it has one.
func notify(c chan<- struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

func isClosed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}
