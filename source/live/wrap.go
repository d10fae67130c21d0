package live

// A counter of few bits begins anew at 0 when it has counted through: that is a lap. Its numbers are unwrapped: each
// becomes the number of 64 bits that has the same low bits and is nearest to where the source is expected.
//
// Which of these numbers it is follows only from what is accepted already: the highest accepted number of the source
// or, when the source has been silent, how far the run has come. So a wrong number moves nothing: it is judged as every
// other one (see numbering).

// maxWrapBits is the largest number of bits of a counter that is unwrapped.
const maxWrapBits = 63

// backwardShare is which share of a lap lies before the expected number: 1/backwardShare. What a source has lost may
// be nearly the rest of the lap.
const backwardShare = 4

// unwrap returns the number of 64 bits of a counter with so many bits that shows raw, when the number about is
// expected: from a quarter of a lap before it to three quarters behind it.
func unwrap(raw uint64, bits uint8, about uint64) uint64 {
	lap := uint64(1) << bits
	base := about - min(about, lap/backwardShare)
	return base + (raw-base)&(lap-1)
}

// SetWrap says that a source has a counter of 1 to 63 bits: Offer unwraps its numbers.
func (m *Matcher) SetWrap(source int, bits uint8) {
	m.numbering.sources[source].counterBits = min(bits, maxWrapBits)
}

// wraps says that the numbers of the source are unwrapped.
func (s *sourceNumbers) wraps() bool { return s.counterBits > 0 }

// unwrap returns the number of 64 bits for the number raw of the source. first is the event at which it is expected to
// begin, runAt how far the run has come. A source that was held up goes on next to where it stopped; any other number
// is looked for near the run.
func (s *sourceNumbers) unwrap(raw, first, runAt uint64) uint64 {
	s.guessesLap = false
	if !s.hasAccepted {
		return unwrap(raw, s.counterBits, first)
	}
	next := s.nextNumber
	if e := unwrap(raw, s.counterBits, next); e == next || runAt <= next {
		return e
	}
	s.guessesLap = runAt-next >= uint64(1)<<s.counterBits/backwardShare
	return unwrap(raw, s.counterBits, runAt)
}

// noteLap notes in which lap an accepted number is, and whether that was guessed: since the source stopped, the run
// has come so far that a counter cannot show what the source lost.
func (s *sourceNumbers) noteLap(e uint64) {
	if s.guessesLap && e != s.nextNumber {
		s.counts.GuessedLaps++
		s.guessesLap, s.guessedAt = false, e
	}
	s.counts.Laps = max(s.counts.Laps, e>>s.counterBits)
}

// firstExpected is the event at which a source is expected to begin: the first one to be taken, or the lowest of which
// another source has a fragment, or that may still come.
func (m *Matcher) firstExpected() uint64 {
	w := &m.numbering.window
	if len(m.cuts.list) > 0 {
		return max(w.low, m.cuts.list[0].First)
	}
	if e := w.firstHeld(w.low, w.seenBelow); e < w.seenBelow {
		return e
	}
	first := noFragment
	for i := range m.numbering.sources {
		if l := m.numbering.sources[i].beyondWindow; len(l) > 0 {
			first = min(first, l[0].Event)
		}
	}
	if first == noFragment {
		return w.seenBelow
	}
	return first
}
