package lhcb

import "ringlet/sim"

// launch sends the tags that may set out to the first readout unit.
func (w *world) launch() {
	w.tags = w.tagnet.Launch(w.tags[:0])
	for i := range w.tags {
		w.s.After(w.c.flight, (*tagged)(w.nodes[0]), w.onRing.put(w.tags[i]), 0)
	}
}

type tagged node

// Handle: a tag is at the readout unit.
func (e *tagged) Handle(tag, _ int64) {
	n := (*node)(e)
	t := n.w.onRing.get(tag)
	n.w.must(n.ring.Tag(&t))
	n.serve()
	n.forward()
}

// forward passes on the tags that the readout unit is done with: to the next one, and from the last to the scheduler.
func (n *node) forward() {
	if n.ring == nil {
		return
	}
	for t, ok := n.ring.Forward(); ok; t, ok = n.ring.Forward() {
		var next sim.Handler = (*back)(n)
		if n.index+1 < len(n.w.nodes) {
			next = (*tagged)(n.w.nodes[n.index+1])
		}
		n.w.s.After(n.w.c.flight, next, n.w.onRing.put(t), 0)
	}
}

type back node

// Handle: a tag has come round.
func (e *back) Handle(tag, _ int64) {
	n := (*node)(e)
	t := n.w.onRing.get(tag)
	n.w.must(n.w.tagnet.Return(n.index, &t))
	n.w.launch()
}
