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

	"ringlet/ecs/api"
	"ringlet/ecs/partition/nodes"
	"ringlet/node/cluster"
	"ringlet/node/config"
	"ringlet/node/fsm"
	ecsv1 "ringlet/proto/ringlet/ecs/v1"
)

// Commands beside those of the state machine.
const (
	exclude = "exclude"
	include = "include"
)

// description of a command: what clients make their commands from.
type description struct {
	help        string
	destructive bool
	arguments   []*ecsv1.Argument
}

var described = map[string]description{
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
	exclude: {help: "Take a node out: in a run its builder unit gets no more MEPs, outside of one it takes no part in " +
		"the next run.", destructive: true,
		arguments: []*ecsv1.Argument{{
			Name:     "node",
			Type:     "node",
			Help:     "The node.",
			Required: true,
		}}},
	include: {help: "Take a node in again that was excluded.",
		arguments: []*ecsv1.Argument{{
			Name:     "node",
			Type:     "node",
			Help:     "The node.",
			Required: true,
		}}},
}

// FSM describes the machine, for clients that make their commands from it.
func (p *Partition) FSM() *ecsv1.FSM {
	out := &ecsv1.FSM{}
	for _, s := range fsm.States() {
		out.States = append(out.States, s.String())
	}
	timeouts := p.timeouts()
	for _, t := range fsm.Transitions() {
		d := described[t.Command.String()]
		c := &ecsv1.CommandDescription{
			Name:        t.Command.String(),
			Help:        d.help,
			Arguments:   d.arguments,
			Destructive: d.destructive,
			Via:         t.Via.String(),
			To:          t.To.String(),
			Timeout:     durationpb.New(timeouts.Of(t.Command)),
			Forced:      t.Forced,
		}
		for _, s := range fsm.States() {
			if fsm.EffectOf(s, t.Command) != fsm.Refused {
				c.AllowedIn = append(c.AllowedIn, s.String())
			}
		}
		out.Commands = append(out.Commands, c)
	}
	for _, name := range []string{exclude, include} {
		d := described[name]
		c := &ecsv1.CommandDescription{
			Name:        name,
			Help:        d.help,
			Arguments:   d.arguments,
			Destructive: d.destructive,
		}
		for _, s := range beside {
			c.AllowedIn = append(c.AllowedIn, s.String())
		}
		out.Commands = append(out.Commands, c)
	}
	return out
}

// beside are the states in which nodes are excluded and included.
var beside = []fsm.State{fsm.NotReady, fsm.Ready, fsm.Running, fsm.Paused, fsm.Error}

// Markdown prints the machine of a partition, as docs/runcontrol.md shows it.
func Markdown() string {
	p := Partition{cfg: Config{Patience: defaultPatience}}
	var names []string
	for _, s := range beside {
		names = append(names, s.String())
	}
	return p.timeouts().Markdown() + "\n`exclude` and `include` change no state; they are taken in " + strings.Join(names,
		", ") + ".\n"
}

// allowed are the commands that a state does not refuse.
func allowed(s fsm.State) []string {
	var names []string
	for _, c := range fsm.Allowed(s) {
		names = append(names, c.String())
	}
	if slices.Contains(beside, s) {
		names = append(names, exclude, include)
	}
	return names
}

// Command obeys a command whose form the API has checked.
func (p *Partition) Command(ctx context.Context, user string, req *ecsv1.CommandRequest) (*ecsv1.CommandResponse,
	error) {
	name, args := req.GetCommand(), req.GetArguments()
	p.tell(&ecsv1.Event{
		Kind:      "command",
		Component: ownName,
		User:      user,
		Severity:  ecsv1.Severity_SEVERITY_INFO,
		Text:      user + " asked for " + spoken(name, args),
	})
	if name == exclude || name == include {
		return p.beside(ctx, user, name, args["node"])
	}
	c, err := fsm.ParseCommand(name)
	if err != nil {
		return nil, &api.ArgumentError{Name: "command", Why: err.Error()}
	}
	before, begun := p.runner.Status(), time.Now()
	if err := p.obey(ctx, user, c, before.State, req); err != nil {
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

// obey gives a command to the machine, if nothing stands against it.
func (p *Partition) obey(ctx context.Context, user string, c fsm.Command, state fsm.State,
	req *ecsv1.CommandRequest) error {
	err := p.ask(ctx, user, c, state, req.GetArguments())
	switch {
	case err != nil:
	case req.GetNoWait():
		err = p.refusal(c.String(), p.runner.Submit(c))
	default:
		err = p.refusal(c.String(), p.runner.Command(ctx, c))
	}
	var refused *api.PreconditionError
	var wrong *api.ConfigurationError
	if wanted := c == fsm.Load || c == fsm.Configure || c == fsm.Start; wanted &&
		(errors.As(err, &refused) || errors.As(err, &wrong)) {
		p.missed(err)
	}
	return err
}

// spoken is a command as people say it.
func spoken(name string, args map[string]string) string {
	for _, key := range []string{"node", "remark"} {
		if args[key] != "" {
			name += " " + args[key]
		}
	}
	if args["abandon"] == "true" {
		name += ", dropping everything"
	}
	return name
}

// ask keeps what a step needs of its command. What the state refuses the machine will say.
func (p *Partition) ask(ctx context.Context, user string, c fsm.Command, state fsm.State,
	args map[string]string) error {
	until := time.Now().Add(p.joinTime())
	switch {
	case c == fsm.Load:
		cfg, err := p.configuration(args["configuration"], strings.Split(args["settings"], "\n"))
		if err == nil && fsm.EffectOf(state, c) == fsm.Begun {
			err = p.suits(ctx, cfg, p.awaitNodes(ctx, cfg, until), p.timeouts().Of(fsm.Load))
		}
		if err != nil {
			return &api.ConfigurationError{Problems: problems(err)}
		}
		return p.askLoad(user, state, cfg, until)
	case (c == fsm.Configure || c == fsm.Start) && fsm.EffectOf(state, c) == fsm.Begun:
		if err := p.mayMuster(ctx, c, state, until); err != nil {
			return err
		}
		if c == fsm.Start {
			if err := p.mayStart(ctx, state); err != nil {
				return err
			}
		}
	case c == fsm.Stop && state == fsm.Stopping && args["abandon"] == "true":
		// the drain that is under way sees it
		p.set(func(s *standing) { s.asked.by, s.asked.abandon = user, true })
		return nil
	case fsm.EffectOf(state, c) != fsm.Begun:
		return nil
	}
	p.set(func(s *standing) {
		s.asked.by, s.asked.awaits = user, until
		switch c {
		case fsm.Start:
			s.asked.remark, s.asked.scan, s.asked.end, s.asked.abandon = args["remark"], args["scan"], "", false
		case fsm.Stop:
			s.asked.end, s.asked.abandon = nodes.EndStopped, args["abandon"] == "true"
		default:
		}
	})
	return nil
}

// mayMuster refuses a configure, or a start that has to configure, for want of nodes that the policies do not do
// without: nothing has broken.
func (p *Partition) mayMuster(ctx context.Context, c fsm.Command, state fsm.State, until time.Time) error {
	now := p.now()
	l, absent := now.loaded, now.absent()
	if l == nil || l.names == nil || c == fsm.Start && !p.mustConfigure() {
		return nil
	}
	present := p.awaitMembers(ctx, l.names, absent, until)
	absent = p.withUnjoined(absent, l.names, present)
	if _, _, err := muster(l.cfg, l.names, absent); err != nil {
		return forbidden(state, c.String(), err.Error())
	}
	return nil
}

// forbidden is a command that a state does not take, or that something else stands against, which why names.
func forbidden(state fsm.State, command, why string) error {
	return &api.PreconditionError{
		State:   state.String(),
		Command: command,
		Why:     why,
		Allowed: allowed(state),
	}
}

func (p *Partition) askLoad(user string, state fsm.State, cfg config.Config, until time.Time) error {
	effect := fsm.EffectOf(state, fsm.Load)
	if l := p.now().loaded; l != nil && effect == fsm.Accepted && l.asked != cfg {
		return forbidden(state, "load", "it holds another configuration: unload that first")
	}
	if effect == fsm.Begun {
		p.set(func(s *standing) { s.asked = asked{configuration: cfg, by: user, awaits: until} })
	}
	return nil
}

// refusal turns what the machine says into what the API says.
func (p *Partition) refusal(name string, err error) error {
	var refused *fsm.PreconditionError
	var superseded *fsm.SupersededError
	var cause fsm.Cause
	switch {
	case errors.As(err, &refused):
		return forbidden(refused.State, name, "")
	case errors.As(err, &superseded):
		return &api.FaultError{Cause: &ecsv1.Cause{Component: ownName, What: err.Error(), Code: "superseded"}}
	case errors.As(err, &cause):
		return &api.FaultError{Cause: p.message(cause)}
	}
	return err
}

// configuration is a text with changes, over what the control was started with, completed.
func (p *Partition) configuration(text string, settings []string) (config.Config, error) {
	cfg := p.cfg.Default
	if err := cfg.Over("configuration", []byte(text)); err != nil {
		return cfg, err
	}
	settings = slices.DeleteFunc(settings, func(s string) bool { return strings.TrimSpace(s) == "" })
	if err := cfg.Apply(settings); err != nil {
		return cfg, err
	}
	endless := cfg.Duration == 0
	if err := cfg.Complete(); err != nil {
		return cfg, err
	}
	if endless && !cfg.Bounded() {
		cfg.Duration = 0 // until somebody stops it
	}
	return cfg, nil
}

// problems are what is wrong with a configuration, by the error that says so.
func problems(err error) (all []string) {
	var invalid *config.InvalidError
	if !errors.As(err, &invalid) {
		return []string{err.Error()}
	}
	for _, one := range invalid.Problems {
		all = append(all, one.String())
	}
	return all
}

// Check says whether a configuration would be taken, by the nodes that are there now.
func (p *Partition) Check(ctx context.Context, req *ecsv1.CheckConfigurationRequest) *ecsv1.CheckConfigurationResponse {
	cfg, err := p.configuration(req.GetConfiguration(), req.GetSettings())
	if err == nil {
		err = p.suits(ctx, cfg, p.cfg.Members.ByName(), p.within(checkTime))
	}
	if err != nil {
		return &ecsv1.CheckConfigurationResponse{Problems: problems(err)}
	}
	return &ecsv1.CheckConfigurationResponse{Ok: true, Effective: string(cfg.Effective()), Hash: cfg.Hash()}
}

// checkTime is how long a check may read an input, and a disk take to say whether an output can be written: less than
// clients wait. A load may take its own time to read an input.
const checkTime = 8 * time.Second

// bears holds a configuration against the nodes that are present. Members that are not are left out, if the policies
// bear it.
func (p *Partition) bears(cfg config.Config, present map[string]cluster.Member) error {
	names := cfg.MemberNames()
	absent := p.withUnjoined(nil, names, present)
	if less, there, err := muster(cfg, names, absent); err == nil {
		cfg, names = less, there
	}
	if err := cfg.Check(p.facts(present)); err != nil {
		return err
	}
	return p.writable(cfg, names, present)
}

// suits holds a configuration against the nodes that are present, and against its input, which is read for at most so
// long.
func (p *Partition) suits(
	ctx context.Context, cfg config.Config, present map[string]cluster.Member, most time.Duration,
) error {
	if err := p.bears(cfg, present); err != nil || cfg.Input == "" && cfg.FilterFile() == "" {
		return err
	}
	late := fmt.Errorf("that takes more than the %v which are given to it here", most)
	ctx, cancel := context.WithTimeoutCause(ctx, most, late)
	defer cancel()
	select {
	case p.reading <- struct{}{}: // one at a time, so that many who ask take no more memory and time than one
	case <-ctx.Done():
		return fmt.Errorf("%s was not read, since others are read before it: %w", cfg.Input, context.Cause(ctx))
	}
	defer func() { <-p.reading }()
	return nodes.CheckFiles(ctx, cfg, p.cfg.Inputs)
}

// beside excludes or includes a node.
func (p *Partition) beside(ctx context.Context, user, name, node string) (*ecsv1.CommandResponse, error) {
	p.orders.Lock()
	defer p.orders.Unlock()
	now, state := p.now(), p.runner.Status().State
	if err := now.refuses(state, name, node); err != nil {
		return nil, err
	}
	out := &ecsv1.CommandResponse{State: state.String(), Run: p.lastRun()}
	if now.builds(state) {
		var err error
		if out.Message, err = p.inRun(ctx, now.run, name, node); err != nil {
			return nil, forbidden(state, name, err.Error())
		}
	} else {
		out.Message = p.outside(now, name, node)
	}
	p.remember()
	p.tell(&ecsv1.Event{
		Kind:      name + "d",
		Component: node,
		User:      user,
		Text:      out.Message,
		Severity:  warning,
	})
	return out, nil
}

// builds says that a run goes on, in which a node is excluded or included.
func (s *standing) builds(state fsm.State) bool {
	return s.run != nil && (state == fsm.Running || state == fsm.Paused)
}

// refuses says why a node is not excluded or included now; nil if it is.
func (s *standing) refuses(state fsm.State, name, node string) error {
	l := s.loaded
	switch {
	case !slices.Contains(beside, state):
		return forbidden(state, name, "")
	case !l.knows(node):
		var members string
		if l != nil {
			members = strings.Join(l.names, ", ")
		}
		return &api.ArgumentError{
			Name: "arguments.node",
			Why:  fmt.Sprintf("there is no node called %q: members are %s", node, members),
		}
	case name == include:
		return nil
	case s.builds(state):
		if err := s.run.MayExclude(node); err != nil {
			return forbidden(state, name, err.Error())
		}
	default:
		if _, _, err := muster(l.cfg, l.names, append(s.absent(), absentNode{node, "it is to be excluded"})); err != nil {
			return forbidden(state, name, err.Error())
		}
	}
	return nil
}

// knows says whether a node is a member.
func (l *loaded) knows(node string) bool { return l != nil && slices.Contains(l.names, node) }

func (p *Partition) inRun(ctx context.Context, run *nodes.Run, name, node string) (string, error) {
	if name == include {
		if err := run.Include(ctx, node); err != nil {
			return "", err
		}
		if len(run.Out()) == 0 { // everybody takes part again
			_ = p.restore()
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

// outside notes who takes no part from the next configure on.
func (p *Partition) outside(now standing, name, node string) string {
	excluded, text := map[string]bool{}, node+" takes part in the next run"
	maps.Copy(excluded, now.excluded)
	delete(excluded, node)
	if name == exclude {
		excluded[node], text = true, node+" takes no part in the next run"
	}
	p.set(func(s *standing) { s.excluded = excluded })
	if now.crew != nil {
		now.crew.Unlink()
	}
	return text
}
