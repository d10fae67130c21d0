package control

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"ringlet/node/certs"
	"ringlet/node/config"
	nodev1 "ringlet/proto/ringlet/node/v1"
	"ringlet/tagnet"
)

// Options of a crew.
type Options struct {
	Identity   *certs.Identity
	Host       string // address to bind where the scheduler lives here, and to tell the nodes
	TagnetPort int    // of that scheduler; 0 means any
	// Seat is the node on which the scheduler lives; empty: this process.
	Seat    string
	Version string
	// Term of this control, which nodes and schedulers compare with that of others. They refuse one without a number
	// once they have heard another.
	Term tagnet.Term
	// Patience is how long the nodes may take to appear and to become ready. Zero means 60 s.
	Patience time.Duration
	// Where tells at which address the node service of a node is now; empty: nobody knows. Nil: where it was.
	Where func(node string) string
	// Lost is told of a loss that the policy bears: the run goes on. Nil: nobody wants to know.
	Lost func(Fault)
	Log  *slog.Logger // nil: slog.Default
}

// Crew is the nodes of a partition as the control knows them, connected and watched. Its steps, Load to Dismiss, are given by one
// goroutine; what it tells of the nodes may be read by any.
type Crew struct {
	// immutable after NewCrew
	opts Options
	log  *slog.Logger
	cfg  config.Config

	// set by Gather or Meet, and by Configure
	nodes []*member
	view  *nodev1.View

	present atomic.Uint64 // number of the view; 0 before Configure
	faults  *faults
	unwatch func() // ends the watch; nil before it
}

// NewCrew makes a crew without nodes for a configuration, which is complete.
func NewCrew(opts Options, cfg config.Config) *Crew {
	if opts.Log == nil {
		opts.Log = slog.Default()
	}
	if opts.Patience == 0 {
		opts.Patience = 60 * time.Second
	}
	return &Crew{opts: opts, log: opts.Log, cfg: cfg, faults: newFaults()}
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
		told[i] = Told{Member: n.view, Report: n.report, Received: n.received}
		n.mu.Unlock()
		told[i].Lost, told[i].Left = c.faults.lost(n.name), c.faults.away(n.name) != ""
	}
	return told
}

// Whole says that every node is there, as far as is known.
func (c *Crew) Whole() bool {
	for _, n := range c.nodes {
		if c.passed(n) {
			return false
		}
	}
	return true
}

// View is who does what; nil before Configure.
func (c *Crew) View() *nodev1.View { return c.view }

// Struck is closed when something has broken that the policy does not bear.
func (c *Crew) Struck() <-chan struct{} { return c.faults.struckNow() }

// Cause waits a moment for the closest witness and returns what broke, or nil.
func (c *Crew) Cause() *FaultError { return c.faults.settled() }

// Load takes every node to NotReady, wherever it was.
func (c *Crew) Load(ctx context.Context) error {
	if err := c.unfold(ctx); err != nil {
		return err
	}
	c.faults.heed()
	return c.together(ctx, &nodev1.CommandRequest{Command: nodev1.Command_COMMAND_LOAD})
}

// unfold brings nodes that something has left elsewhere to where load can begin. What a node forbids it need not do.
func (c *Crew) unfold(ctx context.Context) error {
	var wg sync.WaitGroup
	errs := make([]error, len(c.nodes))
	for i, n := range c.nodes {
		if st := n.latest().GetStatus().GetState(); st == "" || st == "Offline" {
			continue
		}
		wg.Go(func() { errs[i] = n.rest(ctx, true) })
	}
	wg.Wait()
	return errors.Join(errs...)
}

// Configure makes a view of the nodes and takes each to Ready, with its memory and its links.
func (c *Crew) Configure(ctx context.Context) error {
	c.view = &nodev1.View{Number: uint64(time.Now().UnixNano())}
	c.present.Store(c.view.GetNumber())
	for _, n := range c.nodes {
		c.view.Members = append(c.view.Members, n.view)
	}
	return c.together(ctx, &nodev1.CommandRequest{
		Command: nodev1.Command_COMMAND_CONFIGURE, Run: c.cfg.RunNumber, Configuration: c.cfg.Effective(), View: c.view,
	})
}

// Reset takes every node that answers back to NotReady, and Unload from there to Offline.
func (c *Crew) Reset(ctx context.Context) error {
	return c.all(ctx, &nodev1.CommandRequest{Command: nodev1.Command_COMMAND_RESET})
}

// Unload takes every node that answers from NotReady to Offline.
func (c *Crew) Unload(ctx context.Context) error {
	return c.all(ctx, &nodev1.CommandRequest{Command: nodev1.Command_COMMAND_UNLOAD})
}

// Clear takes every node that answers to NotReady after a fault, whatever state it is in, and forgets what broke.
func (c *Crew) Clear(ctx context.Context) error {
	c.faults.silence()
	var wg sync.WaitGroup
	errs := make([]error, len(c.nodes))
	for i, n := range c.nodes {
		if c.passed(n) {
			continue
		}
		wg.Go(func() {
			errs[i] = errors.Join(n.rest(ctx, true), n.command(ctx, &nodev1.CommandRequest{Command: nodev1.Command_COMMAND_LOAD}))
		})
	}
	wg.Wait()
	c.faults.clear()
	return errors.Join(errs...)
}

// passed says that a node is known to be gone, has left, or did not answer in time before: nobody waits for it again.
func (c *Crew) passed(n *member) bool {
	return n.silent.Load() || c.faults.gone(n.name) || c.faults.lost(n.name) != "" || c.faults.away(n.name) != ""
}

// all gives every node a command and waits for all of them. The error joins a *CommandError of each that did not carry it out.
func (c *Crew) all(ctx context.Context, req *nodev1.CommandRequest) error {
	return errors.Join(c.each(ctx, req)...)
}

// each is all, with the errors in the order of the nodes. Those that are passed over have none.
func (c *Crew) each(ctx context.Context, req *nodev1.CommandRequest) []error {
	errs := make([]error, len(c.nodes))
	var wg sync.WaitGroup
	for i, n := range c.nodes {
		if c.passed(n) {
			continue
		}
		wg.Go(func() { errs[i] = n.command(ctx, req) })
	}
	wg.Wait()
	return errs
}

// Dismiss leaves the nodes at rest and closes the connections to them.
func (c *Crew) Dismiss() {
	c.faults.silence()
	ctx, cancel := context.WithTimeout(context.Background(), restTime)
	defer cancel()
	var wg sync.WaitGroup
	for _, n := range c.nodes {
		wg.Go(func() {
			if c.passed(n) {
				return
			}
			if err := n.rest(ctx, false); err != nil {
				c.log.Warn("a node is not at rest", "node", n.name, "err", err)
			}
		})
	}
	wg.Wait()
	c.Release()
}

// Release closes the connections to the nodes and leaves them as they are: a control that comes later finds them so.
func (c *Crew) Release() {
	c.faults.silence()
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

// rest takes a node to Offline, whatever state it is in; a node that is gone is none of its business. With abandon it drops what it
// does; otherwise it completes its output.
func (m *member) rest(ctx context.Context, abandon bool) error {
	var errs []error
	for _, c := range []nodev1.Command{
		nodev1.Command_COMMAND_STOP, nodev1.Command_COMMAND_RECOVER, nodev1.Command_COMMAND_RESET, nodev1.Command_COMMAND_UNLOAD,
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
