package node

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"google.golang.org/grpc"

	"ringlet/barrier"
	"ringlet/builderunit"
	"ringlet/builderunit/tap"
	"ringlet/internal/address"
	"ringlet/internal/connlimit"
	"ringlet/node/certs"
	"ringlet/node/cluster"
	"ringlet/node/fsm"
	"ringlet/node/sdnotify"
	"ringlet/node/watchdog"
	nodev1 "ringlet/proto/ringlet/node/v1"
	"ringlet/tagnet"
	"ringlet/transport"
	"ringlet/transport/quic"
)

// Config of a node process.
type Config struct {
	Name         string   // of the first node, as in its certificate
	Nodes        int      // of the process, named as by package nodename; 0 means one
	Host         string   // address to bind and to announce
	DataHost     string   // the same for data, if they have a network of their own; "": Host
	Join         []string // gossip addresses of present members
	Identity     *certs.Identity
	GossipKey    []byte // of the gossip
	Roles        cluster.Roles
	Allowlist    *Allowlist // what configurations may use on this host; nil: everything
	Version      string
	GossipTiming cluster.Timing // zero: cluster.TimingFor
	Ports        Ports
	SpinTime     time.Duration // see quic.Config
	// IdleTimeout is a lower bound of how long a silent peer counts as alive; zero: as configured
	IdleTimeout       time.Duration
	MinBarrierTimeout time.Duration // lower bound of the barrier's time-out; zero: as configured
	// MinTimeout is a lower bound of the time-outs of commands, handshakes and answers; zero: none
	MinTimeout time.Duration
	Log        *slog.Logger       // nil: slog.Default
	Notifier   *sdnotify.Notifier // nil: no service manager

	// LeaveRequest is closed to make the node leave as soon as no run needs it, within LeaveGrace at most. Nil: the node
	// ends only with its context, at once. LeaveGrace 0 is no time at all.
	LeaveRequest <-chan struct{}
	LeaveGrace   time.Duration

	Watchdog *watchdog.Watcher // watches the loops of the node; nil: no watchdog

	MonitorListener net.Listener // for /livez and /readyz over plain HTTP; nil: none. Run closes it
	// NewMetricsHandler makes the handler of /metrics there from functions that read the reports of the nodes, by name.
	// Nil: none.
	NewMetricsHandler func(reports map[string]func() *nodev1.Report) http.Handler
}

// Ports of the first node of a process, if they must be known beforehand; those of the next are one higher, and so on.
// Zero means any.
type Ports struct{ Data, Service, Gossip int }

// process is a running node. It has a process for itself, or shares one with other nodes.
type process struct {
	// immutable after start
	cfg             Config // with the node's own name and ports
	group           *group // the nodes of the process
	log             *slog.Logger
	run             *atomic.Uint32 // number of the run from its start until the next; log lines carry it
	runner          *fsm.Runner
	network         *quic.Network
	schedulerHost   *tagnet.Host    // holds the scheduler, if the control starts it on this node
	commands        commandSequence // keeps the control's commands in order
	serviceListener *connlimit.Listener
	tap             *tap.Tap // of its builder unit, over all runs

	// atomic, or with a lock of its own
	controlCalls    controlPresence
	fileCalls       controlPresence // the same for calls about files
	access          access
	samplers        atomic.Int32 // calls of Sample
	leaving         leaving
	orphaned        orphanage
	lastOutput      atomic.Pointer[runOutput]       // nil before the first
	reportCollected atomic.Bool                     // the control has all that it wants of the last run's report
	members         atomic.Pointer[cluster.Cluster] // nil while the node is not in the cluster
	recovery        runRecovery                     // recovers the files of earlier runs
	limits          limitsCache                     // of the machine

	mu             sync.Mutex             // guards the fields below
	currentRequest *nodev1.CommandRequest // request of the present transition
	session        *session
	discardRun     bool           // the present stop abandons the run
	parkedCause    fsm.Cause      // the fault elsewhere that stopped this node; zero: none since it was configured
	lastReport     *nodev1.Report // figures of the last run, once it is over
	runBegan       time.Time      // start of the run
}

// newNode makes a node, with its socket for data.
func newNode(cfg Config, all *group) (*process, error) {
	n := &process{cfg: cfg, group: all, run: new(atomic.Uint32), tap: tap.New()}
	n.log = slog.New(runLog{cfg.Log.Handler(), n.run}).With("node", cfg.Name)
	n.access.fence, n.access.log = tagnet.NewFence(), n.log
	n.leaving.process, n.orphaned.process = n, n
	n.schedulerHost = tagnet.NewHost(tagnet.Access{Identify: Identify, Fence: n.access.fence, Log: n.log,
		AllowTrigger: cfg.Allowlist.checkTrigger})
	network, err := quic.Listen(quic.Config{
		Addr:      net.JoinHostPort(cmp.Or(cfg.DataHost, cfg.Host), strconv.Itoa(cfg.Ports.Data)),
		ServerTLS: cfg.Identity.Server(),
		ClientTLS: cfg.Identity.Client,
		PeerName:  linkPeerName,
		Spin:      cfg.SpinTime,
		Log:       n.log,

		IdleTimeout: cfg.IdleTimeout,
	})
	if err != nil {
		return nil, err
	}
	n.network = network
	n.runner = fsm.New(cfg.Name, fsm.Actions{
		fsm.Load:      noAction,
		fsm.Configure: n.configure,
		fsm.Start:     n.start,
		fsm.Pause:     n.pause,
		fsm.Resume:    n.resume,
		fsm.Stop:      n.stop,
		fsm.Reset:     n.reset,
		fsm.Unload:    noAction,
		fsm.Recover:   n.recover,
	}, fsm.Options{
		Abandon:   n.abandon,
		CloseWait: stopTimeout,
		Timeouts:  fsm.Timeouts{fsm.Stop: stopTimeout}.WithMinimum(cfg.MinTimeout),
	})
	n.watchLoops()
	return n, nil
}

// linkPeerName reads the name of a node from its verified certificate. Only nodes have links, and the transport
// compares the name with the view.
func linkPeerName(cs tls.ConnectionState) (string, error) {
	p, err := certs.PeerIdentity(cs)
	if err == nil && p.Role != certs.RoleNode {
		err = fmt.Errorf("%s is a %s, and links are between nodes: give its process the keys of a node", p.Name, p.Role)
	}
	return p.Name, err
}

// serve serves commands until ctx ends.
func (n *process) serve(ctx context.Context) error {
	lis, err := address.ListenService(net.JoinHostPort(n.cfg.Host, strconv.Itoa(n.cfg.Ports.Service)))
	if err != nil {
		return fmt.Errorf("cannot bind the node service at %s: %w", n.cfg.Host, err)
	}
	server := grpc.NewServer(append(tagnet.ServerOptions(), ServiceOptions(n.cfg.Identity, n.log, n.cfg.MinTimeout)...)...)
	nodev1.RegisterNodeServer(server, &service{node: n})
	n.schedulerHost.Register(server)
	defer n.schedulerHost.Close()
	failed := make(chan error, 1)
	n.serviceListener = connlimit.Listen(lis, serviceName, n.log)
	go func() { failed <- server.Serve(n.serviceListener) }()
	defer server.Stop()
	members, err := n.join(ctx, lis.Addr())
	if members == nil {
		return err
	}
	defer func() { _ = members.Close() }()
	n.members.Store(members)
	defer n.members.Store(nil)
	n.log.Info("in the cluster, waiting for the control", "grpc", lis.Addr(), "data", n.network.Addr(), "gossip",
		members.Addr())
	defer n.group.noteJoined(n)()
	guarded, cancel := context.WithCancel(ctx)
	var alone sync.WaitGroup
	alone.Go(func() { n.orphaned.run(guarded) })
	defer alone.Wait()
	defer cancel()
	select {
	case <-ctx.Done():
		return nil
	case <-n.cfg.LeaveRequest:
		n.leaving.await(ctx)
		return nil
	case err := <-failed:
		return fmt.Errorf("node service: %w", err)
	}
}

// join finds the cluster. It returns nil, nil if the node is told to leave or to end before it has.
func (n *process) join(ctx context.Context, service net.Addr) (*cluster.Cluster, error) {
	if len(n.cfg.Join) > 0 {
		n.log.Info("looking for the cluster", "join", n.cfg.Join)
		n.cfg.Notifier.SetStatus("looking for the cluster at " + strings.Join(n.cfg.Join, ", "))
	}
	ctx, cancel := untilLeave(ctx, n.cfg.LeaveRequest)
	defer cancel()
	members, err := cluster.Open(ctx, cluster.Config{
		Name:     n.cfg.Name,
		BindAddr: n.cfg.Host,
		BindPort: n.cfg.Ports.Gossip,
		Join:     n.cfg.Join,
		Key:      n.cfg.GossipKey,
		Timing:   n.cfg.GossipTiming,
		Logger:   n.cfg.Log,
		Meta: cluster.Meta{
			Roles:    n.cfg.Roles,
			GRPCAddr: service.String(),
			QUICAddr: n.network.Addr().String(),
			Version:  n.cfg.Version,
		},
	})
	if err != nil && ctx.Err() != nil {
		return nil, nil
	}
	return members, err
}

// close ends all activities of the node.
func (n *process) close() {
	defer func() { _ = n.network.Close() }()
	defer n.recovery.close()
	if s, _ := n.sessionAndRequest(); s != nil {
		_ = s.endpoint.Close() // so that neither this node nor a peer waits for the other
	}
	if err := n.runner.Close(); err != nil {
		n.log.Error("a transition did not end, so its memory is left to the end of the process", "err", err)
		return
	}
	if s := n.takeSession(); s != nil {
		s.abort()
	}
}

// takeSession removes the session from the node and returns it.
func (n *process) takeSession() *session {
	n.mu.Lock()
	defer n.mu.Unlock()
	s := n.session
	n.session = nil
	return s
}

func (n *process) sessionAndRequest() (*session, *nodev1.CommandRequest) {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.session, n.currentRequest
}

func noAction(context.Context) error { return nil }

// configure makes memory and links for a view.
func (n *process) configure(ctx context.Context) error {
	if s := n.takeSession(); s != nil {
		s.abort() // left by a configuration that failed
	}
	_, req := n.sessionAndRequest()
	if req.GetBack() {
		n.schedulerHost.Close() // the run has gone on with a successor of the one that was here
	} else {
		n.schedulerHost.CloseOthers(req.GetView().GetNumber())
	}
	s, err := newSession(n, req)
	if err != nil {
		return n.makeCause("configuration", err)
	}
	n.mu.Lock()
	n.session = s
	n.mu.Unlock()
	if err := s.checkDetector(); err != nil {
		return n.makeCause("configuration", err)
	}
	if err := s.checkOutputSpace(req); err != nil {
		return n.makeCause(SubsystemOutput, err)
	}
	if err := s.connect(ctx, req); err != nil {
		return n.makeCause("transport", err)
	}
	return nil
}

// start makes the units and attaches them to the scheduler.
func (n *process) start(ctx context.Context) error {
	s, req := n.sessionAndRequest()
	if s == nil {
		return n.makeCause("configuration", errLinksDown)
	}
	n.mu.Lock()
	n.lastReport, n.runBegan = nil, time.Now()
	n.run.Store(req.GetRun())
	n.mu.Unlock()
	n.orphaned.begin()
	if len(s.losses.ranks()) == 0 && !n.runner.Status().Degraded.IsZero() {
		_ = n.runner.Restore() // the degradation belonged to the last run
	}
	if err := s.start(ctx, req); err != nil {
		return n.makeCause("units", err)
	}
	return nil
}

// stop ends the units and completes the output; if the run is abandoned, it drops everything.
func (n *process) stop(ctx context.Context) error {
	s, _ := n.sessionAndRequest()
	if s == nil {
		return nil
	}
	n.mu.Lock()
	discard := n.discardRun
	n.mu.Unlock()
	if discard {
		n.giveUpRun()
		return nil
	}
	ctx, cancel := s.withStallTimeout(ctx)
	defer cancel()
	err := s.stop(ctx, false)
	n.keepReport(s)
	if err != nil {
		return n.makeCause("output", err)
	}
	return nil
}

// keepReport stores the figures of a run that is over.
func (n *process) keepReport(s *session) {
	r := s.report(finalReportSteps)
	r.Final, r.EndedAtUs = true, time.Now().UnixMicro()
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.lastReport == nil {
		n.lastReport = r
		n.reportCollected.Store(false)
	}
}

func (n *process) reset(context.Context) error {
	if s := n.takeSession(); s != nil {
		s.abort()
	}
	return nil
}

func (n *process) recover(ctx context.Context) error { return n.reset(ctx) }

// abandon drops everything after a fault. It may be called while a transition hangs.
func (n *process) abandon(_ fsm.State, why fsm.Cause) {
	n.log.Info("abandoning the run", "cause", why) // the control reports it
	n.giveUpRun()
}

// giveUpRun closes units and links, and drops the output.
func (n *process) giveUpRun() {
	if s := n.takeSession(); s != nil {
		s.giveUp()
		n.keepReport(s)
		s.abort()
	}
}

// reportFault reports that a subsystem of the node failed. It has an effect while the node runs, or is on its way
// there. A fault of another component is not this node's error: the node is parked. A link that breaks at rest becomes
// a degradation, so that the control makes the links again before the next run; if a peer closed the link on purpose,
// the peer reports why.
func (n *process) reportFault(subsystem string, err error) {
	why := n.makeCause(subsystem, err)
	switch st := n.runner.Status().State; st {
	case fsm.Starting, fsm.Running, fsm.Pausing, fsm.Paused, fsm.Resuming:
		if n.isGivingUp() {
			n.log.Debug("giving the run up, so only noted", "part", subsystem, "err", err)
			return
		}
		if why.Component != n.memberName() {
			n.parkRun(why)
			return
		}
		fallthrough
	case fsm.Configuring:
		if err := n.runner.Fail(why); err != nil {
			n.logTooLate("a fault", why, err)
		}
	case fsm.Stopping, fsm.Ready:
		if why.Subsystem == SubsystemTransport && why.Kind != fsm.CauseClosed && !n.isGivingUp() {
			_ = n.runner.Degrade(why) // fails only when the node ends
			return
		}
		fallthrough
	default:
		n.log.Debug("not running, so only noted", "part", subsystem, "err", err)
	}
}

// isGivingUp tells that this node is about to drop the run: peers that drop it earlier close their links, which would
// look like faults.
func (n *process) isGivingUp() bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.discardRun
}

// parkRun drops the run because of a fault elsewhere, and leaves the node Ready.
func (n *process) parkRun(why fsm.Cause) {
	n.mu.Lock()
	first := n.parkedCause.IsZero()
	if first {
		n.parkedCause, n.discardRun = why, true
	}
	n.mu.Unlock()
	if !first {
		return
	}
	n.log.Info("parked by a fault elsewhere", "cause", why) // the control reports it
	if err := n.runner.Submit(fsm.Stop); err != nil {
		n.logTooLate("the fault of another", why, err)
	}
}

// logTooLate logs an event that the state machine refused; at debug level if the node is ending and refuses everything.
func (n *process) logTooLate(what string, late, refused error) {
	level := slog.LevelWarn
	if errors.Is(refused, fsm.ErrClosed) {
		level = slog.LevelDebug
	}
	n.log.Log(context.Background(), level, what+" came too late to matter", "err", late, "why", refused)
}

// makeCause turns an error into the typed cause of a failed transition. If a peer is at fault, the cause names the peer
// as the component.
func (n *process) makeCause(subsystem string, err error) fsm.Cause {
	component, kind := n.memberName(), fsm.CauseFailed
	var down *transport.LinkError
	var late *barrier.TimeoutError
	var data *builderunit.DataError
	if errors.As(err, &data) {
		component, subsystem = n.readoutName(data.RU), badDataText
	} else if errors.As(err, &down) {
		component = down.Peer
		if quic.ClosedByPeer(err) {
			kind, err = fsm.CauseClosed, fmt.Errorf("%s has ended its links on purpose: %w", down.Peer, err)
		}
	} else if errors.As(err, &late) && len(late.Missing) == 1 {
		component = n.readoutName(late.Missing[0])
	} else if _, req := n.sessionAndRequest(); errors.Is(err, tagnet.ErrGone) && req.GetTagnetName() != "" {
		component = memberName(req.GetView(), req.GetTagnetName())
	}
	return fsm.Cause{
		Kind:      kind,
		Component: component,
		Subsystem: subsystemOf(subsystem, err),
		Trouble:   troubleOf(err),
		// one line, even for several errors
		What:     subsystem + ": " + strings.ReplaceAll(certs.Explain(err).Error(), "\n", "; "),
		Evidence: fmt.Sprintf("seen by %s at %s", n.cfg.Name, time.Now().Format(time.RFC3339Nano)),
	}
}

var errLinksDown = errors.New("the links of this node are down: reset and configure it again")

// stopTimeout is how long the units may go without any progress while they end and the output is completed, see
// session.progressCount. The end itself may take any time: an output may be large, or its disk slow. Only while a disk
// confirms written data is there no progress.
const stopTimeout = 60 * time.Second

// ControlName is the control's name in its certificate and in the cluster. If a request names no scheduler's node, the
// control runs TagNet.
const ControlName = "control"
