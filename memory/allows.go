package memory

// What somebody must know who takes requests of others to an import: memory/gateway.

// Allows says whether n bytes at an offset are open for something, and how their pages are written; why is 0 where they
// are. It looks at this node's table alone, so the owner may still refuse.
func (im *Import) Allows(off int64, n int, want Allow) (at Attributes, why Cause) {
	if why := Cause(im.endCause.Load()); why != causeNone {
		return 0, why
	}
	return im.checkAccess(off, n, want)
}

// Mapped reports whether reads, writes and words are loads and stores here. They wait for a peer only where their
// ordering context is not idle.
func (im *Import) Mapped() bool { return im.mapped != nil }

// Idle reports whether nothing of this ordering context is under way, of any import. What is lost is under way, and so
// are writes that stand in a write buffer.
func (im *Import) Idle() bool {
	s := im.space
	s.mu.Lock()
	defer s.mu.Unlock()
	_, open := s.combiner.findOpen(im.context)
	c := &s.requester.contexts[im.context]
	return !open && c.runningCount == 0 && c.held.head == noSlot
}
