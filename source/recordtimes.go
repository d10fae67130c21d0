package source

import (
	"fmt"
	"math"
	"runtime/debug"
	"time"

	"ringlet/event"
	"ringlet/internal/schedule"
)

// orbitsPerSecond is how often a bunch goes round the LHC in a second: 26.659 km at the speed of light.
const orbitsPerSecond = 11245

// recordCrossings returns the time in a record's header, in bunch crossings since an unknown beginning; ok says that
// the header has a time (docs/format/mdf.md).
func recordCrossings(r event.Record) (crossings uint64, ok bool) {
	h := r.HeaderFields()
	return uint64(h.Orbit)*event.BunchesPerOrbit + uint64(h.Bunch), r.Version() == event.MDFVersion
}

// crossingsWrap is the time at which the 32-bit orbit number of records overflows, in bunch crossings.
const crossingsWrap = event.BunchesPerOrbit << 32

// learnDueTimes learns how long after the first record each record is due. A record without a time, or with an earlier
// time than a record before it, is due together with the record before it.
func (r *Replay) learnDueTimes() (err error) {
	defer r.recoverFault(debug.SetPanicOnFault(true), &err)
	r.dueTimes = make([]time.Duration, len(r.cat.records))
	var last uint64 // time of the latest record
	var due float64 // in crossings
	known := false
	for i, ref := range r.cat.records {
		at, ok := recordCrossings(event.Record(r.file.data[ref.offset : ref.offset+int64(ref.fileBytes)]))
		at %= crossingsWrap
		switch ahead := (at + crossingsWrap - last) % crossingsWrap; {
		case !ok:
		case !known:
			last, known = at, true
		case ahead < crossingsWrap/2:
			last = at
			due += float64(ahead)
		}
		ns := due / (orbitsPerSecond * event.BunchesPerOrbit) * float64(time.Second)
		r.dueTimes[i] = time.Duration(min(ns, float64(math.MaxInt64/4)))
	}
	if n := len(r.dueTimes); n > 0 && !known || n > 1 && r.dueTimes[n-1] == 0 {
		return &ConfigError{"as-taken", fmt.Sprintf("the records of %s have no orbits and bunch crossings that tell when "+
			"they were taken: leave out as-taken, or give a rate", r.cfg.Path)}
	}
	return nil
}

// nextDue returns how long after the first event the next event is due; in a loop, a pass begins when the last event
// of the pass before is due.
func (p *replayLoop) nextDue() time.Duration {
	switch n := len(p.dueTimes); {
	case p.nextRow < n:
		return p.earlierPasses + p.dueTimes[p.nextRow]
	case n > 0:
		return p.earlierPasses + p.dueTimes[n-1]
	}
	return 0
}

// noTimesError refuses as-taken for a format whose events have no times.
func noTimesError(path, format string) error {
	return &ConfigError{"as-taken", fmt.Sprintf("%s is a file of %s, which does not tell when its events were taken: "+
		"leave out as-taken, or give a rate", path, format)}
}

// pacedAsRecorded delays the blocks of a replay until their first events are due. After a delay it catches up, however
// long it was.
func pacedAsRecorded(r *Replay) Source {
	return &pacedSource{src: r, pace: schedule.NewPacerFunc(func(uint64) time.Duration { return r.nextDue() },
		math.MaxInt64)}
}
