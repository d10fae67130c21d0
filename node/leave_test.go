package node

import (
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"ringlet/node/cluster"
	"ringlet/node/config"
	"ringlet/node/fsm"
	nodev1 "ringlet/proto/ringlet/node/v1"
	"ringlet/recording"
	"ringlet/tagnet"
)

func TestNeeded(t *testing.T) {
	for state, want := range map[fsm.State][2]bool{ // in the schedule, excluded
		fsm.Offline: {}, fsm.NotReady: {}, fsm.Configuring: {}, fsm.Ready: {}, fsm.Error: {}, fsm.Resetting: {},
		fsm.Starting: {true, true}, fsm.Stopping: {true, true},
		fsm.Running: {true, false}, fsm.Paused: {true, false}, fsm.Pausing: {true, false}, fsm.Resuming: {true, false},
	} {
		if got := [2]bool{needsNode(state, false), needsNode(state, true)}; got != want {
			t.Errorf("%v: needed in the schedule and excluded %v, want %v", state, got, want)
		}
	}
}

// TestLeavesWhenReleased tells n1 to end in a run: it asks to be let go, builds on until the control has stopped the
// run, and ends.
func TestLeavesWhenReleased(t *testing.T) {
	t.Parallel()
	p := newPair(t)
	scope, req := p.hostScheduler(slowRun(t, t.TempDir()+"/", time.Hour))
	p.bringUp(req)
	sched := tagnet.NewRemote(p.conns[0], tagnet.RemoteConfig{Scope: scope})
	defer sched.Close()
	close(p.leave[1])
	before := p.until(1, "leaving", func(r *nodev1.Report) bool { return r.GetLeaving() }).GetCounters()["bu.meps_built"]
	r := p.until(1, "building on", func(r *nodev1.Report) bool { return r.GetCounters()["bu.meps_built"] > before+5 })
	if r.GetStatus().GetState() != "Running" || p.report(0).GetLeaving() {
		t.Errorf("n1 is %v, n0 leaves: %v", r.GetStatus(), p.report(0).GetLeaving())
	}
	if err := sched.Drain(0); err != nil {
		t.Fatal(err)
	}
	p.drained(sched)
	for range 5 { // looks that it takes at whether it may go: not while the others count on its links
		time.Sleep(leaveInterval)
		if r := p.report(1); r.GetStatus().GetState() != "Running" || p.report(0).GetStatus().GetState() != "Running" {
			t.Fatalf("n1 does not wait to be stopped: %v", r.GetStatus())
		}
	}
	req.Command = nodev1.Command_COMMAND_STOP
	p.must(req)
	if r := p.report(1); !r.GetFinal() || r.GetCounters()["bu.output_events"] == 0 {
		t.Errorf("the last report of n1 is %v", r)
	}
	select {
	case <-p.gone[1]:
		t.Error("n1 ends before the control has read its files")
	case <-time.After(5 * leaveInterval): // looks that it takes at whether it may
	}
	if _, err := p.nodes[1].Report(p.ctx, &nodev1.ReportRequest{Done: true}); err != nil {
		t.Fatal(err)
	}
	select {
	case <-p.gone[1]:
	case <-p.ctx.Done():
		t.Error("n1 does not end")
	}
}

// TestLeavesAtOnce tells a node to end that no run needs.
func TestLeavesAtOnce(t *testing.T) {
	t.Parallel()
	p := newPair(t)
	_, req := p.hostScheduler(testConfig(t, ""))
	req.Command = nodev1.Command_COMMAND_LOAD
	p.must(req)
	close(p.leave[1])
	select {
	case <-p.gone[1]:
	case <-p.ctx.Done():
		t.Error("n1 does not end")
	}
}

// TestLeavesAfterGrace leaves a run that nobody ends.
func TestLeavesAfterGrace(t *testing.T) {
	t.Parallel()
	p := newPairWith(t, 100*time.Millisecond)
	_, req := p.hostScheduler(slowRun(t, t.TempDir()+"/", time.Hour))
	p.bringUp(req)
	close(p.leave[1])
	select {
	case <-p.gone[1]:
	case <-p.ctx.Done():
		t.Error("n1 does not end")
	}
}

func TestMonitor(t *testing.T) {
	t.Parallel()
	p := newPair(t)
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	get := func(path string) (int, string) {
		t.Helper()
		r, err := client.Get("http://" + p.monitors[0] + path)
		if err != nil {
			t.Fatal(err)
		}
		defer r.Body.Close()
		b, err := io.ReadAll(r.Body)
		if err != nil {
			t.Fatal(err)
		}
		return r.StatusCode, string(b)
	}
	p.awaits("the cluster, as n0 sees it", func() bool { code, _ := get("/readyz"); return code == http.StatusOK })
	for path, want := range map[string]string{"/livez": "alive\n", "/readyz": "Offline\n"} {
		if code, body := get(path); code != http.StatusOK || body != want {
			t.Errorf("%s: %d %q", path, code, body)
		}
	}
	for path, want := range map[string]int{"/metrics": http.StatusOK, "/": http.StatusNotFound} {
		if code, _ := get(path); code != want {
			t.Errorf("%s: %d", path, code)
		}
	}
	p.command(&nodev1.CommandRequest{Command: nodev1.Command_COMMAND_LOAD})
	p.command(&nodev1.CommandRequest{Command: nodev1.Command_COMMAND_CONFIGURE, Configuration: []byte("nodes: none")})
	if code, body := get("/readyz"); code != http.StatusServiceUnavailable || !strings.Contains(body, "in Error: n0") {
		t.Errorf("in Error: %d %q", code, body)
	}
	if code, _ := get("/livez"); code != http.StatusOK {
		t.Errorf("in Error it is not alive: %d", code)
	}
}

func TestMonitorOutsideOfTheCluster(t *testing.T) {
	n := &process{runner: fsm.New("n0", fsm.Actions{}, fsm.Options{})}
	defer n.runner.Close()
	answers := (&group{nodes: []*process{n}}).monitorProcess()
	w := httptest.NewRecorder()
	answers.Handler().ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/readyz", nil))
	if w.Code != http.StatusServiceUnavailable || !strings.Contains(w.Body.String(), "not in the cluster") {
		t.Errorf("%d %q", w.Code, w.Body)
	}
	w = httptest.NewRecorder()
	answers.Handler().ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/livez", nil))
	if w.Code != http.StatusOK {
		t.Errorf("it is not alive: %d %q", w.Code, w.Body)
	}
}

// TestLeavesWhenExcluded lets a builder unit go while the others build on.
func TestLeavesWhenExcluded(t *testing.T) {
	t.Parallel()
	p := newFarm(t, cluster.Readout, cluster.Readout, cluster.Readout, cluster.Builder, cluster.Builder, cluster.Builder)
	out := t.TempDir() + "/"
	c := lossConfig(t, func(c *config.Config) { c.Rate, c.Output = 10_000, out })
	sched := p.begin(c)
	p.more(sched, 5)
	close(p.leave[5])
	p.until(5, "leaving with something built",
		func(r *nodev1.Report) bool { return r.GetLeaving() && r.GetCounters()["bu.meps_built"] > 0 })
	if _, err := sched.ExcludeBU("n5"); err != nil {
		t.Fatal(err)
	}
	excluded := time.Now()
	select {
	case <-p.gone[5]: // nobody asks for its last report: a control follows the stream of them
	case <-p.ctx.Done():
		t.Fatal("n5 does not end")
	}
	if took := time.Since(excluded); took >= lingerTimeout {
		t.Errorf("n5 went %v after its exclusion, as if others had to stop first", took)
	}
	if _, err := os.Stat(filepath.Join(recording.RunDir(out, p.run), "bu2-00001.mep")); err != nil {
		t.Errorf("what n5 had built is lost: %v", err)
	}
	p.more(sched, 20)
	for i := range 3 { // links close last: nothing was under way to n5 any more
		if k := p.report(i).GetCounters(); k["ru.writes_lost"] != 0 {
			t.Errorf("n%d lost %d writes under way to a node that left in good order", i, k["ru.writes_lost"])
		}
	}
	p.without(5)
	p.end(sched)
}

// TestLeave follows a node that was told to end at 0 s, with a grace of 30 s.
func TestLeave(t *testing.T) {
	at := func(sec float64) time.Time { return time.Unix(1000, 0).Add(time.Duration(sec * float64(time.Second))) }
	needed, free := leaveObservation{nodeNeeded: true}, leaveObservation{}
	contacted := func(sec float64) leaveObservation { return leaveObservation{nodeNeeded: true, lastContact: at(sec)} }
	type look struct {
		at   float64
		see  leaveObservation
		want leaveAct
	}
	stopping, excluded, linksClosed := leaveObservation{nodeNeeded: true,
		stopping: true}, leaveObservation{excluded: true},
		leaveObservation{linksClosed: true}
	for name, looks := range map[string][]look{
		"nobody hears it": {{0, needed, leaveWait}, {29.9, needed, leaveWait}, {30, needed, leaveForced}},
		"the control drains for longer than the grace": {
			{0, needed, leaveWait}, {20, contacted(20), leaveWait}, {400, contacted(400), leaveWait}, {401, stopping, leaveWait},
			{500, stopping, leaveWait}, {501, free, leaveWait}, {502, leaveObservation{reportCollected: true}, leaveNow},
		},
		"the control promises, and is lost": {
			{0, needed, leaveWait}, {10, contacted(10), leaveWait}, {39.9, contacted(10), leaveWait}, {40, contacted(10),
				leaveForced},
		},
		"its final report is never read": {{0, needed, leaveWait}, {5, free, leaveWait}, {19.9, free, leaveWait},
			{20, free, leaveNow}},
		"its files are read for long": {{0, free, leaveWait}, {100, leaveObservation{lastFileCall: at(100)}, leaveWait},
			{114, leaveObservation{lastFileCall: at(100)}, leaveWait}, {115, leaveObservation{lastFileCall: at(100)}, leaveNow}},
		"excluded": {{0, needed, leaveWait}, {1, excluded, leaveFinish}, {90, linksClosed, leaveWait},
			{92, linksClosed, leaveNow}},
		"included again meanwhile": {
			{0, needed, leaveWait}, {1, excluded, leaveFinish}, {2, needed, leaveWait}, {30, needed, leaveForced},
		},
	} {
		l := departure{requestedAt: at(0), grace: 30 * time.Second}
		for _, k := range looks {
			if got := l.step(at(k.at), k.see); got != k.want {
				t.Errorf("%s: at %v s it is %d, not %d", name, k.at, got, k.want)
			}
		}
	}
}
