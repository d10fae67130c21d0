package node

import (
	"context"
	"fmt"
	"sync"
	"time"

	"ringlet/node/config"
	"ringlet/node/fsm"
	nodev1 "ringlet/proto/ringlet/node/v1"
	tagnetv1 "ringlet/proto/ringlet/tagnet/v1"
	"ringlet/tagnet"
)

// codeControlLost is the code of the cause with which nodes end a run by themselves.
const codeControlLost = "control_lost"

// controlPresence knows when the control last spoke to this node.
type controlPresence struct {
	mu          sync.Mutex // guards the rest
	openCalls   int        // calls of the control under way: it is there
	lastCallEnd time.Time
}

// beginCall notes a call of the control; what it returns notes its end.
func (p *controlPresence) beginCall() (end func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.openCalls++
	return func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		p.openCalls--
		p.lastCallEnd = time.Now()
	}
}

// lastContact is when the control was last heard: now, while a call of it is under way.
func (p *controlPresence) lastContact(now time.Time) time.Time {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.openCalls > 0 {
		return now
	}
	return p.lastCallEnd
}

// leaseCheckInterval is how often a node looks whether the control is there: nothing beside the seconds that it is
// granted at least.
const leaseCheckInterval = 100 * time.Millisecond

// runLease ends a run by itself when the control is lost. It returns when ctx ends.
func (n *process) runLease(ctx context.Context) {
	tick := time.NewTicker(leaseCheckInterval)
	defer tick.Stop()
	var l lease
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		now := time.Now()
		switch l.step(now, n.observeLease(now)) {
		case leaseDrain:
			n.drainWithoutControl()
			n.excludeWithoutControl()
		case leaseExcludeLost:
			n.excludeWithoutControl()
		case leaseStop:
			n.stopWithoutControl(ctx)
		case leaseNone:
		}
	}
}

// observeLease is what the lease goes by.
func (n *process) observeLease(now time.Time) leaseObservation {
	s, req := n.sessionAndRequest()
	if s == nil || req.GetTagnetName() == "" || !unitsActive(n.runner.Status().State) {
		return leaseObservation{}
	}
	out := leaseObservation{
		running:     true,
		lastContact: n.controlCalls.lastContact(now),
		maxSilence:  s.cfg.ControlLoss,
		drained:     s.allDetached(),
	}
	if now.Sub(out.lastContact) >= minSilence {
		out.progress = s.progressCount()
	}
	return out
}

// unitsActive says whether units are at work in a state.
func unitsActive(s fsm.State) bool {
	switch s {
	case fsm.Running, fsm.Pausing, fsm.Paused, fsm.Resuming:
		return true
	}
	return false
}

// drainWithoutControl lets the scheduler drain, if it is here.
func (n *process) drainWithoutControl() {
	s, req := n.sessionAndRequest()
	server := n.schedulerHost.Server()
	if s == nil || req.GetTagnetName() != n.cfg.Name || server == nil {
		n.log.Warn("the control is lost: waiting for the scheduler to end the run", "scheduler", req.GetTagnetName())
		return
	}
	n.log.Warn("the control is lost: the scheduler ends the run")
	n.noteControlLost()
	server.Drain(0)
}

// excludeWithoutControl excludes units that are lost, if the scheduler is here: the drain would wait for what they had.
// A loss may be found only after the drain has begun.
func (n *process) excludeWithoutControl() {
	s, req := n.sessionAndRequest()
	server := n.schedulerHost.Server()
	if s == nil || req.GetTagnetName() != n.cfg.Name || server == nil {
		return
	}
	reg := server.Registers()
	if tagnet.State(reg.GetState()) == tagnet.Drained {
		return // units have gone because it is over
	}
	for _, name := range lostReadouts(reg.GetRus(), s) {
		n.log.Warn("a readout unit is lost, and the run tolerates it: what it has is missing", "readout", name)
		if err := server.ExcludeRU(name); err != nil {
			n.log.Error("a lost readout unit is waited for", "readout", name, "err", err)
		}
	}
	for _, name := range lostBuilders(reg.GetBus(), s.cfg) {
		n.log.Warn("a builder unit is lost, and the run tolerates it: its MEPs go to others", "builder", name)
		if _, err := server.ExcludeBU(name); err != nil {
			n.log.Error("a lost builder unit stays in the schedule", "builder", name, "err", err)
		}
	}
}

// lostReadouts are the readout units that were lost while nobody was there to exclude them. Where the policy does not
// tolerate it there are none.
func lostReadouts(rus []*tagnetv1.RURegister, s *session) []string {
	var names []string
	remaining := 0
	for ru, u := range rus {
		switch {
		case u.GetExcluded():
		case u.GetAttached():
			remaining++
		case !s.isExpendable(s.ruRanks[ru]):
			return nil
		default:
			names = append(names, u.GetName())
		}
	}
	if readout, _ := s.cfg.LossPoliciesInRun(); !readout.Tolerates(remaining) {
		return nil
	}
	return names
}

// lostBuilders are the builder units that were lost while nobody was there to exclude them. Where the policy does not
// tolerate it there are none.
func lostBuilders(bus []*tagnet.BURegister, cfg config.Config) []string {
	var names []string
	remaining := 0
	for _, bu := range bus {
		switch {
		case bu.GetExcluded():
		case bu.GetAttached():
			remaining++
		default:
			names = append(names, bu.GetName())
		}
	}
	if _, builder := cfg.LossPolicies(); !builder.Tolerates(remaining) {
		return nil
	}
	return names
}

// stopWithoutControl stops as the control would: the output becomes whole and the figures are kept for when it comes
// back.
func (n *process) stopWithoutControl(ctx context.Context) {
	n.noteControlLost()
	if err := n.stopRun(ctx); err != nil {
		n.log.Error("the run did not end in good order", "err", err)
	}
}

// stopRun stops this node's part in a run in good order.
func (n *process) stopRun(ctx context.Context) error {
	n.mu.Lock()
	n.discardRun = false
	n.mu.Unlock()
	return n.runner.Command(ctx, fsm.Stop)
}

// noteControlLost notes why this run ends, unless that is known.
func (n *process) noteControlLost() {
	s, req := n.sessionAndRequest()
	if s == nil {
		return
	}
	now := time.Now()
	lastContact := n.controlCalls.lastContact(now)
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.selfStopCause != nil {
		return
	}
	n.selfStopCause = &nodev1.Cause{
		Component: ControlName,
		Code:      codeControlLost,
		AtUs:      now.UnixMicro(),
		What: fmt.Sprintf("the control was silent for more than the %v of control-loss, so %s ended run %d by itself",
			max(s.cfg.ControlLoss, minSilence), n.cfg.Name, req.GetRun()),
		Evidence: fmt.Sprintf("last heard by %s at %s", n.cfg.Name, lastContact.Format(time.RFC3339Nano)),
	}
}
