package node

import (
	"context"
	"fmt"
	"sync"
	"time"

	"ringlet/node/config"
	"ringlet/node/fsm"
	nodev1 "ringlet/proto/ringlet/node/v1"
	"ringlet/tagnet"
	"ringlet/tagnet/core"
)

// codeControlLost is the code of the cause with which a node ends a run by itself.
const codeControlLost = "control_lost"

// controlPresence knows when the control last spoke to this node.
type controlPresence struct {
	mu          sync.Mutex // guards the rest
	openCalls   int        // calls of the control under way: it is present
	lastCallEnd time.Time
}

// beginCall records a call of the control; end records its end.
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

// lastContact is when the control last called: now, while a call is under way.
func (p *controlPresence) lastContact(now time.Time) time.Time {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.openCalls > 0 {
		return now
	}
	return p.lastCallEnd
}

// leaseCheckInterval is how often a node checks whether the control is present: little beside the second or more that
// the control may be silent.
const leaseCheckInterval = 100 * time.Millisecond

// orphanage ends a run by itself when the control is lost.
type orphanage struct {
	*process

	mu    sync.Mutex    // guards cause
	cause *nodev1.Cause // why this node ended the run by itself; nil: it did not
}

// run checks the lease until ctx ends.
func (n *orphanage) run(ctx context.Context) {
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
		switch l.step(now, n.observe(now)) {
		case leaseDrain:
			n.drain()
			n.exclude()
		case leaseExcludeLost:
			n.exclude()
		case leaseStop:
			n.stop(ctx)
		case leaseNone:
		}
	}
}

// observe is the input of the lease.
func (n *orphanage) observe(now time.Time) leaseObservation {
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

// unitsActive tells whether units work in a state.
func unitsActive(s fsm.State) bool {
	switch s {
	case fsm.Running, fsm.Pausing, fsm.Paused, fsm.Resuming:
		return true
	}
	return false
}

// hosted returns the session, and the scheduler of its run; the scheduler is nil if it does not run on this node.
func (n *orphanage) hosted() (*session, *tagnet.Server) {
	s, req := n.sessionAndRequest()
	if s == nil || req.GetTagnetName() != n.cfg.Name {
		return s, nil
	}
	return s, n.schedulerHost.Server()
}

// drain drains the scheduler, if this node has it.
func (n *orphanage) drain() {
	_, server := n.hosted()
	if server == nil {
		_, req := n.sessionAndRequest()
		n.log.Warn("the control is lost: waiting for the scheduler to end the run", "scheduler", req.GetTagnetName())
		return
	}
	n.log.Warn("the control is lost: the scheduler ends the run")
	n.noteCause()
	server.Drain(0)
}

// exclude excludes lost units, if this node has the scheduler: the drain would wait for them. It is called again while
// the scheduler drains, since a loss may be found later.
func (n *orphanage) exclude() {
	s, server := n.hosted()
	if server == nil {
		return
	}
	reg := server.Registers()
	if core.State(reg.GetState()) == core.Drained {
		return // its units have detached because the view is drained
	}
	readout, _ := s.cfg.LossPolicies()
	_, builder := s.cfg.LossPolicies()
	for _, name := range lostUnits(reg.GetRus(), readout, func(ru int) bool { return s.isExpendable(s.ruRanks[ru]) }) {
		n.log.Warn("a readout unit is lost, and the run tolerates it: its parts are missing", "readout", name)
		if err := server.ExcludeRU(name); err != nil {
			n.log.Error("cannot exclude a lost readout unit, so the drain waits for it", "readout", name, "err", err)
		}
	}
	for _, name := range lostUnits(reg.GetBus(), builder, func(int) bool { return true }) {
		n.log.Warn("a builder unit is lost, and the run tolerates it: its MEPs go to others", "builder", name)
		if _, err := server.ExcludeBU(name); err != nil {
			n.log.Error("cannot exclude a lost builder unit from the schedule", "builder", name, "err", err)
		}
	}
}

// unitRegister is the scheduler's register of a unit.
type unitRegister interface {
	GetExcluded() bool
	GetAttached() bool
	GetName() string
}

// lostUnits are the units that were lost and not excluded. There are none if the policy does not tolerate the losses,
// or a lost unit is not expendable.
func lostUnits[U unitRegister](units []U, policy config.LossPolicy, expendable func(i int) bool) (names []string) {
	remaining := 0
	for i, u := range units {
		switch {
		case u.GetExcluded():
		case u.GetAttached():
			remaining++
		case !expendable(i):
			return nil
		default:
			names = append(names, u.GetName())
		}
	}
	if !policy.Tolerates(remaining) {
		return nil
	}
	return names
}

// stop stops the run as the control would: it completes the output and keeps the figures for the control's return.
func (n *orphanage) stop(ctx context.Context) {
	n.noteCause()
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

// noteCause records why this run ends, once.
func (n *orphanage) noteCause() {
	s, req := n.sessionAndRequest()
	if s == nil {
		return
	}
	now := time.Now()
	lastContact := n.controlCalls.lastContact(now)
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.cause != nil {
		return
	}
	n.cause = &nodev1.Cause{
		Component: ControlName,
		Code:      codeControlLost,
		AtUs:      now.UnixMicro(),
		What: fmt.Sprintf("the control was silent for more than the %v of control-loss, so %s ended run %d by itself",
			max(s.cfg.ControlLoss, minSilence), n.cfg.Name, req.GetRun()),
		Evidence: fmt.Sprintf("last heard by %s at %s", n.cfg.Name, lastContact.Format(time.RFC3339Nano)),
	}
}

// endedBy is why this node ended the run by itself; nil: it did not.
func (n *orphanage) endedBy() *nodev1.Cause {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.cause
}

// begin resets the cause when a run begins.
func (n *orphanage) begin() {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.cause = nil
}
