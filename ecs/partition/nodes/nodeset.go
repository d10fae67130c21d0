package nodes

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"ringlet/ecs/partition/fault"
	"ringlet/internal/nodename"
	"ringlet/internal/stopwatch"
	"ringlet/node"
	"ringlet/node/certs"
	"ringlet/node/cluster"
	"ringlet/node/config"
	"ringlet/node/fsm"
	nodev1 "ringlet/proto/ringlet/node/v1"
	samplev1 "ringlet/proto/ringlet/sample/v1"
	tapv1 "ringlet/proto/ringlet/tap/v1"
	"ringlet/tagnet"
)

// Options of a NodeSet.
type Options struct {
	Identity   *certs.Identity
	Host       string // address that a scheduler in this process binds, and that the nodes get
	TagnetPort int    // TCP port of that scheduler; 0 means any
	// TagnetNode is the node whose process runs the scheduler; empty: this process does.
	TagnetNode string
	Version    string
	// Term of this control. Nodes and schedulers refuse a term lower than the highest that they have seen; a term
	// without a number is the lowest.
	Term tagnet.Term
	// ReadyTimeout is how long the nodes may take to appear and to become Ready. Zero means 60 s.
	ReadyTimeout time.Duration
	// MinTimeout is a lower bound for all time-outs of questions to nodes. Zero: each has its default.
	MinTimeout time.Duration
	// AddressOf returns the present address of a node's service; empty: not known. Nil: addresses never change.
	AddressOf func(node string) string
	// OnLost is called with each loss that a policy tolerates: the run goes on. Nil: no call.
	OnLost func(Loss)
	// SpawnsNodes says that the control itself restarts node processes that have ended.
	SpawnsNodes bool
	Log         *slog.Logger // nil: slog.Default
}

// timeoutFor is the time-out of a question whose default is d.
func (o *Options) timeoutFor(d time.Duration) time.Duration { return max(d, o.MinTimeout) }

// NodeSet is the control's side of the nodes of a partition: connected and watched. One goroutine calls its steps, Load
// to Dismiss; any goroutine may call the methods that return the state of the nodes.
type NodeSet struct {
	// immutable after NewNodeSet
	opts Options
	log  *slog.Logger
	cfg  config.Completed

	// set by Connect or Rejoin
	roster

	*faults
	watch *watch

	view   atomic.Pointer[nodev1.View] // of the last Configure; nil before it
	linked atomic.Bool                 // the nodes have the links of view
}

// NewNodeSet makes a NodeSet without nodes for a configuration.
func NewNodeSet(opts Options, cfg config.Completed) *NodeSet {
	if opts.Log == nil {
		opts.Log = slog.Default()
	}
	if opts.ReadyTimeout == 0 {
		opts.ReadyTimeout = 60 * time.Second
	}
	c := &NodeSet{opts: opts, log: opts.Log, cfg: cfg, faults: newFaults(opts.SpawnsNodes, cfg.Timeouts())}
	c.watch = &watch{set: c}
	return c
}

// Configuration is the one that the NodeSet was made for.
func (c *NodeSet) Configuration() config.Completed { return c.cfg }

// ObserveProcessEnd observes that a process has ended, which takes all its nodes; the Spawner, which started it, says
// how.
func (c *NodeSet) ObserveProcessEnd(process, how string) {
	var names []string
	for _, n := range c.nodes {
		if nodename.ProcessOf(n.process()) == process {
			names = append(names, n.name)
		}
	}
	c.faults.observeProcessEnd(names, how)
}

// Status is the last report of a node, and its presence.
type Status struct {
	Member   *nodev1.Member
	Report   *nodev1.Report // nil: none yet
	Received time.Time      // of the report, by this process's clock
	Presence fault.Presence
}

// Statuses are those of all nodes, in the order of ranks.
func (c *NodeSet) Statuses() []Status {
	statuses := make([]Status, len(c.nodes))
	for i, n := range c.nodes {
		n.mu.Lock()
		statuses[i] = Status{Member: n.entry(), Report: n.report, Received: n.reportReceived}
		n.mu.Unlock()
		statuses[i].Presence = c.Presence(n.name)
	}
	return statuses
}

// AllPresent says that no node is known to be gone or unresponsive.
func (c *NodeSet) AllPresent() bool { return !slices.ContainsFunc(c.nodes, c.isUnavailable) }

// View is the view of the last Configure; nil before it.
func (c *NodeSet) View() *nodev1.View { return c.view.Load() }

// ProcessEnded says that the process of a node at this address, which has the units of a member, is known to have
// ended, and that no process accepts a connection there now.
func (c *NodeSet) ProcessEnded(process, address string) bool {
	n, err := c.findProcess(process)
	if err != nil || n.entry().GetGrpcAddress() != address || !c.Presence(n.name).ProcessEnded {
		return false
	}
	return c.opts.probe(address) != nil
}

// probe is the error of a connection to an address now; nil if a process accepts one.
func (o *Options) probe(address string) error {
	conn, err := net.DialTimeout("tcp", address, o.timeoutFor(probeTimeout))
	if err == nil {
		_ = conn.Close()
	}
	return err
}

// probeTimeout bounds how long an address may take to accept a connection: 1 ms is usual on the same network.
const probeTimeout = 200 * time.Millisecond

// Load takes every node to NotReady, from any state.
func (c *NodeSet) Load(ctx context.Context) error {
	// A node that an earlier control left in another state goes to Offline first, where it takes load.
	err := c.forEach(func(n *member) error {
		if st := n.latestReport().GetStatus().GetState(); st == "" || st == "Offline" {
			return nil
		}
		return n.takeOffline(ctx, true)
	})
	if err != nil {
		return err
	}
	c.faults.updateCore((*fault.Core).AcceptReports)
	return c.commandTogether(ctx, &nodev1.CommandRequest{Command: nodev1.Command_COMMAND_LOAD})
}

// Configure makes a view of the nodes, which are NotReady, and takes each to Ready, with its memory and its links. run
// is the number of the run if it is known; else 0.
func (c *NodeSet) Configure(ctx context.Context, run uint32) error {
	cfg := c.cfg
	cfg.RunNumber = run
	view := &nodev1.View{Number: uint64(time.Now().UnixNano())}
	for _, n := range c.nodes {
		view.Members = append(view.Members, n.entry())
	}
	c.view.Store(view)
	err := c.commandTogether(ctx, &nodev1.CommandRequest{
		Command:       nodev1.Command_COMMAND_CONFIGURE,
		Run:           run,
		Configuration: cfg.Effective(),
		View:          view,
	})
	c.linked.Store(err == nil)
	return err
}

// Linked says that the nodes have the links that Configure made: no run has given them up, and no node reports one as
// down.
func (c *NodeSet) Linked() bool {
	return c.linked.Load() && !slices.ContainsFunc(c.nodes, func(n *member) bool { return linkDown(n.latestReport()) })
}

// linkDown says whether a node in Ready reports a lost link. The next run would end at once, or, if a policy tolerates
// the loss, begin without the unit behind the link.
func linkDown(rep *nodev1.Report) bool {
	st := rep.GetStatus()
	return st.GetState() == fsm.Ready.String() &&
		(st.GetParked() || st.GetDegraded() && fault.FromCause(st.GetCause()).Subsystem == fault.SubsystemTransport)
}

// MarkUnlinked has the nodes configured again before the next run, since other nodes are to take part.
func (c *NodeSet) MarkUnlinked() { c.linked.Store(false) }

// AllInNotReady asks whether every node is NotReady, as Load and Clear leave it.
func (c *NodeSet) AllInNotReady(ctx context.Context) bool {
	return c.AllPresent() && c.forEach(func(n *member) error {
		if n.requestReport(ctx) != nil || n.latestReport().GetStatus().GetState() != fsm.NotReady.String() {
			return errNodeNotAtRest
		}
		return nil
	}) == nil
}

var errNodeNotAtRest = errors.New("a node is not at rest")

// Unload takes every node that answers from NotReady to Offline.
func (c *NodeSet) Unload(ctx context.Context) error {
	return c.commandAll(ctx, &nodev1.CommandRequest{Command: nodev1.Command_COMMAND_UNLOAD})
}

// Clear takes every node that answers to NotReady, from any state, and forgets the faults.
func (c *NodeSet) Clear(ctx context.Context) error {
	c.faults.updateCore((*fault.Core).IgnoreFaults)
	defer c.faults.clear()
	c.linked.Store(false)
	load := &nodev1.CommandRequest{Command: nodev1.Command_COMMAND_LOAD}
	return c.forEach(untilGone(ctx, c.isGone, func(ctx context.Context, n *member) error {
		return errors.Join(n.takeOffline(ctx, true), n.command(ctx, load))
	}))
}

// isUnavailable says that a node is known to be gone, has withdrawn, or did not answer in time before: commands leave
// it out.
func (c *NodeSet) isUnavailable(n *member) bool { return n.unresponsive.Load() || c.isGone(n) }

// isGone says that a node is known to be gone, or has withdrawn.
func (c *NodeSet) isGone(n *member) bool {
	at := c.Presence(n.name)
	return c.opts.hasNewAddress(n) || at.ProcessEnded || at.Gone != "" || at.Withdrawn != ""
}

// hasNewAddress says that the cluster knows the node under another address than this node set does: then a new process
// runs there, and does not know the view.
func (o *Options) hasNewAddress(n *member) bool {
	if o.AddressOf == nil {
		return false
	}
	at := o.AddressOf(n.process())
	return at != "" && at != n.entry().GetGrpcAddress()
}

// commandAll gives every node a command and waits for all of them. The error joins a *commandError of each node that
// did not carry it out. It stops waiting for a node that is lost to the run meanwhile.
func (c *NodeSet) commandAll(ctx context.Context, req *nodev1.CommandRequest) error {
	lost := func(n *member) bool { return c.Presence(n.name).Lost }
	return c.forEach(untilGone(ctx, lost, func(ctx context.Context, n *member) error { return n.command(ctx, req) }))
}

// untilGone wraps do so that it ends without error when the node is gone. Otherwise a command would wait for the gRPC
// connection to a process that has ended.
func untilGone(ctx context.Context, gone func(*member) bool,
	do func(context.Context, *member) error) func(*member) error {
	return func(n *member) error {
		ctx, cancel := context.WithCancel(ctx)
		defer cancel()
		defer stopwatch.RunEvery(linkPollInterval, func() {
			if gone(n) {
				cancel()
			}
		})()
		if err := do(ctx, n); !gone(n) {
			return err
		}
		return nil
	}
}

// forEach calls do for all available nodes at the same time, and joins the errors.
func (c *NodeSet) forEach(do func(*member) error) error {
	return errors.Join(requestEach(slices.DeleteFunc(slices.Clone(c.nodes), c.isUnavailable), do)...)
}

// requestEach calls request for all nodes at the same time, and returns the results in their order.
func requestEach[T any](nodes []*member, request func(*member) T) []T {
	answers := make([]T, len(nodes))
	var wg sync.WaitGroup
	for i, n := range nodes {
		wg.Go(func() { answers[i] = request(n) })
	}
	wg.Wait()
	return answers
}

// errOtherFailed ends the wait for nodes that cannot become Ready because another one has failed.
var errOtherFailed = errors.New("another node did not carry it out")

// commandTogether is commandAll for load, configure and start, where nodes wait for each other's links. If one fails,
// for example since its memory is too small, the others cannot finish: they get fault.SessionWitnessTimeout to report a
// closer cause, and their unfinished commands are no errors. It does the same after another fault.
func (c *NodeSet) commandTogether(ctx context.Context, req *nodev1.CommandRequest) error {
	failed := make(chan struct{})
	var first sync.Once
	ctx, stop := c.faults.untilFault(ctx, failed, fault.SessionWitnessTimeout)
	defer stop()
	err := c.forEach(func(n *member) error {
		err := n.command(ctx, req)
		if err == nil || errors.Is(context.Cause(ctx), errOtherFailed) {
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

// Dismiss takes the nodes to Offline, with complete outputs, and closes the connections.
func (c *NodeSet) Dismiss() {
	c.faults.updateCore((*fault.Core).IgnoreFaults)
	ctx, cancel := context.WithTimeout(context.Background(), c.opts.timeoutFor(takeOfflineTimeout))
	defer cancel()
	if err := c.forEach(func(n *member) error { return n.takeOffline(ctx, false) }); err != nil {
		c.log.Warn("not every node is at rest", "err", err)
	}
	c.CloseConnections()
}

// CloseConnections closes the connections and leaves the nodes as they are, for a later control.
func (c *NodeSet) CloseConnections() {
	c.faults.updateCore((*fault.Core).IgnoreFaults)
	c.watch.end()
	for _, n := range c.nodes {
		_ = n.conn.Close()
	}
}

// takeOfflineTimeout bounds how long nodes may take to go to Offline.
const takeOfflineTimeout = 5 * time.Second

// takeOffline takes the node to Offline from any state: each state refuses the commands that it does not take. With
// abandon the node drops the MEPs under way, otherwise it completes its output. A node that is gone is no error.
func (m *member) takeOffline(ctx context.Context, abandon bool) error {
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

// An outputError says that a node cannot write its output, or not have its inputs.
type outputError struct {
	Node    string
	Problem string // a sentence
}

func (e *outputError) Error() string { return fmt.Sprintf("on %s: %s", e.Node, e.Problem) }

// CheckOutput asks the nodes whether their units can open their live inputs and write their outputs, for a run of this
// number, or 0 for any. It returns the highest number of a run that the output holds already, and a sentence for each
// node with little room. The error joins an *outputError of each node that cannot.
func (c *NodeSet) CheckOutput(ctx context.Context, run uint32) (last uint32, short []string, err error) {
	var mu sync.Mutex // guards the results
	err = c.forEach(func(n *member) error {
		if !usesHostResources(&c.cfg, n.firstEntry) {
			return nil
		}
		answer, err := n.client.CheckOutput(ctx, &nodev1.CheckOutputRequest{
			Configuration: c.cfg.Effective(),
			Run:           run,
			Seat:          n.firstEntry,
			Term:          n.term,
		})
		switch {
		case err != nil:
			return &outputError{n.name, "it cannot say whether it can write the output and open the inputs: " +
				status.Convert(err).Message()}
		case answer.GetProblem() != "":
			return &outputError{n.name, answer.GetProblem()}
		}
		mu.Lock()
		defer mu.Unlock()
		last = max(last, answer.GetLastRun())
		if w := answer.GetWarning(); w != "" {
			short = append(short, "on "+n.name+": "+w)
		}
		return nil
	})
	slices.Sort(short)
	return last, short, err
}

// usesHostResources says whether the units of an entry use files or live inputs on their host.
func usesHostResources(c *config.Completed, entry *nodev1.Member) bool {
	return entry.GetBuilder() && c.WritesFiles() || entry.GetReadout() && c.HasLiveSources() ||
		entry.GetName() == c.DecisionNode && c.DecisionOutput != ""
}

// CheckOutputAt is CheckOutput for members of the cluster, in the order of ranks, that no NodeSet has connected.
func CheckOutputAt(
	ctx context.Context, id *certs.Identity, term tagnet.Term, cfg config.Completed, members []cluster.Member,
) error {
	if !cfg.WritesFiles() && !cfg.HasLiveSources() && cfg.DecisionOutput == "" || len(members) < cfg.Nodes {
		return nil
	}
	if err := prepareOutput(&cfg); err != nil {
		return err
	}
	c := NewNodeSet(Options{Identity: id, Term: term}, cfg)
	defer c.CloseConnections()
	if err := c.dial(entriesOf(&cfg, namesOf(members), members)...); err != nil {
		return err
	}
	_, _, err := c.CheckOutput(ctx, 0)
	return err
}

func namesOf(members []cluster.Member) []string {
	names := make([]string, len(members))
	for i, m := range members {
		names[i] = m.Name
	}
	return names
}

// TagnetNode is the node whose process runs the scheduler; empty: this process does.
func (c *NodeSet) TagnetNode() string { return c.opts.TagnetNode }

// Facts are the machine facts in the nodes' reports, for Config.CheckNodes.
func (c *NodeSet) Facts() []config.NodeFacts {
	facts := make([]config.NodeFacts, len(c.nodes))
	for i, rep := range c.Reports() {
		m := rep.GetMachine()
		facts[i] = config.NodeFacts{
			Name:        c.nodes[i].name,
			MemoryBytes: int64(m.GetMemoryBytes()),
			ShmBytes:    int64(m.GetShmBytes()),
			MachineID:   m.GetShares(),
		}
	}
	return facts
}

// RequestFacts asks members of the cluster for their facts. It leaves out those that do not answer before ctx ends.
func RequestFacts(ctx context.Context, id *certs.Identity, term tagnet.Term,
	members []cluster.Member) []config.NodeFacts {
	c := NewNodeSet(Options{Identity: id, Term: term}, config.Completed{})
	defer c.CloseConnections()
	for _, m := range members {
		if err := c.dial(&nodev1.Member{Name: m.Name, GrpcAddress: m.Meta.GRPCAddr}); err != nil {
			c.log.Warn("a node cannot be asked what it has", "node", m.Name, "err", err)
		}
	}
	_ = c.awaitAnswers(ctx, false)
	var facts []config.NodeFacts
	for i, f := range c.Facts() {
		if c.nodes[i].latestReport() != nil {
			facts = append(facts, f)
		}
	}
	return facts
}

// Describe returns the facts of a node for the status tree: addresses, version, host.
func (c *NodeSet) Describe(rank int) map[string]string {
	n := c.nodes[rank]
	rep := n.latestReport()
	about := map[string]string{"address": n.entry().GetGrpcAddress(), "data": n.entry().GetQuicAddress()}
	for key, v := range map[string]string{
		"version":    rep.GetVersion(),
		"host":       rep.GetMachine().GetHost(),
		"substitute": n.entry().GetSubstitute(),
	} {
		if v != "" {
			about[key] = v
		}
	}
	if process := nodename.ProcessOf(n.process()); slices.ContainsFunc(c.nodes, func(m *member) bool {
		return m != n && nodename.ProcessOf(m.process()) == process
	}) {
		about["process"] = process
	}
	return about
}

// Profile writes a profile of a node; see node.ReadProfile.
func (c *NodeSet) Profile(ctx context.Context, w io.Writer, name, kind string, length time.Duration) error {
	n, err := c.findMember(name)
	if err != nil {
		return err
	}
	return node.ReadProfile(ctx, n.client, w, kind, length)
}

// maxSamplesBytes bounds a message of samples, which has at least one event.
const maxSamplesBytes = 64 << 20

// Builders are the names of the available nodes with a builder unit, in the order of ranks.
func (c *NodeSet) Builders() (names []string) {
	for _, n := range c.nodes {
		if n.firstEntry.GetBuilder() && !c.isUnavailable(n) {
			names = append(names, n.name)
		}
	}
	return names
}

// Tap passes on a sample of the events that a node builds until ctx or the stream ends, and returns why: never nil.
func (c *NodeSet) Tap(ctx context.Context, name string, sel *tapv1.Selection, each func(*tapv1.Samples)) error {
	n, err := c.findMember(name)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	in, err := n.client.Tap(ctx, &nodev1.TapRequest{Selection: sel}, grpc.MaxCallRecvMsgSize(maxSamplesBytes))
	for err == nil {
		var m *tapv1.Samples
		if m, err = in.Recv(); err == nil {
			each(m)
		}
	}
	return err
}

// Sample passes on samples of a node's counters until the node has sent all that q asks for, ctx or the stream ends, or
// send fails. It returns nil if the node has sent all.
func (c *NodeSet) Sample(ctx context.Context, q *samplev1.Question, send func(*samplev1.Samples) error) error {
	n, err := c.findMember(q.GetNode())
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	in, err := n.client.Sample(ctx, q)
	for err == nil {
		var m *samplev1.Samples
		if m, err = in.Recv(); err == nil {
			err = send(m)
		}
	}
	if errors.Is(err, io.EOF) {
		return nil
	}
	return err
}
