package nodes

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"ringlet/ecs/partition/fault"
	"ringlet/internal/stopwatch"
	"ringlet/node/certs"
	"ringlet/node/config"
	"ringlet/node/fsm"
	"ringlet/node/spawn"
	nodev1 "ringlet/proto/ringlet/node/v1"
	"ringlet/tagnet"
)

// Options of a crew.
type Options struct {
	Identity   *certs.Identity
	Host       string // address to bind where the scheduler lives here, and to tell the nodes
	TagnetPort int    // of that scheduler; 0 means any
	// TagnetNode is the node on which the scheduler lives; empty: this process.
	TagnetNode string
	Version    string
	// Term of this control, which nodes and schedulers compare with that of others. They refuse one without a number
	// once they have heard another.
	Term tagnet.Term
	// Patience is how long the nodes may take to appear and to become ready. Zero means 60 s.
	Patience time.Duration
	// AtLeast is how long a node may take for an answer at least. Zero: no longer than each question has by itself.
	AtLeast time.Duration
	// Where tells at which address the node service of a node is now; empty: nobody knows. Nil: where it was.
	Where func(node string) string
	// Lost is told of a loss that the policy bears: the run goes on. Nil: nobody wants to know.
	Lost func(fault.Fault)
	// Spawns says that the control starts processes of nodes that have ended by itself.
	Spawns bool
	Log    *slog.Logger // nil: slog.Default
}

// within is how long a question may take that has d by itself.
func (o *Options) within(d time.Duration) time.Duration { return max(d, o.AtLeast) }

// Crew is the nodes of a partition as the control knows them, connected and watched. Its steps, Load to Dismiss, are
// given by one goroutine; what it tells of the nodes may be read by any.
type Crew struct {
	// immutable after NewCrew
	opts Options
	log  *slog.Logger
	cfg  config.Config

	// set by Meet or Rejoin
	nodes []*member

	faults  *faults
	unwatch func() // ends the watch; nil before it

	view   atomic.Pointer[nodev1.View] // of the last Configure; nil before it
	linked atomic.Bool                 // the nodes have the links of that view
}

// NewCrew makes a crew without nodes for a configuration, which is complete.
func NewCrew(opts Options, cfg config.Config) *Crew {
	if opts.Log == nil {
		opts.Log = slog.Default()
	}
	if opts.Patience == 0 {
		opts.Patience = 60 * time.Second
	}
	return &Crew{
		opts:   opts,
		log:    opts.Log,
		cfg:    cfg,
		faults: newFaults(opts.Spawns),
	}
}

// Configuration is what the crew was made for.
func (c *Crew) Configuration() config.Config { return c.cfg }

// Names are those of the nodes, in the order of ranks.
func (c *Crew) Names() []string {
	names := make([]string, len(c.nodes))
	for i, n := range c.nodes {
		names[i] = n.name
	}
	return names
}

// Reports are the latest of each node, in the order of ranks; nil for one that has never told anything.
func (c *Crew) Reports() []*nodev1.Report {
	reports := make([]*nodev1.Report, len(c.nodes))
	for i, n := range c.nodes {
		reports[i] = n.latest()
	}
	return reports
}

// Told is what a node told last.
type Told struct {
	Member   *nodev1.Member
	Report   *nodev1.Report // nil: nothing yet
	Received time.Time      // by this process's clock
	Lost     string         // why the node is taken for lost; empty if it is not
	Left     bool           // it has left in good order
}

// Told is what every node told last, in the order of ranks.
func (c *Crew) Told() []Told {
	told := make([]Told, len(c.nodes))
	for i, n := range c.nodes {
		n.mu.Lock()
		told[i] = Told{Member: n.seat(), Report: n.report, Received: n.received}
		n.mu.Unlock()
		told[i].Lost, told[i].Left = c.Lost(n.name), c.Left(n.name) != ""
	}
	return told
}

// Whole says that every node is there, as far as is known.
func (c *Crew) Whole() bool { return !slices.ContainsFunc(c.nodes, c.passed) }

// View is who does what; nil before Configure.
func (c *Crew) View() *nodev1.View { return c.view.Load() }

// Ended says that the process of a node at that address is known to have ended, and that nobody answers there now.
func (c *Crew) Ended(node, address string) bool {
	n, err := c.member(node)
	if err != nil || n.seat().GetGrpcAddress() != address || !c.dead(node) {
		return false
	}
	conn, err := net.DialTimeout("tcp", address, c.opts.within(probeTime))
	if err != nil {
		return true
	}
	_ = conn.Close()
	return false
}

// probeTime is how long an address may take to answer; one on the same network takes a millisecond.
const probeTime = 200 * time.Millisecond

// SeeEnd takes that the process of a node has ended, from whoever started it.
func (c *Crew) SeeEnd(node, how string) {
	x := fault.Sight{Kind: fault.Ended, Fault: fault.Seen(node, fault.PartProcess, "its process "+how)}
	if how == spawn.Stalled {
		x.Trouble = fsm.TroubleMute
	}
	c.faults.see(x)
}

// Struck is closed when something has broken that the policy does not bear.
func (c *Crew) Struck() <-chan struct{} { return c.faults.struckNow() }

// Cause waits a moment for the closest witness and returns what broke, or nil.
func (c *Crew) Cause() *fault.Error { return c.faults.settled() }

// Load takes every node to NotReady, wherever it was.
func (c *Crew) Load(ctx context.Context) error {
	if err := c.unfold(ctx); err != nil {
		return err
	}
	c.faults.tell((*fault.Core).Listen)
	return c.together(ctx, &nodev1.CommandRequest{Command: nodev1.Command_COMMAND_LOAD})
}

// unfold brings nodes that an earlier control left in another state to the one in which load can begin. A command that
// a node's state does not allow is left out.
func (c *Crew) unfold(ctx context.Context) error {
	return c.every(func(n *member) error {
		if st := n.latest().GetStatus().GetState(); st == "" || st == "Offline" {
			return nil
		}
		return n.rest(ctx, true)
	})
}

// Configure makes a view of the nodes, which are NotReady, and takes each to Ready, with its memory and its links. The
// number is that of the run if it is known; else 0.
func (c *Crew) Configure(ctx context.Context, run uint32) error {
	cfg := c.cfg
	cfg.RunNumber = run
	view := &nodev1.View{Number: uint64(time.Now().UnixNano())}
	for _, n := range c.nodes {
		view.Members = append(view.Members, n.seat())
	}
	c.view.Store(view)
	err := c.together(ctx, &nodev1.CommandRequest{
		Command:       nodev1.Command_COMMAND_CONFIGURE,
		Run:           run,
		Configuration: cfg.Effective(),
		View:          view,
	})
	c.linked.Store(err == nil)
	return err
}

// Linked says that the nodes have their links, as Configure has made them, that no run has given them up, and that no
// node tells since that one of them is down.
func (c *Crew) Linked() bool {
	return c.linked.Load() && !slices.ContainsFunc(c.nodes, func(n *member) bool { return linkDown(n.latest()) })
}

// linkDown says whether a node at rest tells that it has lost a link. The next run would end at once, or, where it
// bears the loss, begin without the unit behind the link.
func linkDown(rep *nodev1.Report) bool {
	st := rep.GetStatus()
	return st.GetState() == fsm.Ready.String() &&
		(st.GetParked() || st.GetDegraded() && fault.Told(st.GetCause()).Part == fault.PartTransport)
}

// Unlink has the nodes linked anew before they begin another run: others are to take part.
func (c *Crew) Unlink() { c.linked.Store(false) }

// AtRest asks whether every node is NotReady, as Load and Clear leave it.
func (c *Crew) AtRest(ctx context.Context) bool {
	return c.Whole() && c.every(func(n *member) error {
		if n.last(ctx) != nil || n.latest().GetStatus().GetState() != fsm.NotReady.String() {
			return errNotAtRest
		}
		return nil
	}) == nil
}

var errNotAtRest = errors.New("a node is not at rest")

// Unload takes every node that answers from NotReady to Offline.
func (c *Crew) Unload(ctx context.Context) error {
	return c.all(ctx, &nodev1.CommandRequest{Command: nodev1.Command_COMMAND_UNLOAD})
}

// Clear takes every node that answers to NotReady after a fault, whatever state it is in, and forgets what broke.
func (c *Crew) Clear(ctx context.Context) error {
	c.faults.tell((*fault.Core).Silence)
	defer c.faults.clear()
	c.linked.Store(false)
	load := &nodev1.CommandRequest{Command: nodev1.Command_COMMAND_LOAD}
	return c.every(func(n *member) error { return errors.Join(n.rest(ctx, true), n.command(ctx, load)) })
}

// passed says that a node is known to be gone, has left, or did not answer in time before: nobody waits for it again.
func (c *Crew) passed(n *member) bool {
	return n.silent.Load() || c.moved(n) || ask(c.faults, func(core *fault.Core) bool {
		return core.Dead(n.name) || core.Gone(n.name) != "" || core.Left(n.name) != ""
	})
}

// moved says that the cluster has a node at another address than the crew: it is a process that was started anew, and
// knows nothing of the crew.
func (c *Crew) moved(n *member) bool {
	if c.opts.Where == nil {
		return false
	}
	at := c.opts.Where(n.name)
	return at != "" && at != n.seat().GetGrpcAddress()
}

// all gives every node a command and waits for all of them. The error joins a *commandError of each that did not carry
// it out. A node that is lost meanwhile, and that the run goes on without, is waited for no longer.
func (c *Crew) all(ctx context.Context, req *nodev1.CommandRequest) error {
	return c.every(func(n *member) error {
		ctx, cancel := context.WithCancel(ctx)
		defer cancel()
		defer stopwatch.Every(linkedEach, func() {
			if c.lost(n.name) {
				cancel()
			}
		})()
		if err := n.command(ctx, req); !c.lost(n.name) {
			return err
		}
		return nil
	})
}

// dead says whether the process of a node is known to have ended, whether the run bears that or not.
func (c *Crew) dead(node string) bool {
	return ask(c.faults, func(core *fault.Core) bool { return core.Dead(node) })
}

// lost says whether a node is lost to the run, which goes on without it.
func (c *Crew) lost(node string) bool {
	return ask(c.faults, func(core *fault.Core) bool { return core.Lost(node) })
}

// every does something at all nodes that are waited for, and joins what went wrong.
func (c *Crew) every(do func(*member) error) error {
	return errors.Join(gather(slices.DeleteFunc(slices.Clone(c.nodes), c.passed), do)...)
}

// gather asks nodes at the same time, and gathers what each answers, in their order.
func gather[T any](nodes []*member, ask func(*member) T) []T {
	answers := make([]T, len(nodes))
	var wg sync.WaitGroup
	for i, n := range nodes {
		wg.Go(func() { answers[i] = ask(n) })
	}
	wg.Wait()
	return answers
}

// errEnough ends the wait for nodes that cannot get ready any more, because another one has failed.
var errEnough = errors.New("another node did not carry it out")

// together is all for the way up, where nodes wait for each other's links. When one did not carry out its command, or
// something else struck, the others have fault.SettleLong to name a closer cause, and are then waited for no longer:
// that they did not get ready is no fault of theirs.
func (c *Crew) together(ctx context.Context, req *nodev1.CommandRequest) error {
	failed := make(chan struct{})
	var first sync.Once
	ctx, stop := c.faults.during(ctx, failed, fault.SettleLong)
	defer stop()
	err := c.every(func(n *member) error {
		err := n.command(ctx, req)
		if err == nil || errors.Is(context.Cause(ctx), errEnough) {
			return nil
		}
		first.Do(func() { close(failed) })
		return err
	})
	if err != nil {
		return err
	}
	if cause := c.faults.cause(); cause != nil {
		return cause
	}
	return nil
}

// Dismiss leaves the nodes at rest and closes the connections to them.
func (c *Crew) Dismiss() {
	c.faults.tell((*fault.Core).Silence)
	ctx, cancel := context.WithTimeout(context.Background(), c.opts.within(restTime))
	defer cancel()
	if err := c.every(func(n *member) error { return n.rest(ctx, false) }); err != nil {
		c.log.Warn("not every node is at rest", "err", err)
	}
	c.Release()
}

// Release closes the connections to the nodes and leaves them as they are: a control that comes later finds them so.
func (c *Crew) Release() {
	c.faults.tell((*fault.Core).Silence)
	if c.unwatch != nil {
		c.unwatch()
		c.unwatch = nil
	}
	for _, n := range c.nodes {
		_ = n.conn.Close()
	}
}

// restTime bounds how long nodes may take to come to rest.
const restTime = 5 * time.Second

// rest takes a node to Offline, whatever state it is in; a node that is gone is none of its business. With abandon it
// drops what it does; otherwise it completes its output.
func (m *member) rest(ctx context.Context, abandon bool) error {
	var errs []error
	for _, c := range []nodev1.Command{
		nodev1.Command_COMMAND_STOP, nodev1.Command_COMMAND_RECOVER, nodev1.Command_COMMAND_RESET,
		nodev1.Command_COMMAND_UNLOAD,
	} {
		err := m.command(ctx, &nodev1.CommandRequest{Command: c, Abandon: abandon && c == nodev1.Command_COMMAND_STOP})
		switch status.Code(errors.Unwrap(err)) { // Unwrap(nil) is nil, and OK
		case codes.OK, codes.FailedPrecondition, codes.Unavailable:
		default:
			if err != nil {
				errs = append(errs, err)
			}
		}
	}
	return errors.Join(errs...)
}

// member finds a node by its name.
func (c *Crew) member(name string) (*member, error) {
	for _, n := range c.nodes {
		if n.name == name {
			return n, nil
		}
	}
	return nil, fmt.Errorf("there is no node called %s", name)
}
