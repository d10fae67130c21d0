package partition

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"ringlet/ecs/partition/nodes"
	"ringlet/node/cluster"
	"ringlet/node/config"
	"ringlet/node/fsm"
)

// checks holds configurations against nodes, inputs and outputs, before anything is changed for them.
type checks struct {
	*members
	readingSlot chan struct{} // of one place: taken by whoever reads an input to check it
}

// completeConfiguration is a text with changes, over what the control was started with, completed.
func (c *checks) completeConfiguration(text string, settings []string) (config.Completed, error) {
	settings = slices.DeleteFunc(settings, func(s string) bool { return strings.TrimSpace(s) == "" })
	return compose(c.cfg.Default, text, settings)
}

// compose completes a configuration: one that is given to the run control, and one that is made of it for those who
// take part. A run that is not told when to end goes on until somebody stops it.
func compose(cfg config.Config, text string, settings []string) (config.Completed, error) {
	cfg.OpenEnded = true
	return cfg.Compose("configuration", []byte(text), settings)
}

// problemTexts are what is wrong with a configuration, by the error that says so.
func problemTexts(err error) (all []string) {
	var invalid *config.InvalidError
	if !errors.As(err, &invalid) {
		return []string{err.Error()}
	}
	for _, one := range invalid.Problems {
		all = append(all, one.String())
	}
	return all
}

// checkTimeout is how long a check may read an input, and a disk take to say whether an output can be written: less
// than clients wait. A load may take its own time to read an input.
const checkTimeout = 8 * time.Second

// checkMembers holds a configuration against the nodes that are present. Members that are not are left out, if the
// policies tolerate it.
func (c *checks) checkMembers(cfg config.Completed, present map[string]cluster.Member) error {
	names := cfg.MemberNames()
	absent := c.addUnjoined(nil, names, present)
	if less, there, err := selectMembers(cfg, names, absent); err == nil {
		cfg, names = less, there
	}
	if err := cfg.CheckNodes(c.memberFacts(present)); err != nil {
		return err
	}
	return c.checkWritable(cfg, names, present)
}

// checkConfiguration holds a configuration against the nodes that are present, and against its input, which is read for
// at most so long.
func (c *checks) checkConfiguration(
	ctx context.Context, cfg config.Completed, present map[string]cluster.Member, most time.Duration,
) error {
	if err := c.checkMembers(cfg, present); err != nil || cfg.Input == "" && cfg.FilterFile() == "" {
		return err
	}
	late := fmt.Errorf("that takes more than the %v which are given to it here", most)
	ctx, cancel := context.WithTimeoutCause(ctx, most, late)
	defer cancel()
	select {
	case c.readingSlot <- struct{}{}: // one at a time, so that many who ask take no more memory and time than one
	case <-ctx.Done():
		return fmt.Errorf("%s was not read, since others are read before it: %w", cfg.Input, context.Cause(ctx))
	}
	defer func() { <-c.readingSlot }()
	return nodes.CheckFiles(ctx, cfg, c.cfg.AllowedInputs)
}

// memberFacts of the nodes that are present, for the check of a configuration: those of a NodeSet have said what they
// have, others are asked.
func (c *checks) memberFacts(present map[string]cluster.Member) []config.NodeFacts {
	known := map[string]config.NodeFacts{}
	nodeSet := c.currentState().nodeSet
	if nodeSet != nil {
		for _, f := range nodeSet.Facts() {
			known[f.Name] = f
		}
	}
	var strangers []cluster.Member
	units := cluster.UnitNames(present)
	for _, name := range units {
		if _, ok := known[name]; !ok {
			strangers = append(strangers, present[name])
		}
	}
	ctx, cancel := context.WithTimeout(c.ctx, c.timeoutFor(factsTimeout))
	defer cancel()
	for _, f := range nodes.RequestFacts(ctx, c.cfg.Identity, c.cfg.Term, strangers) {
		known[f.Name] = f
	}
	facts := []config.NodeFacts{}
	for _, name := range units {
		f, ok := known[name]
		if !ok {
			f.Name = name // it does not answer now: nothing is refused for that
		}
		facts = append(facts, f)
	}
	return facts
}

// factsTimeout is how long nodes may take to say what they have.
const factsTimeout = 2 * time.Second

// checkWritable says why the members of a configuration that are present cannot write its output.
func (c *checks) checkWritable(cfg config.Completed, names []string, present map[string]cluster.Member) error {
	if names == nil {
		names = cluster.UnitNames(present)
	}
	var members []cluster.Member
	for _, name := range names {
		if m, there := present[name]; there {
			members = append(members, m)
		}
	}
	ctx, cancel := context.WithTimeout(c.ctx, c.timeoutFor(checkTimeout))
	defer cancel()
	return nodes.CheckOutputAt(ctx, c.cfg.Identity, c.cfg.Term, cfg, members)
}

// outputCheck is what the nodes of a NodeSet said of the output when a start was asked for.
type outputCheck struct {
	nodeSet         *nodes.NodeSet // nil: nobody was asked
	lastRecordedRun uint32         // the highest number of a run that is recorded there
}

// mayStart refuses a start whose output cannot be written: a refusal costs nothing, and an error in the middle of a
// start a recovery.
func (c *checks) mayStart(ctx context.Context, state fsm.State) error {
	nodeSet := c.currentState().nodeSet
	if nodeSet == nil {
		return nil
	}
	last, err := c.checkOutput(ctx, nodeSet)
	if err != nil {
		return preconditionError(state, fsm.Start.String(), err.Error())
	}
	c.updateState(func(s *partitionState) { s.outputCheck = outputCheck{nodeSet, last} })
	return nil
}

// checkOutput asks the nodes whether they can write the output, and for the number of the last run there. Where room is
// short, it says so.
func (c *checks) checkOutput(ctx context.Context, nodeSet *nodes.NodeSet) (last uint32, err error) {
	ctx, cancel := context.WithTimeout(ctx, c.timeoutFor(checkTimeout))
	defer cancel()
	last, short, err := nodeSet.CheckOutput(ctx, 0)
	for _, what := range short {
		c.publishf(severityWarning, "output", partitionComponent, "%s", what)
	}
	return last, err
}
