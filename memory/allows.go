package memory

// Methods for package memory/gateway, which passes a client's requests to an import.

// Allows reports whether n bytes at an offset are open for an access, and the attributes of their pages; why is 0 if
// they are. It looks only at this node's table, so the owner may still refuse.
func (im *Import) Allows(off int64, n int, want Allow) (at Attributes, why Cause) {
	if why := Cause(im.endCause.Load()); why != causeNone {
		return 0, why
	}
	return im.checkAccess(off, n, want)
}

// Mapped reports whether reads, writes and words are loads and stores into mapped memory. Then they wait for the peer
// only if their ordering context is not idle.
func (im *Import) Mapped() bool { return im.mapped != nil }

// Idle reports whether this ordering context has no transaction under way, of any import. Lost transactions count, and
// writes that wait in a write buffer, too.
func (im *Import) Idle() bool {
	s := im.space
	s.mu.Lock()
	defer s.mu.Unlock()
	_, open := s.combiner.findOpen(im.context)
	c := &s.requester.contexts[im.context]
	return !open && c.runningCount == 0 && c.held.head == noSlot
}
