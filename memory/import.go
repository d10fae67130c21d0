package memory

import (
	"context"
	"errors"
	"fmt"
	"sort"
	"strings"
	"sync/atomic"

	"ringlet/shmem"
	"ringlet/transport"
)

// Import is another process's export in one ordering context. Methods are safe from any goroutine.
type Import struct {
	*imported
	context int
}

// imported is what all contexts of an import share.
type imported struct {
	space    *Space
	peer     *peer
	rank     int
	node     string
	name     string
	epoch    uint64
	size     int64
	runs     []pageRun        // of the downstream table, in order
	mapped   transport.Mapped // nil if the link goes over a network
	endCause atomic.Uint32    // why it is unusable; 0 while it is usable
}

// Piece is a part of a WriteMany.
type Piece struct {
	Offset int64
	Data   []byte
}

// Import finds an export by name, or by name@node, and asks the owner for the pages that are open to this node. It
// fails at once with ErrNotFound if no reachable member exports the name: try again later.
func (s *Space) Import(ctx context.Context, name string) (*Import, error) {
	bare, node, one := strings.Cut(name, "@")
	fail := func(err error) (*Import, error) {
		return nil, &Error{
			Op:      "import",
			Segment: name,
			Outcome: Refused,
			Cause:   err,
		}
	}
	if bare == "" || len(bare) > maxName {
		return fail(fmt.Errorf("the name has %d bytes: it may have 1 to %d, without @ and node", len(bare), maxName))
	}
	var found []*imported
	var failed error
	for rank, m := range s.members {
		if one && m.Name != node {
			continue
		}
		im, err := s.importFrom(ctx, rank, bare)
		switch {
		case err == nil:
			found = append(found, im)
		case errors.Is(err, ErrNotFound):
		case errors.Is(err, ErrLinkDown) && !one:
		default:
			failed = err
		}
	}
	switch {
	case len(found) == 1 && failed == nil:
		return &Import{imported: found[0]}, nil
	case len(found) == 0 && failed == nil:
		return fail(ErrNotFound)
	}
	for _, im := range found {
		im.release()
	}
	if failed != nil {
		return nil, failed
	}
	return fail(ErrAmbiguous)
}

// importFrom imports a name from one member.
func (s *Space) importFrom(ctx context.Context, rank int, name string) (*imported, error) {
	s.mu.Lock()
	im := &imported{
		space: s,
		peer:  s.peers[rank],
		rank:  rank,
		node:  s.members[rank].Name,
		name:  name,
	}
	s.mu.Unlock()
	c := s.getCall()
	defer s.putCall(c)
	c.op = op{
		name:           "import",
		kind:           kindFind,
		body:           []byte(name),
		forceUnordered: true,
	}
	o := &c.op
	if err := im.runQueued(ctx, c, noContext); err != nil {
		return nil, err
	}
	im.size, im.epoch = int64(c.a), c.b
	if im.size < 1 || im.size>>32 > maxRunPages {
		return nil, im.newError(o, Refused, ErrProtocol)
	}
	runs, err := parseRuns(c.body, pagesOf(int(im.size)))
	if err != nil {
		return nil, im.newError(o, Refused, fmt.Errorf("%w: %w", ErrProtocol, err))
	}
	im.runs = runs
	im.mapped = s.ep.Mapped(rank)
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.peers[rank] != im.peer || s.closed {
		return nil, im.newError(o, Refused, ErrLinkDown)
	}
	im.peer.imports = append(im.peer.imports, im)
	return im, nil
}

// Node is the name of the owner.
func (im *Import) Node() string { return im.node }

// Size is the size of the segment, bytes.
func (im *Import) Size() int64 { return im.size }

// InContext returns the same import in another of the 16 ordering contexts, 0 to 15. Import returns context 0.
func (im *Import) InContext(ordering int) *Import {
	if ordering < 0 || ordering >= numContexts {
		panic(fmt.Sprintf("memory: there is no ordering context %d", ordering))
	}
	return &Import{imported: im.imported, context: ordering}
}

// Close ends the import. The owner then closes this node's windows, unless another import of this node uses them.
func (im *Import) Close() { im.release() }

func (im *imported) release() {
	s := im.space
	if !im.invalidate(ErrClosed) {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for i := range s.openWrites {
		if s.combiner.buffers[i].inUse && s.openWrites[i].imported == im {
			s.sendBuffer(i)
		}
	}
	for i, other := range im.peer.imports {
		if other == im {
			im.peer.imports = append(im.peer.imports[:i], im.peer.imports[i+1:]...)
			_ = s.send(im.rank, &message{kind: kindLeave, a: im.epoch})
			break
		}
	}
	s.runActions()
}

// invalidate makes the import unusable; the first reason stays.
func (im *imported) invalidate(why Cause) bool { return im.endCause.CompareAndSwap(0, uint32(why)) }

func (im *imported) newError(o *op, out Outcome, cause error) *Error {
	return &Error{
		Op:      o.name,
		Segment: im.name,
		Node:    im.node,
		Offset:  o.off,
		Length:  o.length(),
		Outcome: out,
		Cause:   cause,
	}
}

// rowAt returns the row of the table for an offset, or nil.
func (im *imported) rowAt(off int64) *pageRun {
	page := int(off / PageSize)
	i := sort.Search(len(im.runs), func(i int) bool { return im.runs[i].first+im.runs[i].count > page })
	if i == len(im.runs) || im.runs[i].first > page {
		return nil
	}
	return &im.runs[i]
}

// clip returns how many of n bytes at off lie in the row, and their offset in its window.
func (r *pageRun) clip(off int64, n int) (at uint32, length int) {
	at = uint32(off - int64(r.first)*PageSize)
	return at, int(min(int64(n), int64(r.first+r.count)*PageSize-off))
}

// checkAccess checks whether bytes are open for an access, and returns the attributes of all their pages together.
func (im *imported) checkAccess(off int64, n int, want Allow) (at Attributes, why Cause) {
	if off < 0 || n < 0 || off > im.size-int64(n) {
		return 0, ErrOutside
	}
	for end := off + int64(n); off < end; {
		r := im.rowAt(off)
		if r == nil || r.allow&want == 0 {
			return at, ErrDenied
		}
		at |= r.attributes
		_, length := r.clip(off, int(end-off))
		off += int64(length)
	}
	return at, causeNone
}

// Write writes data at an offset of the segment.
func (im *Import) Write(ctx context.Context, off int64, data []byte) error {
	c := im.space.getCall()
	defer im.space.putCall(c)
	c.singlePiece[0] = Piece{off, data}
	c.op = op{name: "write", off: off, pieces: c.singlePiece[:]}
	return im.runCall(ctx, c, AllowWrite)
}

// WriteMany writes many pieces, which travel together and have one outcome.
func (im *Import) WriteMany(ctx context.Context, pieces []Piece) error {
	if len(pieces) == 0 {
		return nil
	}
	c := im.space.getCall()
	defer im.space.putCall(c)
	c.op = op{name: "write", off: pieces[0].Offset, pieces: pieces}
	return im.runCall(ctx, c, AllowWrite)
}

// Read reads len(dst) bytes at an offset. After an error some of dst may have changed.
func (im *Import) Read(ctx context.Context, off int64, dst []byte) error {
	if len(dst) == 0 {
		return nil
	}
	if len(dst) > maxLoad && im.mapped == nil {
		return im.readLong(ctx, off, dst)
	}
	if r := im.rowAt(off); im.mapped == nil && r != nil {
		if _, n := r.clip(off, len(dst)); n < len(dst) { // a request reads from one window only
			return errors.Join(im.Read(ctx, off, dst[:n]), im.Read(ctx, off+int64(n), dst[n:]))
		}
	}
	c := im.space.getCall()
	defer im.space.putCall(c)
	c.op = op{
		name: "read",
		kind: kindLoad,
		off:  off,
		dst:  dst,
	}
	return im.runCall(ctx, c, AllowRead)
}

// Add adds to a word and returns its former value.
func (im *Import) Add(ctx context.Context, off int64, delta uint64) (before uint64, err error) {
	return im.runWordOp(ctx, op{
		name:    "add",
		kind:    kindAdd,
		off:     off,
		a:       delta,
		ordered: true,
	}, AllowLock)
}

// Swap replaces a word and returns its former value.
func (im *Import) Swap(ctx context.Context, off int64, word uint64) (before uint64, err error) {
	return im.runWordOp(ctx, op{
		name:    "swap",
		kind:    kindSwap,
		off:     off,
		a:       word,
		ordered: true,
	}, AllowLock)
}

// CompareAndSwap replaces a word if it is the expected one, and returns its former value.
func (im *Import) CompareAndSwap(ctx context.Context, off int64, expected, word uint64) (before uint64, err error) {
	o := op{
		name:    "compare and swap",
		kind:    kindCompare,
		off:     off,
		a:       expected,
		b:       word,
		ordered: true,
	}
	return im.runWordOp(ctx, o, AllowLock)
}

// Notify counts a notice at an offset's page when all earlier transactions of its context are over, and wakes the
// callers of Wait. It returns the page's number of notices.
func (im *Import) Notify(ctx context.Context, off int64) (notices uint64, err error) {
	return im.runWordOp(ctx, op{
		name:    "notify",
		kind:    kindNotify,
		off:     off,
		ordered: true,
	}, AllowNotify)
}

// Wait returns when the page of an offset has had more notices than known, with their number. It belongs to no ordering
// context, and its only time-out is that of ctx.
func (im *Import) Wait(ctx context.Context, off int64, known uint64) (notices uint64, err error) {
	return im.runWordOp(ctx, op{
		name:           "wait",
		kind:           kindWait,
		off:            off,
		a:              known,
		forceUnordered: true,
	}, AllowRead)
}

// Fence returns when every earlier transaction of its context is over, of all imports of the Space. It returns the
// error of the first write to Combining pages, or Post, that has failed since the last Fence.
func (im *Import) Fence(ctx context.Context) error {
	_, err := im.runWordOp(ctx, op{name: "fence", ordered: true, isFence: true}, 0)
	return err
}

// runWordOp runs a transaction whose answer is a word.
func (im *Import) runWordOp(ctx context.Context, o op, want Allow) (uint64, error) {
	c := im.space.getCall()
	defer im.space.putCall(c)
	c.op = o
	err := im.runCall(ctx, c, want)
	return c.op.result, err
}

// runCall checks a transaction against the downstream table, and runs it.
func (im *Import) runCall(ctx context.Context, c *call, want Allow) error {
	o := &c.op
	if why := Cause(im.endCause.Load()); why != causeNone && !o.isFence {
		return im.newError(o, Refused, why)
	}
	at, why := im.checkOp(o, want)
	switch {
	case why != causeNone:
		return im.newError(o, Refused, why)
	case ctx.Err() != nil:
		return im.newError(o, Refused, context.Cause(ctx))
	}
	o.ordered = o.ordered || at&Ordered != 0 && !o.forceUnordered
	ordering := im.context
	if o.forceUnordered {
		ordering = noContext
	}
	if im.mapped != nil && o.kind != kindNotify && o.kind != kindWait && !o.isFence {
		at, why := im.space.admitDirect(ordering, o.ordered, at&Combining != 0 && o.pieces != nil)
		switch {
		case why != causeNone:
			return im.newError(o, Refused, why)
		case at:
			out, why, partial := im.performDirect(o)
			return im.resultError(o, out, why.asError(), partial)
		}
	}
	if at&Combining != 0 && im.mapped == nil && len(o.pieces) == 1 && o.length() > 0 && o.length() <= bufferSize &&
		o.off/PageSize == (o.off+int64(o.length())-1)/PageSize {
		return im.combine(ctx, c)
	}
	err := im.runQueued(ctx, c, ordering)
	o.result = c.a
	return err
}

func (im *Import) checkOp(o *op, want Allow) (at Attributes, why Cause) {
	if o.isFence {
		return 0, causeNone
	}
	if o.pieces != nil {
		for _, p := range o.pieces {
			a, why := im.checkAccess(p.Offset, len(p.Data), want)
			if why != causeNone {
				return 0, why
			}
			at |= a
		}
		return at, causeNone
	}
	n := o.length()
	if at, why = im.checkAccess(o.off, n, want); why == causeNone && o.isWord() && o.off%shmem.WordSize != 0 {
		why = ErrMisaligned
	}
	return at, why
}

func (im *imported) resultError(o *op, out Outcome, cause error, partial bool) error {
	if out == Done {
		return nil
	}
	err := im.newError(o, out, cause)
	err.Partial = partial && out == Refused
	return err
}
