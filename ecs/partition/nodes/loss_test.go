package nodes

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"ringlet/ecs/partition/fault"
	"ringlet/node/config"
	tagnetv1 "ringlet/proto/ringlet/tagnet/v1"
	"ringlet/tagnet"
	"ringlet/tagnet/core"
)

// fakeScheduler takes a builder unit in as the real one does: not while readout units have not confirmed the exclusion,
// and then when the unit has attached.
type fakeScheduler struct {
	tagnet.Scheduler // nil: what is not below is not called

	mu         sync.Mutex // guards what follows
	unit       string
	excluded   bool
	wanted     bool
	reconciled time.Time // when the readout units have confirmed the exclusion
	attached   time.Time // when the unit attaches if it may
	drained    chan struct{}
	fails      error
}

func (f *fakeScheduler) ExcludeBU(string) (int, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.unit == "" {
		return 4, f.fails
	}
	f.excluded, f.wanted = true, false
	return 0, nil
}

func (f *fakeScheduler) LoseBU(string) (int, error) { return 0, nil }

func (f *fakeScheduler) ReadmitBU(node string) error { return f.IncludeBU(node) }

func (f *fakeScheduler) IncludeBU(string) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.fails != nil {
		return f.fails
	}
	if time.Now().Before(f.reconciled) {
		return &tagnet.RemoteError{Refusal: core.RefusedNotNow,
			Message: "cannot be included yet: r1 may still be writing to it"}
	}
	f.wanted = true
	return nil
}

func (f *fakeScheduler) Stats() (st core.Stats, err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.wanted && !time.Now().Before(f.attached) {
		f.excluded = false
	}
	st.Registers = &core.Registers{Bus: []*core.BURegister{{Name: f.unit, Excluded: f.excluded}}}
	return st, nil
}

func (f *fakeScheduler) Drained() <-chan struct{} { return f.drained }

// TestInclude holds that a builder unit counts as in when the scheduler has it, not before, and that it stays out where
// that does not come about.
func TestInclude(t *testing.T) {
	const never = time.Hour
	most := config.Default().Timeouts().Include
	for name, c := range map[string]struct {
		reconciledAfter, attached, drained time.Duration // from now
		lost                               bool
		fails                              error
		takes                              time.Duration
		says                               string // in the error; empty: it is in
	}{
		"at once": {},
		"when confirmed": {reconciledAfter: 320 * time.Millisecond, attached: 600 * time.Millisecond,
			takes: 600 * time.Millisecond},
		"never confirmed":  {reconciledAfter: never, takes: most, says: "r1 may still be writing"},
		"never comes back": {attached: never, takes: most, says: "has not come back"},
		"the run ends":     {reconciledAfter: never, drained: time.Second, takes: time.Second, says: "the run is over"},
		"lost meanwhile": {reconciledAfter: 500 * time.Millisecond, lost: true, takes: 100 * time.Millisecond,
			says: "was lost"},
		"the scheduler not": {fails: errors.New("the scheduler is gone"), says: "is gone"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				began := time.Now()
				f := &fakeScheduler{
					unit:       "b1",
					excluded:   true,
					reconciled: began.Add(c.reconciledAfter),
					attached:   began.Add(c.attached),
					drained:    make(chan struct{}),
					fails:      c.fails,
				}
				r := &Run{NodeSet: &NodeSet{faults: usualFaults(false)}, scheduler: &scheduler{sched: f}}
				r.units = &units{run: r}
				setUnits(t, r, "at-least 1 of 3", "r1", "b1", "b2", "b3")
				if err := queryCore(r.faults, func(c *fault.Core) error { return c.Exclude("b1") }); err != nil {
					t.Fatal(err)
				}
				if c.drained > 0 {
					time.AfterFunc(c.drained, func() { close(f.drained) })
				}
				if c.lost {
					time.AfterFunc(100*time.Millisecond, func() {
						r.faults.updateCore(func(c *fault.Core) { c.AdoptUnit("b1", true, false, true) })
					})
				}
				err := r.Include(context.Background(), "b1")
				if c.says == "" != (err == nil) || err != nil && !strings.Contains(err.Error(), c.says) {
					t.Errorf("included with the error %v, which should say %q", err, c.says)
				}
				if in := !slices.Contains(r.InactiveBuilders(), "b1"); in != (err == nil) {
					t.Errorf("error %v, and in %v", err, in)
				}
				if took := time.Since(began); took < c.takes || took > c.takes+includePollInterval {
					t.Errorf("it took %v, not %v", took, c.takes)
				}
				if err != nil && !c.lost && f.wanted {
					t.Error("it was given up, and may still come back")
				}
			})
		})
	}
}

// TestALossOfAProcess: several nodes of a process are lost in one sentence, with their sums.
func TestALossOfAProcess(t *testing.T) {
	one := Loss{
		Fault: fault.Fault{Component: "n0", What: "its process was killed by signal 9 (killed)",
			Advice: "Look at what ended it; its process is started again."},
		MEPsReissued: 2,
		Sources:      "sources 0 to 2",
		Gone:         &tagnetv1.Gone{FromMep: 7},
	}
	two := one
	two.Component, two.MEPsReissued, two.Sources, two.Gone = "n0.1", 3, "source 3", &tagnetv1.Gone{FromMep: 5}
	two.TakenOverBy = "n1"
	one.add(two)
	const want = "the run goes on without n0 and n0.1: their process was killed by signal 9 (killed). n1 has taken over " +
		"their scheduler: no MEP is lost. Other builder units build 5 MEPs of their builder units. Events lack their " +
		"fragments (sources 0 to 2, source 3) from MEP 5 on, and some of the MEPs before. Look at what ended it; their " +
		"process is started again."
	if got := one.String(); got != want {
		t.Errorf("it tells:\n%s\nnot\n%s", got, want)
	}
}
