package nodes

import (
	"context"
	"time"

	"ringlet/ecs/partition/fault"
	"ringlet/internal/stopwatch"
	"ringlet/node"
	nodev1 "ringlet/proto/ringlet/node/v1"
)

// departure is how far a node is that was told to end in a run. It is a core without clock: step is told what is to
// be seen.
//
//	it asks ─► the run goes on without it ─► excluded ─► its final report ─► left
//	        │                                         └► nothing of it moves any more ─► lost
//	        └► the run needs it, or ends anyway ─► the run ends in good order
type departure uint8

const (
	staying departure = iota
	departing
	departed
)

// departSight is what a departure goes by.
type departSight struct {
	asks   bool // its reports say that it was told to end
	borne  bool // the run goes on without it
	ending bool // the run is to end
	final  bool // it has told its final report
	lost   bool // it is lost
	still  time.Duration
}

// departAct is what is to be done now.
type departAct uint8

const (
	departNothing departAct = iota
	departExclude           // take its builder unit out of the schedule
	departPromise           // tell it that the run ends
	departEnd               // end the run, and tell it so
	departLeft              // it has left in good order
	departLost              // it is lost
)

// departTime is how long a node that was excluded may go without any progress before it has left: it waits for what
// is under way to it, for its disk, and for its final report to be read.
const departTime = 60 * time.Second

// step gives the next stage, and what leads there.
func (d departure) step(s departSight) (departure, departAct) {
	switch {
	case d == staying && s.asks && !s.lost:
		switch {
		case s.ending:
			return departed, departPromise
		case s.borne:
			return departing, departExclude
		}
		return departed, departEnd
	case d == departing && s.lost:
		return departed, departNothing
	case d == departing && s.final:
		return departed, departLeft
	case d == departing && s.still >= departTime:
		return departed, departLost
	}
	return d, departNothing
}

// A Departure is news of a node that was told to end.
type Departure struct {
	Node  string
	Again int  // its MEPs that go to others, where its builder unit was excluded
	Left  bool // it has left in good order; else it was excluded, or the run is to end for it
	Ends  bool // the run is to end: whoever hears this ends it, for EndLeaving
}

// leaver is a node on its way out.
type leaver struct {
	stage departure
	still stopwatch.Still
}

// Depart looks after the nodes that were told to end, and returns what is new. It is called now and then while a run
// goes on, and while it drains. An error says what could not be done yet: it is tried again.
func (r *Run) Depart(now time.Time) (news []Departure, err error) {
	r.departs.Lock()
	defer r.departs.Unlock()
	for _, n := range r.nodes {
		rep := n.latest()
		l := r.leavers[n.name]
		if l == nil {
			if !rep.GetLeaving() {
				continue
			}
			l = &leaver{}
			r.leavers[n.name] = l
		}
		next, act := l.stage.step(departSight{
			asks:   rep.GetLeaving(),
			borne:  ask(r.faults, func(c *fault.Core) bool { return c.MayLeave(n.name) }),
			ending: r.ending.Load(),
			final:  rep.GetFinal() && rep.GetRun() == r.cfg.RunNumber,
			lost:   r.lost(n.name),
			still:  l.still.Look(now, moved(rep)),
		})
		one, failed := r.depart(n, act)
		if failed != nil {
			err = failed
			continue
		}
		if l.stage = next; one != nil {
			news = append(news, *one)
		}
	}
	return news, err
}

// depart carries out what a departure wants.
func (r *Run) depart(n *member, act departAct) (*Departure, error) {
	switch act {
	case departExclude:
		again, err := r.letGo(n.name)
		if err != nil {
			return nil, err
		}
		return &Departure{Node: n.name, Again: again}, nil
	case departLeft:
		r.faults.tell(func(c *fault.Core) { c.Leave(n.name, "it was told to end, and has left the run in good order") })
		return &Departure{Node: n.name, Left: true}, nil
	case departLost:
		r.faults.tell(func(c *fault.Core) { c.Stay(n.name) })
		r.faults.see(fault.Sight{Kind: fault.Missing, Fault: fault.Fault{
			Component: n.name,
			Part:      node.PartOutput,
			What:      "it was told to end, and has neither left nor moved for " + departTime.String(),
			Evidence:  "seen by the control",
		}})
	case departPromise:
		go n.promise()
	case departEnd:
		go n.promise()
		return &Departure{Node: n.name, Ends: true}, nil
	case departNothing:
	}
	return nil, nil
}

// letGo excludes the builder unit of a node that leaves.
func (r *Run) letGo(name string) (again int, err error) {
	if err := ask(r.faults, func(c *fault.Core) error { return c.LetGo(name) }); err != nil {
		return 0, err
	}
	if again, err = r.scheduler().ExcludeBU(name); err != nil {
		r.faults.tell(func(c *fault.Core) { c.Stay(name) })
	}
	return again, err
}

// Leavers are the nodes that were told to end in this run, in the order of ranks.
func (r *Run) Leavers() (names []string) {
	r.departs.Lock()
	defer r.departs.Unlock()
	for _, n := range r.nodes {
		if r.leavers[n.name] != nil {
			names = append(names, n.name)
		}
	}
	return names
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
