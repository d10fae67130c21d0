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
	settings      Settings
	rules         []Rule
	pastSnapshots []*ecsv1.Snapshot // of that time, oldest first
	conditions    map[conditionKey]*condition
}

type conditionKey struct{ rule, component string }

// condition is what is known of a condition.
type condition struct {
	alarm       *ecsv1.Alarm // as it is told, once on
	heldSince   time.Time    // it has held since
	lastHeld    time.Time    // it held last
	alarmActive bool
}

// AlarmChange is an alarm that went on or off.
type AlarmChange struct {
	Alarm   *ecsv1.Alarm
	Cleared bool
}

// New makes a Watcher.
func New(s Settings) *Watcher {
	return &Watcher{settings: s, rules: Rules(), conditions: map[conditionKey]*condition{}}
}

// Update takes the next snapshot and the tree of components as they are, and tells the alarms that are on, the worst
// first, and those that went on or off with it. The tree may be nil.
func (w *Watcher) Update(s *ecsv1.Snapshot, tree *ecsv1.Component) ([]*ecsv1.Alarm, []AlarmChange) {
	now := s.GetAt().AsTime()
	w.keepSnapshot(s, now)
	v := &view{
		settings: w.settings,
		now:      s,
		base:     w.pastSnapshots[0],
		tree:     tree,
	}
	held := map[conditionKey]bool{}
	var changes []AlarmChange
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

// keepSnapshot keeps the snapshots of that time, all of one run and state, the newest included: a difference between
// others says nothing.
func (w *Watcher) keepSnapshot(s *ecsv1.Snapshot, now time.Time) {
	if n := len(w.pastSnapshots); n > 0 {
		last := w.pastSnapshots[n-1]
		if last.GetRun() != s.GetRun() || last.GetState() != s.GetState() || now.Before(last.GetAt().AsTime()) {
			w.pastSnapshots = nil
		}
	}
	w.pastSnapshots = append(w.pastSnapshots, s)
	for len(w.pastSnapshots) > 2 && now.Sub(w.pastSnapshots[1].GetAt().AsTime()) >= baselineWindow {
		w.pastSnapshots = w.pastSnapshots[1:]
	}
}

// noteHolding notes a condition that holds.
func (w *Watcher) noteHolding(v *view, r *Rule, f finding, k conditionKey) *AlarmChange {
	now := v.now.GetAt().AsTime()
	st := w.conditions[k]
	if st == nil {
		st = &condition{heldSince: now}
		w.conditions[k] = st
	}
	st.lastHeld = now
	if st.alarmActive {
		st.alarm = newAlarm(v, r, f, st.heldSince)
		return nil
	}
	if now.Sub(st.heldSince) < r.Hold {
		return nil
	}
	st.alarmActive, st.alarm = true, newAlarm(v, r, f, st.heldSince)
	return &AlarmChange{Alarm: st.alarm}
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
func (w *Watcher) clearStale(held map[conditionKey]bool, now time.Time, delay time.Duration) (changes []AlarmChange) {
	for k, st := range w.conditions {
		switch {
		case held[k]:
		case !st.alarmActive:
			delete(w.conditions, k)
		case now.Sub(st.lastHeld) >= delay:
			delete(w.conditions, k)
			changes = append(changes, AlarmChange{Alarm: st.alarm, Cleared: true})
		}
	}
	slices.SortFunc(changes, func(a, b AlarmChange) int { return compareAlarms(a.Alarm, b.Alarm) })
	return changes
}

func (w *Watcher) alarms() []*ecsv1.Alarm {
	var out []*ecsv1.Alarm
	for _, st := range w.conditions {
		if st.alarmActive {
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
