package part

import "ringlet/sim"

// What the tests of the package name beside what it exports.
func (b *Bus) Favour(c Client)        { b.favour(c) }
func (x *Crossbar) Link(out int) *Bus { return x.link(out) }
func (p *Port) Blocked() sim.Time     { return p.blockedFor() }
func (p *Port) Room(size int32) bool  { return p.free(size) }
func (q *Queue[T]) Full() bool        { return q.full() }
