package diagnosis

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	ecsv1 "ringlet/proto/ringlet/ecs/v1"
)

// Settings are what is known beforehand.
type Settings struct {
	Version   string        // of the control
	PhaseTime time.Duration // length of a phase, where phases end by time; else 0
}

// clearDelay is how long a condition must not hold for its alarm to go off, unless a fault explains it.
const clearDelay = 5 * time.Second

// baselineWindow is over which time differences are taken: ten reports of a node.
const baselineWindow = 5 * time.Second

// Watcher keeps what is on.
type Watcher struct {
	settings   Settings
	rules      []Rule
	past       []*ecsv1.Snapshot // of that time, oldest first
	conditions map[conditionKey]*condition
}

type conditionKey struct{ rule, component string }

// condition is what is known of a condition.
type condition struct {
	alarm  *ecsv1.Alarm // as it is told, once on
	first  time.Time    // it has held since
	last   time.Time    // it held last
	active bool
}

// Change is an alarm that went on or off.
type Change struct {
	Alarm   *ecsv1.Alarm
	Cleared bool
}

// New makes a Watcher.
func New(s Settings) *Watcher {
	return &Watcher{settings: s, rules: Rules(), conditions: map[conditionKey]*condition{}}
}

// Look takes the next snapshot and the tree of components as they are, and tells the alarms that are on, the worst
// first, and those that went on or off with it. The tree may be nil.
func (w *Watcher) Look(s *ecsv1.Snapshot, tree *ecsv1.Component) ([]*ecsv1.Alarm, []Change) {
	now := s.GetAt().AsTime()
	w.remember(s, now)
	v := &view{
		settings: w.settings,
		now:      s,
		base:     w.past[0],
		tree:     tree,
	}
	held := map[conditionKey]bool{}
	var changes []Change
	for i := range w.rules {
		r := &w.rules[i]
		for _, f := range r.find(v) {
			k := conditionKey{r.ID, f.component}
			if held[k] {
				continue // the first that a rule finds of a component says it
			}
			held[k] = true
			if c := w.noteHolding(v, r, f, k); c != nil {
				changes = append(changes, *c)
			}
		}
	}
	delay := clearDelay
	if v.rootCause().cause != nil {
		delay = 0 // what went before is told by the cause
	}
	changes = append(changes, w.clearStale(held, now, delay)...)
	return w.alarms(), changes
}

// remember keeps the snapshots of that time, all of one run and state, the newest included: a difference between others
// says nothing.
func (w *Watcher) remember(s *ecsv1.Snapshot, now time.Time) {
	if n := len(w.past); n > 0 {
		last := w.past[n-1]
		if last.GetRun() != s.GetRun() || last.GetState() != s.GetState() || now.Before(last.GetAt().AsTime()) {
			w.past = nil
		}
	}
	w.past = append(w.past, s)
	for len(w.past) > 2 && now.Sub(w.past[1].GetAt().AsTime()) >= baselineWindow {
		w.past = w.past[1:]
	}
}

// noteHolding notes a condition that holds.
func (w *Watcher) noteHolding(v *view, r *Rule, f finding, k conditionKey) *Change {
	now := v.now.GetAt().AsTime()
	st := w.conditions[k]
	if st == nil {
		st = &condition{first: now}
		w.conditions[k] = st
	}
	st.last = now
	if st.active {
		st.alarm = newAlarm(v, r, f, st.first)
		return nil
	}
	if now.Sub(st.first) < r.Hold {
		return nil
	}
	st.active, st.alarm = true, newAlarm(v, r, f, st.first)
	return &Change{Alarm: st.alarm}
}

func newAlarm(v *view, r *Rule, f finding, since time.Time) *ecsv1.Alarm {
	advice := r.Advice
	if r.advise != nil {
		advice = cmp.Or(r.advise(v, f.component), advice)
	}
	return &ecsv1.Alarm{
		Rule:      r.ID,
		Component: f.component,
		What:      f.what,
		Advice:    strings.ReplaceAll(advice, "`", ""), // which the manual needs, and no screen
		Severity:  r.Severity,
		Since:     timestamppb.New(since),
	}
}

// clearStale forgets conditions that do not hold: at once those that were not told, after the delay those that were.
func (w *Watcher) clearStale(held map[conditionKey]bool, now time.Time, delay time.Duration) (changes []Change) {
	for k, st := range w.conditions {
		switch {
		case held[k]:
		case !st.active:
			delete(w.conditions, k)
		case now.Sub(st.last) >= delay:
			delete(w.conditions, k)
			changes = append(changes, Change{Alarm: st.alarm, Cleared: true})
		}
	}
	slices.SortFunc(changes, func(a, b Change) int { return compareAlarms(a.Alarm, b.Alarm) })
	return changes
}

func (w *Watcher) alarms() []*ecsv1.Alarm {
	var out []*ecsv1.Alarm
	for _, st := range w.conditions {
		if st.active {
			out = append(out, st.alarm)
		}
	}
	slices.SortFunc(out, compareAlarms)
	return out
}

// compareAlarms puts the worst first, then the oldest.
func compareAlarms(a, b *ecsv1.Alarm) int {
	return cmp.Or(cmp.Compare(b.GetSeverity(), a.GetSeverity()), a.GetSince().AsTime().Compare(b.GetSince().AsTime()),
		strings.Compare(a.GetRule(), b.GetRule()), strings.Compare(a.GetComponent(), b.GetComponent()))
}
