package node

import (
	"context"
	"errors"
	"sync/atomic"

	"google.golang.org/grpc"

	"ringlet/event/placing"
	nodev1 "ringlet/proto/ringlet/node/v1"
	"ringlet/shmem"
	"ringlet/tagnet"
	"ringlet/transport"
)

// component is a part of a session: a unit, or what units need beside them. It guards its state itself, and looks for
// no other component in the session. report, attachment and linkLost may be called at any time, by anybody.
type component interface {
	// start begins a run. Components start one after the other.
	start(ctx context.Context, run *runStart) error
	// stop ends the part in a run, in the reverse order: in good order, or, where it is given up, with a context that has
	// ended. It may be given up while a start or a stop hangs, and twice.
	stop(ctx context.Context, giveUp bool) error
	// free gives back what stays from run to run, in the order of start, when all have stopped for good.
	free()
	report(f *figures)
	attachment() attachment
	// linkLost takes that the link to a rank is down.
	linkLost(rank int)
}

// runStart is what components are told of a run that begins.
type runStart struct {
	*nodev1.CommandRequest

	attach func() (tagnet.Scope, []grpc.DialOption) // says how to attach to the scheduler
}

// attachment is how a component stands to the scheduler.
type attachment uint8

const (
	unattached attachment = iota // it does not attach, or has ended
	attached
	excluded // its builder unit is excluded now: it asks to come back, and may wait for that for ever
	detached // it hears no more of the scheduler
)

func isClosed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

// base is what the components of a session share.
type base struct {
	*assignment

	node     *process
	table    *shmem.Table
	endpoint *transport.Endpoint
	losses   losses
	closing  atomic.Bool // the session is taken down: nobody is to be told of faults any more
}

func (b *base) reportFault(subsystem string, err error) {
	if !b.closing.Load() {
		go b.node.reportFault(subsystem, err) // it ends the units, which cannot end while they wait for this call
	}
}

// signaler sends signals.
type signaler struct {
	*base
	kind  placing.Kind // put before each; 0: the sender has
	ranks []int        // of whom it is sent to, by their index; nil: the sender gives ranks
	// goesOn says of a rank which a signal does not reach that the run goes on without it: it is lost with it, and those
	// who must know are told otherwise.
	goesOn func(rank int) bool
}

func (g signaler) Signal(to int, payload []byte) error {
	if g.ranks != nil {
		to = g.ranks[to]
	}
	if g.kind != 0 {
		payload = append(append(make([]byte, 0, 1+len(payload)), byte(g.kind)), payload...)
	}
	if err := g.endpoint.Signal(to, payload); err != nil && !g.goesOn(to) {
		return err
	}
	return nil
}

// isExpendableReadout says so of a readout unit. The scheduler tells the units that it is gone.
func (a *assignment) isExpendableReadout(rank int) bool {
	return a.view.GetMembers()[rank].GetReadout() && a.isExpendable(rank)
}

// handlers are what takes the messages of links: each component enters what it takes.
type handlers struct {
	signals map[placing.Kind][]signalHandler
	// these are asked in turn, until one says that it was meant
	placed     []func(peer int, p transport.Placement) bool
	placedMany []func(peer int, ps []transport.Placement) bool
	completed  []func(peer int, cookie uint64, err error) bool
}

// signalHandler takes a signal. An error that is errNoSuchUnit says that another may be meant.
type signalHandler func(peer int, payload []byte) error

var errNoSuchUnit = errors.New("this node holds no such unit, or not now")

func (h *handlers) onSignal(kind placing.Kind, take signalHandler) {
	if h.signals == nil {
		h.signals = map[placing.Kind][]signalHandler{}
	}
	h.signals[kind] = append(h.signals[kind], take)
}

// signal hands a signal to who takes its kind.
func (h *handlers) signal(peer int, payload []byte) error {
	if len(payload) == 0 || placing.Kind(payload[0]) > placing.KindDecision || payload[0] == 0 {
		return placing.ErrBadMessage
	}
	for _, take := range h.signals[placing.Kind(payload[0])] {
		if err := take(peer, payload); !errors.Is(err, errNoSuchUnit) {
			return err
		}
	}
	return errNoSuchUnit
}

// forUnit makes a handler of a unit's method, for as long as the unit is there.
func forUnit[U any](unit *atomic.Pointer[U], take func(u *U, peer int, payload []byte) error) signalHandler {
	return func(peer int, payload []byte) error {
		if u := unit.Load(); u != nil {
			return take(u, peer, payload)
		}
		return errNoSuchUnit
	}
}

// whileThere makes a unit's method one of what is asked in turn, for as long as the unit is there.
func whileThere[U, A any](unit *atomic.Pointer[U], take func(u *U, peer int, what A)) func(peer int, what A) bool {
	return func(peer int, what A) bool {
		u := unit.Load()
		if u != nil {
			take(u, peer, what)
		}
		return u != nil
	}
}

// What follows is called by the receivers of links. What arrives goes to who takes it.

// Placed takes that bytes of a peer are in place.
func (s *session) Placed(peer int, p transport.Placement) {
	for _, take := range s.placed {
		if take(peer, p) {
			return
		}
	}
}

// PlacedMany is Placed for many.
func (s *session) PlacedMany(peer int, ps []transport.Placement) {
	for _, take := range s.placedMany {
		if take(peer, ps) {
			return
		}
	}
}

// Completed takes the outcome of a write to a peer.
func (s *session) Completed(peer int, cookie uint64, err error) {
	for _, take := range s.completed {
		if take(peer, cookie, err) {
			return
		}
	}
}

// Signal takes a signal of a peer.
func (s *session) Signal(peer int, payload []byte) {
	if err := s.signal(peer, payload); err != nil {
		s.counters.BadSignals.Add(1)
		s.node.log.Warn("a signal was not used", "peer", s.view.GetMembers()[peer].GetName(), "err", err)
	}
}

// Refused takes that a write of a peer was refused.
func (s *session) Refused(peer int, p transport.Placement, err error) {
	if ru, readout := s.ruByRank[peer]; readout && s.losses.isAbsent(ru) {
		s.counters.WritesLate.Add(1) // of a readout unit that was taken for gone before it was
		return
	}
	s.counters.WritesRefused.Add(1)
	s.node.log.Warn("refused a peer's write", "peer", s.view.GetMembers()[peer].GetName(), "window", p.Ref.Window,
		"offset", p.Offset, "length", p.Length, "err", err)
}

// Malformed takes that a datagram of a peer was not understood.
func (s *session) Malformed(peer int, err error) {
	s.counters.Malformed.Add(1)
	s.node.log.Warn("dropped a malformed datagram", "peer", s.view.GetMembers()[peer].GetName(), "err", err)
}
