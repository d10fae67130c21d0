package nodes

import (
	"context"
	"time"

	"ringlet/ecs/partition/fault"
	"ringlet/internal/stopwatch"
	"ringlet/node"
	nodev1 "ringlet/proto/ringlet/node/v1"
	"ringlet/tagnet"
)

// Finish ends the run on every node, collects what they tell, completes the output and closes the accounts. It gives
// the run up where something has struck.
func (r *Run) Finish() (*Report, error) {
	if r.AwaitCause() != nil {
		return r.finishFailed(r.AwaitCause())
	}
	r.isEnding.Store(true)
	r.Stats() // the accounts are closed where the run is drained, and the scheduler's node may be lost while nodes stop
	ctx, cancel := stopwatch.WithStallTimeout(context.Background(), stopStallTimeout, r.ProgressCount, nil)
	defer cancel()
	ctx, stop := r.faults.untilFault(ctx, nil, 0)
	defer stop()
	if err := r.commandAll(ctx, &nodev1.CommandRequest{Command: nodev1.Command_COMMAND_STOP}); err != nil {
		if still := r.stallFault(ctx); still != nil {
			return r.finishFailed(still)
		}
		return r.finishFailed(r.FaultOf(err, "while stopping"))
	}
	r.faults.updateCore((*fault.Core).IgnoreFaults)
	r.collectReports()
	if r.endedWithoutControl() {
		r.endCause = EndControlLost
	}
	if forced := r.forcedStopFault(); forced != nil {
		return r.finishFailed(forced)
	}
	for _, n := range r.nodes {
		if n.latestReport().GetCounters()[node.CounterBadInput] > 0 {
			r.endCause, r.badInput = endBadInput, n.latestReport().GetStatus().GetCause().GetWhat()
			break
		}
	}
	down, broken := r.inputFailure()
	r.brokenSource = broken
	if down != nil {
		r.endCause = EndFault
	}
	return r.makeReport(down), nil
}

// endedWithoutControl says that the nodes began to end the run since they missed the control, before that ended it: it
// stood still, or was cut off.
func (r *Run) endedWithoutControl() bool {
	why := r.SelfStopCause()
	return why != nil && (r.drainedAt.IsZero() || why.GetAtUs() < r.drainedAt.UnixMicro())
}

// stopStallTimeout is how long nodes may go without any progress while they stop, see Run.ProgressCount: a little more
// than a node gives itself, which can say why.
const stopStallTimeout = 65 * time.Second

// GiveUp ends a run that is over for a reason which is no fault of a node, and of which nothing is kept.
func (r *Run) GiveUp(why *fault.Error) *Report {
	report, _ := r.finishFailed(why)
	return report
}

// Interrupt gives a run up because somebody wants it so, for the reason that SetEndCause has noted.
func (r *Run) Interrupt() *Report {
	r.giveUp()
	return r.makeReport(nil)
}

// NeverBegan ends a run that could not begin: by a fault, or because it was interrupted.
func (r *Run) NeverBegan(ctx context.Context, err error, while string) (*Report, error) {
	if ctx.Err() == nil {
		return r.finishFailed(r.FaultOf(err, while))
	}
	r.endCause = EndInterrupted
	return r.Interrupt(), nil
}

// finishFailed closes the accounts of a run that a fault has ended.
func (r *Run) finishFailed(cause *fault.Error) (*Report, error) {
	if r.endCause != EndControlLost {
		r.endCause = EndFault
	}
	r.giveUp()
	return r.makeReport(cause), cause
}

// giveUp makes every node drop what it does, and collects what they tell. What they have written stays.
func (r *Run) giveUp() {
	r.faults.updateCore((*fault.Core).IgnoreFaults)
	r.gaveUp = true
	r.linked.Store(false)
	ctx, cancel := context.WithTimeout(context.Background(), r.opts.timeoutFor(giveUpTimeout))
	defer cancel()
	stop := &nodev1.CommandRequest{Command: nodev1.Command_COMMAND_STOP, Abandon: true}
	if err := r.commandAll(ctx, stop); err != nil {
		r.log.Info("not every node could be told to give up, or some had done so", "err", err)
	}
	// Nodes come first: what the scheduler gives up under one that is still at work looks to that like a mistake of its
	// own.
	if s := r.scheduler(); s != nil {
		if err := s.Abandon(); err != nil {
			r.log.Info("the scheduler could not be told to give up", "err", err)
			r.schedulerLost = !accountsFinal(r.LastStats())
		}
	}
	r.collectReports()
}

// giveUpTimeout bounds how long nodes may take to drop everything: they wait for nobody.
const giveUpTimeout = 2 * time.Second

// collectReports asks the scheduler for its figures and every node for its final report, at the same time.
func (r *Run) collectReports() {
	if err := r.refreshStats(); err != nil && !accountsFinal(r.LastStats()) {
		r.log.Warn("the scheduler did not give its last figures", "err", err)
		r.schedulerLost = true
	}
	most := finalReportTimeout
	if r.gaveUp {
		most = finalReportTryTimeout // it is over in any case
	}
	ctx, cancel := context.WithTimeout(context.Background(), r.opts.timeoutFor(most))
	defer cancel()
	_ = r.forEach(func(n *member) error { // the others keep the last report they sent
		if !r.awaitFinal(ctx, n) {
			r.log.Warn("a node did not give its final report", "node", n.name)
		}
		return nil
	})
}

// awaitFinal asks a node for its final report, and again while it does not answer: one that stands still for a moment
// is not lost. Nobody waits for a process that has ended, nor for a node that the run has lost.
func (r *Run) awaitFinal(ctx context.Context, n *member) bool {
	for {
		each, cancel := context.WithTimeout(ctx, r.opts.timeoutFor(finalReportTryTimeout))
		err := n.requestReport(each)
		cancel()
		switch {
		case err == nil || r.faults.isFinal(n.latestReport()):
			return true
		case r.gaveUp, isConnRefused(err), r.isLost(n.name), r.isProcessEnded(n.name):
			return false
		}
		select {
		case <-time.After(retryInterval):
		case <-ctx.Done():
			return false
		}
	}
}

// accountsFinal tells that the accounts that a scheduler reported cannot change any more.
func accountsFinal(st tagnet.Stats) bool {
	reg := st.Registers
	return tagnet.State(reg.GetState()) == tagnet.Drained && reg.GetInFlight() == 0
}

// finalReportTryTimeout bounds how long a node may take to give its final report, which it has at hand;
// finalReportTimeout, how long it is asked for it: as long as a run tolerates that a node is silent.
const (
	finalReportTryTimeout = 2 * time.Second
	finalReportTimeout    = silenceTimeout
)

// Progress is how a run stands.
type Progress struct {
	Elapsed          time.Duration
	Events           uint64   // built
	Bytes            uint64   // of MFPs in complete MEPs
	MEPsInFlight     uint64   // MEPs
	EventsIncomplete uint64   // events
	ChunksResent     uint64   // chunks
	State            string   // of the scheduler
	WaitReason       string   // what the end of the run waits for; empty while it is not to end
	SilentSources    []string // live sources of which no fragment has come
}

// Progress tells how the run stands.
func (r *Run) Progress() Progress {
	reg := r.Stats().Registers
	p := Progress{
		Elapsed:          time.Since(r.StartedAt()),
		Events:           reg.GetCounters().GetEventsBuilt(),
		MEPsInFlight:     reg.GetInFlight(),
		EventsIncomplete: reg.GetCounters().GetEventsIncomplete(),
		State:            tagnet.State(reg.GetState()).String(),
		SilentSources:    r.silentSources(),
	}
	if r.isEnding.Load() {
		p.WaitReason = r.WaitReason()
	}
	for _, n := range r.nodes {
		c := n.latestReport().GetCounters()
		p.Bytes += c["bu.bytes_built"]
		p.ChunksResent += c["link.chunks_resent"]
	}
	return p
}
