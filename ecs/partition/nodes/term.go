package nodes

import (
	"fmt"
	"os"
	"time"

	"ringlet/ecs/partition/fault"
	nodev1 "ringlet/proto/ringlet/node/v1"
	"ringlet/tagnet"
)

// ClockTerm is the least number for the term of a control that starts now: the time in µs. It makes terms grow even for
// a control that keeps no records, since two starts are more than 1 µs apart.
func ClockTerm(now time.Time) uint64 { return uint64(max(1, now.UnixMicro())) }

// NewTerm is a term of that number, with this process as its holder.
func NewTerm(number uint64) tagnet.Term {
	host, err := os.Hostname()
	if err != nil {
		host = "a host without a name"
	}
	return tagnet.Term{Number: number, Holder: fmt.Sprintf("the control on %s, process %d", host, os.Getpid())}
}

func termMessage(t tagnet.Term) *nodev1.Term { return &nodev1.Term{Number: t.Number, Holder: t.Holder} }

// fencedObservation is the observation that a node refuses this control, since another control with a higher term has
// taken over. The component is this control, and not the node.
func fencedObservation(node string, f *tagnet.FencedError) fault.Observation {
	return fault.Observation{Kind: fault.SelfReported, Fault: fault.Fault{
		Component: ControlName,
		Subsystem: fault.SubsystemControl,
		What:      f.Error(),
		Evidence:  "told by " + node,
	}}
}
