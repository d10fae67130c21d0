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

// Run is one run of a crew. One goroutine conducts it; Stats and Progress may be called by any.
type Run struct {
	*Crew

	// immutable
	log *slog.Logger  // of the crew, with the number of this run
	cfg config.Config // likewise

	// set when it begins
	mu            sync.Mutex          // guards all but key: Stats is for everybody
	sched         tagnet.Scheduler    // nil until it is made
	own           *member             // this process as a host of the scheduler; nil where that lives on a node
	unhouse       func()              // ends that host; nil there, too
	door          *connlimit.Listener // of that host; nil there, too
	endScheduler  func()              // ends the scheduler on its host; nil before it is made
	startedAt     time.Time           // zero if it never began
	tagnetName    string              // of the node with the scheduler; empty: this process has it
	tagnetAddress string              // of that scheduler
	key           recording.Key       // tells this run from others of its number; zero before it begins
	told          tagnet.Stats        // what the scheduler told last

	// atomic
	ending atomic.Bool // it is to end

	// owned by the conducting goroutine
	endCause  string
	badInput  string
	broken    string
	draining  bool      // the scheduler was told, or is to be
	drainedAt time.Time // when it began to
	still     stopwatch.StallDetector
	gaveUp    bool      // the nodes dropped what they did
	untold    bool      // not everybody could be asked how it ended
	bookless  bool      // the scheduler was lost before its books were closed: what it told last is stale
	returned  []*member // nodes that were lost and are back, while the output is read
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

// NewRun makes the run of that number, which Begin begins: the crew has been configured.
func (c *Crew) NewRun(number uint32) *Run {
	r := &Run{
		Crew:     c,
		log:      c.log.With("run", number),
		cfg:      c.cfg,
		endCause: endInput,
	}
	r.cfg.RunNumber = number
	c.faults.run.Store(number)
	readout, builder := r.cfg.OnLossInRun()
	c.faults.tell(func(core *fault.Core) {
		core.Take(units(c.View(), r.cfg.DecisionNode), c.opts.TagnetNode, readout, builder)
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

// UseKey gives the run a key that was drawn before, if it is one. Call it before Begin, which draws one otherwise.
func (r *Run) UseKey(key []byte) {
	if len(key) == len(r.key) {
		r.key = recording.Key(key)
	}
}

// Begin makes the scheduler and starts the nodes. On error nothing runs, but nodes may be in Error: Crew.FaultOf finds
// the cause.
func (r *Run) Begin(ctx context.Context) error {
	r.faults.anew()
	if r.key == (recording.Key{}) {
		r.key = recording.NewKey()
	}
	name, address, err := r.schedule(ctx)
	if err != nil {
		return err
	}
	r.mu.Lock()
	r.tagnetName, r.tagnetAddress = name, address
	r.mu.Unlock()
	r.faults.begin(r.without)
	if err := r.together(ctx, r.startOf(&nodev1.CommandRequest{})); err != nil {
		return err
	}
	if err := r.left(); err != nil {
		return err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.startedAt = time.Now()
	return nil
}

// left is the fault that a node was gone before it was told of the run, which does not bear that: nothing would be
// built.
func (r *Run) left() error {
	for _, n := range r.nodes {
		if r.passed(n) && !r.away(n) {
			x := fault.Seen(n.name, fault.PartProcess, "its process has ended, or was started anew, since it was configured")
			x.Advice = "Begin again when it is there: a start configures by itself."
			return &fault.Error{Fault: x}
		}
	}
	return nil
}

// schedule makes the TagNet scheduler of the view, on its node or here, and says who has it and where.
func (r *Run) schedule(ctx context.Context) (name, address string, err error) {
	core, err := r.core()
	if err != nil {
		return "", "", err
	}
	n := r.own
	if r.opts.TagnetNode != "" {
		n, err = r.tagnetNode()
		name = r.opts.TagnetNode // else units ask for the control's certificate
	} else if n == nil {
		n, err = r.house()
	}
	if err == nil {
		err = r.begin(ctx, n, core)
	}
	if err != nil {
		return "", "", err
	}
	return name, n.view.GetGrpcAddress(), nil
}

// house serves a host for the scheduler in this process, and connects to it like to a node's.
func (r *Run) house() (*member, error) {
	lis, err := address.ListenTCP(net.JoinHostPort(r.opts.Host, strconv.Itoa(r.opts.TagnetPort)))
	if err != nil {
		return nil, fmt.Errorf("cannot bind the scheduler at %s: %w", r.opts.Host, err)
	}
	own, err := r.connect(&nodev1.Member{Name: Name, GrpcAddress: lis.Addr().String()})
	if err != nil {
		return nil, errors.Join(err, lis.Close())
	}
	host := tagnet.NewHost(tagnet.Access{Identify: node.Identify, Log: r.log})
	options := node.ServiceOptions(r.opts.Identity, r.opts.Log, r.opts.AtLeast)
	server := grpc.NewServer(append(tagnet.ServerOptions(), options...)...)
	host.Register(server)
	r.own, r.door = own, connlimit.Listen(lis, "scheduler", r.opts.Log)
	go func() { _ = server.Serve(r.door) }()
	r.unhouse = func() {
		host.Close()
		server.Stop()
		_ = own.conn.Close()
	}
	return own, nil
}

// peerError takes what the scheduler tells of a unit.
func (r *Run) peerError(e *tagnet.UnitError) {
	r.faults.see(fault.Sight{Kind: fault.Cut, Fault: fault.Fault{
		Component: e.Unit,
		Part:      strings.ReplaceAll(e.Role.String(), " ", "_"),
		What:      e.Error(),
		Evidence:  "seen by the scheduler",
	}})
}

// core is the scheduler's configuration.
func (r *Run) core() (c tagnet.Config, err error) {
	if c.Policy, err = tagnet.ParsePolicy(r.cfg.EmptyPlace); err != nil {
		return c, err
	}
	if c.Rules, err = r.cfg.Rules(); err != nil {
		return c, err
	}
	c.Slots, c.Packing, c.LookAhead = r.cfg.Slots, r.cfg.Packing, r.cfg.Debug.LookAhead
	if c.Live = r.cfg.Live(); c.Live {
		c.Events, c.CompleteOnly = r.cfg.Events, r.cfg.EventsWhole()
	}
	by := r.cfg.Traffic()
	c.Loose, c.TagRing, c.Bypass = !by.Phases, by.Tags, by.Bypass
	for _, n := range r.nodes {
		if n.view.GetReadout() {
			c.RUs = append(c.RUs, n.name)
		}
		if n.view.GetBuilder() {
			c.BUs = append(c.BUs, n.name)
		}
	}
	return c, nil
}

// Over ends the scheduler wherever it lives, when the run has its report.
func (r *Run) Over() {
	if r.endScheduler != nil {
		r.endScheduler()
	}
	r.Close()
}

// Close ends a scheduler that lives here, or the conversation with one that lives on a node: a run that goes on
// there may be adopted.
func (r *Run) Close() {
	if s := r.scheduler(); s != nil {
		s.Close()
	}
	if r.unhouse != nil {
		r.unhouse()
	}
}

// Configuration of the run: that of the crew, with its number.
func (r *Run) Configuration() config.Config { return r.cfg }

// Number of the run.
func (r *Run) Number() uint32 { return r.cfg.RunNumber }

// EndCause is why the run ends, as far as is known.
func (r *Run) EndCause() string { return r.endCause }

// EndFor notes why the run ends, for its report.
func (r *Run) EndFor(why string) { r.endCause = why }

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
	_ = r.askScheduler()
	return r.LastStats()
}

// askScheduler asks the scheduler, if there is one, how the run stands.
func (r *Run) askScheduler() error {
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
	if closed(st) || !closed(r.told) { // who asked before may be answered after
		r.told = st
	}
	return nil
}

// LastStats are what the scheduler told last: it is not asked, and so nobody waits for one that does not answer.
func (r *Run) LastStats() tagnet.Stats {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.told.Latency == nil {
		r.told.Latency = hdr.New(1, 2, 1)
	}
	return r.told
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
	return r.all(ctx, &nodev1.CommandRequest{Command: nodev1.Command_COMMAND_PAUSE})
}

// Resume undoes Pause.
func (r *Run) Resume(ctx context.Context) error {
	if err := r.all(ctx, &nodev1.CommandRequest{Command: nodev1.Command_COMMAND_RESUME}); err != nil {
		return err
	}
	return r.scheduler().Resume()
}

// Drain ends the run for a reason: no further MEP is issued. Only the first reason counts. On error, that of a
// scheduler which cannot be reached, it may be called again.
func (r *Run) Drain(why string) error {
	if !r.draining {
		r.endCause, r.draining, r.drainedAt = why, true, time.Now()
		r.ending.Store(true)
	}
	return r.scheduler().Drain(0)
}

// attachGrace is what the scheduler waits for units beyond the time that nodes have to come up: who is at fault for a
// node that does not start is known by then.
const attachGrace = 5 * time.Second

// LookForStall makes it a fault if the run is to end and nothing has moved for too long.
func (r *Run) LookForStall(now time.Time) {
	if !r.draining {
		return
	}
	reg := r.Stats().Registers
	if r.still.Observe(r.faults.awake(now), r.Moved()) >= stopPatience {
		f := stuck(reg, r.giving(reg))
		r.faults.tell(func(c *fault.Core) { c.Mute(&f, now) })
		r.faults.see(fault.Sight{Kind: fault.Own, Fault: f})
	}
}

// stuck names what a run that drains waits for. giving are readout units with live sources that have not ended.
func stuck(reg *tagnet.Registers, giving []string) fault.Fault {
	f := fault.Fault{Evidence: "seen by the scheduler"}
	if reg.GetInFlight() == 0 && reg.GetTags().GetNow() == 0 && len(giving) > 0 {
		f.Component, f.Part = strings.Join(giving, ", "), "input"
		f.What = fmt.Sprintf("the readout unit has not told for %v where its data end, while the run was to end",
			stopPatience)
		return f
	}
	if reg.GetTags().GetNow() > 0 { // a tag that has its window waits for no output
		f.Component = "the ring"
		f.What = fmt.Sprintf(
			"%d tags have not come round and %d MEPs have had no outcome for %v while the run was to end; a readout unit "+
				"holds or has lost a tag",
			reg.GetTags().GetNow(), reg.GetInFlight(), stopPatience)
		return f
	}
	f.Component, f.Part = strings.Join(holders(reg), ", "), node.PartBuilder
	f.What = fmt.Sprintf("%d MEPs have had no outcome for %v while the run was to end, and nothing else has moved; "+
		"an output that nobody reads or that is stuck holds them up",
		reg.GetInFlight(), stopPatience)
	return f
}
