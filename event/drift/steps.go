package drift

// stepEvents is after how many events a Monitor believes that numbers grow in steps.
const stepEvents = 512

// steps knows by how much the numbers of events grow: by 1, or all by a multiple of a step, such as numbers that are
// times in microseconds from a trigger with a fixed rate.
type steps struct {
	step   uint64 // by which numbers are divided; 1 until there were stepEvents events
	common uint64 // greatest common divisor of the differences of numbers so far
	first  uint64 // number of the first event
	seen   int    // events, up to stepEvents
}

// divide returns the place of an event in steps. changed: those of events before it had another step.
func (s *steps) divide(event uint64) (place uint64, changed bool) {
	if s.seen == 0 {
		s.first = event
	}
	s.common = gcd(s.common, max(event, s.first)-min(event, s.first))
	s.seen = min(s.seen+1, stepEvents)
	step := uint64(1)
	if s.seen == stepEvents {
		step = max(1, s.common)
	}
	changed = step != max(1, s.step)
	s.step = step
	return event / step, changed
}

func gcd(a, b uint64) uint64 {
	for b != 0 {
		a, b = b, a%b
	}
	return a
}

// restart forgets all blocks, since their numbers were divided by another step.
func (m *Monitor) restart() {
	clear(m.pending)
	m.blocks, m.last, m.deciding = nil, 0, 0
	for i, p := range m.pairs {
		m.pairs[i] = newPair(p.a, p.b)
	}
}
