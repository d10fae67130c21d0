package node

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"
	"google.golang.org/grpc"

	"ringlet/barrier"
	"ringlet/builderunit"
	"ringlet/builderunit/sink"
	"ringlet/event/placing"
	"ringlet/internal/stopwatch"
	"ringlet/node/config"
	"ringlet/node/fsm"
	nodev1 "ringlet/proto/ringlet/node/v1"
	"ringlet/readoutunit"
	"ringlet/shmem"
	"ringlet/tagnet"
	"ringlet/transport"
)

// session is what a node is configured as: its memory, its links and, while running, its units.
type session struct {
	// immutable after newSession
	node          *process
	cfg           config.Config
	view          *nodev1.View
	configHash    string // of the configuration as it was sent
	self          *nodev1.Member
	ruRanks       []int // rank of each readout unit, by index
	buRanks       []int
	ruByRank      map[int]int
	table         *shmem.Table
	layout        *placing.Layout // of every slot, where windows are pre-granted; else nil
	endpoint      *transport.Endpoint
	segmentPrefix string // how the names of its segments begin

	// set by start, read by the links' receivers
	ru       atomic.Pointer[readoutunit.Unit]
	bu       atomic.Pointer[builderunit.Builder]
	barrier  atomic.Pointer[barrier.Barrier]
	feedback atomic.Pointer[feedbackSender] // once the builder unit has attached

	decisions decisionRole

	counters sessionCounters

	// lifecycleMu is held while units are made and while the output is completed; abort waits for it before it takes their
	// memory and the output away. Either may take long, so reports and the links' receivers never wait for it.
	lifecycleMu sync.Mutex

	slots       *shmem.Slots // nil without a builder unit; guarded by lifecycleMu after newSession
	slotsRemade int          // how often the slots were made anew; guarded by lifecycleMu

	mu               sync.Mutex // guards what follows
	schedulerConns   []schedulerConn
	sink             sink.Sink
	outputClosed     chan struct{} // closed when the sink is finished or given up
	arenas           [][]byte      // of the readout units
	outputResult     sink.Result
	sinkFinished     bool // the sink is finished or aborted
	aborted          bool
	pendingWritesErr error             // writes of the last run are under way still: their memory cannot be used again
	linkBaseline     map[string]uint64 // counters of the links when the run began
	badInputReported bool              // told to the state machine
	lostLinkRanks    []int             // ranks to which the link is down, and without which the run goes on
	// ranks of readout units that the scheduler said are gone: others may take their places
	vacatedRanks   map[int]bool
	badReadouts    []fsm.Cause  // readout units whose data do not fit, and without which the run goes on
	absentReadouts map[int]bool // readout units, by index, that the scheduler said are gone from this run
	absencesSeen   int          // of the readout units, by which the builder unit goes
}

// schedulerConn is a unit's end of its stream to the scheduler.
type schedulerConn interface {
	Done() <-chan struct{}
	Close() error
}

// newSession makes a node's memory and its end of the links, which connect then brings up.
func newSession(n *process, req *nodev1.CommandRequest) (*session, error) {
	cfg, err := config.Parse("the configuration sent by the control", req.GetConfiguration())
	if err != nil {
		return nil, err
	}
	if err := cfg.Complete(); err != nil {
		return nil, err
	}
	carriers := cfg.Carriers()
	damage, err := transport.ParseDamage(cfg.Debug.Damage)
	if err != nil {
		return nil, err
	}
	if err := n.network.MeasureQueueDelays(cfg.Debug.Stamps); err != nil {
		return nil, fmt.Errorf("debug.stamps: the kernel gives no times of packets: %w", err)
	}
	sum := sha256.Sum256(req.GetConfiguration())
	s := &session{
		node:         n,
		cfg:          cfg,
		view:         req.GetView(),
		configHash:   hex.EncodeToString(sum[:]),
		ruByRank:     map[int]int{},
		vacatedRanks: map[int]bool{},
	}
	if err := s.locateMembers(); err != nil {
		return nil, err
	}
	if err := n.cfg.Allowlist.Check(&cfg, s.self); err != nil {
		return nil, err
	}
	s.layout = cfg.PreGrantedLayout()
	s.segmentPrefix = fmt.Sprintf("ringlet-%d-%s-%d", req.GetRun(), n.cfg.Name, os.Getpid())
	s.decisions.nodeRank = cfg.DecisionRank(s.memberNames())
	if err := s.makeMemory(carriers.AllowsLocal()); err != nil {
		return nil, err
	}
	s.endpoint = transport.New(transport.Config{
		Network:     n.network,
		Handler:     (*handler)(s),
		Table:       s.table,
		View:        s.transportView(),
		Rank:        int(s.self.GetRank()),
		Carrier:     carriers.Carrier,
		AutoNetwork: carriers.NetworkCarrier.Carrier,
		DropShare:   cfg.Debug.Drop,
		DropSeed:    cfg.Seed + uint64(s.self.GetRank())<<32,
		Damage:      damage,
		MayRejoin:   s.readmissionCheck(),
		OnRejoin:    s.clearLost,
		MinTimeout:  n.cfg.MinTimeout,
		Log:         n.log,
	})
	return s, nil
}

// makeMemory makes the slots and the export table, which peers of the same host can reach where the carrier may be
// local.
func (s *session) makeMemory(shared bool) (err error) {
	// A builder grants one window per slot and readout unit; one more per unit is on its way out when a slot changes
	// hands.
	windows := (s.cfg.Slots+1)*max(1, len(s.ruRanks)) + s.decisionWindows()
	if !shared {
		s.table = shmem.NewTable(windows)
	} else if s.table, err = shmem.NewSharedTable(s.segmentPrefix+"-table", windows); err != nil {
		return err
	}
	if s.self.GetBuilder() {
		if err := s.makeSlots("-slots"); err != nil {
			return errors.Join(err, s.table.Close())
		}
	}
	if err := s.makeDecisionSegment(); err != nil {
		if s.slots != nil {
			err = errors.Join(err, s.slots.Close())
		}
		return errors.Join(err, s.table.Close())
	}
	return nil
}

// locateMembers finds this node and the units in the view.
func (s *session) locateMembers() error {
	s.ruRanks, s.buRanks = make([]int, s.cfg.RUs), make([]int, s.cfg.BUs)
	seenRU, seenBU := make([]bool, s.cfg.RUs), make([]bool, s.cfg.BUs)
	rus, bus := 0, 0
	for rank, m := range s.view.GetMembers() {
		if int(m.GetRank()) != rank {
			return fmt.Errorf("view %d lists %s, of rank %d, at place %d", s.view.GetNumber(), m.GetName(), m.GetRank(), rank)
		}
		if m.GetName() == s.node.cfg.Name {
			s.self = m
		}
		if i := int(m.GetRuIndex()); m.GetReadout() && i < len(s.ruRanks) && !seenRU[i] {
			s.ruRanks[i], s.ruByRank[rank], seenRU[i] = rank, i, true
			rus++
		}
		if i := int(m.GetBuIndex()); m.GetBuilder() && i < len(s.buRanks) && !seenBU[i] {
			s.buRanks[i], seenBU[i] = rank, true
			bus++
		}
	}
	switch {
	case s.self == nil:
		return fmt.Errorf("view %d has no member called %s", s.view.GetNumber(), s.node.cfg.Name)
	case rus != s.cfg.RUs || bus != s.cfg.BUs:
		return fmt.Errorf("view %d has %d readout and %d builder units of different index, the configuration %d and %d",
			s.view.GetNumber(), rus, bus, s.cfg.RUs, s.cfg.BUs)
	}
	return nil
}

func (s *session) transportView() transport.View {
	v := transport.View{Number: s.view.GetNumber()}
	for _, m := range s.view.GetMembers() {
		v.Members = append(v.Members, transport.Member{Name: m.GetName(), Addr: m.GetQuicAddress()})
	}
	return v
}

// connect links this node to those it has something to tell.
// A node that comes back in a run does without those that are lost to that.
func (s *session) connect(ctx context.Context, req *nodev1.CommandRequest) error {
	var ranks []int
	for rank := range s.view.GetMembers() {
		if s.needsLink(rank) {
			ranks = append(ranks, rank)
		}
	}
	if !req.GetBack() {
		return s.endpoint.Connect(ctx, ranks)
	}
	s.mu.Lock()
	for _, rank := range req.GetWithout() {
		s.lostLinkRanks = append(s.lostLinkRanks, int(rank))
	}
	lost := s.lostLinkRanks
	s.mu.Unlock()
	return s.endpoint.Reconnect(ctx, slices.DeleteFunc(ranks, func(rank int) bool { return slices.Contains(lost, rank) }))
}

// start makes the units and attaches them to the scheduler. Tokens come when every unit of the view has attached.
func (s *session) start(ctx context.Context, req *nodev1.CommandRequest) error {
	s.lifecycleMu.Lock()
	defer s.lifecycleMu.Unlock()
	s.mu.Lock()
	dead, hanging := s.aborted, s.pendingWritesErr
	s.sinkFinished, s.outputResult, s.badInputReported = false, sink.Result{}, false
	s.absencesSeen, s.badReadouts, s.absentReadouts = 0, nil, nil
	clear(s.vacatedRanks)
	s.mu.Unlock()
	switch {
	case dead:
		return errLinksDown
	case hanging != nil:
		return fmt.Errorf("writes of the last run are under way still: reset and configure this node again (%w)", hanging)
	}
	s.closeDecisionUnit()
	s.beginCounting()
	run, address := req.GetRun(), req.GetTagnetAddress()
	scheduler := cmp.Or(req.GetTagnetName(), ControlName)
	attach := func(name string) (tagnet.Scope, []grpc.DialOption) {
		return tagnet.Scope{Run: run, View: s.view.GetNumber(), Name: name}, []grpc.DialOption{
			grpc.WithTransportCredentials(s.node.cfg.Identity.ClientCredentials(scheduler, s.node.log)),
			tagnet.WithReconnect(s.node.cfg.MinTimeout),
		}
	}
	if err := s.startDecisions(req.GetBack()); err != nil {
		return err
	}
	if s.self.GetBuilder() {
		if err := s.startBuilder(ctx, req, attach); err != nil {
			return err
		}
	}
	if s.self.GetReadout() {
		return s.startReadout(ctx, address, req.GetBack(), attach)
	}
	return nil
}

// keepConn remembers a connection to the scheduler, to be closed with the units.
func (s *session) keepConn(c schedulerConn) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.schedulerConns = append(s.schedulerConns, c)
}

// allDetached tells that no unit of this node takes part any more: the view is drained, or the unit excluded.
func (s *session) allDetached() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, c := range s.schedulerConns {
		if f, ok := c.(*feedbackSender); ok && f.excluded.Load() {
			continue // it asks to come back, and may wait for that for ever
		}
		select {
		case <-c.Done():
		default:
			return false
		}
	}
	return true
}

// isExcluded tells that this node's part in a run that goes on is over: it has a builder unit alone, which is excluded.
// A view that is drained is another matter: there the others are in need of the links until the control has stopped
// them all.
func (s *session) isExcluded() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, c := range s.schedulerConns {
		if f, ok := c.(*feedbackSender); !ok || !f.excluded.Load() {
			return false
		}
	}
	return len(s.schedulerConns) > 0
}

func (s *session) reportFault(subsystem string, err error) {
	s.mu.Lock()
	dead := s.aborted
	s.mu.Unlock()
	if !dead {
		go s.node.reportFault(subsystem, err) // it ends the units, which cannot end while they wait for this call
	}
}

// stopUnits ends the units; the links stay.
func (s *session) stopUnits() {
	if ru := s.ru.Load(); ru != nil {
		_ = ru.Close() // a source that cannot be closed has nothing left to lose
	}
	if bu := s.bu.Load(); bu != nil {
		if err := bu.Close(); err != nil {
			s.node.log.Warn("the builder unit did not end cleanly", "err", err)
		}
	}
	s.mu.Lock()
	scheds := s.schedulerConns
	s.schedulerConns = nil
	s.mu.Unlock()
	for _, c := range scheds {
		if err := c.Close(); err != nil { // the scheduler may be gone
			s.node.log.Info("the scheduler was not told everything", "err", err)
		}
	}
}

// stop ends the units and makes the output whole.
func (s *session) stop(ctx context.Context) error {
	s.liftBacklogLimit()
	if ru := s.ru.Load(); ru != nil {
		ctx, cancel := stopwatch.WithStallTimeout(ctx, max(drainTimeout, s.node.cfg.MinTimeout), s.progressCount, nil)
		defer cancel()
		if err := ru.Drain(ctx); err != nil {
			s.node.log.Warn("stopping all the same", "err", err)
			s.mu.Lock()
			s.pendingWritesErr = err
			s.mu.Unlock()
		}
	}
	s.stopUnits()
	s.endDecisions(ctx)
	return s.finishOutput()
}

// finishOutput makes the output whole, unless that is done or the output was given up.
func (s *session) finishOutput() error {
	s.lifecycleMu.Lock()
	defer s.lifecycleMu.Unlock()
	s.mu.Lock()
	out, over := s.sink, s.sink == nil || s.sinkFinished
	s.sinkFinished = true
	s.mu.Unlock()
	if over {
		return nil
	}
	defer s.signalOutputClosed()
	result, err := out.Finish()
	if err != nil {
		return errors.Join(err, out.Abort())
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.outputResult = result
	return nil
}

// signalOutputClosed tells whoever waits for it that the output is closed.
func (s *session) signalOutputClosed() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.outputClosed != nil {
		close(s.outputClosed)
	}
}

// closeOutput closes an output that is not finished, with all that is in it. The caller holds lifecycleMu.
func (s *session) closeOutput() {
	s.mu.Lock()
	out, over := s.sink, s.sink == nil || s.sinkFinished
	s.sinkFinished = true
	s.mu.Unlock()
	if over {
		return
	}
	defer s.signalOutputClosed()
	if err := out.Abort(); err != nil {
		s.node.log.Error("the output could not be closed; what is in it is recovered by the next run", "err", err)
	}
}

// abort takes everything down: units, links, memory. What the output has is kept and closed.
func (s *session) abort() {
	s.mu.Lock()
	s.aborted = true
	s.mu.Unlock()
	_ = s.endpoint.Close()
	s.lifecycleMu.Lock()
	defer s.lifecycleMu.Unlock()
	s.stopUnits()
	s.endDecisions(canceledContext())
	s.closeDecisionUnit()
	s.closeOutput()
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, a := range s.arenas {
		if err := unix.Munmap(a); err != nil {
			s.node.log.Error("the readout unit's memory was not given back", "err", err)
		}
	}
	s.arenas = nil
	if s.slots != nil {
		if err := s.slots.Close(); err != nil {
			s.node.log.Error("the slots could not be removed", "err", err)
		}
	}
	if s.decisions.segment != nil {
		if err := s.decisions.segment.Close(); err != nil {
			s.node.log.Error("the memory of the decision unit could not be removed", "err", err)
		}
	}
	if err := s.table.Close(); err != nil {
		s.node.log.Error("the shared export table could not be removed", "err", err)
	}
}

// drainTimeout is how long a readout unit waits for the responses to its last writes when the run is over and nothing
// moves any more; a lost one is repaired in 20 ms.
const drainTimeout = 2 * time.Second
