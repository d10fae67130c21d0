package live

import "time"

// disjointAfter is how long two sources may give fragments without sharing a number before that is reported. It is
// less than the two seconds that a user waits for a reaction.
const disjointAfter = 1500 * time.Millisecond

// SourceRange returns the range of numbers of a source. Suspect numbers count only if the source has no accepted one.
func (m *Matcher) SourceRange(source int) Range {
	return m.numbering.sources[source].givenRange()
}

// givenRange is SourceRange of this source.
func (s *sourceNumbers) givenRange() Range {
	switch {
	case s.hasAccepted:
		return Range{s.counts.FirstEvent, s.nextNumber - 1}
	case len(s.suspects) > 0:
		r := Range{s.suspects[0].Event, s.suspects[0].Event}
		for _, d := range s.suspects {
			r.First, r.Last = min(r.First, d.Event), max(r.Last, d.Event)
		}
		return r
	}
	return Range{First: noFragment}
}

// FindDisjoint says whether a source and another one both give fragments and share no number, and returns the first
// such other source. again is when to ask again, if the answer depends on time alone.
func (m *Matcher) FindDisjoint(source int, now time.Duration) (other int, disjoint bool, again time.Duration) {
	s, again := &m.numbering.sources[source], Never
	mine := s.givenRange()
	if !s.spansRange(mine) {
		return 0, false, again
	}
	for i := range m.numbering.sources {
		o := &m.numbering.sources[i]
		its := o.givenRange()
		if i == source || !o.spansRange(its) || its.First <= mine.Last && mine.First <= its.Last {
			continue
		}
		due := max(s.since, o.since) + disjointAfter
		if s.isOver || o.isOver { // it will give no more
			due = now
		}
		if now >= due {
			return i, true, Never
		}
		again = min(again, due)
	}
	return 0, false, again
}

// spansRange says that a source has given more than one number: a single one may be garbage.
func (s *sourceNumbers) spansRange(r Range) bool {
	return r.First < r.Last || s.hasAccepted && len(s.beyondWindow) > 0
}
