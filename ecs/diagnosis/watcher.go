package diagnosis

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	ecsv1 "ringlet/proto/ringlet/ecs/v1"
)

// Settings are what rules know of the partition beside snapshots.
type Settings struct {
	Version   string        // of the control
	PhaseTime time.Duration // length of a phase if phases end by time; else 0
}

// clearDelay is how long a condition must not hold before its alarm goes off, unless the partition is in Error.
const clearDelay = 5 * time.Second

// baselineWindow is the time over which differences are taken: ten reports of a node.
const baselineWindow = 5 * time.Second

// Watcher keeps the alarms that are on, and the snapshots of the baseline window.
type Watcher struct {
	settings      Settings
	rules         []Rule
	pastSnapshots []*ecsv1.Snapshot // of the baseline window, oldest first
	conditions    map[conditionKey]*condition
}

type conditionKey struct{ rule, component string }

// condition is the state of a rule for a component.
type condition struct {
	alarm       *ecsv1.Alarm // nil before it is on
	heldSince   time.Time    // when the condition first held
	lastHeld    time.Time    // when it held last
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

// Update applies the rules to the next snapshot and the tree of components, which may be nil. It returns the alarms
// that are on, the worst first, and the alarms that went on or off.
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
				continue // one alarm for each rule and component
			}
			held[k] = true
			if c := w.noteHolding(v, r, f, k); c != nil {
				changes = append(changes, *c)
			}
		}
	}
	delay := clearDelay
	if v.rootCause().cause != nil {
		delay = 0 // the cause explains the earlier alarms
	}
	changes = append(changes, w.clearStale(held, now, delay)...)
	return w.alarms(), changes
}

// keepSnapshot appends the newest snapshot and drops those before the baseline window. After a change of run or state
// it drops all earlier ones, since their differences mean nothing.
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

// noteHolding notes that a condition holds, and returns the change if its alarm goes on.
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
		Advice:    strings.ReplaceAll(advice, "`", ""), // the manual has Markdown, other readers have not
		Severity:  r.Severity,
		Since:     timestamppb.New(since),
	}
}

// clearStale forgets conditions that do not hold any more: after the delay if their alarm is on, else at once.
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

// compareAlarms sorts by severity, the worst first, then by age, the oldest first.
func compareAlarms(a, b *ecsv1.Alarm) int {
	return cmp.Or(cmp.Compare(b.GetSeverity(), a.GetSeverity()), a.GetSince().AsTime().Compare(b.GetSince().AsTime()),
		strings.Compare(a.GetRule(), b.GetRule()), strings.Compare(a.GetComponent(), b.GetComponent()))
}
