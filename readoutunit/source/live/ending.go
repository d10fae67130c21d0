package live

// The end of a run, for a Matcher.

// MarkSourceOver tells that a source will give nothing more.
func (m *Matcher) MarkSourceOver(source int) { m.sources[source].isOver = true }

// StopSource tells that nothing more is taken from a source, since the run ends. What it has not given is missing at
// once; or is not built at all, where no event may lack a fragment.
func (m *Matcher) StopSource(source int) {
	s := &m.sources[source]
	s.isOver = s.isOver || m.rules.OnMissing != StopAtMissing
	s.stopped = true
}

// allStopped tells that nothing more is taken from any source.
func (m *Matcher) allStopped() bool {
	for i := range m.sources {
		if s := &m.sources[i]; !s.isOver && !s.stopped {
			return false
		}
	}
	return true
}

// allOver tells that all sources are, and have nothing beyond reach that is to be built.
func (m *Matcher) allOver() bool {
	if !m.allStopped() || m.heldBack {
		return false
	}
	if m.lacksStopped {
		return m.reach >= m.decidedBelow
	}
	waits, leaps := false, true
	for i := range m.sources {
		s := &m.sources[i]
		waits, leaps = waits || len(s.beyondWindow) > 0, leaps && (len(s.beyondWindow) > 0 || s.isOver)
	}
	return m.reach >= m.seenBelow && !(waits && leaps)
}
