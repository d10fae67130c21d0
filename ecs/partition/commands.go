package partition

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	"ringlet/ecs/api"
	"ringlet/ecs/partition/nodes"
	"ringlet/node/config"
	"ringlet/node/fsm"
	ecsv1 "ringlet/proto/ringlet/ecs/v1"
)

// Commands beside those of the state machine.
const (
	commandExclude = "exclude"
	commandInclude = "include"
	commandMove    = "move"
	commandClear   = "clear-registers"
	commandTrigger = "trigger"
	commandNote    = "note"
)

// commandDescription describes a command to clients, which build their menus and forms from it.
type commandDescription struct {
	help        string
	destructive bool
	arguments   []*ecsv1.Argument
}

var commandDescriptions = map[string]commandDescription{
	"load": {help: "Take a configuration and find the nodes it wants.", arguments: []*ecsv1.Argument{
		{Name: "configuration", Type: "yaml",
			Help: "Settings as in a file for --config; what is not given has its default, or the value the control was " +
				"started with."},
		{Name: "settings", Type: "settings", Help: "Changes to it, name=value, one a line."},
	}},
	"configure": {help: "Make memory and links: slots are mapped, every node knows every other."},
	"start": {help: "Take the next run number and begin the run.", arguments: []*ecsv1.Argument{
		{Name: "remark", Type: "string", Help: "Goes into the record of the run."},
		{Name: "scan", Type: "string", Help: "Name of the sequence that the run belongs to."},
	}},
	"pause":  {help: "Give no new tokens; what is under way is built."},
	"resume": {help: "Give tokens again."},
	"stop": {help: "End the run: what is under way is built, outputs are completed, the accounts are closed; with " +
		"abandon what is under way is dropped.", destructive: true, arguments: []*ecsv1.Argument{
		{Name: "abandon", Type: "bool",
			Help: "Drop what is under way at once; the run is then ABORTED. What it has written stays.", DefaultValue: "false"},
	}},
	"reset":   {help: "Give memory and links back."},
	"unload":  {help: "Forget the configuration and let the nodes go."},
	"recover": {help: "After a fault: bring every node that answers to rest, so that it can be configured again."},
	commandExclude: {help: "Take a node out: in a run its builder unit gets no more MEPs, outside of one it " +
		"takes no part in the next run.", destructive: true, arguments: nodeArgument},
	commandInclude: {help: "Take a node in again that was excluded.", arguments: nodeArgument},
	commandMove: {help: "Have another node take the units of a member, which keeps its name; in a run the member is " +
		"lost first. Moved to itself, its own process takes them.", destructive: true, arguments: []*ecsv1.Argument{
		nodeArgument[0], {Name: "to", Type: "node", Help: "The node that takes its units.", Required: true},
	}},
	commandTrigger: {help: "Trigger events by hand, in a run with the setting trigger.", arguments: []*ecsv1.Argument{
		{Name: "count", Type: "uint", Help: "How many.", DefaultValue: "1"},
	}},
	commandNote: {help: "Keep a text or a number with the slow data of the run, beside its events.",
		arguments: []*ecsv1.Argument{
			{Name: "text", Type: "string", Help: "The text, at most 1024 bytes, or a number.", Required: true},
			{Name: "name", Type: "string", Help: "Its name; name it: name=pressure.", DefaultValue: commandNote},
		}},
	commandClear: {help: "Begin the high-water marks of the scheduler's queues anew; its counters go on."},
}

var nodeArgument = []*ecsv1.Argument{{Name: "node", Type: "node", Help: "The node.", Required: true}}

// describe is the part of a command's description that does not come from the state machine.
func describe(name string) *ecsv1.CommandDescription {
	d := commandDescriptions[name]
	return &ecsv1.CommandDescription{Name: name, Help: d.help, Arguments: d.arguments, Destructive: d.destructive}
}

// FSM describes the state machine and its commands to clients.
func (p *Partition) FSM() *ecsv1.FSM {
	out := &ecsv1.FSM{}
	for _, s := range fsm.States() {
		out.States = append(out.States, s.String())
	}
	timeouts := p.timeouts()
	for _, t := range fsm.Transitions() {
		c := describe(t.Command.String())
		c.Via, c.To, c.Forced = t.Via.String(), t.To.String(), t.Forced
		c.Timeout = durationpb.New(timeouts.ForCommand(t.Command))
		for _, s := range fsm.States() {
			if fsm.EffectOf(s, t.Command) != fsm.CommandRefused {
				c.AllowedIn = append(c.AllowedIn, s.String())
			}
		}
		out.Commands = append(out.Commands, c)
	}
	for _, x := range sideCommands {
		c := describe(x.name)
		c.AllowedIn = stateNames(x.states)
		out.Commands = append(out.Commands, c)
	}
	return out
}

// exclusionStates are the states in which the partition takes exclude, include and move.
var exclusionStates = []fsm.State{fsm.NotReady, fsm.Ready, fsm.Running, fsm.Paused, fsm.Error}

// sideCommands are the commands that change no state, with the states in which the partition takes them.
var sideCommands = []struct {
	name   string
	states []fsm.State
}{
	{commandExclude, exclusionStates},
	{commandInclude, exclusionStates},
	{commandMove, exclusionStates},
	{commandClear, runStates},
	{commandTrigger, runStates},
	{commandNote, runStates},
}

func stateNames(states []fsm.State) (names []string) {
	for _, s := range states {
		names = append(names, s.String())
	}
	return names
}

// Markdown prints the machine of a partition, as docs/runcontrol.md shows it.
func Markdown() string {
	p := control{cfg: Config{ReadyTimeout: defaultReadyTimeout}}
	return p.timeouts().Markdown() + "\nOther commands change no state. `exclude`, `include` and `move` are taken in " +
		strings.Join(stateNames(exclusionStates), ", ") + "; `clear-registers`, `trigger` and `note` in " +
		strings.Join(stateNames(runStates), ", ") + ".\n"
}

// allowedCommands are the commands that a state does not refuse.
func allowedCommands(s fsm.State) []string {
	var names []string
	for _, c := range fsm.AllowedCommands(s) {
		names = append(names, c.String())
	}
	for _, x := range sideCommands {
		if slices.Contains(x.states, s) {
			names = append(names, x.name)
		}
	}
	return names
}

// Command carries out a command whose form the API has checked.
func (p *Partition) Command(ctx context.Context, user string,
	req *ecsv1.CommandRequest) (*ecsv1.CommandResponse, error) {
	name, args := req.GetCommand(), req.GetArguments()
	p.publish(&ecsv1.Event{
		Kind:      "command",
		Component: partitionComponent,
		User:      user,
		Severity:  ecsv1.Severity_SEVERITY_INFO,
		Text:      user + " asked for " + commandText(name, args),
	})
	switch name {
	case commandMove:
		return mover{p}.move(ctx, user, args["node"], args["to"])
	case commandExclude, commandInclude:
		return p.changeMember(ctx, user, name, args["node"])
	case commandNote:
		return p.slow.note(ctx, user, args)
	case commandClear, commandTrigger:
		return p.commandRun(user, name, args)
	}
	c, err := fsm.ParseCommand(name)
	if err != nil {
		return nil, &api.ArgumentError{Name: "command", Why: err.Error()}
	}
	before, begun := p.runner.Status(), time.Now()
	if err := p.dispatch(ctx, user, c, before.State, req); err != nil {
		return nil, err
	}
	after := p.runner.Status()
	out := &ecsv1.CommandResponse{State: after.State.String(), Already: after.Seq == before.Seq, Run: p.lastRun()}
	switch {
	case out.Already:
		out.Message = fmt.Sprintf("the partition is %s already", out.State)
	case req.GetNoWait():
		out.Message = fmt.Sprintf("%s has begun", name)
	default:
		out.Message = fmt.Sprintf("the partition is %s, after %v", out.State, time.Since(begun).Round(time.Millisecond))
	}
	return out, nil
}

// dispatch gives a command to the state machine, unless a check refuses it.
func (p *Partition) dispatch(ctx context.Context, user string, c fsm.Command, state fsm.State,
	req *ecsv1.CommandRequest) error {
	err := p.prepareCommand(ctx, user, c, state, req.GetArguments())
	switch {
	case err != nil:
	case req.GetNoWait():
		err = p.apiError(c.String(), p.runner.Submit(c))
	default:
		err = p.apiError(c.String(), p.runner.Command(ctx, c))
	}
	var refused *api.PreconditionError
	var wrong *api.ConfigurationError
	if wanted := c == fsm.Load || c == fsm.Configure || c == fsm.Start; wanted &&
		(errors.As(err, &refused) || errors.As(err, &wrong)) {
		p.noteStartFailure(err)
	}
	return err
}

// commandText is a command in the words of the journal.
func commandText(name string, args map[string]string) string {
	for _, key := range []string{"node", "to", "remark"} {
		if args[key] != "" {
			name += " " + args[key]
		}
	}
	if args["abandon"] == "true" {
		name += ", dropping everything"
	}
	return name
}

// prepareCommand checks a command and keeps the arguments that its step needs. A command that the state does not take
// passes: the machine refuses it.
func (p *Partition) prepareCommand(ctx context.Context, user string, c fsm.Command, state fsm.State,
	args map[string]string) error {
	until := time.Now().Add(p.joinTimeout())
	switch {
	case c == fsm.Load:
		cfg, err := p.checks.completeConfiguration(args["configuration"], strings.Split(args["settings"], "\n"))
		if err == nil && fsm.EffectOf(state, c) == fsm.TransitionBegun {
			err = p.checks.checkConfiguration(ctx, cfg, p.members.awaitNodes(ctx, cfg, until), p.timeouts().ForCommand(fsm.Load))
		}
		if err != nil {
			return &api.ConfigurationError{Problems: problemTexts(err)}
		}
		return p.prepareLoad(user, state, cfg, until)
	case (c == fsm.Configure || c == fsm.Start) && fsm.EffectOf(state, c) == fsm.TransitionBegun:
		if err := p.members.maySelectMembers(ctx, c, state, until); err != nil {
			return err
		}
		if c == fsm.Start {
			if err := p.checks.mayStart(ctx, state); err != nil {
				return err
			}
		}
	case c == fsm.Stop && state == fsm.Stopping && args["abandon"] == "true":
		// the drain under way looks at pendingCommand twice a second
		p.updateState(func(s *partitionState) { s.pendingCommand.user, s.pendingCommand.abandon = user, true })
		return nil
	case fsm.EffectOf(state, c) != fsm.TransitionBegun:
		return nil
	}
	p.updateState(func(s *partitionState) {
		pending := &s.pendingCommand
		pending.user, pending.joinDeadline = user, until
		switch c {
		case fsm.Start:
			pending.remark, pending.scanName, pending.stopRequested, pending.abandon = args["remark"], args["scan"], false, false
		case fsm.Stop:
			pending.stopRequested, pending.abandon = true, args["abandon"] == "true"
		default:
		}
	})
	return nil
}

// preconditionError refuses a command that the state does not take, or that a check refuses; why names the check's
// reason.
func preconditionError(state fsm.State, command, why string) error {
	return &api.PreconditionError{
		State:   state.String(),
		Command: command,
		Why:     why,
		Allowed: allowedCommands(state),
	}
}

func (p *Partition) prepareLoad(user string, state fsm.State, cfg config.Completed, until time.Time) error {
	effect := fsm.EffectOf(state, fsm.Load)
	if l := p.currentState().loadedConfig; l != nil && effect == fsm.CommandAccepted && l.original != cfg {
		return preconditionError(state, "load", "it holds another configuration: unload that first")
	}
	if effect == fsm.TransitionBegun {
		p.updateState(func(s *partitionState) {
			s.pendingCommand = pendingCommand{configuration: cfg, user: user, joinDeadline: until}
		})
	}
	return nil
}

// apiError turns an error of the state machine into one of the API.
func (p *Partition) apiError(name string, err error) error {
	var refused *fsm.PreconditionError
	var superseded *fsm.SupersededError
	var cause fsm.Cause
	switch {
	case errors.As(err, &refused):
		return preconditionError(refused.State, name, "")
	case errors.As(err, &superseded):
		return &api.FaultError{Cause: &ecsv1.Cause{Component: partitionComponent, What: err.Error(), Code: "superseded"}}
	case errors.As(err, &cause):
		return &api.FaultError{Cause: p.causeMessage(cause)}
	}
	return err
}

// Check says whether load would take a configuration now, with the nodes that are present.
func (p *Partition) Check(ctx context.Context, req *ecsv1.CheckConfigurationRequest) *ecsv1.CheckConfigurationResponse {
	cfg, err := p.checks.completeConfiguration(req.GetConfiguration(), req.GetSettings())
	if err == nil {
		err = p.checks.checkConfiguration(ctx, cfg, p.cfg.Members.ByName(), p.timeoutFor(checkTimeout))
	}
	if err != nil {
		return &ecsv1.CheckConfigurationResponse{Problems: problemTexts(err)}
	}
	return &ecsv1.CheckConfigurationResponse{Ok: true, Effective: string(cfg.Effective()), Hash: cfg.Hash()}
}

// changeMember excludes or includes a node.
func (p *Partition) changeMember(ctx context.Context, user, name, node string) (*ecsv1.CommandResponse, error) {
	p.conductor.commandMu.Lock()
	defer p.conductor.commandMu.Unlock()
	now, state := p.currentState(), p.runner.Status().State
	if err := now.exclusionError(state, name, node); err != nil {
		return nil, err
	}
	out := &ecsv1.CommandResponse{State: state.String(), Run: p.lastRun()}
	if now.isBuilding(state) {
		var err error
		if out.Message, err = p.changeInRun(ctx, now.run, name, node); err != nil {
			return nil, preconditionError(state, name, err.Error())
		}
	} else {
		out.Message = p.changeOutsideRun(now, name, node)
	}
	p.saveState()
	p.publish(&ecsv1.Event{
		Kind:      name + "d",
		Component: node,
		User:      user,
		Text:      out.Message,
		Severity:  severityWarning,
	})
	return out, nil
}

// isBuilding says that a run goes on, so that exclude and include act on its builder units.
func (s *partitionState) isBuilding(state fsm.State) bool {
	return s.run != nil && (state == fsm.Running || state == fsm.Paused)
}

// exclusionError says why a node cannot be excluded or included now; nil if it can.
func (s *partitionState) exclusionError(state fsm.State, name, node string) error {
	l := s.loadedConfig
	switch {
	case !slices.Contains(exclusionStates, state):
		return preconditionError(state, name, "")
	case !l.hasMember(node):
		var members string
		if l != nil {
			members = strings.Join(l.names, ", ")
		}
		return &api.ArgumentError{
			Name: "arguments.node",
			Why:  fmt.Sprintf("there is no node called %q: members are %s", node, members),
		}
	case name == commandInclude || name == commandMove:
		return nil
	case s.isBuilding(state):
		if err := s.run.MayExclude(node); err != nil {
			return preconditionError(state, name, err.Error())
		}
	default:
		if _, _, err := selectMembers(l.cfg, l.names, append(s.excludedNodes(),
			absentNode{node, "it is to be excluded"})); err != nil {
			return preconditionError(state, name, err.Error())
		}
	}
	return nil
}

// hasMember says whether a node is a member.
func (l *loadedConfig) hasMember(node string) bool { return l != nil && slices.Contains(l.names, node) }

func (p *Partition) changeInRun(ctx context.Context, run *nodes.Run, name, node string) (string, error) {
	if name == commandInclude {
		if err := run.Include(ctx, node); err != nil {
			return "", err
		}
		if len(run.InactiveBuilders()) == 0 { // all builder units take part again
			_ = p.clearDegraded()
		}
		return fmt.Sprintf("the builder unit of %s gets MEPs again", node), nil
	}
	again, err := run.Exclude(node)
	if err != nil {
		return "", err
	}
	_ = p.runner.Degrade(fsm.Cause{Component: node, What: "its builder unit was excluded"})
	return fmt.Sprintf("the builder unit of %s gets no more MEPs; %d of its MEPs go to others", node, again), nil
}

// changeOutsideRun notes that a node takes no part, or takes part again, from the next configure on.
func (p *Partition) changeOutsideRun(now partitionState, name, node string) string {
	excluded, text := map[string]bool{}, node+" takes part in the next run"
	maps.Copy(excluded, now.excluded)
	delete(excluded, node)
	if name == commandExclude {
		excluded[node], text = true, node+" takes no part in the next run"
	}
	p.updateState(func(s *partitionState) { s.excluded = excluded })
	if now.nodeSet != nil {
		now.nodeSet.MarkUnlinked()
	}
	return text
}

// action is one part of a step: the description for a plan, and the work. Plans and steps come from the same list, so
// they cannot differ.
type action struct {
	describe func(*planner)
	do       fsm.Work
}

// actions lists what a command does in the present state, in order.
func (p *Partition) actions(c fsm.Command) []action {
	switch c {
	case fsm.Load:
		return []action{{planLoading, p.loadConfiguration}}
	case fsm.Configure:
		return []action{{planMembers, p.members.loadMembers}, {planConfiguring, p.members.configureNodes}}
	case fsm.Start:
		var all []action
		if p.members.mustConfigure() {
			all = append([]action{{planClear, p.members.clearNodes}}, p.actions(fsm.Configure)...)
		}
		return append(all, action{planNumber, p.records.openNext}, action{planBeginning, p.conductor.start})
	case fsm.Pause:
		return []action{{planPause, p.conductor.pause}}
	case fsm.Resume:
		return []action{{planPause, p.conductor.resume}}
	case fsm.Stop:
		return []action{{planStopping, p.conductor.stop}}
	case fsm.Reset:
		return []action{{planNodes, p.members.clearNodes}}
	case fsm.Unload:
		return []action{{planNodes, p.members.unloadNodes}}
	case fsm.Recover:
		return []action{{planNodes, p.members.clearNodes}}
	}
	return nil
}

// workFor is the work of a command, for the state machine.
func (p *Partition) workFor(c fsm.Command) fsm.Work {
	return func(ctx context.Context) error {
		all := p.actions(c)
		if c != fsm.Load && c != fsm.Configure && c != fsm.Start {
			return p.runInOrder(all)(ctx)
		}
		before := len(all)
		if c == fsm.Start {
			before-- // the last action has a run with a number, whose record says how it ended
		}
		if err := p.preRunWork(p.runInOrder(all[:before]))(ctx); err != nil {
			return err
		}
		return p.runInOrder(all[before:])(ctx)
	}
}

// runInOrder does one action after the other, until one fails.
func (p *Partition) runInOrder(all []action) fsm.Work {
	return func(ctx context.Context) error {
		for _, a := range all {
			if err := a.do(ctx); err != nil {
				return p.causeFromError(err)
			}
		}
		return nil
	}
}

// loadConfiguration determines the members of the pending configuration and takes them to NotReady.
func (p *Partition) loadConfiguration(ctx context.Context) error {
	p.updateState(func(s *partitionState) {
		cfg := s.pendingCommand.configuration
		s.loadedConfig = &loadedConfig{original: cfg, cfg: cfg, prepared: s.pendingCommand.prepared}
	})
	defer p.saveState()
	return p.members.loadMembers(ctx)
}

// preRunWork carries out the part of a step before the run has its number, and notes why it fails: there is no record
// of the run yet that could say so.
func (p *Partition) preRunWork(step fsm.Work) fsm.Work {
	return func(ctx context.Context) error {
		if p.currentState().pendingCommand.user == recoveryUser { // no user asked for that run
			return step(ctx)
		}
		p.updateState(func(s *partitionState) { s.lastStartFailure, s.preRunContext = nil, ctx })
		err := step(ctx)
		switch {
		case err == nil:
		case ctx.Err() != nil:
			p.noteStartFailure(context.Cause(ctx))
		default:
			p.noteStartFailure(err)
		}
		p.updateState(func(s *partitionState) { s.preRunContext = nil })
		return err
	}
}

// noteStartFailure notes why the run that a user asked for last does not begin. It does nothing while a run goes on: a
// command that is refused then has not prevented one.
func (p *Partition) noteStartFailure(err error) {
	p.updateState(func(s *partitionState) {
		if s.runRecord == nil {
			s.lastStartFailure = p.startFailureCause(err)
		}
	})
}

func (p *Partition) startFailureCause(err error) *ecsv1.Cause {
	var fault fsm.Cause
	if errors.As(err, &fault) {
		return p.causeMessage(fault)
	}
	return &ecsv1.Cause{
		Component: partitionComponent,
		What:      err.Error(),
		Code:      "refused",
		At:        timestamppb.Now(),
	}
}

// currentStartFailure is why the run that a user asked for last has not begun; nil if there is no failure. When a step
// has timed out or was interrupted, the state machine is in another state already although the step has not returned; a
// client that waits for the run must then hear that it will not begin.
func (p *Partition) currentStartFailure(now partitionState) *ecsv1.Cause {
	if now.lastStartFailure == nil && now.preRunContext != nil && now.preRunContext.Err() != nil {
		return p.startFailureCause(context.Cause(now.preRunContext))
	}
	return now.lastStartFailure
}
