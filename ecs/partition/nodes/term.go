package nodes

import (
	"fmt"
	"os"
	"time"

	"ringlet/ecs/partition/fault"
	nodev1 "ringlet/proto/ringlet/node/v1"
	"ringlet/tagnet"
)

// ClockTerm is the least number that the term of a control which begins now may have. By it alone terms grow for a
// control that keeps no record: it takes more than a µs to start one.
func ClockTerm(now time.Time) uint64 { return uint64(max(1, now.UnixMicro())) }

// NewTerm is a term of that number, held by this process.
func NewTerm(number uint64) tagnet.Term {
	host, err := os.Hostname()
	if err != nil {
		host = "a host without a name"
	}
	return tagnet.Term{Number: number, Holder: fmt.Sprintf("the control on %s, process %d", host, os.Getpid())}
}

func termMessage(t tagnet.Term) *nodev1.Term { return &nodev1.Term{Number: t.Number, Holder: t.Holder} }

// fencedObservation says of a node's word that another control has taken over. It is this control that is at fault:
// what it has begun goes on without it.
func fencedObservation(node string, f *tagnet.FencedError) fault.Observation {
	return fault.Observation{Kind: fault.SelfReported, Fault: fault.Fault{
		Component: ControlName,
		Subsystem: fault.SubsystemControl,
		What:      f.Error(),
		Evidence:  "told by " + node,
	}}
}
