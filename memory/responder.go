package memory

// The owner's side, as a pure core: the exports, the grants to peers, and the answers to requests. It sends nothing and
// never waits; it touches only bytes that the export table allows.

import (
	"fmt"
	"slices"

	"ringlet/shmem"
)

// exportTable is the export table; shmem.Table is one.
type exportTable interface {
	Grant(peer shmem.Peer, seg shmem.SegmentID, off, n int, a shmem.Access) (shmem.Ref, error)
	Acquire(peer shmem.Peer, r shmem.Ref, off, n uint32, a shmem.Access) ([]byte, shmem.Violation)
	Release(r shmem.Ref)
}

// maxPending bounds the reads and waits of a peer that have no answer yet.
const maxPending = 64

// exported is an export: a row of the owner's table.
type exported struct {
	name         string
	epoch        uint64
	segment      shmem.SegmentID
	size         int
	rules        []Pages
	notices      []uint64          // number, by page
	grantsByPeer map[int]*grantSet // by peer
	noticeWaits  []noticeWait
}

// grantSet is what one peer was granted of one export.
type grantSet struct {
	runs        []pageRun
	importCount int // imports of the peer
}

// noticeWait is a request that is answered when its page has had more notices.
type noticeWait struct {
	peer  int
	id    uint64
	page  int
	known uint64
}

// windowPlace says where a window lies.
type windowPlace struct {
	export *exported
	first  int // page
	peer   int
}

// requesterState is the owner's state of a peer, for the life of their link.
type requesterState struct {
	newestID        uint64 // id of the peer's newest request
	pendingRequests int
}

// outgoing is a message to a peer. Its body is valid until the next request.
type outgoing struct {
	peer int
	message
}

// readJob is a read that the shell carries out.
type readJob struct {
	id   uint64
	ref  shmem.Ref
	off  uint32
	n    uint32
	dest shmem.Ref
}

type responder struct {
	table         exportTable
	exports       map[string]*exported
	windows       map[shmem.Ref]windowPlace
	requesters    []requesterState
	epoch         uint64
	loadBuf       [maxLoad]byte
	stats         *Stats
	outgoing      []outgoing // messages to send, in order
	outgoingReads []outgoingRead
}

type outgoingRead struct {
	peer int
	readJob
}

func newResponder(t exportTable, members int, epoch uint64, stats *Stats) *responder {
	return &responder{
		table:      t,
		exports:    map[string]*exported{},
		windows:    map[shmem.Ref]windowPlace{},
		requesters: make([]requesterState, members),
		epoch:      epoch,
		stats:      stats,
	}
}

// export adds a segment. Windows are granted when a peer imports it.
func (r *responder) export(name string, seg shmem.SegmentID, size int, rules []Pages) (*exported, error) {
	if r.exports[name] != nil {
		return nil, ErrExists
	}
	for peer := range r.requesters {
		if n := len(pageRunsFor(rules, peer, pagesOf(size))); n > maxRuns {
			return nil, fmt.Errorf("rank %d would see %d ranges of pages, more than %d", peer, n, maxRuns)
		}
	}
	r.epoch++
	e := &exported{
		name:         name,
		epoch:        r.epoch,
		segment:      seg,
		size:         size,
		rules:        slices.Clone(rules),
		notices:      make([]uint64, pagesOf(size)),
		grantsByPeer: map[int]*grantSet{},
	}
	r.exports[name] = e
	return e, nil
}

// withdraw removes an export, tells its users, and returns the windows to revoke before the owner may reuse the bytes.
func (r *responder) withdraw(e *exported) (refs []shmem.Ref) {
	if r.exports[e.name] != e {
		return nil
	}
	delete(r.exports, e.name)
	for _, peer := range sortedKeys(e.grantsByPeer) {
		refs = r.ungrant(e, peer, refs)
		r.outgoing = append(r.outgoing, outgoing{peer, message{kind: kindRevoked, b: e.epoch}})
	}
	for _, w := range e.noticeWaits { // last, so that the peers that are woken know of the end
		r.requesters[w.peer].pendingRequests--
		r.answer(w.peer, w.id, ErrRevoked)
	}
	e.noticeWaits = nil
	return refs
}

func sortedKeys(m map[int]*grantSet) []int {
	keys := make([]int, 0, len(m))
	for k := range m {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	return keys
}

// ungrant removes a peer's grants of an export, and appends its windows to refs.
func (r *responder) ungrant(e *exported, peer int, refs []shmem.Ref) []shmem.Ref {
	for _, run := range e.grantsByPeer[peer].runs {
		refs = append(refs, run.ref)
		delete(r.windows, run.ref)
	}
	delete(e.grantsByPeer, peer)
	return refs
}

// peerGone removes a peer whose link is over, and returns the windows to revoke.
func (r *responder) peerGone(peer int) (refs []shmem.Ref) {
	for _, e := range r.exports {
		e.noticeWaits = slices.DeleteFunc(e.noticeWaits, func(w noticeWait) bool { return w.peer == peer })
		if e.grantsByPeer[peer] != nil {
			refs = r.ungrant(e, peer, refs)
		}
	}
	r.requesters[peer] = requesterState{}
	return refs
}

// answer queues an answer with a status, and returns it for the caller to add values.
func (r *responder) answer(peer int, id uint64, why Cause) *message {
	if why != causeNone {
		r.stats.RequestsRefused++
	}
	r.outgoing = append(r.outgoing, outgoing{peer, message{kind: kindAnswer, id: id, status: why}})
	return &r.outgoing[len(r.outgoing)-1].message
}

// request handles a peer's request. It queues answers in outgoing, and reads in outgoingReads. It returns windows to
// revoke, which the peer has left or could not get.
func (r *responder) request(peer int, m *message) (released []shmem.Ref) {
	c := &r.requesters[peer]
	if m.kind == kindLeave {
		r.stats.EndMessages++
		return r.release(peer, m.a)
	}
	if m.id <= c.newestID { // a link delivers each once; this check does not rely on it
		r.stats.RequestsRepeated++
		return nil
	}
	c.newestID = m.id
	r.stats.Requests++
	switch m.kind {
	case kindFind:
		return r.grantImport(peer, m)
	case kindLoad:
		r.doLoad(peer, m)
	case kindRead:
		r.doRead(peer, m)
	case kindAdd, kindSwap, kindCompare:
		r.changeWord(peer, m)
	case kindNotify:
		r.notify(peer, m)
	case kindWait:
		r.wait(peer, m)
	case kindCancel:
		r.cancel(peer, m.a)
	default:
		r.answer(peer, m.id, ErrProtocol)
	}
	return nil
}

// grantImport grants the pages that the rules open to the peer, once for all its imports of the export. If the table
// has too few windows, the peer gets none, and the windows granted so far are returned.
func (r *responder) grantImport(peer int, m *message) (released []shmem.Ref) {
	e := r.exports[string(m.body)]
	if e == nil {
		r.answer(peer, m.id, ErrNotFound)
		return nil
	}
	g := e.grantsByPeer[peer]
	if g == nil {
		g = &grantSet{runs: pageRunsFor(e.rules, peer, pagesOf(e.size))}
		for i := range g.runs {
			run := &g.runs[i]
			off := run.first * PageSize
			n := min(run.count*PageSize, e.size-off)
			ref, err := r.table.Grant(shmem.Peer(peer), e.segment, off, n, accessFor(run.allow, run.attributes))
			if err != nil {
				r.answer(peer, m.id, ErrBusy)
				return r.ungrant(&exported{grantsByPeer: map[int]*grantSet{peer: {runs: g.runs[:i]}}}, peer, nil)
			}
			run.ref = ref
			r.windows[ref] = windowPlace{export: e, first: run.first, peer: peer}
		}
		e.grantsByPeer[peer] = g
	}
	g.importCount++
	a := r.answer(peer, m.id, causeNone)
	a.a, a.b, a.body = uint64(e.size), e.epoch, appendRuns(nil, g.runs)
	return nil
}

// release ends an import of a peer; with the last one it returns the windows to revoke.
func (r *responder) release(peer int, epoch uint64) []shmem.Ref {
	for _, e := range r.exports {
		if g := e.grantsByPeer[peer]; e.epoch == epoch && g != nil {
			if g.importCount--; g.importCount == 0 {
				return r.ungrant(e, peer, nil)
			}
		}
	}
	return nil
}

// doLoad answers with the bytes themselves.
func (r *responder) doLoad(peer int, m *message) {
	src, v := r.table.Acquire(shmem.Peer(peer), m.ref, uint32(m.off), m.length, shmem.AccessRead)
	if v != 0 {
		r.answer(peer, m.id, causeOf(v))
		return
	}
	body := r.loadBuf[:m.length]
	loadInto(body, src)
	r.table.Release(m.ref)
	r.answer(peer, m.id, causeNone).body = body
}

// loadInto copies; a single aligned word atomically.
func loadInto(dst, src []byte) {
	if len(src) == shmem.WordSize {
		if w := shmem.Word(src); w != nil {
			putWord(dst, w.Load())
			return
		}
	}
	copy(dst, src)
}

// doRead passes a long read to the shell.
func (r *responder) doRead(peer int, m *message) {
	if !r.admitPending(peer, m.id) {
		return
	}
	r.outgoingReads = append(r.outgoingReads, outgoingRead{peer, readJob{
		id:   m.id,
		ref:  m.ref,
		off:  uint32(m.off),
		n:    m.length,
		dest: shmem.Ref{Window: uint32(m.a), Gen: uint32(m.b)},
	}})
}

// admitPending counts a request that is answered later; it refuses one too many.
func (r *responder) admitPending(peer int, id uint64) bool {
	if r.requesters[peer].pendingRequests >= maxPending {
		r.answer(peer, id, ErrBusy)
		return false
	}
	r.requesters[peer].pendingRequests++
	return true
}

// finishRead ends a read. If it succeeded, the reader learns that by its bytes.
func (r *responder) finishRead(peer int, id uint64, why Cause) {
	r.requesters[peer].pendingRequests--
	if why != causeNone {
		r.answer(peer, id, why)
	}
}

// changeWord carries out an atomic operation on a word.
func (r *responder) changeWord(peer int, m *message) {
	mem, v := r.table.Acquire(shmem.Peer(peer), m.ref, uint32(m.off), shmem.WordSize, shmem.AccessLock)
	if v != 0 {
		r.answer(peer, m.id, causeOf(v))
		return
	}
	before, ok := applyWord(mem, m.kind, m.a, m.b)
	r.table.Release(m.ref)
	if !ok {
		r.answer(peer, m.id, ErrMisaligned)
		return
	}
	r.stats.WordsChanged++
	r.answer(peer, m.id, causeNone).a = before
}

// applyWord changes a word by an atomic instruction, so that processes that have it mapped see the value before or
// after.
func applyWord(mem []byte, k kind, a, b uint64) (before uint64, ok bool) {
	w := shmem.Word(mem)
	if w == nil {
		return 0, false
	}
	switch k {
	case kindAdd:
		return w.Add(a) - a, true
	case kindSwap:
		return w.Swap(a), true
	}
	for {
		if before = w.Load(); before != a || w.CompareAndSwap(a, b) {
			return before, true
		}
	}
}

// pageOf checks a peer's access to a page, and returns the export and the page's number.
func (r *responder) pageOf(peer int, m *message, a shmem.Access) (*exported, int, Cause) {
	if _, v := r.table.Acquire(shmem.Peer(peer), m.ref, uint32(m.off), 1, a); v != 0 {
		return nil, 0, causeOf(v)
	}
	r.table.Release(m.ref)
	p, ok := r.windows[m.ref]
	if !ok || p.peer != peer {
		return nil, 0, ErrRevoked
	}
	return p.export, p.first + int(m.off/PageSize), causeNone
}

// notify counts a notice, and answers the waits for it.
func (r *responder) notify(peer int, m *message) {
	e, page, why := r.pageOf(peer, m, shmem.AccessNotify)
	if why != causeNone {
		r.answer(peer, m.id, why)
		return
	}
	e.notices[page]++
	r.stats.Notices++
	r.answer(peer, m.id, causeNone).a = e.notices[page]
	kept := e.noticeWaits[:0]
	for _, w := range e.noticeWaits {
		if w.page != page || e.notices[page] <= w.known {
			kept = append(kept, w)
			continue
		}
		r.requesters[w.peer].pendingRequests--
		r.answer(w.peer, w.id, causeNone).a = e.notices[page]
	}
	e.noticeWaits = kept
}

func (r *responder) wait(peer int, m *message) {
	e, page, why := r.pageOf(peer, m, shmem.AccessRead)
	switch {
	case why != causeNone:
		r.answer(peer, m.id, why)
	case e.notices[page] > m.a:
		r.answer(peer, m.id, causeNone).a = e.notices[page]
	case r.admitPending(peer, m.id):
		e.noticeWaits = append(e.noticeWaits, noticeWait{
			peer:  peer,
			id:    m.id,
			page:  page,
			known: m.a,
		})
	}
}

// cancel ends a wait. If it has been answered, it gets no second answer.
func (r *responder) cancel(peer int, id uint64) {
	for _, e := range r.exports {
		for i, w := range e.noticeWaits {
			if w.peer == peer && w.id == id {
				e.noticeWaits = slices.Delete(e.noticeWaits, i, i+1)
				r.requesters[peer].pendingRequests--
				r.answer(peer, id, causeCancelled)
				return
			}
		}
	}
}

// causeOf returns the cause for a violation.
func causeOf(v shmem.Violation) Cause {
	switch v {
	case shmem.NoAccess:
		return ErrDenied
	case shmem.OutOfRange:
		return ErrOutside
	}
	return ErrRevoked
}
