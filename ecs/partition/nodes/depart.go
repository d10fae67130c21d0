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
	Node  string
	Again int  // its MEPs that go to others, where its builder unit was excluded
	Left  bool // it has left in good order; else it was excluded, or the run is to end for it
	Ends  bool // the run is to end: whoever hears this ends it, for EndLeaving
}

// Depart looks after the nodes that were told to end, and returns what is new. It is called now and then while a run
// goes on, and while it drains. An error says what could not be done yet: it is tried again.
func (r *Run) Depart(now time.Time) (news []Departure, err error) {
	for _, n := range r.nodes {
		rep := n.latest()
		act := ask(r.faults, func(c *fault.Core) fault.Act {
			return c.Depart(n.name, fault.Leaver{
				Asks:  rep.GetLeaving(),
				Final: r.faults.done(rep),
				Moved: moved(rep),
			}, r.ending.Load(), now)
		})
		switch act {
		case fault.Exclude:
			again, failed := r.scheduler().ExcludeBU(n.name)
			if failed != nil {
				err = failed
				r.faults.tell(func(c *fault.Core) { c.Stay(n.name) })
				continue
			}
			news = append(news, Departure{Node: n.name, Again: again})
		case fault.Leave:
			news = append(news, Departure{Node: n.name, Left: true})
		case fault.GiveUp:
			r.faults.see(fault.Sight{Kind: fault.Missing, Fault: fault.Seen(n.name, node.PartOutput,
				"it was told to end, and has neither left nor moved for "+fault.DepartTime.String())})
		case fault.Promise:
			go n.promise()
		case fault.End:
			go n.promise()
			news = append(news, Departure{Node: n.name, Ends: true})
		default:
		}
	}
	return news, err
}

// promise tells a node that the run ends for it: it waits, then, for as long as that takes. One that does not hear it
// leaves after its grace.
func (m *member) promise() {
	ctx, cancel := context.WithTimeout(context.Background(), promiseTime)
	defer cancel()
	_, _ = m.client.Report(ctx, &nodev1.ReportRequest{LetGo: true})
}

// promiseTime bounds how long a node may take to answer, which it does at once.
const promiseTime = 5 * time.Second
