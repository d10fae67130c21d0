package sim

// What the tests of the package name beside what it exports.
const CheckEvery = checkEvery

func (s *Sim) Pending() int                              { return s.waiting() }
func (t *Trace) Count(name string, at Time, value int64) { t.count(name, at, value) }
