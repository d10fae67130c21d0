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

// rest is how long a condition must not hold for its alarm to go off, unless a fault explains it.
const rest = 5 * time.Second

// lookBack is over which time differences are taken: ten reports of a node.
const lookBack = 5 * time.Second

// Watcher keeps what is on.
type Watcher struct {
	settings Settings
	rules    []Rule
	past     []*ecsv1.Snapshot // of that time, oldest first
	seen     map[key]*state
}

type key struct{ rule, component string }

// state of a condition.
type state struct {
	alarm *ecsv1.Alarm // as it is told, once on
	first time.Time    // it has held since
	last  time.Time    // it held last
	on    bool
}

// Change is an alarm that went on or off.
type Change struct {
	Alarm *ecsv1.Alarm
	Off   bool
}

// New makes a Watcher.
func New(s Settings) *Watcher { return &Watcher{settings: s, rules: Rules(), seen: map[key]*state{}} }

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
	held := map[key]bool{}
	var changes []Change
	for i := range w.rules {
		r := &w.rules[i]
		for _, f := range r.look(v) {
			k := key{r.ID, f.component}
			if held[k] {
				continue // the first that a rule finds of a component says it
			}
			held[k] = true
			if c := w.holds(v, r, f, k); c != nil {
				changes = append(changes, *c)
			}
		}
	}
	rest := rest
	if v.story().cause != nil {
		rest = 0 // what went before is told by the cause
	}
	changes = append(changes, w.settle(held, now, rest)...)
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
	for len(w.past) > 2 && now.Sub(w.past[1].GetAt().AsTime()) >= lookBack {
		w.past = w.past[1:]
	}
}

// holds notes a condition that holds.
func (w *Watcher) holds(v *view, r *Rule, f finding, k key) *Change {
	now := v.now.GetAt().AsTime()
	st := w.seen[k]
	if st == nil {
		st = &state{first: now}
		w.seen[k] = st
	}
	st.last = now
	if st.on {
		st.alarm = alarm(v, r, f, st.first)
		return nil
	}
	if now.Sub(st.first) < r.Hold {
		return nil
	}
	st.on, st.alarm = true, alarm(v, r, f, st.first)
	return &Change{Alarm: st.alarm}
}

func alarm(v *view, r *Rule, f finding, since time.Time) *ecsv1.Alarm {
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

// settle forgets conditions that do not hold: at once those that were not told, after the rest those that were.
func (w *Watcher) settle(held map[key]bool, now time.Time, rest time.Duration) (changes []Change) {
	for k, st := range w.seen {
		switch {
		case held[k]:
		case !st.on:
			delete(w.seen, k)
		case now.Sub(st.last) >= rest:
			delete(w.seen, k)
			changes = append(changes, Change{Alarm: st.alarm, Off: true})
		}
	}
	slices.SortFunc(changes, func(a, b Change) int { return compare(a.Alarm, b.Alarm) })
	return changes
}

func (w *Watcher) alarms() []*ecsv1.Alarm {
	var out []*ecsv1.Alarm
	for _, st := range w.seen {
		if st.on {
			out = append(out, st.alarm)
		}
	}
	slices.SortFunc(out, compare)
	return out
}

// compare puts the worst first, then the oldest.
func compare(a, b *ecsv1.Alarm) int {
	return cmp.Or(cmp.Compare(b.GetSeverity(), a.GetSeverity()), a.GetSince().AsTime().Compare(b.GetSince().AsTime()),
		strings.Compare(a.GetRule(), b.GetRule()), strings.Compare(a.GetComponent(), b.GetComponent()))
}
