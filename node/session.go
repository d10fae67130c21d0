package node

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"

	"google.golang.org/grpc"

	"ringlet/node/config"
	nodev1 "ringlet/proto/ringlet/node/v1"
	"ringlet/shmem"
	"ringlet/tagnet"
	"ringlet/transport"
)

// session is a configured node: memory, links, and components, which take part in runs. The links pass it the messages
// that arrive, and it passes each to the component that handles it.
type session struct {
	base
	handlers

	// immutable after newSession
	components []component // in the order of start

	counters sessionCounters

	// starting is held while components start; abort waits for it before it frees their memory. A start may take long, so
	// reports and the links' receivers never wait for starting.
	starting sync.Mutex

	mu       sync.Mutex        // guards the fields below
	baseline map[string]uint64 // lasting counters at the beginning of the run
}

// newSession makes a node's memory and its end of the links, which connect then opens.
func newSession(n *process, req *nodev1.CommandRequest) (*session, error) {
	a, err := newAssignment(req, n.cfg.Name)
	if err == nil && !n.cfg.Roles.CanHold(a.self.GetReadout(), a.self.GetBuilder()) {
		err = fmt.Errorf("%s was started with --role %s: it does not take other units", n.cfg.Name, n.cfg.Roles.Word())
	}
	if err != nil {
		return nil, err
	}
	carriers := a.cfg.Carriers()
	damage, err := transport.ParseDamage(a.cfg.Debug.Damage)
	if err != nil {
		return nil, err
	}
	if err := n.network.MeasureQueueDelays(a.cfg.Debug.Stamps); err != nil {
		return nil, fmt.Errorf("debug.stamps: the kernel gives no times of packets: %w", err)
	}
	if err := n.cfg.Allowlist.Check(&a.cfg, a.self); err != nil {
		return nil, err
	}
	s := &session{base: base{assignment: a, node: n}}
	timeouts := a.cfg.Timeouts()
	n.network.SetIdleTimeout(max(n.cfg.IdleTimeout, timeouts.Link))
	s.losses.begin()
	if err := s.makeTable(carriers.AllowsLocal()); err != nil {
		return nil, err
	}
	if err := s.makeComponents(); err != nil {
		s.free()
		return nil, err
	}
	s.endpoint = transport.New(transport.Config{
		Network:     n.network,
		Handler:     s,
		Table:       s.table,
		View:        a.transportView(),
		Rank:        int(a.self.GetRank()),
		Carrier:     carriers.Carrier,
		AutoNetwork: carriers.NetworkCarrier.Carrier,
		DropShare:   a.cfg.Debug.Drop,
		DropSeed:    a.cfg.Seed + uint64(a.self.GetRank())<<32,
		Damage:      damage,
		MayRejoin:   s.mayRejoin(),
		OnRejoin:    s.rejoined,
		MinTimeout:  n.cfg.MinTimeout,
		Log:         n.log,

		StuckTimeout: timeouts.StuckLink,
	})
	return s, nil
}

// makeTable makes the export table, shared with peers on the same host if the carrier may be local.
func (s *session) makeTable(shared bool) (err error) {
	// A builder unit grants one window per slot and readout unit, and one more per readout unit while a slot changes
	// hands. The decision unit grants one window to each builder unit.
	windows := (s.cfg.Slots + 1) * max(1, len(s.ruRanks))
	if s.hasDecisionUnit() {
		windows += len(s.buRanks)
	}
	if shared {
		s.table, err = shmem.NewSharedTable(s.segmentPrefix+"-table", windows)
	} else {
		s.table = shmem.NewTable(windows)
	}
	return err
}

// makeComponents makes the components of this node, in the order of start: outputs, decisions, units. Only this
// function knows which components exist.
func (s *session) makeComponents() (err error) {
	var out *output
	var d *decisions
	var ru *readout
	if s.self.GetBuilder() {
		if out, err = newOutput(&s.base, int(s.self.GetBuIndex())); err != nil {
			return err
		}
		s.components = append(s.components, out)
	}
	if s.hasDecisionUnit() {
		unit, err := newDecisionUnit(&s.base, &s.handlers)
		if err != nil {
			return err
		}
		s.components = append(s.components, unit)
	}
	if s.decisionRank != config.NoUnit && (s.self.GetReadout() || s.self.GetBuilder()) {
		d = newDecisions(&s.base, &s.handlers)
		d.rejected = func(first, events uint64) {
			if unit := ru.unit.Load(); unit != nil {
				unit.HandleRejected(first, events)
			}
		}
		s.components = append(s.components, d)
	}
	if out != nil {
		bu := newBuilder(&s.base, &s.handlers, out)
		if d != nil {
			out.onFiltered, bu.onReported = d.reportFiltered, d.reportOutcomes
		}
		s.components = append(s.components, bu)
	}
	if s.self.GetReadout() {
		ru = newReadout(&s.base, &s.handlers, int(s.self.GetRuIndex()), s.progressCount)
		if d != nil {
			ru.onTriggered = d.reportTriggered
		}
		s.components = append(s.components, ru)
	}
	return nil
}

// connect opens the links that this node needs. A node that rejoins a run leaves out the nodes that the run has lost.
func (s *session) connect(ctx context.Context, req *nodev1.CommandRequest) error {
	ranks := s.linkedRanks()
	if !req.GetBack() {
		return s.endpoint.Connect(ctx, ranks)
	}
	for _, rank := range req.GetWithout() {
		if slices.Contains(ranks, int(rank)) { // else nothing is lost here, and no link would ever end the loss
			s.losses.add(int(rank))
		}
	}
	return s.endpoint.Reconnect(ctx, slices.DeleteFunc(ranks, s.losses.isLost))
}

// start starts a run in the components. Tokens come once every unit of the view has attached to the scheduler.
func (s *session) start(ctx context.Context, req *nodev1.CommandRequest) error {
	s.starting.Lock()
	defer s.starting.Unlock()
	if s.closing.Load() {
		return errLinksDown
	}
	s.losses.begin()
	s.beginCounting()
	run := &runStart{req, func() (string, tagnet.Scope, []grpc.DialOption) {
		_, req := s.node.sessionAndRequest() // of the present scheduler
		scheduler := cmp.Or(req.GetTagnetName(), ControlName)
		scope := tagnet.Scope{Run: req.GetRun(), View: s.view.GetNumber(), Name: s.node.cfg.Name}
		return req.GetTagnetAddress(), scope, []grpc.DialOption{
			grpc.WithTransportCredentials(s.node.cfg.Identity.ClientCredentials(scheduler, s.node.log)),
			tagnet.WithReconnect(s.node.cfg.MinTimeout),
		}
	}}
	for _, c := range s.components {
		if err := c.start(ctx, run); err != nil {
			return err
		}
	}
	return nil
}

// followSuccessor has the units go on with the successor of their scheduler.
func (s *session) followSuccessor() (err error) {
	for _, c := range s.components {
		if c, ok := c.(interface{ followSuccessor() error }); ok {
			err = errors.Join(err, c.followSuccessor())
		}
	}
	return err
}

// stop stops the run in the components, and completes the output. The links stay.
func (s *session) stop(ctx context.Context, giveUp bool) (err error) {
	for _, c := range slices.Backward(s.components) {
		err = errors.Join(err, c.stop(ctx, giveUp))
	}
	return err
}

// giveUp closes links and units at once, without waiting for other nodes.
func (s *session) giveUp() {
	_ = s.endpoint.Close() // first, so that nothing waits for a peer
	over, cancel := context.WithCancel(context.Background())
	cancel()
	_ = s.stop(over, true) // components log what does not end well
}

// abort removes units, links and memory. An output that is not complete is closed with its content.
func (s *session) abort() {
	s.closing.Store(true)
	_ = s.endpoint.Close() // so that a start does not wait for a peer
	s.starting.Lock()
	defer s.starting.Unlock()
	s.giveUp()
	s.free()
}

// free frees the memory.
func (s *session) free() {
	for _, c := range s.components {
		c.free()
	}
	if err := s.table.Close(); err != nil {
		s.node.log.Error("the shared export table could not be removed", "err", err)
	}
}

// attachments are the attachments of the components that attach to the scheduler.
func (s *session) attachments() (all []attachment) {
	for _, c := range s.components {
		if a := c.attachment(); a != unattached {
			all = append(all, a)
		}
	}
	return all
}

// allDetached tells that no unit of this node is attached: the view is drained, or the unit is excluded.
func (s *session) allDetached() bool { return !slices.Contains(s.attachments(), attached) }

// isExcluded tells that this node's part in a run that goes on is over: its only unit is a builder unit, which is
// excluded. After a drained view, by contrast, the other nodes need the links until the control has stopped them all.
func (s *session) isExcluded() bool {
	all := s.attachments()
	return len(all) > 0 && !slices.ContainsFunc(all, func(a attachment) bool { return a != excluded })
}

// drainExcluded waits until nothing is under way to this node's builder unit, which is excluded.
func (s *session) drainExcluded(ctx context.Context) (err error) {
	for _, c := range s.components {
		if bu, ok := c.(*builder); ok {
			err = errors.Join(err, bu.drainExcluded(ctx))
		}
	}
	return err
}

// progressCount is a sum by which a stop sees that this node still finishes its part of a run: bytes placed in its
// memory, completed writes to other nodes, MEPs that have got their outcome, and bytes in the output. A stop goes on
// waiting as long as the sum grows.
func (s *session) progressCount() uint64 {
	links := s.endpoint.Stats()
	n := links.BytesPlaced + links.WritesCompleted
	for _, c := range s.components {
		if c, ok := c.(interface{ progress() uint64 }); ok {
			n += c.progress()
		}
	}
	return n
}

// checkDetector checks, before a run, that this node's builder unit can read the detector description of its filter,
// and that the description is the one that the run control has read.
func (s *session) checkDetector() error {
	choice, ok := s.cfg.FilterChoice()
	if !ok || !s.self.GetBuilder() {
		return nil
	}
	_, err := config.LoadFilterDescription(choice)
	return err
}
