package component

import "ringlet/sim"

// What the tests of the package name beside what it exports.
func (b *Bus) AttachFirst(c Client)   { b.attachPriority(c) }
func (x *Crossbar) Link(out int) *Bus { return x.links[out] }
func (p *Port) Blocked() sim.Time     { return p.blockedTime }
func (p *Port) Fits(size int32) bool  { return p.fits(size) }
func (q *Queue[T]) Full() bool        { return q.full() }
