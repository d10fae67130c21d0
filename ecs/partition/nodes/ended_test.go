package nodes

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"ringlet/ecs/partition/fault"
	"ringlet/node/config"
	nodev1 "ringlet/proto/ringlet/node/v1"
	"ringlet/tagnet"
	"ringlet/tagnet/core"
)

// A run was over when the last of its nodes says so, those apart without which it went on. It ended by itself when the
// first of them says that.
func TestEndedAt(t *testing.T) {
	over := func(run uint32, us int64) *nodev1.Report { return &nodev1.Report{Run: run, EndedAtUs: us} }
	for name, tc := range map[string]struct {
		reports []*nodev1.Report
		lost    string
		want    int64 // 0: nobody knows
	}{
		"all tell":                  {[]*nodev1.Report{over(7, 20), over(7, 30), over(7, 25)}, "", 30},
		"one is new":                {[]*nodev1.Report{over(7, 20), over(7, 30), {}}, "", 0},
		"one tells of another run":  {[]*nodev1.Report{over(7, 20), over(7, 30), over(6, 5)}, "", 0},
		"one was done without":      {[]*nodev1.Report{over(7, 20), over(7, 30), {}}, "n2", 30},
		"one was never spoken with": {[]*nodev1.Report{over(7, 20), over(7, 30), nil}, "", 0},
	} {
		c := NewNodeSet(Options{}, config.Completed{})
		for i, rep := range tc.reports {
			c.nodes = append(c.nodes, &member{name: []string{"n0", "n1", "n2"}[i], report: rep})
		}
		r := c.NewRun(7)
		r.faults.updateCore(func(c *fault.Core) { c.AdoptUnit(tc.lost, tc.lost != "", false, tc.lost != "") })
		want := time.Time{}
		if tc.want != 0 {
			want = time.UnixMicro(tc.want)
		}
		if got := r.EndedAt(); !got.Equal(want) {
			t.Errorf("%s: %v, not %v", name, got, want)
		}
	}
	c := NewNodeSet(Options{}, config.Completed{})
	for _, us := range []int64{0, 40, 35} {
		rep := &nodev1.Report{}
		if us > 0 {
			rep.Stopped = &nodev1.Cause{AtUs: us}
		}
		c.nodes = append(c.nodes, &member{report: rep})
	}
	if first := c.SelfStopCause(); first.GetAtUs() != 35 {
		t.Errorf("the first of them is told as %v", first)
	}
	for drained, alone := range map[int64]bool{0: true, 34: false, 36: true} {
		r := &Run{NodeSet: c}
		if drained > 0 {
			r.state.Draining = time.UnixMicro(drained)
		}
		if r.outcome().SelfStop != alone {
			t.Errorf("drained at %d µs by the control: the nodes ended it alone: %v", drained, !alone)
		}
	}
}

// deaf is a scheduler that answers after so many questions that failed.
type deaf struct {
	tagnet.Scheduler
	fails int
	err   error
}

func (d *deaf) Stats() (core.Stats, error) {
	if d.fails--; d.fails >= 0 {
		return core.Stats{}, d.err
	}
	return core.Stats{}, nil
}

// A question to the scheduler that is lost is asked again; a node that has no such scheduler, or says nothing at all,
// is believed.
func TestSchedulerAnswers(t *testing.T) {
	lost := error(&tagnet.GoneError{Unit: ControlName, Err: errors.New("the connection broke")})
	for name, c := range map[string]struct {
		err    error
		fails  int
		silent bool
		want   bool
	}{
		"it answers":               {nil, 0, false, true},
		"the connection broke":     {lost, 3, false, true},
		"it stays broken":          {lost, 1 << 20, false, false},
		"its node is gone":         {lost, 3, true, false},
		"its node knows of none":   {&tagnet.RemoteError{Message: "there is no such scheduler"}, 3, false, false},
		"it is no member any more": {lost, 0, false, false},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				nodeSet := NewNodeSet(Options{TagnetNode: "n0"}, config.Completed{})
				n := &member{name: "n0"}
				n.unresponsive.Store(c.silent)
				if name != "it is no member any more" {
					nodeSet.nodes = append(nodeSet.nodes, n)
				}
				r := nodeSet.NewRun(7)
				r.sched = &deaf{fails: c.fails, err: c.err}
				if got := r.schedulerAnswers(); got != c.want {
					t.Errorf("%v", got)
				}
			})
		})
	}
}
