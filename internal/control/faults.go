package control

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"google.golang.org/grpc/status"

	"ringlet/node"
	nodev1 "ringlet/proto/ringlet/node/v1"
)

// A Fault is something that broke: who, what, and how that is known.
type Fault struct {
	Component string `json:"component"`
	Part      string `json:"part,omitempty"` // of it, a stable word; empty: not known
	What      string `json:"what"`
	Evidence  string `json:"evidence"`

	at      time.Time // it was seen; zero where nobody noted it
	rank    rank
	witness string // the node that said so; empty where the control saw it itself
}

// Parts that the control sees fail: two that only it can see, and some that nodes name by the same words.
const (
	PartProcess   = "process"
	PartService   = "node_service"
	PartTransport = node.PartTransport
	PartScheduler = node.PartScheduler
	PartOutput    = node.PartOutput
	PartBuilder   = node.PartBuilder
)

// Seen is when the fault was seen; zero where nobody noted it.
func (x *Fault) Seen() time.Time { return x.at }

// rank says how close to the cause a witness is; less is closer.
type rank int

// Witnesses. A dead process is seen by its parent. A node that breaks says so itself; then its streams to the scheduler and to
// the watcher end, and its peers see a link go down. They go into Error too, their streams end, and so on through the view.
const (
	rankProcess rank = iota
	rankSelf
	rankStream
	rankWatch
	rankPeer
)

// A FaultError ends a run.
type FaultError struct{ Fault }

func (e *FaultError) Error() string {
	if e.Evidence == "" {
		return fmt.Sprintf("%s: %s", e.Component, e.What)
	}
	return fmt.Sprintf("%s: %s (%s)", e.Component, e.What, e.Evidence)
}

// closest is the fault with the closest witness, the first of several; nil if there is none. That a node which blames a peer has
// ended its own streams and links is no fault of it.
func closest(all []Fault) *Fault {
	blaming := map[string]bool{}
	for _, x := range all {
		if x.rank == rankPeer {
			blaming[x.witness] = true
		}
	}
	var best *Fault
	for i := range all {
		x := &all[i]
		if blaming[x.Component] && x.rank >= rankStream {
			continue
		}
		if best == nil || x.rank < best.rank {
			best = x
		}
	}
	if best == nil && len(all) > 0 {
		best = &all[0] // they blame each other
	}
	return best
}

// faults collects what broke. The first fault ends the run; the cause is the one with the closest witness.
type faults struct {
	mu     sync.Mutex    // guards what follows
	struck chan struct{} // closed with the first fault
	all    []Fault
	dead   map[string]bool     // nodes whose process has ended
	gones  map[string]string   // nodes that are gone, and what was seen of it
	parted map[string]string   // nodes that have left in good order, and how
	bear   func(Fault) bearing // decides what ends nothing; nil: everything does
	mute   bool
	listen bool // to what nodes say of themselves: before they are loaded they may still speak of an earlier run
}

func newFaults() *faults {
	return &faults{
		struck: make(chan struct{}),
		dead:   map[string]bool{},
		gones:  map[string]string{},
		parted: map[string]string{},
	}
}

func (f *faults) add(x Fault) {
	if x.at.IsZero() {
		x.at = time.Now()
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if x.rank == rankProcess {
		f.dead[x.Component] = true
	}
	how := strikes
	if !f.mute && f.bear != nil {
		if how = f.bear(x); how == forgiven {
			return
		}
	}
	if (x.rank == rankProcess || x.rank == rankWatch) && f.gones[x.Component] == "" {
		f.gones[x.Component] = x.What
	}
	if f.mute {
		return
	}
	if how == borne {
		if f.gones[x.Component] == "" {
			f.gones[x.Component] = x.What // it may stand still, so nobody waits for it either
		}
		return
	}
	f.all = append(f.all, x)
	if len(f.all) == 1 {
		close(f.struck)
	}
}

// left notes that a node is gone whose part in the run was over: nobody waits for it, and nothing has broken.
func (f *faults) left(node, what string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.gones[node] == "" {
		f.gones[node] = what
	}
}

// leave notes that a node which was told to end has left a run in good order: nobody waits for it, and it is not lost.
func (f *faults) leave(node, how string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.parted[node] = how
}

// lost is the first thing that was seen of a node that is gone or in Error; empty if it is neither, or has left in
// good order.
func (f *faults) lost(node string) string {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.parted[node] != "" {
		return ""
	}
	return f.gones[node]
}

// away is how a node has left in good order; empty if it has not.
func (f *faults) away(node string) string {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.parted[node]
}

// tolerate has a fault decided upon before it strikes. The function is called with a lock held: it decides, and does nothing.
func (f *faults) tolerate(bear func(Fault) bearing) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.bear = bear
}

// struckNow is closed with the first fault since the last clear.
func (f *faults) struckNow() <-chan struct{} {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.struck
}

// clear forgets what broke and listens again.
func (f *faults) clear() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.forget()
}

// again listens to a further run of the same nodes: the end of the one before has silenced it.
func (f *faults) again() {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.mute {
		f.forget()
	}
}

// forget is clear. The caller holds mu.
func (f *faults) forget() {
	if len(f.all) > 0 {
		f.struck = make(chan struct{})
	}
	f.all, f.bear, f.mute = nil, nil, false
}

// heed listens to what nodes say of themselves from now on.
func (f *faults) heed() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.listen = true
}

// report takes what a node says of itself. A node in Error, or parked, names whoever is at fault.
func (f *faults) report(node string, st *nodev1.Status) {
	f.mu.Lock()
	listen := f.listen
	f.mu.Unlock()
	if !listen || st.GetState() != "Error" && !st.GetParked() {
		return
	}
	c := st.GetCause()
	x := Fault{Component: c.GetComponent(), Part: c.GetPart(), What: c.GetWhat(), Evidence: c.GetEvidence(), rank: rankPeer, witness: node}
	if x.Component == node {
		x.rank = rankSelf
	}
	f.add(x)
}

// unlinked takes to which nodes a node has lost its link, and goes on all the same: what they hold can be done without, if it was not more than the
// policy bears. Outside of a run it does not matter.
func (f *faults) unlinked(node string, from []string) {
	f.mu.Lock()
	running := f.bear != nil
	f.mu.Unlock()
	for _, lost := range from {
		if running {
			f.add(Fault{Component: lost, Part: PartTransport, What: "the link of " + node + " to it is down", Evidence: "seen by " + node, rank: rankStream})
		}
	}
}

// gone says whether the process of a node is known to have ended.
func (f *faults) gone(node string) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.dead[node]
}

// silence is for the time when nodes are ended on purpose.
func (f *faults) silence() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.mute = true
}

// How long to wait for closer witnesses after the first fault, and how long where only a broken stream is known so far: nodes
// report a change of state at once, a parent sees its child's end within milliseconds, a busy machine takes its time.
const (
	settle     = 300 * time.Millisecond
	settleLong = 2 * time.Second
	settlePeer = 5 * time.Second // where only one node blames another, which may be as sound: its own word is worth waiting for
)

// settled waits for the closest witness and returns the cause, or nil if nothing broke.
func (f *faults) settled() *FaultError {
	began := time.Now()
	for f.cause() != nil {
		waited := time.Since(began)
		if waited >= settleLong && f.cause().rank != rankPeer || waited >= settlePeer || waited >= settle && f.cause().rank < rankStream {
			break
		}
		time.Sleep(10 * time.Millisecond)
	}
	return f.cause()
}

// cause is the fault with the closest witness so far, or nil.
func (f *faults) cause() *FaultError {
	f.mu.Lock()
	defer f.mu.Unlock()
	best := closest(f.all)
	if best == nil {
		return nil
	}
	return &FaultError{*best}
}

// during makes a context that also ends when something breaks.
func (f *faults) during(ctx context.Context) (context.Context, func()) {
	ctx, cancel := context.WithCancelCause(ctx)
	over := make(chan struct{})
	go func() {
		select {
		case <-f.struckNow():
			cancel(f.cause())
		case <-over:
		}
	}()
	return ctx, sync.OnceFunc(func() { close(over); cancel(nil) })
}

// FaultOf makes a fault of an error: what struck meanwhile and brought it about, what nodes said with commands that failed, or the
// error itself.
func (c *Crew) FaultOf(err error, while string) *FaultError {
	select {
	case <-c.faults.struckNow():
		// Before the run began nobody watches the nodes: what they said with their commands is all they said.
		for _, said := range commandFaults(nil, err, while) {
			if said.rank == rankSelf || said.rank == rankPeer {
				c.faults.add(said)
			}
		}
		return c.faults.settled()
	default:
	}
	var known *FaultError
	if errors.As(err, &known) {
		return known
	}
	if best := closest(commandFaults(nil, err, while)); best != nil {
		return &FaultError{*best}
	}
	return &FaultError{Fault{Component: Name, What: err.Error(), Evidence: while}}
}

// commandFaults appends what the *CommandErrors joined in err tell.
func commandFaults(all []Fault, err error, while string) []Fault {
	if several, ok := err.(interface{ Unwrap() []error }); ok {
		for _, one := range several.Unwrap() {
			all = commandFaults(all, one, while)
		}
		return all
	}
	var command *CommandError
	if !errors.As(err, &command) {
		return all
	}
	x := Fault{Component: command.Node, Part: PartService, What: command.Error(), Evidence: while, rank: rankWatch, witness: command.Node}
	for _, detail := range status.Convert(command.Err).Details() {
		if c, ok := detail.(*nodev1.Cause); ok {
			x.Component, x.Part, x.What, x.Evidence, x.rank = c.GetComponent(), c.GetPart(), c.GetWhat(), c.GetEvidence(), rankPeer
			if x.Component == command.Node {
				x.rank = rankSelf
			}
		}
	}
	return append(all, x)
}
