package nodes

import (
	"context"
	"time"

	"ringlet/ecs/partition/fault"
	"ringlet/node"
	nodev1 "ringlet/proto/ringlet/node/v1"
)

// A Departure is news of a node that was told to end.
type Departure struct {
	Node         string
	MEPsReissued int  // its MEPs that go to others, where its builder unit was excluded
	Withdrawn    bool // it has left in good order; else it was excluded, or the run is to end for it
	EndsRun      bool // the run is to end: whoever hears this ends it, for ecsrun.EndLeaving
}

// UpdateDepartures looks after the nodes that were told to end, and returns what is new. It is called now and then
// while a run goes on, and while it drains. An error says what could not be done yet: it is tried again.
func (u *units) UpdateDepartures(now time.Time) (news []Departure, err error) {
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
			news = append(news, Departure{Node: n.name, Withdrawn: true})
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

// confirmEnd tells a node that the run ends for it: it waits, then, for as long as that takes. One that does not hear
// it leaves after its grace.
func (m *member) confirmEnd() {
	ctx, cancel := context.WithTimeout(context.Background(), confirmEndTimeout)
	defer cancel()
	_, _ = m.client.Report(ctx, &nodev1.ReportRequest{LetGo: true})
}

// confirmEndTimeout bounds how long a node may take to answer, which it does at once.
const confirmEndTimeout = 5 * time.Second
