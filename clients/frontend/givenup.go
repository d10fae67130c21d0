package frontend

import "fmt"

// maxGivenUp is how many ranges a stream keeps apart; givenUps.add joins further ones.
const maxGivenUp = 256

// GivenUp is a range of events, From to To without To. Some of the fragments that were sent for them are in no file of
// the run, and will be in none: as many as Fragments says.
type GivenUp struct {
	From, To  uint64
	Fragments uint64 // 0: not counted
	Reason    uint8  // as in docs/format/frames.md
	Sentence  string // of a stream
	Missed    uint64 // of a ring: ranges before this one that were overwritten before they were read
}

// GivenUpError is the error of Close if all fragments have their outcome and some were given up.
type GivenUpError struct{ Ranges []GivenUp }

func (e *GivenUpError) Error() string {
	var n uint64
	for _, g := range e.Ranges {
		n += g.Fragments
	}
	return fmt.Sprintf("%d fragments that were sent are not in the run; the first of them: %s", n,
		e.Ranges[0].Sentence)
}

// GivenUp lists the fragments of this stream that the readout units have given up so far.
func (s *Stream) GivenUp() []GivenUp {
	s.mu.Lock()
	defer s.mu.Unlock()
	var ranges []GivenUp
	for _, g := range s.givenUpInOtherRuns.merge(s.givenUp) {
		if s.lastSentPlusOne > 0 && g.From < s.lastSentPlusOne && g.To > s.firstSent {
			ranges = append(ranges, g)
		}
	}
	return ranges
}

// givenUps are ranges in the order in which they were reported, at most maxGivenUp.
type givenUps []GivenUp

// add returns the list with one more range. A range that continues the last one, or for which there is no room, is
// joined to the last one.
func (l givenUps) add(g GivenUp) givenUps {
	if g.From >= g.To {
		return l
	}
	if len(l) == 0 {
		return append(l, g)
	}
	last := &l[len(l)-1]
	touches := last.Reason == g.Reason && last.To == g.From
	if !touches && len(l) < maxGivenUp {
		return append(l, g)
	}
	if last.Reason != g.Reason {
		last.Reason = 0
	}
	last.From, last.To, last.Fragments = min(last.From, g.From), max(last.To, g.To), last.Fragments+g.Fragments
	last.Sentence = fmt.Sprintf("%d fragments of events %d to %d: %s", last.Fragments, last.From, last.To-1, g.Sentence)
	if len(last.Sentence) > maxSentence {
		last.Sentence = last.Sentence[:maxSentence]
	}
	return l
}

// merge returns both lists as one.
func (l givenUps) merge(more givenUps) givenUps {
	out := append(givenUps(nil), l...)
	for _, g := range more {
		out = out.add(g)
	}
	return out
}

// rangesBelow returns the parts of the ranges that are below an event.
func (l givenUps) rangesBelow(event uint64) (out givenUps) {
	for _, g := range l {
		if g.To = min(g.To, event); g.From < g.To {
			g.Fragments = min(g.Fragments, g.To-g.From)
			out = append(out, g)
		}
	}
	return out
}
