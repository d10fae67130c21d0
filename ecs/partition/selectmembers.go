package partition

import (
	"fmt"
	"slices"
	"strings"

	"ringlet/ecs/partition/fault"
	"ringlet/node/config"
)

// absentNode is a member that takes no part, and why.
type absentNode struct {
	Name string
	Why  string // a clause: "it was excluded", "it has not joined"
}

// A tooFewUnitsError is too few units for a run: the policies do not tolerate it.
type tooFewUnitsError struct {
	Absent  []absentNode
	Problem config.Problem
}

func (e *tooFewUnitsError) Error() string { return e.Unwrap().Error() }

// Unwrap is the same as a problem of the configuration, which could ask for less.
func (e *tooFewUnitsError) Unwrap() error {
	return &config.InvalidError{Problems: []config.Problem{e.Problem}}
}

// asFault is the same as a fault of those who are absent.
func (e *tooFewUnitsError) asFault() *fault.Error {
	var names, why []string
	for _, a := range e.Absent {
		names, why = append(names, a.Name), append(why, a.Name+": "+a.Why)
	}
	return &fault.Error{Fault: fault.Fault{
		Component: strings.Join(names, ", "),
		What:      "no run can begin without it: " + e.Problem.Reason,
		Evidence:  strings.Join(why, "; "),
		Advice:    absentAdvice,
	}}
}

// absentAdvice is what to do where members are absent.
const absentAdvice = "Start a process for each that is absent, or include it again; or load a policy that does " +
	"without it."

// selectMembers decides who takes part: the members of a configuration less those that are absent, if the policies
// tolerate it. It returns the configuration for those who are there, with their names, or an error that names the
// policy. Names are all members, in the order of ranks.
func selectMembers(c config.Completed, names []string, absent []absentNode) (config.Completed, []string, error) {
	if len(absent) == 0 {
		return c, names, nil
	}
	out := map[string]string{}
	for _, a := range absent {
		out[a.Name] = a.Why
	}
	readout, builder := c.LossPolicies()
	var there []string
	rus, bus := 0, 0
	for rank, role := range c.Roles() {
		if out[names[rank]] != "" {
			continue
		}
		there = append(there, names[rank])
		if role.RU != config.NoUnit {
			rus++
		}
		if role.BU != config.NoUnit {
			bus++
		}
	}
	why := make([]string, 0, len(absent))
	for _, a := range absent {
		why = append(why, a.Name+": "+a.Why)
	}
	switch {
	case rus < c.RUs && !readout.Tolerates(rus):
		return c, nil, &tooFewUnitsError{absent, config.Problem{Key: "readout-loss", Reason: fmt.Sprintf(
			"%d of %d readout units are there, and the policy is %s (%s)", rus, c.RUs, readout, strings.Join(why, "; "))}}
	case bus < c.BUs && !builder.Tolerates(bus):
		return c, nil, &tooFewUnitsError{absent, config.Problem{Key: "builder-loss", Reason: fmt.Sprintf(
			"%d of %d builder units are there, and the policy is %s (%s)", bus, c.BUs, builder, strings.Join(why, "; "))}}
	}
	less := c.Config
	less.Nodes, less.RUs, less.BUs = len(there), rus, bus
	less.Members = strings.Join(there, ",")
	less.ReadoutLoss, less.BuilderLoss = rewritePolicy(c.ReadoutLoss, readout, rus), rewritePolicy(c.BuilderLoss, builder,
		bus)
	if less.TagnetNode != "" && !slices.Contains(there, less.TagnetNode) {
		less.TagnetNode = ""
	}
	if less.DecisionNode != "" && !slices.Contains(there, less.DecisionNode) {
		less.DecisionNode, less.DecisionTimeout, less.DecisionOutput = "", 0, ""
	}
	fewer, err := compose(less, "", nil)
	if err != nil {
		return c, nil, fmt.Errorf("without %s: %w", strings.Join(why, "; "), err)
	}
	return fewer, there, nil
}

// rewritePolicy is a policy for fewer units: the same number must be there.
func rewritePolicy(text string, l config.LossPolicy, units int) string {
	if strings.HasPrefix(text, "at-least") {
		return fmt.Sprintf("at-least %d of %d", l.MinUnits, units)
	}
	return text
}
