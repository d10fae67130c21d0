package shmem

import (
	"cmp"
	"math"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"unsafe"
)

// PageSize is the unit of the page rules, bytes.
const PageSize = 4096

// SegmentID numbers the exported segments of a Table. The zero SegmentID is never valid.
type SegmentID uint32

// PageRule opens the pages [FirstPage, FirstPage+PageCount) of an exported segment to a peer.
type PageRule struct {
	FirstPage, PageCount int
	Peer                 Peer // or AnyPeer
	Access               Access
}

// Table is a node's export table: it says which peer may write which bytes of the node's memory. It is the upstream
// address translation and protection table of the PCI-SCI bridge (SCI-bridge §II.A), with byte-exact grants on top, so
// that only one grant covers a byte of a slot.
//
// All methods are safe from any goroutine. Acquire and Release are the hot path, see windows.go.
type Table struct {
	// immutable after NewTable
	windows []window
	dir     string      // of a shared table's segment, as given to TableDir
	shared  *sharedRows // the rows for other processes; nil if the table is not shared

	// atomic
	violations         violations
	unbalancedReleases atomic.Uint64
	writtenWatchers    atomic.Int32 // callers of CountWritten that have not stopped
	revokingWindows    atomic.Int64 // windows that are closed and not free yet

	mu sync.Mutex
	// guarded by mu
	exports          []*export // index SegmentID-1; nil once withdrawn
	segmentNames     []string  // of the segments, same index; "": memory without a name
	writtenBytes     []uint64  // bytes written through windows that have been revoked, same index
	lentSegment      SegmentID // stands for all lent memory; 0 before the first Lend
	spans            spanTree  // tree nodes of the live grants, one per window
	free             []uint32  // ring buffer of free windows, first in first out, so that generations age slowly
	oldestFree       int       // index in free of the oldest free window
	freeCount        int
	nextGen          []uint32 // next generation of each window
	granted          uint64
	revoked          uint64
	refusalsByReason [refusalKinds]uint64
}

// export is an exported segment: its memory, its page rules, its live grants.
type export struct {
	mem        []byte
	dirEntry   uint32 // entry in the shared directory, or noEntry
	pages      map[pageKey]pageSet
	spanRoot   int32 // root of the span tree of live grants
	liveGrants int
	mayOverlap bool // grants may overlap; then they are not in the span tree
}

// pageKey: there is a page set for each peer and each single access bit.
type pageKey struct {
	peer   Peer
	access Access
}

// TableOption changes a default of NewTable.
type TableOption func(*Table)

// FirstGeneration makes every window begin with generation g (0 counts as 1). The default is random, so that a
// reference from before an exporter's restart does not match a new grant.
func FirstGeneration(g uint32) TableOption {
	return func(t *Table) {
		for i := range t.nextGen {
			t.nextGen[i] = max(g, 1)
		}
	}
}

// NewTable makes a table with the given number of windows, the most grants live at once. With none, or a negative
// number, it refuses every grant.
func NewTable(windows int, opts ...TableOption) *Table {
	windows = int(min(int64(max(windows, 0)), math.MaxInt32))
	t := &Table{
		windows:   make([]window, windows),
		spans:     newSpanTree(windows),
		free:      make([]uint32, windows),
		freeCount: windows,
		nextGen:   make([]uint32, windows),
	}
	for i := range t.free {
		t.free[i] = uint32(i)
		t.nextGen[i] = max(rand.Uint32(), 1)
	}
	for _, o := range opts {
		o(t)
	}
	return t
}

// Export enters memory into the table. All its pages are closed until a rule opens them. The same memory cannot be
// exported twice. The caller keeps seg mapped until Withdraw.
//
// Peers in other processes cannot map this memory; use ExportSegment for them.
func (t *Table) Export(seg []byte, rules ...PageRule) (SegmentID, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	_, id, err := t.addExport(seg, rules)
	return id, err
}

func (t *Table) addExport(seg []byte, rules []PageRule) (*export, SegmentID, error) {
	id := SegmentID(len(t.exports) + 1)
	if len(seg) == 0 {
		return nil, 0, stepError(errOutOfSegment, "export segment %d", id)
	}
	for _, e := range t.exports {
		if e != nil && overlaps(e.mem, seg) {
			return nil, 0, stepError(ErrOverlap, "export segment %d of %d bytes", id, len(seg))
		}
	}
	e := &export{
		mem:      seg,
		dirEntry: noEntry,
		pages:    make(map[pageKey]pageSet),
		spanRoot: noSpan,
	}
	for _, r := range rules {
		if err := e.addRule(id, r); err != nil {
			return nil, 0, err
		}
	}
	t.exports, t.segmentNames, t.writtenBytes = append(t.exports, e), append(t.segmentNames, ""), append(t.writtenBytes, 0)
	return e, id, nil
}

func overlaps(a, b []byte) bool {
	pa, pb := uintptr(unsafe.Pointer(unsafe.SliceData(a))), uintptr(unsafe.Pointer(unsafe.SliceData(b)))
	return pa < pb+uintptr(len(b)) && pb < pa+uintptr(len(a))
}

// AllowOverlap lets grants of an exported segment overlap, for memory that several peers write to. Call it before the
// first grant.
func (t *Table) AllowOverlap(seg SegmentID) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	e := t.export(seg)
	if e == nil {
		return stepError(errUnknownSegment, "allow overlapping grants of segment %d", seg)
	}
	if e.liveGrants > 0 {
		return stepError(errInUse, "allow overlapping grants of segment %d", seg)
	}
	e.mayOverlap = true
	return nil
}

// Withdraw removes an exported segment from the table. While one of its grants is live it refuses with errInUse: revoke
// first.
func (t *Table) Withdraw(seg SegmentID) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	e := t.export(seg)
	if e == nil {
		return stepError(errUnknownSegment, "withdraw segment %d", seg)
	}
	if e.liveGrants > 0 {
		return stepError(errInUse, "withdraw segment %d", seg)
	}
	t.exports[seg-1] = nil
	if e.dirEntry != noEntry {
		t.shared.removeEntry(e.dirEntry)
	}
	return nil
}

func (e *export) addRule(seg SegmentID, r PageRule) error {
	fail := func(err error) error {
		return stepError(err, grantStep, "allow pages of", seg, r.FirstPage, r.PageCount, r.Peer, r.Access)
	}
	pages := (len(e.mem) + PageSize - 1) / PageSize
	if r.FirstPage < 0 || r.PageCount <= 0 || r.FirstPage > pages-r.PageCount {
		return fail(errOutOfSegment)
	}
	if r.Access == 0 || r.Access&^accessAll != 0 {
		return fail(errBadAccess)
	}
	for bit := AccessNwrite; bit <= accessAll; bit <<= 1 {
		if r.Access&bit != 0 {
			k := pageKey{r.Peer, bit}
			e.pages[k] = e.pages[k].add(r.FirstPage, r.FirstPage+r.PageCount)
		}
	}
	return nil
}

// isAllowed reports whether the rules open every page of [off, off+n) to peer for each access in a.
func (e *export) isAllowed(peer Peer, off, n int, a Access) bool {
	first, last := off/PageSize, (off+n-1)/PageSize
	for bit := AccessNwrite; bit <= accessAll; bit <<= 1 {
		if a&bit == 0 {
			continue
		}
		peerPages, anyPages := e.pages[pageKey{peer, bit}], e.pages[pageKey{AnyPeer, bit}]
		for page := first; page <= last; {
			next := max(peerPages.firstAbsent(page), anyPages.firstAbsent(page))
			if next == page {
				return false
			}
			page = next
		}
	}
	return true
}

func (t *Table) export(seg SegmentID) *export {
	if seg == 0 || uint64(seg) > uint64(len(t.exports)) {
		return nil
	}
	return t.exports[seg-1]
}

// grantStep is the text of a grant or a rule in errors.
const grantStep = "%s segment %d [%d, +%d) to peer %d for %v"

// Grant lets peer write the n bytes at off of seg, by the accesses in a, until Revoke. The window gets a new
// generation, so no earlier reference matches it. Grant refuses bytes outside the segment or inside a live grant, pages
// that are closed to the peer, and a full table. n may be up to 4 GiB - 1.
//
// It costs O(log live grants) under the table's mutex, and allocates nothing unless it fails.
func (t *Table) Grant(peer Peer, seg SegmentID, off, n int, a Access) (Ref, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	e := t.export(seg)
	why := t.checkGrant(e, peer, off, n, a)
	if why == notRefused && !e.mayOverlap && !t.spans.insert(&e.spanRoot, int32(t.free[t.oldestFree]), off, off+n) {
		why = refusedOverlap
	}
	if why != notRefused {
		t.refusalsByReason[why]++
		return Ref{}, stepError(refusalInfo[why].err, grantStep, "grant", seg, off, n, peer, a)
	}
	return t.openWindow(e, e.mem[off:off+n:off+n], row{
		off:      uint64(off),
		n:        uint64(n),
		seg:      seg,
		dirEntry: e.dirEntry,
		peer:     peer,
		access:   a,
	}), nil
}

// Lend lets peer write memory that is in no segment, until Revoke, like a Grant of a segment of its own. The caller
// must see to it that no other goroutine uses mem until then. A peer in another process cannot map it. Lend costs less
// than Grant.
func (t *Table) Lend(peer Peer, mem []byte, a Access) (Ref, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if why := t.checkLend(peer, len(mem), a); why != notRefused {
		t.refusalsByReason[why]++
		return Ref{}, stepError(refusalInfo[why].err, grantStep, "lend", 0, 0, len(mem), peer, a)
	}
	if t.lentSegment == 0 {
		t.exports, t.segmentNames, t.writtenBytes = append(t.exports,
			&export{dirEntry: noEntry, mayOverlap: true}), append(t.segmentNames, ""),
			append(t.writtenBytes, 0)
		t.lentSegment = SegmentID(len(t.exports))
	}
	return t.openWindow(t.export(t.lentSegment), mem, row{
		n:        uint64(len(mem)),
		seg:      t.lentSegment,
		dirEntry: noEntry,
		peer:     peer,
		access:   a,
	}), nil
}

// openWindow takes a free window for memory of an export.
func (t *Table) openWindow(e *export, mem []byte, r row) Ref {
	i := t.free[t.oldestFree]
	t.oldestFree = (t.oldestFree + 1) % len(t.free)
	t.freeCount--
	e.liveGrants++
	t.granted++

	w, gen := &t.windows[i], t.nextGen[i]
	w.mem, w.off, w.peer, w.seg, w.access = mem, int(r.off), r.peer, r.seg, r.access
	w.state.Store(pinState(gen, true))
	if t.shared != nil {
		t.shared.openRow(i, gen, r)
	}
	return Ref{Window: i, Gen: gen}
}

func (t *Table) checkGrant(e *export, peer Peer, off, n int, a Access) refusal {
	if e == nil {
		return refusedSegment
	}
	why := t.checkLend(peer, n, a)
	switch {
	case why != notRefused && why != refusedFull:
		return why
	case off < 0 || off > len(e.mem)-n:
		return refusedRange
	case !e.isAllowed(peer, off, n, a):
		return refusedPage
	}
	return why
}

// checkLend makes the checks that do not depend on the memory.
func (t *Table) checkLend(peer Peer, n int, a Access) refusal {
	switch {
	case peer == AnyPeer:
		return refusedPeer
	case a == 0 || a&^accessAll != 0:
		return refusedAccess
	case n <= 0 || int64(n) > math.MaxUint32:
		return refusedRange
	case t.freeCount == 0:
		return refusedFull
	}
	return notRefused
}

// revokeStep is the text of a grant's end in errors.
const revokeStep = "revoke window %d generation %d"

// Revoke ends a grant. When it returns nil, no writer is inside the window and none can enter: the caller owns the
// bytes again, and the window is free. A reference that is not live (revoked before, or never granted) gives
// errStaleRef.
//
// In a shared table it also waits until the peer's process has left the window, has died, or is evicted. If an evicted
// peer is alive and still inside, the error is errPinned: the caller does not own the bytes, and the window stays
// taken.
func (t *Table) Revoke(r Ref) error {
	if uint64(r.Window) >= uint64(len(t.windows)) || r.Gen == 0 || !t.windows[r.Window].close(r.Gen) {
		return stepError(errStaleRef, revokeStep, r.Window, r.Gen)
	}
	t.revokingWindows.Add(1)
	w := &t.windows[r.Window]
	if t.shared != nil {
		if err := t.shared.closeRow(r, w.peer); err != nil {
			return err
		}
	}
	w.drain() // outside the mutex: a slow writer must not delay other grants

	t.mu.Lock()
	defer t.mu.Unlock()
	e := t.exports[w.seg-1]
	if !e.mayOverlap {
		t.spans.remove(&e.spanRoot, int32(r.Window), w.off)
	}
	e.liveGrants--
	t.revoked++
	w.mem = nil
	t.writtenBytes[w.seg-1] += w.writtenBytes.Swap(0)
	if t.nextGen[r.Window]++; t.nextGen[r.Window] == 0 {
		t.nextGen[r.Window] = 1
	}
	t.free[(t.oldestFree+t.freeCount)%len(t.free)] = r.Window
	t.freeCount++
	t.revokingWindows.Add(-1)
	return nil
}

// RevokePeer revokes all live grants of a peer, for example when its link has ended, and returns their number.
func (t *Table) RevokePeer(peer Peer) int {
	t.mu.Lock()
	var refs []Ref
	for i := range t.windows {
		w := &t.windows[i]
		if s := w.state.Load(); s&liveBit != 0 && w.peer == peer {
			refs = append(refs, Ref{Window: uint32(i), Gen: uint32(s >> 32)})
		}
	}
	t.mu.Unlock()
	n := 0
	for _, r := range refs {
		if t.Revoke(r) == nil { // another goroutine may have revoked it
			n++
		}
	}
	return n
}

// noSpan is the nil link of a spanTree.
const noSpan = int32(-1)

// spanTree holds the live grants of all segments of a table: a treap for each segment, ordered by offset, with one
// preallocated node per window. Grants are disjoint, so an overlap can only be with a neighbour.
//
// It is a treap, because the grants of one slot come in rising order and would degrade a plain tree, and because a
// sorted array would move tens of kB per grant at 1e5 grants per second.
type spanTree struct {
	nodes []span
	rng   uint64
}

type span struct {
	off, end    int // bytes, half open
	left, right int32
	prio        uint32
}

func newSpanTree(n int) spanTree {
	return spanTree{nodes: make([]span, n), rng: 0x9E3779B97F4A7C15}
}

// insert adds [off, end) as node i, or reports false if it overlaps a span of the tree.
func (t *spanTree) insert(root *int32, i int32, off, end int) bool {
	if t.overlap(*root, off, end) {
		return false
	}
	// xorshift64: priorities need only be independent of the insertion order.
	t.rng ^= t.rng << 13
	t.rng ^= t.rng >> 7
	t.rng ^= t.rng << 17
	n := &t.nodes[i]
	*n = span{off: off, end: end, prio: uint32(t.rng >> 32)}

	link := root
	for *link != noSpan && t.nodes[*link].prio >= n.prio {
		c := &t.nodes[*link]
		if off < c.off {
			link = &c.left
		} else {
			link = &c.right
		}
	}
	below := *link
	*link = i
	t.split(below, off, &n.left, &n.right)
	return true
}

// overlap reports whether a span of the tree and [off, end) share a byte.
func (t *spanTree) overlap(at int32, off, end int) bool {
	for at != noSpan {
		c := &t.nodes[at]
		switch {
		case end <= c.off:
			at = c.left
		case off >= c.end:
			at = c.right
		default:
			return true
		}
	}
	return false
}

// split divides the subtree at into left (spans before off) and right (spans after off).
func (t *spanTree) split(at int32, off int, left, right *int32) {
	for at != noSpan {
		c := &t.nodes[at]
		if c.off < off {
			*left, left, at = at, &c.right, c.right
		} else {
			*right, right, at = at, &c.left, c.left
		}
	}
	*left, *right = noSpan, noSpan
}

// remove takes node i, which begins at off, out of the tree.
func (t *spanTree) remove(root *int32, i int32, off int) {
	link := root
	for *link != i {
		c := &t.nodes[*link]
		if off < c.off {
			link = &c.left
		} else {
			link = &c.right
		}
	}
	l, r := t.nodes[i].left, t.nodes[i].right
	for l != noSpan && r != noSpan {
		if t.nodes[l].prio >= t.nodes[r].prio {
			*link, link, l = l, &t.nodes[l].right, t.nodes[l].right
		} else {
			*link, link, r = r, &t.nodes[r].left, t.nodes[r].left
		}
	}
	*link = max(l, r) // at most one of them is a node; noSpan is below every index
}

// pageSet is a set of pages as sorted ranges [first, end) that neither overlap nor touch.
type pageSet []pageRange

type pageRange struct{ first, end int }

// add returns s with [first, end) added. It may reuse the memory of s.
func (s pageSet) add(first, end int) pageSet {
	lo, _ := slices.BinarySearchFunc(s, first, func(r pageRange, p int) int { return cmp.Compare(r.end, p) })
	hi := lo
	for hi < len(s) && s[hi].first <= end {
		first, end = min(first, s[hi].first), max(end, s[hi].end)
		hi++
	}
	return slices.Replace(s, lo, hi, pageRange{first, end})
}

// firstAbsent returns the first page from page on that is not in the set.
func (s pageSet) firstAbsent(page int) int {
	lo, hi := 0, len(s)
	for lo < hi {
		if mid := (lo + hi) / 2; s[mid].end <= page {
			lo = mid + 1
		} else {
			hi = mid
		}
	}
	if lo < len(s) && s[lo].first <= page {
		return s[lo].end
	}
	return page
}
