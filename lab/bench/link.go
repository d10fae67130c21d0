package bench

// One end of a link under test. Pipeline of a measurement of throughput:
//
//	near  1 bulk, bulkMany         (sequential)  next window without a write under way, next piece of the source; Write
//	      2 transport              (parallel)    the carrier
//	      3 Completed              (sequential)  the window is free; the goroutine that waits for it is woken
//	far   4 Placed, PlacedMany     (sequential)  counted; answered with a signal if the near end asked for that
//
// Steps 1, 3 and 4 allocate nothing and take no lock.

import (
	"context"
	"errors"
	"net"
	"sync/atomic"
	"time"

	hdr "github.com/HdrHistogram/hdrhistogram-go"

	"ringlet/node/certs"
	"ringlet/shmem"
	"ringlet/transport"
	"ringlet/transport/link"
	"ringlet/transport/quic"
)

const (
	nearRank = 0
	farRank  = 1
)

// linkConfig is the configuration of an end of a link.
type linkConfig struct {
	id      *certs.Identity
	host    string
	spin    time.Duration
	carrier transport.CarrierKind
	view    uint64
	members []transport.Member // by rank; the addresses of higher ranks than one's own are known
	rank    int
	// wrap returns the handler of the endpoint; nil: the end itself.
	wrap func(*end) transport.Handler
	// trace is called with the stages that datagrams pass; nil: none.
	trace func(transport.Stage)
	// timestamps has the kernel time-stamp packets that are sent and received.
	timestamps bool
}

// end is one end of a link.
type end struct {
	// immutable after openEnd
	network    *quic.Network
	endpoint   *transport.Endpoint
	table      *shmem.Table
	rank       int
	otherRanks []int // ranks
	wake       chan struct{}
	linkOver   chan struct{} // closed when the link is over

	// atomic
	windowBusy                [maxWindows]atomic.Bool // near: a write into this window is under way
	completed                 atomic.Uint64           // near: writes with an outcome
	answersReceived           atomic.Uint64           // near: signals
	waiterAsleep              atomic.Bool             // near: a goroutine sleeps on wake
	answersWrites             atomic.Bool             // far: answer each write with a signal
	placedWrites, placedBytes atomic.Uint64           // far: writes in place
	// near: writes that the far end refused; far: the same, as its table counted them
	refusedWrites                       atomic.Uint64
	malformedDatagrams, placedManyCalls atomic.Uint64 // datagrams that did not parse; calls of PlacedMany
	ended                               atomic.Bool
	firstFailure                        atomic.Pointer[error] // why the link is over, or the first write that was refused
}

// newTable makes an export table. For a carrier within one host, another process can map it.
func newTable(c transport.CarrierKind, windows int) (*shmem.Table, error) {
	if c.SameHost {
		return shmem.NewSharedTable(segmentName("table"), windows)
	}
	return shmem.NewTable(windows), nil
}

// localSpin is how long the receiver of a link in memory looks before it sleeps: not at all if spin is 0, else the
// default of such links, as in a run.
func localSpin(spin time.Duration) time.Duration {
	if spin == 0 {
		return -1
	}
	return 0
}

// openEnd binds a socket and makes an endpoint; connect comes next. The end owns the table from then on, and closes it.
func openEnd(c linkConfig, table *shmem.Table) (*end, error) {
	n, err := c.listen()
	if err != nil {
		return nil, errors.Join(err, table.Close())
	}
	e := &end{
		network:  n,
		table:    table,
		rank:     c.rank,
		wake:     make(chan struct{}, 1),
		linkOver: make(chan struct{}),
	}
	c.members[c.rank].Addr = n.Addr().String()
	for r := range c.members {
		if r != c.rank {
			e.otherRanks = append(e.otherRanks, r)
		}
	}
	handler := transport.Handler(e)
	if c.wrap != nil {
		handler = c.wrap(e)
	}
	e.endpoint = transport.New(c.transport(n, table, handler))
	return e, nil
}

// listen binds the socket of an end.
func (c *linkConfig) listen() (*quic.Network, error) {
	return quic.Listen(quic.Config{
		Addr:        net.JoinHostPort(c.host, "0"),
		ServerTLS:   c.id.Server(),
		ClientTLS:   c.id.Client,
		PeerName:    peerName,
		Spin:        c.spin,
		Timestamps:  c.timestamps,
		IdleTimeout: peerSilenceTimeout,
	})
}

// transport is the configuration of the endpoint.
func (c *linkConfig) transport(n *quic.Network, table *shmem.Table, handler transport.Handler) transport.Config {
	return transport.Config{
		Network: n,
		Handler: handler,
		Table:   table,
		View:    transport.View{Number: c.view, Members: c.members},
		Rank:    c.rank,
		Carrier: c.carrier.Carrier,
		Spin:    localSpin(c.spin),
		Trace:   c.trace,
	}
}

// address is the address that the other ends dial.
func (e *end) address() string { return e.network.Addr().String() }

// The tests stretch these: connectTimeout bounds connecting a link, peerSilenceTimeout is how long a silent peer counts
// as alive (zero: the network's default).
var connectTimeout, peerSilenceTimeout = 10 * time.Second, time.Duration(0)

func (e *end) connect(ctx context.Context) error {
	if len(e.otherRanks) == 0 {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, connectTimeout)
	defer cancel()
	return e.endpoint.Connect(ctx, e.otherRanks)
}

func (e *end) close() error {
	err := e.endpoint.Close()
	for _, r := range append(e.otherRanks, e.rank) {
		e.table.RevokePeer(shmem.Peer(r)) // the links are closed: no write is under way
	}
	return errors.Join(err, e.network.Close(), e.table.Close())
}

// Placed counts a write that is in place.
func (e *end) Placed(peer int, p transport.Placement) {
	e.placedBytes.Add(uint64(p.Length))
	e.placedWrites.Add(1)
	if e.answersWrites.Load() {
		e.answer(peer)
	}
}

// PlacedMany counts pieces that are in place.
func (e *end) PlacedMany(peer int, ps []transport.Placement) {
	var n uint64
	for i := range ps {
		n += uint64(ps[i].Length)
	}
	e.placedBytes.Add(n)
	e.placedWrites.Add(uint64(len(ps)))
	e.placedManyCalls.Add(1)
	if e.answersWrites.Load() {
		e.answer(peer)
	}
}

var answerSignal = []byte("seen")

func (e *end) answer(peer int) {
	if err := e.endpoint.Signal(peer, answerSignal); err != nil {
		e.fail(err)
	}
}

// Signal is the far end's answer to a write.
func (e *end) Signal(int, []byte) {
	e.answersReceived.Add(1)
	e.wakeWaiter()
}

// Completed ends a write of this end; its cookie is the write's first window.
func (e *end) Completed(_ int, cookie uint64, err error) {
	if err != nil {
		e.refusedWrites.Add(1)
		first := err // a copy, so that only errors allocate
		e.firstFailure.CompareAndSwap(nil, &first)
	}
	e.windowBusy[cookie%maxWindows].Store(false)
	e.completed.Add(1)
	e.wakeWaiter()
}

// Refused counts a write that the far end's table refused.
func (e *end) Refused(int, transport.Placement, error) { e.refusedWrites.Add(1) }

// Malformed counts a datagram that did not parse.
func (e *end) Malformed(int, error) { e.malformedDatagrams.Add(1) }

// LinkDown ends the measurement.
func (e *end) LinkDown(_ int, err error) { e.fail(err) }

func (e *end) fail(err error) {
	e.firstFailure.CompareAndSwap(nil, &err)
	if e.ended.CompareAndSwap(false, true) {
		close(e.linkOver)
	}
}

func (e *end) wakeWaiter() {
	if e.waiterAsleep.Load() && e.waiterAsleep.CompareAndSwap(true, false) {
		select {
		case e.wake <- struct{}{}:
		default:
		}
	}
}

// await waits until is returns true. It fails when the link or ctx is over. It sleeps, as users of the interface do: a
// busy loop would take the processor from the goroutine that reads the socket and already spins (a write of 128 B over
// quic: 10 µs asleep, 19 µs in a loop).
func (e *end) await(ctx context.Context, is func() bool) error {
	if is() {
		return nil
	}
	for {
		e.waiterAsleep.Store(true)
		if is() {
			e.waiterAsleep.Store(false)
			return nil
		}
		select {
		case <-e.wake:
		case <-e.linkOver:
			return e.failureCause()
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// failureCause is why the link is over, or the first error on it.
func (e *end) failureCause() error {
	if p := e.firstFailure.Load(); p != nil {
		return *p
	}
	return nil
}

// bulkLoad is the load of one bulk measurement: windows in turn, pieces of the source in another turn.
type bulkLoad struct {
	size        int
	refs        []shmem.Ref
	pieces      [][]byte // of the source, of size each
	next        uint64   // number of the next write
	lastPiece   []int32  // piece written last into each window, -1 none
	maxUnderWay uint64   // bound on the writes under way
	sentWrites  uint64   // each piece of WriteMany counts as one
	batches     [][]link.Piece
}

// Bounds on bytes and writes under way: enough to fill the window of any carrier several times.
const (
	maxBytesUnderWay  = 8 << 20
	maxWritesUnderWay = 512
)

func newLoad(size int, refs []shmem.Ref, source []byte, turn int) *bulkLoad {
	l := &bulkLoad{size: size, refs: refs, lastPiece: make([]int32, len(refs))}
	for i := range l.lastPiece {
		l.lastPiece[i] = -1
	}
	// The number of pieces is no multiple of the number of windows, so a window gets another piece each time; and each
	// cell begins at another piece. The check then cannot mistake bytes of an earlier write for those of the last one.
	n := min(len(source)/size, 1<<16)
	if n > 1 && n%len(refs) == 0 {
		n--
	}
	for i := range n {
		at := (i + turn) % n * size
		l.pieces = append(l.pieces, source[at:at+size:at+size])
	}
	l.maxUnderWay = uint64(max(1, min(maxBytesUnderWay/size, maxWritesUnderWay, len(refs)/2)))
	return l
}

func (l *bulkLoad) window() int { return int(l.next % uint64(len(l.refs))) }

func (l *bulkLoad) piece() int32 { return int32(l.next % uint64(len(l.pieces))) }

// bulk writes until over is set, and waits for all outcomes.
func (e *end) bulk(ctx context.Context, l *bulkLoad, over *atomic.Bool) error {
	began := e.completed.Load()
	issued := uint64(0)
	var w int
	free := func() bool { return issued-(e.completed.Load()-began) < l.maxUnderWay && !e.windowBusy[w].Load() }
	for !over.Load() {
		w = l.window()
		if err := e.await(ctx, free); err != nil {
			return err
		}
		if err := e.write(l, w); err != nil {
			return err
		}
		issued++
	}
	if err := e.await(ctx, func() bool { return e.completed.Load()-began == issued }); err != nil {
		return err
	}
	return e.failureCause()
}

func (e *end) write(l *bulkLoad, w int) error {
	e.windowBusy[w].Store(true)
	piece := l.piece()
	l.lastPiece[w] = piece
	l.next++
	l.sentWrites++
	return e.endpoint.Write(1-e.rank, link.Write{Ref: l.refs[w], Data: l.pieces[piece], Cookie: uint64(w)})
}

// piecesPerBatch is how many pieces one WriteMany sends: they fill several datagrams.
const piecesPerBatch = 128

// bulkMany is bulk by WriteMany. The windows are divided into batches; each batch has at most one WriteMany under way.
func (e *end) bulkMany(ctx context.Context, l *bulkLoad, over *atomic.Bool) error {
	if l.batches == nil {
		for at := 0; at < len(l.refs); at += piecesPerBatch {
			b := make([]link.Piece, min(piecesPerBatch, len(l.refs)-at))
			for i := range b {
				b[i].Ref = l.refs[at+i]
			}
			l.batches = append(l.batches, b)
		}
	}
	l.next = 0
	began, issued := e.completed.Load(), uint64(0)
	var first int
	free := func() bool { return !e.windowBusy[first].Load() }
	for n := 0; !over.Load(); n = (n + 1) % len(l.batches) {
		first = n * piecesPerBatch
		if err := e.await(ctx, free); err != nil {
			return err
		}
		pieces := l.batches[n]
		for i := range pieces {
			p := l.piece()
			pieces[i].Data, l.lastPiece[first+i] = l.pieces[p], p
			l.next++
		}
		e.windowBusy[first].Store(true)
		if err := e.endpoint.WriteMany(1-e.rank, pieces, uint64(first)); err != nil {
			return err
		}
		issued++
		l.sentWrites += uint64(len(pieces))
	}
	if err := e.await(ctx, func() bool { return e.completed.Load()-began == issued }); err != nil {
		return err
	}
	return e.failureCause()
}

// single writes once, and waits for the outcome or for the far handler's answer.
func (e *end) single(ctx context.Context, l *bulkLoad, answered bool) error {
	counter := &e.completed
	if answered {
		counter = &e.answersReceived
	}
	want := counter.Load() + 1
	if err := e.write(l, l.window()); err != nil {
		return err
	}
	return e.await(ctx, func() bool { return counter.Load() >= want })
}

// singles writes one at a time until over is set, at least once, and records how long each write took. A window is long
// free when its turn comes again.
func (e *end) singles(ctx context.Context, l *bulkLoad, answered bool, over *atomic.Bool) (*hdr.Histogram, error) {
	h := newTimes()
	for h.TotalCount() == 0 || !over.Load() {
		began := time.Now()
		if err := e.single(ctx, l, answered); err != nil {
			return nil, err
		}
		_ = h.RecordValue(int64(time.Since(began))) // at most 10 s: the link would be down
	}
	if err := e.await(ctx, func() bool { return !e.anyBusy() }); err != nil {
		return nil, err
	}
	return h, e.failureCause()
}

func (e *end) anyBusy() bool {
	for i := range e.windowBusy {
		if e.windowBusy[i].Load() {
			return true
		}
	}
	return false
}
