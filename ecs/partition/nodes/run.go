package nodes

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	hdr "github.com/HdrHistogram/hdrhistogram-go"

	"google.golang.org/grpc"

	"ringlet/builderunit/recording"
	"ringlet/ecs/partition/fault"
	"ringlet/internal/address"
	"ringlet/internal/connlimit"
	"ringlet/internal/stopwatch"
	"ringlet/node"
	"ringlet/node/config"
	nodev1 "ringlet/proto/ringlet/node/v1"
	"ringlet/tagnet"
)

// Run is one run of a Crew. One goroutine conducts it; Stats and Progress may be called by any.
type Run struct {
	*Crew

	// immutable
	log *slog.Logger  // of the Crew, with the number of this run
	cfg config.Config // likewise

	// set when it begins
	mu            sync.Mutex          // guards all but key: Stats is for everybody
	sched         tagnet.Scheduler    // nil until it is made
	localHost     *member             // this process as a host of the scheduler; nil where that lives on a node
	stopHost      func()              // ends that host; nil there, too
	listener      *connlimit.Listener // of that host; nil there, too
	endScheduler  func()              // ends the scheduler on its host; nil before it is made
	startedAt     time.Time           // zero if it never began
	tagnetName    string              // of the node with the scheduler; empty: this process has it
	tagnetAddress string              // of that scheduler
	key           recording.Key       // tells this run from others of its number; zero before it begins
	lastStats     tagnet.Stats        // what the scheduler told last

	// atomic
	isEnding atomic.Bool // it is to end

	// owned by the conducting goroutine
	endCause        string
	badInput        string
	brokenSource    string
	draining        bool      // the scheduler was told, or is to be
	drainedAt       time.Time // when it began to
	stallDetector   stopwatch.StallDetector
	gaveUp          bool      // the nodes dropped what they did
	endUnknown      bool      // not everybody could be asked how it ended
	schedulerLost   bool      // the scheduler was lost before its accounts were closed: what it told last is stale
	returnedMembers []*member // nodes that were lost and are back, while the output is read
}

// Causes of a run's end, as the report gives them.
const (
	EndDuration    = "duration"
	EndEvents      = "events"
	endInput       = "end_of_input"
	EndInterrupted = "interrupted"
	EndStopped     = "stopped"
	endBadInput    = "bad_input"
	EndFault       = "fault"
	EndLeaving     = "node_leaving"
	EndControlLost = "control_lost"
)

// NewRun makes the run of that number, which Begin begins: the Crew has been configured.
func (c *Crew) NewRun(number uint32) *Run {
	r := &Run{
		Crew:     c,
		log:      c.log.With("run", number),
		cfg:      c.cfg,
		endCause: endInput,
	}
	r.cfg.RunNumber = number
	c.faults.runNumber.Store(number)
	readout, builder := r.cfg.LossPoliciesInRun()
	c.faults.updateCore(func(core *fault.Core) {
		core.SetView(viewUnits(c.View(), r.cfg.DecisionNode), c.opts.TagnetNode, readout, builder)
	})
	if r.cfg.Events > 0 {
		r.endCause = EndEvents
	}
	return r
}

// NewKey draws the key of a run, by which its files are known.
func NewKey() []byte {
	k := recording.NewKey()
	return k[:]
}

// SetKey gives the run a key that was drawn before, if it is one. Call it before Begin, which draws one otherwise.
func (r *Run) SetKey(key []byte) {
	if len(key) == len(r.key) {
		r.key = recording.Key(key)
	}
}

// Begin makes the scheduler and starts the nodes. On error nothing runs, but nodes may be in Error: Crew.FaultOf finds
// the cause.
func (r *Run) Begin(ctx context.Context) error {
	r.faults.clearIfIgnoring()
	if r.key == (recording.Key{}) {
		r.key = recording.NewKey()
	}
	name, address, err := r.startScheduler(ctx)
	if err != nil {
		return err
	}
	r.mu.Lock()
	r.tagnetName, r.tagnetAddress = name, address
	r.mu.Unlock()
	r.faults.tolerateLosses(r.handleLoss)
	if err := r.commandTogether(ctx, r.startCommand(&nodev1.CommandRequest{})); err != nil {
		return err
	}
	if err := r.goneBeforeStart(); err != nil {
		return err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.startedAt = time.Now()
	return nil
}

// goneBeforeStart is the fault that a node was gone before it was told of the run, which does not tolerate that:
// nothing would be built.
func (r *Run) goneBeforeStart() error {
	for _, n := range r.nodes {
		if r.isUnavailable(n) && !r.hasLeftRun(n) {
			x := fault.SeenByControl(n.name, fault.SubsystemProcess,
				"its process has ended, or was started anew, since it was configured")
			x.Advice = "Begin again when it is there: a start configures by itself."
			return &fault.Error{Fault: x}
		}
	}
	return nil
}

// startScheduler makes the TagNet scheduler of the view, on its node or here, and says who has it and where.
func (r *Run) startScheduler(ctx context.Context) (name, address string, err error) {
	core, err := r.schedulerConfig()
	if err != nil {
		return "", "", err
	}
	n := r.localHost
	if r.opts.TagnetNode != "" {
		n, err = r.tagnetNode()
		name = r.opts.TagnetNode // else units ask for the control's certificate
	} else if n == nil {
		n, err = r.hostScheduler()
	}
	if err == nil {
		err = r.createScheduler(ctx, n, core)
	}
	if err != nil {
		return "", "", err
	}
	return name, n.firstEntry.GetGrpcAddress(), nil
}

// hostScheduler serves a host for the scheduler in this process, and connects to it like to a node's.
func (r *Run) hostScheduler() (*member, error) {
	lis, err := address.ListenTCP(net.JoinHostPort(r.opts.Host, strconv.Itoa(r.opts.TagnetPort)))
	if err != nil {
		return nil, fmt.Errorf("cannot bind the scheduler at %s: %w", r.opts.Host, err)
	}
	localHost, err := r.newMember(&nodev1.Member{Name: ControlName, GrpcAddress: lis.Addr().String()})
	if err != nil {
		return nil, errors.Join(err, lis.Close())
	}
	host := tagnet.NewHost(tagnet.Access{Identify: node.Identify, Log: r.log})
	options := node.ServiceOptions(r.opts.Identity, r.opts.Log, r.opts.MinTimeout)
	server := grpc.NewServer(append(tagnet.ServerOptions(), options...)...)
	host.Register(server)
	r.localHost, r.listener = localHost, connlimit.Listen(lis, "scheduler", r.opts.Log)
	go func() { _ = server.Serve(r.listener) }()
	r.stopHost = func() {
		host.Close()
		server.Stop()
		_ = localHost.conn.Close()
	}
	return localHost, nil
}

// observePeerError takes what the scheduler tells of a unit.
func (r *Run) observePeerError(e *tagnet.UnitError) {
	r.faults.observe(fault.Observation{Kind: fault.Disconnected, Fault: fault.Fault{
		Component: e.Unit,
		Subsystem: strings.ReplaceAll(e.Role.String(), " ", "_"),
		What:      e.Error(),
		Evidence:  "seen by the scheduler",
	}})
}

// schedulerConfig is the scheduler's configuration.
func (r *Run) schedulerConfig() (c tagnet.Config, err error) {
	if c.NoSlotPolicy, err = tagnet.ParsePolicy(r.cfg.EmptyPlace); err != nil {
		return c, err
	}
	if c.Rules, err = r.cfg.Rules(); err != nil {
		return c, err
	}
	c.Slots, c.Packing, c.LookAhead = r.cfg.Slots, r.cfg.Packing, r.cfg.Debug.LookAhead
	if c.Live = r.cfg.HasLiveSources(); c.Live {
		c.MaxEvents, c.CompleteEventsOnly = r.cfg.Events, r.cfg.EventsComplete()
	}
	by := r.cfg.DisciplineKind()
	c.Loose, c.TagRing, c.BypassBusyRUs = !by.Phases, by.Tags, by.Bypass
	for _, n := range r.nodes {
		if n.firstEntry.GetReadout() {
			c.RUs = append(c.RUs, n.name)
		}
		if n.firstEntry.GetBuilder() {
			c.BUs = append(c.BUs, n.name)
		}
	}
	return c, nil
}

// Shutdown ends the scheduler wherever it lives, when the run has its report.
func (r *Run) Shutdown() {
	if r.endScheduler != nil {
		r.endScheduler()
	}
	r.Close()
}

// Close ends a scheduler that lives here, or the session with one that lives on a node: a run that goes on
// there may be adopted.
func (r *Run) Close() {
	if s := r.scheduler(); s != nil {
		s.Close()
	}
	if r.stopHost != nil {
		r.stopHost()
	}
}

// Configuration of the run: that of the Crew, with its number.
func (r *Run) Configuration() config.Config { return r.cfg }

// Number of the run.
func (r *Run) Number() uint32 { return r.cfg.RunNumber }

// EndCause is why the run ends, as far as is known.
func (r *Run) EndCause() string { return r.endCause }

// SetEndCause notes why the run ends, for its report.
func (r *Run) SetEndCause(why string) { r.endCause = why }

// StartedAt is when every node was Running; zero if they never were.
func (r *Run) StartedAt() time.Time {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.startedAt
}

// Drained is closed when every issued MEP has its outcome and no other will be issued: the run can be finished.
func (r *Run) Drained() <-chan struct{} { return r.scheduler().Drained() }

// Stats are the scheduler's, or what it told last where it cannot be asked now.
func (r *Run) Stats() tagnet.Stats {
	_ = r.refreshStats()
	return r.LastStats()
}

// refreshStats asks the scheduler, if there is one, how the run stands.
func (r *Run) refreshStats() error {
	s := r.scheduler()
	if s == nil {
		return nil
	}
	st, err := s.Stats()
	if err != nil {
		return err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if accountsFinal(st) || !accountsFinal(r.lastStats) { // who asked before may be answered after
		r.lastStats = st
	}
	return nil
}

// LastStats are what the scheduler told last: it is not asked, and so nobody waits for one that does not answer.
func (r *Run) LastStats() tagnet.Stats {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.lastStats.Latency == nil {
		r.lastStats.Latency = hdr.New(1, 2, 1)
	}
	return r.lastStats
}

func (r *Run) scheduler() tagnet.Scheduler {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.sched
}

// Pause gives no new tokens and has every node rest.
func (r *Run) Pause(ctx context.Context) error {
	if err := r.scheduler().Pause(); err != nil {
		return err
	}
	return r.commandAll(ctx, &nodev1.CommandRequest{Command: nodev1.Command_COMMAND_PAUSE})
}

// Resume undoes Pause.
func (r *Run) Resume(ctx context.Context) error {
	if err := r.commandAll(ctx, &nodev1.CommandRequest{Command: nodev1.Command_COMMAND_RESUME}); err != nil {
		return err
	}
	return r.scheduler().Resume()
}

// Drain ends the run for a reason: no further MEP is issued. Only the first reason counts. On error, that of a
// scheduler which cannot be reached, it may be called again.
func (r *Run) Drain(why string) error {
	if !r.draining {
		r.endCause, r.draining, r.drainedAt = why, true, time.Now()
		r.isEnding.Store(true)
	}
	return r.scheduler().Drain(0)
}

// attachGrace is what the scheduler waits for units beyond the time that nodes have to come up: who is at fault for a
// node that does not start is known by then.
const attachGrace = 5 * time.Second

// CheckStall makes it a fault if the run is to end and nothing has moved for too long.
func (r *Run) CheckStall(now time.Time) {
	if !r.draining {
		return
	}
	reg := r.Stats().Registers
	if r.stallDetector.Observe(r.faults.awakeTime(now), r.ProgressCount()) >= drainStallTimeout {
		f := stallCause(reg, r.unendedReadouts(reg))
		r.faults.updateCore(func(c *fault.Core) { c.NameUnresponsive(&f, now) })
		r.faults.observe(fault.Observation{Kind: fault.SelfReported, Fault: f})
	}
}

// stallCause names what a run that drains waits for. unended are readout units with live sources that have not ended.
func stallCause(reg *tagnet.Registers, unended []string) fault.Fault {
	f := fault.Fault{Evidence: "seen by the scheduler"}
	if reg.GetInFlight() == 0 && reg.GetTags().GetNow() == 0 && len(unended) > 0 {
		f.Component, f.Subsystem = strings.Join(unended, ", "), "input"
		f.What = fmt.Sprintf("the readout unit has not told for %v where its data end, while the run was to end",
			drainStallTimeout)
		return f
	}
	if reg.GetTags().GetNow() > 0 { // a tag that has its window waits for no output
		f.Component = "the ring"
		f.What = fmt.Sprintf(
			"%d tags have not come round and %d MEPs have had no outcome for %v while the run was to end; a readout unit "+
				"holds or has lost a tag",
			reg.GetTags().GetNow(), reg.GetInFlight(), drainStallTimeout)
		return f
	}
	f.Component, f.Subsystem = strings.Join(busyBuilders(reg), ", "), node.SubsystemBuilder
	f.What = fmt.Sprintf("%d MEPs have had no outcome for %v while the run was to end, and nothing else has moved; "+
		"an output that nobody reads or that is stuck holds them up",
		reg.GetInFlight(), drainStallTimeout)
	return f
}
