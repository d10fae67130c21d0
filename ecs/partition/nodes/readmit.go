package nodes

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"google.golang.org/protobuf/proto"

	"ringlet/ecs/partition/fault"
	"ringlet/internal/stopwatch"
	"ringlet/node/cluster"
	nodev1 "ringlet/proto/ringlet/node/v1"
	tagnetv1 "ringlet/proto/ringlet/tagnet/v1"
)

// What follows takes a node into a run that goes on, which was lost in it and had a readout unit alone, or the decision
// unit alone. Its process is another one, or the same that was cut off and is brought to rest first:
//
//	it answers ─► load, configure: it dials all others, which let it in when they know that the one before is gone
//	every other node has told that it lost its link no more ─► the fault core forgets the loss
//	start: it attaches, and the scheduler lets it take part from a cycle and a MEP on
//
// Whatever goes wrong before leaves it lost, and afterwards makes it lost once more.

// How long a node may take to come back in all, to answer at first, and how often that its links are there is looked
// at.
const (
	readmitTimeout     = 60 * time.Second
	firstAnswerTimeout = 2 * time.Second
	linkPollInterval   = 50 * time.Millisecond
)

// MayReadmit says why a node that was lost cannot come back in this run; nil if it can.
func (r *Run) MayReadmit(node string) error {
	if r.isEnding.Load() {
		return errRunEnds
	}
	return queryCore(r.faults, func(c *fault.Core) error { return c.MayReadmit(node) })
}

var errRunEnds = errors.New("the run ends, so no node joins it again: the next configure takes all nodes that are " +
	"there")

// Reconnect speaks with the process that has the place of a node now which may come back, where the cluster says that
// it is. Readmit is next.
func (r *Run) Reconnect(ctx context.Context, at cluster.Member) error {
	if err := r.MayReadmit(at.Name); err != nil {
		return err
	}
	n, err := r.findMember(at.Name)
	if err != nil {
		return err
	}
	return r.reconnect(ctx, n, at)
}

// Readmit takes a node into the run again that was reconnected. It returns which part of the run its readout unit was
// gone for; nil where it has none.
func (r *Run) Readmit(ctx context.Context, node string) (g *tagnetv1.Gone, err error) {
	if err := r.MayReadmit(node); err != nil {
		return nil, err
	}
	n, err := r.findMember(node)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, readmitTimeout)
	defer cancel()
	defer r.cancelOnLoss(cancel)()
	if err := r.relink(ctx, n); err != nil {
		return nil, err
	}
	reads := n.entry().GetReadout() // else it has the decision unit alone, of which the scheduler does not know
	if reads {
		if err := r.scheduler().IncludeRU(n.name); err != nil {
			return nil, err
		}
	}
	if err := queryCore(r.faults, func(c *fault.Core) error { return c.Readmit(n.name) }); err != nil {
		if reads {
			err = errors.Join(err, r.scheduler().ExcludeRU(n.name)) // the run ends
		}
		return nil, err
	}
	if err := n.command(ctx, r.startCommand(&nodev1.CommandRequest{Back: true})); err != nil {
		r.faults.observe(fault.Observation{Kind: fault.SilentToControl,
			Fault: fault.SeenByControl(n.name, fault.SubsystemNodeService,
				"it was to come back, and did not start: "+err.Error())})
		return nil, err
	}
	r.watchNode(n)
	if !reads {
		return nil, nil
	}
	return r.lastAbsence(n.name)
}

// cancelOnLoss gives up when another node is lost meanwhile: the one that comes back would wait for a link to it.
func (r *Run) cancelOnLoss(giveUp func()) (end func()) {
	lost := len(r.Losses())
	return stopwatch.RunEvery(linkPollInterval, func() {
		if len(r.Losses()) > lost {
			giveUp()
		}
	})
}

func (r *Run) reconnect(ctx context.Context, n *member, at cluster.Member) error {
	entry := proto.CloneOf(n.entry())
	entry.GrpcAddress, entry.QuicAddress = at.Meta.GRPCAddr, at.Meta.QUICAddr
	conn, err := r.dialService(entry)
	if err != nil {
		return err
	}
	n.setWatch(nil)
	n.newEntry.Store(entry)
	n.conn.swap(conn)
	soon, cancel := context.WithTimeout(ctx, r.opts.timeoutFor(firstAnswerTimeout))
	defer cancel()
	err = n.awaitAnswer(soon)
	n.unresponsive.Store(err != nil)
	return err
}

// relink gives a node its memory and its links to all that take part, and waits until they have told so.
func (r *Run) relink(ctx context.Context, n *member) error {
	if err := n.takeOffline(ctx, true); err != nil {
		return err
	}
	view := proto.CloneOf(r.View())
	var without []uint32
	for i, m := range view.GetMembers() {
		switch {
		case m.GetName() == n.name:
			view.Members[i] = n.entry()
		case r.isLost(m.GetName()) || r.WithdrawalText(m.GetName()) != "":
			without = append(without, m.GetRank())
		}
	}
	r.view.Store(view)
	for _, req := range []*nodev1.CommandRequest{
		{Command: nodev1.Command_COMMAND_LOAD},
		{
			Command:       nodev1.Command_COMMAND_CONFIGURE,
			Run:           r.cfg.RunNumber,
			Configuration: r.cfg.Effective(),
			View:          view,
			Back:          true,
			Without:       without,
		},
	} {
		if err := n.command(ctx, req); err != nil {
			return err
		}
	}
	return errors.Join(requestEach(slices.DeleteFunc(slices.Clone(r.nodes), func(m *member) bool {
		return m == n || r.isUnavailable(m)
	}), func(m *member) error { return m.awaitLink(ctx, n.name) })...)
}

// awaitLink waits until a node has told that its link to another is there again. What it told before, and what comes
// late, would make that lost once more; so it is asked, and the reports that it gives unasked have to come after.
func (m *member) awaitLink(ctx context.Context, other string) error {
	tick := time.NewTicker(linkPollInterval)
	defer tick.Stop()
	var answeredAt int64 // µs, by the node's clock, of its answer; 0: none has been good
	for {
		if answeredAt == 0 {
			rep, err := m.client.Report(ctx, &nodev1.ReportRequest{Term: m.term})
			if err == nil && !slices.Contains(rep.GetLostPeers(), other) {
				answeredAt = rep.GetAtUs()
			}
		} else if rep := m.latestReport(); rep.GetAtUs() > answeredAt && !slices.Contains(rep.GetLostPeers(), other) {
			return nil
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return fmt.Errorf("%s has no link to %s yet: %w", m.name, other, ctx.Err())
		}
	}
}

// startCommand makes a command the one to start.
func (r *Run) startCommand(req *nodev1.CommandRequest) *nodev1.CommandRequest {
	r.mu.Lock()
	defer r.mu.Unlock()
	req.Command, req.Run, req.View = nodev1.Command_COMMAND_START, r.cfg.RunNumber, r.View()
	req.TagnetName, req.TagnetAddress, req.RunKey = r.tagnetName, r.tagnetAddress, r.key[:]
	return req
}

// lastAbsence is the part of the run that a node which is back was gone for last.
func (r *Run) lastAbsence(node string) (*tagnetv1.Gone, error) {
	st, err := r.scheduler().Stats()
	if err != nil {
		return nil, err
	}
	for _, u := range st.GetRus() {
		if n := len(u.GetGone()); u.GetName() == node && n > 0 && u.GetGone()[n-1].GetBack() {
			return u.GetGone()[n-1], nil
		}
	}
	return nil, fmt.Errorf("the scheduler does not say that %s is back", node)
}
