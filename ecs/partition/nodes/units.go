package nodes

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"google.golang.org/protobuf/proto"

	"ringlet/ecs/partition/fault"
	"ringlet/internal/stopwatch"
	"ringlet/node"
	"ringlet/node/cluster"
	nodev1 "ringlet/proto/ringlet/node/v1"
	tagnetv1 "ringlet/proto/ringlet/tagnet/v1"
	"ringlet/tagnet/core"
)

// units changes the set of units that take part in a run: by exclusion, loss, departure and readmission.
type units struct {
	run      *Run
	takeover sync.Mutex // held while a loss is handled: one that comes while the scheduler is lost waits for the successor

	mu         sync.Mutex          // guards what follows
	handling   map[string]struct{} // nodes whose loss is being handled
	unreported []Loss              // that are handled
}

// handleLosses takes the units of lost nodes out of the schedule, and tells of the losses: once of all nodes of a
// process. If the scheduler fails to do so, that is a fault which ends the run.
func (u *units) handleLosses(all []fault.Fault) {
	for _, x := range all {
		if u.run.SchedulerNode() == x.Component {
			u.run.current().Close() // nobody waits for its answer any more
		}
	}
	u.setHandling(all, true)
	var losses []Loss
	began := time.Now()
	for _, x := range all {
		by, reissued, err := u.goOnWithout(x.Component)
		if err != nil {
			u.run.faults.observe(fault.Observation{Kind: fault.ReportedByPeer, Fault: fault.Fault{
				Component: x.Component,
				Subsystem: fault.SubsystemScheduler,
				What:      fmt.Sprintf("it is gone, and could not be taken out of the schedule: %v", err),
				Evidence:  x.What,
			}})
			continue // the run ends, and its record has the other losses
		}
		losses = append(losses, Loss{Fault: x, TakenOverBy: by, MEPsReissued: reissued})
	}
	for i := range losses {
		losses[i].Fault = u.closestFault(losses[i].Fault, began)
		u.describeLoss(&losses[i])
	}
	u.mu.Lock()
	u.unreported = append(u.unreported, losses...)
	u.mu.Unlock()
	u.setHandling(all, false)
	u.reportLosses(losses)
}

// goOnWithout has the scheduler, or its successor, take out the units of a node. by is the node that has taken the
// scheduler over; empty: it was not lost.
func (u *units) goOnWithout(node string) (by string, reissued int, err error) {
	u.takeover.Lock()
	defer u.takeover.Unlock()
	if by, err = u.takeOver(); err == nil {
		reissued, err = u.run.excludeLost(node)
	}
	if again, failed := u.takeOver(); err != nil && failed == nil && again != "" { // the scheduler was lost meanwhile
		by = again
		reissued, err = u.run.excludeLost(node)
	}
	return by, reissued, err
}

// selfReportTimeout is how long the control waits for a lost node to say why, when others have lost their links to it:
// a node that gives up closes its links and reports at once.
const selfReportTimeout = 300 * time.Millisecond

// closestFault is what is known of a loss, which was noted when it began, after the node has had time to report its own
// fault, if others missed it first.
func (u *units) closestFault(x fault.Fault, began time.Time) fault.Fault {
	for x.Subsystem == fault.SubsystemTransport && time.Since(began) < selfReportTimeout {
		for _, known := range u.run.Losses() {
			if known.Component == x.Component && known.Subsystem != x.Subsystem {
				return known
			}
		}
		time.Sleep(linkPollInterval)
	}
	return x
}

// excludeLost has the scheduler take out the units of a node. The readout unit comes first: the MEPs of the builder
// unit, which are issued again, then come after its absence.
func (u *units) excludeLost(node string) (reissued int, err error) {
	for _, m := range u.run.View().GetMembers() {
		if m.GetName() != node {
			continue
		}
		if m.GetReadout() {
			err = u.run.current().ExcludeRU(node)
		}
		if m.GetBuilder() {
			n, lost := u.run.current().LoseBU(node)
			reissued, err = n, errors.Join(err, lost)
		}
	}
	return reissued, err
}

// Exclude takes a node's builder unit out of the schedule; a readout unit of the same node goes on sending.
func (u *units) Exclude(node string) (reissued int, err error) {
	if err := queryCore(u.run.faults, func(c *fault.Core) error { return c.Exclude(node) }); err != nil {
		return 0, err
	}
	if reissued, err = u.run.current().ExcludeBU(node); err != nil {
		_ = u.run.markIncluded(node) // undo; a node that was lost meanwhile stays out
	}
	return reissued, err
}

// Include has a builder unit get MEPs again, and waits until the scheduler has included it: first all readout units
// confirm the exclusion, then the builder unit frees its slots. If that takes longer than Timeouts.Include, the builder
// unit stays out.
func (u *units) Include(ctx context.Context, node string) error {
	if err := u.mayInclude(node); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, u.run.opts.timeoutFor(u.run.cfg.Timeouts().Include))
	defer cancel()
	if err := u.run.awaitIncluded(ctx, node); err != nil {
		if lost := u.mayInclude(node); lost != nil {
			return lost
		}
		if _, undone := u.run.current().ExcludeBU(node); undone != nil {
			err = errors.Join(err, fmt.Errorf("%s may still come back by itself: %w", node, undone))
		}
		return err
	}
	return u.run.markIncluded(node) // it may have been lost meanwhile
}

// includePollInterval is how often the control asks the scheduler whether it has included a builder unit, which itself
// asks every 0.2 s. Usually an inclusion takes 0.3 s.
const includePollInterval = 50 * time.Millisecond

// awaitIncluded asks the scheduler to include a builder unit until it has. The error is the last reason why it has not.
func (u *units) awaitIncluded(ctx context.Context, node string) error {
	return poll(ctx, includePollInterval, func() (bool, error) {
		if lost := u.mayInclude(node); lost != nil {
			return true, lost
		}
		why := u.run.current().IncludeBU(node)
		if why == nil {
			st, err := u.run.current().Stats()
			included := func(b *core.BURegister) bool { return b.GetName() == node && !b.GetExcluded() }
			if err != nil || slices.ContainsFunc(st.GetBus(), included) {
				return true, err
			}
			why = fmt.Errorf("the builder unit of %s has not come back: it frees its slots when its sink has taken what is "+
				"whole, and then attaches", node)
		} else if !errors.Is(why, core.NotNow) {
			return true, why
		}
		if u.run.IsDrained() {
			return true, fmt.Errorf("the run is over: %w", why)
		}
		return false, why
	})
}

func (u *units) mayInclude(node string) error {
	return queryCore(u.run.faults, func(c *fault.Core) error { return c.MayInclude(node) })
}

func (u *units) markIncluded(node string) error {
	return queryCore(u.run.faults, func(c *fault.Core) error { return c.Include(node) })
}

// A Departure is a change in the departure of a node that was told to end.
type Departure struct {
	Node         string
	MEPsReissued int  // its MEPs that went to other builder units, when its builder unit was excluded
	Withdrawn    bool // the node has left in good order; else it was excluded, or EndsRun
	EndsRun      bool // the run needs the node: the caller ends the run, for ecsrun.EndLeaving
}

// UpdateDepartures lets nodes go that were told to end, and returns what has changed. Call it several times a second
// while a run goes on or drains. If a unit could not be excluded it returns that error; the next call tries again.
func (u *units) UpdateDepartures(now time.Time) (news []Departure, err error) {
	var left []fault.Fault
	defer func() { u.run.faults.lose(left) }()
	for _, n := range u.run.nodes {
		rep := n.latestReport()
		act := queryCore(u.run.faults, func(c *fault.Core) fault.Action {
			return c.UpdateDeparture(n.name, fault.DepartureReport{
				Requested: rep.GetLeaving(),
				Final:     u.run.faults.isFinal(rep),
				Progress:  nodeProgress(rep),
			}, u.run.isEnding(), now)
		})
		switch act {
		case fault.ExcludeUnit:
			again, failed := u.run.current().ExcludeBU(n.name)
			if failed != nil {
				err = failed
				u.run.faults.updateCore(func(c *fault.Core) { c.RetryExclude(n.name) })
				continue
			}
			news = append(news, Departure{Node: n.name, MEPsReissued: again})
		case fault.NoteWithdrawal:
			if _, failed := u.run.current().LoseBU(n.name); failed != nil {
				err = fmt.Errorf("%s has left, and cannot come back into this run: %w", n.name, failed)
			} else {
				u.run.faults.updateCore(func(c *fault.Core) { c.NoteLeft(n.name) })
			}
			news = append(news, Departure{Node: n.name, Withdrawn: true})
		case fault.LoseLeaver:
			left = append(left, u.run.faults.note(fault.DepartureLoss(n.name))...)
		case fault.DeclareMissing:
			u.run.faults.observe(fault.Observation{Kind: fault.SilentToControl,
				Fault: fault.SeenByControl(n.name, node.SubsystemOutput,
					"it was told to end, and has neither left nor moved for "+fault.DepartTimeout.String())})
		case fault.ConfirmEnd:
			go n.confirmEnd()
		case fault.DrainRun:
			go n.confirmEnd()
			news = append(news, Departure{Node: n.name, EndsRun: true})
		default:
		}
	}
	return news, err
}

// confirmEnd tells a departing node that the run ends: it then waits for the end, however long that takes. A node that
// does not get this ends after its grace.
func (m *member) confirmEnd() {
	ctx, cancel := context.WithTimeout(context.Background(), confirmEndTimeout)
	defer cancel()
	_, _ = m.client.Report(ctx, &nodev1.ReportRequest{LetGo: true, Term: m.term})
}

// confirmEndTimeout bounds how long a node may take to answer, which it does at once.
const confirmEndTimeout = 5 * time.Second

// Readmission takes a lost node into the present run again. Its process is a new one, or the old one that was cut off
// and is taken to Offline first:
//
//	it answers ─► load, configure: it dials all others, which accept it once they have finished with the former one
//	no other node reports a lost link to it ─► fault.Core forgets the loss
//	start: it attaches; the scheduler has its readout unit take part from a certain cycle and MEP on, and gives its
//	builder unit MEPs again
//
// After a failure before the start the node stays lost; a failure of the start makes it lost once more.

// readmitTimeout bounds a readmission, firstAnswerTimeout the node's first answer; linkPollInterval is how often the
// control looks for its links.
const (
	readmitTimeout     = 60 * time.Second
	firstAnswerTimeout = 2 * time.Second
	linkPollInterval   = 50 * time.Millisecond
)

// MayReadmit says why a lost node cannot be readmitted to this run; nil if it can.
func (u *units) MayReadmit(node string) error {
	if u.run.isEnding() {
		return errRunEnds
	}
	return queryCore(u.run.faults, func(c *fault.Core) error { return c.MayReadmit(node) })
}

var errRunEnds = errors.New("the run ends, so no node joins it again: the next configure takes all nodes that are " +
	"there")

// Reconnect connects to the process that is to have the units of a lost node: its own present one, or that of another
// node, which substitutes for it. It waits for an answer. Readmit is next.
func (u *units) Reconnect(ctx context.Context, node string, at cluster.Member) error {
	if err := u.run.MayReadmit(node); err != nil {
		return err
	}
	n, err := u.run.findMember(node)
	if err != nil {
		return err
	}
	before := n.latestReport()
	if err := u.run.reconnect(ctx, n, at); err != nil || n.process() == n.name {
		return err
	}
	return u.checkSubstitute(ctx, n, before)
}

// Readmit takes a reconnected node into the run again. It returns the part of the run for which the node's readout unit
// was gone; nil if it has none.
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
	if err := u.includeUnits(n); err != nil {
		return nil, err
	}
	if err := queryCore(u.run.faults, func(c *fault.Core) error { return c.Readmit(n.name) }); err != nil {
		_, lost := u.excludeLost(n.name) // the run ends
		return nil, errors.Join(err, lost)
	}
	start := &nodev1.CommandRequest{Back: true, Paused: u.run.State().Phase.IsPaused()}
	if err := n.command(ctx, u.run.startCommand(start)); err != nil {
		u.run.faults.observe(fault.Observation{Kind: fault.SilentToControl,
			Fault: fault.SeenByControl(n.name, fault.SubsystemNodeService,
				"it was to come back, and did not start: "+err.Error())})
		return nil, err
	}
	u.run.watch.follow(n)
	u.run.placeSources(ctx, n)
	if !n.entry().GetReadout() {
		return nil, nil
	}
	return u.run.lastAbsence(n.name)
}

// includeUnits has the scheduler let the units of a node attach again. It does not know a decision unit.
func (u *units) includeUnits(n *member) (err error) {
	if n.entry().GetReadout() {
		err = u.run.current().IncludeRU(n.name)
	}
	if err == nil && n.entry().GetBuilder() {
		err = u.run.current().ReadmitBU(n.name)
	}
	return err
}

// cancelOnLoss calls giveUp when another node is lost: the returning node would wait for its link to that one. Call end
// to stop looking.
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
	n.hadSubstitute = n.hadSubstitute || entry.GetSubstitute() != ""
	entry.Substitute = substituteFor(n.name, at.Name)
	conn, err := u.run.opts.dialService(entry)
	if err != nil {
		return err
	}
	n.setWatch(nil)
	before := n.process()
	n.newEntry.Store(entry)
	if former := n.conn.swap(conn); before == n.process() || u.run.Presence(n.name).ProcessEnded {
		_ = former.Close()
	} else {
		go u.run.watch.retireReplaced(u.run, n, process{before, nodev1.NewNodeClient(former), n.term}, former)
	}
	soon, cancel := context.WithTimeout(ctx, u.run.opts.timeoutFor(firstAnswerTimeout))
	defer cancel()
	err = n.awaitAnswer(soon, true) // the cluster lists a process for some time after its end
	n.unresponsive.Store(err != nil)
	return err
}

// relink gives a node its memory and its links to all nodes that take part, and waits until these report the links.
func (u *units) relink(ctx context.Context, n *member) error {
	if err := errors.Join(n.takeOffline(ctx, true), u.announceSubstitute(ctx, n)); err != nil {
		return err
	}
	view := proto.CloneOf(u.run.View())
	var without []uint32
	for i, m := range view.GetMembers() {
		view.Members[i] = u.run.nodes[i].entry() // a lost one may have another substitute than when the view was made
		if m.GetName() != n.name && u.run.Presence(m.GetName()).HasLeftRun() {
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

// awaitLink waits until a node reports that it has its link to another one again. An older report that arrives late
// would make the other node lost once more. So awaitLink first asks for a report with the link, and then waits until
// the watch brings a later one.
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

// lastAbsence is the last part of the run for which a readmitted node's readout unit was gone.
func (u *units) lastAbsence(node string) (*tagnetv1.Gone, error) {
	gone, err := u.lastGone(node)
	if err == nil && !gone.GetBack() {
		return nil, fmt.Errorf("the scheduler does not say that %s is back", node)
	}
	return gone, err
}

// lastGone is the last part of the run for which a node's readout unit was gone.
func (u *units) lastGone(node string) (*tagnetv1.Gone, error) {
	st, err := u.run.current().Stats()
	if err != nil {
		return nil, err
	}
	for _, ru := range st.GetRus() {
		if n := len(ru.GetGone()); ru.GetName() == node && n > 0 {
			return ru.GetGone()[n-1], nil
		}
	}
	return nil, fmt.Errorf("the scheduler does not say when the readout unit of %s was gone", node)
}
