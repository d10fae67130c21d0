package partition

import "time"

// Awaits is until when a step that begins now waits for members.
func (p *Partition) Awaits() time.Time { return p.awaits() }
