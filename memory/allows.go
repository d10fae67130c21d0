package memory

// What somebody must know who takes requests of others to an import: memory/door.

// Allows says whether n bytes at an offset are open for something, and how their pages are written; why is 0 where they
// are. It looks at this node's table alone, so the owner may still refuse.
func (im *Import) Allows(off int64, n int, want Allow) (at Attributes, why Cause) {
	if why := Cause(im.over.Load()); why != reasonNone {
		return 0, why
	}
	return im.check(off, n, want)
}

// Mapped reports whether reads, writes and words are loads and stores here, which never wait for a peer.
func (im *Import) Mapped() bool { return im.mapped != nil }
