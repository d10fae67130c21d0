package tagnet

// Scheduler is what run control needs of the scheduler of a view, wherever that lives: Local in this process, Remote on a node.
type Scheduler interface {
	Pause() error
	Resume() error
	Drain(end uint64) error
	Abandon() error
	// ExcludeBU returns how many MEPs are issued again.
	ExcludeBU(name string) (reissued int, err error)
	// LoseBU is ExcludeBU for a unit that is known to be gone: what readout units have under way to it is over at once.
	LoseBU(name string) (reissued int, err error)
	// IncludeBU lets an excluded unit come back; until it has, the registers say that it is excluded.
	IncludeBU(name string) error
	Stats() (Stats, error)
	// Drained is closed when every issued MEP has its outcome and no other will be issued.
	Drained() <-chan struct{}
	// Close ends a Local scheduler, and only the conversation with a Remote one.
	Close()
}

// Local is a Server as a Scheduler.
type Local struct{ *Server }

// Drain issues no new MEP from end on; see Server.Drain.
func (l Local) Drain(end uint64) error {
	l.Server.Drain(end)
	return nil
}

// Abandon ends the view at once; see Server.Abandon.
func (l Local) Abandon() error {
	l.Server.Abandon()
	return nil
}

// Stats reads all figures at once.
func (l Local) Stats() (Stats, error) { return l.Server.Stats(), nil }

var (
	_ Scheduler = Local{}
	_ Scheduler = (*Remote)(nil)
)
