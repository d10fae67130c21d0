package partition

import (
	"time"

	"ringlet/ecs/partition/nodes"
)

// Crew is the nodes that take part.
func (p *Partition) Crew() *nodes.Crew { return p.crewNow() }

// Awaits is until when a step that begins now waits for members.
func (p *Partition) Awaits() time.Time { return p.awaits() }
