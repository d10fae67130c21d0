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
func (u *units) MayReadmit(node string) error {
	if u.run.isEnding() {
		return errRunEnds
	}
	return queryCore(u.run.faults, func(c *fault.Core) error { return c.MayReadmit(node) })
}

var errRunEnds = errors.New("the run ends, so no node joins it again: the next configure takes all nodes that are " +
	"there")

// Reconnect speaks with the process that has the place of a node now which may come back, where the cluster says that
// it is. Readmit is next.
func (u *units) Reconnect(ctx context.Context, at cluster.Member) error {
	if err := u.run.MayReadmit(at.Name); err != nil {
		return err
	}
	n, err := u.run.findMember(at.Name)
	if err != nil {
		return err
	}
	return u.run.reconnect(ctx, n, at)
}

// Readmit takes a node into the run again that was reconnected. It returns which part of the run its readout unit was
// gone for; nil where it has none.
func (u *units) Readmit(ctx context.Context, node string) (g *tagnetv1.Gone, err error) {
	if err := u.run.MayReadmit(node); err != nil {
		return nil, err
	}
	n, err := u.run.findMember(node)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, readmitTimeout)
	defer cancel()
	defer u.run.cancelOnLoss(cancel)()
	if err := u.run.relink(ctx, n); err != nil {
		return nil, err
	}
	reads := n.entry().GetReadout() // else it has the decision unit alone, of which the scheduler does not know
	if reads {
		if err := u.run.current().IncludeRU(n.name); err != nil {
			return nil, err
		}
	}
	if err := queryCore(u.run.faults, func(c *fault.Core) error { return c.Readmit(n.name) }); err != nil {
		if reads {
			err = errors.Join(err, u.run.current().ExcludeRU(n.name)) // the run ends
		}
		return nil, err
	}
	if err := n.command(ctx, u.run.startCommand(&nodev1.CommandRequest{Back: true})); err != nil {
		u.run.faults.observe(fault.Observation{Kind: fault.SilentToControl,
			Fault: fault.SeenByControl(n.name, fault.SubsystemNodeService,
				"it was to come back, and did not start: "+err.Error())})
		return nil, err
	}
	u.run.watch.follow(n)
	if !reads {
		return nil, nil
	}
	return u.run.lastAbsence(n.name)
}

// cancelOnLoss gives up when another node is lost meanwhile: the one that comes back would wait for a link to it.
func (u *units) cancelOnLoss(giveUp func()) (end func()) {
	lost := len(u.run.Losses())
	return stopwatch.RunEvery(linkPollInterval, func() {
		if len(u.run.Losses()) > lost {
			giveUp()
		}
	})
}

func (u *units) reconnect(ctx context.Context, n *member, at cluster.Member) error {
	entry := proto.CloneOf(n.entry())
	entry.GrpcAddress, entry.QuicAddress = at.Meta.GRPCAddr, at.Meta.QUICAddr
	conn, err := u.run.opts.dialService(entry)
	if err != nil {
		return err
	}
	n.setWatch(nil)
	n.newEntry.Store(entry)
	n.conn.swap(conn)
	soon, cancel := context.WithTimeout(ctx, u.run.opts.timeoutFor(firstAnswerTimeout))
	defer cancel()
	err = n.awaitAnswer(soon)
	n.unresponsive.Store(err != nil)
	return err
}

// relink gives a node its memory and its links to all that take part, and waits until they have told so.
func (u *units) relink(ctx context.Context, n *member) error {
	if err := n.takeOffline(ctx, true); err != nil {
		return err
	}
	view := proto.CloneOf(u.run.View())
	var without []uint32
	for i, m := range view.GetMembers() {
		switch {
		case m.GetName() == n.name:
			view.Members[i] = n.entry()
		case u.run.Presence(m.GetName()).HasLeftRun():
			without = append(without, m.GetRank())
		}
	}
	u.run.view.Store(view)
	for _, req := range []*nodev1.CommandRequest{
		{Command: nodev1.Command_COMMAND_LOAD},
		{
			Command:       nodev1.Command_COMMAND_CONFIGURE,
			Run:           u.run.cfg.RunNumber,
			Configuration: u.run.cfg.Effective(),
			View:          view,
			Back:          true,
			Without:       without,
		},
	} {
		if err := n.command(ctx, req); err != nil {
			return err
		}
	}
	return errors.Join(requestEach(slices.DeleteFunc(slices.Clone(u.run.nodes), func(m *member) bool {
		return m == n || u.run.isUnavailable(m)
	}), func(m *member) error { return m.awaitLink(ctx, n.name) })...)
}

// awaitLink waits until a node has told that its link to another is there again. What it told before, and what comes
// late, would make that lost once more; so it is asked, and the reports that it gives unasked have to come after.
func (m *member) awaitLink(ctx context.Context, other string) error {
	var answeredAt int64 // µs, by the node's clock, of its answer; 0: none has been good
	linked := func(rep *nodev1.Report) bool { return !slices.Contains(rep.GetLostPeers(), other) }
	return poll(ctx, linkPollInterval, func() (bool, error) {
		if rep := m.latestReport(); answeredAt > 0 && rep.GetAtUs() > answeredAt && linked(rep) {
			return true, nil
		}
		if answeredAt == 0 {
			if rep, err := m.client.Report(ctx, &nodev1.ReportRequest{Term: m.term}); err == nil && linked(rep) {
				answeredAt = rep.GetAtUs()
			}
		}
		return false, fmt.Errorf("%s has no link to %s yet", m.name, other)
	})
}

// startCommand makes a command the one to start.
func (u *units) startCommand(req *nodev1.CommandRequest) *nodev1.CommandRequest {
	u.run.scheduler.mu.Lock()
	defer u.run.scheduler.mu.Unlock()
	req.Command, req.Run, req.View = nodev1.Command_COMMAND_START, u.run.cfg.RunNumber, u.run.View()
	req.TagnetName, req.TagnetAddress, req.RunKey = u.run.tagnetName, u.run.tagnetAddress, u.run.key[:]
	return req
}

// lastAbsence is the part of the run that a node which is back was gone for last.
func (u *units) lastAbsence(node string) (*tagnetv1.Gone, error) {
	st, err := u.run.current().Stats()
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
