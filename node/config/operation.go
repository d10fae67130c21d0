package config

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Words of the policies.
const (
	lossEssential  = "essential"
	lossExpendable = "expendable"
	recoveryNever  = "never"
)

// LossPolicy says how many units of a role may be lost.
type LossPolicy struct {
	MinUnits int // fewest units that must be left
	Text     string
}

// Tolerates says whether a run may go on with only remaining units.
func (l LossPolicy) Tolerates(remaining int) bool { return remaining >= l.MinUnits }

func (l LossPolicy) String() string { return l.Text }

// ParseLoss reads the policy for the loss of readout or builder units, of which there are units in all.
func ParseLoss(text string, units int) (LossPolicy, error) {
	l := LossPolicy{Text: text}
	words := strings.Fields(text)
	switch {
	case text == lossEssential:
		l.MinUnits = units
		return l, nil
	case text == lossExpendable:
		l.MinUnits = 1
		return l, nil
	case len(words) != 4 || words[0] != "at-least" || words[2] != "of":
		return l, fmt.Errorf("%q is no policy: write essential, at-least N of M, or expendable", text)
	}
	least, errN := strconv.Atoi(words[1])
	of, errM := strconv.Atoi(words[3])
	switch {
	case errN != nil || errM != nil || least < 1 || least > of:
		return l, fmt.Errorf("%q needs two numbers, the first from 1 to the second: at-least 3 of 4", text)
	case of != units:
		return l, fmt.Errorf("%q speaks of %d units, and there are %d", text, of, units)
	}
	l.MinUnits = least
	return l, nil
}

// RecoveryBound bounds automatic recovery.
type RecoveryBound struct {
	MaxTimes int // 0: never
	Within   time.Duration
}

// parseRecovery reads the bound.
func parseRecovery(text string) (RecoveryBound, error) {
	if text == recoveryNever {
		return RecoveryBound{}, nil
	}
	words := strings.Fields(text)
	if len(words) == 3 && words[1] == "in" {
		times, errN := strconv.Atoi(words[0])
		in, errD := time.ParseDuration(words[2])
		if errN == nil && errD == nil && times > 0 && in > 0 {
			return RecoveryBound{MaxTimes: times, Within: in}, nil
		}
	}
	return RecoveryBound{}, fmt.Errorf("%q is no bound: write never, or a number of times in a time, such as 3 in 10m",
		text)
}

// MemberNames lists the members in the order of ranks; nil if the configuration leaves them open. With roles the order
// is that of ranks once the configuration is completed.
func (c Operation) MemberNames() (names []string) {
	for _, m := range c.memberList() {
		names = append(names, m.name)
	}
	return names
}

// LossPolicies returns the policies for the loss of readout units and of builder units, as configured. The
// configuration must be completed.
func (c Config) LossPolicies() (readout, builder LossPolicy) {
	readout, _ = ParseLoss(c.ReadoutLoss, c.RUs)
	builder, _ = ParseLoss(c.BuilderLoss, c.BUs)
	return readout, builder
}

// RecoveryLimit returns the bound of automatic recovery. The configuration must be completed.
func (c Operation) RecoveryLimit() RecoveryBound {
	r, _ := parseRecovery(c.Recovery)
	return r
}

// checkOperation checks the settings of the partition.
func (c *draft) checkOperation() {
	names := c.MemberNames()
	for i, name := range names {
		switch {
		case name == "":
			c.add("members", "name %d is empty", i)
		case slices.Contains(names[:i], name):
			c.add("members", "two nodes are called %s", name)
		}
	}
	if len(names) > 0 && len(names) != c.Nodes && c.Nodes > 0 { // else the shape is not known
		c.add("members", "%d nodes are named, and the shape has %d", len(names), c.Nodes)
	}
	if len(names) > 0 && c.TagnetNode != "" && !slices.Contains(names, c.TagnetNode) {
		c.add("tagnet-node", "there is no node called %s: members are %s", c.TagnetNode, strings.Join(names, ", "))
	}
	if c.NodeMemory < 0 {
		c.add("node-memory", "%d is negative", int64(c.NodeMemory))
	}
	if _, err := ParseLoss(c.ReadoutLoss, c.RUs); err != nil {
		c.add("readout-loss", "%v", err)
	}
	if _, err := ParseLoss(c.BuilderLoss, c.BUs); err != nil {
		c.add("builder-loss", "%v", err)
	}
	if c.ControlLoss < 0 {
		c.add("control-loss", "%v is negative", c.ControlLoss)
	}
	if _, err := parseRecovery(c.Recovery); err != nil {
		c.add("recovery", "%v", err)
	}
}
