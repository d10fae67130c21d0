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
	Name         string
	Host         string   // address to bind and to tell the others
	DataHost     string   // the same for data, where they have a network of their own; "": Host
	Join         []string // gossip addresses of members already there
	Identity     *certs.Identity
	GossipKey    []byte // of the gossip
	Roles        cluster.Roles
	Allowlist    *Allowlist // what configurations may use of this host; nil: everything
	Version      string
	GossipTiming cluster.Timing // zero: cluster.TimingFor
	Ports        Ports
	SpinTime     time.Duration // see quic.Config
	// IdleTimeout of quic.Config: how long a silent peer is believed to live; zero: 5 s
	IdleTimeout       time.Duration
	MinBarrierTimeout time.Duration // a barrier waits so long at least; zero: as configured
	// commands, handshakes and answers may take so long at least; zero: as by themselves
	MinTimeout time.Duration
	Log        *slog.Logger       // nil: slog.Default
	Notifier   *sdnotify.Notifier // nil: no service manager wants to hear how the node does

	// LeaveRequest tells, when it is closed, that the node is to end as soon as no run needs it, at most Grace later. Nil:
	// nobody will, and the node ends with its context, at once. Grace 0 is no time at all.
	LeaveRequest <-chan struct{}
	LeaveGrace   time.Duration

	Watchdog *watchdog.Watcher // looks after the loops of the node; nil: nobody does

	MonitorListener net.Listener // for /livez and /readyz over plain HTTP; nil: nobody monitors. Run closes it
	// NewMetricsHandler makes what answers /metrics there of what reads a report. Nil: there are none.
	NewMetricsHandler func(report func() *nodev1.Report) http.Handler
}

// Ports of a node, for where they must be known beforehand. Zero means any.
type Ports struct{ Data, Service, Gossip int }

// process is a running node process.
type process struct {
	// immutable after start
	cfg             Config
	log             *slog.Logger
	run             *atomic.Uint32 // number of the run from its start on, until the next; log lines carry it
	runner          *fsm.Runner
	network         *quic.Network
	schedulerHost   *tagnet.Host    // of the scheduler, where the control gives it to this node
	commands        commandSequence // in which it gave its commands
	serviceListener *connlimit.Listener
	tap             *tap.Tap // of its builder unit, run after run

	// atomic, or with a lock of its own
	controlCalls    controlPresence
	fileCalls       controlPresence // of the control, in calls about files
	access          access
	samplers        atomic.Int32 // calls of Sample
	leaving         leaving
	orphaned        orphanage
	lastOutput      atomic.Pointer[runOutput]       // nil before there was one
	reportCollected atomic.Bool                     // the control has all that it wants to know of the last run
	members         atomic.Pointer[cluster.Cluster] // nil while it is not in the cluster
	recovery        runRecovery                     // recovery of what earlier runs left
	limits          limitsCache                     // of the machine

	mu             sync.Mutex             // guards what follows
	currentRequest *nodev1.CommandRequest // of the transition under way
	session        *session
	discardRun     bool           // the stop under way abandons the run
	parkedCause    fsm.Cause      // the fault elsewhere that this node had to stop for; zero: none since it was configured
	lastReport     *nodev1.Report // figures of the last run, once it is over
	runBegan       time.Time      // of the run
}

// Run runs a node until ctx ends or the node cannot go on.
func Run(ctx context.Context, cfg Config) error {
	if cfg.Log == nil {
		cfg.Log = slog.Default()
	}
	n := &process{cfg: cfg, run: new(atomic.Uint32), tap: tap.New()}
	n.log = slog.New(runLog{cfg.Log.Handler(), n.run}).With("node", cfg.Name)
	n.access.fence, n.access.log = tagnet.NewFence(), n.log
	n.leaving.process, n.orphaned.process = n, n
	n.schedulerHost = tagnet.NewHost(tagnet.Access{Identify: Identify, Fence: n.access.fence, Log: n.log})
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
		return err
	}
	defer func() { _ = network.Close() }()
	n.network = network
	n.runner = fsm.New(cfg.Name, fsm.Actions{
		fsm.Load:      noAction,
		fsm.Configure: n.configure,
		fsm.Start:     n.start,
		fsm.Pause:     noAction,
		fsm.Resume:    noAction,
		fsm.Stop:      n.stop,
		fsm.Reset:     n.reset,
		fsm.Unload:    noAction,
		fsm.Recover:   n.recover,
	}, fsm.Options{
		Abandon:   n.abandon,
		CloseWait: stopTimeout,
		Timeouts:  fsm.Timeouts{fsm.Stop: stopTimeout}.WithMinimum(cfg.MinTimeout),
	})
	defer n.close()
	n.watchLoops()
	return n.serve(ctx)
}

// linkPeerName reads the name of a node from its verified certificate. Links are between nodes, and the transport holds
// the name against the view.
func linkPeerName(cs tls.ConnectionState) (string, error) {
	p, err := certs.PeerIdentity(cs)
	if err == nil && p.Role != certs.RoleNode {
		err = fmt.Errorf("%s is a %s, and links are between nodes: give its process the keys of a node", p.Name, p.Role)
	}
	return p.Name, err
}

// serve answers commands until ctx ends.
func (n *process) serve(ctx context.Context) error {
	lis, err := address.ListenTCP(net.JoinHostPort(n.cfg.Host, strconv.Itoa(n.cfg.Ports.Service)))
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
	defer n.serveMonitor()()
	members, err := n.join(ctx, lis.Addr())
	if members == nil {
		return err
	}
	defer func() { _ = members.Close() }()
	n.members.Store(members)
	defer n.members.Store(nil)
	n.log.Info("in the cluster, waiting for the control", "grpc", lis.Addr(), "data", n.network.Addr(), "gossip",
		members.Addr())
	defer n.notifyManager(ctx, members)()
	guarded, cancel := context.WithCancel(ctx)
	var alone sync.WaitGroup
	alone.Go(func() { n.orphaned.run(guarded) })
	alone.Go(func() { n.cfg.Identity.Watch(guarded, n.log) })
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

// join finds the cluster. It returns nothing at all where the node is told to end while it is still looking.
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

// close ends whatever the node is doing.
func (n *process) close() {
	defer n.recovery.close()
	if s, _ := n.sessionAndRequest(); s != nil {
		_ = s.endpoint.Close() // nobody is to wait for a peer, or a peer for this node
	}
	if err := n.runner.Close(); err != nil {
		n.log.Error("a transition did not end, so its memory is left to the end of the process", "err", err)
		return
	}
	if s := n.takeSession(); s != nil {
		s.abort()
	}
}

// takeSession takes the session away from the node.
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
		s.abort() // of a configuration that failed
	}
	_, req := n.sessionAndRequest()
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
		_ = n.runner.Restore() // what hurt the run before was its own
	}
	if err := s.start(ctx, req); err != nil {
		return n.makeCause("units", err)
	}
	return nil
}

// stop ends the units and completes the output; where the run has failed it gives everything up.
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

// keepReport remembers the figures of a run that is over.
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

// abandon puts everything to rest after a fault. It may be called while a transition hangs.
func (n *process) abandon(_ fsm.State, why fsm.Cause) {
	n.log.Info("abandoning the run", "cause", why) // the control tells it
	n.giveUpRun()
}

// giveUpRun ends units and links, and drops the output.
func (n *process) giveUpRun() {
	if s := n.takeSession(); s != nil {
		s.giveUp()
		n.keepReport(s)
		s.abort()
	}
}

// reportFault reports that a subsystem of the node broke. It matters while the node runs or is on its way there. The
// fault of another is not this node's error: it is parked. A link that breaks at rest is told as a degradation, so that
// the control has the links made anew before the next run; one that a peer has closed on purpose is told by that peer.
func (n *process) reportFault(subsystem string, err error) {
	why := n.makeCause(subsystem, err)
	switch st := n.runner.Status().State; st {
	case fsm.Starting, fsm.Running, fsm.Pausing, fsm.Paused, fsm.Resuming:
		if n.isGivingUp() {
			n.log.Debug("giving the run up, so only noted", "part", subsystem, "err", err)
			return
		}
		if why.Component != n.cfg.Name {
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

// isGivingUp says that the run is about to be dropped here: peers that are told so before this node look as if they
// broke.
func (n *process) isGivingUp() bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.discardRun
}

// parkRun gives the run up for a fault elsewhere, and leaves the node Ready.
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
	n.log.Info("parked by a fault elsewhere", "cause", why) // the control tells it
	if err := n.runner.Submit(fsm.Stop); err != nil {
		n.logTooLate("the fault of another", why, err)
	}
}

// logTooLate tells of something that the state machine refused. A node that ends refuses everything: that is no news.
func (n *process) logTooLate(what string, late, refused error) {
	level := slog.LevelWarn
	if errors.Is(refused, fsm.ErrClosed) {
		level = slog.LevelDebug
	}
	n.log.Log(context.Background(), level, what+" came too late to matter", "err", late, "why", refused)
}

// makeCause makes an error the typed cause of a transition's failure. Where a peer is at fault, it is named as the
// component.
func (n *process) makeCause(subsystem string, err error) fsm.Cause {
	component, kind := n.cfg.Name, fsm.CauseFailed
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
		component = req.GetTagnetName()
	}
	return fsm.Cause{
		Kind:      kind,
		Component: component,
		Subsystem: subsystemOf(subsystem, err),
		Trouble:   troubleOf(err),
		// a sentence, of several perhaps
		What:     subsystem + ": " + strings.ReplaceAll(certs.Explain(err).Error(), "\n", "; "),
		Evidence: fmt.Sprintf("seen by %s at %s", n.cfg.Name, time.Now().Format(time.RFC3339Nano)),
	}
}

// readoutName is the name of the node that holds a readout unit in the present view; this node's where there is none.
func (n *process) readoutName(ru int) string {
	_, req := n.sessionAndRequest()
	for _, m := range req.GetView().GetMembers() {
		if m.GetReadout() && int(m.GetRuIndex()) == ru {
			return m.GetName()
		}
	}
	return n.cfg.Name
}

var errLinksDown = errors.New("the links of this node are down: reset and configure it again")

// stopTimeout is how long the units may go without any progress while they end and the output becomes whole, see
// session.progressCount. The end itself takes as long as it takes: an output may be large, or its disk slow. Only the
// wait for a disk to confirm what was written moves nothing.
const stopTimeout = 60 * time.Second

// ControlName is the name, in its certificate and in the cluster, of the control. Where nobody else is named it runs
// TagNet.
const ControlName = "control"
