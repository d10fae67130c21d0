package diagnosis

import (
	"fmt"
	"time"

	ecsv1 "ringlet/proto/ringlet/ecs/v1"
)

// Rule is the rule of one alarm.
type Rule struct {
	ID       string
	Severity ecsv1.Severity
	When     string        // the condition, for the manual
	Advice   string        // what to do, one sentence
	Hold     time.Duration // how long the condition must hold

	find   func(*view) findings
	advise func(v *view, component string) string // a more precise advice, or empty; nil: there is none
}

// finding is a component for which the condition of a rule holds now.
type finding struct {
	component string
	what      string // one sentence
}

type findings []finding

// add adds a finding.
func (f *findings) add(component, format string, args ...any) {
	*f = append(*f, finding{component, fmt.Sprintf(format, args...)})
}

// Severities, in short.
const (
	severityInfo    = ecsv1.Severity_SEVERITY_INFO
	severityWarning = ecsv1.Severity_SEVERITY_WARNING
	severityError   = ecsv1.Severity_SEVERITY_ERROR
)

// Rules are all rules, in the order of the manual: those of the partition first, those of a machine last.
func Rules() []Rule {
	var all []Rule
	for _, some := range [][]Rule{componentRules(), eventRules(), schedulerRules(), sourceRules(), readoutRules(),
		builderRules(), networkRules(), machineRules()} {
		all = append(all, some...)
	}
	return all
}
