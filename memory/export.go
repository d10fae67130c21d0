package memory

import (
	"fmt"
	"maps"
	"slices"
	"sync"

	"ringlet/shmem"
)

// Export is a segment that others may import.
type Export struct {
	space *Space
	e     *exported
	once  sync.Once
	err   error
}

// Export gives a segment a name, and opens pages of it. Pages without a rule are closed. The caller keeps the segment
// until the Export is closed.
func (s *Space) Export(name string, seg *shmem.Segment, rules ...Pages) (*Export, error) {
	fail := func(err error) (*Export, error) { return nil, fmt.Errorf("export %q: %w", name, err) }
	mem := seg.Bytes()
	pages := pagesOf(len(mem))
	if name == "" || len(name) > maxName || slices.Contains([]byte(name), '@') {
		return fail(fmt.Errorf("the name has %d bytes: it may have 1 to %d, and no @", len(name), maxName))
	}
	var open []shmem.PageRule
	for _, r := range rules {
		if err := r.check(pages, len(s.members)); err != nil {
			return fail(err)
		}
		peer := shmem.AnyPeer
		if r.Peer != Everybody {
			peer = shmem.Peer(r.Peer)
		}
		if a := accessFor(r.Allow, r.Attributes); a != 0 {
			open = append(open, shmem.PageRule{
				FirstPage: r.First,
				PageCount: r.Count,
				Peer:      peer,
				Access:    a,
			})
		}
	}
	id, err := s.table.ExportSegment(seg, open...)
	if err != nil {
		return fail(err)
	}
	if err = s.table.AllowOverlap(id); err == nil {
		s.mu.Lock()
		var e *exported
		if err = ErrClosed; !s.closed {
			e, err = s.responder.export(name, id, len(mem), rules)
		}
		s.mu.Unlock()
		if err == nil {
			return &Export{space: s, e: e}, nil
		}
	}
	_ = s.table.Withdraw(id)
	return fail(err)
}

// Close withdraws the export. When it returns nil, no peer is inside the bytes or can enter. An error says that a peer
// that is alive but unreachable may still be inside; the segment must then stay.
func (x *Export) Close() error {
	x.once.Do(func() { x.err = x.space.withdraw(x.e) })
	return x.err
}

func (s *Space) withdraw(e *exported) error {
	s.mu.Lock()
	live := s.responder.exports[e.name] == e
	refs := s.responder.withdraw(e)
	s.runActions()
	others := slices.Collect(maps.Keys(s.activeRevokes)) // windows that importers have left or lost
	s.mu.Unlock()
	if !live {
		return nil
	}
	var first error
	for _, r := range refs {
		if err := s.table.Revoke(r); err != nil && first == nil {
			first = fmt.Errorf("export %q: %w", e.name, err)
		}
	}
	for _, done := range others {
		<-done
	}
	if err := s.table.Withdraw(e.segment); err != nil && first == nil {
		first = fmt.Errorf("export %q: %w", e.name, err)
	}
	return first
}
