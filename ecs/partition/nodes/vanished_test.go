package nodes

import (
	"context"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"ringlet/node/config"
	nodev1 "ringlet/proto/ringlet/node/v1"
	tagnetv1 "ringlet/proto/ringlet/tagnet/v1"
	"ringlet/tagnet/core"
)

// slow is a node that answers from a time on, or whose process has ended.
type slow struct {
	nodev1.NodeClient
	from     time.Time
	ended    bool
	requests *int
	answer   *nodev1.Report
}

func (s slow) Report(ctx context.Context, _ *nodev1.ReportRequest, _ ...grpc.CallOption) (*nodev1.Report, error) {
	*s.requests++
	if s.ended {
		return nil, status.Error(codes.Unavailable, "connect: connection refused")
	}
	select {
	case <-time.After(time.Until(s.from)):
		return s.answer, nil
	case <-ctx.Done():
		return nil, status.FromContextError(ctx.Err()).Err()
	}
}

// A node that answers late is asked again. One that gives no final report is lost, and named, with what was not
// checked; nobody waits for one whose process has ended.
func TestFinalReports(t *testing.T) {
	most := config.Default().Timeouts().Control
	for name, c := range map[string]struct {
		after  time.Duration // from when on it answers
		ended  bool
		policy string
		word   string // of the verdict
		least  time.Duration
		most   time.Duration
	}{
		"at once":               {0, false, "essential", "GOOD", 0, 0},
		"late":                  {5 * time.Second, false, "essential", "GOOD", 4 * time.Second, 6 * time.Second},
		"never":                 {time.Hour, false, "essential", "INCOMPLETE", most, most},
		"its process has ended": {0, true, "essential", "INCOMPLETE", 0, time.Second},
		"never, and expendable": {time.Hour, false, "expendable", "DEGRADED", most, most},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				cfg := config.Completed{Config: config.Default()}
				cfg.Nodes, cfg.RUs, cfg.BUs, cfg.ReadoutLoss, cfg.BuilderLoss = 3, 1, 2, "essential", c.policy
				nodeSet := NewNodeSet(Options{Log: slog.New(slog.DiscardHandler)}, cfg)
				requests := 0
				for i, role := range []struct{ readout, builder bool }{{true, false}, {false, true}, {false, true}} {
					s := slow{requests: new(int), answer: &nodev1.Report{Run: 7, Final: true}}
					n := &member{name: []string{"r0", "b0", "b1"}[i], report: &nodev1.Report{Run: 7},
						firstEntry: &nodev1.Member{Readout: role.readout, Builder: role.builder}, faults: nodeSet.faults}
					if n.name == "b1" {
						s.from, s.ended, s.requests = time.Now().Add(c.after), c.ended, &requests
					}
					n.client = s
					nodeSet.nodes = append(nodeSet.nodes, n)
				}
				r := nodeSet.NewRun(7)
				r.state.Begun = time.Now()
				began := time.Now()
				r.collectReports()
				if took := time.Since(began); took < c.least || took > c.most || requests == 0 {
					t.Errorf("it took %v, and the node was asked %d times", took, requests)
				}
				out := &Report{Started: "x", EventsBuilt: 1, RUs: 1, BUs: 2}
				(&reporter{r, r.State()}).noteUnreported(out)
				out.closeAccounts()
				if out.VerdictName != c.word || (c.word != "GOOD") != slices.Equal(out.Unreported, []string{"b1"}) {
					t.Errorf("%s, %v: %s", out.VerdictName, out.Unreported, out.VerdictReason)
				}
				if c.word != "GOOD" && !strings.Contains(out.VerdictReason, "b1") {
					t.Errorf("nobody is named: %s", out.VerdictReason)
				}
			})
		})
	}
}

// What a node without its final report counted is not held against the accounts, and that is said, once.
func TestAccountsWithoutAFinalReport(t *testing.T) {
	r, reg, sums := balanced()
	for _, name := range []string{"n0", "n1"} {
		reg.Bus = append(reg.Bus, &tagnetv1.BURegister{Name: name, Counters: &core.BUCounters{Built: 5}})
	}
	reg.Rus = []*tagnetv1.RURegister{{Name: "n0"}, {Name: "n1"}}
	r.Counters = []NodeCounters{
		{Node: "n0", Counters: map[string]uint64{"bu.meps_built": 5, "bu.mfps_placed": 30, "ru.tokens": 10, "ru.writes": 10}},
		{Node: "n1", Counters: map[string]uint64{"bu.meps_built": 3, "bu.mfps_placed": 18, "ru.tokens": 6, "ru.open": 1}},
	}
	sums["bu.meps_built"], sums["bu.mfps_placed"], sums["ru.tokens"], sums["ru.writes"] = 8, 48, 16, 10
	if bad := failing(unitChecks(r, reg, countsIn(sums))); len(bad) == 0 {
		t.Error("figures that are out of date balance")
	}
	r.Unreported = []string{"n1"}
	if bad := failing(unitChecks(r, reg, countsIn(sums))); len(bad) > 0 {
		t.Errorf("do not balance: %v", bad)
	}
	if said := strings.Join(r.NotChecked, "; "); !strings.Contains(said, "n1") || strings.Contains(said, "excluded") ||
		strings.Contains(said, "not checked") {
		t.Errorf("not checked: %s", said)
	}
}
