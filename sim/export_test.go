package sim

// What the tests of the package name beside what it exports.
const CheckEvery = eventsBetweenChecks

func (s *Sim) Pending() int                              { return len(s.pending) }
func (t *Trace) Count(name string, at Time, value int64) { t.recordLevel(name, at, value) }
