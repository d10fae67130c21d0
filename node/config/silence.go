package config

import (
	"cmp"
	"time"
)

// Bounds of the setting silence. A process of a busy host is late by some tenths of a second. The end of a run waits
// 30 s where nothing moves, and hears of a lost node before; TCP gives a silent connection up after about 14 s.
const (
	minSilence     = 2 * time.Second
	defaultSilence = 5 * time.Second // also of a configuration that was stored before there was the setting
	maxSilence     = 12 * time.Second
)

// Timeouts are how long the parts of a partition wait for somebody who is silent. All follow from the setting silence.
type Timeouts struct {
	// Link is when a link of which nothing arrives is given up, at the latest; it asks for answers six times in it.
	Link time.Duration
	// StuckLink is the same for a link whose connection lives, and that carries no data. A path that has become narrow
	// needs seconds, so it is never short.
	StuckLink time.Duration
	// Barrier is how long readout units wait there for one another. Their links may live, so it is never short.
	Barrier time.Duration
	// Resume is how long the stream of a unit may be broken: shorter than the barrier, at which readout units wait for one
	// whose tokens are late.
	Resume time.Duration
	// Confirm is how long a unit that ends waits for acknowledgements, and a command is repeated at least: by then a
	// stream that has just broken is resumed, or never will be.
	Confirm time.Duration
	// Recall is how long the successor of a scheduler waits for each unit. A unit that is there needs up to a second on a
	// busy machine, so it is never short.
	Recall time.Duration
	// Successor is how long a unit waits at least for the successor of its scheduler: until a control has taken the silent
	// node for lost, also over a connection that it believes sound for 15 s.
	Successor time.Duration
	// Include is how long an excluded builder unit waits for writes under way, and may take to come back: a write has its
	// outcome before, or its link the end.
	Include time.Duration
	// Report is the time between two reports of a node.
	Report time.Duration
	// Missed is the age of a last report from which a node counts as silent where the control seeks a cause. When links to
	// a silent node are given up, it is over.
	Missed time.Duration
	// Witness is how long the control waits for the other end of a broken link to speak: both give it up in that time.
	Witness time.Duration
	// Aftermath is how long links break because of a silence that is over.
	Aftermath time.Duration
	// Control is how long the control does not hear a node before it takes it for lost: longer than links do, since
	// building does not need the control.
	Control time.Duration
}

// Timeouts are those of the setting silence.
func (c Operation) Timeouts() Timeouts {
	silence := cmp.Or(c.Silence, defaultSilence)
	resume := silence * 3 / 5
	return Timeouts{
		Link:      silence,
		StuckLink: max(15*time.Second, 3*silence),
		Barrier:   max(5*time.Second, silence),
		Resume:    resume,
		Confirm:   resume + time.Second,
		Recall:    max(3*time.Second, resume),
		Successor: max(30*time.Second, 4*silence),
		Include:   silence + 3*time.Second,
		Report:    min(500*time.Millisecond, silence/10),
		Missed:    silence * 2 / 5,
		Witness:   silence,
		Aftermath: 2 * silence,
		Control:   2 * silence,
	}
}

// resolveSilence checks the setting silence, and fills in what follows from it.
func resolveSilence(c *draft) {
	c.Silence = cmp.Or(c.Silence, defaultSilence)
	if c.Silence < minSilence || c.Silence > maxSilence {
		c.add("silence", "%v is not between %v and %v", c.Silence, minSilence, maxSilence)
	}
	if c.Debug.BarrierTimeout = cmp.Or(c.Debug.BarrierTimeout, c.Timeouts().Barrier); c.Debug.BarrierTimeout < 0 {
		c.add("debug.barrier-timeout", "%v is not a time to wait", c.Debug.BarrierTimeout)
	}
}
