package source

import (
	"fmt"
	"math"
	"runtime/debug"
	"time"

	"ringlet/event"
	"ringlet/internal/schedule"
)

// orbitsPerSecond is how often a bunch goes round the LHC: 26.659 km at the speed of light.
const orbitsPerSecond = 11245

// recordCrossings is the time that a record says it was taken at, in bunch crossings since some beginning; ok says that
// its header has one (docs/format/mdf.md).
func recordCrossings(r event.Record) (crossings uint64, ok bool) {
	h := r.HeaderFields()
	return uint64(h.Orbit)*event.BunchesPerOrbit + uint64(h.Bunch), r.Version() == event.MDFVersion
}

// crossingsWrap is where the time of a record begins anew: the number of its orbit has 32 bits.
const crossingsWrap = event.BunchesPerOrbit << 32

// learnDueTimes learns when each record is due after the first one. A record that says an earlier time than one in
// front of it, or none, is due together with that.
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

// nextDue is when the next event of a replay with times is due after the first; in a loop, passes follow one another at
// once.
func (p *replayLoop) nextDue() time.Duration {
	switch n := len(p.dueTimes); {
	case p.nextRow < n:
		return p.earlierPasses + p.dueTimes[p.nextRow]
	case n > 0:
		return p.earlierPasses + p.dueTimes[n-1]
	}
	return 0
}

// noTimesError refuses as-taken for a file of packets.
func noTimesError(path, format string) error {
	return &ConfigError{"as-taken", fmt.Sprintf("%s is a file of %s, which does not tell when its events were taken: "+
		"leave out as-taken, or give a rate", path, format)}
}

// pacedAsRecorded holds the blocks of a replay back until their first events are due. One that was late catches up.
func pacedAsRecorded(r *Replay) Source {
	return &pacedSource{src: r, pace: schedule.NewPacerFunc(func(uint64) time.Duration { return r.nextDue() },
		math.MaxInt64)}
}
