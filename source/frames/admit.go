package frames

import (
	"fmt"
	"math"

	"ringlet/source/live"
)

// runState is what a feed knows of its run: which fragments are there, and which front-end is attached. The zero value
// is the beginning of a run.
type runState struct {
	attachedFrontend string // name and place of the attached front-end; empty: none is
	acceptedBelow    uint64 // the consumer has accepted fragments up to this number, exclusive
	safeBelow        uint64 // all fragments of events below have their outcome
	// with isHeldBack: the lowest event that a front-end of version 1 must not take for safe
	heldBackFrom uint64
	isHeldBack   bool
	givenUp      givenUpRanges // of the whole run
	ended        bool          // the front-end has declared the end of its run: no event from end on
	endEvent     uint64
	wraps        bool // the front-end numbers with a counter of few bits, endEvent too
}

// resumeFrom returns the event from which a front-end is asked to send: all fragments below are there, or have their
// outcome. waiting are the events of fragments that are there and not judged by the consumer yet, in their order. A
// fragment whose number leaves others out counts if the next one stands close after it; otherwise the number may be
// wrong, and Ringlet asks again for fragments that it has, which does no harm.
func (s *runState) resumeFrom(waiting []uint64) uint64 {
	from := max(s.acceptedBelow, s.safeBelow)
	for i, e := range waiting {
		proven := i+1 < len(waiting) && waiting[i+1] > e && waiting[i+1]-e <= maxProvenGap
		if e == from || e > from && proven {
			from = e + 1
		}
	}
	return from
}

// maxProvenGap is how many numbers a front-end may leave out between two fragments for the second to confirm the
// first.
const maxProvenGap = 1024

// noteGivenUp notes a range of events whose fragments were given up.
func (s *runState) noteGivenUp(x givenUpRange) {
	if x.from >= x.to {
		return
	}
	s.givenUp.add(x)
	if x.reason == reasonRepeat || x.from < s.safeBelow && x.reason == reasonBackwards {
		return // the event has another copy of the fragment
	}
	if !s.isHeldBack || x.from < s.heldBackFrom {
		s.isHeldBack, s.heldBackFrom = true, x.from
	}
}

// ackFor returns the event below which a front-end of that version is told that all is safe.
func (s *runState) ackFor(version uint8) uint64 {
	safe := s.safeBelow
	if s.ended && !s.wraps {
		safe = min(safe, s.endEvent)
	}
	if version == version1 && s.isHeldBack {
		safe = min(safe, s.heldBackFrom)
	}
	return safe
}

// answerHello returns the answer to a front-end's hello. from is the event at which the front-end is to resume.
func (s *runState) answerHello(h hello, set *live.FeedSettings, from uint64) answer {
	refuse := func(c answerCode, format string, args ...any) answer {
		return answer{Code: c, Sentence: fmt.Sprintf(format, args...)}
	}
	switch {
	case h.Version != version1 && h.Version != currentVersion:
		return refuse(codeBadVersion, "the front-end speaks version %d of the format, and this Ringlet versions %d and %d: "+
			"take the clients of this Ringlet", h.Version, version1, currentVersion)
	case h.Source != anySource && h.Source != set.SourceID:
		return refuse(codeBadSource, "the front-end says that it is source %d, and input %s is source %d: "+
			"correct one of them", h.Source, set.Name, set.SourceID)
	case h.Run != 0 && set.Run != 0 && h.Run != set.Run:
		return refuse(codeBadRun, "the front-end takes run %d, and Ringlet run %d: let the front-end say 0 for any run",
			h.Run, set.Run)
	case uint64(h.MaxFragmentBytes) > uint64(set.MaxFragment):
		return refuse(codeBadFormat, "the front-end says that its fragments have up to %d bytes, and input %s takes %d at "+
			"most: put ?max=%d or more behind the address of the input", h.MaxFragmentBytes, set.Name, set.MaxFragment,
			h.MaxFragmentBytes)
	case s.attachedFrontend != "":
		return refuse(codeBusy, "input %s has a front-end already, %s: it must go first, or send to another input",
			set.Name, s.attachedFrontend)
	}
	return answer{
		Code: codeAccepted,
		A:    from,
		B:    set.Run,
		C:    uint32(min(StoreBytes(set.MaxFragment), math.MaxUint32)),
		D:    uint32(set.MaxFragment),
	}
}

// frameVerdict says what is done with a frame.
type frameVerdict uint8

const (
	frameHandOut frameVerdict = iota // hand the fragment out
	frameDiscard                     // the fragment is there already
	frameEndRun                      // the front-end has declared the end of its run
)

// judgeFrame says what is done with a frame of a front-end that was asked to resume at from. Fragments below from are
// there already, and so are those in waiting, which a front-end that resumes may send again. All others are handed out
// in the order in which they come, even if the numbers run backwards: the core of package live judges numbers. It also
// judges numbers above the declared end: one wrong number before is no reason to refuse the end.
func (s *runState) judgeFrame(f *frame, from uint64, waiting map[uint64]struct{}) (frameVerdict, error) {
	switch {
	case f.Flags&flagEnd != 0 && s.ended && f.Event != s.endEvent:
		return 0, formatErrorf("the run is declared over at event %d, but it was so at event %d before", f.Event, s.endEvent)
	case f.Flags&flagEnd != 0:
		s.ended, s.endEvent = true, f.Event
		return frameEndRun, nil
	case f.Event < from:
		return frameDiscard, nil
	case s.ended:
		return 0, formatErrorf("event %d comes after the end of the run, event %d", f.Event, s.endEvent)
	}
	if len(waiting) > 0 {
		if _, there := waiting[f.Event]; there {
			delete(waiting, f.Event)
			return frameDiscard, nil
		}
	}
	return frameHandOut, nil
}
