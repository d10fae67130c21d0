package control

import "ringlet/tagnet"

// Scheduler is TagNet as a run needs it, wherever it lives: *tagnet.Server in this process.
type Scheduler interface {
	Pause() error
	Resume() error
	Drain(end uint64)
	Abandon() (meps int)
	ExcludeBU(name string) (reissued int, err error)
	IncludeBU(name string) error
	Stats() tagnet.Stats
	Drained() <-chan struct{}
	Close()
}
