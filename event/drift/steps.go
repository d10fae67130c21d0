package drift

// stepEvents is after how many events a Monitor believes that numbers grow in steps.
const stepEvents = 512

// steps knows by how much the numbers of events grow: by 1, or all by a multiple of a step, such as numbers that are
// times in microseconds from a trigger with a fixed rate. Another step is believed when stepEvents events twice in a
// row have it, so that a stray number changes nothing.
type steps struct {
	step   uint64 // by which numbers are divided; 1 until there were stepEvents events
	common uint64 // greatest common divisor of the differences of the last numbers, up to stepEvents
	first  uint64 // the first of them
	seen   int    // how many they are
	before uint64 // common of the stepEvents events before; 0: none were
}

// divide returns the place of an event in steps. changed: those of events before it had another step.
func (s *steps) divide(event uint64) (place uint64, changed bool) {
	if s.seen == 0 {
		s.first, s.common = event, 0
	}
	s.step = max(1, s.step)
	s.common = gcd(s.common, max(event, s.first)-min(event, s.first))
	if s.seen++; s.seen == stepEvents {
		now := max(1, s.common)
		if changed = now != s.step && (s.before == 0 || s.before == now); changed {
			s.step = now
		}
		s.before, s.seen = now, 0
	}
	return event / s.step, changed
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
