package apitest

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	"ringlet/ecs/api"
	"ringlet/ecs/journal"
	"ringlet/node/fsm"
	ecsv1 "ringlet/proto/ringlet/ecs/v1"
)

// tickTime is the made-up time of one tick.
const tickTime = 100 * time.Millisecond

// Options of a Fake. The zero value has four nodes, no time for transitions and no runs on record.
type Options struct {
	Nodes        int           // 0: 4
	Dwell        time.Duration // how long a transition takes
	WithPastRuns bool          // begin with runs on record, one of each kind
	Begin        time.Time     // time of tick 0; zero: 2026-11-21 12:00 UTC
}

// Fake is a made-up partition. It is an api.Backend, and api.Records and api.Journal too.
type Fake struct {
	memory
	*journal.Journal
	opt        Options
	closeCtx   context.Context
	close      context.CancelFunc
	goroutines sync.WaitGroup

	mu           sync.Mutex // guards the fields below
	state        fsm.State
	transition   uint64 // number of the current or last transition
	moved        chan struct{}
	changes      uint64
	since        time.Time
	tick         uint64
	runStartTick uint64 // tick at which the run began to build
	builtTicks   uint64 // ticks in which the run has built
	config       string
	run          *ecsv1.Run // current or last; nil before the first
	excluded     map[string]bool
	fault        *ecsv1.Cause
}

// New makes a Fake in the state Offline.
func New(opt Options) *Fake {
	if opt.Nodes == 0 {
		opt.Nodes = 4
	}
	if opt.Begin.IsZero() {
		opt.Begin = time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)
	}
	f := &Fake{
		Journal:  journal.New(1000, 0),
		opt:      opt,
		since:    opt.Begin,
		moved:    make(chan struct{}),
		excluded: map[string]bool{},
	}
	f.closeCtx, f.close = context.WithCancel(context.Background())
	if opt.WithPastRuns {
		f.runs = pastRuns(opt.Begin)
		f.run = f.runs[len(f.runs)-1]
	}
	return f
}

// Close ends the transitions under way.
func (f *Fake) Close() {
	f.close()
	f.goroutines.Wait()
}

// Live ticks by the clock until ctx ends.
func (f *Fake) Live(ctx context.Context) {
	t := time.NewTicker(tickTime)
	defer t.Stop()
	for {
		select {
		case <-t.C:
			f.Tick()
		case <-ctx.Done():
			return
		}
	}
}

// Tick advances the made-up time by tickTime.
func (f *Fake) Tick() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.tick++
	if f.state == fsm.Running {
		f.builtTicks++
	}
	if f.tick%50 == 0 {
		f.publish(&ecsv1.Event{
			Kind:      "log",
			Component: "control",
			Text: fmt.Sprintf("tick %d of a partition that is none",
				f.tick),
			Severity: ecsv1.Severity_SEVERITY_INFO,
		})
	}
}

// now is the made-up time. The caller holds mu.
func (f *Fake) now() time.Time { return f.opt.Begin.Add(time.Duration(f.tick) * tickTime) }

func name(i int) string { return fmt.Sprintf("n%d", i) }

// Names of the nodes.
func (f *Fake) Names() []string {
	out := make([]string, f.opt.Nodes)
	for i := range out {
		out[i] = name(i)
	}
	return out
}

// FSM describes the state machine: the table of node/fsm, with exclude and include.
func (f *Fake) FSM() *ecsv1.FSM {
	out := &ecsv1.FSM{}
	for _, s := range fsm.States() {
		out.States = append(out.States, s.String())
	}
	node := []*ecsv1.Argument{{Name: "node", Type: "node", Help: "which node", Required: true}}
	for _, t := range fsm.Transitions() {
		d := &ecsv1.CommandDescription{
			Name:        t.Command.String(),
			Help:        commandHelp[t.Command],
			Via:         t.Via.String(),
			To:          t.To.String(),
			Timeout:     durationpb.New(t.Timeout),
			Forced:      t.Forced,
			Destructive: t.Command == fsm.Stop || t.Command == fsm.Reset || t.Command == fsm.Unload,
		}
		for _, s := range fsm.States() {
			if fsm.EffectOf(s, t.Command) != fsm.CommandRefused {
				d.AllowedIn = append(d.AllowedIn, s.String())
			}
		}
		switch t.Command {
		case fsm.Load:
			d.Arguments = []*ecsv1.Argument{
				{Name: "configuration", Type: "yaml",
					Help: "the configuration; without it, the one that the control was started with"},
				{Name: "settings", Type: "settings", Help: "changes to it, name=value, one a line"},
			}
		case fsm.Start:
			d.Arguments = []*ecsv1.Argument{
				{Name: "duration", Type: "duration", Help: "end of the run by itself", DefaultValue: "0s"},
				{Name: "remark", Type: "string", Help: "a remark for the record"},
				{Name: "scan", Type: "string", Help: "name of the scan this run belongs to"},
			}
		}
		out.Commands = append(out.Commands, d)
	}
	running := []string{fsm.NotReady.String(), fsm.Ready.String(), fsm.Running.String(), fsm.Paused.String()}
	return &ecsv1.FSM{States: out.States, Commands: append(out.Commands,
		&ecsv1.CommandDescription{
			Name:        "exclude",
			Help:        "Take a node out: its builder unit while running, all of it otherwise.",
			Arguments:   node,
			Timeout:     durationpb.New(5 * time.Second),
			AllowedIn:   running,
			Destructive: true,
		},
		&ecsv1.CommandDescription{
			Name:      "include",
			Help:      "Take an excluded node in again.",
			Arguments: node,
			Timeout:   durationpb.New(5 * time.Second),
			AllowedIn: running,
		},
	)}
}

var commandHelp = map[fsm.Command]string{
	fsm.Load: "Take a configuration and find the nodes.", fsm.Configure: "Make the nodes ready for a run.",
	fsm.Start: "Begin a run.",
	fsm.Pause: "Hold the run up.", fsm.Resume: "Go on with the run.", fsm.Stop: "End the run and close its accounts.",
	fsm.Reset: "Give up what configure made.", fsm.Unload: "Let the nodes go.", fsm.Recover: "Leave Error and begin anew.",
}

func (f *Fake) allowed() []string {
	var out []string
	for _, d := range f.FSM().GetCommands() {
		if slices.Contains(d.GetAllowedIn(), f.state.String()) {
			out = append(out, d.GetName())
		}
	}
	return out
}

// Plan lists which component a command would ask to do what.
func (f *Fake) Plan(_ context.Context, req *ecsv1.CommandRequest) *ecsv1.PlanResponse {
	f.mu.Lock()
	defer f.mu.Unlock()
	plan := &ecsv1.PlanResponse{Possible: true}
	if err := f.refusalOf(req); err != nil {
		plan.Possible, plan.Refusals = false, []string{err.Error()}
	}
	if node := req.GetArguments()["node"]; node != "" {
		plan.Steps = append(plan.Steps, &ecsv1.PlanStep{Component: node, What: req.GetCommand() + " it"})
		return plan
	}
	for _, n := range append([]string{"tagnet"}, f.Names()...) {
		plan.Steps = append(plan.Steps, &ecsv1.PlanStep{Component: n, What: req.GetCommand()})
	}
	return plan
}

// refusalOf says why a command would be refused. The caller holds mu.
func (f *Fake) refusalOf(req *ecsv1.CommandRequest) error {
	if allowed := f.allowed(); !slices.Contains(allowed, req.GetCommand()) {
		return &api.PreconditionError{State: f.state.String(), Command: req.GetCommand(), Allowed: allowed}
	}
	if node := req.GetArguments()["node"]; node != "" && !slices.Contains(f.Names(), node) {
		return &api.ArgumentError{Name: "arguments.node", Why: fmt.Sprintf("%s is not in the partition, those are %s", node,
			strings.Join(f.Names(), ", "))}
	}
	return nil
}

// Command executes a command, and waits for its transition unless the request says not to.
func (f *Fake) Command(ctx context.Context, user string, req *ecsv1.CommandRequest) (*ecsv1.CommandResponse, error) {
	f.mu.Lock()
	if err := f.refusalOf(req); err != nil {
		f.mu.Unlock()
		return nil, err
	}
	cmd, err := fsm.ParseCommand(req.GetCommand())
	if err != nil {
		defer f.mu.Unlock()
		return f.exclude(user, req), nil
	}
	if req.GetArguments()["configuration"] == "broken" {
		defer f.mu.Unlock()
		return nil, &api.ConfigurationError{Problems: sampleProblems}
	}
	if fsm.EffectOf(f.state, cmd) == fsm.CommandAccepted {
		defer f.mu.Unlock()
		return f.answer("it is so already", true), nil
	}
	done := f.begin(cmd, user, req)
	f.mu.Unlock()
	if !req.GetNoWait() {
		select {
		case <-done:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.fault != nil && f.state == fsm.Error {
		return nil, &api.FaultError{Cause: f.fault}
	}
	return f.answer(req.GetCommand()+" was done", false), nil
}

var sampleProblems = []string{`"nodse" is no setting, the nearest is "nodes"`,
	"slot-size 1024 is too small for MEPs of 4000 events"}

func (f *Fake) answer(message string, already bool) *ecsv1.CommandResponse {
	return &ecsv1.CommandResponse{
		State:   f.state.String(),
		Already: already,
		Run:     f.run.GetNumber(),
		Message: message,
	}
}

// begin starts a transition; its end closes the channel. The caller holds mu.
func (f *Fake) begin(cmd fsm.Command, user string, req *ecsv1.CommandRequest) <-chan struct{} {
	i := slices.IndexFunc(fsm.Transitions(), func(t fsm.Transition) bool { return t.Command == cmd })
	t := fsm.Transitions()[i]
	f.enter(t.Via)
	f.transition++
	number, done := f.transition, make(chan struct{})
	switch cmd {
	case fsm.Load:
		f.config = req.GetArguments()["configuration"]
		if f.config == "" {
			f.config = fmt.Sprintf("nodes: %d\nduration: 10s\n", f.opt.Nodes)
		}
	case fsm.Start:
		f.newRun(user, req)
	case fsm.Stop:
		f.run.StoppedBy, f.run.StopBegun = user, timestamppb.New(f.now())
	case fsm.Recover:
		f.fault = nil
	}
	f.goroutines.Go(func() {
		defer close(done)
		select {
		case <-time.After(f.opt.Dwell):
		case <-f.closeCtx.Done():
		}
		f.mu.Lock()
		defer f.mu.Unlock()
		if f.transition != number {
			return // a later transition has begun
		}
		f.enter(t.To)
		switch cmd {
		case fsm.Start:
			f.runStartTick, f.builtTicks, f.run.StartDone = f.tick, 0, timestamppb.New(f.now())
		case fsm.Stop:
			verdict := ecsv1.Verdict_VERDICT_GOOD
			if len(f.excluded) > 0 {
				verdict = ecsv1.Verdict_VERDICT_DEGRADED
			}
			f.endRun(verdict, "stopped")
		}
	})
	return done
}

// enter sets the state and publishes it. The caller holds mu.
func (f *Fake) enter(s fsm.State) {
	f.state = s
	f.changes++
	f.since = f.now()
	f.publish(&ecsv1.Event{
		Kind:      "state",
		Component: "partition",
		State:     s.String(),
		Text:      "the partition is " + s.String(),
		Severity:  ecsv1.Severity_SEVERITY_INFO,
	})
	close(f.moved)
	f.moved = make(chan struct{})
}

// Moved is closed at the next change of state.
func (f *Fake) Moved() <-chan struct{} {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.moved
}

func (f *Fake) exclude(user string, req *ecsv1.CommandRequest) *ecsv1.CommandResponse {
	node, out := req.GetArguments()["node"], req.GetCommand() == "exclude"
	if f.excluded[node] == out {
		return f.answer("it is so already", true)
	}
	if out {
		f.excluded[node] = true
	} else {
		delete(f.excluded, node)
	}
	f.changes++
	f.publish(&ecsv1.Event{
		Kind:      req.GetCommand() + "d",
		Component: node,
		Text:      node + " was " + req.GetCommand() + "d",
		Severity:  ecsv1.Severity_SEVERITY_WARNING,
		User:      user,
	})
	return f.answer(node+" is "+req.GetCommand()+"d", false)
}

// Lose makes a node fail: a run becomes ABORTED, the partition goes to Error.
func (f *Fake) Lose(node string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.transition++
	f.fault = &ecsv1.Cause{
		Component: node,
		What:      "its process is gone",
		Evidence:  "no echo for 3s, 14 writes open",
		Code:      "process_lost",
		At:        timestamppb.New(f.now()),
	}
	f.publish(&ecsv1.Event{
		Kind:      "fault",
		Component: node,
		Text: node +
			": its process is gone (no echo for 3s, 14 writes open)",
		Severity: ecsv1.Severity_SEVERITY_ERROR,
	})
	if f.run != nil && f.run.GetVerdict() == ecsv1.Verdict_VERDICT_UNSPECIFIED {
		f.run.StopBegun, f.run.Cause = timestamppb.New(f.now()), f.fault
		f.endRun(ecsv1.Verdict_VERDICT_ABORTED, "fault")
	}
	f.enter(fsm.Error)
}

// Check accepts every configuration without the words "broken" and "nodse".
func (f *Fake) Check(_ context.Context, req *ecsv1.CheckConfigurationRequest) *ecsv1.CheckConfigurationResponse {
	if strings.Contains(req.GetConfiguration(), "broken") || strings.Contains(req.GetConfiguration(), "nodse") {
		return &ecsv1.CheckConfigurationResponse{Problems: sampleProblems}
	}
	text := req.GetConfiguration()
	for _, s := range req.GetSettings() {
		text += strings.Replace(s, "=", ": ", 1) + "\n"
	}
	return &ecsv1.CheckConfigurationResponse{Ok: true, Effective: text, Hash: hash(text)}
}
