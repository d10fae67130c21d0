package figures

import (
	"cmp"
	"strconv"
	"strings"

	"ringlet/node"
	ecsv1 "ringlet/proto/ringlet/ecs/v1"
	nodev1 "ringlet/proto/ringlet/node/v1"
)

// Source is a live source of the configuration.
type Source struct {
	ID    int
	Name  string // in messages
	Input string // as in the setting input
	RU    int    // index of its readout unit
}

// sourcePrefix begins the names of the counters of live sources; the source's id ends them.
const sourcePrefix = "ru.input_"

// allSourceFigures makes the figures of the live sources.
func (b *Builder) allSourceFigures(r *Reading) (out []*ecsv1.SourceFigures) {
	if len(r.Sources) == 0 {
		return nil
	}
	readout := map[int]*Node{}
	for i := range r.Nodes {
		if m := r.Nodes[i].Member; m.GetReadout() {
			readout[int(m.GetRuIndex())] = &r.Nodes[i]
		}
	}
	for _, src := range r.Sources {
		out = append(out, b.sourceFigures(r, src, readout[src.RU]))
	}
	return out
}

// sourceFigures makes the figures of a source; n is the node of its readout unit, or nil.
func (b *Builder) sourceFigures(r *Reading, src Source, n *Node) *ecsv1.SourceFigures {
	f := &ecsv1.SourceFigures{
		Source:  uint32(src.ID),
		Name:    src.Name,
		Input:   src.Input,
		RuIndex: uint32(src.RU),
		Silent:  true,
	}
	if n == nil {
		return f
	}
	f.Node = n.Member.GetName()
	rep := reportOfRun(n.Report, r.Run)
	if rep == nil {
		return f
	}
	age := max(0, r.At.Sub(n.Received))
	f.Silent = age >= silentAfter && n.State != StateWithdrawn
	fillCounters(f, rep.GetCounters(), "."+strconv.Itoa(src.ID))
	f.WhyRefused, f.WhyThrown = rejectReasons(rep, src.ID)
	f.Frontend = rep.GetFrontends()[uint32(src.ID)]
	f.Name = cmp.Or(rep.GetSourceNames()[uint32(src.ID)], f.GetName())
	for _, x := range rep.GetSourceLives() {
		if int(x.GetSource()) == src.ID && !rep.GetFinal() {
			f.Readiness = Readiness(x)
		}
	}
	if f.GetFragments() > 0 {
		f.MeanSize = float64(f.GetBytes()) / float64(f.GetFragments())
		if f.GetSilent() && !rep.GetFinal() { // a node that reports gives the age itself
			f.AgeUs += uint64(age.Microseconds())
		}
	}
	at := reportedAt(n)
	fragments := b.updateWindowRate(f, "fragments", f.GetFragments(), at)
	bytes := b.updateWindowRate(f, "bytes", f.GetBytes(), at)
	missing := b.updateWindowRate(f, "missing", f.GetMissing(), at)
	if f.GetSilent() || rep.GetFinal() {
		return f
	}
	f.FragmentsPerS, f.BytesPerS, f.MissingPerS = fragments, bytes, missing
	if fragments > 0 {
		f.MeanSize = bytes / fragments
	}
	return f
}

// Readiness says how far the front-end of a source is in the life of the run: "ready", "waiting: no front-end".
func Readiness(x *nodev1.SourceLife) string {
	wanted := x.GetWanted()
	switch {
	case x.GetFailed() != "":
		return "failed: " + x.GetFailed()
	case x.GetUntaken():
		return "waiting: its last fragments are not taken"
	case !x.GetAttached() && x.GetArrived() && wanted <= nodev1.FrontendCommand_FRONTEND_COMMAND_BEGIN: // data are over
		return "done"
	case !x.GetAttached() && wanted != nodev1.FrontendCommand_FRONTEND_COMMAND_END:
		return "waiting: no front-end"
	case !x.GetArrived():
		word := strings.ToLower(strings.TrimPrefix(wanted.String(), "FRONTEND_COMMAND_"))
		return "waiting: its front-end has not answered " + word
	}
	if wanted > nodev1.FrontendCommand_FRONTEND_COMMAND_BEGIN && x.GetAttached() && !x.GetFollows() {
		return "attached, and does not follow the run"
	}
	return arrivedWords[wanted]
}

// arrivedWords say where a front-end is that has arrived.
var arrivedWords = map[nodev1.FrontendCommand]string{
	nodev1.FrontendCommand_FRONTEND_COMMAND_PREPARE: "ready",
	nodev1.FrontendCommand_FRONTEND_COMMAND_BEGIN:   "begun",
	nodev1.FrontendCommand_FRONTEND_COMMAND_PAUSE:   "paused",
	nodev1.FrontendCommand_FRONTEND_COMMAND_END:     "done",
}

// fillCounters fills in the counters of a source; id ends their names.
func fillCounters(f *ecsv1.SourceFigures, counters map[string]uint64, id string) {
	of := func(name string) uint64 { return counters[sourcePrefix+name+id] }
	f.Fragments, f.Bytes, f.Used, f.Missing, f.Gaps = of("fragments"), of("bytes"), of("used"), of("missing"), of("gaps")
	f.Thrown = of("repeats") + of("backwards") + of("late") + of("jumps") + of("unmatched")
	f.Refused, f.Lost, f.Dropped, f.Waiting = of("refused"), of("lost"), of("dropped"), of("waiting")
	f.FirstEvent, f.LastEvent, f.AgeUs = of("first_event"), of("last_event"), of("age_us")
	f.Attached, f.Gone = of("attached"), of("gone")
}

// updateWindowRate takes a reading of a counter of a source and returns its rate per second.
func (b *Builder) updateWindowRate(f *ecsv1.SourceFigures, counter string, value uint64, at int64) float64 {
	key := meterKey{f.GetNode(), counter + "." + strconv.Itoa(int(f.GetSource()))}
	if b.windowMeters[key] == nil {
		b.windowMeters[key] = &windowMeter{}
	}
	return b.windowMeters[key].observe(value, at)
}

// rejectReasons are the latest reasons why a fragment of a source was refused, and why one was thrown away.
func rejectReasons(rep *nodev1.Report, id int) (refused, thrown string) {
	for _, r := range rep.GetReasons() {
		switch {
		case int(r.GetSource()) != id:
		case r.GetKind() == node.ReasonRefused:
			refused = r.GetWhy()
		case r.GetKind() == node.ReasonThrownAway:
			thrown = r.GetWhy()
		}
	}
	return refused, thrown
}
