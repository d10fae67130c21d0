package nodes

import (
	"context"
	"errors"
	"io"
	"strings"
	"syscall"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/keepalive"
	"google.golang.org/grpc/status"

	"ringlet/ecs/partition/fault"
	"ringlet/internal/address"
	"ringlet/internal/nodename"
	"ringlet/internal/stopwatch"
	"ringlet/node"
	"ringlet/node/certs"
	"ringlet/node/fsm"
	nodev1 "ringlet/proto/ringlet/node/v1"
	"ringlet/tagnet"
)

// awakeInterval is the time between two calls of fault.Core.AwakeTime.
const awakeInterval = 200 * time.Millisecond

// The control tolerates for Timeouts.Control that it is cut off from a node. Building does not need the control, so a
// short cut must not end a run: if the node is lost to other nodes, too, their links time out before. The keepalive
// finds a connection whose other end is gone; gRPC allows no shorter keepaliveInterval.
const (
	rewatchInterval   = 100 * time.Millisecond
	keepaliveInterval = 10 * time.Second
	keepaliveTimeout  = 5 * time.Second
	connectTimeout    = 5 * time.Second // with the TLS handshake, on a busy machine
	maxConnectBackoff = time.Second     // between two attempts
)

// dialOptions are the options of connections that reconnect after a cut.
func (o *Options) dialOptions() []grpc.DialOption {
	pause := backoff.DefaultConfig
	pause.BaseDelay, pause.MaxDelay = rewatchInterval, maxConnectBackoff
	return []grpc.DialOption{
		grpc.WithContextDialer(address.DialService),
		grpc.WithKeepaliveParams(keepalive.ClientParameters{Time: keepaliveInterval,
			Timeout: o.timeoutFor(keepaliveTimeout)}),
		grpc.WithConnectParams(grpc.ConnectParams{Backoff: pause, MinConnectTimeout: o.timeoutFor(connectTimeout)}),
	}
}

// watch follows every node's reports, and observes faults: a node in Error, or without reports.
type watch struct {
	set    *NodeSet
	untick func() // ends the calls of AwakeTime; nil: the nodes are not watched
}

// EnsureWatched begins to watch nodes after Rejoin, if they are not watched yet.
func (c *NodeSet) EnsureWatched() {
	if c.watch.untick == nil {
		c.faults.updateCore((*fault.Core).AcceptReports)
		c.watch.begin()
	}
}

func (w *watch) begin() {
	for _, n := range w.set.nodes {
		w.follow(n)
	}
	w.untick = stopwatch.RunEvery(awakeInterval, func() { w.set.awakeTime(time.Now()) })
}

// end ends the watch of all nodes.
func (w *watch) end() {
	if w.untick == nil {
		return
	}
	w.untick()
	w.untick = nil
	for _, n := range w.set.nodes {
		n.mu.Lock()
		n.watchReleased = true
		n.mu.Unlock()
		n.setWatch(nil)
	}
}

// follow starts the goroutine that follows one node, and ends the former one.
func (w *watch) follow(n *member) {
	ctx, cancel := context.WithCancel(context.Background())
	over := make(chan struct{})
	n.setWatch(func() { cancel(); <-over })
	go func() {
		defer close(over)
		err := w.followUntilGone(ctx, n, w.set.cfg.Timeouts().Control)
		if fenced := tagnet.AsFencedError(err); fenced != nil {
			w.set.observe(fencedObservation(n.name, fenced))
			return
		}
		lost := w.lossObservation(n, err)
		switch {
		case ctx.Err() != nil:
		case w.set.isFinal(n.latestReport()): // a node may end after its final report
			w.set.updateCore(func(core *fault.Core) { core.NoteGoneAfterRun(n.name, lost.What) })
		case lost.Kind == fault.ProcessVanished:
			w.set.observe(w.vanishedNodes(n, err, lost)...)
		default:
			w.set.observe(lost)
		}
	}()
}

// vanishedNodes are the observations of the nodes of a process that has ended: lost is that of n, whose watch ended
// with err. It looks for the others, so that the control need not miss one after the other.
func (w *watch) vanishedNodes(n *member, err error, lost fault.Observation) []fault.Observation {
	all := []fault.Observation{lost}
	for _, other := range w.set.nodes {
		if other != n && nodename.ProcessOf(other.process()) == nodename.ProcessOf(n.process()) &&
			!w.set.isFinal(other.latestReport()) && isConnRefused(w.set.opts.probe(other.entry().GetGrpcAddress())) {
			all = append(all, w.lossObservation(other, err))
		}
	}
	return all
}

// setWatch stores the function that ends the watch of the node, and ends the former watch. After watch.end it calls the
// function at once.
func (m *member) setWatch(end func()) {
	m.mu.Lock()
	before, released := m.stopWatch, m.watchReleased
	if m.stopWatch = end; released {
		m.stopWatch = nil
	}
	m.mu.Unlock()
	if before != nil {
		before()
	}
	if released && end != nil {
		end()
	}
}

// lossObservation is the observation for the error that ended the watch of a node.
func (w *watch) lossObservation(n *member, err error) fault.Observation {
	x := fault.Observation{Kind: fault.SilentToControl, Fault: fault.SeenByControl(n.name, fault.SubsystemNodeService,
		"the control hears nothing of it any more: "+status.Convert(err).Message())}
	switch why := certificateRefusal(err); {
	case why != nil:
		x.Kind, x.Subsystem, x.What = fault.SelfReported, fault.SubsystemCertificate,
			"it and the control do not trust each other any more: "+why.Error()
	case errors.As(err, new(*newProcessError)):
		x.Kind, x.Subsystem, x.What = fault.ProcessVanished, fault.SubsystemProcess,
			n.processWords()+" has ended, and "+err.Error()
	case isConnRefused(err):
		x.Kind, x.Subsystem, x.What = fault.ProcessVanished, fault.SubsystemProcess,
			n.processWords()+" has ended: no process listens at "+n.entry().GetGrpcAddress()+" any more"
	}
	return x
}

// processWords are the words for the process that has a member's units.
func (m *member) processWords() string {
	if m.process() == m.name {
		return "its process"
	}
	return "the process of " + m.process() + ", which substituted for it,"
}

// certificateRefusal is the reason in an error that one side refuses the other's certificate; nil if err is another
// error.
func certificateRefusal(err error) *certs.RefusedError {
	var refused *certs.RefusedError
	if errors.As(certs.Explain(errors.New(status.Convert(err).Message())), &refused) {
		return refused
	}
	return nil
}

// isConnRefused says that no process listens at the node's address.
func isConnRefused(err error) bool {
	return err != nil && strings.Contains(err.Error(), syscall.ECONNREFUSED.Error())
}

// followUntilGone follows a node until ctx ends or the node is gone, and returns why: never nil. The node is gone when
// no report has come for timeout, or when its process is known to have ended.
func (w *watch) followUntilGone(ctx context.Context, n *member, timeout time.Duration) error {
	var cut time.Time // when the reports stopped, in awake time; zero while they come
	for {
		err := n.followReports(ctx, w.set.cfg.Timeouts().Report, func(rep *nodev1.Report) error {
			if who := rep.GetName(); who != n.process() {
				return &newProcessError{who}
			}
			if !cut.IsZero() {
				if isNewProcess(n.latestReport(), rep) {
					return &newProcessError{}
				}
				w.set.log.Info("a node is heard again", "node", n.name, "silent", w.set.awakeTime(time.Now()).Sub(cut))
				cut = time.Time{}
			}
			w.onReport(n, rep)
			return nil
		})
		if ctx.Err() != nil || !isTransient(err) {
			return err
		}
		if now := w.set.awakeTime(time.Now()); cut.IsZero() {
			cut = now
			w.set.log.Info("a node is silent: trying to hear it again", "node", n.name, "err", err)
		} else if now.Sub(cut) >= timeout {
			return err
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(rewatchInterval):
		}
	}
}

// onReport stores a report and observes its faults.
func (w *watch) onReport(n *member, rep *nodev1.Report) {
	n.storeReport(rep)
	// A state from an earlier view is no fault of this one: load and configure reset it.
	w.set.observeReport(n.name, rep, rep.GetView() == w.set.View().GetNumber())
	goesOn := rep.GetStatus().GetState() == fsm.Running.String() && rep.GetRun() == w.set.runNumber.Load()
	if goesOn && queryCore(w.set.faults, func(core *fault.Core) bool { return core.RetireOnce(n.name) }) {
		go w.retireLogged(process{n.name, nodev1.NewNodeClient(n.conn.present()), n.term})
	}
}

// process is one that has, or had, the units of a member: another may have them by now.
type process struct {
	name   string // of its node
	client nodev1.NodeClient
	term   *nodev1.Term
}

// retire tells a process to drop a run that has lost it. It does not know of its loss, and other processes cannot read
// the files that it holds open.
func (w *watch) retire(p process) error {
	ctx, cancel := context.WithTimeout(context.Background(), w.set.opts.timeoutFor(takeOfflineTimeout))
	defer cancel()
	stop := &nodev1.CommandRequest{
		Command:  nodev1.Command_COMMAND_STOP,
		Run:      w.set.runNumber.Load(),
		Abandon:  true,
		Protocol: node.ProtocolVersion,
		Term:     p.term,
		Order:    commandOrder.Add(1),
	}
	err := poll(ctx, retryInterval, func() (bool, error) {
		_, err := p.client.Command(ctx, stop)
		return status.Code(err) != codes.Unavailable || isConnRefused(err), err
	})
	if err == nil { // A node that was told to end waits until its last report was read. That of a lost node is not.
		_, _ = p.client.Report(ctx, &nodev1.ReportRequest{Term: p.term, Done: true})
	}
	return err
}

// retireLogged retires a process once, which may have ended.
func (w *watch) retireLogged(p process) {
	if err := w.retire(p); err != nil {
		w.set.log.Info("a node that the run has lost could not be told to drop it", "node", p.name, "err", err)
	}
}

// retireReplaced retires a process in whose place another has the units of a member, and closes its connection. One
// that stands still is told when it goes on, unless the run is over by then.
func (w *watch) retireReplaced(r *Run, n *member, p process, conn *grpc.ClientConn) {
	defer func() { _ = conn.Close() }()
	for n.process() != p.name { // else it has the units again
		err := w.retire(p)
		if err == nil || isConnRefused(err) || status.Code(err) == codes.FailedPrecondition || r.isEnding() {
			return // it has heard it, or has nothing to drop
		}
		time.Sleep(rewatchInterval)
	}
}

// isTransient says whether a watch may have ended by a cut that heals: not if the connection was refused, since the
// process has ended then, or a certificate was.
func isTransient(err error) bool {
	if errors.Is(err, io.EOF) {
		return true
	}
	return status.Code(err) == codes.Unavailable && !isConnRefused(err) && certificateRefusal(err) == nil
}

// isNewProcess says whether a node that was cut off is now another process, which does not know the view.
func isNewProcess(was, is *nodev1.Report) bool {
	return is.GetView() == 0 && was.GetView() != 0 && is.GetStatus().GetState() == "Offline"
}

// newProcessError ends a watch at whose address another process answers: of the same node, or of the one named.
type newProcessError struct{ node string }

func (e *newProcessError) Error() string {
	if e.node == "" {
		return "a new process answers in its place"
	}
	return "the process of " + e.node + " answers at its address"
}

// maxLiveSteps bounds the timeline steps of a readout unit in a watched report: the page shows no more.
const maxLiveSteps = 48

// followReports calls each with every report until each fails or the stream ends, and returns the error: never nil.
// interval is the time between two reports.
func (m *member) followReports(ctx context.Context, interval time.Duration, each func(*nodev1.Report) error) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	stream, err := m.client.Watch(ctx, &nodev1.WatchRequest{IntervalMs: uint32(interval.Milliseconds()),
		Timeline: maxLiveSteps, Term: m.term})
	if err != nil {
		return err
	}
	for {
		rep, err := stream.Recv()
		if err == nil {
			err = each(rep)
		}
		if err != nil {
			return err
		}
	}
}
