package tagnet

import "ringlet/tagnet/core"

// Scheduler is what the run control needs of the scheduler of a view. A Remote is one.
type Scheduler interface {
	Pause() error
	Resume() error
	Drain(end uint64) error
	Abandon() error
	// ExcludeBU returns how many MEPs are issued again.
	ExcludeBU(name string) (reissued int, err error)
	// LoseBU is ExcludeBU for a unit that is known to be gone: readout units give up their writes to it at once.
	LoseBU(name string) (reissued int, err error)
	// ExcludeRU goes on without a readout unit: parts that have not come from it count as missing.
	ExcludeRU(name string) error
	// IncludeRU lets an excluded readout unit attach again with a new session, and take part from then on.
	IncludeRU(name string) error
	// IncludeBU lets an excluded unit come back; until then the registers say that it is excluded.
	IncludeBU(name string) error
	// ReadmitBU lets a lost unit come back as another process, which has its links.
	ReadmitBU(name string) error
	// ClearRegisters begins the high-water marks in Stats anew.
	ClearRegisters(user string) error
	// Trigger triggers events by hand.
	Trigger(count uint64) (taken int, err error)
	// SetSubstitute lets another node attach with the units of a node; an empty substitute, the node itself again.
	SetSubstitute(name, substitute string) error
	Stats() (core.Stats, error)
	// Drained is closed when every issued MEP has its outcome and no other will be issued.
	Drained() <-chan struct{}
	// Close ends the session with the scheduler.
	Close()
}

var _ Scheduler = (*Remote)(nil)
