package sci

import "ringlet/sim"

// What the tests of the package name beside what it exports.
func (n *Net) Trace(t *sim.Trace) { n.traceTo(t) }
