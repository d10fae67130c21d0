package tagnet

import "ringlet/tagnet/core"

// Scheduler is what run control needs of the scheduler of a view, wherever that lives. A Remote is one.
type Scheduler interface {
	Pause() error
	Resume() error
	Drain(end uint64) error
	Abandon() error
	// ExcludeBU returns how many MEPs are issued again.
	ExcludeBU(name string) (reissued int, err error)
	// LoseBU is ExcludeBU for a unit that is known to be gone: what readout units have under way to it is over at once.
	LoseBU(name string) (reissued int, err error)
	// ExcludeRU goes on without a readout unit: what has not come from it is missing.
	ExcludeRU(name string) error
	// IncludeRU lets an excluded readout unit attach again with a new session, and take part from then on.
	IncludeRU(name string) error
	// IncludeBU lets an excluded unit come back; until it has, the registers say that it is excluded.
	IncludeBU(name string) error
	Stats() (core.Stats, error)
	// Drained is closed when every issued MEP has its outcome and no other will be issued.
	Drained() <-chan struct{}
	// Close ends the session with it.
	Close()
}

var _ Scheduler = (*Remote)(nil)
