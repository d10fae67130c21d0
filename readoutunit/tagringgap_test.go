package readoutunit

import (
	"fmt"
	"maps"
	"slices"
)

// holdsAll tells that all readout units that are there are in a set.
func (w *tagRingWorld) holdsAll(set map[int]bool) bool {
	for ru := range w.rus {
		if !w.gone[ru] && !set[ru] {
			return false
		}
	}
	return true
}

// clear has a readout unit report that it has dropped all tags, when no write of it is under way.
func (w *tagRingWorld) clear(ru int) {
	if w.clearing[ru] && w.rus[ru].awaited.count == 0 {
		w.clearing[ru] = false
		w.cleared = append(w.cleared, [2]int{ru, w.known[ru]})
	}
}

// takeCleared gives the scheduler such a report.
func (w *tagRingWorld) takeCleared(i int) {
	x := w.cleared[i]
	w.cleared = slices.Delete(w.cleared, i, i+1)
	w.history = append(w.history, fmt.Sprint("cleared ", x))
	if w.gone[x[0]] {
		return // its stream was cut
	}
	w.must(w.core.ApplyCleared(x[0], uint64(x[1])))
	for group, t := range w.running {
		if w.voided[t.TokenPlace] && int(t.Generation) < len(w.absences) {
			delete(w.running, group) // it counts as returned when the others start again
		}
	}
	w.issue()
}

// lose takes a readout unit away: the others build what it has not written without it.
func (w *tagRingWorld) lose(ru int) {
	w.history = append(w.history, fmt.Sprint("without ru", ru))
	w.gone[ru], w.absences = true, append(w.absences, ru)
	w.tokens[ru], w.passing[ru] = nil, nil
	w.grants = slices.DeleteFunc(w.grants, func(g grantTo) bool { return g.ru == ru })
	w.writes = slices.DeleteFunc(w.writes, func(x ringWrite) bool { return x.ru == ru })
	if err := w.core.ExcludeRU(ru); err != nil {
		w.t.Fatal(err)
	}
	for _, place := range slices.Sorted(maps.Keys(w.meps)) {
		w.grant(place, w.meps[place])
		w.finish(place)
	}
	w.issue()
}

// finish notes that a MEP is whole when it is.
func (w *tagRingWorld) finish(place uint64) {
	b := w.meps[place]
	if b.granted && !b.whole && w.holdsAll(b.placed) && !w.lost[b.BU] && !w.voided[place] {
		b.whole = true
		w.complete = append(w.complete, place)
	}
}

// next is the readout unit to which another passes its tags, as far as it knows; behind the last, the scheduler.
func (w *tagRingWorld) next(ru int) int {
	to := ru + 1
	for to < len(w.rus) && slices.Contains(w.absences[:w.known[ru]], to) {
		to++
	}
	return to
}
