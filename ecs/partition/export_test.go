package partition

import (
	"time"

	"ringlet/ecs/partition/nodes"
)

// NodeSet is the nodes that take part.
func (p *Partition) NodeSet() *nodes.NodeSet { return p.currentState().nodeSet }

// Built is how many events the run that goes on has built.
func (p *Partition) Built() uint64 {
	run := p.currentState().run
	if run == nil || run.State().Begun.IsZero() {
		return 0
	}
	return run.Stats().Registers.GetCounters().GetEventsBuilt()
}

// Awaits is until when a step that begins now waits for members.
func (p *Partition) Awaits() time.Time { return p.members.joinDeadline() }

// InFlight is how many MEPs of the run that goes on are under way.
func (p *Partition) InFlight() uint64 {
	run := p.currentState().run
	if run == nil {
		return 0
	}
	return run.Stats().Registers.GetInFlight()
}

// What the tests of the package name beside what it exports.
const Recovery = recoveryUser

var (
	Allowance     = mayRecover
	SelectMembers = selectMembers
	Verdict       = recordVerdict
	LayOut        = layOut
	CheckRoles    = checkRoles
	MembersByRole = membersByRole
	Substitutes   = withSubstitutes
)

type Absent = absentNode
