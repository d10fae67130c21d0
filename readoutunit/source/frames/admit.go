package frames

import (
	"fmt"

	"ringlet/event"
	"ringlet/readoutunit/source/live"
)

// state is what a feed knows of its run: what is there, and who is attached. The zero value is a run that begins.
type state struct {
	attached string // name of the front-end that is attached, and where it is; empty: none
	next     uint64 // one above the largest event number that is there
	safe     uint64 // all events below are safe
	ended    bool   // the front-end has declared the end of its run: no event from end on
	end      uint64
}

// resume is the event number from which a front-end is asked to send: all below are there, or safe.
func (s *state) resume() uint64 { return max(s.next, s.safe) }

// admit says how a front-end's hello is answered.
func (s *state) admit(h hello, set *live.FeedSettings) answer {
	refuse := func(c code, format string, args ...any) answer {
		return answer{Code: c, Sentence: fmt.Sprintf(format, args...)}
	}
	switch {
	case h.Version != version:
		return refuse(badVersion, "the front-end speaks version %d of the format, and this Ringlet version %d: "+
			"take the clients of this Ringlet", h.Version, version)
	case h.Source != anySource && h.Source != set.Source:
		return refuse(badSource, "the front-end says that it is source %d, and input %s is source %d: "+
			"correct one of them", h.Source, set.Name, set.Source)
	case h.Run != 0 && set.Run != 0 && h.Run != set.Run:
		return refuse(badRun, "the front-end takes run %d, and Ringlet run %d: let the front-end say 0 for any run",
			h.Run, set.Run)
	case s.attached != "":
		return refuse(busy, "input %s has a front-end already, %s: it must go first, or send to another input",
			set.Name, s.attached)
	}
	return answer{
		Code:    accepted,
		Event:   s.resume(),
		Window:  storeSize,
		Largest: event.MaxFragment,
	}
}

// verdict is what becomes of a frame.
type verdict uint8

const (
	take    verdict = iota // hand it out
	discard                // it is there already
	finish                 // the run is over
)

// judge says what becomes of a frame of a front-end that was asked to resume at from. What stands below is there. What
// follows is handed out in the order in which it comes, even where its number runs backwards: the core of package live
// judges numbers.
func (s *state) judge(f *frame, from uint64) (verdict, error) {
	switch {
	case f.Flags&flagEnd != 0 && f.Event < s.next:
		return 0, &formatError{fmt.Sprintf("the run is declared over at event %d, but event %d came before", f.Event,
			s.next-1)}
	case f.Flags&flagEnd != 0 && s.ended && f.Event != s.end:
		return 0, &formatError{fmt.Sprintf("the run is declared over at event %d, but it was so at event %d before",
			f.Event, s.end)}
	case f.Flags&flagEnd != 0:
		s.ended, s.end = true, f.Event
		return finish, nil
	case f.Event < from:
		return discard, nil
	case s.ended:
		return 0, &formatError{fmt.Sprintf("event %d comes behind the end of the run, event %d", f.Event, s.end)}
	}
	s.next = max(s.next, f.Event+1)
	return take, nil
}
