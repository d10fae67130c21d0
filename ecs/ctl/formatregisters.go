package ctl

import (
	"cmp"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	ecsv1 "ringlet/proto/ringlet/ecs/v1"
)

// doClear is the control's command that clears the high-water marks.
const doClear = "clear-registers"

// shownSamples is for how many samples of the history, two a second, free slots are shown.
const shownSamples = 60

// writeRegisters writes the registers of the scheduler (TagNet-farm §VII.C): state and mode, queues with high-water
// marks, free slots over time, and the counters that are not 0.
func writeRegisters(w io.Writer, s *ecsv1.Snapshot) error {
	r := s.GetScheduler()
	if r == nil {
		_, err := fmt.Fprintln(w, "there is no run, and so no scheduler")
		return err
	}
	cleared := "never in this run"
	if c := r.GetCleared(); c != nil {
		cleared = "by " + c.GetUser() + " at " + formatTime(c.GetAt())
	}
	t := newTable(w)
	t.row("run", fmt.Sprintf("%d, scheduler on %s, %s", s.GetRun(), cmp.Or(r.GetNode(), "the control"),
		formatTime(s.GetAt())))
	t.row("state", r.GetState()+", waits for "+cmp.Or(r.GetWaitingFor(), "nothing"))
	t.row("mode", r.GetMode()+" where a builder unit has no free slot")
	t.row("trigger", cmp.Or(r.GetTrigger(), "none: events come at their rate"))
	t.row("marks", "cleared "+cleared)
	if err := t.end(); err != nil {
		return err
	}
	for _, write := range []func(io.Writer, *ecsv1.Snapshot) error{writeQueues, writeFreeSlots, writeCounters} {
		if _, err := fmt.Fprintln(w); err != nil {
			return err
		}
		if err := write(w, s); err != nil {
			return err
		}
	}
	return nil
}

// writeQueues writes how full the queues are and were, and how often they rose to each mark.
func writeQueues(w io.Writer, s *ecsv1.Snapshot) error {
	t := newTable(w)
	t.row("queue", "now", "most", "of", "25 %", "50 %", "75 %", "87.5 %", "full", "usage")
	for _, q := range s.GetScheduler().GetQueues() {
		d := q.GetDepth()
		cells := []string{q.GetName(), fmt.Sprint(d.GetNow()), fmt.Sprint(d.GetMax()), fmt.Sprint(d.GetCapacity())}
		for i := range 4 {
			n := uint64(0)
			if i < len(d.GetCrossed()) {
				n = d.GetCrossed()[i]
			}
			cells = append(cells, fmt.Sprint(n))
		}
		t.row(append(cells, fmt.Sprint(d.GetFull()), fmt.Sprintf("%#x", d.GetUsage()))...)
	}
	return t.end()
}

// writeFreeSlots writes the free slots of each group, now and in the samples of the run.
func writeFreeSlots(w io.Writer, s *ecsv1.Snapshot) error {
	t := newTable(w)
	t.row("builder units", "free", "of", "least", "the last 30 s")
	for i, g := range s.GetScheduler().GetGroups() {
		var over []uint64
		for _, x := range s.GetHistory() {
			if x.GetRun() == s.GetRun() && i < len(x.GetFreeSlots()) {
				over = append(over, x.GetFreeSlots()[i])
			}
		}
		least := slices.Min(append(slices.Clone(over), g.GetFree()))
		t.row(strings.Join(g.GetNodes(), " "), fmt.Sprint(g.GetFree()), fmt.Sprint(g.GetSlots()), fmt.Sprint(least),
			formatBars(over, g.GetSlots()))
	}
	return t.end()
}

// formatBars draws each number as a bar, up to most.
func formatBars(numbers []uint64, most uint64) string {
	bars := []rune("▁▂▃▄▅▆▇█")
	var b strings.Builder
	for _, n := range numbers {
		b.WriteRune(bars[min(n*uint64(len(bars)-1)/max(1, most), uint64(len(bars)-1))])
	}
	return b.String()
}

// writeCounters writes the counters of the scheduler that are not 0.
func writeCounters(w io.Writer, s *ecsv1.Snapshot) error {
	r := s.GetScheduler()
	t := newTable(w)
	head := []string{"counter", "in all"}
	if r.GetCleared() != nil {
		head = append(head, "since the clear")
	}
	t.row(head...)
	for _, name := range slices.Sorted(maps.Keys(r.GetCounters())) {
		n := r.GetCounters()[name]
		cells := []string{name, fmt.Sprint(n)}
		if r.GetCleared() != nil {
			cells = append(cells, fmt.Sprint(n-min(n, r.GetCleared().GetCounters()[name])))
		}
		if n > 0 {
			t.row(cells...)
		}
	}
	for _, why := range slices.Sorted(maps.Keys(r.GetRefused())) {
		t.row("sessions refused: "+why, fmt.Sprint(r.GetRefused()[why]))
	}
	return t.end()
}
