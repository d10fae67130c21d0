package node

import (
	"context"
	"errors"
	"sync/atomic"
	"time"

	"google.golang.org/grpc"

	"ringlet/event/placing"
	"ringlet/node/config"
	nodev1 "ringlet/proto/ringlet/node/v1"
	"ringlet/shmem"
	"ringlet/tagnet"
	"ringlet/transport"
)

// component is a part of a session: a unit, or a service that units need. It guards its own state, and uses no other
// component of the session. Any goroutine may call report, attachment and linkLost at any time.
type component interface {
	// start begins a run. Components start one after the other.
	start(ctx context.Context, run *runStart) error
	// stop ends the component's part in a run, in reverse order: in good order, or, with giveUp, at once and with a
	// context that has ended. A stop with giveUp may come while start or stop hangs, and twice.
	stop(ctx context.Context, giveUp bool) error
	// free frees what stays from run to run, in the order of start, after the last stop.
	free()
	report(f *figures)
	attachment() attachment
	// linkLost handles that the link to a rank is down.
	linkLost(rank int)
}

// runStart is what components get of a run that begins.
type runStart struct {
	*nodev1.CommandRequest

	// attach returns how to attach to the scheduler, or, after the loss of one, to its successor.
	attach func() (address string, scope tagnet.Scope, opts []grpc.DialOption)
}

// successorTimeout is how long a unit waits for a successor: a control that comes back makes one. If none comes, the
// lease ends the run in good order before the unit gives it up.
func successorTimeout(cfg *config.Completed) time.Duration {
	return max(cfg.Timeouts().Successor, cfg.ControlLoss+leaseGrace+lingerTimeout)
}

// session is a unit's session with the scheduler.
type schedulerSession interface {
	SetResumeTimeout(time.Duration)
	MoveTo(target string, opts ...grpc.DialOption) (moved bool, err error)
}

// setResumeTimeout has a session wait as long as the scheduler does, or for a successor of it, if there may be one.
func (r *runStart) setResumeTimeout(s schedulerSession, cfg *config.Completed) {
	timeout := cfg.Timeouts().Resume
	if r.GetTagnetName() != "" {
		timeout = max(timeout, successorTimeout(cfg))
	}
	s.SetResumeTimeout(timeout)
}

// goOn has a session go on with the successor of its scheduler.
func (r *runStart) goOn(s schedulerSession) error {
	address, _, opts := r.attach()
	_, err := s.MoveTo(address, opts...)
	return err
}

// attachment is a component's relation to the scheduler.
type attachment uint8

const (
	unattached attachment = iota // it never attaches, or has ended
	attached
	excluded // its builder unit is excluded and asks to come back, perhaps in vain
	detached // its session with the scheduler is over
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
	closing  atomic.Bool // the session is being removed: faults are no longer reported
}

func (b *base) reportFault(subsystem string, err error) {
	if !b.closing.Load() {
		go b.node.reportFault(subsystem, err) // the fault ends the units, which cannot end while they wait for this call
	}
}

// signaler sends signals.
type signaler struct {
	*base
	kind  placing.Kind // prefix of each signal; 0: the sender adds it
	ranks []int        // ranks by the index that the sender passes; nil: the sender passes ranks
	// goesOn tells whether the run goes on without a rank that a signal does not reach: the signal is lost with the rank,
	// and the link reports the loss.
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

// isExpendableReadout tells so for a readout unit. The scheduler tells the units that it is gone.
func (a *assignment) isExpendableReadout(rank int) bool {
	return a.view.GetMembers()[rank].GetReadout() && a.isExpendable(rank)
}

// handlers are the handlers of messages from links; each component adds its own.
type handlers struct {
	signals map[placing.Kind][]signalHandler
	// called in turn, until one returns true: the message was for it
	placed     []func(peer int, p transport.Placement) bool
	placedMany []func(peer int, ps []transport.Placement) bool
	completed  []func(peer int, cookie uint64, err error) bool
}

// signalHandler handles a signal. With errNoSuchUnit the next handler of the kind gets the signal.
type signalHandler func(peer int, payload []byte) error

var errNoSuchUnit = errors.New("this node has no such unit now")

func (h *handlers) onSignal(kind placing.Kind, take signalHandler) {
	if h.signals == nil {
		h.signals = map[placing.Kind][]signalHandler{}
	}
	h.signals[kind] = append(h.signals[kind], take)
}

// signal passes a signal to the handlers of its kind.
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

// forUnit makes a handler from a unit's method; it handles signals while the unit exists.
func forUnit[U any](unit *atomic.Pointer[U], take func(u *U, peer int, payload []byte) error) signalHandler {
	return func(peer int, payload []byte) error {
		if u := unit.Load(); u != nil {
			return take(u, peer, payload)
		}
		return errNoSuchUnit
	}
}

// whileThere makes a handler that is called in turn from a unit's method; it handles messages while the unit exists.
func whileThere[U, A any](unit *atomic.Pointer[U], take func(u *U, peer int, what A)) func(peer int, what A) bool {
	return func(peer int, what A) bool {
		u := unit.Load()
		if u != nil {
			take(u, peer, what)
		}
		return u != nil
	}
}

// The receivers of links call the methods below, which pass each message to its handler.

// Placed handles that bytes of a peer are in place.
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

// Completed handles the outcome of a write to a peer.
func (s *session) Completed(peer int, cookie uint64, err error) {
	for _, take := range s.completed {
		if take(peer, cookie, err) {
			return
		}
	}
}

// Signal handles a signal of a peer.
func (s *session) Signal(peer int, payload []byte) {
	if err := s.signal(peer, payload); err != nil {
		s.counters.BadSignals.Add(1)
		s.node.log.Warn("no unit of this node could use a signal", "peer", s.view.GetMembers()[peer].GetName(), "err", err)
	}
}

// Refused handles that a write of a peer was refused.
func (s *session) Refused(peer int, p transport.Placement, err error) {
	if ru, readout := s.ruByRank[peer]; readout && s.losses.isAbsent(ru) {
		s.counters.WritesLate.Add(1) // a write that the readout unit began before the scheduler reported it as gone
		return
	}
	s.counters.WritesRefused.Add(1)
	s.node.log.Warn("refused a peer's write", "peer", s.view.GetMembers()[peer].GetName(), "window", p.Ref.Window,
		"offset", p.Offset, "length", p.Length, "err", err)
}

// Malformed handles that a datagram of a peer could not be decoded.
func (s *session) Malformed(peer int, err error) {
	s.counters.Malformed.Add(1)
	s.node.log.Warn("dropped a malformed datagram", "peer", s.view.GetMembers()[peer].GetName(), "err", err)
}
