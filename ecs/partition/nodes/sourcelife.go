package nodes

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"ringlet/ecs/figures"
	"ringlet/ecs/partition/fault"
	nodev1 "ringlet/proto/ringlet/node/v1"
	"ringlet/source"
	"ringlet/source/live"
)

// frontendPollInterval is how often the control asks nodes how far their front-ends are, while it waits for them.
const frontendPollInterval = 100 * time.Millisecond

// endFrontendsTimeout is how long the end of a run waits for front-ends to say that they are done. The run ends without
// them: they keep what is not safe. moveFrontendsTimeout is how long other commands wait for answers.
const (
	endFrontendsTimeout  = 5 * time.Second
	moveFrontendsTimeout = 2 * time.Second
)

// frontends takes front-ends that follow the run to where the run is.
type frontends struct {
	run *Run

	mu      sync.Mutex // guards what follows
	awaited string     // a clause on the front-ends that the start or the end waits for; empty: none
}

// runSource is a live source of a run.
type runSource struct {
	figures.Source
	options source.Options
	node    *member // with its readout unit
}

// isIn says whether a source belongs to a group.
func (s *runSource) isIn(g nodev1.SourceGroup) bool { return source.Group(g).Includes(&s.options) }

const (
	allSources   = nodev1.SourceGroup_SOURCE_GROUP_UNSPECIFIED
	beginCommand = nodev1.FrontendCommand_FRONTEND_COMMAND_BEGIN
)

// listRunSources lists the live sources of the run, in the order of their ids.
func (f *frontends) listRunSources() (out []runSource) {
	list := LiveSources(f.run.cfg)
	if list == nil {
		return nil
	}
	inputs, err := source.ParseInputs(f.run.cfg.Input)
	if err != nil {
		return nil // impossible: LiveSources has parsed it
	}
	for i, src := range list {
		one := runSource{Source: src, options: inputs[i].Options}
		for _, n := range f.run.nodes {
			if n.firstEntry.GetReadout() && int(n.firstEntry.GetRuIndex()) == src.RU {
				one.node = n
			}
		}
		out = append(out, one)
	}
	return out
}

// beginSources waits until the front-ends that the start requires are ready, and tells all that the run has begun.
func (f *frontends) beginSources(ctx context.Context) error {
	if !f.run.cfg.AwaitsFrontends() {
		return nil // the nodes tell front-ends by themselves
	}
	sources, began := f.listRunSources(), time.Now()
	var late *fault.Fault
	prepare := nodev1.FrontendCommand_FRONTEND_COMMAND_PREPARE
	missing := f.lead(ctx, sources, prepare, allSources, func(states []sourceState) (missing string) {
		if missing, late = judgeStart(states, time.Since(began)); late != nil {
			return ""
		}
		return missing
	})
	switch struck := f.run.faults.cause(); {
	case late != nil:
		return &fault.Error{Fault: *late}
	case struck != nil:
		return struck
	case missing == "":
		return f.beginReady(ctx, sources)
	}
	return context.Cause(ctx)
}

// lead tells a group of sources where the run wants them, again and again, until judge says that none is missing, ctx
// ends, or a fault strikes. It returns what judge said last, a clause on the front-ends that are missing.
func (f *frontends) lead(ctx context.Context, sources []runSource, c nodev1.FrontendCommand, of nodev1.SourceGroup,
	judge func([]sourceState) (missing string)) (missing string) {
	ctx, stop := f.run.faults.untilFault(ctx, nil, 0)
	defer stop()
	defer f.setAwaited("")
	_ = poll(ctx, frontendPollInterval, func() (bool, error) { // the caller judges by missing
		_ = f.commandSources(ctx, sources, c, of) // it is repeated
		if missing = judge(f.sourceStates(sources)); missing != "" {
			f.setAwaited(missing)
		}
		return missing == "" || ctx.Err() != nil, nil
	})
	return missing
}

// beginReady tells all front-ends that the run has begun, those that start last when the others have answered.
func (f *frontends) beginReady(ctx context.Context, sources []runSource) error {
	if slices.ContainsFunc(sources, func(s runSource) bool { return s.options.StartsLast }) {
		f.moveFrontends(ctx, sources, beginCommand, nodev1.SourceGroup_SOURCE_GROUP_NOT_STARTING_LAST, moveFrontendsTimeout)
	}
	return f.commandSources(ctx, sources, beginCommand, allSources)
}

// EndSources tells the front-ends that the run ends, those that stop first before the others. It waits until those that
// follow it have sent what they took, or for endFrontendsTimeout.
func (f *frontends) EndSources(ctx context.Context) {
	sources := f.listRunSources()
	waits := func(s sourceState) bool { return s.follows() || !s.gone && s.life.GetUntaken() }
	if !slices.ContainsFunc(f.sourceStates(sources), waits) {
		return // the nodes tell front-ends that come meanwhile
	}
	end := nodev1.FrontendCommand_FRONTEND_COMMAND_END
	f.moveFrontends(ctx, sources, end, nodev1.SourceGroup_SOURCE_GROUP_STOPPING_FIRST, endFrontendsTimeout)
	f.moveFrontends(ctx, sources, end, allSources, endFrontendsTimeout)
}

// pauseFirst has front-ends pause that stop first.
func (f *frontends) pauseFirst(ctx context.Context) {
	f.moveFrontends(ctx, f.listRunSources(), nodev1.FrontendCommand_FRONTEND_COMMAND_PAUSE,
		nodev1.SourceGroup_SOURCE_GROUP_STOPPING_FIRST, moveFrontendsTimeout)
}

// BeginLast has front-ends that start last begin, or go on, when the others do.
func (f *frontends) BeginLast(ctx context.Context) {
	sources := f.listRunSources()
	if slices.ContainsFunc(sources, func(s runSource) bool { return s.options.StartsLast }) {
		f.moveFrontends(ctx, sources, beginCommand, allSources, moveFrontendsTimeout)
	}
}

// moveFrontends tells a group of sources where the run wants them, and waits until the front-ends that follow it are
// there: so long at most, or until a fault strikes. The run goes on without their answers.
func (f *frontends) moveFrontends(ctx context.Context, sources []runSource, c nodev1.FrontendCommand,
	of nodev1.SourceGroup, atMost time.Duration) {
	sources = slices.DeleteFunc(slices.Clone(sources), func(s runSource) bool { return !s.isIn(of) })
	if len(sources) == 0 {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, f.run.opts.timeoutFor(atMost))
	defer cancel()
	missing := f.lead(ctx, sources, c, of, func(states []sourceState) string { return judgeMove(states, c) })
	if missing != "" {
		f.run.log.Warn("the run goes on without the answers of front-ends", "waited for", missing)
	}
}

// placeSources tells the sources of a node that has come back where the run is: it may have been paused, or have gone
// on, after the node's start was made.
func (f *frontends) placeSources(ctx context.Context, n *member) {
	c := beginCommand
	if f.run.State().Phase.IsPaused() {
		c = nodev1.FrontendCommand_FRONTEND_COMMAND_PAUSE
	}
	back := slices.DeleteFunc(f.listRunSources(), func(s runSource) bool { return s.node != n })
	if len(back) > 0 {
		_ = f.commandSources(ctx, back, c, allSources) // the next change of the run tells it again
	}
}

// setAwaited notes the front-ends that a start or an end waits for, a clause.
func (f *frontends) setAwaited(clause string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.awaited = clause
}

// AwaitedSources is a clause on the front-ends that the start or the end of the run waits for; empty: none.
func (f *frontends) AwaitedSources() string {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.awaited
}

// SourceReadiness is how far the front-end of a live source is, in words.
type SourceReadiness struct {
	ID              int
	Name, Readiness string
}

// SourcesReadiness is how far the front-ends of the run are, where that is known, in order of the ids of their sources.
func (f *frontends) SourcesReadiness() (out []SourceReadiness) {
	sources := f.listRunSources()
	for i, s := range f.sourceStates(sources) {
		switch {
		case s.gone:
			out = append(out, SourceReadiness{sources[i].ID, s.name, "lost: the run goes on without its node"})
		case s.life != nil:
			out = append(out, SourceReadiness{sources[i].ID, s.name, figures.Readiness(s.life)})
		}
	}
	return out
}

// sourceState is a live source with how far it is.
type sourceState struct {
	name    string
	node    string
	require time.Duration
	gone    bool               // the run goes on without its node
	life    *nodev1.SourceLife // nil: not known
}

// sourceStates are the states of sources, by the last report of their nodes.
func (f *frontends) sourceStates(sources []runSource) (out []sourceState) {
	for _, src := range sources {
		s := sourceState{name: src.Name, require: src.options.Require, gone: true}
		if n := src.node; n != nil {
			rep := n.latestReport()
			s.node, s.gone = n.name, f.run.Presence(n.name).HasLeftRun()
			s.name = cmp.Or(rep.GetSourceNames()[uint32(src.ID)], s.name)
			for _, x := range rep.GetSourceLives() {
				if int(x.GetSource()) == src.ID && rep.GetRun() == f.run.Number() {
					s.life = x
				}
			}
		}
		out = append(out, s)
	}
	return out
}

// follows says that the source has a front-end that follows the run.
func (s sourceState) follows() bool { return !s.gone && s.life.GetAttached() && s.life.GetFollows() }

// judgeStart returns a clause on the sources that a start still waits for, empty if there is none; and the fault for
// which it waits no longer.
func judgeStart(sources []sourceState, waited time.Duration) (missing string, late *fault.Fault) {
	var clauses []string
	for _, s := range sources {
		if s.require == 0 || s.gone || s.life.GetArrived() || s.life.GetUntaken() { // it has sent all of its data already
			continue
		}
		clause, advice := s.whyNotReady()
		clauses = append(clauses, clause)
		if failed := s.life.GetFailed() != ""; late == nil && (failed || waited >= s.require) {
			evidence := fmt.Sprintf("the start waited %v for it, since the input has require", waited.Round(time.Second))
			late = &fault.Fault{
				Component: s.node,
				Subsystem: subsystemInput,
				What:      clause,
				Evidence:  evidence,
				Advice:    advice,
			}
		}
	}
	return strings.Join(clauses, ", "), late
}

// subsystemInput is the stable word for a node's input.
const subsystemInput = "input"

// whyNotReady is a clause on why a required source is not ready, and what to do.
func (s *sourceState) whyNotReady() (clause, advice string) {
	switch {
	case s.life.GetFailed() != "":
		return fmt.Sprintf("the front-end of %s is not ready for the run: %s", s.name, s.life.GetFailed()),
			"See to what it says, and start again."
	case s.life.GetAttached():
		return fmt.Sprintf("the front-end of %s is attached, and has not said that it is ready", s.name),
			"Look what it does, or let the start wait longer: require=2m."
	}
	return s.name + " has no front-end", "Start its front-end, and start the run again; or leave require out of the input."
}

// judgeMove returns a clause on the front-ends that follow the run and have not answered a command, or whose last
// fragments are not taken; empty if there is none.
func judgeMove(sources []sourceState, c nodev1.FrontendCommand) string {
	var names []string
	for _, s := range sources {
		arrived := s.life.GetArrived() && s.life.GetWanted() == c
		switch {
		case s.gone || arrived || s.life.GetFailed() != "":
		case s.life.GetUntaken():
			names = append(names, "the last fragments of "+s.name+" are not taken")
		case s.follows():
			names = append(names, "the front-end of "+s.name+" has not answered "+commandWord(c))
		}
	}
	return strings.Join(names, ", ")
}

// commandWord is the word for a command.
func commandWord(c nodev1.FrontendCommand) string { return live.Command(c).String() }

// commandSources tells the nodes of sources where the run wants a group of them, and keeps their answers. The error
// joins those of nodes that are not lost to the run.
func (f *frontends) commandSources(ctx context.Context, sources []runSource, c nodev1.FrontendCommand,
	of nodev1.SourceGroup) error {
	has := map[*member]bool{}
	for _, s := range sources {
		has[s.node] = true
	}
	lost := func(n *member) bool { return f.run.Presence(n.name).Lost }
	return f.run.forEach(untilGone(ctx, lost, func(ctx context.Context, n *member) error {
		if !has[n] {
			return nil
		}
		return n.retry(ctx, func() error {
			rep, err := n.client.Report(ctx, &nodev1.ReportRequest{
				Term:    n.term,
				Sources: &nodev1.SourceCommand{Run: f.run.Number(), Command: c, Group: of},
			})
			if err == nil {
				n.storeReport(rep)
			}
			return err
		})
	}))
}
