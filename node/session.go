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

// session is what a node is configured as: memory, links, and components, which take part in runs. The links tell it
// what arrives, and it hands that on to who has said that it takes it.
type session struct {
	base
	handlers

	// immutable after newSession
	components []component // in the order in which they start

	counters sessionCounters

	// starting is held while components start; abort waits for it before it takes their memory away. That may take long,
	// so reports and the links' receivers never wait for it.
	starting sync.Mutex

	mu       sync.Mutex        // guards what follows
	baseline map[string]uint64 // counters of what lasts when the run began
}

// newSession makes a node's memory and its end of the links, which connect then brings up.
func newSession(n *process, req *nodev1.CommandRequest) (*session, error) {
	a, err := newAssignment(req, n.cfg.Name)
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
	})
	return s, nil
}

// makeTable makes the export table, which peers of the same host can reach where the carrier may be local.
func (s *session) makeTable(shared bool) (err error) {
	// A builder grants one window per slot and readout unit; one more per unit is on its way out when a slot changes
	// hands. The decision unit grants one to each builder unit.
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

// makeComponents makes what this node has a part in: outputs, decisions, units, in the order in which they start. It is
// the only place that knows which there are.
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

// connect links this node to those it has something to tell.
// A node that comes back in a run does without those that are lost to that.
func (s *session) connect(ctx context.Context, req *nodev1.CommandRequest) error {
	ranks := s.linkedRanks()
	if !req.GetBack() {
		return s.endpoint.Connect(ctx, ranks)
	}
	for _, rank := range req.GetWithout() {
		s.losses.add(int(rank))
	}
	return s.endpoint.Reconnect(ctx, slices.DeleteFunc(ranks, s.losses.isLost))
}

// start has the components begin a run. Tokens come when every unit of the view has attached to the scheduler.
func (s *session) start(ctx context.Context, req *nodev1.CommandRequest) error {
	s.starting.Lock()
	defer s.starting.Unlock()
	if s.closing.Load() {
		return errLinksDown
	}
	s.losses.begin()
	s.beginCounting()
	run := &runStart{req, func() (tagnet.Scope, []grpc.DialOption) {
		scheduler := cmp.Or(req.GetTagnetName(), ControlName)
		return tagnet.Scope{Run: req.GetRun(), View: s.view.GetNumber(), Name: s.node.cfg.Name}, []grpc.DialOption{
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

// stop has the components end a run, and makes the output whole. The links stay.
func (s *session) stop(ctx context.Context, giveUp bool) (err error) {
	for _, c := range slices.Backward(s.components) {
		err = errors.Join(err, c.stop(ctx, giveUp))
	}
	return err
}

// giveUp ends links and units, and waits for nobody.
func (s *session) giveUp() {
	_ = s.endpoint.Close() // first, so that nobody waits for a peer
	over, cancel := context.WithCancel(context.Background())
	cancel()
	_ = s.stop(over, true) // what does not end well is logged
}

// abort takes everything down: units, links, memory. What the output has is kept and closed.
func (s *session) abort() {
	s.closing.Store(true)
	_ = s.endpoint.Close() // so that what starts waits for no peer
	s.starting.Lock()
	defer s.starting.Unlock()
	s.giveUp()
	s.free()
}

// free gives the memory back.
func (s *session) free() {
	for _, c := range s.components {
		c.free()
	}
	if err := s.table.Close(); err != nil {
		s.node.log.Error("the shared export table could not be removed", "err", err)
	}
}

// attachments are how the components stand to the scheduler that have to do with it.
func (s *session) attachments() (all []attachment) {
	for _, c := range s.components {
		if a := c.attachment(); a != unattached {
			all = append(all, a)
		}
	}
	return all
}

// allDetached tells that no unit of this node takes part any more: the view is drained, or the unit excluded.
func (s *session) allDetached() bool { return !slices.Contains(s.attachments(), attached) }

// isExcluded tells that this node's part in a run that goes on is over: it has a builder unit alone, which is excluded.
// A view that is drained is another matter: there the others are in need of the links until the control has stopped
// them all.
func (s *session) isExcluded() bool {
	all := s.attachments()
	return len(all) > 0 && !slices.ContainsFunc(all, func(a attachment) bool { return a != excluded })
}

// drainExcluded waits until nothing is under way to builder units here any more, which are excluded.
func (s *session) drainExcluded(ctx context.Context) (err error) {
	for _, c := range s.components {
		if bu, ok := c.(*builder); ok {
			err = errors.Join(err, bu.drainExcluded(ctx))
		}
	}
	return err
}

// progressCount counts what moves while this node's part in a run comes to its end: bytes that are placed here, writes
// to others that have their outcome, MEPs, and bytes in the output. A stop waits for as long as it changes.
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

// checkDetector looks, before a run, whether this node's builder unit can read the detector of its filter, and whether
// it is the one that the run control has read.
func (s *session) checkDetector() error {
	choice, ok := s.cfg.FilterChoice()
	if !ok || !s.self.GetBuilder() {
		return nil
	}
	_, err := config.LoadFilterDescription(choice)
	return err
}
