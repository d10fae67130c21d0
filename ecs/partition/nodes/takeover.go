package nodes

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"ringlet/ecs/partition/fault"
	"ringlet/internal/nodename"
	nodev1 "ringlet/proto/ringlet/node/v1"
	"ringlet/tagnet"
	tagcore "ringlet/tagnet/core"
)

// How another node takes over the scheduler of a run, when the node that has it is lost:
//
//	the fault core tolerates the loss ─► the first node of the view that is there makes the successor
//	every node is told its address ─► its units attach and say what they know ─► the successor has rebuilt the state
//	the control follows the successor, and has it exclude the units of lost nodes as for any loss

// errNoSuccessor is a run whose scheduler cannot be taken over.
var errNoSuccessor = errors.New("no other node can take over the scheduler")

// checkSuccession says why the scheduler of this run cannot be taken over; nil if it can.
func (r *scheduler) checkSuccession() error {
	view, err := r.schedulerConfig()
	if err == nil {
		err = view.CheckSuccessor()
	}
	if err == nil && r.set.opts.TagnetNode == "" {
		err = errors.New("it is in the process of the control")
	}
	if err != nil {
		return fmt.Errorf("%w: %w", errNoSuccessor, err)
	}
	return nil
}

// takeOver makes the successor if the scheduler's node is lost. It returns the node that has taken over; empty: the
// scheduler was not lost, or had been taken over before.
func (u *units) takeOver() (by string, err error) {
	r := u.run
	former := r.SchedulerNode()
	if former == "" || !r.Presence(former).HasLeftRun() {
		return "", nil
	}
	if r.isEnding() {
		return "", fmt.Errorf("%w: the run is ending", errNoSuccessor)
	}
	living := slices.DeleteFunc(slices.Clone(r.nodes), func(n *member) bool { return r.isUnavailable(n) })
	if len(living) == 0 {
		return "", errNoSuccessor
	}
	left, err := r.findMember(former)
	if err != nil {
		return "", err
	}
	host := chooseSuccessor(living, left)
	core, err := r.schedulerConfig()
	if err != nil {
		return "", err
	}
	ctx, cancel := context.WithTimeout(context.Background(), r.opts.timeoutFor(2*r.cfg.Timeouts().Recall))
	defer cancel()
	began := time.Now()
	scope := r.schedulerScope()
	_ = tagnet.EndScheduler(ctx, host.conn, scope) // one that it had before it was lost and came back
	published := make(chan error, 1)
	go func() { published <- u.publishSuccessor(ctx, host, living) }()
	err = tagnet.BeginSuccessor(ctx, host.conn, scope, core, r.succession(living))
	if err = errors.Join(err, <-published); err != nil {
		return "", fmt.Errorf("%s could not take over the scheduler: %w", host.name, err)
	}
	r.moveScheduler(host)
	r.log.Warn("a node has taken over the scheduler", "node", host.name, "lost", former, "took", time.Since(began))
	return host.name, nil
}

// chooseSuccessor is the first living node of another process than that of the scheduler's former node, else the first.
func chooseSuccessor(living []*member, former *member) *member {
	for _, n := range living {
		if nodename.ProcessOf(n.process()) != nodename.ProcessOf(former.process()) {
			return n
		}
	}
	return living[0]
}

// publishSuccessor tells the living nodes which of them has the successor. A node that does not answer counts as
// missing there.
func (u *units) publishSuccessor(ctx context.Context, host *member, living []*member) error {
	to := &nodev1.Successor{Run: u.run.cfg.RunNumber, Name: host.process(), Address: host.entry().GetGrpcAddress()}
	errs := requestEach(living, func(m *member) error {
		_, err := m.client.Report(ctx, &nodev1.ReportRequest{Term: m.term, Successor: to})
		if err != nil {
			u.run.log.Info("a node could not be told who has the scheduler", "node", m.name, "err", err)
		}
		return err
	})
	if slices.Contains(errs, nil) {
		return nil
	}
	return errors.Join(errs...)
}

// succession is who lives, for the successor.
func (r *Run) succession(living []*member) tagnet.Succession {
	wait := r.cfg.Timeouts()
	out := tagnet.Succession{Wait: wait.Recall, Resume: wait.Resume, FirstTokenNs: r.LastStats().GetFirstTokenNs(),
		Substitutes: map[string]string{}}
	excluded := r.InactiveBuilders()
	for _, n := range r.nodes {
		if by := n.entry().GetSubstitute(); by != "" {
			out.Substitutes[n.name] = by
		}
	}
	for _, n := range living {
		if n.firstEntry.GetReadout() {
			out.RUs = append(out.RUs, n.name)
		}
		if n.firstEntry.GetBuilder() && !slices.Contains(excluded, n.name) {
			out.BUs = append(out.BUs, n.name)
		}
	}
	return out
}

// moveScheduler has the control go on with the successor on a node.
func (r *Run) moveScheduler(host *member) {
	former := r.current()
	r.scheduler.mu.Lock()
	r.tagnetName, r.tagnetAddress = host.process(), host.entry().GetGrpcAddress()
	r.lastStats = tagcore.Stats{}
	r.scheduler.mu.Unlock()
	r.attachScheduler(host)
	former.Close()
	r.faults.updateCore(func(c *fault.Core) { c.SetScheduler(host.name, true) })
	if err := r.refreshStats(); err != nil {
		r.log.Info("the successor of the scheduler does not tell its figures yet", "err", err)
	}
}
