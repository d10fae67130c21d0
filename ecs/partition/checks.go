package partition

import (
	"cmp"
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

// checks tests configurations against nodes, inputs and outputs, before a command changes anything.
type checks struct {
	*members
	readingSlot chan struct{} // capacity 1: the goroutine that reads an input to check it has put its element in
}

// completeConfiguration completes a configuration: a text with changed settings, over the defaults of the control.
func (c *checks) completeConfiguration(text string, settings []string) (config.Completed, error) {
	settings = slices.DeleteFunc(settings, func(s string) bool { return strings.TrimSpace(s) == "" })
	cfg := c.cfg.Default
	cfg.JoinedMembers = membersByRole(c.cfg.Members.ByName())
	return compose(cfg, text, settings)
}

// compose completes a configuration that a client gives, or one that is derived from it for the nodes that take part. A
// run without events or duration goes on until a user stops it.
func compose(cfg config.Config, text string, settings []string) (config.Completed, error) {
	cfg.OpenEnded = true
	return cfg.Compose("configuration", []byte(text), settings)
}

// problemTexts are the problems of a configuration that an error lists, or the error's text.
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

// checkTimeout bounds how long a check may read an input, and nodes take to test an output: less than clients wait.
// Load has a longer time to read an input.
const checkTimeout = 8 * time.Second

// checkMembers tests a configuration against the nodes that are present. It leaves absent members out, if the loss
// policies tolerate that.
func (c *checks) checkMembers(cfg config.Completed, present map[string]cluster.Member) error {
	names := cfg.MemberNames()
	absent := c.addUnjoined(nil, names, present)
	if less, there, err := selectMembers(cfg, names, absent); err == nil {
		cfg, names = less, there
	}
	facts := c.memberFacts(present)
	var err error
	if names != nil {
		err = checkRoles(&cfg, names, present)
	} else if len(facts) >= cfg.Nodes { // else CheckNodes says so
		names, err = layOut(&cfg, present)
	}
	if err != nil {
		return err
	}
	slices.SortStableFunc(facts, func(a, b config.NodeFacts) int {
		return compareRanks(slices.Index(names, a.Name), slices.Index(names, b.Name))
	})
	if err := cfg.CheckNodes(facts); err != nil {
		return err
	}
	return c.checkWritable(cfg, names, present)
}

// compareRanks orders ranks; -1, of a node that is no member, comes last.
func compareRanks(a, b int) int { return cmp.Compare(uint(a), uint(b)) }

// checkConfiguration tests a configuration against the nodes that are present and against its input, which it reads for
// at most the given time.
func (c *checks) checkConfiguration(
	ctx context.Context, cfg config.Completed, present map[string]cluster.Member, most time.Duration,
) error {
	if err := c.checkMembers(cfg, present); err != nil || cfg.Input == "" && cfg.FilterFile() == "" {
		return err
	}
	late := fmt.Errorf("that takes longer than the %v that are allowed here", most)
	ctx, cancel := context.WithTimeoutCause(ctx, most, late)
	defer cancel()
	select {
	case c.readingSlot <- struct{}{}: // one at a time, so that many clients take no more memory and time than one
	case <-ctx.Done():
		return fmt.Errorf("%s was not read, since other inputs were being read: %w", cfg.Input, context.Cause(ctx))
	}
	defer func() { <-c.readingSlot }()
	return nodes.CheckFiles(ctx, cfg, c.cfg.AllowedInputs)
}

// memberFacts are the facts of the nodes that are present, for Config.CheckNodes. Nodes of the NodeSet have reported
// theirs; the others are asked.
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
			f.Name = name // a node that does not answer now is no reason to refuse
		}
		facts = append(facts, f)
	}
	return facts
}

// factsTimeout bounds how long nodes may take to report their facts.
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

// outputCheck is the result of the test of the output before a start.
type outputCheck struct {
	nodeSet         *nodes.NodeSet // the nodes that were asked; nil: none were
	lastRecordedRun uint32         // the highest number of a run that the output holds
}

// mayStart refuses a start whose output cannot be written: a refusal costs nothing, but an error in the middle of a
// start costs a recovery.
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

// checkOutput asks the nodes whether they can write the output, and for the number of the last run there. It publishes
// a warning for each node with little room.
func (c *checks) checkOutput(ctx context.Context, nodeSet *nodes.NodeSet) (last uint32, err error) {
	ctx, cancel := context.WithTimeout(ctx, c.timeoutFor(checkTimeout))
	defer cancel()
	last, short, err := nodeSet.CheckOutput(ctx, 0)
	for _, what := range short {
		c.publishf(severityWarning, "output", partitionComponent, "%s", what)
	}
	return last, err
}
