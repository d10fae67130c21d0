package nodes

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"ringlet/ecs/partition/fault"
	"ringlet/node"
	"ringlet/node/certs"
	"ringlet/node/cluster"
	"ringlet/node/config"
	nodev1 "ringlet/proto/ringlet/node/v1"
	"ringlet/tagnet"
)

// member is the control's side of one node.
type member struct {
	// immutable
	name       string
	conn       *swapConn
	client     nodev1.NodeClient
	firstEntry *nodev1.Member // in the view, when the node was connected; see entry
	term       *nodev1.Term   // of this control
	confirm    time.Duration  // Timeouts.Confirm of the configuration
	faults     *faults        // gets the node's reports; nil in tests

	newEntry      atomic.Pointer[nodev1.Member] // in the view, since the node was readmitted; nil: it was not
	hadSubstitute bool                          // another node substituted for it; readmissions alone use it

	unresponsive  atomic.Bool   // it did not answer in time: later commands leave it out
	answeredAfter time.Duration // how long it took to answer a control that came back; set before a run is taken up

	mu             sync.Mutex // guards what follows
	report         *nodev1.Report
	reportReceived time.Time
	watchReleased  bool   // the NodeSet's watch has ended
	stopWatch      func() // ends the watch of this node, and waits; nil: it is not watched
}

// entry is the node's entry in the view, with its present address.
func (m *member) entry() *nodev1.Member {
	if at := m.newEntry.Load(); at != nil {
		return at
	}
	return m.firstEntry
}

// process is the name of the node whose process has the units: m's own, or its substitute's.
func (m *member) process() string { return node.ProcessName(m.entry()) }

func (m *member) latestReport() *nodev1.Report {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.report
}

// storeReport stores a report, unless it is stale. Reports come on two ways, by the watch and as an answer to a call,
// so that one from before the end of a run may arrive after the final report.
func (m *member) storeReport(r *nodev1.Report) {
	if isStale(m.latestReport(), r) {
		return
	}
	if m.faults != nil {
		m.faults.noteReport(m.name, r)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if !isStale(m.report, r) {
		m.report, m.reportReceived = r, time.Now()
	}
}

// isStale says that r was made before the final report there, of the same run. If the start times differ, the node has
// begun the run again, for example in another process.
func isStale(there, r *nodev1.Report) bool {
	return there.GetFinal() && !r.GetFinal() && there.GetRun() == r.GetRun() &&
		there.GetStartedAtUs() == r.GetStartedAtUs()
}

// commandOrder numbers the commands of this process to all nodes: a node refuses one with a lower number than the last.
// All partitions of the process share it, since they share the term.
var commandOrder atomic.Uint64

// command gives the node one command.
func (m *member) command(ctx context.Context, req *nodev1.CommandRequest) error {
	one := proto.CloneOf(req)
	one.Protocol, one.Term, one.Order = node.ProtocolVersion, m.term, commandOrder.Add(1)
	err := m.retry(ctx, func() error {
		_, err := m.client.Command(ctx, one, grpc.WaitForReady(!req.GetAbandon()))
		return err
	})
	if err == nil {
		return nil
	}
	if status.Code(err) == codes.DeadlineExceeded {
		m.unresponsive.Store(true)
	}
	return &commandError{Node: m.name, Command: req.GetCommand(), Err: err}
}

// retryTimeout is how long a command is repeated whose connection broke, or Timeouts.Confirm if that is longer.
const (
	retryTimeout  = 4 * time.Second
	retryInterval = 100 * time.Millisecond
)

// retry repeats a call whose connection broke, for at most retryTimeout or m.confirm. The command may have arrived or
// not, and a node that gets it twice does it once. A caller that learns of the end of the node's process ends ctx
// earlier.
func (m *member) retry(ctx context.Context, call func() error) error {
	within, cancel := context.WithTimeout(ctx, max(retryTimeout, m.confirm))
	defer cancel()
	return poll(within, retryInterval, func() (bool, error) {
		err := call()
		return status.Code(err) != codes.Unavailable, err
	})
}

// poll calls try, at this interval, until it is done, and returns its error. When ctx ends before, it returns the last
// reason why try was not done.
func poll(ctx context.Context, every time.Duration, try func() (done bool, why error)) error {
	for {
		done, why := try()
		if done {
			return why
		}
		select {
		case <-time.After(every):
		case <-ctx.Done():
			return why
		}
	}
}

// A commandError says that a node did not carry out a command.
type commandError struct {
	Node    string
	Command nodev1.Command
	Err     error // with a gRPC status
}

func (e *commandError) Error() string {
	return fmt.Sprintf("%s did not carry out %s: %s", e.Node, commandName(e.Command), status.Convert(e.Err).Message())
}
func (e *commandError) Unwrap() error { return e.Err }

// commandName is a command as users type it: pause for COMMAND_PAUSE.
func commandName(c nodev1.Command) string {
	return strings.ToLower(strings.TrimPrefix(c.String(), "COMMAND_"))
}

// releaseNodes tells the nodes that the control needs nothing more of this run: nodes that were told to end may do so
// now.
func (r *Run) releaseNodes() {
	ctx, cancel := context.WithTimeout(context.Background(), r.opts.timeoutFor(finalReportTryTimeout))
	defer cancel()
	_ = r.forEach(func(n *member) error { // a departing node that does not get this ends after its grace
		_, err := n.client.Report(ctx, &nodev1.ReportRequest{Term: n.term, Done: true})
		return err
	})
}

// requestReport asks the node for a report and stores it. If the node does not answer, the last one stays.
func (m *member) requestReport(ctx context.Context) error {
	rep, err := m.client.Report(ctx, &nodev1.ReportRequest{Term: m.term})
	if err != nil {
		m.unresponsive.Store(true)
		return err
	}
	m.storeReport(rep)
	return nil
}

// Connect connects to the node services of members, waits for the first answer of each, and begins to watch them. Names
// and members must be in the order of ranks; a member with another name substitutes for the one of that rank. If some
// do not answer before ctx ends, or refuse, UnreachableNodes reads their names from the error.
func (c *NodeSet) Connect(ctx context.Context, names []string, members []cluster.Member) error {
	if err := c.dial(entriesOf(&c.cfg, names, members)...); err != nil {
		return err
	}
	if err := c.awaitAnswers(ctx, false); err != nil {
		return err
	}
	c.watch.begin()
	return nil
}

// UnreachableNodes are the nodes without an answer in an error of Connect or Rejoin, with the reason for each.
func UnreachableNodes(err error) map[string]string {
	unreachable := map[string]string{}
	var several interface{ Unwrap() []error }
	if !errors.As(err, &several) {
		return unreachable
	}
	for _, one := range several.Unwrap() {
		var known *fault.Error
		if errors.As(one, &known) {
			unreachable[known.Component] = known.What
		}
	}
	return unreachable
}

// entriesOf are the entries of members, in the order of ranks, in the view of a configuration. names are those of the
// members, and members the nodes whose processes have their units.
func entriesOf(cfg *config.Completed, names []string, members []cluster.Member) (entries []*nodev1.Member) {
	for rank, role := range cfg.Roles() {
		m := members[rank]
		entries = append(entries, &nodev1.Member{
			Name:        names[rank],
			Substitute:  substituteFor(names[rank], m.Name),
			Rank:        uint32(rank),
			QuicAddress: m.Meta.QUICAddr,
			GrpcAddress: m.Meta.GRPCAddr,
			Readout:     role.RU != config.NoUnit,
			RuIndex:     uint32(max(0, role.RU)),
			Builder:     role.BU != config.NoUnit,
			BuIndex:     uint32(max(0, role.BU)),
		})
	}
	return entries
}

// substituteFor is the entry of a process in the view as the substitute of a member; empty: it is the member's own.
func substituteFor(member, process string) string {
	if process == member {
		return ""
	}
	return process
}

// dial connects to the services of nodes and appends the nodes to the set.
func (c *NodeSet) dial(entries ...*nodev1.Member) error {
	for _, m := range entries {
		n, err := c.newMember(m)
		if err != nil {
			return err
		}
		c.nodes = append(c.nodes, n)
	}
	return nil
}

// newMember connects to the service of a node.
func (c *NodeSet) newMember(m *nodev1.Member) (*member, error) {
	to, err := c.opts.dialService(m)
	if err != nil {
		return nil, err
	}
	conn := newSwapConn(to)
	return &member{
		name:       m.GetName(),
		conn:       conn,
		client:     nodev1.NewNodeClient(conn),
		firstEntry: m,
		term:       termMessage(c.opts.Term),
		confirm:    c.cfg.Timeouts().Confirm,
		faults:     c.faults,
	}, nil
}

// dialService makes a connection to the service of a node.
func (o *Options) dialService(m *nodev1.Member) (*grpc.ClientConn, error) {
	creds := o.Identity.ClientCredentials(node.ProcessName(m), o.Log)
	conn, err := grpc.NewClient(m.GetGrpcAddress(), append(o.dialOptions(), grpc.WithTransportCredentials(creds))...)
	if err != nil {
		return nil, fmt.Errorf("node service of %s at %s: %w", m.GetName(), m.GetGrpcAddress(), err)
	}
	return conn, nil
}

// awaitAnswers waits for the first answer of every node, so that a node which refuses this control is known at once.
// With inRun it does not wait for a process to begin.
func (c *NodeSet) awaitAnswers(ctx context.Context, inRun bool) error {
	return c.forEach(func(n *member) error {
		began := time.Now()
		err := n.awaitAnswer(ctx, inRun)
		if n.unresponsive.Store(err != nil); err == nil {
			n.answeredAfter = time.Since(began)
		}
		return err
	})
}

// awaitAnswer asks until the node answers, or one side refuses the other's term or certificate. With thereNow it also
// ends when no process listens at the node's address.
func (m *member) awaitAnswer(ctx context.Context, thereNow bool) error {
	return poll(ctx, retryInterval, func() (bool, error) {
		final, why := m.tryAnswer(ctx)
		return final || thereNow && why != nil && isConnRefused(why), why
	})
}

// tryAnswer asks a node once; final says that asking again changes nothing.
func (m *member) tryAnswer(ctx context.Context) (final bool, why error) {
	rep, err := m.client.Report(ctx, &nodev1.ReportRequest{Term: m.term})
	if err == nil {
		m.storeReport(rep)
		return true, nil
	}
	if fenced := tagnet.AsFencedError(err); fenced != nil {
		return true, m.unreachableError(" refuses this control: " + fenced.Error())
	}
	if why := certificateRefusal(err); why != nil {
		return true, m.unreachableError(": " + why.Error())
	}
	words := status.Convert(err).Message()
	return false, m.unreachableError(" does not answer: " + cmp.Or(certs.ExplainUnanswered(words), words))
}

func (m *member) unreachableError(why string) error {
	return &fault.Error{Fault: fault.SeenByControl(m.name, fault.SubsystemNodeService,
		"its node service at "+m.entry().GetGrpcAddress()+why)}
}

// swapConn is the connection to the service of a node, which another process may replace during a run.
type swapConn struct {
	conn atomic.Pointer[grpc.ClientConn]
}

func newSwapConn(conn *grpc.ClientConn) *swapConn {
	r := &swapConn{}
	r.conn.Store(conn)
	return r
}

// Invoke implements grpc.ClientConnInterface.
func (r *swapConn) Invoke(ctx context.Context, method string, args, reply any, opts ...grpc.CallOption) error {
	return r.conn.Load().Invoke(ctx, method, args, reply, opts...)
}

// NewStream implements grpc.ClientConnInterface.
func (r *swapConn) NewStream(ctx context.Context, desc *grpc.StreamDesc, method string,
	opts ...grpc.CallOption) (grpc.ClientStream, error) {
	return r.conn.Load().NewStream(ctx, desc, method, opts...)
}

// present is the connection of now.
func (r *swapConn) present() *grpc.ClientConn { return r.conn.Load() }

// swap replaces the connection, and returns the former one. Calls on that go on.
func (r *swapConn) swap(to *grpc.ClientConn) (former *grpc.ClientConn) { return r.conn.Swap(to) }

// Close closes the connection.
func (r *swapConn) Close() error { return r.conn.Load().Close() }
