package source

import (
	"math"

	"ringlet/event"
	"ringlet/source/live"
)

// The Matcher counts in the numbers by which events are matched, a feed in the events of its front-end. The methods
// below stand between them. mu is held.

// isTranslated says that the two differ.
func (in *intake) isTranslated() bool { return in.options.NumberedBy != ByEvent }

// resumeEvent is the event from which a front-end is to send: it follows the highest one that was accepted or, where
// its events are not what is matched, given up.
func (in *intake) resumeEvent() uint64 {
	next := in.live.matcher.NextEvent(in.index)
	if in.isTranslated() {
		return in.translation.ResumeEvent(next)
	}
	return next
}

// safeEvent is the event below which all are safe, when all numbers below safe are.
func (in *intake) safeEvent(safe uint64) uint64 {
	if in.isTranslated() {
		return in.translation.SafeEvent(safe)
	}
	return safe
}

// noteOffered notes which number the matcher has for a fragment of the feed.
func (in *intake) noteOffered(f *live.Fragment, ref uint64) {
	if in.isTranslated() {
		in.noteOther(in.translation.Add(ref, f.Event, in.live.matcher.Offered(in.index)))
	}
}

// noteThrown notes that the feed is to report a fragment that the matcher did not keep.
func (in *intake) noteThrown(ref uint64, wrong *live.FragmentError) {
	if in.isTranslated() {
		in.noteTranslated(ref, wrong.Fault)
	} else if wrong.WideBits == 0 { // else it is the number of no event
		in.noteGivenUp(wrong.Event, wrong.Fault)
	}
}

// noteDropped notes that the feed is to report a fragment that the matcher gave back.
func (in *intake) noteDropped(d *live.DroppedFragment) {
	if in.isTranslated() {
		in.noteTranslated(d.Ref, d.Fault)
	} else {
		in.noteGivenUp(d.Event, d.Fault)
	}
}

func (in *intake) noteTranslated(ref uint64, why live.Fault) {
	event, isNew, ok := in.translation.GiveUp(ref)
	if why == live.FaultRepeat && isNew {
		why = live.FaultJump // another event, with the number of one that is here: it is in no file
	}
	if ok && why == live.FaultRepeat {
		in.translation.NoteRepeat(ref)
	}
	if ok {
		in.noteGivenUp(event, why)
	}
}

// noteOther notes that an event is in no file: its fragment has the number of another event.
func (in *intake) noteOther(event uint64, isOther bool) {
	if isOther {
		in.noteGivenUp(event, live.FaultJump)
	}
}

// throwUnnumbered throws away a fragment that has no number by which the input matches events.
func (in *intake) throwUnnumbered(f *live.Fragment, ref uint64, why live.FragmentError) {
	err := in.live.matcher.ThrowUnnumbered(in.index, f.Event, why)
	in.stage.free(ref)
	in.noteFill()
	in.noteOther(in.translation.Add(ref, f.Event, live.NoEvent))
	in.noteTranslated(ref, live.FaultJump)
	in.logFault(err)
	in.live.changed.Broadcast()
}

// numberOf is the number by which a fragment is matched; without ok, why says what the fragment lacks.
func (o *Options) numberOf(f *live.Fragment) (number uint64, why live.FragmentError, ok bool) {
	switch {
	case o.NumberedBy == ByEvent:
		return f.Event, why, true
	case o.NumberedBy == ByTrigger && f.HasTrigger:
		return f.Trigger, why, true
	case o.NumberedBy == ByTrigger:
		why.Lacks = "trigger number"
	case !f.HasStamp:
		why.Lacks = "time stamp"
	case o.Delay >= 0 && f.Stamp < uint64(o.Delay), o.Delay < 0 && f.Stamp > math.MaxUint64-uint64(-o.Delay):
		why.Lacks = "time stamp from its delay on"
	default:
		if number, why.Off = nearestTick(f.Stamp-uint64(o.Delay), o.Period); o.Window == 0 || why.Off <= o.Window {
			return number, live.FragmentError{}, true
		}
		why.Window = o.Window
	}
	return 0, why, false
}

// nearestTick is the number of the tick of a clock that is nearest to a time, and how far it is from there. All times
// are in ns.
func nearestTick(at, period uint64) (number, off uint64) {
	number, off = at/period, at%period
	if off >= period-off {
		return number + 1, period - off
	}
	return number, off
}

// hasWords says whether a fragment of a cut has a trigger number or a time stamp.
func (in *intake) hasWords(pieces []live.FragmentRef) bool {
	for i := range pieces {
		if pieces[i].Event == live.NoEvent {
			continue
		}
		if w := in.stage.words(pieces[i].Ref); w.HasTrigger || w.HasStamp {
			return true
		}
	}
	return false
}

// putWords writes the table of words of a worded MFP.
func (in *intake) putWords(dst []byte, pieces []live.FragmentRef) {
	table := event.WordsTable(dst, len(pieces))
	for i := range pieces {
		var w event.Words
		if pieces[i].Event != live.NoEvent {
			w = in.stage.words(pieces[i].Ref)
		}
		event.PutWords(table, i, w)
	}
}
