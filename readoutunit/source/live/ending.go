package live

// The end of a run, for a Matcher.

// MarkOver tells that a source will give nothing more.
func (m *Matcher) MarkOver(source int) { m.sources[source].over = true }

// StopSource tells that nothing more is taken from a source, since the run ends. What it has not given is missing at
// once; or is not built at all, where no event may lack a fragment.
func (m *Matcher) StopSource(source int) {
	s := &m.sources[source]
	s.over = s.over || m.rules.OnMissing != Stop
	s.stopped = true
}

// allStopped tells that nothing more is taken from any source.
func (m *Matcher) allStopped() bool {
	for i := range m.sources {
		if s := &m.sources[i]; !s.over && !s.stopped {
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
	if m.stuck {
		return m.reach >= m.decided
	}
	waits, leaps := false, true
	for i := range m.sources {
		s := &m.sources[i]
		waits, leaps = waits || len(s.ahead) > 0, leaps && (len(s.ahead) > 0 || s.over)
	}
	return m.reach >= m.seen && !(waits && leaps)
}
