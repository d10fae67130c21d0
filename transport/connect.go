package transport

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"ringlet/shmem"
	"ringlet/transport/link"
)

// redialInterval is how long to wait before dialling a peer again that is not there yet.
const redialInterval = 50 * time.Millisecond

// Connect makes the links to the given ranks: this node dials those above its own and awaits the others. Reconnect is
// the same for a process that takes the place of one which the others had links to: it dials all of them. Both return
// when all are up, or with an error that names those that are not. While the endpoint is open, strangers are turned
// away and counted. A peer that is not there yet, or is still in another view, is dialled again until ctx is done; one
// that refuses this node for another reason ends the call at once. One of the two is called, once.
func (e *Endpoint) Connect(ctx context.Context, ranks []int) error {
	return e.connect(ctx, ranks, func(rank int) bool { return rank > e.cfg.Rank })
}

// Reconnect is Connect for a node that comes back. Whoever does not know yet that the process before it is gone is
// dialled again.
func (e *Endpoint) Reconnect(ctx context.Context, ranks []int) error {
	return e.connect(ctx, ranks, func(int) bool { return true })
}

func (e *Endpoint) connect(ctx context.Context, ranks []int, dials func(rank int) bool) error {
	for _, r := range ranks {
		if r < 0 || r >= len(e.peers) || r == e.cfg.Rank {
			return fmt.Errorf("rank %d cannot link to rank %d in view %d of %d members", e.cfg.Rank, r, e.cfg.View.Number,
				len(e.peers))
		}
	}
	up := make(chan int, len(e.peers))
	e.mu.Lock()
	if e.closed || e.connecting {
		e.mu.Unlock()
		return fmt.Errorf("rank %d cannot connect twice, or when it is closed: %w", e.cfg.Rank, ErrClosed)
	}
	e.connecting = true
	e.wg.Go(func() { e.accept(ranks, up) })
	e.mu.Unlock()
	dialled, cancel := context.WithCancel(ctx)
	defer cancel()
	failed := make(chan error, len(ranks))
	var wg sync.WaitGroup
	defer wg.Wait()
	defer cancel()
	for _, r := range ranks {
		if dials(r) {
			wg.Go(func() {
				if err := e.dial(dialled, r); err != nil {
					failed <- err
					return
				}
				up <- r
			})
		}
	}
	for missing := len(ranks); missing > 0; missing-- {
		select {
		case <-up:
		case err := <-failed:
			return err
		case <-ctx.Done():
			return fmt.Errorf("view %d: no link to %s: %w", e.cfg.View.Number, e.unlinkedNames(ranks), context.Cause(ctx))
		case <-e.ctx.Done():
			return ErrClosed
		}
	}
	return nil
}

func (e *Endpoint) unlinkedNames(ranks []int) string {
	var names []string
	for _, r := range ranks {
		if e.peers[r].Load() == nil {
			names = append(names, e.cfg.View.Members[r].Name)
		}
	}
	slices.Sort(names)
	return strings.Join(names, ", ")
}

func (e *Endpoint) newHello(max int) hello {
	return hello{
		version:     link.Version,
		view:        e.cfg.View.Number,
		maxDatagram: max,
		credit:      link.DefaultCredit,
		seqWindow:   link.DefaultSeqWindow,
		carriers:    e.usableCarriers(),
	}
}

// usableCarriers are those that this node would use for some peer.
func (e *Endpoint) usableCarriers() carrierSet {
	if e.cfg.Carrier == CarrierAuto {
		return newCarrierSet(CarrierLocal, e.cfg.AutoNetwork)
	}
	return newCarrierSet(e.cfg.Carrier)
}

// anyDatagramSize lets the carrier decide on the size of datagrams; the hello's answer has the true one.
const anyDatagramSize = 1<<16 - 1

func (e *Endpoint) dial(ctx context.Context, rank int) error {
	m := e.cfg.View.Members[rank]
	for {
		h, memory, err := e.newDialHello(rank)
		if err != nil {
			return err
		}
		conn, answer, err := e.cfg.Network.Dial(ctx, m.Name, m.Addr, h.marshal())
		if err == nil {
			return e.finishDial(ctx, rank, conn, answer, memory)
		}
		memory.discard()
		if isFinalDialError(err) || ctx.Err() != nil {
			return fmt.Errorf("dialling %s at %s: %w", m.Name, m.Addr, err)
		}
		e.log.Debug("peer is not ready, dialling again", "peer", m.Name, "err", err)
		select {
		case <-time.After(redialInterval):
		case <-ctx.Done():
			return fmt.Errorf("dialling %s at %s: %w", m.Name, m.Addr, err)
		}
	}
}

// isFinalDialError reports whether dialling again would end in the same way.
func isFinalDialError(err error) bool {
	var refused *PeerRefusedError
	var handshake *HandshakeError
	return errors.As(err, &refused) && refused.Code != RefuseView || errors.As(err, &handshake) ||
		errors.Is(err, ErrClosed)
}

func (e *Endpoint) finishDial(ctx context.Context, rank int, conn Conn, answer []byte, memory *memoryEngine) error {
	theirs, err := parseHello(answer)
	if err == nil {
		var agreed hello
		if agreed, err = e.newHello(conn.MaxDatagram()).negotiate(theirs); err == nil {
			if agreed.carriers.preferred() == CarrierLocal {
				return e.finishJoin(conn, theirs.extension, memory)
			}
			memory.discard()
			return e.install(ctx, rank, conn, agreed, true)
		}
	}
	memory.discard()
	_ = conn.Close(err.Error())
	return fmt.Errorf("hello of %s: %w", conn.Peer(), err)
}

// upgradeConn makes the connection the carrier that both ends have agreed on, and takes over what suits it.
func (e *Endpoint) upgradeConn(ctx context.Context, conn Conn, h *hello, dialler bool, damage *Damager) (Conn, error) {
	c := h.carriers.preferred()
	up, ok := conn.(Upgrader)
	if !ok {
		if c == CarrierQUICGo {
			return conn, nil // the network's own datagrams
		}
		return nil, fmt.Errorf("the network cannot carry %v", c)
	}
	ctx, cancel := context.WithTimeout(ctx, max(upgradeTimeout, e.cfg.MinTimeout))
	defer cancel()
	better, err := up.Upgrade(ctx, Upgrade{Carrier: c, Dialler: dialler, Damage: damage})
	if err != nil {
		return nil, fmt.Errorf("making the connection to %s carry %v: %w", conn.Peer(), c, err)
	}
	if c != CarrierQUICGo {
		h.maxDatagram = better.MaxDatagram()
	}
	return better, nil
}

// upgradeTimeout bounds how long both ends may take to set up a carrier: a few round trips, on a busy machine.
const upgradeTimeout = 10 * time.Second

// install starts the link.
func (e *Endpoint) install(ctx context.Context, rank int, conn Conn, h hello, dialler bool) error {
	damage := newDamager(e.cfg.Damage, e.cfg.DropSeed+uint64(rank))
	better, err := e.upgradeConn(ctx, conn, &h, dialler, damage)
	if err != nil {
		_ = conn.Close(err.Error())
		return err
	}
	sizes := Sizes{}
	if s, ok := better.(sizedConn); ok {
		sizes = s.Sizes()
	}
	credit, ring := cmp.Or(sizes.Credit, h.credit), cmp.Or(sizes.SeqWindow, h.seqWindow)
	direct, bulk := better.(directConn)
	if !bulk {
		direct = newPlainConn(better)
	}
	if e.cfg.Damage.EpochShare > 0 {
		direct = &damagedConn{direct, damage}
	}
	if e.cfg.Damage.TableShare > 0 {
		direct = &staleConn{
			directConn: direct,
			damager:    damage,
			table:      e.cfg.Table,
			peer:       shmem.Peer(rank),
		}
	}
	if e.cfg.DropShare > 0 {
		direct = newLossyConn(direct, e.cfg.DropShare, e.cfg.DropSeed+uint64(rank))
	}
	core := link.New(link.Config{
		View:         uint16(e.cfg.View.Number),
		MaxDatagram:  h.maxDatagram,
		BaseDatagram: min(sizes.BaseDatagram, h.maxDatagram),
		Credit:       credit,
		SeqWindow:    ring,
		// a stream is cut into full packets whatever is written to it
		PadDatagrams:      h.carriers.preferred() != CarrierStream,
		Peer:              shmem.Peer(rank),
		Table:             e.cfg.Table,
		CongestionControl: bulk,
		PiggybackAcks:     bulk,
		AckEvery:          max(1, credit/6), // six acks per credit keep the sender going when one is lost
	})
	p := newPeer(rank, h.carriers.preferred(), e.cfg.View.Members[rank].Name, direct, e.cfg.Handler)
	p.damage = damage
	engine := newDatagramEngine(p, direct, core, !bulk)
	engine.trace, engine.minTimeout = e.cfg.Trace, e.cfg.MinTimeout
	p.engine = engine
	if !e.installPeer(p) {
		_ = direct.Close("not wanted")
		return ErrClosed
	}
	return nil
}

// installPeer starts a link, unless the endpoint is closed or the peer has one. One that is over gives way.
func (e *Endpoint) installPeer(p *peer) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	before := e.peers[p.rank].Load()
	if e.closed || before != nil && !e.isReplaceable(before) {
		return false
	}
	if before != nil {
		before.addStats(&e.formerStats[p.rank])
		e.formerStats[p.rank].TransactionsFree = 0
	}
	e.peers[p.rank].Store(p)
	if e.mayRejoin(p.rank) {
		e.cfg.Table.Readmit(shmem.Peer(p.rank))
		if e.cfg.OnRejoin != nil {
			e.cfg.OnRejoin(p.rank)
		}
	}
	p.run()
	return true
}

// isReplaceable says that another process may take the place of a peer, whose link is over.
func (e *Endpoint) isReplaceable(p *peer) bool {
	return p.conn != nil && p.reason() != nil && e.mayRejoin(p.rank)
}

func (e *Endpoint) mayRejoin(rank int) bool { return e.cfg.MayRejoin != nil && e.cfg.MayRejoin(rank) }

// accept answers peers that dial, until the endpoint is closed.
func (e *Endpoint) accept(ranks []int, up chan<- int) {
	for {
		in, err := e.cfg.Network.Accept(e.ctx)
		if err != nil {
			if e.ctx.Err() == nil && !errors.Is(err, ErrClosed) {
				e.log.Error("no more peers can be accepted", "err", err)
			}
			return
		}
		e.wg.Go(func() { // setting up takes round trips
			if rank, ok := e.admit(in, ranks); ok {
				select {
				case up <- rank:
				default: // peers that came back after Connect: nobody counts them any more
				}
			}
		})
	}
}

// turnAway refuses a peer, counts it and tells who wants to know.
func (e *Endpoint) turnAway(in Incoming, code RefuseCode, why error) (int, bool) {
	e.refusedPeers[code].Add(1)
	err := &turnedAwayError{Peer: in.Peer(), Code: code, Cause: why}
	e.log.Warn("turned a peer away", "peer", in.Peer(), "code", code, "reason", why)
	in.Refuse(code, why.Error())
	if e.cfg.OnTurnedAway != nil {
		e.cfg.OnTurnedAway(err)
	}
	return 0, false
}

// admit answers one peer's hello, or turns it away.
func (e *Endpoint) admit(in Incoming, ranks []int) (int, bool) {
	theirs, err := parseHello(in.Hello())
	var version *link.VersionError
	switch {
	case errors.As(err, &version):
		return e.turnAway(in, RefuseVersion, err)
	case err != nil:
		return e.turnAway(in, RefuseHello, err)
	case theirs.view != e.cfg.View.Number:
		return e.turnAway(in, RefuseView, fmt.Errorf("it is in view %d, this node in view %d", theirs.view,
			e.cfg.View.Number))
	}
	rank := slices.IndexFunc(e.cfg.View.Members, func(m Member) bool { return m.Name == in.Peer() })
	var before *peer
	awaited := rank >= 0 && rank < e.cfg.Rank && slices.Contains(ranks, rank)
	if rank >= 0 && rank != e.cfg.Rank {
		before = e.peers[rank].Load()
		awaited = awaited || e.mayRejoin(rank) || before != nil && e.cfg.MayRejoin != nil
	}
	switch {
	case !awaited:
		return e.turnAway(in, RefuseStranger, fmt.Errorf("%q is not to link to this node in view %d", in.Peer(),
			e.cfg.View.Number))
	case before != nil && e.cfg.MayRejoin == nil:
		return e.turnAway(in, RefuseStranger, fmt.Errorf("%q is linked already", in.Peer()))
	case before != nil && !e.isReplaceable(before):
		return e.turnAway(in, RefuseView, fmt.Errorf("%q of view %d is another process, as far as this node knows", in.Peer(),
			e.cfg.View.Number)) // it will know soon
	case before != nil:
		before.wait() // nothing of it is told after anything of its successor
	}
	return e.answerHello(in, rank, theirs)
}

func (e *Endpoint) answerHello(in Incoming, rank int, theirs hello) (int, bool) {
	ours := e.newHello(in.MaxDatagram())
	agreed, err := ours.negotiate(theirs)
	if err != nil {
		return e.turnAway(in, RefuseHello, err)
	}
	var offered *memoryEngine
	if agreed.carriers.contains(CarrierLocal) {
		if offered, err = e.joinMemory(rank, theirs.extension); err == nil {
			agreed.carriers, agreed.extension = newCarrierSet(CarrierLocal), offered.link.Offer()
		} else if agreed.carriers &^= newCarrierSet(CarrierLocal); agreed.carriers == 0 {
			return e.turnAway(in, RefuseMemory, err)
		} else {
			e.log.Info("a peer's memory is not to be had, so the network carries its link", "peer", in.Peer(),
				"carrier", agreed.carriers.preferred(), "reason", err)
		}
	}
	agreed.carriers = newCarrierSet(agreed.carriers.preferred())
	conn, err := in.Answer(agreed.marshal())
	switch {
	case err != nil:
		offered.discard()
	case offered != nil:
		err = e.installLocal(conn, offered)
	default:
		err = e.install(e.ctx, rank, conn, agreed, false)
	}
	if err != nil {
		e.log.Warn("a peer left while it was greeted", "peer", in.Peer(), "err", err)
		return 0, false
	}
	return rank, true
}
