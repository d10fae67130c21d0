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

	"ringlet/internal/nodename"
	"ringlet/shmem"
	"ringlet/transport/link"
)

// redialInterval is the pause before this node dials a peer again that is not ready yet.
const redialInterval = 50 * time.Millisecond

// Connect makes the links to the given ranks: this node dials the ranks above its own and waits for the others to dial.
// It returns when all links are up, or with an error that names the missing peers. If a peer is not reachable yet, or
// still in another view, Connect dials again until ctx is done; a refusal for another reason ends the call at once.
// From then on the endpoint refuses and counts peers that are not awaited. Either Connect or Reconnect is called, once.
func (e *Endpoint) Connect(ctx context.Context, ranks []int) error {
	return e.connect(ctx, ranks, func(rank int) bool { return rank > e.cfg.Rank })
}

// Reconnect is Connect for a process that replaces one that the others had links to: it dials all ranks. A peer that
// still takes the old process to be alive refuses, and is dialled again.
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
		return fmt.Errorf("rank %d cannot connect: it is connecting already, or closed: %w", e.cfg.Rank, ErrClosed)
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

// usableCarriers are the carriers that this node can use for some peer.
func (e *Endpoint) usableCarriers() carrierSet {
	if e.cfg.Carrier == CarrierAuto {
		return newCarrierSet(CarrierLocal, e.cfg.AutoNetwork)
	}
	return newCarrierSet(e.cfg.Carrier)
}

// anyDatagramSize leaves the size of datagrams to the carrier; the peer's answer has the size that is used.
const anyDatagramSize = 1<<16 - 1

func (e *Endpoint) dial(ctx context.Context, rank int) error {
	m := e.cfg.View.Members[rank]
	for {
		h, memory, err := e.newDialHello(rank)
		if err != nil {
			return err
		}
		conn, answer, err := e.cfg.Network.Dial(ctx, e.certNames.nameOf(rank), m.Addr, h.marshal())
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

// isFinalDialError reports whether dialling again would fail in the same way.
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

// upgradeConn turns the connection into the carrier that both ends have agreed on, and sets its datagram size in h.
func (e *Endpoint) upgradeConn(ctx context.Context, conn Conn, h *hello, dialler bool, damage *Damager) (Conn, error) {
	c := h.carriers.preferred()
	up, ok := conn.(Upgrader)
	if !ok {
		if c == CarrierQUICGo {
			return conn, nil // its datagrams are those of quic-go
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

// upgradeTimeout bounds the set-up of a carrier: a few round trips, on a busy machine.
const upgradeTimeout = 10 * time.Second

// install makes a link over the connection, and starts it.
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
		// a stream is cut into full packets, whatever sizes the link writes
		PadDatagrams:      h.carriers.preferred() != CarrierStream,
		Peer:              shmem.Peer(rank),
		Table:             e.cfg.Table,
		CongestionControl: bulk,
		PiggybackAcks:     bulk,
		AckEvery:          max(1, credit/6), // six acks per credit: if one is lost, the sender still does not wait
	})
	p := newPeer(rank, h.carriers.preferred(), e.cfg.View.Members[rank].Name, direct, e.cfg.Handler)
	p.damage = damage
	engine := newDatagramEngine(p, direct, core, !bulk)
	engine.trace = e.cfg.Trace
	engine.stuckTimeout = max(cmp.Or(e.cfg.StuckTimeout, defaultStuckTimeout), e.cfg.MinTimeout)
	p.engine = engine
	if !e.installPeer(p) {
		_ = direct.Close("not wanted")
		return ErrClosed
	}
	return nil
}

// installPeer starts a link, unless the endpoint is closed or the peer has one. It replaces a link that is over.
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

// isReplaceable reports whether another process may replace a peer: its link is over.
func (e *Endpoint) isReplaceable(p *peer) bool {
	return p.conn != nil && p.reason() != nil && e.mayRejoin(p.rank)
}

func (e *Endpoint) mayRejoin(rank int) bool { return e.cfg.MayRejoin != nil && e.cfg.MayRejoin(rank) }

// accept answers peers that dial until the endpoint is closed.
func (e *Endpoint) accept(ranks []int, up chan<- int) {
	for {
		in, err := e.cfg.Network.Accept(e.ctx)
		if err != nil {
			if e.ctx.Err() == nil && !errors.Is(err, ErrClosed) {
				e.log.Error("cannot accept peers any longer, so none can connect", "err", err)
			}
			return
		}
		e.wg.Go(func() { // a set-up takes round trips, and other peers need not wait for it
			if rank, ok := e.admit(in, ranks); ok {
				select {
				case up <- rank:
				default: // Connect has returned; this peer came back later
				}
			}
		})
	}
}

// turnAway refuses a peer, counts and logs it, and calls OnTurnedAway.
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

// admit answers a peer's hello, or refuses the peer.
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
	case theirs.listener != e.certNames.placeOf(e.cfg.Rank):
		return e.turnAway(in, RefuseView, fmt.Errorf("it dials node %d of the process, and this is node %d",
			theirs.listener, e.certNames.placeOf(e.cfg.Rank))) // it may have the address of a former process
	}
	name := in.Peer()
	if _, place := nodename.Split(name); place == 0 { // else the certificate is that of one node
		name = nodename.Join(name, int(theirs.dialler))
	}
	rank := e.certNames.rankOf(name)
	var before *peer
	awaited := rank >= 0 && rank < e.cfg.Rank && slices.Contains(ranks, rank)
	if rank >= 0 && rank != e.cfg.Rank {
		before = e.peers[rank].Load()
		awaited = awaited || e.mayRejoin(rank) || before != nil && e.cfg.MayRejoin != nil
	}
	switch {
	case !awaited:
		return e.turnAway(in, RefuseStranger, fmt.Errorf("%q is not to link to this node in view %d", name,
			e.cfg.View.Number))
	case before != nil && e.cfg.MayRejoin == nil:
		return e.turnAway(in, RefuseStranger, fmt.Errorf("%q is linked already", name))
	case before != nil && !e.isReplaceable(before):
		return e.turnAway(in, RefuseView, fmt.Errorf("%q of view %d is linked by an earlier process, "+
			"whose end this node has not seen yet", name, e.cfg.View.Number)) // the peer dials again
	case before != nil:
		before.wait() // the handler gets the last event of the old process before the first of the new one
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
			e.log.Info("cannot map a peer's memory, so the network carries its link", "peer", in.Peer(),
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
		e.log.Warn("a peer went away while its link was set up", "peer", in.Peer(), "err", err)
		return 0, false
	}
	return rank, true
}
